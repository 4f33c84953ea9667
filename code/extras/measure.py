"""Measure what each extra changes: stop reason, steps, model and tool calls, tokens, completion.

examples:
  python -m extras.measure                         every extra on a scripted model that shows its fault
  python -m extras.measure --only dedup,compact    some of them
  python -m extras.measure --model NAME --only repair+text,plan --limit 5
                                                   a real model on tasks of the lab, without and with them

A scripted model shows the mechanism, not how often the fault occurs; its tokens are estimates of each
request and reply. A real model's rows are means over the tasks.

exit codes: 0 done    2 bad usage or tasks    3 the provider failed
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent import RunResult, estimate_tokens
from agent_app import build_messages, make_complete
from config import Config, ProviderError, load_config
from evaluate import evaluate_run
from extras.cost import estimate_prompt
from extras.faults import CASES, FILES, TASK, Case
from extras.seams import Complete
from extras.stack import EXTRAS, assemble
from safety import BudgetTracker

COLUMNS = ("stop_reason", "steps", "model_calls", "tool_calls", "tokens", "completed")
TITLES = (
    "extra", "fault of the model", "stop reason", "steps", "model calls", "tool calls", "tokens", "completed"
)  # fmt: skip
LIVE_TITLES = ("extras", "completed", "stops", "steps", "model calls", "tool calls", "tokens", "seconds")


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
        names = [name for name in case.extra.split("+") if on and name in EXTRAS]
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


def play_live(names: list[str], task: dict, config: Config, complete: Complete) -> dict:
    """One run of a real model on a task of the lab, with the extras ``names``, as `play` tells it."""
    from lab.evaluate_tasks import resolve_repo

    repo = resolve_repo(task["repo"])
    with tempfile.TemporaryDirectory() as folder:
        runner = assemble(names, max_reply=config.max_tokens, audit=Path(folder) / "audit.jsonl")
        budget, start = BudgetTracker(config.max_steps, config.token_budget), time.perf_counter()
        result = runner(build_messages(task["task"], repo), repo, complete, budget)
    score = evaluate_run(result, task) | {"tokens": result.tokens, "model_calls": result.facts["model_calls"]}
    return score | {"answer": result.answer, "seconds": time.perf_counter() - start}


def live_row(title: str, runs: list[dict]) -> list[str]:
    """The runs with one choice of extras as a row of the table."""
    stops = Counter(run["stop_reason"] for run in runs)
    means = [
        f"{sum(run[key] for run in runs) / len(runs):.1f}" for key in ("steps", "model_calls", "tool_calls")
    ]
    tokens, seconds = (f"{sum(run[key] for run in runs) / len(runs):.0f}" for key in ("tokens", "seconds"))
    completed = f"{sum(run['completed'] for run in runs)} of {len(runs)}"
    return [title, completed, ", ".join(f"{n} {stop}" for stop, n in stops.items()), *means, tokens, seconds]


def measure_live(model: str, choices: list[str], tasks: list[dict]) -> list[list[str]]:
    """A row without extras and one for each choice (names joined by ``+``); progress on stderr."""
    config = replace(load_config(), model=model)
    complete, rows = make_complete(config), []
    for choice in ["none", *choices]:
        runs = []
        for task in tasks:
            runs.append(play_live([] if choice == "none" else choice.split("+"), task, config, complete))
            done = {key: runs[-1][key] for key in ("completed", "stop_reason", "steps", "tokens", "answer")}
            print(f"{choice}, {task['id']}: {done}", file=sys.stderr, flush=True)
        rows.append(live_row(choice, runs))
    return rows


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
    parser.add_argument("--model", metavar="NAME", help="measure this model, LiteLLM's name of it")
    parser.add_argument("--limit", metavar="N", type=int, default=5, help="tasks for --model (default: 5)")
    parser.add_argument(
        "--task", metavar="ID", action="append", help="this task (again for more), not --limit"
    )
    options = parser.parse_args(argv)
    if options.model:
        choices = (options.only or "repair+text,plan,reflect,compact").split(",")
        try:
            for choice in choices:
                assemble(choice.split("+"))
            return print_live(options, choices)
        except ValueError as error:
            parser.error(str(error))
    known = list(dict.fromkeys(case.extra for case in CASES))
    names = options.only.split(",") if options.only else known
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"no script shows the extra {unknown[0]!r}; there are scripts for {', '.join(known)}")
    print(table((*TITLES, "effect"), [row(case) for case in CASES if case.extra in names]))
    return 0


def print_live(options: argparse.Namespace, choices: list[str]) -> int:
    """Measure a real model and print the table. Raises ValueError on tasks that can't be had."""
    from lab.evaluate_tasks import load_tasks

    tasks = load_tasks()
    if unknown := sorted(set(options.task or []) - {task["id"] for task in tasks}):
        raise ValueError(f"there is no task {unknown[0]!r}")
    wanted = options.task or [task["id"] for task in tasks[: options.limit]]
    try:
        rows = measure_live(options.model, choices, [task for task in tasks if task["id"] in wanted])
    except ProviderError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    print(table(LIVE_TITLES, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
