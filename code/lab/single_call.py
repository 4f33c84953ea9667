"""single_call.py: the agent where a single call would do, on a script or on a live model.

The same questions are asked twice: the loop has to look, the single call has the file in its prompt. In
the last one the asker doesn't know the file, so that the single call needs the whole repository.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent import RunResult, estimate_tokens, run_agent
from agent_app import build_messages, make_complete
from config import ProviderError, load_config, model_problem
from evaluate import evaluate_run
from lab.sample_repo import sample_files
from lab.script import Script, Turns, call
from lab.tables import ratio
from safety import BudgetTracker

TIME = "seconds"


@dataclass(frozen=True)
class Question:
    """``path`` is the file that the asker points at, None when the asker doesn't know it.

    ``look`` are the words that lead a script to the passage, one after the other.
    """

    task: str
    path: str | None
    look: tuple[str, ...]
    expect: str


QUESTIONS = [
    Question("In config.py: what is TIMEOUT_SECONDS set to?", "config.py", ("TIMEOUT_SECONDS",), "12"),
    Question("In prices.py: what does surcharge return for 40 kg?", "prices.py", ("def surcharge",), "18.5"),
    Question("In client.py: what does fetch raise?", "client.py", ("def fetch",), "CarrierDown"),
    Question(
        "In store.py: which table does open_store create?", "store.py", ("def open_store",), "movements"
    ),
    Question("In notify.py: which setting does may_send use?", "notify.py", ("def may_send",), "QUIET_HOURS"),
    Question("What is the CUT_OFF_HOUR of Fennel Freight?", None, ("Fennel Freight", "CUT_OFF_HOUR"), "20"),
]
Complete = Callable[[list, list], Any]


def by_loop(question: Question, root: Path, complete: Complete, budget: BudgetTracker) -> RunResult:
    """Ask the agent."""
    return run_agent(build_messages(question.task, root), root, complete, budget)


def by_one_call(question: Question, root: Path, complete: Complete, budget: BudgetTracker) -> RunResult:
    """Ask once, without tools, with the file in the prompt, or with every file when none is named."""
    message = complete([{"role": "user", "content": f"{question.task}\n\n{text_for(question, root)}"}], [])
    used = estimate_tokens(message)
    budget.tick(used)
    return RunResult(message.content, [], 1, used, "answered")


def text_for(question: Question, root: Path) -> str:
    """The file that a question names, or the whole repository."""
    paths = [question.path] if question.path else sample_files()
    return "\n".join(f"--- {path}\n{(root / path).read_text(encoding='utf-8')}" for path in paths)


# --- the scripted model: what it says is found in what it was shown -----------------------------------
def looks_it_up(question: Question) -> Turns:
    """The best that a loop can do: search only when no file is named, read it, answer."""
    path = question.path
    if path is None:
        seen = yield call("search_code", query=question.look[0])
        path = seen.split(":")[0]
    seen = yield call("read_file", path=path)
    yield passage(question, seen)


def is_shown_it(question: Question, root: Path) -> Turns:
    yield passage(question, text_for(question, root))


def passage(question: Question, text: str) -> str:
    """The lines from the words that the question leads to up to the next blank line."""
    at = 0
    for word in question.look:
        at = text.index(word, at)
    return text[text.rfind("\n", 0, at) + 1 :].split("\n\n")[0]


# --- side by side ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Live:
    """A model that is really asked, and the limits of its runs."""

    model: str
    complete: Complete
    max_steps: int
    max_tokens: int


def open_live(model: str) -> Live:
    """Get ``model`` ready. Raises ValueError, one sentence, when its key or a setting is missing."""
    config = replace(load_config(), model=model)
    if problem := model_problem(model):
        raise ValueError(problem)
    return Live(model, make_complete(config), config.max_steps, config.token_budget)


def compare(root: Path, live: Live | None = None) -> list[dict]:
    """A row a question: what the loop and the single call took and how each ended.

    Asks ``live``, or a script when there is none. Columns that start with `TIME` differ from run to run.
    """
    rows, known = [], []
    for question in QUESTIONS:
        if live:
            print(f"asking {live.model}: {question.task}", file=sys.stderr, flush=True)
        pair = _ask(by_loop, question, root, live), _ask(by_one_call, question, root, live)
        if question.path:
            known.append(pair)
        else:
            rows.append(_row(f"the {len(known)} above together", *map(_sum, zip(*known)), live))
        rows.append(_row(question.task, *pair, live))
    return rows


def _ask(way: Callable, question: Question, root: Path, live: Live | None) -> dict:
    if live:
        complete, budget = live.complete, BudgetTracker(live.max_steps, live.max_tokens)
    else:
        turns = looks_it_up(question) if way is by_loop else is_shown_it(question, root)
        complete, budget = Script(turns), BudgetTracker(10, 20_000)
    start = time.perf_counter()
    try:
        result = way(question, root, complete, budget)
    except ProviderError as error:
        print(error, file=sys.stderr)
        result = RunResult(None, [], budget.steps, budget.tokens, "provider failed")
    seconds = time.perf_counter() - start
    score = evaluate_run(result, {"answer_contains": question.expect, "optimal_steps": 1})
    wrong = "wrong" if result.stop_reason == "answered" else result.stop_reason
    spent = {"steps": result.steps, "tool calls": len(result.history), "tokens": result.tokens}
    return spent | {"answer": "right" if score["completed"] else wrong, TIME: seconds}


def _sum(asked: tuple[dict, ...]) -> dict:
    total = {key: sum(one[key] for one in asked) for key in asked[0] if key != "answer"}
    return total | {"answer": f"{sum(one['answer'] == 'right' for one in asked)} right"}


def _row(title: str, loop: dict, once: dict, live: Live | None) -> dict:
    row = {"question": title}
    for key in ("steps", "tool calls", "tokens", "answer"):
        row[f"{key}: loop / call"] = f"{_shown(loop[key])} / {_shown(once[key])}"
        if key == "tokens":
            row["tokens, ratio"] = ratio(loop[key], once[key])
    if live:
        row[f"{TIME}: loop / call"] = f"{loop[TIME]:.2f} / {once[TIME]:.2f}"
    return row | {f"{TIME}, ratio": ratio(loop[TIME], once[TIME])}


def _shown(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
