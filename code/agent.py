"""agent.py: the reliable agent loop, and what it needs to read a model's messages.

Role: learner. `run_agent` (M3) is learner-owned; the records and the message helpers are provided.
Everything that goes beyond the loop wraps one of its two seams: ``complete`` (one model call) or
``dispatch`` (one tool call).
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safety import Action, BudgetTracker, detect_stuck
from tools import MALFORMED, TOOL_SCHEMAS, dispatch_tool

MAX_ERROR_CHARS = 1000
MAX_BRACKETS = 200


@dataclass(frozen=True)
class ToolCall:
    """One tool call of a model's turn, its arguments parsed."""

    id: str
    name: str
    arguments: dict


@dataclass
class RunResult:
    """How a run went.

    ``stop_reason`` is ``"answered"``, ``"stuck"``, ``"budget"`` or ``"max_steps"``; ``detail`` is the
    sentence behind it. ``answer`` is None unless the model answered. ``history`` holds each action
    in order, ``steps`` the model calls, ``tokens`` what they used.
    """

    answer: str | None
    history: list[Action]
    steps: int
    tokens: int
    stop_reason: str
    detail: str = ""


def get_field(record: Any, name: str) -> Any:
    """``record[name]`` of a dict, ``record.name`` of anything else, None when it isn't there."""
    return record.get(name) if isinstance(record, dict) else getattr(record, name, None)


def parse_tool_calls(message: Any) -> list[ToolCall]:
    """The tool calls of an OpenAI-style message, in order; ``[]`` when it has none.

    Never raises on what a model may send. Arguments that aren't a JSON object become
    ``{MALFORMED: what is wrong}``, which `tools.dispatch_tool` refuses with that explanation.
    """
    parsed = []
    for call in _raw_calls(message):
        function = get_field(call, "function")
        name, call_id = get_field(function, "name"), get_field(call, "id")
        name, call_id = (text if isinstance(text, str) else "" for text in (name, call_id))
        parsed.append(ToolCall(call_id, name, _parse_arguments(get_field(function, "arguments"))))
    return parsed


def _raw_calls(message: Any) -> list | tuple:
    calls = get_field(message, "tool_calls")
    return calls if isinstance(calls, (list, tuple)) else ()


def _parse_arguments(raw: Any) -> dict:
    if raw is None or isinstance(raw, str) and not raw.strip():
        return {}  # several providers spell "no arguments" this way
    try:
        text = value = raw if isinstance(raw, str) else json.dumps(raw)
        if text.count("{") + text.count("[") > MAX_BRACKETS:  # as deep as that nobody can compare it
            raise ValueError(f"more than {MAX_BRACKETS} brackets")
        for _ in range(2):  # some models encode the object twice
            if isinstance(value, str):
                value = json.loads(value, strict=False, parse_constant=_finite, parse_float=_finite)
    except (ValueError, TypeError, RecursionError) as error:
        return {MALFORMED: f"{error}; received {raw[:200]!r}" if isinstance(raw, str) else str(error)}
    if not isinstance(value, dict) or MALFORMED in value:
        return {MALFORMED: f"got a JSON {type(value).__name__}; received {text[:200]!r}"}
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a JSON number")
    return number


