"""The evaluation: its tasks, its records, that nothing is lost, and what its reports claim."""

import json
import os
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from agent import get_field
from config import ProviderError
from lab import evaluate_tasks
from lab.evaluate_tasks import evaluate, load_tasks, main, read_records, resolve_repo, run_live
from lab.keyword_model import reply
from lab.reports import compare, report
from tests.conftest import ScriptedModel, call, turn
from tools import search_code

ALL = load_tasks()
CONFIG = {"model": "scripted", "max_steps": 4, "token_budget": 1000}
GOOD = {
    "id": "one", "task": "What is the language?", "repo": "stdlib:json", "answer_contains": "bonjour",
    "optimal_steps": 2, "agent_needed": True, "why": "one search",
}  # fmt: skip


def unit(**changes) -> dict:
    return GOOD | {"repeat": 0, "config": CONFIG} | changes


def record(name="one", repeat=0, error=None, **changes) -> dict:
    kept = {"id": name, "repeat": repeat, "model": "m", "config": {"model": "m"}, "error": error}
    if error:
        return kept
    score = {"completed": True, "steps": 2, "tool_calls": 1, "efficiency": 1.0, "stop_reason": "answered"}
    return (
        kept
        | score
        | {"answer": "bonjour", "tokens": 100, "cost": None, "seconds": 1.0, "history": []}
        | changes
    )


def fake_run(task: dict) -> dict:
    """A unit of work that other processes can import; a task named ``die`` takes its worker along, once."""
    if task["id"].startswith("die") and not Path(task["task"]).exists():
        Path(task["task"]).touch()
        os._exit(1)
    return record(task["id"], task["repeat"])


@pytest.fixture
def model(monkeypatch):
    """Let ``run_live`` play a script instead of a live model."""

    def play(*turns) -> ScriptedModel:
        scripted = ScriptedModel(*turns)
        monkeypatch.setattr(evaluate_tasks, "_live_complete", lambda config: scripted)
        return scripted

    return play


@pytest.fixture
def offline_model(monkeypatch, tmp_path):
    """The keyword model, called directly, with a working folder of its own."""

    def complete(messages: list, tools: list):
        said = reply(messages)
        calls = [
            call(c["function"]["name"], c["function"]["arguments"], c["id"]) for c in said["tool_calls"] or []
        ]
        return turn(*calls, text=said["content"], tokens=10)

    monkeypatch.setattr(evaluate_tasks, "_live_complete", lambda config: complete)
    monkeypatch.chdir(tmp_path)


# --- the tasks --------------------------------------------------------------------------------------
def test_there_are_enough_tasks_of_each_sort():
    kinds = {task["repo"].partition(":")[0] for task in ALL}
    assert len(ALL) >= 24 and kinds == {"code", "stdlib", "package"}
    assert {task["agent_needed"] for task in ALL} == {True, False}
    assert all(task["optimal_steps"] >= 2 for task in ALL), (
        "a run that looks anything up has two steps at least"
    )


@pytest.mark.parametrize("task", ALL, ids=lambda task: task["id"])
def test_each_answer_stands_in_its_repository(task):
    root = resolve_repo(task["repo"])
    found = not search_code(root, task["answer_contains"]).startswith("no line holds")
    assert found or task["answer_contains"] in {path.name for path in root.rglob("*")}


def test_a_run_on_this_project_does_not_see_the_answers():
    root = resolve_repo("code")
    assert (root / "tools.py").is_file()
    assert {path.suffix for path in root.rglob("*")} <= {".py", ".txt"}, "only the core's files"
    assert resolve_repo("code") == root, "one copy a process is enough"


@pytest.mark.parametrize(
    "reference",
    ["nowhere", "stdlib:nothing", "package:no_such_package", "host:json", "", "stdlib:", "package:"],
)
def test_a_repository_that_is_not_there_is_an_error(reference):
    with pytest.raises(ValueError, match="there is no repository"):
        resolve_repo(reference)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"answer_contains": " "}, "answer_contains must be a str that is not blank"),
        ({"answer_contains": "LANGUAGE"}, "stands in the task already"),
        ({"optimal_steps": 0}, "at least 1"),
        ({"optimal_steps": "2"}, "optimal_steps must be a int"),
        ({"optimal_steps": True}, "optimal_steps must be a int"),
        ({"agent_needed": 1}, "agent_needed must be a bool"),
        ({"why": ""}, "why must be"),
        ({"tsak": "x"}, "the keys id, task"),
    ],
)
def test_a_task_that_could_not_be_judged_is_refused(tmp_path, change, words):
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(GOOD) + "\n\n" + json.dumps(GOOD | {"id": "two"} | change) + "\n")
    with pytest.raises(ValueError, match="tasks.jsonl, line 3: .*" + words):
        load_tasks(file)


