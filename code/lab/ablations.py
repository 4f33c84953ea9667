"""ablations.py: take one guard away, run the same model again, and look at what it cost.

    python -m lab break                                 every experiment, as tables
    python -m lab break no-stuck single-call            these two
    python -m lab break --write                         and put the tables into FAILURE_ANALYSIS.md
    python -m lab break single-call --model NAME        on a language model

The agent is yours: each experiment runs `agent.run_agent` as it is in this folder, and takes a guard
away from outside, through a seam. The model is a script, so that the only difference between two rows
is the guard; what a script does next may depend on what it is shown, as with a model. Whether a
real model would do the same is for a live run to say.

Tokens are counted as a provider bills them: each step pays for all that is sent, every message so far
and the tool schemas, and for the reply, at four characters a token.

Exit codes: 0 done, 2 bad usage, a missing milestone, or a file that can't be written.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import agent
from agent import RunResult, get_field
from agent_app import build_messages, missing_milestone, tell
from evaluate import evaluate_run
from lab import single_call
from lab.order_server import OrderServer, Refused
from lab.sample_repo import FILES, add_log, sample_repo
from lab.script import OffScript, Script, Turns, call
from lab.tables import markdown, ratio, write_tables
from safety import Action, BudgetTracker
from tools import dispatch_tool

REPORT = Path(__file__).resolve().parents[2] / "FAILURE_ANALYSIS.md"
TASK = "What are the quiet hours?"
FOUND = "(22, 7)"  # what a right answer to it contains


# --- one run ---------------------------------------------------------------------------------------
class Uncaught(BaseException):
    """An error of a tool that `run_agent`'s ``except Exception`` doesn't see."""


@dataclass
class Run:
    """One run: its result, or None and the error that ended it; what it spent; its transcript."""

    result: RunResult | None
    error: str
    budget: BudgetTracker
    messages: list

    def row(self, variant: str) -> dict:
        """The columns that most experiments show."""
        return {
            "variant": variant,
            "stop reason": self.result.stop_reason if self.result else "none",
            "steps": self.budget.steps,
            "tool calls": sum(len(get_field(message, "tool_calls") or []) for message in self.messages),
            "tokens": self.budget.tokens,
            "outcome": self.outcome(),
        }

    def outcome(self) -> str:
        if self.result is None:
            return f"run lost: {self.error}"
        if self.result.stop_reason != "answered":
            return "no answer"
        score = evaluate_run(self.result, {"answer_contains": FOUND, "optimal_steps": 1})
        return "right answer" if score["completed"] else "wrong answer"


def play(
    turns: Turns, root: Path, budget: BudgetTracker | None = None, *, complete: Any = None, **guards: Any
) -> Run:
    """Run the agent on a script, by default within 10 steps and 20,000 tokens."""
    budget = budget or BudgetTracker(10, 20_000)
    messages = build_messages(TASK, root)
    try:
        result = agent.run_agent(messages, root, complete or Script(turns), budget, **guards)
        return Run(result, "", budget, messages)
    except (Uncaught, Refused) as error:
        return Run(None, str(error), budget, messages)


def against_first(rows: list[dict]) -> list[dict]:
    """Add how many times the tokens of the first row, the guarded run, each row took."""
    return [row | {"tokens, times the guarded run": ratio(row["tokens"], rows[0]["tokens"])} for row in rows]


def paid_for_nothing(rows: list[dict]) -> list[dict]:
    """Add the tokens that were paid for without getting a right answer."""
    return [
        row | {"paid for nothing": 0 if row["outcome"] == "right answer" else row["tokens"]} for row in rows
    ]


# --- the experiments -------------------------------------------------------------------------------
class Unpoliced(BudgetTracker):
    """A budget that counts and never objects."""

    def over_budget(self) -> None:
        return None


def keeps_reading() -> Turns:
    """Never the same call twice, and never an answer."""
    for line in count(1):
        for path in FILES:
            yield call("read_file", path=path, start_line=line)


def no_budget(root: Path) -> list[dict]:
    """A model that reads on and on, under a budget and without one."""
    on = play(keeps_reading(), root, BudgetTracker(80, 20_000))
    rows = [on.row("budget of 20,000 tokens")]
    for backstop in (40, 80):
        off = play(keeps_reading(), root, Unpoliced(backstop, 20_000))
        rows.append(off.row(f"no budget, backstop at {backstop} steps"))
    return against_first(rows)


def reads_the_log(name: str) -> Turns:
    """Reads a long file to its end, the largest piece that a call gives, as the tool suggests."""
    seen = yield call("read_file", path=name)
    while more := re.search(r"go on with start_line=(\d+)", seen):
        seen = yield call("read_file", path=name, start_line=int(more[1]))
    yield "The log has no fault."


def step_cap_only(root: Path) -> list[dict]:
    """A model whose steps are few and enormous."""
    log = add_log(root)
    both = play(reads_the_log(log), root, BudgetTracker(10, 20_000))
    steps = play(reads_the_log(log), root, BudgetTracker(10, 10**9))
    rows = [both.row("both: 10 steps, 20,000 tokens"), steps.row("steps only: 10 steps")]
    return against_first(rows)


def repeats(*turns: Any) -> Turns:
    for turn in cycle(turns):
        yield turn


def no_stuck(root: Path) -> list[dict]:
    """A model that asks for the same thing again and again, and one that takes turns between two."""
    same = call("search_code", query="DELIVERY_URL")
    other = call("read_file", path="config.py")
    rows = [
        play(repeats(same), root).row("window of 3"),
        play(repeats(same), root, stuck_window=0).row("no stuck detection"),
        play(repeats(same, other), root).row("window of 3, but A, B, A, B"),
    ]
    return against_first(rows)


def reads_each(paths: Iterable[str]) -> Turns:
    """Reads one file after the other, then answers with the lines that speak of quiet hours."""
    found = []
    for path in paths:
        seen = yield call("read_file", path=path)
        found += [line for line in seen.splitlines() if "QUIET_HOURS =" in line]
    yield "\n".join(found)


def stuck_by_name(root: Path) -> list[dict]:
    """A model that reads five files, each once, and your own `detect_stuck`, which sees only their tool."""
    files = ("store.py", "prices.py", "client.py", "notify.py", "config.py")
    whole = play(reads_each(files), root)
    with patch.object(agent, "Action", lambda tool, arguments: Action(tool, {})):  # forgets the arguments
        by_name = play(reads_each(files), root)
    return paid_for_nothing([whole.row("whole action compared"), by_name.row("tool name compared")])


def follows_the_docs() -> Turns:
    """Looks for the quiet hours in the file that a docstring names, which has been renamed since."""
    yield call("read_file", path="cli.py")
    seen = yield call("read_file", path="notify.py")
    stale = re.search(r"see (\w+\.py)", seen)[1]
    seen = yield call("read_file", path=stale)
    while not seen:  # nothing came back, so ask again
        seen = yield call("read_file", path=stale)
    if seen.startswith("Error"):
        seen = yield call("search_code", query="QUIET_HOURS = ")
    yield seen.splitlines()[0]


def raises_through(name: str, arguments: dict, repo_root: Any) -> str:
    try:
        return dispatch_tool(name, arguments, repo_root)
    except Exception as error:
        raise Uncaught(type(error).__name__) from error


def swallows(name: str, arguments: dict, repo_root: Any) -> str:
    observation = ""
    try:
        observation = dispatch_tool(name, arguments, repo_root)
    except Exception:
        pass
    return observation


def no_recovery(root: Path) -> list[dict]:
    """A file isn't where a docstring says, and nothing catches the error."""
    on = play(follows_the_docs(), root)
    off = play(follows_the_docs(), root, dispatch=raises_through)
    return paid_for_nothing([on.row("error fed back"), off.row("error not caught")])