def estimate_tokens(message: Any) -> int:
    """Tokens that one model call used, at least 1.

    The provider's own count (prompt and completion) when ``complete`` attached it to the message as
    ``tokens_used``; else an offline estimate of the message alone, four characters a token.
    """
    counted = get_field(message, "tokens_used")
    if type(counted) is int and counted > 0:
        return counted
    said = [get_field(message, "content")]
    for call in _raw_calls(message):
        function = get_field(call, "function")
        said += [get_field(function, "name"), get_field(function, "arguments")]
    try:
        return max(1, sum(len(_clean_text(text)) for text in said) // 4)
    except RecursionError:  # nested so deep that nobody can count it
        return 1


def describe_error(error: Exception) -> str:
    """The observation that tells the model about ``error``: ``"Error: "`` and what happened.

    An error whose message says nothing on its own is told with the name of its type.

    >>> describe_error(ValueError("path leaves the repository"))
    'Error: path leaves the repository'
    >>> describe_error(KeyError("path"))
    "Error: KeyError: 'path'"
    """
    try:
        text = str(error).strip()
    except Exception:  # its __str__ is broken, too
        text = ""
    if not text or isinstance(error, KeyError):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return "Error: " + text[:MAX_ERROR_CHARS].encode("utf-8", "replace").decode()


def wire_messages(messages: list) -> list[dict]:
    """The transcript as plain dicts that every provider takes; ``messages`` stays as it is.

    Fields of ours are left out, text becomes valid UTF-8, arguments JSON objects, tool names legal ones,
    and ids unique, the call's and its result's alike. Each call's results stand right behind the turn:
    one that is missing (after an interrupt) is said to be, one without a call is dropped.
    """
    sent, used, waiting = [], {""}, []
    for message in messages:
        role, content = get_field(message, "role") or "assistant", _clean_text(get_field(message, "content"))
        if role == "tool":
            answered = get_field(message, "tool_call_id") or ""
            place = next((i for i, (asked, _) in enumerate(waiting) if asked == answered), None)
            if place is not None:
                sent.append(
                    {
                        "role": "tool",
                        "tool_call_id": waiting.pop(place)[1],
                        "content": content or "(no output)",
                    }
                )
            continue
        _fill_in(sent, waiting)
        turn = {"role": role, "content": content}
        calls = parse_tool_calls(message) if role == "assistant" else []
        for call in calls:
            call_id, number = _clean_text(call.id), len(used)
            while call_id in used:
                call_id, number = f"call_{number}", number + 1
            used.add(call_id)
            waiting.append((call.id, call_id))
            name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unknown"
            arguments = (
                "{}" if MALFORMED in call.arguments else json.dumps(call.arguments, ensure_ascii=False)
            )
            function = {"name": name, "arguments": _clean_text(arguments)}
            turn.setdefault("tool_calls", []).append(
                {"id": call_id, "type": "function", "function": function}
            )
        sent.append(turn)
    _fill_in(sent, waiting)
    return sent


def _fill_in(sent: list[dict], waiting: list[tuple[str, str]]) -> None:
    while waiting:
        sent.append(
            {"role": "tool", "tool_call_id": waiting.pop(0)[1], "content": "Error: interrupted, no result"}
        )


def _clean_text(content: Any) -> str:
    if isinstance(content, list):  # parts, as some providers send them
        texts = [part if isinstance(part, str) else get_field(part, "text") for part in content]
        content = "".join(text for text in texts if isinstance(text, str))
    elif not isinstance(content, str):
        content = "" if content is None else json.dumps(content, default=str)
    return content.encode("utf-8", "replace").decode()


def run_agent(
    messages: list,
    repo_root: str | Path,
    complete: Callable[[list, list], Any],
    budget: BudgetTracker,
    *,
    tools: list = TOOL_SCHEMAS,
    stuck_window: int = 3,
    dispatch: Callable[[str, dict, Any], str] | None = None,
) -> RunResult:
    """Run the tool-calling loop on ``messages`` until it ends, and say why it ended.

    1. Each step asks the model for one message and charges the step to ``budget``.
    2. A message without tool calls is the answer, kept even on the last step: ``"answered"``.
    3. Otherwise the turn is played in full, and a tool that raises becomes an observation.
    4. Then the guards speak, ``"stuck"`` before ``"budget"``; ``"max_steps"`` is the backstop.

    ``complete(messages, tools)`` returns a message with ``content`` (str or None) and ``tool_calls``
    (None or a list). ``dispatch(name, arguments, repo_root)`` runs one tool; None means this
    module's `dispatch_tool`. ``messages`` is extended in place into a legal transcript: the
    assistant's turn, then ``{"role": "tool", "tool_call_id": ..., "content": ...}`` for every call of
    it, in call order. Every call is an `Action` of the history, also one whose tool raised. An
    answer ends the run and isn't added to ``messages``.

    There are never more than ``budget.max_steps`` model calls. Whatever ``complete`` raises goes up
    to the caller, and so do KeyboardInterrupt and SystemExit from a tool.

    >>> from types import SimpleNamespace
    >>> model = lambda messages, tools: SimpleNamespace(content="42", tool_calls=None)
    >>> run_agent([{"role": "user", "content": "?"}], ".", model, BudgetTracker(3, 100)).stop_reason
    'answered'
    """
    dispatch = dispatch or dispatch_tool
    history: list[Action] = []
    steps = tokens = 0

    def end(stop_reason: str, detail: str = "", answer: str | None = None) -> RunResult:
        return RunResult(answer, history, steps, tokens, stop_reason, detail)

    for steps in range(1, budget.max_steps + 1):
        message = complete(messages, tools)
        used = estimate_tokens(message)
        tokens += used
        budget.tick(used)

        calls = parse_tool_calls(message)
        if not calls:
            return end("answered", answer=get_field(message, "content"))

        messages.append(message)
        for call in calls:
            history.append(Action(call.name, call.arguments))
            try:
                observation = dispatch(call.name, call.arguments, repo_root)
            except Exception as error:
                observation = describe_error(error)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})

        if detect_stuck(history, stuck_window):
            return end("stuck", f"{history[-1]} came {stuck_window} times in a row")
        if reason := budget.over_budget():
            return end("budget", reason)
    return end("max_steps", f"the loop's own bound of {budget.max_steps} steps was reached")
