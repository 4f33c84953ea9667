"""The benchmark measures something, says what it couldn't measure, and judges by its goals."""

import math
import os
import re
import sys

import pytest

import agent_app
from lab import bench
from lab.bench import ABSENT, Sizes, figure, in_rounds, main, row

TINY = Sizes(rounds=1, steps=(2, 5, 9), steps_a_sample=50, file_bytes=1 << 20, entries=300)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "package" / "__pycache__").mkdir(parents=True)
    for number in range(30):
        (root / "package" / f"part{number}.py").write_text(
            "def method(self):\n    return self\n" * 20, encoding="utf-8"
        )
    (root / "package" / "__pycache__" / "part.txt").write_text("self", encoding="utf-8")
    return root


def medians(rows):
    """What was measured, by name; a sentence stays one."""
    found = {}
    for line in rows:
        number = re.match(r"[\d,.]+", line["median"])
        found[line["what"]] = float(number[0].replace(",", "")) if number else line["median"]
    return found


def test_the_loop_costs_more_than_nothing_and_more_than_the_bare_loop():
    measured = medians(bench.loop_rows(TINY))
    for steps in TINY.steps:
        assert (
            measured[f"run_agent, each of {steps} steps"] > measured[f"bare loop, each of {steps} steps"] > 0
        )
        assert measured[f"run_agent / bare, {steps} steps"] > 1
    assert measured["run_agent, each of 9 / of 2"] > 0


def test_the_bare_loop_does_the_work_of_a_loop():
    turns, ran, transcript = [bench._turn(0), bench._turn(1)], [], []
    model = iter(turns)
    assert (
        bench.bare_loop(
            transcript, lambda messages, tools: next(model), lambda *call: ran.append(call) or "seen", 2
        )
        is None
    )
    assert [arguments for _, arguments, _ in ran] == [{"path": "file0.py"}, {"path": "file1.py"}]
    assert transcript[0] is turns[0] and transcript[1] == {
        "role": "tool",
        "tool_call_id": "c0",
        "content": "seen",
    }


def test_the_search_is_measured_against_the_textbook(tree):
    measured = medians(bench.search_rows(tree, TINY))
    assert measured["search_code"] > 0 and measured["textbook"] > 0
    assert measured["search_code / textbook"] > 0
    assert bench.files_searched(tree) == (30, 0)


def test_a_search_program_that_is_absent_is_said_to_be(tree, monkeypatch):
    monkeypatch.setattr(bench.shutil, "which", lambda name: None)
    measured = medians(bench.search_rows(tree, TINY))
    assert (
        measured["rg -j1"]
        == measured["git grep, one thread"]
        == "not measured: not here, or it can't run this"
    )
    assert not [what for what in measured if "/ rg" in what or "/ git" in what]
    assert bench.files_seen(tree) == "search_code looks at 30 files and leaves out 0"


def test_a_search_program_that_fails_is_not_taken_for_a_quick_one(tree):
    exits = [sys.executable, "-c", "import sys; sys.exit(int(sys.argv[1]))"]
    assert bench.finds_nothing([*exits, "1"], tree)
    assert not bench.finds_nothing([*exits, "0"], tree), "it found the string that isn't there"
    assert not bench.finds_nothing([*exits, "2"], tree), "it doesn't know its options"


@pytest.mark.skipif(not bench.shutil.which("rg"), reason="needs ripgrep")
def test_ripgrep_sees_the_same_files(tree):
    assert (
        bench.files_seen(tree, bench.SKIPPED_DIRS)
        == "search_code looks at 30 files and leaves out 0, rg looks at 30"
    )
    measured = medians(bench.search_rows(tree, TINY, bench.SKIPPED_DIRS))
    assert measured["rg -j1"] > 0 and measured["search_code / rg -j1"] > 0


def test_the_textbook_search_finds_what_search_code_finds(tree):
    (tree / "one.py").write_text("x = 1\nneedle = 2\n", encoding="utf-8")
    assert bench.textbook_search(tree, "needle") == ["one.py:2: needle = 2"]
    assert bench.textbook_search(tree, ABSENT) == []
    assert len(bench.textbook_search(tree, "return self")) == 30 * 20, "not what is in __pycache__"


def test_goals_of_the_search_are_left_out_for_a_small_tree(tree):
    assert {line["met"] for line in bench.search_rows(tree, TINY)} == {""}


