"""documents.py: a finished document becomes the template that a learner fills, and is read back.

A learner's copy gets its root documents from the finished ones, so that each question is written once.
An author follows five rules, none of which shows on the page:

1. A heading (`##` and deeper) is a question or an experiment. Headings are kept, word for word.
   What stands between the `#` title and the first heading is about the worked example; the copy has
   its own introduction there (`learn/milestones.toml`).
2. A block quote (`> ...`) is part of the question and is kept. Put the longer wording of a question, or
   what an answer has to contain, there.
3. A paragraph or list item that opens with a bold label ending in `.`, `:` or `?`
   (`**Hypothesis.** ...`) is a part of the answer. The label is kept; what follows it, up to the next
   label or heading, is taken out. So don't open prose with a bold sentence.
4. A table keeps its header and its first column; its other cells are emptied. HTML comments are kept
   (`<!-- table:stuck -->`).
5. Everything else (paragraphs, lists, code, diagrams) is the answer, and is taken out.

Where text was taken out stands `_Your answer:_`. An answer may follow it or replace it. A part is
filled when it says something beside the placeholder, or when a cell of its table is filled.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

PLACEHOLDER = "_Your answer:_"
LABEL = re.compile(r"((?:[-*] |\d+\. )?\*\*[^*]+?(?:[.:?]\*\*|\*\*:))[ \t]*")
FENCE = re.compile(r" {0,3}(```+|~~~+)")
NOTHING = re.compile(r"(?:todo|tbd|[\W_])*", re.IGNORECASE)


@dataclass
class Section:
    """A heading that asks something, and the parts of its answer, each a list of lines."""

    title: str
    parts: list[list[str]] = field(default_factory=list)

    @property
    def filled(self) -> bool:
        """Whether every part has an answer."""
        return all(self._answered())

    @property
    def begun(self) -> bool:
        """Whether any part has an answer."""
        return any(self._answered())

    def _answered(self) -> list[bool]:
        answers = ["\n".join(part).replace(PLACEHOLDER, "") for part in self.parts]
        return [not NOTHING.fullmatch(answer) for answer in answers]


def make_template(text: str, introduction: str) -> str:
    """The template of a finished document, with ``introduction`` below its title."""
    out: list[str] = []
    opening, asked, label_at = True, False, None  # before the first heading; this part has its placeholder
    for kind, lines in _blocks(text):
        if kind == "heading":
            opening, asked, label_at = False, False, None
        if kind == "title":
            out += [*lines, "", *introduction.strip().splitlines(), ""]
        elif opening:
            continue
        elif kind == "table":
            out += lines[:2] + [_emptied(row) for row in lines[2:]]
        elif kind == "label":
            label = LABEL.match(lines[0])
            asked, label_at = bool("".join([lines[0][label.end() :], *lines[1:]]).strip()), len(out)
            out.append(f"{label[1]} {PLACEHOLDER}" if asked else label[1])
        elif kind != "text":
            out += lines
        elif not asked:
            asked = True
            if label_at is None:
                out.append(PLACEHOLDER)
            else:
                out[label_at] += " " + PLACEHOLDER
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip("\n") + "\n"


def read_sections(text: str) -> list[Section]:
    """The sections of a document that ask something, in order, with what answers them."""
    sections: list[Section] = []
    for kind, lines in _blocks(text):
        if kind == "heading":
            sections.append(Section(lines[0].lstrip("# ")))
        elif sections and kind in ("label", "text", "table"):
            parts = sections[-1].parts
            if kind == "label" or not parts:
                parts.append([])
            if kind == "table":
                lines = [cell for row in lines[2:] for cell in _cells(row)[1:]]
            elif kind == "label":
                lines = [LABEL.sub("", lines[0], count=1), *lines[1:]]
            parts[-1] += lines
    return [section for section in sections if section.parts]


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Cut Markdown into (kind, lines): title, heading, quote, comment, table, label, text or blank."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        kind, end = _kind(lines[at]), at + 1
        if fence := FENCE.match(lines[at]):
            while end < len(lines) and not lines[end].strip().startswith(fence[1]):
                end += 1
            end += 1
        elif kind == "comment":
            while "-->" not in lines[end - 1] and end < len(lines):
                end += 1
        elif kind in ("quote", "table", "label", "text"):
            more = {"table": "table", "quote": "quote"}.get(kind, "text")
            while end < len(lines) and _kind(lines[end]) == more and not FENCE.match(lines[end]):
                end += 1
        yield kind, lines[at:end]
        at = end


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    if line.startswith("# "):
        return "title"
    if re.match(r"#{2,6} ", line):
        return "heading"
    if LABEL.match(line):
        return "label"
    return {">": "quote", "|": "table"}.get(line[0], "comment" if line.startswith("<!--") else "text")


def _cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)\|", row.strip().strip("|"))


def _emptied(row: str) -> str:
    first, *others = _cells(row)
    return "|" + "|".join([first, *(" " * len(cell) for cell in others)]) + "|"
