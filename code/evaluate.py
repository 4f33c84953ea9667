"""evaluate.py: watch a run, and score it from its result alone.

Role: learner. `evaluate_run` (M4) is learner-owned; `Trace` is provided. Score and stop reason stay
apart: the score says how good the run was, the stop reason says how it ended.
"""

import json
import os
import re
import time
from collections.abc import Callable
from typing import Any, TextIO

from agent import RunResult, describe_error, estimate_tokens, get_field, parse_tool_calls
from safety import Action


def evaluate_run(result: RunResult, expected: dict) -> dict:
    """Score a run against what was expected of it.

    ``expected`` is ``{"answer_contains": str, "optimal_steps": int}``. The score has five keys:

    - ``completed`` (bool): the run stopped as ``answered`` and its answer, which isn't blank,
      contains ``answer_contains``, case and all. No answer is not completed.
    - ``steps`` and ``tool_calls`` (int): model calls made, and actions taken.
    - ``efficiency`` (float, at most 1.0): the share of the steps that an optimal run needs.
      A run without a step counts as one of a single step.
    - ``stop_reason`` (str): as the run gave it.

    Raises KeyError when ``expected`` lacks a key.

    >>> run = RunResult(answer="It is groq.", history=[], steps=4, tokens=90, stop_reason="answered")
    >>> evaluate_run(run, {"answer_contains": "groq", "optimal_steps": 2})["efficiency"]
    0.5
    """
    wanted, optimal_steps = expected["answer_contains"], expected["optimal_steps"]
    answer = result.answer or ""
    found = bool(answer.strip()) and wanted in answer
    return {
        "completed": result.stop_reason == "answered" and found,
        "steps": result.steps,
        "tool_calls": len(result.history),
        "efficiency": min(1.0, optimal_steps / max(result.steps, 1)),
        "stop_reason": result.stop_reason,
    }


SHOWN_LINES = 6
SHOWN_CHARS = 160
KEPT_CHARS = 2000
SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSW|CRED|(DATABASE|DB|REDIS|MONGO).*_UR[IL]", re.IGNORECASE)


def redact(text: str) -> str:
    """``text`` without the values of environment variables that are named like secrets."""
    secrets = (value for name, value in os.environ.items() if SECRET_NAME.search(name) and len(value) >= 8)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def printable(text: str) -> str:
    """``text`` as a terminal may show it: no control characters but the newline."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def tell(text: str, stream: TextIO) -> None:
    """Print at once; when nobody can read it (``| head``, a full disk), end the run as Ctrl-C does."""
    try:
        print(printable(text), file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise KeyboardInterrupt from None


def excerpt(label: str, text: str, most: int = SHOWN_LINES, width: int | None = SHOWN_CHARS) -> list[str]:
    """``text`` as lines behind ``label``: ``most`` of them, each cut to ``width`` characters, if given."""
    lines = text.splitlines() or [""]
    shown = [line[:width] + "…" * (width is not None and len(line) > width) for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"… {len(lines) - most} more lines")
    return [f"    {label if number == 0 else '':<12} {line}" for number, line in enumerate(shown)]


def stopped(result: RunResult) -> str:
    """The stop reason with the sentence behind it."""
    return f"{result.stop_reason} ({result.detail})" if result.detail else result.stop_reason


def summary(result: RunResult, score: dict, judged: str, optimal_steps: int) -> str:
    """How a run went, for a person: answer, stop reason, ``judged`` (completed or not) and figures."""
    return (
        f"\nanswer: {(result.answer or '').strip() or '(none)'}\n"
        f"\nstop_reason: {stopped(result)}\ncompleted: {judged}"
        f"\nsteps: {result.steps} (optimal: {optimal_steps}), efficiency: {score['efficiency']:.2f}"
        f"\ntool calls: {score['tool_calls']}, tokens: {result.tokens}"
    )


class Trace:
    """Watches a run through its two seams: tells it to a person as it happens, and to a file.

    ``show`` gets each line, which `lines` keeps. ``file``, when given, gets one JSON event a line,
    flushed before and after each model call and tool call, the environment's secrets taken out.
    """

    def __init__(self, show: Callable[[str], None], file: TextIO | None = None) -> None:
        self.show, self.file, self.lines = show, file, []
        self.steps = self.tokens = 0
        self.cost: float | None = 0.0
        self.start = time.monotonic()

    def event(self, kind: str, **data: Any) -> None:
        """Write one event: its ``kind``, the seconds since the start, the step, and ``data``."""
        if self.file is None:
            return
        event = {"event": kind, "seconds": round(time.monotonic() - self.start, 3), "step": self.steps}
        line = json.dumps(event | {key: self._safe(value) for key, value in data.items()})
        try:
            print(line, file=self.file, flush=True)
        except OSError as error:  # a full disk must not end a run that is being paid for
            self.file = None
            self.say(f"the trace is broken off: {error.strerror}")

    def _safe(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {redact(str(key)): self._safe(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._safe(item) for item in value]
        text = redact(str(value))
        if text == str(value) and isinstance(value, (int, float, type(None))):
            return value
        return text if len(text) <= KEPT_CHARS else f"{text[:KEPT_CHARS]}[{len(text) - KEPT_CHARS} more]"

    def say(self, line: str) -> None:
        """Tell a person one line."""
        line = printable(line)
        self.lines.append(line)
        self.show(line)

    def _tell(self, label: str, text: str) -> None:
        for line in excerpt(label, text.strip()):
            self.say(line)

    def watch_complete(self, complete: Callable) -> Callable:
        """``complete``, watched."""

        def watched(messages: list, tools: list) -> Any:
            self.event("model_call", messages=len(messages))
            try:
                message = complete(messages, tools)
            except BaseException as error:
                self.event("model_error", error=describe_error(error))
                raise
            used = estimate_tokens(message)
            cost = get_field(message, "cost")
            self.cost = None if None in (cost, self.cost) else self.cost + cost
            self.steps, self.tokens = self.steps + 1, self.tokens + used
            calls = [{"tool": call.name, "arguments": call.arguments} for call in parse_tool_calls(message)]
            self.event("model_reply", tokens=used, content=message.content, calls=calls)
            self.say(f"step {self.steps}: {self.tokens} tokens, {time.monotonic() - self.start:.1f} s so far")
            if message.content and (calls or not tools):  # without tools: a plan or a check, no answer
                self._tell("thought", str(message.content))
            return message

        return watched

    def watch_dispatch(self, dispatch: Callable) -> Callable:
        """``dispatch``, watched."""

        def watched(name: str, arguments: dict, repo_root: Any) -> str:
            self._tell("action", str(Action(name, arguments)))
            self.event("tool_call", tool=name, arguments=arguments)
            try:
                observation = dispatch(name, arguments, repo_root)
            except Exception as error:
                self.event("tool_result", tool=name, error=describe_error(error))
                self._tell("observation", describe_error(error))
                raise
            self.event("tool_result", tool=name, result=observation)
            self._tell("observation", str(observation))
            return observation

        return watched