@pytest.mark.parametrize(
    "line, words", [("{", "not JSON"), ("[]", "the keys"), (json.dumps(GOOD), "came before")]
)
def test_a_line_that_is_no_new_task_is_refused(tmp_path, line, words):
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + line)
    with pytest.raises(ValueError, match="line 2: .*" + words):
        load_tasks(file)


# --- one run ----------------------------------------------------------------------------------------
def test_a_run_is_scored_and_its_record_is_plain_data(model):
    first = turn(call("search_code", {"query": "x = 1"}), tokens=30)
    last = turn(text="It is bonjour.", tokens=40)
    first.prompt_tokens, first.completion_tokens, first.cost = 20, 10, 0.25
    last.prompt_tokens, last.completion_tokens, last.cost = 35, 5, 0.5
    sent = model(first, last)
    got = run_live(unit())
    assert json.loads(json.dumps(got)) == got
    assert {key: got[key] for key in ("completed", "steps", "efficiency", "tokens")} == {
        "completed": True, "steps": 2, "efficiency": 1.0, "tokens": 70,
    }  # fmt: skip
    assert got["history"] == [["search_code", {"query": "x = 1"}]] and got["error"] is None
    assert (got["prompt_tokens"], got["completion_tokens"], got["cost"]) == (55, 15, 0.75)
    assert get_field(sent.sent[0].messages[-1], "content") == GOOD["task"]


def test_a_cost_that_is_unknown_for_one_call_is_unknown_for_the_run(model):
    first, last = turn(call("list_directory"), tokens=1), turn(text="bonjour", tokens=1)
    first.cost, last.cost = 0.25, None
    model(first, last)
    assert run_live(unit())["cost"] is None


@pytest.mark.parametrize(
    "change, failure, words",
    [
        ({}, ProviderError("the model can't be asked"), "the model can't be asked"),
        ({}, RuntimeError("boom"), "RuntimeError: boom"),
        ({"repo": "nowhere"}, None, "there is no repository"),
    ],
)
def test_a_run_that_fails_is_a_record_too(model, change, failure, words):
    model(failure)
    got = run_live(unit(**change))
    assert words in got["error"] and "completed" not in got, "no score is made up"


# --- many runs --------------------------------------------------------------------------------------
class Flaky(Executor):
    """Loses the worker of every task as often as told."""

    def __init__(self, losses: int) -> None:
        self.losses, self.sent = losses, []

    def submit(self, run_task, task):
        self.sent.append(task["id"])
        future = Future()
        if self.sent.count(task["id"]) <= self.losses:
            future.set_exception(ConnectionError("worker gone"))
        else:
            future.set_result(run_task(task))
        return future


def test_threads_run_every_task_and_tell_each_record_at_once():
    told = []
    with ThreadPoolExecutor(3) as executor:
        records = evaluate([unit(id=str(n)) for n in range(10)], fake_run, executor, told.append)
    assert records == told and sorted(int(r["id"]) for r in records) == list(range(10))


def test_a_task_whose_worker_is_lost_is_sent_again():
    executor = Flaky(losses=2)
    records = evaluate([unit(id="a"), unit(id="b")], fake_run, executor)
    assert [r["error"] for r in records] == [None, None] and len(executor.sent) == 6


def test_a_task_that_loses_every_worker_is_recorded_as_lost():
    records = evaluate([unit(id="a"), unit(id="b")], fake_run, Flaky(losses=3))
    assert ["the worker was lost: ConnectionError: worker gone"] * 2 == [r["error"] for r in records]


def test_processes_run_them_too_and_a_killed_one_loses_nothing(tmp_path):
    tasks = [unit(id="ok"), unit(id="die", task=str(tmp_path / "died")), *(unit(id=str(n)) for n in range(4))]
    kept = []
    with ProcessPoolExecutor(2) as executor:
        evaluate(tasks, fake_run, executor, kept.append)
    assert sorted(r["id"] for r in kept) == sorted(t["id"] for t in tasks), (
        "each task has a record, if only that it was lost"
    )
    assert (tmp_path / "died").exists()
    again = [task for task in tasks if task["id"] in {r["id"] for r in kept if r["error"]}]
    assert "die" in {task["id"] for task in again}, (
        "a pool whose worker died is broken: the rest is for a new one"
    )
    with ProcessPoolExecutor(1) as executor:
        assert [r["error"] for r in evaluate(again, fake_run, executor)] == [None] * len(again)


