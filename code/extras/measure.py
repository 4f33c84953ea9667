"""Measure what each extra changes: stop reason, steps, model and tool calls, tokens, completion.

examples:
  python -m extras.measure                         every extra on a scripted model that shows its fault
  python -m extras.measure --only dedup,compact    some of them

A scripted model shows the mechanism, not how often the fault occurs. Its tokens are estimates of each
request and reply.

exit codes: 0 done    2 bad usage    3 the provider failed    130 interrupted
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent import RunResult, estimate_tokens
from evaluate import evaluate_run
from extras.cost import estimate_prompt
from extras.faults import CASES, FILES, TASK, Case
from extras.stack import EXTRAS, assemble
from safety import BudgetTracker

COLUMNS = ("stop_reason", "steps", "model_calls", "tool_calls", "tokens", "completed")
TITLES = (
    "extra",
    "fault of the model",
    "stop reason",
    "steps",
    "model calls",
    "tool calls",
    "tokens",
    "completed",
)


def play(case: Case, on: bool) -> dict:
    """One scripted run, without or with the extra of ``case``: its score, tokens, model calls and answer."""
    bills: list[int] = []

    def complete(messages: list, tools: list) -> Any:
        bills.append(estimate_prompt(messages, tools))
        message = case.model(messages, tools)
        message.prompt_tokens, message.completion_tokens = bills[-1], estimate_tokens(message)
        message.tokens_used = message.prompt_tokens + message.completion_tokens
        return message

    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder) / "repo"
        repo.mkdir()
        for name, text in FILES.items():
            (repo / name).write_text(text, encoding="utf-8", newline="\n")
        names = [case.extra] if on and case.extra in EXTRAS else []
        runner = assemble(names, audit=Path(folder) / "audit.jsonl", **(case.options if on else {}))
        messages = [
            {"role": "system", "content": "Answer from the repository."},
            {"role": "user", "content": TASK},
        ]
        budget = BudgetTracker(case.max_steps, 10**6)
        try:
            result: RunResult = runner(messages, repo, complete, budget, dispatch=case.dispatch())
        except ConnectionError:
            result = RunResult(None, [], budget.steps, budget.tokens, "raised")
    score = evaluate_run(result, {"answer_contains": case.expected, "optimal_steps": case.optimal})
    return score | {"tokens": result.tokens, "model_calls": len(bills), "answer": result.answer}


def verdict(without: dict, with_it: dict) -> str:
    """In a word or two, what the extra did to a run."""
    if with_it["completed"] != without["completed"]:
        return "completes it" if with_it["completed"] else "loses it"
    if without["stop_reason"] == "raised" != with_it["stop_reason"]:
        return "keeps the run"
    if with_it["answer"] and not without["answer"]:
        return "keeps what was found"
    change = with_it["tokens"] / max(1, without["tokens"]) - 1
    return f"{change:+.0%} tokens" if abs(change) >= 0.005 else "no change"


def row(case: Case) -> list[str]:
    """The case as a row of the table: without → with, one value where both are the same."""
    without, with_it = play(case, on=False), play(case, on=True)
    pairs = [
        [str(run[key]).replace("True", "yes").replace("False", "no") for run in (without, with_it)]
        for key in COLUMNS
    ]
    return [
        case.extra,
        case.fault,
        *(a if a == b else f"{a} → {b}" for a, b in pairs),
        verdict(without, with_it),
    ]


def table(titles: tuple, rows: list[list[str]]) -> str:
    """A Markdown table whose columns line up."""
    lines = [list(titles), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    ]
    return "\n".join([padded[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *padded[1:]])


def main(argv: list[str] | None = None) -> int:
    """Run the command line ``argv`` and return the exit code."""
    about, _, epilog = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="extras.measure",
        description=about,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAMES", help="the extras to measure, separated by commas")
    options = parser.parse_args(argv)
    known = list(dict.fromkeys(case.extra for case in CASES))
    names = options.only.split(",") if options.only else known
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"there is no extra {unknown[0]!r}; the extras are {', '.join(known)}")
    print(table((*TITLES, "effect"), [row(case) for case in CASES if case.extra in names]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
