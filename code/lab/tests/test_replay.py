"""Replaying a trace: a finished one, one that broke off at each event, one that isn't a trace."""

import io
import json
from types import SimpleNamespace

import pytest

from agent import RunResult, dispatch_tool, run_agent
from evaluate import Trace, evaluate_run
from lab import replay
from safety import BudgetTracker
from tests.conftest import ScriptedModel, call, turn


@pytest.fixture
def recorded(repo) -> SimpleNamespace:
    """A run of three steps on the throwaway repository, as the core's own `Trace` records it."""
    file = io.StringIO()
    trace = Trace(lambda line: None, file)
    model = ScriptedModel(
        turn(call("search_code", {"query": "def greet"}), text="I search.", tokens=40),
        turn(call("read_file", {"path": "absent.py"}), call("read_file", {"path": "settings.py"}), tokens=50),
        turn(text="It is bonjour.\nSee \x1b[31mgreeter\x07.", tokens=60),
    )
    trace.event("run", task="How does it greet?", model="scripted", repo="greeter")
    result = run_agent(
        [{"role": "user", "content": "How does it greet?"}],
        repo,
        trace.watch_complete(model),
        BudgetTracker(5, 1000),
        dispatch=trace.watch_dispatch(dispatch_tool),
    )
    kept = {"answer": result.answer, "steps": result.steps, "tokens": result.tokens}
    trace.event("end", stop_reason=result.stop_reason, detail=result.detail, **kept)
    return SimpleNamespace(lines=file.getvalue().splitlines(), result=result)


def play(tmp_path, lines, *flags) -> int:
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return replay.main([str(file), *flags])


def test_a_finished_run_is_told_and_rebuilt(recorded, tmp_path, capsys):
    assert play(tmp_path, recorded.lines, "--expect", "bonjour", "--optimal-steps", "3") == 0
    told = capsys.readouterr().out
    wanted = [
        "task: How does it greet?", "step 1: 40 tokens", "I search.", "search_code(query='def greet')",
        "greeter/main.py:4: def greet", "step 2: 90 tokens", "Error: 'absent.py'", 'DEFAULT_LANGUAGE = "fr"',
        "step 3: 150 tokens", "answer: It is bonjour.", "stop_reason: answered", "completed: yes",
        "steps: 3 (optimal: 3), efficiency: 1.00", "tool calls: 3, tokens: 150",
    ]  # fmt: skip
    at = 0
    for text in wanted:
        assert text in told[at:], f"{text!r} is missing, or not in its place, in\n{told}"
        at = told.index(text, at)
    assert "\x1b" not in told and "\x07" not in told, "nothing that drives a terminal gets through"


def test_the_score_is_that_of_the_live_run(recorded, tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(recorded.lines))
    rebuilt = replay.rebuild(replay.read_trace(file))
    expected = {"answer_contains": "bonjour", "optimal_steps": 2}
    assert evaluate_run(rebuilt, expected) == evaluate_run(recorded.result, expected)
    assert rebuilt.history == recorded.result.history


def test_a_run_that_did_not_complete_gives_code_1(recorded, tmp_path, capsys):
    assert play(tmp_path, recorded.lines, "--expect", "hello") == 1
    assert "completed: no" in capsys.readouterr().out
    assert play(tmp_path, recorded.lines) == 0
    assert "not judged (no --expect)" in capsys.readouterr().out


def test_a_trace_that_breaks_off_anywhere_is_shown_as_far_as_it_goes(recorded, tmp_path, capsys):
    whole = len(recorded.lines)
    for end in range(1, whole):
        for torn in ("", recorded.lines[end][:25]):
            code = play(tmp_path, recorded.lines[:end] + [torn] * bool(torn), "--expect", "bonjour")
            told = capsys.readouterr().out
            assert code == 1 and "stop_reason: broken off (" in told and "completed: no" in told, (
                f"cut after {end} events"
            )
    kinds = [json.loads(line)["event"] for line in recorded.lines]
    for kind, words in (
        ("model_call", "while the model was being asked"),
        ("tool_call", "while search_code was running"),
    ):
        play(tmp_path, recorded.lines[: kinds.index(kind) + 1])
        assert words in capsys.readouterr().out


def test_a_failed_model_call_is_told(recorded, tmp_path, capsys):
    failed = json.dumps({"event": "model_error", "seconds": 1.0, "step": 0, "error": "Error: no answer"})
    play(tmp_path, [*recorded.lines[:2], failed])
    told = capsys.readouterr().out
    assert "broken off (the model could not be asked: Error: no answer)" in told


def test_an_answer_that_the_trace_cut_is_not_called_incomplete(recorded, tmp_path, capsys):
    *events, end = map(json.loads, recorded.lines)
    end["answer"] = "x" * 2000 + "[500 more]"
    assert play(tmp_path, [json.dumps(event) for event in [*events, end]], "--expect", "bonjour") == 0
    assert "only the start of the answer" in capsys.readouterr().out


@pytest.mark.parametrize(
    "lines, words",
    [
        ([], "holds no event"),
        (["hello", "{}"], "line 1: this is not an event"),
        (['{"event": "run"}', "{]", '{"event": "end"}'], "line 2: this is not an event"),
        (['{"event": 5}', "{}"], "line 1: this is not an event"),
        (['{"event": "run"}'], "lacks what it should hold"),
        (['{"event": "tool_call", "tool": "x"}', '{"event": "end"}'], "lacks what it should hold"),
    ],
)
def test_what_is_no_trace_is_one_sentence_and_code_2(tmp_path, capsys, lines, words):
    assert play(tmp_path, lines) == 2
    told = capsys.readouterr()
    assert words in told.err and told.out == "" and told.err.count("\n") == 1


def test_a_file_that_is_not_there_is_code_2(tmp_path, capsys):
    assert replay.main([str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_learners_stub_is_named(recorded, tmp_path, capsys, monkeypatch):
    def stub(result: RunResult, expected: dict) -> dict:
        raise NotImplementedError("M4: evaluate_run")

    monkeypatch.setattr(replay, "evaluate_run", stub)
    assert play(tmp_path, recorded.lines) == 2
    assert "a milestone is missing: M4" in capsys.readouterr().err
