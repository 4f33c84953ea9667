"""bench.py: what the core costs, in ratios of one run, beside the goals that it was built to.

    python -m lab bench             the loop, the search, large inputs, start-up, tokens
    python -m lab bench TREE        the search on your own tree, too
    python -m lab bench --quick     small sizes, in a few seconds

Times are CPU time (wall-clock time on Windows, whose CPU clock is too coarse). The rivals take turns in
each round, a ratio is taken within a round, and what is shown is the median of the rounds, with the
smallest and the largest. A busy machine shows in that spread.

Exit codes: 0 measured, whether the goals were met or not, 2 bad usage or a missing milestone.
"""

import argparse
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from agent import run_agent
from agent_app import missing_milestone, tell
from lab.ablations import Unpoliced, keeps_reading, play
from lab.sample_repo import sample_repo
from lab.tables import markdown, ratio
from safety import BudgetTracker
from tools import MAX_FILE_BYTES, SECRET, SKIPPED_DIRS, TOOL_SCHEMAS, list_directory, read_file, search_code

try:
    import resource
except ImportError:  # Windows
    resource = None

CODE = Path(__file__).resolve().parents[1]
ABSENT = os.urandom(12).hex()  # random, so that no file holds it
COMMON = "self"
FLAT = 1.5  # a step may cost this many times a step of a much shorter run, and still count as flat


@dataclass(frozen=True)
class Sizes:
    """How much is measured: ``rounds`` of everything, runs of these ``steps``, inputs of this size."""

    rounds: int = 7
    steps: tuple[int, ...] = (10, 100, 1000, 4000)
    steps_a_sample: int = 8000
    file_bytes: int = 2 << 30
    entries: int = 100_000


QUICK = Sizes(rounds=3, steps=(10, 100), steps_a_sample=1000, file_bytes=1 << 24, entries=2000)


# --- measuring -------------------------------------------------------------------------------------
def cpu(function: Callable[[], Any], times: int = 1) -> float:
    """Seconds of CPU that one call of ``function`` takes, over ``times`` calls."""
    start = _own_clock()
    for _ in range(times):
        function()
    return (_own_clock() - start) / times


def child_cpu(command: list[str], folder: Path) -> float:
    """Seconds of CPU that a program takes, with its output read to the end."""
    start = _children_clock()
    _run(command, folder)
    return _children_clock() - start


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)


def _own_clock() -> float:
    return time.process_time() if resource else time.perf_counter()


def _children_clock() -> float:
    if resource is None:
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def child_in_empty(command: list[str]) -> float:
    """What the start of a search program costs: `child_cpu` where there is nothing to search."""
    with TemporaryDirectory() as folder:
        return child_cpu(command, Path(folder))


