"""EVALUATION.md and experiment 10: their tables are what the recorded runs add up to."""

import re
from collections import Counter
from statistics import mean

import pytest

from agent import RunResult
from evaluate import evaluate_run
from extras.faults import CASES
from extras.measure import row
from lab import evaluate_tasks
from lab.ablations import REPORT
from lab.evaluate_tasks import DOCUMENT, PROJECT, load_tasks, main, read_records
from lab.reports import OUTCOMES, document_tables, outcome
from lab.tables import markdown, put_tables
from lab.tests.test_ablations import LABELS
from lab.tests.test_evaluate_tasks import record
from safety import Action

TASKS = load_tasks()
FILES = [PROJECT / "code" / "lab" / "recorded" / f"{name}.jsonl" for name in ("keyword", "small-model")]
KEYWORD, SMALL = (read_records(path) for path in FILES)
TEXT = DOCUMENT.read_text(encoding="utf-8")


def between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def rows_of(name: str, text: str = TEXT) -> list[list[str]]:
    """The cells of a stored table, row by row, without its header."""
    table = between(text, f"<!-- table:{name} -->\n", f"<!-- /table:{name} -->")
    return [[cell.strip() for cell in line[2:-2].split("|")] for line in table.splitlines()[2:]]


# --- the recorded runs ------------------------------------------------------------------------------
@pytest.mark.parametrize("runs", [KEYWORD, SMALL], ids=["keyword", "small model"])
def test_the_recorded_runs_are_of_every_task_and_scored_as_evaluate_run_scores(runs):
    assert [run["id"] for run in runs] == [task["id"] for task in TASKS]
    for run, task in zip(runs, TASKS):
        history = [Action(tool, arguments) for tool, arguments in run["history"]]
        result = RunResult(run["answer"], history, run["steps"], run["tokens"], run["stop_reason"])
        score = evaluate_run(result, task)
        assert {key: run[key] for key in score} == score, f"{run['id']} was scored in another way"
        assert run["tokens"] == run["prompt_tokens"] + run["completion_tokens"]
        assert run["steps"] <= run["config"]["max_steps"] == 10


@pytest.mark.parametrize(
    "changes, kind",
    [
        ({}, "completed, after looking"),
        ({"tool_calls": 0}, "completed, without a tool call"),
        ({"completed": False}, "wrong, after looking"),
        ({"completed": False, "tool_calls": 0}, "wrong, without a tool call"),
        ({"completed": False, "answer": '{"name": "search_code"}'}, "a tool call written as text"),
        ({"completed": False, "answer": '["search_code"]'}, "wrong, after looking"),
        ({"completed": False, "answer": None}, "wrong, after looking"),
        ({"completed": False, "stop_reason": "stuck", "answer": "bonjour"}, "stuck"),
    ],
)
def test_an_outcome_is_the_stop_reason_and_what_an_answer_stood_on(changes, kind):
    assert outcome(record(**changes)) == kind
    assert kind in OUTCOMES


# --- the document -----------------------------------------------------------------------------------
def test_the_stored_tables_are_what_the_recorded_runs_add_up_to():
    fresh = put_tables(TEXT, document_tables([KEYWORD, SMALL], TASKS))
    command = "python -m lab evaluate --write " + " ".join(f"lab/recorded/{path.name}" for path in FILES)
    assert command in TEXT
    assert fresh == TEXT, f"run `{command}`; EVALUATION.md has other figures"


def test_the_tables_agree_with_each_other():
    *kinds, total = [[int(cell) for cell in cells[1:]] for cells in rows_of("outcomes")]
    assert [sum(column) for column in zip(*kinds)] == total == [len(TASKS)] * 2
    totals = {name: cells for name, *cells in rows_of("totals")}
    for number in (0, 1):
        runs = rows_of(f"runs-{number + 1}")
        figure = {name: cells[number] for name, cells in totals.items()}
        right = sum(cells[2] == "yes" for cells in runs)
        assert right == kinds[0][number] + kinds[1][number]
        assert figure["completed"] == f"{right} of {len(runs)} ({100 * right / len(runs):.0f} %)"
        for name, column in (("steps (model calls)", 3), ("tool calls", 6), ("tokens", 7)):
            assert figure[name] == f"{sum(int(cells[column].replace(',', '')) for cells in runs):,}"