def swallowed_error(root: Path) -> list[dict]:
    """The same missing file, and ``except: pass`` around the tool."""
    on = play(follows_the_docs(), root)
    off = play(follows_the_docs(), root, dispatch=swallows)
    return paid_for_nothing([on.row("error fed back"), off.row("error swallowed")])


def results_first(messages: list) -> list:
    """Each tool result moved in front of the turn that asked for it."""
    moved, held = [], []
    for message in messages:
        if get_field(message, "role") == "tool":
            moved.append(message)
        else:
            moved, held = moved + held, [message]
    return moved + held


def without_turns(messages: list) -> list:
    return [message for message in messages if get_field(message, "role") != "assistant"]


def without_last_result(messages: list) -> list:
    return messages[:-1] if get_field(messages[-1], "role") == "tool" else messages


def message_order(root: Path) -> list[dict]:
    """The same run over HTTP, against a server that checks the order as providers do."""
    rows = []
    for variant, order in {
        "turn, then results": list,
        "results, then turn": results_first,
        "turn left out": without_turns,
        "a result left out": without_last_result,
    }.items():
        with OrderServer(Script(follows_the_docs())) as server:
            run = play(None, root, complete=lambda messages, tools: server.ask(order(messages), tools))
            accepted = f"{server.accepted} of {server.requests}"
        rows.append(run.row(variant) | {"requests accepted": accepted})
    return rows


def collapsed(run: Run) -> RunResult:
    """What a loop returns that knows only its last text."""
    texts = [
        get_field(message, "content") for message in run.messages if get_field(message, "role") == "assistant"
    ]
    last_text = next(filter(None, [run.result.answer, *reversed(texts)]), "")
    return replace(run.result, answer=last_text, stop_reason="answered")


