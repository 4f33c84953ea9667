"""The guiding tests catch every wrong version of the table, and accept every right one, however written."""

import doctest
import importlib

import pytest

from learn import misconceptions
from learn.misconceptions import CORE, Version, load, main, try_out

WRONG, BASE = load()


def right(id: str, milestone: str, function: str, code: str) -> Version:
    return Version(id, milestone, function, code)


RIGHT = BASE + [
    right(
        "by a set",
        "M1",
        "detect_stuck",
        """
def detect_stuck(history, window=3):
    return len(history) >= window > 0 and len(set(history[-window:])) == 1
""",
    ),
    right(
        "by counting back",
        "M1",
        "detect_stuck",
        """
def detect_stuck(history, window=3):
    if window < 1:
        return False
    run = 0
    for action in reversed(history):
        if action != history[-1]:
            break
        run += 1
    return run >= window
""",
    ),
    right(
        "by sorted JSON",
        "M1",
        "detect_stuck",
        """
import json


def as_text(action):
    return json.dumps([action.tool, action.arguments], sort_keys=True)


def detect_stuck(history: list, window: int = 3) -> bool:
    if window <= 0 or len(history) < window:
        return False
    first, *others = [as_text(action) for action in history[-window:]]
    return not any(other != first for other in others)
""",
    ),
    right(
        "by a list of repeats",
        "M1",
        "detect_stuck",
        """
def detect_stuck(history, window=3):
    return bool(history) and window >= 1 and history[-window:] == [history[-1]] * window
""",
    ),
    right(
        "in one line, and with a return value",
        "M2",
        "BudgetTracker.tick",
        """
def tick(self, tokens_used: int):
    self.steps, self.tokens = self.steps + 1, self.tokens + tokens_used
    return self
""",
    ),
    right(
        "in a loop, in other words",
        "M2",
        "BudgetTracker.over_budget",
        """
def over_budget(self):
    pairs = {"Step": (self.steps, self.max_steps), "Token": (self.tokens, self.max_tokens)}
    for unit, (spent, allowed) in pairs.items():
        if not spent < allowed:
            return f"{unit} ceiling of {allowed:,} reached: {spent:,} used"
""",
    ),
    right(
        "with every ceiling that is reached",
        "M2",
        "BudgetTracker.over_budget",
        """
def over_budget(self):
    reasons = []
    if self.max_steps - self.steps <= 0:
        reasons.append(f"step budget exhausted ({self.steps}/{self.max_steps})")
    if self.max_tokens - self.tokens <= 0:
        reasons.append(f"token budget exhausted ({self.tokens}/{self.max_tokens}) after {self.steps} steps")
    return " and ".join(reasons) or None
""",
    ),
    right(
        "with the tracker's own counts",
        "M3",
        "run_agent",
        """
def run_agent(messages, repo_root, complete, budget, *, tools=TOOL_SCHEMAS, stuck_window=3, dispatch=None):
    run_tool = dispatch_tool if dispatch is None else dispatch
    history = []
    before = budget.tokens, budget.steps

    def finish(reason, answer=None):
        return RunResult(
            answer=answer,
            history=history,
            steps=budget.steps - before[1],
            tokens=budget.tokens - before[0],
            stop_reason=reason,
        )

    for _ in range(budget.max_steps):
        message = complete(messages=messages, tools=tools)
        budget.tick(estimate_tokens(message))
        if not (calls := parse_tool_calls(message)):
            return finish("answered", message.content)
        messages += [message]
        for call in calls:
            history += [Action(tool=call.name, arguments=call.arguments)]
            try:
                seen = run_tool(name=call.name, arguments=call.arguments, repo_root=repo_root)
            except Exception as error:
                seen = describe_error(error)
            messages += [{"role": "tool", "tool_call_id": call.id, "name": call.name, "content": seen}]
        if detect_stuck(history, window=stuck_window):
            return finish("stuck")
        if budget.over_budget() is not None:
            return finish("budget")
    return finish("max_steps")
""",
    ),
    right(
        "with copies, dicts and a traceback",
        "M3",
        "run_agent",
        """
import traceback


def observe(dispatch, call, repo_root):
    try:
        return str(dispatch(call.name, dict(call.arguments), Path(repo_root)))
    except Exception as error:
        return "Error: " + "".join(traceback.format_exception(error))


def run_agent(messages, repo_root, complete, budget, *, tools=TOOL_SCHEMAS, stuck_window=3, dispatch=None):
    result = RunResult(answer=None, history=[], steps=0, tokens=0, stop_reason="max_steps")
    while result.steps < budget.max_steps:
        message = complete(list(messages), tools)
        used = estimate_tokens(message)
        budget.tick(used)
        result.steps, result.tokens = result.steps + 1, result.tokens + used
        calls = parse_tool_calls(message)
        if not calls:
            result.answer, result.stop_reason = message.content, "answered"
            break
        messages.append({"role": "assistant", "content": message.content, "tool_calls": message.tool_calls})
        for call in calls:
            result.history.append(Action(call.name, call.arguments))
            observation = observe(dispatch or dispatch_tool, call, repo_root)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})
        stuck, over = detect_stuck(result.history, stuck_window), budget.over_budget()
        if stuck or over:
            result.stop_reason, result.detail = ("stuck", "no progress") if stuck else ("budget", over)
            break
    return result
""",
    ),
    right(
        "with the budget looked at before each call, and its own look for repeats",
        "M3",
        "run_agent",
        """
def run_agent(messages, repo_root, complete, budget, *, tools=TOOL_SCHEMAS, stuck_window=3, dispatch=None):
    dispatch = dispatch or dispatch_tool
    history, tokens = [], 0
    for step in range(budget.max_steps):
        if step and budget.over_budget():
            return RunResult(None, history, step, tokens, "budget")
        message = complete(messages, tools)
        used = estimate_tokens(message)
        budget.tick(used)
        tokens += used
        calls = parse_tool_calls(message)
        if calls == []:
            return RunResult(message.content, history, step + 1, tokens, "answered")
        messages.append(message)
        results = []
        for call in calls:
            history.append(Action(call.name, call.arguments))
            try:
                result = dispatch(call.name, call.arguments, repo_root)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                if not isinstance(error, Exception):
                    raise
                result = f"{type(error).__name__} (an error): {error}"
            results.append({"role": "tool", "content": result, "tool_call_id": call.id})
        messages.extend(results)
        recent = history[-stuck_window:] if stuck_window > 0 else []
        if len(recent) == stuck_window > 0 and recent.count(recent[0]) == stuck_window:
            return RunResult(None, history, step + 1, tokens, "stuck")
    return RunResult(None, history, budget.max_steps, tokens, "max_steps")
""",
    ),
    right(
        "step by step",
        "M4",
        "evaluate_run",
        """
def evaluate_run(result, expected):
    wanted, optimal = expected["answer_contains"], expected["optimal_steps"]
    score = {"completed": False, "steps": result.steps, "tool_calls": 0, "efficiency": 1.0}
    score.update(stop_reason=result.stop_reason)
    if result.stop_reason == "answered" and result.answer is not None and not result.answer.isspace():
        score["completed"] = result.answer != "" and result.answer.find(wanted) >= 0
    for _ in result.history:
        score["tool_calls"] += 1
    if (steps := max(1, result.steps)) > optimal:
        score["efficiency"] = optimal / steps
    return score
""",
    ),
]
STUBS = [
    Version(
        f"stub-{version.function}",
        version.milestone,
        version.function,
        version.code[: version.code.index(":\n") + 1]
        + f"\n    raise NotImplementedError('{version.milestone}: yours')\n",
    )
    for version in BASE
]


