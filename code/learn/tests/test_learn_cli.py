"""The bench as a learner uses it: by its commands, on a real copy; nothing that they wrote is ever lost."""

import importlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace

import pytest

from learn import bench, path, start, stubs
from learn.bench import CODE, ROOT, BenchError, load_milestones
from learn.documents import PLACEHOLDER
from learn.tests.conftest import original, run_bench

STUB = load_milestones()[1].message("detect_stuck")
RAISE = f'    raise NotImplementedError("{STUB}")'
WRONG = "    return len({action.tool for action in history[-window:]}) == 1"
STEPS = {step.id: step for step in load_milestones(with_extras=True)}


def build(copy, *ids):
    copy.build(*map(STEPS.get, ids))


def write_wrong(copy):
    """A learner's first try at M1, and a helper and a comment of their own."""
    text = copy.text("code/safety.py")
    assert RAISE in text
    written = text.replace(RAISE, f"    # by name\n{WRONG}") + "\n\ndef mine():\n    return 1\n"
    copy.write("code/safety.py", written)
    return written


def understand(copy):
    copy.write("UNDERSTANDING.md", copy.text("UNDERSTANDING.md").replace(PLACEHOLDER, "Since it has to."))


def marks(said):
    """The mark of each step: ``{"M1": "x", ...}``."""
    return {step: mark for mark, step in re.findall(r"^  \[(.)\] (\w+) ", said.out, re.MULTILINE)}


@pytest.fixture
def trouble(copy, monkeypatch):
    """What stands in the way of a step that has no tests, in the copy."""
    monkeypatch.setattr(path, "ROOT", copy.root)
    monkeypatch.setattr(path, "RUNS", copy.root / "runs")
    finished = {name: original(name) for name in start.owned_files(load_milestones())}
    monkeypatch.setattr(path, "load_reference", lambda: finished)
    return lambda step: path.survey([STEPS[step]])[0].trouble


# --- the original, and start ------------------------------------------------------------------------
def test_the_finished_project_says_what_it_is_and_how_to_get_a_copy():
    said = run_bench(CODE)
    assert said.code == 0 and "finished project" in said.out
    assert "python -m learn start ../../my-agent" in said.out


@pytest.mark.parametrize("command", ["hint", "hint M1", "reveal M1", "reset M1 --yes", "check", "watch"])
def test_what_only_a_copy_can_do_is_refused_in_the_original(command):
    said = run_bench(CODE, *command.split())
    assert (said.code, said.out) == (2, "") and "finished project" in said.err and "Traceback" not in said.err


def test_start_says_where_the_copy_is_and_what_to_type(copy):
    assert copy.made.code == 0
    assert str(copy.root) in copy.made.out and f'cd "{copy.code}"' in copy.made.out
    assert " -m learn\n" in copy.made.out and "UNDERSTANDING.md" in copy.made.out


def test_start_leaves_a_folder_that_holds_something_as_it_is(tmp_path):
    (tmp_path / "work.py").write_text("mine")
    said = run_bench(CODE, "start", str(tmp_path))
    assert said.code == 2 and "not an empty folder" in said.err and said.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["work.py"]
    assert run_bench(CODE, "start", str(tmp_path / "work.py")).code == 2
    assert (tmp_path / "work.py").read_text() == "mine"


