"""replay.py: show a recorded run as a person reads it, and score it without a model.

A trace (``agent_app.py --trace FILE``) is one JSON event a line. It may end anywhere, if the run was
killed: what is there is shown, and where it broke off is said.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from agent import RunResult
from evaluate import evaluate_run, excerpt, summary, tell
from safety import Action

SHOWN_LINES = 12
CUT = re.compile(r"\[\d+ more\]$")  # how a trace marks a text that it cut


def read_trace(path: Path) -> list[dict]:
    """The events of a trace; a torn last line is left out. Raises ValueError or OSError."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.split("\n") if line.strip()]
    events = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                raise ValueError("no event")
        except ValueError:
            if number == len(lines) > 1:
                break
            raise ValueError(f"{path}, line {number}: this is not an event of a trace") from None
        events.append(event)
    if not events:
        raise ValueError(f"{path} holds no event")
    return events


def rebuild(events: list[dict]) -> RunResult:
    """The result of the recorded run; ``stop_reason`` is ``broken off`` where the trace has no end."""
    replies = [event for event in events if event["event"] == "model_reply"]
    history = [Action(event["tool"], event["arguments"]) for event in events if event["event"] == "tool_call"]
    end = next((event for event in events if event["event"] == "end"), {})
    return RunResult(
        end.get("answer"),
        history,
        end.get("steps", len(replies)),
        end.get("tokens", sum(event["tokens"] for event in replies)),
        end.get("stop_reason", "broken off"),
        end.get("detail", "") if end else _broken_off(events[-1]),
    )


def _broken_off(last: dict) -> str:
    return {
        "model_call": "while the model was being asked",
        "model_error": f"the model could not be asked: {last.get('error')}",
        "tool_call": f"while {last.get('tool')} was running",
    }.get(last["event"], "between two events")


def show(events: list[dict]) -> list[str]:
    """The lines that tell a person about the run, event by event."""
    lines, tokens = [], 0
    for event in events:
        kind = event["event"]
        if kind == "run":
            task = " ".join(event["task"].splitlines())
            lines += [f"task: {task}", f"model {event['model']}, repository {event['repo']}"]
        elif kind == "model_reply":
            tokens += event["tokens"]
            lines.append(f"step {event['step']}: {tokens} tokens, {event['seconds']:.1f} s so far")
            if event["calls"] and event["content"]:
                lines += _whole("thought", event["content"])
        elif kind == "model_error":
            lines += _whole("model error", event["error"])
        elif kind == "tool_call":
            lines += _whole("action", str(Action(event["tool"], event["arguments"])))
        elif kind == "tool_result":
            lines += _whole("observation", event.get("error") or event.get("result") or "")
    return lines


def _whole(label: str, text: str) -> list[str]:
    return excerpt(label, str(text).strip("\n"), SHOWN_LINES, width=None)


def main(argv: list[str]) -> int:
    """``python -m lab replay``: 0 shown (and completed, with --expect), 1 not completed, 2 no trace."""
    parser = argparse.ArgumentParser(
        prog="python -m lab replay",
        description="Show a recorded run, and score it without a model.",
        epilog="exit codes: 0 shown (and completed, with --expect), 1 not completed, 2 no readable trace",
    )
    parser.add_argument("trace", type=Path, help="a file that agent_app.py --trace wrote")
    parser.add_argument("--expect", metavar="TEXT", help="completed means: the answer contains TEXT")
    parser.add_argument(
        "--optimal-steps", metavar="N", type=int, default=2, help="steps of the best run (default: 2)"
    )
    options = parser.parse_args(argv)
    if options.expect is not None and not options.expect.strip():
        parser.error("--expect is blank, and a blank text is in every answer")
    if options.optimal_steps < 1:
        parser.error("--optimal-steps is a whole number of at least 1")
    try:
        events = read_trace(options.trace)
        lines, result = show(events), rebuild(events)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError, AttributeError) as error:
        print(f"error: {options.trace}: an event lacks what it should hold ({error})", file=sys.stderr)
        return 2
    expected = {"answer_contains": options.expect or "", "optimal_steps": options.optimal_steps}
    try:
        score = evaluate_run(result, expected)
    except NotImplementedError as error:
        print(f"error: a milestone is missing: {error}", file=sys.stderr)
        return 2
    judged = {True: "yes", False: "no"}[score["completed"]] if options.expect else "not judged (no --expect)"
    if judged == "no" and CUT.search((result.answer or "").strip()):
        judged = "not judged (the trace holds only the start of the answer)"
    tell("\n".join([*lines, summary(result, score, judged, options.optimal_steps)]), sys.stdout)
    return 1 if judged == "no" else 0
