"""The experiments show what they claim, the stored tables are fresh, and --write is careful."""

import os
import re
from types import SimpleNamespace

import pytest

import agent
import agent_app
from agent import RunResult, run_agent
from config import ProviderError
from lab import ablations, single_call
from lab.ablations import EXPERIMENTS, REPORT, main, run_experiment, stored
from lab.order_server import OrderServer, Refused, order_fault
from lab.sample_repo import sample_files, sample_repo
from lab.script import OffScript, Script, call, tokens_billed
from lab.tables import markdown, put_tables, ratio
from safety import BudgetTracker

LABELS = ["Hypothesis.", "What was changed.", "Result.", "Why it failed.", "In production."]


def rows_of(name):
    rows = run_experiment(name)
    return [SimpleNamespace(**{key.replace(" ", "_"): value for key, value in row.items()}) for row in rows]


# --- what each experiment shows, and what the text beside it says ------------------------------------
def test_without_a_budget_the_run_costs_what_the_backstop_allows():
    on, short, long = rows_of("no-budget")
    assert (on.stop_reason, short.stop_reason, long.stop_reason) == ("budget", "max_steps", "max_steps")
    assert (short.steps, long.steps) == (40, 80)
    assert 20_000 <= on.tokens < 20_000 + long.tokens / long.steps, "the overshoot is a part of one step"
    assert 2.75 < long.tokens / short.tokens < 3.5, "'twice the steps cost three times as much'"


def test_a_step_cap_does_not_see_enormous_steps():
    both, steps_only = rows_of("step-cap-only")
    assert both.stop_reason == steps_only.stop_reason == "budget"
    assert both.steps < steps_only.steps == 10
    assert steps_only.tokens > 5 * both.tokens > 5 * 20_000


def test_stuck_detection_ends_repeats_early_and_misses_alternation():
    on, off, alternating = rows_of("no-stuck")
    assert (on.stop_reason, on.steps) == ("stuck", 3)
    assert (off.stop_reason, off.steps) == (alternating.stop_reason, alternating.steps) == ("budget", 10)


def test_comparing_tool_names_kills_a_run_that_would_have_answered():
    whole, by_name = rows_of("stuck-by-name")
    assert (whole.stop_reason, whole.outcome, whole.paid_for_nothing) == ("answered", "right answer", 0)
    assert (by_name.stop_reason, by_name.steps) == ("stuck", 3)
    assert by_name.paid_for_nothing == by_name.tokens > 0


def test_an_error_that_is_not_caught_loses_the_run_and_its_tokens():
    on, off = rows_of("no-recovery")
    assert (on.stop_reason, on.outcome) == ("answered", "right answer")
    assert (off.stop_reason, off.outcome) == ("none", "run lost: FileNotFoundError")
    assert off.paid_for_nothing == off.tokens > 0


def test_a_swallowed_error_gets_the_same_model_stuck():
    on, off = rows_of("swallowed-error")
    assert (on.outcome, off.stop_reason, off.outcome) == ("right answer", "stuck", "no answer")
    assert off.tokens > 0.9 * on.tokens, "'almost as much'"


def test_only_the_right_order_gets_past_the_server():
    right, *wrong = rows_of("message-order")
    assert (right.outcome, right.requests_accepted) == ("right answer", "5 of 5")
    assert len(wrong) == 3
    for row in wrong:
        assert row.stop_reason == "none" and row.outcome.startswith("run lost: HTTP 400"), row
        assert row.requests_accepted == "1 of 2", row


def test_without_stop_reasons_a_stuck_run_counts_as_a_success():
    *rows, total = run_experiment("collapsed-stops")
    assert [row["stop reason"] for row in rows] == ["answered", "stuck", "budget", "max_steps"]
    assert {row["stop reason, collapsed"] for row in rows} == {"answered"}
    assert (total["completed"], total["completed, collapsed"]) == ("1 of 4", "2 of 4")


def test_one_call_is_cheaper_where_the_file_is_known_and_dearer_where_it_is_not():
    *known, together, unknown = run_experiment("single-call")
    assert len(known) == 5
    for row in known:
        assert row["answer: loop / call"] == "right / right", row
        assert row["steps: loop / call"] == "2 / 1", row
        assert float(row["tokens, ratio"]) > 2, row
    assert together["answer: loop / call"] == "5 right / 5 right"
    assert unknown["answer: loop / call"] == "right / right"
    assert float(unknown["tokens, ratio"]) < 1


def test_the_experiments_run_the_loop_that_is_in_agent_py(monkeypatch):
    def amnesiac(messages, repo_root, complete, budget, **guards):
        return RunResult(None, [], 0, 0, "a loop of mine")

    monkeypatch.setattr(agent, "run_agent", amnesiac)
    assert {row.stop_reason for row in rows_of("no-stuck")} == {"a loop of mine"}