def rounds(number: int, rivals: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """What each rival measured, taking turns, in ``number`` rounds after one that isn't counted."""
    for measure in rivals.values():
        measure()
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(number):
        for name, measure in rivals.items():
            taken[name].append(measure())
    return taken


def row(what: str, values: list[float], unit: str, goal: float | None = None) -> dict:
    """A line of the table: median, smallest and largest of ``values``, and whether it meets ``goal``."""
    values = sorted(value for value in values if not math.isnan(value))
    if not values:
        return said(what, "too quick for this clock")
    middle = statistics.median(values)
    return {
        "what": what,
        "median": f"{figure(middle)} {unit}".rstrip(),
        "spread": f"{figure(values[0])} to {figure(values[-1])}",
        "goal": "" if goal is None else f"at most {goal:g} {unit}".rstrip(),
        "met": "" if goal is None else "ok" if middle <= goal else "over",
    }


def said(what: str, sentence: str) -> dict:
    """A line of the table for what wasn't measured, and why."""
    return {"what": what, "median": sentence, "spread": "", "goal": "", "met": ""}


def scaled(values: list[float], factor: float) -> list[float]:
    return [value * factor for value in values]


def in_rounds(part: list[float], whole: list[float]) -> list[float]:
    """The ratio in each round, NaN where the clock was too coarse for the round."""
    return [one / other if other else math.nan for one, other in zip(part, whole)]


def figure(value: float) -> str:
    """A number with about three digits.

    >>> [figure(value) for value in (1234.5, 12.34, 1, 0.1234)]
    ['1,234', '12.3', '1.00', '0.123']
    """
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


# --- the loop --------------------------------------------------------------------------------------
def bare_loop(transcript: list, complete: Callable, dispatch: Callable, limit: int) -> str | None:
    """A tool loop without a guard or a record: what any agent has to do."""
    for _ in range(limit):
        reply = complete(transcript, TOOL_SCHEMAS)
        if not reply.tool_calls:
            return reply.content
        transcript.append(reply)
        for made in reply.tool_calls:
            text = dispatch(made.function.name, json.loads(made.function.arguments), ".")
            transcript.append({"role": "tool", "tool_call_id": made.id, "content": text})
    return None


def loop_rows(sizes: Sizes) -> list[dict]:
    """CPU a step of `run_agent` and of the bare loop, with a model and a tool that do nothing."""
    rivals = {}
    for steps in sizes.steps:
        turns = [_turn(number) for number in range(steps)]
        times = max(1, sizes.steps_a_sample // steps)
        for run in (_run_agent, _run_bare):
            rivals[run, steps] = lambda run=run, turns=turns, times=times: (
                cpu(lambda: run(turns), times) / len(turns)
            )
    taken = rounds(sizes.rounds, rivals)
    ours = {steps: taken[_run_agent, steps] for steps in sizes.steps}
    bare = {steps: taken[_run_bare, steps] for steps in sizes.steps}
    few, many = sizes.steps[-3:][0], sizes.steps[-1]  # of the shortest runs, the start weighs most
    rows = [row(f"run_agent, each of {steps:,} steps", scaled(ours[steps], 1e6), "µs", 30) for steps in ours]
    rows += [row(f"bare loop, each of {steps:,} steps", scaled(bare[steps], 1e6), "µs") for steps in bare]
    rows += [
        row(f"run_agent / bare, {steps:,} steps", in_rounds(ours[steps], bare[steps]), "") for steps in ours
    ]
    growth = f"each of {many:,} / of {few:,}"
    rows.append(row(f"run_agent, {growth}", in_rounds(ours[many], ours[few]), "", FLAT))
    rows.append(row(f"bare loop, {growth}", in_rounds(bare[many], bare[few]), ""))
    return rows


def _turn(number: int) -> SimpleNamespace:
    function = SimpleNamespace(name="read_file", arguments=json.dumps({"path": f"file{number}.py"}))
    made = SimpleNamespace(id=f"c{number}", type="function", function=function)
    return SimpleNamespace(role="assistant", content=None, tool_calls=[made], tokens_used=1)


def _run_agent(turns: list) -> None:
    model = iter(turns)
    run_agent(
        [], ".", lambda messages, tools: next(model), BudgetTracker(len(turns), 10**9), dispatch=_no_tool
    )


def _run_bare(turns: list) -> None:
    model = iter(turns)
    bare_loop([], lambda messages, tools: next(model), _no_tool, len(turns))


def _no_tool(name: str, arguments: dict, repo_root: Any) -> str:
    return "nothing"


# --- the search ------------------------------------------------------------------------------------
def textbook_search(root: Path, query: str) -> list[str]:
    """The search as one would first write it."""
    hits = []
    for path in sorted(root.rglob("*")):
        if not path.is_file() or not SKIPPED_DIRS.isdisjoint(path.relative_to(root).parts):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if query in line:
                hits.append(f"{path.relative_to(root)}:{number}: {line}")
    return hits


def copy_library(target: Path) -> Path:
    """A copy of the standard library's tree without what a rival leaves out: caches, binaries, secrets."""
    library = Path(sysconfig.get_paths()["stdlib"])
    left_out = SKIPPED_DIRS | {"site-packages", "dist-packages"}
    for folder, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name not in left_out]
        copied = target / Path(folder).relative_to(library)
        copied.mkdir(parents=True)
        for name in names:
            path = Path(folder, name)
            if not path.is_file() or SECRET.fullmatch(name) or path.stat().st_size > MAX_FILE_BYTES:
                continue
            if b"\0" not in (data := path.read_bytes()):
                (copied / name).write_bytes(data)
    return target


def search_rows(tree: Path, sizes: Sizes, skip: Iterable[str] = ()) -> list[dict]:
    """CPU of a search through ``tree`` for a string that isn't there, by each rival that this machine has.

    ``skip`` are directory names that ripgrep has to leave out to see the files that `search_code` sees.
    The goals are meant for trees of 1,000 files and more, and left out for smaller ones.
    """
    programs = {
        "rg -j1": [*_rg(skip), "-F", "-n", "-j1", ABSENT, "."],
        "git grep, one thread": ["git", "grep", "--no-index", "--threads=1", "-F", "-n", ABSENT, "--", "."],
    }
    here = {name: command for name, command in programs.items() if finds_nothing(command, tree)}
    rivals = {name: partial(child_cpu, command, tree) for name, command in here.items()}
    if "rg -j1" in here:
        rivals["rg -j1, an empty directory"] = partial(child_in_empty, programs["rg -j1"])
    rivals["textbook"] = partial(cpu, partial(textbook_search, tree, ABSENT))
    rivals["search_code"] = partial(cpu, partial(search_code, tree, ABSENT))
    rivals["search_code, common string"] = partial(cpu, partial(search_code, tree, COMMON))
    taken = rounds(sizes.rounds, rivals)

    large = files_searched(tree)[0] >= 1000
    ours, common = taken["search_code"], taken["search_code, common string"]
    rows = [
        said(name, "not measured: not here, or it can't run this") for name in programs if name not in here
    ]
    rows += [row(name, scaled(values, 1e3), "ms") for name, values in taken.items()]

    def compare(what: str, part: list[float], whole: list[float], goal: float | None) -> None:
        rows.append(row(what, in_rounds(part, whole), "", goal if large else None))

    if "rg -j1" in here:
        searching = [
            whole - start for whole, start in zip(taken["rg -j1"], taken["rg -j1, an empty directory"])
        ]
        compare("search_code / rg -j1 without its start", ours, searching, 1.7)
    for name, goal in (("rg -j1", 1.7), ("git grep, one thread", None), ("textbook", 0.2)):
        if name in taken:
            compare(f"search_code / {name}", ours, taken[name], goal)
    compare("search_code, common string / absent", common, ours, 0.05)
    return rows


def _rg(skip: Iterable[str]) -> list[str]:
    globs = [part for name in sorted(skip) for part in ("--glob", f"!{name}")]
    return ["rg", "--no-config", "--no-ignore", "--hidden", *globs]


def finds_nothing(command: list[str], tree: Path) -> bool:
    """Whether a search program is here, runs, and agrees that the string isn't there (exit code 1)."""
    return shutil.which(command[0]) is not None and _run(command, tree).returncode == 1


def files_searched(tree: Path) -> tuple[int, int]:
    """How many files `search_code` looks at, and how many it leaves out."""
    answer = search_code(tree, ABSENT)
    searched, skipped = re.search(r"\((\d+) files searched(?:, (\d+) skipped)?", answer).groups()
    return int(searched), int(skipped or 0)


def files_seen(tree: Path, skip: Iterable[str] = ()) -> str:
    """A clause for the title: how many files `search_code` and ripgrep look at."""
    searched, skipped = files_searched(tree)
    text = f"search_code looks at {searched:,} files and leaves out {skipped:,}"
    if shutil.which("rg"):
        listed = _run([*_rg(skip), "--files"], tree).stdout.count(b"\n")
        text += f", rg looks at {listed:,}"
    return text


# --- large inputs ------------------------------------------------------------------------------------
def large_input_rows(folder: Path, sizes: Sizes) -> list[dict]:
    """The first part of an enormous file, and a directory with very many entries."""
    large = f"read_file, the start of {figure(sizes.file_bytes / 1e9)} GB"
    with open(folder / "large.txt", "wb") as file:
        file.write(b"a line of text, like many others\n" * 3000)
        file.truncate(sizes.file_bytes)  # the rest is a hole, which takes no room on most file systems
    crowd = folder / "crowd"
    crowd.mkdir()
    for number in range(sizes.entries):
        os.close(os.open(crowd / f"entry{number}", os.O_CREAT | os.O_WRONLY))
    reading = partial(read_file, folder, "large.txt")
    listing = partial(list_directory, folder, "crowd")
    taken = rounds(sizes.rounds, {"read": lambda: cpu(reading, 20), "list": lambda: cpu(listing)})
    tracemalloc.start()
    reading()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [
        row(large, scaled(taken["read"], 1e3), "ms", 10),
        row(f"{large}: memory", [peak / 1e6], "MB", 1),
        row(f"list_directory, {sizes.entries:,} entries", scaled(taken["list"], 1e3), "ms", 100),
    ]


# --- start-up and tokens -------------------------------------------------------------------------------
def start_rows(sizes: Sizes) -> list[dict]:
    """CPU of a Python that does nothing, that imports the agent, and that shows the app's help."""
    rivals = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import agent'": [sys.executable, "-c", "import agent"],
        "python agent_app.py --help": [sys.executable, "agent_app.py", "--help"],
    }
    taken = rounds(
        sizes.rounds, {name: partial(child_cpu, command, CODE) for name, command in rivals.items()}
    )
    bare, imported, helped = taken.values()
    nothing, importing, helping = taken
    return [
        row(nothing, scaled(bare, 1e3), "ms"),
        row(importing, scaled(imported, 1e3), "ms"),
        row("import agent alone", scaled([one - other for one, other in zip(imported, bare)], 1e3), "ms", 60),
        row(helping, scaled(helped, 1e3), "ms", 150),
        row(f"{importing} / pass", in_rounds(imported, bare), ""),
        row(f"{helping} / pass", in_rounds(helped, bare), ""),
    ]