def test_the_figures_in_the_prose_are_those_of_the_runs():
    def tokens(runs):
        return sum(run["tokens"] for run in runs)

    right = [{run["id"] for run in runs if run["completed"]} for runs in (KEYWORD, SMALL)]
    vague = [run for run in KEYWORD if run["completed"] and run["answer"].startswith("I can't tell")]
    copied = [run for run in SMALL if ["search_code", {"query": "def load_config"}] in run["history"]]
    for said in (
        f"costs {tokens(SMALL) / tokens(KEYWORD):.2f} times as many tokens",
        f"a completed task {tokens(SMALL) / len(right[1]) / (tokens(KEYWORD) / len(right[0])):.1f} times",
        f"On {len(right[0] - right[1])} tasks the keyword model alone was right, on {len(right[0] & right[1])}"
        " both, on none the language model alone",
        f"{len(vague)} of the {len(right[0])} completed answers",
        f"The other {len(right[0]) - len(vague)} say the answer",
        f"tokens {tokens(KEYWORD) / 32:,.0f} → {tokens(SMALL) / 32:,.0f}",
    ):
        assert said in TEXT, f"EVALUATION.md should say {said!r}"
    assert right[1] < right[0] and len(copied) == 2


def test_the_tasks_without_need_of_an_agent_are_shown_as_they_ran():
    shown = re.findall(r"^\| ([\w-]+) +\| +[\d,]+ \| ([^|]+?) +\| ([^|]+?) +\|$", TEXT, re.MULTILINE)
    ids = [task["id"] for task in TASKS if not task["agent_needed"]]
    runs = [{run["id"]: run for run in runs} for runs in (KEYWORD, SMALL)]

    def cell(run: dict) -> str:
        how = "yes" if run["completed"] else "no" if run["stop_reason"] == "answered" else run["stop_reason"]
        return f"{how}, {run['tokens']:,}"

    assert shown == [(name, cell(runs[0][name]), cell(runs[1][name])) for name in ids]


def test_the_prices_are_those_of_the_note():
    note = (PROJECT / "sources" / "official-docs" / "anthropic-pricing.md").read_text(encoding="utf-8")
    priced = re.findall(r'"(claude-[\w-]+)": \(([\d.]+), ([\d.]+)\)', TEXT)
    assert len(priced) == 2
    for model, *prices in priced:
        assert f"`{model}` | {prices[0]} | {prices[1]} |" in note


def test_the_effects_of_the_extras_are_those_of_a_fresh_run():
    shown = {tuple(cells[:2]): cells for cells in rows_of("extras")}
    for case in CASES:
        fresh = row(case)
        assert shown.get(tuple(fresh[:2])) == fresh, "run `python -m extras.measure`, EVALUATION.md differs"


def test_experiment_10_counts_the_failed_runs_of_the_language_model():
    text = REPORT.read_text(encoding="utf-8")
    section = between(text, "## Experiment 10: ", "\n## ")
    assert re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE) == LABELS
    failed = [run for run in SMALL if not run["completed"]]
    kinds = Counter(map(outcome, failed))
    rows = []
    for what in [what for what in OUTCOMES if kinds[what]]:
        some = [run for run in failed if outcome(run) == what]
        steps, tokens = (mean(run[key] for run in some) for key in ("steps", "tokens"))
        rows.append(
            {"failure": what, "runs": len(some), "stop reason": some[0]["stop_reason"]}
            | {"steps a run": f"{steps:.1f}", "tokens a run": round(tokens)}
        )
    assert put_tables(text, {"real-model": markdown(rows)}) == text
    assert f"The other {len(failed)}:" in section
    assert f"{max(run['tokens'] for run in failed):,} of 20,000 tokens" in section


# --- the command ------------------------------------------------------------------------------------
def test_write_puts_the_tables_into_the_document_and_runs_nothing(tmp_path, monkeypatch, capsys):
    page = tmp_path / "EVALUATION.md"
    page.write_text(re.sub(r"^\|.*\n", "", TEXT, flags=re.MULTILINE), encoding="utf-8")
    monkeypatch.setattr(evaluate_tasks, "DOCUMENT", page)
    assert main(["--write", *map(str, FILES)]) == 0
    written = page.read_text(encoding="utf-8")
    assert all(rows_of(name, written) == rows_of(name) for name in ("outcomes", "totals", "runs-1", "runs-2"))
    assert main(["--write", str(FILES[0])]) == 0, "one file will do"
    written = page.read_text(encoding="utf-8")
    assert rows_of("outcomes", written) == [cells[:2] for cells in rows_of("outcomes")]
    assert rows_of("runs-2", written) == rows_of("runs-2"), "what isn't given stays"


def test_write_leaves_the_document_when_there_is_nothing_to_write(tmp_path, monkeypatch, capsys):
    page, empty = tmp_path / "EVALUATION.md", tmp_path / "none.jsonl"
    page.write_text("# Mine\n", encoding="utf-8")
    empty.write_text("")
    monkeypatch.setattr(evaluate_tasks, "DOCUMENT", page)
    for file, words in ((FILES[0], "<!-- table:"), (empty, "no finished run"), (tmp_path / "x", "x")):
        assert main(["--write", str(file)]) == 2
        assert words in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "# Mine\n"