# --- the document --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_stored_table_is_what_a_fresh_run_gives(name):
    text = REPORT.read_text(encoding="utf-8")
    fresh = put_tables(text, {name: stored(run_experiment(name))})
    assert fresh == text, (
        f"run `python -m lab break --write {name}`; a fresh run of {name} differs from FAILURE_ANALYSIS.md"
    )


def test_the_document_has_each_experiment_with_all_its_parts():
    sections = re.split(r"^## Experiment ", REPORT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for number, (name, (title, _)) in enumerate(EXPERIMENTS.items(), 1):
        section = sections[number - 1]
        assert section.startswith(f"{number}: {title}\n")
        assert re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE) == LABELS
        assert f"<!-- table:{name} -->" in section


DOCUMENT = """\
# Mine

**Result.** 1 | 2

<!-- table:no-stuck -->
old
<!-- /table:no-stuck -->

my words \u2713
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_write_changes_only_what_is_between_the_markers(tmp_path, capsys, newline):
    path = tmp_path / "REPORT.md"
    path.write_bytes(DOCUMENT.replace("\n", newline).encode())
    assert main(["no-stuck", "--write", "--file", str(path)]) == 0
    table = stored(run_experiment("no-stuck"))
    assert path.read_bytes().decode() == DOCUMENT.replace("old", table).replace("\n", newline)
    assert os.listdir(tmp_path) == ["REPORT.md"]
    written = path.stat().st_mtime_ns
    assert main(["no-stuck", "--write", "--file", str(path)]) == 0
    assert path.stat().st_mtime_ns == written, "what is up to date isn't written again"


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "No such file"),
        ("no markers\n", "<!-- table:no-stuck -->"),
        (DOCUMENT.replace("<!-- /table:no-stuck -->", ""), "<!-- /table:no-stuck -->"),
        (DOCUMENT + DOCUMENT, "one line"),
        ("<!-- /table:no-stuck -->\n<!-- table:no-stuck -->\n", "below it"),
        (b"\xff\xfe broken", "codec"),
    ],
)
def test_a_document_without_a_place_for_the_table_is_left_alone(tmp_path, capsys, text, said):
    path = tmp_path / "REPORT.md"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes() if text is not None else None
    assert main(["no-stuck", "--write", "--file", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error and "REPORT.md" in error and error.count("\n") == 1
    assert (path.read_bytes() if path.exists() else None) == before
    assert os.listdir(tmp_path) == (["REPORT.md"] if before is not None else [])


def test_all_tables_or_none_are_written(tmp_path, capsys):
    path = tmp_path / "REPORT.md"
    path.write_text(DOCUMENT, encoding="utf-8")
    assert main(["no-stuck", "no-recovery", "--write", "--file", str(path)]) == 2
    assert path.read_text(encoding="utf-8") == DOCUMENT


# --- the command -----------------------------------------------------------------------------------------
def test_it_prints_the_experiments_that_are_asked_for_in_order(capsys):
    assert main(["single-call", "no-stuck", "no-stuck"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^([a-z-]+): ", out, re.MULTILINE) == ["single-call", "no-stuck"]
    assert "seconds, ratio" in out
    assert "seconds, ratio" not in stored(run_experiment("single-call"))


@pytest.mark.parametrize(
    "argv, said",
    [
        (["nonsense"], "there is no experiment 'nonsense'"),
        (["no-stuck", "--model", "some/model"], "--model goes with single-call alone"),
        (["--write", "--model", "some/model"], "--model goes with single-call alone"),
    ],
)
def test_bad_usage_is_one_sentence_and_code_2(argv, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "function, milestone", [("detect_stuck", "M1"), ("run_agent", "M3"), ("evaluate_run", "M4")]
)
def test_a_stub_is_named_in_one_sentence(monkeypatch, capsys, function, milestone):
    def stub(*_, **__):
        raise NotImplementedError(f"{milestone}: build {function}")

    monkeypatch.setattr(agent_app, function, stub)
    assert main(["no-stuck"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{milestone}: build {function}" in captured.err and captured.err.count("\n") == 1


def test_a_live_model_is_asked_both_ways_and_a_failure_loses_one_answer_only(monkeypatch, capsys):
    asked = []

    def complete(messages, tools):
        asked.append(bool(tools))
        if len(asked) == 1:
            raise ProviderError("the line is dead")
        return SimpleNamespace(
            role="assistant", content="12 or 18.5 or CarrierDown", tool_calls=None, tokens_used=100
        )

    monkeypatch.setattr(single_call, "open_live", lambda model: single_call.Live(model, complete, 4, 1000))
    assert main(["--model", "some/model"]) == 0
    captured = capsys.readouterr()
    assert "provider failed / right" in captured.out
    assert "2 right / 3 right" in captured.out, (
        "the first loop failed; two of five answers aren't in the text"
    )
    assert "the line is dead" in captured.err
    assert asked == [True, False] * 6, "the loop has tools, the single call has none"


def test_a_live_model_without_its_key_is_one_sentence(capsys):
    assert main(["--model", "gpt-anything"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err


# --- the parts ---------------------------------------------------------------------------------------------
def test_a_step_is_billed_for_everything_that_is_sent_and_for_the_reply():
    asked = {"role": "user", "content": "x" * 40}
    made = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "abcd", "arguments": "{}{}"}}],
    }
    assert tokens_billed([asked], []) == 10
    assert tokens_billed([asked, made], []) == 12
    assert tokens_billed([asked], ["y" * 36]) == 20, (
        "schemas are sent as JSON: 36 characters and 4 of punctuation"
    )


def test_a_script_is_sent_what_its_calls_brought_and_pays_for_the_growing_prompt():
    seen = []

    def turns():
        seen.append((yield "thinking aloud", call("list_directory"), call("read_file", path="nothing.py")))
        yield "done"

    with sample_repo() as root:
        messages, budget = [{"role": "user", "content": "?"}], BudgetTracker(5, 10**6)
        result = run_agent(messages, root, Script(turns()), budget)
    assert (result.answer, result.steps, len(result.history)) == ("done", 2, 2)
    assert seen[0].startswith("Error") and messages[1].content == "thinking aloud"
    first = messages[1].tokens_used
    assert budget.tokens > 2 * first, "the second step pays for the first again"


def test_a_script_that_is_asked_for_more_says_so():
    model = Script(iter_of("only turn"))
    model([{"role": "user", "content": "?"}], [])
    with pytest.raises(OffScript, match="ends after 1 turn"):
        model([{"role": "user", "content": "?"}], [])


def test_a_loop_that_shows_the_model_nothing_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(agent, "dispatch_tool", lambda name, arguments, repo_root: "")
    assert main(["no-recovery"]) == 2
    error = capsys.readouterr().err
    assert "can't go on from the observation ''" in error and "M1 to M4" in error and error.count("\n") == 1


def iter_of(*turns):
    for turn in turns:
        yield turn


def turn(*ids):
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call_id} for call_id in ids]}


def result(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


USER = {"role": "user", "content": "?"}


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [USER, turn("a"), result("a")],
        [USER, turn("a", "b"), result("b"), result("a"), turn("c"), result("c"), USER],
    ],
)
def test_a_legal_order_has_no_fault(messages):
    assert order_fault(messages) is None


@pytest.mark.parametrize(
    "messages, named",
    [
        ([USER, result("a"), turn("a")], "'a'"),
        ([USER, result("a")], "'a'"),
        ([USER, turn("a")], "'a'"),
        ([USER, turn("a", "b"), result("a")], "'b'"),
        ([USER, turn("a", "b"), result("a"), USER, result("b")], "'b'"),
        ([USER, turn("a"), result("a"), result("a")], "'a'"),
        ([USER, turn("a"), turn("b"), result("a"), result("b")], "'a'"),
    ],
)
def test_an_illegal_order_is_named(messages, named):
    assert named in order_fault(messages)


def test_the_server_refuses_over_http_and_counts():
    with OrderServer(Script(iter_of("fine"))) as server:
        with pytest.raises(Refused, match="HTTP 400: .*'a'"):
            server.ask([USER, result("a")], [])
        reply = server.ask([USER], [])
    assert (reply.content, reply.tool_calls, reply.tokens_used > 0) == ("fine", None, True)
    assert (server.requests, server.accepted) == (2, 1)


def test_the_three_wrong_orders_are_wrong_and_keep_the_rest():
    system, made = {"role": "system", "content": ""}, turn("a", "b")
    right = [system, USER, made, result("a"), result("b")]
    assert ablations.results_first(right) == [system, USER, result("a"), result("b"), made]
    assert ablations.without_turns(right) == [system, USER, result("a"), result("b")]
    assert ablations.without_last_result(right) == right[:-1]
    for order in (ablations.results_first, ablations.without_turns, ablations.without_last_result):
        assert order(right[:2]) == right[:2], "a first request has nothing to get wrong"


def test_the_sample_repository_is_the_same_each_time():
    with sample_repo() as one, sample_repo() as other:
        assert one != other
        for path, text in sample_files().items():
            assert (one / path).read_bytes() == (other / path).read_bytes() == text.encode()
    assert not one.exists()


@pytest.mark.parametrize("part, whole, shown", [(10, 4, "2.5"), (1, 4, "0.25"), (1, 0, "-"), (0, 4, "0.00")])
def test_ratios(part, whole, shown):
    assert ratio(part, whole) == shown


def test_a_cell_cannot_break_the_table():
    assert markdown([{"a": "x|y\nz", "b": True}]).splitlines()[2] == "| x\\|y z | yes |"