def test_start_takes_an_empty_folder_and_makes_those_on_the_way(tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "a" / "b"):
        start.make_copy(target)
        assert (target / "code" / "agent.py").is_file()
        assert [path.name for path in target.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("inside", [".", "my-agent", "code/my-agent"])
def test_start_refuses_a_place_inside_the_project(inside):
    with pytest.raises(BenchError, match="inside the project"):
        start.make_copy(ROOT / inside)
    assert not (ROOT / "my-agent").exists()


def test_a_copy_is_not_made_from_a_copy(copy, tmp_path):
    said = copy.learn("start", str(tmp_path / "second"))
    assert said.code == 2 and "already" in said.err and not (tmp_path / "second").exists()


def test_an_interrupted_start_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "pack_reference", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start.make_copy(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_start_leaves_nothing_that_looks_finished_and_can_be_repeated(tmp_path):
    program = (
        "import os, sys; from learn import start, __main__ as bench\n"
        "start.pack_reference = lambda texts: os._exit(9)\n"
        "bench.main(['start', sys.argv[1]])"
    )
    target = tmp_path / "mine"
    assert subprocess.run([sys.executable, "-c", program, str(target)], cwd=CODE).returncode == 9
    assert not target.exists() and [path.suffix for path in tmp_path.iterdir()] == [".part"]
    start.make_copy(target)
    assert (target / "code" / "learn" / "reference.bin").is_file()


def test_without_git_the_copy_is_what_git_would_not_ignore(tmp_path, monkeypatch):
    wanted = ["README.md", "code/agent.py", "code/lab/new.py"]
    ignored = [".env", ".git/config", ".venv/lib/x.py", "code/__pycache__/agent.pyc", "code/scratch/a.txt"]
    private = ["code/learn/tests/test_x.py", "code/learn/misconceptions.toml", "runs/first.jsonl"]
    for name in [*wanted, *ignored, *private]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("# ours\n\nscratch/\n")
    monkeypatch.setattr(start, "ROOT", tmp_path)
    assert start.project_files() == [".gitignore", *wanted]


def test_a_name_that_is_not_found_is_an_error(monkeypatch):
    finished = {name: original(name) for name in start.owned_files(load_milestones())}
    finished["code/safety.py"] = finished["code/safety.py"].replace("def tick", "def tock")
    with pytest.raises(BenchError, match="safety.py: BudgetTracker.tick is not defined"):
        start.learners_texts(finished, load_milestones())


def test_a_project_with_stubs_is_not_taken_for_the_finished_one(copy):
    with pytest.raises(BenchError, match="detect_stuck is a stub already"):
        start.learners_texts({"code/safety.py": copy.text("code/safety.py")}, [STEPS["M1"]])


# --- where you stand --------------------------------------------------------------------------------
def test_the_path_begins_with_understanding(copy):
    said = copy.learn()
    assert said.code == 0
    assert marks(said) == {"0": ">", "M1": " ", "M2": " ", "M3": " ", "M4": " ", "M5": " ", "M6": " "}
    first = re.search(r"^## (.*)", original("UNDERSTANDING.md"), re.MULTILINE)[1]
    assert first in said.out and "Open: ../UNDERSTANDING.md" in said.out
    assert STUB not in said.out, "only the current step is explained"


def test_one_open_question_keeps_step_0_open_and_a_question_that_is_gone_does_too(copy, trouble):
    understand(copy)
    answered = copy.text("UNDERSTANDING.md")
    assert trouble("0") == ""
    head, mark, last = answered.rpartition("## ")
    copy.write("UNDERSTANDING.md", head + mark + last.replace("Since it has to.", "TODO"))
    assert last.splitlines()[0] in trouble("0")
    copy.write("UNDERSTANDING.md", head)
    assert "1 of its" in trouble("0")


def test_the_current_milestone_shows_its_first_failing_test_in_words(copy):
    understand(copy)
    said = copy.learn()
    assert marks(said)["M1"] == ">" and STUB in said.out
    above = copy.text("code/safety.py").partition("def detect_stuck")[0]
    assert f"Open: safety.py, line {above.count(chr(10)) + 1}\n" in said.out
    write_wrong(copy)
    said = copy.learn()
    assert "tests/test_safety.py::TestM1" in said.out and "called  detect_stuck(" in said.out
    assert not any(word in said.out for word in ("Traceback", "Error", "Failed:", STUB))


def test_built_in_another_order_each_milestone_counts(copy):
    understand(copy)
    build(copy, "M2", "M4")
    assert marks(copy.learn()) == {"0": "x", "M1": ">", "M2": "x", "M3": " ", "M4": "x", "M5": " ", "M6": " "}


def test_who_codes_first_is_told_once_and_not_blocked(copy):
    write_wrong(copy)
    first, second = copy.learn(), copy.learn()
    assert "Nothing is blocked" in first.out and "Nothing is blocked" not in second.out
    assert marks(first) == marks(second) and (marks(first)["0"], marks(first)["M1"]) == (" ", ">")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    return (", "safety.py, line"),
        ("    return histroy", "NameError: name 'histroy' is not defined"),
        ("    import sys; sys.exit(3)", "3"),
    ],
    ids=["syntax", "name", "exit"],
)
def test_broken_code_is_explained_by_its_own_words_and_place(copy, body, says):
    understand(copy)
    copy.write("code/safety.py", copy.text("code/safety.py").replace(RAISE, body))
    said = copy.learn()
    assert said.code == 0 and marks(said)["M1"] == ">" and says in said.out and "Traceback" not in said.out


@pytest.mark.parametrize(
    ("body", "limit", "says"),
    [
        ("    while True: pass", "SECONDS_A_TEST", "not done after 1 s"),
        ("    pass\nwhile True: pass", "SECONDS_TO_LOAD", "not loaded after 1 s"),
    ],
    ids=["in the function", "at import"],
)
def test_a_loop_that_never_ends_is_cut_off_and_named(copy, body, limit, says):
    understand(copy)
    copy.write("code/safety.py", copy.text("code/safety.py").replace(RAISE, body))
    hasty = f"from learn import report; report.{limit} = 1"
    program = (
        f"import subprocess, sys; {hasty}; run = subprocess.run\n"
        f"child = {hasty + '; import sys; report.main(sys.argv[1:])'!r}\n"
        "subprocess.run = lambda command, **kept: run([command[0], '-c', child, *command[3:]], **kept)\n"
        "from learn.__main__ import main; main([])"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=copy.code, capture_output=True, timeout=60)
    told = (said.stdout + said.stderr).decode()
    assert says in told and "is there a loop that never ends?" in told and "Traceback" not in told


def test_a_live_run_counts_when_it_has_come_to_its_end(copy, trouble):
    assert trouble("M5").startswith("no finished run is recorded")
    broken = '{"event": "run"}\n[]\n{"event": "end", "stop_reason": null}\n{"event": "e'
    copy.write("runs/first.jsonl", broken)
    assert "first.jsonl has no end" in trouble("M5")
    copy.write("runs/second.jsonl", '{"event": "run"}\n{"event": "end", "stop_reason": "stuck"}\n')
    assert trouble("M5") == ""


def test_m6_wants_three_experiments_the_single_call_and_the_other_documents(copy, trouble):
    def fill(name, wanted=lambda title: True):
        sections = re.split(r"(?m)^(?=## )", copy.text(name))
        for at, section in enumerate(sections):
            if wanted(section.partition("\n")[0]):
                sections[at] = re.sub(r"\| +(?=\|)", "| 3 ", section.replace(PLACEHOLDER, "It broke."))
        copy.write(name, "".join(sections))

    assert trouble("M6") == "FAILURE_ANALYSIS.md: 0 of at least 3 experiments are filled"
    single = re.findall(r"(?im)^## experiment.*single call.*", copy.text("FAILURE_ANALYSIS.md"))
    assert len(single) == 1, "the finished document has the experiment that is asked for"
    fill("FAILURE_ANALYSIS.md", lambda title: title not in single)
    assert "single call" in trouble("M6")
    fill("FAILURE_ANALYSIS.md")
    assert trouble("M6").startswith("EVALUATION.md, not answered yet: ")
    fill("EVALUATION.md")
    assert trouble("M6").startswith("STARCALLOS_REFLECTION.md, not answered yet: ")
    fill("STARCALLOS_REFLECTION.md")
    assert trouble("M6") == ""


# --- help -------------------------------------------------------------------------------------------
def test_each_hint_gives_one_more_and_the_last_stays(copy):
    step = STEPS["M1"]
    for number in (1, 2, 3, 3):
        said = copy.learn("hint", "m1")
        assert said.code == 0 and f"Hint {number} of 3 for M1" in said.out
        assert step.hints[number - 1].strip().splitlines()[0] in said.out
    assert "reveal M1 --give-up" in said.out
    assert "Hint 1 of 3 for M3" in copy.learn("hint", "3").out, "each milestone has its own count"
    assert "Hint 1 of 3 for 0" in copy.learn("hint").out, "without a name it is the current step's"


def test_a_broken_memory_is_begun_anew(copy):
    copy.learn("hint", "M1")
    copy.write(".learn/state.json", '{"hints": 7')
    assert "Hint 1 of 3" in copy.learn("hint", "M1").out


def test_reveal_waits_until_the_milestone_is_done_or_given_up(copy):
    write_wrong(copy)
    said = copy.learn("reveal", "M1")
    assert said.code == 1 and said.out == "" and "--give-up" in said.err
    said = copy.learn("reveal", "M1", "--give-up")
    finished = stubs.extract(original("code/safety.py"), "detect_stuck")
    assert said.code == 0 and f"-{WRONG}" in said.out
    assert all(line.strip() in said.out for line in finished.splitlines())
    build(copy, "M1")
    said = copy.learn("reveal", "M1")
    assert said.code == 0 and "detect_stuck: yours is the reference" in said.out


def test_reveal_shows_a_finished_document(copy):
    assert copy.learn("reveal", "0").code == 1
    assert original("UNDERSTANDING.md") in copy.learn("reveal", "0", "--give-up").out


def test_reset_asks_keeps_what_was_there_and_touches_nothing_else(copy):
    build(copy, "M2")
    theirs = write_wrong(copy)
    for answer in ("", "n\n", "\n"):
        assert "Nothing was changed" in copy.learn("reset", "M1", answer=answer).out
        assert copy.text("code/safety.py") == theirs
    assert copy.learn("reset", "M1", answer="y\n").code == 0
    assert copy.text(".learn/safety.py.1.bak") == theirs
    assert copy.text("code/safety.py") == theirs.replace(f"    # by name\n{WRONG}", RAISE)


def test_reset_twice_keeps_both_versions(copy):
    first = write_wrong(copy)
    copy.learn("reset", "M1", "--yes")
    assert "as it was at the start" in copy.learn("reset", "M1", "--yes").out
    second = copy.text("code/safety.py").replace(RAISE, "    return True")
    copy.write("code/safety.py", second)
    copy.learn("reset", "M1", "--yes")
    assert (copy.text(".learn/safety.py.1.bak"), copy.text(".learn/safety.py.2.bak")) == (first, second)


def test_reset_of_a_file_that_is_not_python_any_more_puts_the_whole_file_back(copy):
    fresh = copy.text("code/safety.py")
    theirs = write_wrong(copy).replace("def tick(", "def tick((")
    copy.write("code/safety.py", theirs)
    said = copy.learn("reset", "M1", answer="n\n")
    assert "all of safety.py" in said.out and copy.text("code/safety.py") == theirs
    copy.learn("reset", "M1", "--yes")
    assert (copy.text("code/safety.py"), copy.text(".learn/safety.py.1.bak")) == (fresh, theirs)


def test_reset_brings_back_a_file_that_is_gone_and_a_document(copy):
    fresh = copy.text("code/evaluate.py"), copy.text("UNDERSTANDING.md")
    (copy.code / "evaluate.py").unlink()
    understand(copy)
    assert copy.learn("reset", "M4", "--yes").code == copy.learn("reset", "0", "--yes").code == 0
    assert (copy.text("code/evaluate.py"), copy.text("UNDERSTANDING.md")) == fresh
    assert "Since it has to." in copy.text(".learn/UNDERSTANDING.md.1.bak")


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    (tmp_path / "safety.py").write_text("theirs")
    monkeypatch.setattr(bench.os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        bench.write_text(tmp_path / "safety.py", "stub")
    assert (tmp_path / "safety.py").read_text() == "theirs"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["hint", "M9"], "there is no milestone M9"),
        (["check", "X1"], "there is no milestone X1"),
        (["reveal", "M5"], "nothing to reveal"),
        (["reset", "M5", "--yes"], "nothing to reset"),
        (["misconceptions"], "not in a copy"),
        (["dance"], "dance"),
        (["reveal"], "required"),
    ],
)
def test_bad_usage_is_one_sentence_and_code_2(copy, command, says):
    said = copy.learn(*command)
    assert said.code == 2 and says in said.err and "Traceback" not in said.err and said.out == ""