@pytest.fixture(scope="module")
def verdicts():
    all_verdicts = try_out(WRONG) + try_out(RIGHT + STUBS, whole=True)
    return {verdict.version.id: verdict for verdict in all_verdicts}


@pytest.mark.parametrize("version", WRONG, ids=lambda version: version.id)
def test_a_wrong_version_is_caught_by_a_test_that_says_the_idea(verdicts, version):
    verdict = verdicts[version.id]
    assert verdict.failures, f"no guiding test of {version.milestone} fails:\n{version.code}"
    first = verdict.failures[0]
    assert version.says in first.message, f"{first.test} is the first to fail, and says{first.message}"
    for part in ("called  ", "got  ", "wanted  ", "idea  ", "source/lesson.agent.md, section 3."):
        assert part in first.message, f"{first.test} doesn't say {part.strip()}: {first.message}"


@pytest.mark.parametrize("version", RIGHT, ids=lambda version: version.id)
def test_a_right_version_passes(verdicts, version):
    verdict = verdicts[version.id]
    told = "".join(f"\n{failure.test}{failure.message}" for failure in verdict.failures)
    assert verdict.passed and not verdict.failures, f"{version.id} is right, and fails{told}"


@pytest.mark.parametrize("version", STUBS, ids=lambda version: version.function)
def test_a_stub_comes_through_as_what_it_is(verdicts, version):
    assert {failure.message for failure in verdicts[version.id].failures} == {f"{version.milestone}: yours"}


def test_the_table_is_complete():
    ids = [version.id for version in WRONG]
    assert len(ids) == len(set(ids)) and len(ids) >= 40
    assert {version.function for version in WRONG} == {version.function for version in BASE}
    assert all(version.says and version.why for version in WRONG)
    assert len({version.code for version in WRONG}) == len(WRONG), "two entries are one and the same version"


def test_a_version_that_no_test_catches_is_told(monkeypatch, capsys):
    same = Version(
        "same", "M4", "evaluate_run", BASE[-1].code, says="An idea nobody misses.", why="it is right"
    )
    monkeypatch.setattr(misconceptions, "load", lambda: ([same], BASE))
    assert main([]) == 1
    assert "NOT CAUGHT" in capsys.readouterr().out


def test_the_command_prints_the_table(capsys):
    assert main(["BudgetTracker.tick"]) == 0
    said = capsys.readouterr()
    assert "tick-keeps-the-last" in said.out and "test_tokens_add_up" in said.out
    assert "NOT CAUGHT" not in said.out and not said.err


def test_an_unknown_name_is_said_in_a_sentence(capsys):
    assert main(["M9"]) == 2
    assert "M9" in capsys.readouterr().err


def test_a_change_has_to_fit():
    with pytest.raises(ValueError, match="0 times, not once"):
        misconceptions._changed("x", "return True", ["False", "None"])


@pytest.mark.parametrize("name", CORE)
def test_the_examples_in_the_docstrings_of_the_core_hold(name):
    attempted = doctest.testmod(importlib.import_module(name))
    assert attempted.attempted and not attempted.failed


def test_what_was_loaded_before_is_loaded_after():
    before = {name: importlib.import_module(name) for name in CORE}
    try_out(WRONG[:1])
    assert all(importlib.import_module(name) is module for name, module in before.items())
