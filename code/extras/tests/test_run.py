"""Audit, heartbeat and outcome: what is recorded, shown to be alive, and returned whatever happens."""

import json
import os
import threading

import pytest

from agent import run_agent
from extras.audit import audit_file, audited
from extras.heartbeat import beating, heartbeat
from extras.outcome import settling
from extras.seams import StopRun
from extras.tests.support import assert_legal, read, search, task, turn
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import dispatch_tool


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# audit


def test_each_call_is_recorded_before_and_after_it(repo, tmp_path):
    path = tmp_path / "audit.jsonl"
    at_tool = []

    def tool(name, arguments, repo_root):
        at_tool.append(lines_of(path)[-1])
        return dispatch_tool(name, arguments, repo_root)

    model = ScriptedModel(turn(read("settings.py"), tokens=7), turn(text="3"))
    complete, dispatch = audited(model, tool, audit_file(path))
    run_agent(task(), repo, complete, BudgetTracker(9, 9_999), dispatch=dispatch)
    events = lines_of(path)
    kinds = ["model_call", "model_reply", "tool_call", "tool_result", "model_call", "model_reply"]
    assert [event["event"] for event in events] == kinds
    assert at_tool == [events[2]], "the record is on the disk when the tool runs"
    assert events[1]["tokens"] == 7 and events[1]["calls"] == [
        {"tool": "read_file", "arguments": {"path": "settings.py"}}
    ]
    assert "RETRIES" in events[3]["result"] and events[5]["content"] == "3"


def test_what_is_raised_is_recorded_and_goes_up(tmp_path):
    path = tmp_path / "audit.jsonl"
    broken = lambda *request: (_ for _ in ()).throw(KeyboardInterrupt("stop"))  # noqa: E731
    complete, dispatch = audited(broken, lambda *request: 1 / 0, audit_file(path))
    with pytest.raises(KeyboardInterrupt):
        complete(task(), [])
    with pytest.raises(ZeroDivisionError):
        dispatch("read_file", {}, ".")
    events = lines_of(path)
    assert "KeyboardInterrupt" in events[1]["error"] and "division" in events[3]["error"]


def test_what_cannot_be_recorded_is_not_done(tmp_path):
    model, tool = ScriptedModel(), []
    complete, dispatch = audited(
        model, lambda *request: tool.append(request), audit_file(tmp_path)
    )  # a directory
    for seam, arguments in ((complete, (task(), [])), (dispatch, ("read_file", {}, "."))):
        with pytest.raises(OSError):
            seam(*arguments)
    assert (model.sent, tool) == ([], [])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_stops_what_would_not_be_recorded():
    with pytest.raises(OSError):
        audit_file("/dev/full")("tool_call", tool="read_file")


def test_near_miss_an_older_record_is_kept_and_secrets_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    path = tmp_path / "audit.jsonl"
    path.write_text('{"event": "old"}\n', encoding="utf-8")
    audit_file(path)("tool_call", arguments={"path": "hunter2hunter2"})
    assert lines_of(path)[0] == {"event": "old"}
    assert "hunter2" not in path.read_text("utf-8")


# heartbeat


def beats(count):
    """A beat that sets ``done`` when it has come ``count`` times."""
    seen, done = [], threading.Event()

    def beat(seconds):
        seen.append(seconds)
        if len(seen) == count:
            done.set()

    return beat, seen, done


def alive():
    return [thread for thread in threading.enumerate() if thread.name == "heartbeat"]


def test_it_beats_while_the_run_lasts_and_stops_with_it():
    beat, seen, done = beats(3)
    assert beating(lambda: done.wait(5), beat, every=0.01)() is True
    assert not alive()
    assert seen[:3] == sorted(seen[:3])


@pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_it_stops_whatever_the_run_raises(error):
    def run():
        raise error

    with pytest.raises(type(error)):
        beating(run, lambda seconds: None, every=60)()
    assert not alive()


def test_near_miss_a_beat_that_raises_leaves_the_run_alone(monkeypatch):
    unhandled = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    tried = threading.Event()

    def beat(seconds):
        tried.set()
        raise OSError("nobody listens")

    with heartbeat(beat, every=0.01):
        assert tried.wait(5)
    assert not alive() and not unhandled


@pytest.mark.parametrize("every", [0, -1, float("nan")])
def test_a_time_between_beats_that_is_none_is_an_error(every):
    with pytest.raises(ValueError, match="over 0"), heartbeat(print, every):
        pass


# outcome


def test_a_fault_of_the_model_s_side_is_a_result_that_keeps_what_was_found(repo):
    model = ScriptedModel(
        turn(read("settings.py"), search("HELLO"), tokens=30), ConnectionError("server gone\nTrace")
    )
    earlier = [turn(read("old")), {"role": "tool", "tool_call_id": "", "content": "of an earlier run"}]
    earlier[1]["tool_call_id"] = earlier[0].tool_calls[0].id
    messages, budget = task() + earlier, BudgetTracker(9, 9_999, steps=1, tokens=5)
    result = settling(run_agent, every_error=True)(messages, repo, model, budget)
    assert (result.stop_reason, result.answer, result.detail) == ("error", None, "server gone")
    assert (result.steps, result.tokens) == (1, 30)
    assert [action.tool for action in result.history] == ["read_file", "search_code"]
    assert_legal(messages)


def test_near_miss_only_stop_run_is_settled_unless_every_error_is_asked_for(repo):
    with pytest.raises(ConnectionError):
        settling(run_agent)(task(), repo, ScriptedModel(ConnectionError("gone")), BudgetTracker(9, 9_999))
    stop = StopRun("stuck", "a loop", answer="so far", tokens=5)
    result = settling(run_agent)(task(), repo, ScriptedModel(stop), budget := BudgetTracker(9, 9_999))
    assert (result.stop_reason, result.detail, result.answer, result.tokens) == (
        "stuck",
        "a loop",
        "so far",
        5,
    )
    assert budget.tokens == 5


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_near_miss_an_interrupt_goes_up(repo, error):
    with pytest.raises(type(error)):
        settling(run_agent, every_error=True)(task(), repo, ScriptedModel(error), BudgetTracker(9, 9_999))


def test_near_miss_an_ordinary_run_is_returned_as_it_is(repo):
    result = settling(run_agent, True)(
        task(), repo, ScriptedModel(turn(text="3", tokens=4)), BudgetTracker(9, 9_999)
    )
    assert (result.stop_reason, result.answer, result.steps, result.tokens) == ("answered", "3", 1, 4)