# --- the command ------------------------------------------------------------------------------------
FEW = ["--task", "json-error-base", "--task", "json-scanstring-file"]


def test_the_command_runs_tasks_keeps_them_and_reports(offline_model, tmp_path, capsys):
    assert main([*FEW, "--out", "out.jsonl"]) == 0
    told = capsys.readouterr()
    kept = read_records(tmp_path / "out.jsonl")
    assert [r["id"] for r in kept] == ["json-error-base", "json-scanstring-file"]
    assert (
        "completed: 2 of 2 (100 %)" in told.out
        and "cost: unknown" in told.out
        and "stop reasons: answered 2" in told.out
    )
    assert "[2/2] + json-scanstring-file: answered" in told.err


def test_a_record_is_on_disk_before_the_next_is_waited_for(offline_model, tmp_path, monkeypatch):
    def evaluate(tasks, run_task, executor, on_record):
        for number in (1, 2):
            on_record(record(str(number)))
            assert len(read_records(tmp_path / "out.jsonl")) == number

    monkeypatch.setattr(evaluate_tasks, "evaluate", evaluate)
    assert main([*FEW, "--out", "out.jsonl"]) == 0


def test_a_result_file_is_never_overwritten(offline_model, tmp_path, capsys):
    (tmp_path / "out.jsonl").write_text("precious")
    assert main([*FEW, "--out", "out.jsonl"]) == 2
    assert "--resume" in capsys.readouterr().err and (tmp_path / "out.jsonl").read_text() == "precious"


def test_without_a_name_the_file_is_in_runs(offline_model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(evaluate_tasks, "RUNS", tmp_path / "runs")
    assert main(FEW) == 0
    [file] = (tmp_path / "runs").iterdir()
    assert file.name.startswith("offline-keyword-") and len(read_records(file)) == 2


def test_a_killed_run_goes_on_where_it_was(offline_model, tmp_path, capsys):
    file = tmp_path / "out.jsonl"
    main([*FEW, "--repeat", "2", "--out", str(file)])
    lines = file.read_text().splitlines(keepends=True)
    failed = json.dumps(record("json-error-base", 1, error="the worker was lost")) + "\n"
    file.write_text(lines[0] + failed + lines[1][:40])  # killed in the middle of its second line
    capsys.readouterr()
    assert main([*FEW, "--repeat", "2", "--resume", str(file)]) == 0
    told = capsys.readouterr()
    assert "3 runs of offline/keyword, 1 done before" in told.err and "completed: 4 of 4" in told.out
    assert file.read_text().startswith(lines[0] + failed + lines[1][:40] + "\n"), (
        "nothing that was there is touched"
    )
    assert len(read_records(file)) == 4
    assert main([*FEW, "--repeat", "2", "--resume", str(file)]) == 0
    assert "0 runs" in capsys.readouterr().err


def test_resuming_a_file_that_is_not_there_starts_it(offline_model, tmp_path, capsys):
    assert main([*FEW, "--resume", "new.jsonl"]) == 0 and len(read_records(tmp_path / "new.jsonl")) == 2


def test_runs_with_other_settings_do_not_mix(offline_model, tmp_path, capsys):
    (tmp_path / "out.jsonl").write_text(json.dumps(record()) + "\n")
    assert main([*FEW, "--resume", "out.jsonl"]) == 2
    assert "holds runs with model m; compare" in capsys.readouterr().err
    assert main([*FEW, "--out", "five.jsonl", "--max-steps", "5"]) == 0
    assert main([*FEW, "--resume", "five.jsonl"]) == 2
    assert "holds runs with max_steps 5; compare" in capsys.readouterr().err


def test_a_run_that_failed_gives_code_1(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model(ProviderError("no answer"))
    assert main(["--limit", "1", "--out", "out.jsonl"]) == 1
    told = capsys.readouterr()
    assert "no answer" in told.out and "no run was finished" in told.out


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--task", "nope"], "there is no task 'nope'; the tasks are own-default-model"),
        (["--tasks", "absent.jsonl"], "absent.jsonl"),
        (["--model", "claude-x"], "needs ANTHROPIC_API_KEY"),
        (["--compare", "a", "b"], "a"),
        (["--resume", "not.jsonl"], "not a result file"),
    ],
)
def test_bad_use_is_one_sentence_and_code_2(offline_model, tmp_path, capsys, argv, words):
    (tmp_path / "not.jsonl").write_text("hello\n")
    assert main(argv) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ") and words in told.err and told.err.count("\n") == 1
    assert not (tmp_path / "runs").exists(), "nothing is written before all is checked"