def collapsed_stops(root: Path) -> list[dict]:
    """Four runs that end in four ways, and what their evaluation says with and without the stop reason."""
    guess = "I think that it is (22, 7), but let me look."
    endings = {
        "finds it": play(follows_the_docs(), root),
        "guesses, then repeats itself": play(repeats((guess, call("search_code", query="NIGHT"))), root),
        "reads on, under a budget": play(keeps_reading(), root, BudgetTracker(80, 20_000)),
        "reads on, without one": play(keeps_reading(), root, Unpoliced(12, 20_000)),
    }
    expected = {"answer_contains": FOUND, "optimal_steps": 5}
    rows = []
    for title, run in endings.items():
        kept, told = evaluate_run(run.result, expected), evaluate_run(collapsed(run), expected)
        rows.append(
            {
                "run": title,
                "steps": kept["steps"],
                "tool calls": kept["tool_calls"],
                "tokens": run.result.tokens,
                "stop reason": kept["stop_reason"],
                "completed": kept["completed"],
                "stop reason, collapsed": told["stop_reason"],
                "completed, collapsed": told["completed"],
            }
        )
    total: dict = {"run": "the four together"}
    for key in list(rows[0])[1:]:
        values = [row[key] for row in rows]
        if key.startswith("stop reason"):
            total[key] = f"{len(set(values))} kind{'s' * (len(set(values)) > 1)}"
        else:
            total[key] = f"{sum(values)} of {len(values)}" if key.startswith("completed") else sum(values)
    return [*rows, total]


EXPERIMENTS = {  # name: (title, function)
    "no-budget": ("No budget", no_budget),
    "step-cap-only": ("A step cap, and no token ceiling", step_cap_only),
    "no-stuck": ("No stuck detection", no_stuck),
    "stuck-by-name": ("Stuck detection by tool name", stuck_by_name),
    "no-recovery": ("No recovery", no_recovery),
    "swallowed-error": ("A swallowed error", swallowed_error),
    "message-order": ("Tool results before the assistant turn", message_order),
    "collapsed-stops": ("Stop reasons collapsed", collapsed_stops),
    "single-call": ("An agent where a single call would do", single_call.compare),
}


def run_experiment(name: str) -> list[dict]:
    """The rows of one experiment, run afresh on scripts in a repository of its own."""
    with sample_repo() as root:
        return EXPERIMENTS[name][1](root)


def stored(rows: list[dict]) -> str:
    """The table as `FAILURE_ANALYSIS.md` keeps it: without what differs from run to run."""
    return markdown([{key: row[key] for key in row if not key.startswith(single_call.TIME)} for row in rows])


def main(argv: list[str] | None = None) -> int:
    """Run ``python -m lab break`` with the arguments ``argv`` and return the exit code."""
    options = parse_arguments(argv)
    sys.stdout.reconfigure(errors="replace")
    try:
        if missing := missing_milestone():
            raise ValueError(f"a milestone is missing: {missing}")
        if options.model:
            with sample_repo() as root:
                show("single-call", single_call.compare(root, single_call.open_live(options.model)))
            return 0
        tables = {}
        for name in options.names:
            rows = run_experiment(name)
            show(name, rows)
            tables[name] = stored(rows)
        if options.write:
            write_tables(options.file, tables)
            print(f"{len(tables)} tables written to {options.file.name}")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OffScript as error:
        print(f"error: {error}; are the tests of M1 to M4 green?", file=sys.stderr)
        return 2
    return 0


def show(name: str, rows: list[dict]) -> None:
    tell(f"{name}: {EXPERIMENTS[name][0]}\n\n{markdown(rows)}\n", sys.stdout)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line ``argv``; ends the process with code 2 on bad usage."""
    about, _, epilog = __doc__.partition("\n\n")
    titles = (f"  {name:16} {title}" for name, (title, _) in EXPERIMENTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m lab break",
        description=about,
        epilog="\n".join(["experiments:", *titles, "", epilog]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments to run (default: all)")
    parser.add_argument(
        "--write", action="store_true", help="put the tables between their markers in FAILURE_ANALYSIS.md"
    )
    parser.add_argument("--file", type=Path, default=REPORT, help="write to this file instead")
    parser.add_argument("--model", help="run single-call on this language model (LiteLLM's name)")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.names if name not in EXPERIMENTS]:
        parser.error(f"there is no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    if options.model and (options.write or options.names not in ([], ["single-call"])):
        parser.error("--model goes with single-call alone, and its table isn't stored")
    options.names = list(dict.fromkeys(options.names)) or list(EXPERIMENTS)
    return options
