"""X5, `is_transient` and `retrying`: one more try for an error that may pass."""

import errno

import pytest

from agent import run_agent
from extras.retry import is_transient, retrying
from extras.tests.support import contents, read, task, turn, wrong
from safety import BudgetTracker
from tests.conftest import ScriptedModel

PASSING = [
    TimeoutError("no reply in 5 s"),
    ConnectionResetError("peer gone"),
    BrokenPipeError("pipe closed"),
    OSError(errno.EBUSY, "busy"),
    OSError(errno.ETIMEDOUT, "timed out"),
]
LASTING = [
    FileNotFoundError(errno.ENOENT, "no such file"),
    PermissionError(errno.EACCES, "not yours"),
    IsADirectoryError(errno.EISDIR, "a directory"),
    OSError(errno.ENOSPC, "disk full"),
    OSError("cannot read 'a.py'"),
    ValueError("leads outside the repository"),
    KeyError("path"),
    RuntimeError("timeout is a word in this message"),
]


def wrapped(error: Exception) -> Exception:
    """The error as a tool raises it again: `tools.read_file` does so."""
    try:
        raise OSError("cannot read 'a.py'") from error
    except OSError as outer:
        return outer


class Tool:
    """A ``dispatch`` that plays ``results`` in order, raising those that are exceptions."""

    def __init__(self, *results):
        self.results, self.calls, self.slept = list(results), 0, []

    def __call__(self, name, arguments, repo_root):
        self.calls += 1
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    def outcome(self, delay=0.5):
        try:
            return retrying(self, delay, sleep=self.slept.append)("read_file", {"path": "a.py"}, ".")
        except NotImplementedError:
            raise
        except Exception as error:
            return error


@pytest.mark.parametrize("error", PASSING + [wrapped(error) for error in PASSING], ids=repr)
def test_transient_errors_may_pass(error):
    got = is_transient(error)
    assert got is True, wrong(
        called=f"is_transient({error!r}), caused by {error.__cause__!r}",
        got=got,
        wanted=True,
        idea="The network or the system was busy; nothing about the call was wrong. A cause counts as well.",
    )


@pytest.mark.parametrize("error", LASTING + [wrapped(error) for error in LASTING], ids=repr)
def test_near_miss_permanent_errors_stay(error):
    got = is_transient(error)
    assert got is False, wrong(
        called=f"is_transient({error!r}), caused by {error.__cause__!r}",
        got=got,
        wanted=False,
        idea="The same call fails the same way again. Judge by what an error is, not by the words in it.",
    )


def test_a_transient_error_is_tried_once_more_after_a_wait():
    tool = Tool(TimeoutError("slow"), "the file")
    got = (tool.outcome(delay=0.25), tool.calls, tool.slept)
    assert got == ("the file", 2, [0.25]), wrong(
        called="retrying(tool, delay=0.25)(...), where the tool times out once",
        got=f"(result, tool calls, waits in seconds) = {got}",
        wanted=("the file", 2, [0.25]),
        idea="The model never hears of an error that has passed; the wait gives it time to pass.",
    )


def test_near_miss_a_permanent_error_goes_up_at_once():
    error = FileNotFoundError("no such file")
    tool = Tool(error, "never")
    got = (tool.outcome(), tool.calls, tool.slept)
    assert got == (error, 1, []), wrong(
        called="retrying(tool)(...), where the file isn't there",
        got=f"(result, tool calls, waits in seconds) = {got}",
        wanted=(error, 1, []),
        idea="Asking again for what isn't there only wastes time; the model can do better with the error.",
    )


def test_there_is_one_more_try_and_no_third():
    second = TimeoutError("slow again")
    tool = Tool(TimeoutError("slow"), second, "never")
    got = (tool.outcome(), tool.calls, len(tool.slept))
    assert got == (second, 2, 1), wrong(
        called="retrying(tool)(...), where the tool times out twice",
        got=f"(result, tool calls, waits) = {got}",
        wanted=(second, 2, 1),
        idea="Retry is bounded; then the error is the model's to deal with.",
    )


def test_near_miss_an_error_that_is_a_result_is_not_retried():
    tool = Tool("Error: there is no tool 'x'", "never")
    got = (tool.outcome(), tool.calls)
    assert got == ("Error: there is no tool 'x'", 1), wrong(
        called="retrying(tool)(...), where the tool returns an error text",
        got=got,
        wanted=("Error: there is no tool 'x'", 1),
        idea="A refused call is the model's mistake, and was answered as such.",
    )


def test_an_interrupt_is_not_retried():
    tool = Tool(KeyboardInterrupt(), "never")
    with pytest.raises(KeyboardInterrupt):
        retrying(tool, sleep=tool.slept.append)("read_file", {"path": "a.py"}, ".")


def test_in_a_run_only_the_lasting_error_is_an_observation(repo):
    tool = Tool(TimeoutError("slow"), "the file", ValueError("leads outside"))
    messages = task()
    model = ScriptedModel(turn(read("a.py")), turn(read("../b")), turn(text="done"))
    run_agent(
        messages, repo, model, BudgetTracker(9, 9_999), dispatch=retrying(tool, sleep=tool.slept.append)
    )
    observations = contents(messages, "tool")
    assert observations == ["the file", "Error: leads outside"], wrong(
        called="run_agent with retrying(...): a time-out that passes, then a path that leads outside",
        got=observations,
        wanted=["the file", "Error: leads outside"],
        idea="Recovery still has the last word: what isn't cured by a retry is fed back.",
    )
