"""evaluate_tasks.py: run the agent on many tasks and say how it did.

One run is one unit of work: a plain dict in, a plain dict out, by a function that any process can
import. So `evaluate` takes whatever `concurrent.futures.Executor` there is, threads of this machine
or the workers of a cluster. Each record is on disk before the next one is waited for.
"""

import argparse
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from agent import run_agent
from agent_app import build_messages, configure, make_complete
from config import Config, ProviderError
from evaluate import evaluate_run
from lab.reports import compare, document_tables, report
from lab.tables import write_tables
from safety import BudgetTracker

TASKS = Path(__file__).with_name("tasks.jsonl")
PROJECT = Path(__file__).resolve().parents[2]
RUNS = PROJECT / "runs"  # beside code/, so that no run on code/ finds an earlier one's answers
DOCUMENT = PROJECT / "EVALUATION.md"
FIELDS = {
    "id": str, "task": str, "repo": str, "answer_contains": str,
    "optimal_steps": int, "agent_needed": bool, "why": str,
}  # fmt: skip
TRIES = 3  # a run whose worker was lost is sent again
# rooms that a run on this project doesn't see: the tasks and their answers stand there
UNSEEN = ("lab", "learn", "extras", "tests", "runs")


# --- tasks ------------------------------------------------------------------------------------------
def load_tasks(path: Path = TASKS) -> list[dict]:
    """The tasks of a JSON Lines file, checked. Raises ValueError, which names the line, or OSError."""
    tasks: dict[str, dict] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            task = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: not JSON: {error}") from error
        if problem := _problem(task) or (task["id"] in tasks and f"the id {task['id']!r} came before"):
            raise ValueError(f"{path.name}, line {number}: {problem}")
        tasks[task["id"]] = task
    return list(tasks.values())


def _problem(task: Any) -> str | None:
    if not isinstance(task, dict) or task.keys() != FIELDS.keys():
        return f"a task is an object with the keys {', '.join(FIELDS)}"
    for key, kind in FIELDS.items():
        if type(task[key]) is not kind or (kind is str and not task[key].strip()):
            return f"{key} must be a {kind.__name__}{' that is not blank' * (kind is str)}"
    if task["optimal_steps"] < 1:
        return "optimal_steps must be at least 1"
    if task["answer_contains"].lower() in task["task"].lower():
        return "answer_contains stands in the task already: an echo would complete it"
    return None


def resolve_repo(reference: str) -> Path:
    """The directory that a task's ``repo`` means.

    ``stdlib:json`` is a package of the standard library, ``package:dotenv`` an installed one, anything
    else a directory of this project, of which a copy is used without the rooms that hold the answers.
    Raises ValueError when there is no such directory.
    """
    kind, _, name = reference.rpartition(":")
    path = PROJECT / reference
    if kind == "stdlib":
        path = Path(sysconfig.get_paths()["stdlib"]) / name
    elif kind == "package":
        spec = PathFinder.find_spec(name)
        path = Path(next(iter(spec and spec.submodule_search_locations or []), "/nowhere"))
    if not name or kind not in ("", "stdlib", "package") or not path.is_dir():
        raise ValueError(f"there is no repository {reference!r}")
    return path if kind else _copy(path)


@cache
def _copy(path: Path) -> Path:
    keep = tempfile.TemporaryDirectory(prefix="agent-lab-")
    _copies.append(keep)  # removed when the process ends
    left_out = shutil.ignore_patterns(*UNSEEN, ".*", "__pycache__", "*.pyc")
    return Path(shutil.copytree(path, Path(keep.name) / path.name, ignore=left_out))


_copies: list[tempfile.TemporaryDirectory] = []


@cache
def _live_complete(config: Config) -> Callable[[list, list], Any]:
    return make_complete(config)  # once a process, however many runs it plays


