"""The measurement: scripted models that show each fault, and the table."""

from functools import partial

import pytest

import extras.stack
from extras.faults import CASES
from extras.measure import live_row, main, play, verdict
from extras.retry import retrying
from extras.stack import EXTRAS


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A retry without its wait."""
    monkeypatch.setattr(extras.stack, "retrying", partial(retrying, sleep=lambda seconds: None))


def test_every_extra_is_measured():
    measured = {name for case in CASES for name in case.extra.split("+")}
    assert measured == set(EXTRAS) | {"max_usd"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.extra}: {case.fault}")
def test_a_case_shows_its_fault_and_only_the_extra_changes_it(case):
    without, again, with_it = play(case, False), play(case, False), play(case, True)
    assert without == again, "a scripted run is the same each time"
    effect = verdict(without, with_it)
    if case.fault == "none" and case.extra not in ("plan", "reflect"):
        assert effect == "no change"
    else:
        assert effect != "no change"
    if case.fault == "none":
        assert without["completed"] and with_it["completed"]


def test_what_an_extra_costs_or_loses_is_said():
    effects = {(case.extra, case.fault): verdict(play(case, False), play(case, True)) for case in CASES}
    assert effects["compact", "needs a detail of an old page"] == "loses it"
    assert effects["plan", "none"].endswith("tokens") and effects["plan", "none"].startswith("+")
    assert effects["loops", "circles between two files"].startswith("-")
    assert effects["failsafe", "found it, reads on"] == "keeps what was found"


def test_the_table_has_a_row_for_each_case(capsys):
    assert main(["--only", "dedup,compact"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines] == ["extra", "-" * 9, "dedup", "compact", "compact"]
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--only", "nope"], "no script shows the extra 'nope'"),
        (["--model", "m", "--only", "plan+nope"], "there is no extra 'nope'"),
        (["--model", "m", "--task", "nope"], "there is no task 'nope'"),
    ],
)
def test_bad_usage_is_one_sentence(argv, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2 and told in capsys.readouterr().err


def test_a_live_row_gives_means():
    run = {"completed": True, "stop_reason": "answered", "steps": 2, "model_calls": 3, "tool_calls": 1}
    runs = [run | {"tokens": 100, "seconds": 1.0}, run | {"tokens": 301, "seconds": 2.0, "completed": False}]
    assert live_row("plan", runs) == ["plan", "1 of 2", "2 answered", "2.0", "3.0", "1.0", "200", "2"]
