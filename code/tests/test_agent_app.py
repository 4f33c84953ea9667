"""The command line, on a scripted model and against a strict server on loopback. No key, no network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import agent
import agent_app
import config
from agent_app import build_messages, main, make_complete
from config import Config, ProviderError
from evaluate import Trace
from safety import BudgetTracker
from tests.conftest import ScriptedModel, call, turn
from tests.scripted_server import ScriptedServer, complaint
from tools import TOOL_SCHEMAS

APP = Path(agent_app.__file__)


@pytest.fixture
def play(monkeypatch, repo, capsys):
    """``play(*turns, flags=[...])``: run the command line on a scripted model; code, stdout, stderr."""

    def played(*turns, flags=(), task="where is greet defined?"):
        model = ScriptedModel(*turns)
        monkeypatch.setattr(agent_app, "make_complete", lambda config: model)
        code = main([task, "--repo", str(repo), *flags])
        return code, *capsys.readouterr()

    return played


LOOK = {"query": "def greet"}


def looks_then_answers():
    return [
        turn(call("search_code", LOOK), text="I search.", tokens=40),
        turn(text="In greeter/main.py.", tokens=60),
    ]


# --- what a person sees -----------------------------------------------------------------------------
def test_the_trace_the_answer_the_reason_and_the_score_are_printed(play):
    code, out, err = play(
        *looks_then_answers(), flags=["--expect", "greeter/main.py", "--optimal-steps", "2"]
    )
    assert code == 0 and err == ""
    for part in ("step 1: 40 tokens", "thought      I search.", "action       search_code(query='def greet')",
                 "observation  greeter/main.py:4: def greet(language: str) -> str:", "step 2: 100 tokens",
                 "answer: In greeter/main.py.", "stop_reason: answered", "completed: yes",
                 "steps: 2 (optimal: 2), efficiency: 1.00", "tool calls: 1, tokens: 100"):  # fmt: skip
        assert part in out, f"missing in the output: {part!r}\n{out}"


def test_the_trace_is_live(monkeypatch, repo, capsys):
    def complete(messages, tools):
        shown = capsys.readouterr().out
        assert ("observation" in shown) == (len(messages) > 2), (
            "each step is shown before the next one begins"
        )
        return turn(call("list_directory", {})) if len(messages) == 2 else turn(text="done")

    monkeypatch.setattr(agent_app, "make_complete", lambda config: complete)
    assert main(["x", "--repo", str(repo)]) == 0


@pytest.mark.parametrize(
    "turns, flags, code, words",
    [
        ([turn(text="In greeter/main.py.")], [], 0, "completed: not judged"),
        ([turn(text="In greeter/main.py.")], ["--expect", "words.py"], 1, "completed: no"),
        ([turn(text=" \n")], [], 1, "answer: (none)"),
        ([turn()], [], 1, "answer: (none)"),
        ([turn(call("list_directory", {}))] * 3, [], 1, "stop_reason: stuck"),
        ([turn(call("list_directory", {}), text="nearly there")] * 2, ["--max-steps", "2"], 1,
         "stop_reason: budget"),
        ([turn(call("list_directory", {}), tokens=900)], ["--token-budget", "500"], 1, "stop_reason: budget"),
        ([], ["--max-steps", "0"], 1, "stop_reason: max_steps"),
    ],
)  # fmt: skip
def test_how_a_run_ends_is_told_and_is_the_exit_code(play, turns, flags, code, words):
    got, out, err = play(*turns, flags=flags)
    assert (got, err) == (code, "") and words in out
    assert "nearly there" not in out.partition("answer:")[2], "text beside a call is no answer"


def test_the_sentence_behind_a_stop_is_shown(monkeypatch, play):
    stopped = agent.RunResult(None, [], 2, 90, "budget", "step budget exhausted (2/2)")
    monkeypatch.setattr(agent_app, "run_agent", lambda *args, **kwargs: stopped)
    assert "stop_reason: budget (step budget exhausted (2/2))" in play()[1]


def test_quiet_prints_the_answer_only(play):
    assert play(*looks_then_answers(), flags=["--quiet"]) == (0, "In greeter/main.py.\n", "")
    code, out, err = play(*[turn(call("list_directory", {}))] * 3, flags=["--quiet"])
    assert (code, out) == (1, "") and err.startswith("no answer: stuck")


def test_json_prints_one_object(play):
    code, out, err = play(*looks_then_answers(), flags=["--json", "--expect", "main.py"])
    assert code == 0 and "step 1" in err
    shown = json.loads(out)
    assert isinstance(shown.pop("detail"), str)
    assert shown == {
        "answer": "In greeter/main.py.",
        "history": [{"tool": "search_code", "arguments": LOOK}],
        "steps": 2,
        "tokens": 100,
        "stop_reason": "answered",
        "evaluation": {
            "completed": True,
            "steps": 2,
            "tool_calls": 1,
            "efficiency": 1.0,
            "stop_reason": "answered",
        },
    }
    assert json.loads(play(turn(text="x"), flags=["--json"])[1])["evaluation"]["completed"] is None


EVIL = "\x1b[2J\x07 wiped"


@pytest.mark.parametrize(
    "turns",
    [
        [turn(call("read_file", {"path": "evil.txt"})), turn(text="ok")],
        [turn(text=EVIL)],
        [turn(call(EVIL, {}))] * 3,
        [ProviderError(EVIL)],
    ],
    ids=["tool result", "answer", "tool name", "provider's error"],
)
@pytest.mark.parametrize("flags", [[], ["--quiet"]], ids=["plain", "quiet"])
def test_nothing_from_outside_can_drive_the_terminal(play, repo, turns, flags):
    (repo / "evil.txt").write_text(EVIL)
    _, out, err = play(*turns, flags=flags)
    assert "\x1b" not in out + err and "\x07" not in out + err


def test_the_cost_is_told_or_said_to_be_unknown(play):
    first, last = looks_then_answers()
    assert "cost: unknown" in play(first, last)[1]
    first.cost, last.cost = 0.001, 0.0005
    assert "cost: $0.0015" in play(first, last)[1]


# --- what goes wrong --------------------------------------------------------------------------------
def test_a_failing_provider_is_a_sentence_after_the_trace(play):
    first = turn(call("list_directory", {}))
    code, out, err = play(first, ProviderError("the model m failed: gone"))
    assert code == 3 and "step 1" in out and err == "error: the model m failed: gone\n"
    code, out, err = play(first, ProviderError("gone"), flags=["--quiet"])
    assert (code, out) == (3, "") and "step 1" in err, "what was learnt before the failure is shown"


def test_ctrl_c_shows_the_trace_so_far(play):
    first = turn(call("list_directory", {}), tokens=7)
    for flags in ([], ["--quiet"], ["--json"]):
        code, out, err = play(first, KeyboardInterrupt(), flags=flags)
        assert code == 130 and "step 1" in out + err and "interrupted; steps so far: 1, tokens: 7" in err


def run_app(*arguments, cwd=APP.parent, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "AGENT_"))}
    return subprocess.run(
        [sys.executable, str(APP), *arguments], cwd=cwd, env=clean | environment, capture_output=True, text=True
    )  # fmt: skip


BAD = [
    ([], {}, "required: task"),
    (["  "], {}, "task is empty"),
    (["x", "--max-steps", "many"], {}, "--max-steps: invalid int value: 'many'"),
    (["x", "--max-steps", "-1"], {}, "whole numbers of at least 0"),
    (["x", "--optimal-steps", "-1"], {}, "whole numbers of at least 0"),
    (["x", "--expect", " "], {}, "blank text"),
    (["x", "--with", "plan,dedupe"], {}, "there is no extra 'dedupe'"),
    (["x", "--max-usd", "1"], {}, "price of 'offline/keyword' is not known"),
    (["x", "--max-usd", "-1", "--model", "ollama_chat/x"], {}, "error: "),
    (["x", "--quiet", "--json"], {}, "not allowed with"),
    (["x", "--nonsense"], {}, "unrecognized arguments"),
    (["x", "--repo", "no/such/folder"], {}, "'no/such/folder' can't be read: there is no such directory"),
    (["x", "--repo", str(APP)], {}, "can't be read: "),
    (["x", "--repo", "a\x00b"], {}, "can't be read: "),
    (["x", "--model", "groq/x"], {}, "needs GROQ_API_KEY"),
    (["x", "--model", ""], {}, "name of the model is blank"),
    (["x"], {"AGENT_MAX_STEPS": "ten"}, "AGENT_MAX_STEPS must be a whole number"),
    (["x", "--trace", str(APP / "t.jsonl")], {}, "error: "),
]


@pytest.mark.parametrize("flags, environment, words", BAD, ids=range(len(BAD)))
def test_bad_usage_is_a_sentence_and_code_2(monkeypatch, capsys, flags, environment, words):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(agent_app, "make_complete", None)
    try:
        code = main(flags)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and words in err and "Traceback" not in err


def test_extras_are_switched_on_by_name(play):
    again = call("list_directory", {})
    turns = [turn(again), turn(again), turn(text="done")]
    refused = "observation  Error"
    assert refused not in play(*turns)[1]
    assert refused in play(*turns, flags=["--with", " dedup, loops"])[1]


def test_help_shows_every_flag_and_extra_with_examples():
    from extras.stack import EXTRAS

    done = run_app("--help")
    assert done.returncode == 0 and "exit codes" in done.stdout and 'python agent_app.py "' in done.stdout
    for flag in ("--repo", "--model", "--max-steps", "--token-budget", "--expect", "--optimal-steps", "--quiet",
                 "--json", "--trace", "--with", "--max-usd", *EXTRAS):  # fmt: skip
        assert flag in done.stdout
    assert all(extra.clause in done.stdout for extra in EXTRAS.values())


def test_bad_usage_from_the_shell():
    done = run_app("x", "--repo", "no/such/folder")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize("name", ["detect_stuck", "run_agent", "evaluate_run"])
def test_a_milestone_that_is_missing_is_named_before_a_model_is_called(monkeypatch, play, name):
    def stub(*args, **kwargs):
        raise NotImplementedError("M9: build this")

    monkeypatch.setattr(agent_app, name, stub)
    code, out, err = play()
    assert (code, out, err) == (
        2,
        "",
        "error: a milestone is missing: M9: build this (python -m learn shows the way)\n",
    )


@pytest.mark.parametrize("name", ["tick", "over_budget"])
def test_a_missing_method_is_named_too(monkeypatch, play, name):
    monkeypatch.setattr(
        BudgetTracker, name, lambda *args: (_ for _ in ()).throw(NotImplementedError("M2: build this"))
    )
    assert play()[0] == 2


def test_output_that_nobody_can_read_ends_the_run_in_a_sentence(tmp_path):
    where = {
        "cwd": APP.parent,
        "env": os.environ | {"LLM_MODEL": "ollama_chat/x", "OLLAMA_API_BASE": "http://127.0.0.1:1"},
    }
    command = [sys.executable, str(APP), "x"]
    with open(os.devnull) as unwritable:  # opened for reading: every write fails
        done = subprocess.run(command, stdout=unwritable, stderr=subprocess.PIPE, text=True, **where)
        assert done.returncode == 130 and done.stderr == "interrupted; steps so far: 0, tokens: 0\n"
        done = subprocess.run([*command, "--repo", "nope"], stderr=unwritable, **where)
        assert done.returncode == 2


def test_a_missing_package_is_named(monkeypatch, repo, capsys):
    monkeypatch.setitem(sys.modules, "litellm", None)
    assert main(["x", "--repo", str(repo)]) == 2
    assert "litellm" in (err := capsys.readouterr().err) and "requirements.txt" in err


def test_a_key_never_reaches_the_terminal(monkeypatch, play):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecretkey123")
    assert "verysecret" not in play(ProviderError("Incorrect API key provided: sk-verysecretkey123"))[2]


# --- the trace as a file ----------------------------------------------------------------------------
def test_the_trace_file_holds_every_event_and_no_secret(monkeypatch, play, repo, tmp_path):
    monkeypatch.setattr(
        agent_app, "load_config", lambda: monkeypatch.setenv("MY_API_KEY", "hunter2-hunter2") or Config()
    )
    (repo / "leak.txt").write_text("password hunter2-hunter2 and " + "x" * 9000)
    file = tmp_path / "runs" / "run.jsonl"
    turns = [
        turn(call("read_file", {"path": "leak.txt"}), call("read_file", {"path": "nope"})),
        turn(text="done"),
    ]
    assert play(*turns, flags=["--trace", str(file)])[0] == 0
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [event["event"] for event in events] == [
        "run", "model_call", "model_reply", "tool_call", "tool_result", "tool_call", "tool_result", "model_call",
        "model_reply", "end",
    ]  # fmt: skip
    assert "hunter2" not in file.read_text(encoding="utf-8") and len(file.read_text(encoding="utf-8")) < 6000
    assert "error" in events[6] and "result" in events[4] and events[-1]["stop_reason"] == "answered"
    code, _, err = play(*turns, flags=["--trace", str(file)])
    assert code == 2 and "an earlier run is kept" in err, "an earlier trace is not overwritten"


def test_each_event_is_on_disk_before_the_next_thing_happens(tmp_path):
    with open(tmp_path / "t.jsonl", "w", encoding="utf-8") as file:
        trace = Trace(lambda line: None, file)
        seen = []
        dispatch = trace.watch_dispatch(lambda *args: seen.append((tmp_path / "t.jsonl").read_text()) or "ok")
        dispatch("list_directory", {}, ".")
        assert '"tool_call"' in seen[0]
        with pytest.raises(KeyboardInterrupt):
            trace.watch_complete(ScriptedModel(KeyboardInterrupt()))([], [])
        assert '"model_error"' in (tmp_path / "t.jsonl").read_text()


def test_a_full_disk_does_not_end_the_run():
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

        def flush(self):
            pass

    lines = []
    trace = Trace(lines.append, Full())
    trace.event("run")
    trace.event("run")
    assert lines == ["the trace is broken off: No space left on device"]


# --- over a real connection -------------------------------------------------------------------------
def wire_call(name, arguments, id="c1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.fixture
def live(real_litellm, monkeypatch, repo):
    """``live(server)``: run the loop on the repository against the server, through LiteLLM."""

    def run(server, steps=5, **settings):
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setattr(config.time, "sleep", lambda seconds: None)
        complete = make_complete(Config(model="openai/local", **settings))
        messages = build_messages("where is greet defined?", repo)
        return agent.run_agent(messages, repo, complete, BudgetTracker(steps, 100_000)), messages

    return run


def test_requests_are_what_a_provider_takes(live):
    calls = [wire_call("search_code", '{"query": "def greet"}', "a"), wire_call("list_directory", "", "b")]
    with ScriptedServer(
        {"content": "I look.", "tool_calls": calls}, {"content": "In greeter/main.py."}
    ) as server:
        result, _ = live(server, temperature=0.3, max_tokens=77)
    assert (result.stop_reason, result.answer, result.tokens) == ("answered", "In greeter/main.py.", 220)
    for body in server.bodies:
        assert complaint(body) is None
        assert body["tools"] == TOOL_SCHEMAS and body["tool_choice"] == "auto"
        assert (body["model"], body["temperature"], body["max_tokens"]) == ("local", 0.3, 77)
    roles = [message["role"] for message in server.bodies[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert "greeter/main.py:4" in server.bodies[1]["messages"][3]["content"]


def test_a_question_without_tools_is_sent_without_them(live, repo):
    with ScriptedServer({"content": "hello"}, {"content": "hello"}) as server:
        live(server)
        make_complete(Config(model="openai/local"))([{"role": "user", "content": "hi"}], [])
    assert "tools" in server.bodies[0] and not {"tools", "tool_choice"} & set(server.bodies[1])


MESSY = {
    "broken JSON": [wire_call("read_file", '{"path": "settings.p')],
    "not an object": [wire_call("read_file", "[1]"), wire_call("read_file", '"settings.py"', "c2")],
    "one id twice": [wire_call("list_directory", "{}"), wire_call("list_directory", '{"path": "greeter"}')],
    "no id": [wire_call("list_directory", "{}", ""), wire_call("read_file", '{"path": "settings.py"}', "")],
    "unknown tool": [wire_call("open the file!", "{}"), wire_call("", "{}", "c2")],
    "encoded twice": [wire_call("read_file", '"{\\"path\\": \\"settings.py\\"}"')],
    "lone surrogate": [wire_call("search_code", '{"query": "\\ud800"}')],
}


@pytest.mark.parametrize("calls", MESSY.values(), ids=MESSY)
def test_what_a_model_gets_wrong_does_not_poison_the_next_request(live, calls):
    """A server that was sent broken arguments back would answer HTTP 400 or 500 and end the run."""
    with ScriptedServer({"tool_calls": calls}, {"tool_calls": calls}, {"content": "done"}) as server:
        result, _ = live(server)
    assert (result.stop_reason, result.answer) == ("answered", "done")
    assert [complaint(body) for body in server.bodies] == [None] * 3
    assert len(result.history) == 2 * len(calls)


def test_a_rate_limit_is_waited_out_and_a_wrong_key_is_not(live):
    with ScriptedServer(
        (429, "slow down", {"retry-after": "1"}), (503, "busy", {}), {"content": "done"}
    ) as server:
        assert live(server)[0].answer == "done"
    assert len(server.bodies) == 3
    with ScriptedServer((401, "Incorrect API key", {}), {"content": "done"}) as server:
        with pytest.raises(ProviderError, match="openai/local.*Incorrect API key"):
            live(server)
    assert len(server.bodies) == 1


def test_a_server_that_is_down_is_one_sentence(live):
    with ScriptedServer() as server:
        pass
    with pytest.raises(ProviderError, match="openai/local failed") as caught:
        live(server)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "usage, tokens",
    [
        ({"prompt_tokens": 12_000, "completion_tokens": 150}, 12_150),
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}, 12),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, 7),
    ],
)
def test_the_providers_count_is_taken_when_there_is_one(live, usage, tokens):
    with ScriptedServer({"content": "x" * 28}, usage=usage) as server:
        assert live(server)[0].tokens == tokens


def test_nothing_of_ours_travels_to_the_provider():
    first = turn(
        call("read_file", "{broken", id=None), call("", None, id="same"), call("a b", {}, id="same"), tokens=9
    )
    first.cost = 0.5
    sent = agent.wire_messages([
        {"role": "user", "content": "q", "ts": 1}, first,
        {"role": "tool", "tool_call_id": "", "content": "r1", "meta": 1}, {"role": "tool", "tool_call_id": "same", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"]},
        {"role": "tool", "tool_call_id": "orphan", "content": "r"}, turn(call("x", {})),
    ])  # fmt: skip
    assert complaint({"messages": sent}) is None
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "tool",
        "user",
        "assistant",
        "tool",
    ]
    assert sent[4]["content"] == sent[7]["content"] == "Error: interrupted, no result"
    assert sent[5]["content"] == "ab" and sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_id_that_carries_a_signature_is_left_alone():
    calls = [
        call("list_directory", {}, id="call_1__thought__c2lnbmF0dXJl"),
        call("list_directory", {}, id="call_2"),
    ]
    sent = agent.wire_messages(
        [turn(*calls), {"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}]
    )
    assert [entry["id"] for entry in sent[0]["tool_calls"]] == ["call_1__thought__c2lnbmF0dXJl", "call_2"]
