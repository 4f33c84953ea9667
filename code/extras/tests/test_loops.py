"""Alternating and same-result loops, which `detect_stuck` doesn't see."""

import pytest

from agent import run_agent
from extras.loops import find_loop, watching_loops
from extras.outcome import settling
from extras.tests.support import assert_legal, read, search, task, turn
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import dispatch_tool

A, B, C, D = [("read_file", name, f"text of {name}") for name in "abcd"]
A2 = ("read_file", "a", "another text")


@pytest.mark.parametrize("seen", [[A, B, A, B], [C, A, B, A, B], [A, B, A, C, A], [A, A, A]], ids=str)
def test_a_loop_is_named(seen):
    assert "read_file" in find_loop(seen)


def test_one_action_over_and_over_is_named_as_such():
    assert "3 times" in find_loop([A] * 4)


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [A, B],
        [A, B, A],
        [A, B, C, A, B],
        [A, B, A, C],
        [A, A],
        [A, B, A2, B],  # the same actions, and something new
        [A, B, A2, C, A],
        [A, B, C, D, B],
    ],
    ids=str,
)
def test_near_miss_progress_is_no_loop(seen):
    assert find_loop(seen) is None


def test_an_alternating_run_ends_as_stuck_before_it_pays_again(repo):
    pair = [read("settings.py"), search("HELLO")]
    model = ScriptedModel(*[turn(pair[step % 2]) for step in range(4)])
    complete, dispatch = watching_loops(model, dispatch_tool)
    messages = task()
    result = settling(run_agent)(messages, repo, complete, BudgetTracker(50, 99_999), dispatch=dispatch)
    assert (result.stop_reason, result.steps, len(result.history)) == ("stuck", 4, 4)
    assert "alternate" in result.detail
    assert_legal(messages)


def test_near_miss_a_file_that_changes_is_progress(repo):
    texts = iter("abcdefgh")
    model = ScriptedModel(*[turn(read("log"), search("x")) for _ in range(4)], turn(text="done"))
    complete, dispatch = watching_loops(model, lambda name, arguments, root: next(texts))
    result = settling(run_agent)(task(), repo, complete, BudgetTracker(50, 99_999), dispatch=dispatch)
    assert result.stop_reason == "answered"


def test_an_error_that_repeats_is_the_same_result(repo):
    model = ScriptedModel(*[turn(read(name)) for name in ("gone.py", "settings.py") * 2])
    complete, dispatch = watching_loops(model, dispatch_tool)
    result = settling(run_agent)(task(), repo, complete, BudgetTracker(50, 99_999), dispatch=dispatch)
    assert (result.stop_reason, result.steps) == ("stuck", 4)


def test_near_miss_a_side_question_is_still_asked():
    model = ScriptedModel(turn(text="SATISFIED"))
    complete, dispatch = watching_loops(model, lambda *call: "same")
    for _ in range(3):
        dispatch("read_file", {"path": "a"}, ".")
    assert complete(task(), []).content == "SATISFIED"