def token_rows() -> list[dict]:
    """Tokens of a run that reads on and on, without a budget and with one: a count, the same each time."""
    rows, before = [], None
    with sample_repo() as root:
        for steps in (10, 20, 40, 80):
            tokens = play(keeps_reading(), root, Unpoliced(steps, 0)).budget.tokens
            kept = play(keeps_reading(), root, BudgetTracker(steps, 20_000)).budget
            rows.append(
                {
                    "steps": steps,
                    "tokens": tokens,
                    "tokens a step": tokens // steps,
                    "times the row above": ratio(tokens, before) if before else "",
                    "under a budget of 20,000": f"{kept.tokens:,} in {kept.steps} steps",
                }
            )
            before = tokens
    return rows


# --- the command ---------------------------------------------------------------------------------------
def main(argv: list[str] | None = None) -> int:
    """Run ``python -m lab bench`` with the arguments ``argv`` and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lab bench",
        description=__doc__.partition("\n\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "tree", nargs="?", type=Path, help="a directory to search, beside the standard library"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: a look, not a verdict")
    options = parser.parse_args(argv)
    if options.tree and not options.tree.is_dir():
        parser.error(f"{options.tree} is not a directory")
    sys.stdout.reconfigure(errors="replace")
    if missing := missing_milestone():
        print(f"error: a milestone is missing: {missing}", file=sys.stderr)
        return 2
    measure(options.tree, QUICK if options.quick else Sizes())
    return 0


def measure(tree: Path | None, sizes: Sizes) -> None:
    """Measure everything and print each table when it is there."""
    version = ".".join(map(str, sys.version_info[:3]))
    machine = f"Python {version} on {platform.system()}, {os.cpu_count()} cores"
    tell(f"{machine}; medians of {sizes.rounds} rounds, CPU time\n", sys.stdout)
    goals = show("The loop: a model and a tool that do nothing", loop_rows(sizes))
    with TemporaryDirectory() as folder:
        library = copy_library(Path(folder, "library"))
        goals += show(f"Search: the standard library ({files_seen(library)})", search_rows(library, sizes))
    if tree:
        goals += show(
            f"Search: {tree} ({files_seen(tree, SKIPPED_DIRS)})", search_rows(tree, sizes, SKIPPED_DIRS)
        )
    with TemporaryDirectory() as folder:
        try:
            rows = large_input_rows(Path(folder), sizes)
        except OSError as error:
            rows = [said("large inputs", f"not measured: {error.strerror}")]
        goals += show("Large inputs", rows)
    goals += show("Start-up", start_rows(sizes))
    show("Tokens sent against steps, counted on a script", token_rows())
    over = goals.count("over")
    note = " (the goals are meant for the full sizes)" if sizes == QUICK else ""
    tell(f"{len(goals) - over} of {len(goals)} goals met{note}", sys.stdout)


def show(title: str, rows: list[dict]) -> list[str]:
    """Print a table; return how each row that has a goal did."""
    tell(f"{title}\n\n{markdown(rows)}\n", sys.stdout)
    return [line["met"] for line in rows if line.get("met")]