def test_the_library_is_copied_without_what_a_rival_would_see_alone(tmp_path, monkeypatch):
    library = tmp_path / "library"
    (library / "__pycache__").mkdir(parents=True)
    (library / "__pycache__" / "a.pyc").write_bytes(b"x")
    (library / "a.py").write_bytes(b"x = 1\n")
    (library / "a.so").write_bytes(b"\x7fELF\0")
    (library / "key.pem").write_bytes(b"secret\n")
    monkeypatch.setattr(bench.sysconfig, "get_paths", lambda: {"stdlib": str(library)})
    copied = bench.copy_library(tmp_path / "copy")
    assert [path.name for path in copied.rglob("*")] == ["a.py"]


def test_large_inputs_are_made_and_measured(tmp_path):
    measured = medians(bench.large_input_rows(tmp_path, TINY))
    assert len(measured) == 3 and all(value > 0 for value in measured.values())
    assert (tmp_path / "large.txt").stat().st_size == TINY.file_bytes
    assert len(os.listdir(tmp_path / "crowd")) == TINY.entries


def test_start_up_is_measured_against_a_python_that_does_nothing():
    measured = medians(bench.start_rows(TINY))
    assert measured["python -c pass"] > 0
    assert measured["python -c 'import agent' / pass"] > 1
    assert measured["python agent_app.py --help / pass"] > 1


def test_tokens_grow_faster_than_steps_and_the_budget_stops_them():
    rows = bench.token_rows()
    assert [line["steps"] for line in rows] == [10, 20, 40, 80]
    for fewer, more in zip(rows, rows[1:]):
        assert more["tokens"] > 2 * fewer["tokens"]
    assert rows[-1]["under a budget of 20,000"] == rows[-2]["under a budget of 20,000"]
    assert rows == bench.token_rows(), "a count is the same each time"


@pytest.mark.parametrize("values, met", [([1, 2, 30], "ok"), ([1, 3, 3], "ok"), ([1, 3.1, 3.2], "over")])
def test_a_goal_is_judged_by_the_median(values, met):
    line = row("it", values, "ms", 3)
    assert (line["goal"], line["met"]) == ("at most 3 ms", met)


def test_what_the_clock_cannot_see_is_said():
    assert in_rounds([1.0, 2.0], [0.0, 4.0])[1] == 0.5
    assert row("it", in_rounds([0.0], [0.0]), "ms", 3)["median"] == "too quick for this clock"
    assert row("it", [math.nan, 2.0], "")["spread"] == "2.00 to 2.00"


@pytest.mark.parametrize(
    "value, shown", [(1234.5, "1,234"), (99.96, "100.0"), (12.34, "12.3"), (1, "1.00"), (0.1234, "0.123")]
)
def test_figures(value, shown):
    assert figure(value) == shown


def test_everything_is_printed_in_one_command(tree, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "QUICK", TINY)
    monkeypatch.setattr(bench.sysconfig, "get_paths", lambda: {"stdlib": str(tree)})
    assert main(["--quick", str(tree)]) == 0
    out = capsys.readouterr().out
    for title in (
        "The loop",
        "Search: the standard library",
        f"Search: {tree}",
        "Large inputs",
        "Start-up",
        "Tokens sent",
    ):
        assert title in out
    assert re.search(r"^\d of \d goals met \(the goals are meant for the full sizes\)$", out, re.MULTILINE)


def test_inputs_that_cannot_be_made_are_said(tree, monkeypatch, capsys):
    def full(folder, sizes):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bench, "large_input_rows", full)
    monkeypatch.setattr(bench.sysconfig, "get_paths", lambda: {"stdlib": str(tree)})
    bench.measure(None, TINY)
    assert "not measured: No space left on device" in capsys.readouterr().out


def test_a_tree_that_is_none_is_bad_usage(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path / "nowhere")])
    assert stopped.value.code == 2
    assert "is not a directory" in capsys.readouterr().err


def test_a_stub_is_named_in_one_sentence(monkeypatch, capsys):
    def stub(*_, **__):
        raise NotImplementedError("M3: build run_agent")

    monkeypatch.setattr(agent_app, "run_agent", stub)
    assert main(["--quick"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "error: a milestone is missing: M3: build run_agent\n"
