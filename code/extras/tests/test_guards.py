"""Exact dedup, near-duplicate search, cooldown, and the order in which they are asked."""

import pytest

from agent import run_agent
from extras.cooldown import Cooldown
from extras.dedup import ExactDedup
from extras.guards import guarded
from extras.near_search import NearSearch, similarity, words_of
from extras.retry import retrying
from extras.tests.support import assert_legal, contents, read, search, task, turn
from safety import BudgetTracker
from tests.conftest import ScriptedModel


class Tool:
    """A ``dispatch`` that counts its calls; ``answer`` is returned, or raised."""

    def __init__(self, answer="the result"):
        self.answer, self.calls = answer, []

    def __call__(self, name, arguments, repo_root):
        self.calls.append((name, dict(arguments)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def ask(dispatch, name, **arguments):
    try:
        return dispatch(name, arguments, ".")
    except Exception as error:
        return f"raised {error}"


def test_dedup_does_not_run_the_same_call_twice():
    tool = Tool()
    dispatch = guarded(tool, ExactDedup())
    assert ask(dispatch, "read_file", path="a.py", start_line=1) == "the result"
    ask(dispatch, "read_file", path="b.py")
    for _ in range(2):
        again = dispatch("read_file", {"start_line": 1, "path": "a.py"}, ".")
        assert again.startswith("Error: duplicate call: read_file")
    assert len(tool.calls) == 2


def test_dedup_counts_a_call_that_failed():
    tool = Tool(ValueError("no"))
    dispatch = guarded(tool, ExactDedup())
    assert ask(dispatch, "read_file", path="a") == "raised no"
    assert ask(dispatch, "read_file", path="a").startswith("Error: duplicate call")


@pytest.mark.parametrize(
    "other",
    [
        ("read_file", {"path": "a.py", "start_line": 2}),
        ("list_directory", {"path": "a.py"}),
        ("read_file", {}),
    ],
    ids=str,
)
def test_near_miss_dedup_lets_other_calls_through(other):
    tool = Tool()
    dispatch = guarded(tool, ExactDedup())
    ask(dispatch, "read_file", path="a.py")
    assert dispatch(*other, ".") == "the result"


def test_dedup_takes_whatever_a_model_sends():
    dispatch = guarded(Tool(), ExactDedup())
    for arguments in ({"path": {"b": [1], "a": None}}, {"path": float("nan")}, {"__malformed__": "x"}):
        assert dispatch("", arguments, ".") == "the result"
        assert dispatch("", arguments, ".").startswith("Error: duplicate")


def test_similarity_is_jaccard_without_stop_words():
    assert words_of("Where is the `load_config` function?") == {"load_config", "function"}
    assert similarity(words_of("load config file"), words_of("config file path")) == pytest.approx(2 / 4)
    assert similarity(words_of("the"), words_of("the")) == 0.0


def test_near_refuses_a_rephrased_search_at_the_threshold():
    tool = Tool()
    dispatch = guarded(tool, NearSearch())
    ask(dispatch, "search_code", query="load config file")
    assert ask(dispatch, "search_code", query="the CONFIG file, path").startswith(
        "Error: near-duplicate search"
    )
    assert len(tool.calls) == 1


def test_near_compares_with_any_earlier_query_a_refused_one_too():
    dispatch = guarded(Tool(), NearSearch())
    ask(dispatch, "search_code", query="a1 b1")
    ask(dispatch, "search_code", query="x y z")
    assert ask(dispatch, "search_code", query="a1 b1 c1").startswith("Error: near")
    assert ask(dispatch, "search_code", query="c1 b1 d1").startswith("Error: near")


def test_near_miss_other_searches_and_other_tools_pass():
    tool = Tool()
    dispatch = guarded(tool, NearSearch())
    for query in ("load config file", "load settings now", "==", "!=", "the", "is"):
        assert ask(dispatch, "search_code", query=query) == "the result", query
    for _ in range(2):
        assert ask(dispatch, "search_web", query="load config file") == "the result"
    assert ask(dispatch, "search_code", query=["load config file"]) == "the result"


def test_cooldown_refuses_one_call_after_three_errors_in_a_row():
    tool = Tool(ValueError("no"))
    dispatch = guarded(tool, Cooldown())
    got = [ask(dispatch, "read_file", path=name) for name in "abcdefgh"]
    stalled = [text.startswith("Error: stalled: read_file") for text in got]
    assert stalled == [False, False, False, True, False, False, False, True]
    assert len(tool.calls) == 6


def test_cooldown_counts_errors_that_are_returned():
    dispatch = guarded(Tool("Error: no such tool"), Cooldown())
    got = [ask(dispatch, "read_file", path=name) for name in "abcd"]
    assert got[3].startswith("Error: stalled")


def test_near_miss_cooldown_is_per_tool_and_a_success_starts_it_afresh():
    tool = Tool()
    dispatch = guarded(tool, Cooldown())
    for name, answer in [
        ("a", "Error: x"),
        ("b", "Error: x"),
        ("c", "fine"),
        ("d", "Error: x"),
        ("e", "Error: x"),
    ]:
        tool.answer = answer
        assert ask(dispatch, "read_file", path=name) == answer
    assert ask(dispatch, "search_code", query="x") == "Error: x"
    tool.answer = "a text that holds Error: inside"
    for name in "fg":
        assert ask(dispatch, "read_file", path=name) == tool.answer


def test_the_order_is_dedup_near_cooldown_whatever_was_added_when():
    dispatch = guarded(guarded(guarded(Tool("Error: x"), Cooldown()), NearSearch()), ExactDedup())
    assert [type(guard).__name__ for guard in dispatch.guards] == ["ExactDedup", "NearSearch", "Cooldown"]
    ask(dispatch, "search_code", query="load config")
    ask(dispatch, "search_code", query="other words")
    ask(dispatch, "search_code", query="third thing")
    assert "duplicate call" in ask(dispatch, "search_code", query="load config")  # all three would refuse it
    assert "near-duplicate" in ask(dispatch, "search_code", query="load config file")
    assert "stalled" in ask(dispatch, "search_code", query="something new")
    assert ask(dispatch, "search_code", query="and yet another") == "Error: x"


def test_a_refusal_is_an_error_that_the_cooldown_counts():
    dispatch = guarded(guarded(Tool(), Cooldown()), ExactDedup())
    ask(dispatch, "read_file", path="a")
    for _ in range(3):
        ask(dispatch, "read_file", path="a")
    assert ask(dispatch, "read_file", path="b").startswith("Error: stalled")


def test_dedup_sees_one_call_however_often_it_was_retried():
    tries = [TimeoutError("slow"), None]

    def flaky(name, arguments, repo_root):
        if error := tries.pop(0):
            raise error
        return "the result"

    dispatch = guarded(retrying(flaky, sleep=lambda seconds: None), ExactDedup())
    assert ask(dispatch, "read_file", path="a") == "the result"
    assert ask(dispatch, "read_file", path="a").startswith("Error: duplicate call")


def test_in_a_run_refusals_are_observations_and_actions(repo):
    model = ScriptedModel(
        turn(read("settings.py")), turn(read("settings.py"), search("HELLO")), turn(text="3")
    )
    messages = task()
    dispatch = guarded(Tool(), ExactDedup())
    result = run_agent(messages, repo, model, BudgetTracker(9, 9_999), dispatch=dispatch)
    assert (result.stop_reason, len(result.history)) == ("answered", 3)
    assert [text.startswith("Error: duplicate") for text in contents(messages, "tool")] == [
        False,
        True,
        False,
    ]
    assert_legal(messages)
