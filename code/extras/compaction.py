"""compaction.py: sends old tool results in short form, so that the prompt stops growing.

Before each request the last four tool messages stay as they are; older ones of more than 300 characters
are shortened, to a cheap model's summary or else to their head and a marker. Only contents change, on a
copy: every call keeps its result, and the transcript keeps everything.

Seam: ``complete``.
Helps: long runs over large files, where each step pays again for all that was read before.
Hurts: when the detail that matters was in the middle; and a provider's prompt cache is lost from the
first shortened message on.
"""

from typing import Any

from agent import get_field
from extras.seams import Complete, charged, recording, text_of

KEEP = 4
LONGER_THAN = 300
MAX_SUMMARY = 600
SUMMARY = "[summary of a longer result] "
REQUEST = "Summarise this tool result in at most 80 words. Keep names, numbers, paths and errors.\n\n{text}"


def head_cut(text: str) -> str:
    """The head of ``text`` and a marker that says how many characters were dropped: `LONGER_THAN` at most."""
    room = LONGER_THAN - len(f"\n[cut: {len(text)} characters dropped]")
    return f"{text[:room]}\n[cut: {len(text) - room} characters dropped]"


def is_short(text: str) -> bool:
    """Whether ``text`` stays as it is, by its length or because it is a summary already."""
    return len(text) <= LONGER_THAN or (text.startswith(SUMMARY) and len(text) <= MAX_SUMMARY)


def compacting(complete: Complete, cheap: Complete | None = None) -> Complete:
    """``complete`` that sends old results short. ``cheap`` writes the summaries, once for each result.

    A summary that fails, is blank or isn't shorter gives way to the head cut; its tokens are charged.
    """
    short: dict[str, str] = {}

    def shorten(text: str, paid: list) -> str:
        if text not in short:
            short[text] = head_cut(text)
            try:
                request = [{"role": "user", "content": REQUEST.format(text=text)}]
                summary = text_of(recording(cheap, paid)(request, [])) if cheap else ""
            except Exception:  # a summary is a convenience; the head cut stands
                summary = ""
            summary = (SUMMARY + summary)[:MAX_SUMMARY] if summary else text
            if len(summary) < len(text):
                short[text] = summary
        return short[text]

    def compacted(messages: list, tools: list) -> Any:
        results = [i for i, message in enumerate(messages) if get_field(message, "role") == "tool"]
        sent, paid = list(messages), []
        for i in results[:-KEEP]:
            if not is_short(text := str(get_field(sent[i], "content") or "")):
                sent[i] = {**sent[i], "content": shorten(text, paid)}
        reply = complete(sent, tools)
        return charged(reply, *paid) if paid else reply

    return compacted
