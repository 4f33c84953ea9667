"""The rest of `extras.cost`, which is given: prices, amounts, estimates, the meter."""

import json
import sys
from types import SimpleNamespace

import pytest

import extras.cost
from extras.cost import CostBudget, Price, estimate_prompt, metered, price_of
from extras.tests.support import call, task, turn
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import TOOL_SCHEMAS


@pytest.mark.parametrize(
    "changes", [{"max_usd": value} for value in (-1, None, "1", True, float("nan"))], ids=str
)
def test_a_ceiling_that_is_no_amount_is_an_error(changes):
    with pytest.raises(ValueError, match="max_usd"):
        CostBudget(9, 999, price=Price(2.0, 10.0), **changes)


def test_a_price_that_is_no_amount_is_an_error():
    for value in (-1, None, float("inf")):
        with pytest.raises(ValueError, match="price"):
            Price(1.0, value)


def test_the_other_ceilings_still_hold():
    tracker = CostBudget(1, 999, max_usd=1.0, price=Price(2.0, 10.0))
    tracker.tick(5)
    assert tracker.over_budget() == "step budget exhausted (1/1)"


def test_without_counts_the_meter_estimates():
    facts: dict = {}
    meter = metered(ScriptedModel(turn(text="x" * 40)), facts)
    meter(task(), TOOL_SCHEMAS)
    assert facts["prompt_tokens"] == estimate_prompt(task(), TOOL_SCHEMAS) > 100
    assert facts["completion_tokens"] == 10
    assert facts["cost_usd"] is None, "an unknown cost isn't 0"


def test_the_provider_s_cost_is_taken_when_it_is_known_for_every_call():
    def reply(cost):
        message = turn(text="ok")
        message.cost = cost
        return message

    facts: dict = {}
    meter = metered(ScriptedModel(reply(0.25), reply(0.0), reply(None), reply(0.5)), facts)
    seen = []
    for _ in range(4):
        meter(task(), [])
        seen.append(facts["cost_usd"])
    assert seen == [0.25, 0.25, None, None]


def test_a_prompt_is_estimated_on_the_safe_side():
    assert 900 <= estimate_prompt([{"role": "user", "content": "字" * 900}], []) < 950
    small = estimate_prompt(task(), [])
    assert estimate_prompt([*task(), turn(call("read_file", {"path": "a" * 3_000}))], []) >= small + 1_000


@pytest.fixture
def price_list(tmp_path, monkeypatch):
    """A price list in place of LiteLLM's."""
    entry = {"input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06, "litellm_provider": "anthropic"}
    long = {
        "input_cost_per_token_above_100k_tokens": 2e-06,
        "output_cost_per_token_above_100k_tokens": 7.5e-06,
    }
    models = {
        "claude-x": entry | long | {"input_cost_per_token_above_100k_tokens_batches": 1e-06},
        "ollama/free": {
            "input_cost_per_token": 0.0,
            "output_cost_per_token": 0.0,
            "litellm_provider": "ollama",
        },
        "one-tier": entry | {"input_cost_per_token_above_200k_tokens": 2e-06},
        "half": {"input_cost_per_token": 1e-06, "litellm_provider": "anthropic"},
    }
    (tmp_path / extras.cost.PRICE_MAP).write_text(json.dumps(models), encoding="utf-8")
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(extras.cost, "find_spec", lambda name: package)


def test_a_price_comes_from_the_list(price_list):
    expected = Price(1.0, 5.0, long=((100_000, 2.0, 7.5),))
    assert price_of("claude-x") == price_of("anthropic/claude-x") == expected
    assert price_of("one-tier") == Price(1.0, 5.0, long=((200_000, 2.0, 5.0),)), (
        "output costs at least as before"
    )


@pytest.mark.parametrize("model", ["openai/claude-x", "claude", "ollama/free", "half", "offline/keyword", ""])
def test_near_miss_a_model_without_a_known_price_is_refused(price_list, model):
    with pytest.raises(ValueError, match="not known"):
        price_of(model)


def test_without_the_package_no_price_is_known(monkeypatch):
    monkeypatch.setattr(extras.cost, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="not known"):
        price_of("gpt-6-luna")


def test_near_miss_a_plain_budget_is_only_measured():
    model = ScriptedModel(turn(text="ok"))
    assert metered(model, {}, BudgetTracker(1, 1))(task(), []).content == "ok"
    assert "litellm" not in sys.modules or type(sys.modules["litellm"]).__name__ == "_RefusedModule"