def test_help_names_every_command(copy):
    said = copy.learn("--help")
    assert said.code == 0
    for command in ["start", "watch", "hint", "reveal", "reset", "check", "misconceptions"]:
        assert f"python -m learn {command}" in said.out


def test_the_bench_says_when_pytest_is_missing(copy, tmp_path):
    (tmp_path / "pytest.py").write_text("raise ModuleNotFoundError(\"No module named 'pytest'\")")
    write_wrong(copy)
    said = copy.learn(PYTHONPATH=str(tmp_path))
    assert said.code == 2 and "pip install -r requirements.txt" in said.err and "Traceback" not in said.err


# --- the extras as exercises ------------------------------------------------------------------------
def test_the_extras_come_last_and_are_not_begun(copy_with_extras):
    said = copy_with_extras.learn()
    assert list(marks(said)) == ["0", "M1", "M2", "M3", "M4", "M5", "M6", "X1", "X2", "X3", "X4", "X5"]
    assert marks(said)["0"] == ">" and "optional" in said.out
    assert STEPS["X1"].message("plan_task") not in said.out


@pytest.mark.parametrize(
    ("still_open", "now"),
    [("M2 M5 X1", "M2"), ("0 X3", "0"), ("X3 X5", "X3"), ("", None)],
)
def test_an_extra_is_next_only_when_nothing_else_is_open(monkeypatch, still_open, now):
    monkeypatch.setattr(path, "is_untouched", lambda step: step.id == "X5")
    standings = [path.Standing(step, "", "open" * (id in still_open.split())) for id, step in STEPS.items()]
    current = path.current(standings)
    assert (current and current.step.id) == now