# --- runs -------------------------------------------------------------------------------------------
def run_live(task: dict) -> dict:
    """Run one task with a live model and score it; never raises.

    ``task`` is a task of the file with ``repeat`` (int) and ``config`` (fields of `Config`) added. The
    record holds the score, answer, history, tokens, cost in USD (None when unknown) and seconds, and
    ``error`` when the run itself failed.
    """
    record = _blank_record(task)
    messages: list = []
    started = time.perf_counter()
    try:
        config = Config(**task["config"] | {"repo_root": str(resolve_repo(task["repo"]))})
        complete = _live_complete(replace(config, repo_root="."))
        started = time.perf_counter()  # the import of LiteLLM is no part of a run

        def counted(history: list, tools: list) -> Any:
            messages.append(complete(history, tools))
            return messages[-1]

        start = build_messages(task["task"], config.repo_root)
        result = run_agent(
            start, config.repo_root, counted, BudgetTracker(config.max_steps, config.token_budget)
        )
        score = evaluate_run(result, task)
        record |= score | {"answer": result.answer, "detail": result.detail, "tokens": result.tokens}
        record["history"] = [[action.tool, action.arguments] for action in result.history]
    except Exception as error:
        record["error"] = (
            str(error) if isinstance(error, ProviderError) else f"{type(error).__name__}: {error}"
        )
    costs = [getattr(message, "cost", None) for message in messages]
    record["cost"] = None if None in costs or not costs else sum(costs)
    for count in ("prompt_tokens", "completion_tokens"):
        record[count] = sum(getattr(message, count, 0) for message in messages)
    return record | {"seconds": round(time.perf_counter() - started, 3)}


def evaluate(
    tasks: list[dict],
    run_task: Callable[[dict], dict],
    executor: Executor,
    on_record: Callable[[dict], None] = lambda record: None,
) -> list[dict]:
    """Run each task on ``executor`` and return the records, in the order in which they came.

    ``run_task`` and what it takes and returns must be picklable when the executor has processes of its
    own. ``on_record`` gets each record as soon as it is there. A task whose worker is lost is sent
    again, up to three times in all; then its record says so in ``error``, and no other task suffers.
    """
    records: list[dict] = []
    waiting: dict[Future, tuple[dict, int]] = {}

    def done(record: dict) -> None:
        records.append(record)
        on_record(record)

    def send(task: dict, attempt: int) -> None:
        try:
            waiting[executor.submit(run_task, task)] = task, attempt
        except RuntimeError as error:  # the pool is broken or shut down
            done(_lost(task, error))

    for task in tasks:
        send(task, 1)
    while waiting:
        ended = wait(waiting, return_when=FIRST_COMPLETED).done
        for future in [future for future in waiting if future in ended]:  # in the order of sending
            task, attempt = waiting.pop(future)
            try:
                record = future.result()
            except Exception as error:
                if attempt < TRIES:
                    send(task, attempt + 1)
                    continue
                record = _lost(task, error)
            done(record)
    return records


def _lost(task: dict, error: Exception) -> dict:
    return _blank_record(task) | {"error": f"the worker was lost: {type(error).__name__}: {error}"}


def _blank_record(task: dict) -> dict:
    config = task["config"]
    return {
        "id": task["id"],
        "repeat": task["repeat"],
        "model": config["model"],
        "config": config,
        "error": None,
    }