def test_a_full_disk_is_one_sentence_and_code_2(offline_model, tmp_path, monkeypatch, capsys):
    def evaluate(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluate_tasks, "evaluate", evaluate)
    assert main([*FEW, "--out", "out.jsonl"]) == 2
    assert "can't be written: No space left" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--jobs", "0"], ["--repeat", "x"], ["--limit", "-1"], ["--out", "a", "--resume", "b"]]
)
def test_bad_flags_are_argparses(argv, capsys):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2


# --- reports ----------------------------------------------------------------------------------------
def test_the_report_counts_what_is_there():
    tasks = [GOOD, GOOD | {"id": "two", "agent_needed": False, "optimal_steps": 3}]
    told = report(
        [
            record(
                "two",
                completed=False,
                stop_reason="budget",
                steps=9,
                efficiency=0.3,
                tokens=1300,
                cost=0.5,
                seconds=4.0,
            ),
            record("one", cost=0.25, steps=4, efficiency=0.5),
            record("one", 1, cost=0.25),
        ],
        tasks,
    )
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told.split("\n")]
    assert rows[2][:5] == ["one", "answered", "yes", "4", "2"], "in the order of the tasks"
    assert rows[3][:2] == ["one #2", "answered"]
    assert rows[4] == ["two", "budget", "no", "9", "3", "0.30", "1", "1,300", "$0.5000", "4.0"]
    for line in (
        "stop reasons: answered 2, budget 1", "completed: 2 of 3 (67 %)", "need an agent: 2 of 2",
        "would do: 0 of 1", "completed runs: 0.75 on average", "tokens: 1,500 in all, 100 a run",
        "cost: $1.0000", "seconds: 6.0 in all",
    ):  # fmt: skip
        assert line in told, f"{line!r} is missing in\n{told}"


def test_an_unknown_cost_is_never_zero_and_a_failed_run_has_no_figures():
    told = report([record(cost=0.0), record("two", cost=None), record("three", error="gone")], [GOOD])
    assert "cost: unknown" in told and "failed: three: gone" in told and "completed: 2 of 2" in told
    assert "cost: $0.0000" in report([record(cost=0.0)], [GOOD]), "a price of nothing is a price"


def test_only_differences_beyond_the_spread_are_claimed():
    first = [record("a", n, steps=steps, tokens=100) for n, steps in enumerate((2, 4, 3))]
    second = [record("a", n, steps=steps, tokens=150) for n, steps in enumerate((3, 5, 4))]
    told = compare(first, second)
    assert "larger than the spread between repeats: tokens of a" in told, "steps moved by 1, and vary by 2"
    assert "100 -> 150" in told and "completed, mean over the runs: 1 -> 1" in told


def test_a_single_run_has_no_spread_and_nothing_is_claimed():
    told = compare([record(steps=2)], [record(steps=9)])
    assert "repeats: nothing" in told and "1 of 1 tasks ran once" in told and "unknown: one run" in told


def test_tasks_of_one_side_only_are_named():
    assert "in one file only: b, c" in compare([record("a"), record("b")], [record("a"), record("c")])
    assert compare([record("a")], [record("b")]) == "the two files have no task in common"


def test_compare_reads_two_files(tmp_path, capsys):
    for name, steps in (("a", 2), ("b", 3)):
        (tmp_path / name).write_text(
            "".join(json.dumps(record("x", n, steps=steps)) + "\n" for n in range(2)) + '{"id": "x", "rep'
        )
    assert main(["--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "repeats: steps of x" in capsys.readouterr().out


# --- the front door ---------------------------------------------------------------------------------
def door(*argv: str) -> subprocess.CompletedProcess:
    code = Path(evaluate_tasks.__file__).parents[1]
    return subprocess.run([sys.executable, "-m", "lab", *argv], capture_output=True, text=True, cwd=code)


def test_the_front_door_tells_its_commands_and_refuses_others():
    told = door("--help")
    assert told.returncode == 0 and all(
        name in told.stdout for name in ("break", "evaluate", "replay", "bench")
    )
    wrong = door("evalute")
    assert (
        wrong.returncode == 2 and "no command 'evalute'" in wrong.stderr and "Traceback" not in wrong.stderr
    )
    assert door().returncode == 2
    assert "--repeat" in door("evaluate", "--help").stdout
