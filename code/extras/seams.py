"""seams.py: the few pieces that the extras share.

`run_agent` stays as it is. An extra wraps one of its two seams, ``complete(messages, tools)`` (one
model call) or ``dispatch(name, arguments, repo_root)`` (one tool call), or the run as a whole. Two
agreements make any of them combine:

- what an extra adds to a request goes into a copy; the transcript stays the loop's;
- a request without tools is a side question (a plan, a check, an emergency answer): what shapes the
  agent's own turns leaves it alone, what guards the wire (compaction, boundary, cost, audit) doesn't.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from agent import describe_error, estimate_tokens, get_field

Complete = Callable[[list, list], Any]
Dispatch = Callable[[str, dict, Any], str]


class Note(dict):
    """A message that the harness wrote, not a person: a reminder, a request to repair."""


def note(text: str, role: str = "system") -> Note:
    """The harness's own message. A few local chat templates take no system message after the first."""
    return Note(role=role, content=text)


class StopRun(Exception):
    """Raised in ``complete`` to end the run before the next request; `outcome.settling` makes it a result.

    ``reason`` is the stop reason, ``detail`` the sentence behind it, ``answer`` what can still be said,
    ``tokens`` what was paid for since the loop's last step.
    """

    def __init__(self, reason: str, detail: str, answer: str | None = None, tokens: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.answer, self.tokens = reason, detail, answer, tokens


def charged(message: Any, *paid: Any) -> Any:
    """``message`` as a copy that carries the tokens of the ``paid`` replies too: the budget sees them."""
    total = copy(message)
    total.tokens_used = sum(estimate_tokens(reply) for reply in (message, *paid))
    for field in ("prompt_tokens", "completion_tokens"):
        counts = [get_field(reply, field) for reply in (message, *paid)]
        if all(isinstance(count, int) for count in counts):
            setattr(total, field, sum(counts))
    return total


def recording(complete: Complete, replies: list) -> Complete:
    """``complete`` that also puts each reply into ``replies``, for what has to charge or count them."""

    def recorded(messages: list, tools: list) -> Any:
        replies.append(complete(messages, tools))
        return replies[-1]

    return recorded


def rewritten(message: Any, content: str | None, tool_calls: list | None = None) -> Any:
    """``message`` as a copy that says something else."""
    changed = copy(message)
    changed.content, changed.tool_calls = content, tool_calls
    return changed


def text_of(message: Any) -> str:
    """The text of a message; "" when it has none."""
    return str(get_field(message, "content") or "").strip()


def said(message: Any) -> dict:
    """The text of a model's message, as an assistant turn that can be sent back."""
    return {"role": "assistant", "content": text_of(message) or "(no text)"}  # an empty turn is refused


def is_task(message: Any) -> bool:
    """Whether a person wrote the message."""
    return get_field(message, "role") == "user" and not isinstance(message, Note)


def task_of(messages: list) -> str:
    """What the person asked last; "" when nobody asked."""
    return next((text_of(m) for m in reversed(messages) if is_task(m)), "")


def count_since_task(messages: list, role: str) -> int:
    """How many messages of ``role`` came since the person's last; of "tool", one for each call so far."""
    count = 0
    for message in messages:
        count = 0 if is_task(message) else count + ((get_field(message, "role") or "assistant") == role)
    return count


def observe(dispatch: Dispatch, name: str, arguments: dict, repo_root: Any) -> tuple[str, Exception | None]:
    """What the model will see of one tool call, and the error behind it if the tool raised."""
    try:
        return dispatch(name, arguments, repo_root), None
    except Exception as error:
        return describe_error(error), error
