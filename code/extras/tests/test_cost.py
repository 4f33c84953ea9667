"""X4, `CostBudget.charge` and `CostBudget.refusal`: a ceiling in money."""

import pytest

from agent import run_agent
from extras.cost import CostBudget, Price, metered
from extras.outcome import settling
from extras.tests.support import read, task, turn, wrong
from tests.conftest import ScriptedModel


def budget(**changes):
    fields = {
        "max_steps": 9,
        "max_tokens": 10**7,
        "max_usd": 1.0,
        "price": Price(2.0, 10.0),
        "max_reply": 1000,
    }
    return CostBudget(**fields | changes)


def test_input_and_output_have_their_own_price():
    tracker = budget()
    tracker.charge(prompt_tokens=100_000, completion_tokens=20_000)
    assert tracker.usd == pytest.approx(0.4), wrong(
        called="CostBudget(price=Price(2.0, 10.0)).charge(prompt_tokens=100_000, completion_tokens=20_000)",
        got=f"usd = {tracker.usd}",
        wanted="usd = 0.4: 100,000 at $2 a million, and 20,000 at $10 a million",
        idea="Output costs several times what input does; one price for all tokens is wrong either way.",
    )


def test_what_was_spent_adds_up():
    tracker = budget(usd=0.1)
    for _ in range(3):
        tracker.charge(prompt_tokens=50_000, completion_tokens=0)
    assert tracker.usd == pytest.approx(0.4), wrong(
        called="three times charge(50_000, 0), from usd=0.1 on",
        got=f"usd = {tracker.usd}",
        wanted="usd = 0.4",
        idea="The cost of a run is the sum over all its calls, not that of the last.",
    )


def test_a_long_prompt_has_the_price_of_a_long_prompt():
    price = Price(1.0, 5.0, long=((100_000, 2.0, 10.0), (200_000, 4.0, 20.0)))
    got = []
    for prompt in (100_000, 100_001, 300_000):
        tracker = budget(price=price)
        tracker.charge(prompt_tokens=prompt, completion_tokens=0)
        got.append(round(tracker.usd, 4))
    assert got == [0.1, 0.2, 1.2], wrong(
        called="charge(100_000, 0), charge(100_001, 0), charge(300_000, 0), each from 0, at rising prices",
        got=got,
        wanted=[0.1, 0.2, 1.2],
        idea="Ask Price.of for the price of this prompt; some providers charge long prompts more.",
    )


def test_a_request_that_would_overshoot_is_refused():
    refusal = budget(usd=0.9).refusal(prompt_tokens=60_000)
    assert isinstance(refusal, str) and "$0.9000 of $1.0000" in refusal, wrong(
        called="CostBudget(max_usd=1.0, usd=0.9, ...).refusal(prompt_tokens=60_000), which costs $0.12",
        got=refusal,
        wanted="a sentence that says what was spent of how much",
        idea="Checked afterwards, one large request overshoots the ceiling by all it costs.",
    )


def test_the_reply_counts_at_full_length():
    tracker = budget(usd=0.9, max_reply=10_000)
    refusal = tracker.refusal(prompt_tokens=10_000)
    assert isinstance(refusal, str), wrong(
        called="CostBudget(max_usd=1.0, usd=0.9, max_reply=10_000, ...).refusal(prompt_tokens=10_000)",
        got=refusal,
        wanted="a refusal: the prompt costs $0.02, and the reply may cost $0.10",
        idea="Nobody knows beforehand how long the reply will be, only how long it can be.",
    )


def test_near_miss_a_request_that_just_fits_is_sent():
    tracker = budget(usd=0.5, max_reply=0, price=Price(1.0, 10.0))
    refusal = tracker.refusal(prompt_tokens=500_000)
    assert refusal is None and tracker.usd == 0.5, wrong(
        called="CostBudget(max_usd=1.0, usd=0.5, max_reply=0, ...).refusal(500_000), which costs $0.50",
        got=(refusal, tracker.usd),
        wanted=(None, 0.5),
        idea="The ceiling itself may be spent; and asking costs nothing.",
    )


def test_a_run_stops_before_the_request_that_is_too_dear(repo):
    replies = [turn(read("settings.py")), turn(read("README.md")), turn(text="3")]
    for reply in replies:
        reply.prompt_tokens, reply.completion_tokens = 1_000, 100
    tracker = budget(price=Price(100.0, 100.0), max_usd=0.25, max_reply=100)
    model, facts = ScriptedModel(*replies), {}
    messages = task("what is RETRIES? " + "x" * 2000)
    result = settling(run_agent)(messages, repo, metered(model, facts, tracker), tracker)
    assert result.stop_reason == "budget" and "cost budget" in result.detail, wrong(
        called="run_agent with a CostBudget of $0.25, where each call costs $0.11",
        got=(result.stop_reason, result.detail),
        wanted=("budget", "cost budget exhausted (...)"),
        idea="The request that could cross the ceiling isn't sent, and the run says why it ended.",
    )
    assert tracker.usd <= tracker.max_usd and len(model.sent) == len(result.history) == 2
    assert facts == {
        "model_calls": 2,
        "prompt_tokens": 2_000,
        "completion_tokens": 200,
        "cost_usd": pytest.approx(0.22),
    }


def test_one_huge_observation_does_not_overshoot(repo):
    (repo / "huge.txt").write_text("word " * 3_000, encoding="utf-8", newline="\n")
    reply = turn(read("huge.txt"))
    reply.prompt_tokens, reply.completion_tokens = 500, 20
    tracker = budget(price=Price(10.0, 10.0), max_usd=0.03, max_reply=100)
    model = ScriptedModel(reply)
    result = settling(run_agent)(task(), repo, metered(model, {}, tracker), tracker)
    assert (result.stop_reason, len(model.sent)) == ("budget", 1)
    assert tracker.usd < 0.006, "the request that carries the file was not sent"