def read_records(path: Path) -> list[dict]:
    """The finished runs in a result file, the last of each task and repeat; a torn line is passed over.

    Raises ValueError when the file holds something else, or OSError.
    """
    found: dict[tuple, dict] = {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            if line.strip() and not line.startswith("{"):
                raise ValueError(f"{path}, line {number}: not a result file") from None
            continue  # torn off when the process was killed
        if not isinstance(record, dict) or not {"id", "repeat", "config", "error"} <= record.keys():
            raise ValueError(f"{path}, line {number}: not a result file")
        if not record["error"]:
            found[record["id"], record["repeat"]] = record
    return list(found.values())


# --- command ----------------------------------------------------------------------------------------
def main(argv: list[str]) -> int:
    """``python -m lab evaluate``: 0 every run finished, 1 some failed, 2 bad usage, 130 interrupted."""
    options = _parse(argv)
    try:
        if options.compare:
            print(compare(*(read_records(Path(name)) for name in options.compare)))
            return 0
        known = load_tasks(options.tasks)
        if options.write:
            files = [read_records(path) for path in options.write]
            if not all(files):
                raise ValueError("a file holds no finished run")
            write_tables(DOCUMENT, document_tables(files, known))
            return 0
        config = configure(options)
        chosen = _choose(known, options)
        out = options.resume or options.out or RUNS / _file_name(config.model)
        records = read_records(out) if options.resume and out.exists() else []
        settings = {name: value for name, value in asdict(config).items() if name != "repo_root"}
        for other in (record["config"].items() for record in records):
            if apart := [f"{name} {value}" for name, value in other if settings.get(name) != value]:
                raise ValueError(f"{out} holds runs with {', '.join(apart)}; compare two files instead")
        out.parent.mkdir(parents=True, exist_ok=True)
        file = open(out, "a" if options.resume else "x", encoding="utf-8")
    except FileExistsError:
        print(f"error: {out} exists; --resume {out} goes on with it", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finished = {(record["id"], record["repeat"]) for record in records}
    work = [
        task | {"repeat": repeat, "config": settings}
        for repeat in range(options.repeat)
        for task in chosen
        if (task["id"], repeat) not in finished
    ]
    if _is_torn(out):
        file.write("\n")
    print(
        f"{len(work)} runs of {config.model}, {len(finished)} done before; results go to {out}",
        file=sys.stderr,
    )

    def keep(record: dict) -> None:
        records.append(record)
        file.write(json.dumps(record) + "\n")
        file.flush()
        told = (
            record["error"] or f"{record['stop_reason']}, {record['steps']} steps, {record['tokens']} tokens"
        )
        mark = " " if record["error"] else "+" if record["completed"] else "-"
        count = len(records) - len(finished)
        print(f"[{count}/{len(work)}] {mark} {record['id']}: {told}", file=sys.stderr, flush=True)

    executor = ThreadPoolExecutor(options.jobs)
    try:
        with file:
            evaluate(work, run_live, executor, keep)
    except KeyboardInterrupt:
        print(f"\ninterrupted; --resume {out} goes on", file=sys.stderr, flush=True)
        os._exit(130)  # a thread in the middle of a model call would hold the process for minutes
    except OSError as error:
        print(
            f"error: {out} can't be written: {error.strerror}; --resume goes on with what is there",
            file=sys.stderr,
        )
        return 2
    print(report(records, known))
    return 1 if any(record["error"] for record in records) else 0


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab evaluate",
        description="Run the tasks with a live model, score each run, and keep each as a line of JSON.",
        epilog="exit codes: 0 every run finished, 1 some failed, 2 bad usage, 130 interrupted",
    )
    add = parser.add_argument
    add("--model", metavar="NAME", help="LiteLLM's name of the model (default: from the environment)")
    add("--max-steps", metavar="N", type=_count, help="ceiling of model calls a run")
    add("--token-budget", metavar="N", type=_count, help="ceiling of tokens a run")
    add("--limit", metavar="N", type=_count, help="only the first N tasks")
    add("--task", metavar="ID", action="append", help="only this task (may be given several times)")
    add("--tasks", metavar="FILE", type=Path, default=TASKS, help="another file of tasks")
    add("--repeat", metavar="N", type=_count, default=1, help="run each task N times (default: 1)")
    add("--jobs", metavar="N", type=_count, default=1, help="runs at a time (default: 1)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", metavar="FILE", type=Path, help="a new result file (default: one in ../runs/)")
    where.add_argument(
        "--resume", metavar="FILE", type=Path, help="go on with a result file: run what it lacks"
    )
    where.add_argument(
        "--compare", metavar=("A", "B"), nargs=2, help="put two result files side by side, run nothing"
    )
    where.add_argument(
        "--write", metavar="FILE", nargs="+", type=Path, help="put their tables into EVALUATION.md, run nothing"
    )
    parser.set_defaults(repo_root=None)
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _choose(tasks: list[dict], options: argparse.Namespace) -> list[dict]:
    names = [task["id"] for task in tasks]
    if unknown := [name for name in options.task or [] if name not in names]:
        raise ValueError(f"there is no task {unknown[0]!r}; the tasks are {', '.join(names)}")
    chosen = [task for task in tasks if not options.task or task["id"] in options.task][: options.limit]
    for reference in {task["repo"] for task in chosen}:
        resolve_repo(reference)
    return chosen


def _file_name(model: str) -> str:
    slug = "".join(char if char.isalnum() else "-" for char in model)
    return f"{slug}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"


def _is_torn(path: Path) -> bool:
    """Whether the file ends in the middle of a line, as a killed process leaves it."""
    data = path.read_bytes()[-1:]
    return data not in (b"", b"\n")