def test_hint_check_reveal_and_reset_take_an_extra(copy_with_extras):
    copy, stub = copy_with_extras, STEPS["X3"].message("check_emitted")
    fresh = copy.text("code/extras/structured.py")
    assert "Hint 1 of 3 for X3" in copy.learn("hint", "x3").out
    said = copy.learn("check", "X3")
    assert said.code == 1 and stub in said.out and "Open: extras/structured.py, line" in said.out
    wrong = fresh.replace(f'raise NotImplementedError("{stub}")', 'return "no" if arguments else None')
    copy.write("code/extras/structured.py", wrong)
    said = copy.learn("check", "X3")
    assert said.code == 1 and "\n    called  check_emitted(" in said.out and "section 10" in said.out
    assert "reference: extras/structured.py" in copy.learn("reveal", "X3", "--give-up").out
    build(copy, "M1", "M2", "M3", "X3")
    said = copy.learn("check", "X3")
    assert said.code == 0 and "X3, Structured output, is done" in said.out
    assert copy.learn("reset", "X3", "--yes").code == 0
    assert copy.text("code/extras/structured.py") == fresh


def test_check_runs_the_extras_that_are_begun_and_waits_for_none(monkeypatch, capsys):
    bench_main = importlib.import_module("learn.__main__")
    results = {
        "tests/test_safety.py::test_a": None,
        "extras/tests/test_cost.py::test_b": "X4: not begun",
        "extras/tests/test_retry.py::test_c": "it was tried three times",
    }
    standings = [path.Standing(step, "", "open" * step.extra) for step in STEPS.values()]
    monkeypatch.setattr(bench_main, "load_reference", dict)
    monkeypatch.setattr(bench_main, "load_milestones", lambda: list(STEPS.values()))
    monkeypatch.setattr(bench_main, "run_tests", lambda tests: results)
    monkeypatch.setattr(bench_main, "is_untouched", lambda step: step.id != "X5")
    monkeypatch.setattr(bench_main, "survey", lambda steps, results: standings)
    assert bench_main.check(Namespace(milestone=None)) == 0
    said = capsys.readouterr().out
    assert "1 failed in extras/tests/test_retry.py" in said and "test_cost" not in said
    assert "1 of 2 tests pass. Every milestone is done." in said
    results["tests/test_safety.py::test_a"] = "wrong"
    assert bench_main.check(Namespace(milestone=None)) == 1


# --- watch ------------------------------------------------------------------------------------------
class Watching:
    """A running ``python -m learn watch`` whose lines can be waited for."""

    def __init__(self, copy, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "learn", "watch", *arguments],
            cwd=copy.code,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode())

    def until(self, text, seconds=30):
        seen, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                seen.append(self.lines.get(timeout=0.2))
            except queue.Empty:
                continue
            if text in seen[-1]:
                return "".join(seen)
        raise AssertionError(f"{text!r} didn't come; this did: {seen}")

    def type(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()


def test_watch_looks_again_when_a_file_is_saved_or_enter_is_pressed_and_ends_cleanly(copy):
    understand(copy)
    watching = Watching(copy)
    try:
        assert STUB in watching.until("Help:")
        write_wrong(copy)
        assert "called  detect_stuck(" in watching.until("Help:")
        watching.type("")
        assert "called  detect_stuck(" in watching.until("Help:")
        watching.type("h")
        watching.until("Hint 1 of 3 for M1")
        build(copy, "M1")
        assert "[x] M1" in watching.until("Help:")
        if os.name == "nt":
            watching.type("q")
        else:
            watching.process.send_signal(signal.SIGINT)
        assert "Traceback" not in watching.until("your files are as you saved them")
        assert watching.process.wait(timeout=10) == 0
    finally:
        watching.process.kill()


def test_watch_can_look_at_one_step_only(copy_with_extras):
    watching = Watching(copy_with_extras, "x5")
    try:
        said = watching.until("Help: python -m learn hint X5")
        assert "Now: X5, Retry." in said and "Understanding" not in said
        watching.type("h")
        watching.until("Hint 1 of 3 for X5")
        watching.type("q")
        assert watching.process.wait(timeout=10) == 0
    finally:
        watching.process.kill()


# --- check ------------------------------------------------------------------------------------------
def test_check_runs_everything_and_says_what_is_open(copy):
    for name in ("agent_app", "tools", "messages"):  # here they would only cost time
        (copy.code / "tests" / f"test_{name}.py").unlink()
    build(copy, "M1", "M2", "M4")
    said = copy.learn("check")
    assert said.code == 1 and "failed in tests/test_agent.py" in said.out and "test_safety" not in said.out
    assert "0 is open: UNDERSTANDING.md" in said.out and "M5 is open" in said.out
