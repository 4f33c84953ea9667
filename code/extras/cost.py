"""cost.py: a ceiling in money, checked before each request is sent.

Input and output tokens have different prices, so a token budget says little about the bill. The tracker
adds up what each call cost, and refuses a request that could carry the run over the ceiling: its prompt
is estimated, its reply taken at full length. A model without a known price is refused, it isn't free.

Seam: ``complete``, and a `BudgetTracker` with ``max_usd``.
Helps: whenever someone pays; one large request can cost more than all before it.
Hurts: it stops early: the estimate is on the safe side, and cached prompt tokens are counted in full.
"""

import json
import math
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent import estimate_tokens, get_field, wire_messages
from extras.seams import Complete, StopRun
from safety import BudgetTracker

PRICE_MAP = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True)
class Price:
    """USD per million tokens, ``input`` and ``output`` apart; ``long`` holds what long prompts cost instead.

    ``long`` is a tuple of (tokens, input, output), ascending: the price of a prompt of more than ``tokens``.
    Raises ValueError when a price isn't a finite number of at least 0.
    """

    input: float
    output: float
    long: tuple[tuple[int, float, float], ...] = ()

    def __post_init__(self) -> None:
        for value in (self.input, self.output):
            check_amount("a price", value)

    def of(self, prompt_tokens: int) -> tuple[float, float]:
        """The prices, (input, output), of a call whose prompt has so many tokens."""
        return next(
            (tier[1:] for tier in reversed(self.long) if prompt_tokens > tier[0]), (self.input, self.output)
        )


def check_amount(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is a finite number of at least 0."""
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")


def price_of(model: str) -> Price:
    """The price of ``model`` in the list that comes with LiteLLM.

    Raises ValueError when the list hasn't the model, or says 0 (its way of not knowing).
    """
    package = find_spec("litellm")  # finds the list without importing the package
    path = Path(package.origin).parent / PRICE_MAP if package and package.origin else None
    prices = json.loads(path.read_text("utf-8")) if path and path.is_file() else {}
    provider, _, bare = model.partition("/")
    entry = prices.get(model, {})
    if not entry and prices.get(bare, {}).get("litellm_provider") == provider:
        entry = prices[bare]

    def usd(tier: str) -> tuple[float, float]:
        names = [f"{side}_cost_per_token" for side in ("input", "output")]
        return tuple(round((entry.get(name + tier) or entry.get(name) or 0) * 1e6, 6) for name in names)

    if not all(usd("")):
        raise ValueError(f"the price of {model!r} is not known, so a ceiling in USD can't be kept")
    tiers = (re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key) for key in entry)
    return Price(
        *usd(""), tuple(sorted((int(t[1]) * 1000, *usd(f"_above_{t[1]}k_tokens")) for t in tiers if t))
    )


@dataclass(kw_only=True)
class CostBudget(BudgetTracker):
    """A `BudgetTracker` with a third ceiling, ``max_usd``.

    ``max_reply`` is the most tokens that one reply may have, ``usd`` what was spent so far.
    Raises ValueError when a field isn't a finite number of at least 0.
    """

    max_usd: float
    price: Price
    max_reply: int = 1024
    usd: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("max_usd", self.max_usd)

    def charge(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Add to ``usd`` what one model call cost, at `Price.of` its prompt.

        >>> budget = CostBudget(9, 10**6, max_usd=1.0, price=Price(2.0, 10.0))
        >>> budget.charge(prompt_tokens=100_000, completion_tokens=20_000)
        >>> budget.usd
        0.4
        """
        per_input, per_output = self.price.of(prompt_tokens)
        self.usd += (prompt_tokens * per_input + completion_tokens * per_output) / 1e6

    def refusal(self, prompt_tokens: int) -> str | None:
        """Why a request with ``prompt_tokens`` tokens (an estimate) must not be sent now; None if it may.

        Refused is what would go over ``max_usd`` if the reply were as long as it can be; a request that
        just fits is sent.

        >>> price = Price(2.0, 10.0)
        >>> budget = CostBudget(9, 10**6, max_usd=0.5, price=price, max_reply=1000, usd=0.4)
        >>> budget.refusal(prompt_tokens=45_000) is None
        True
        >>> budget.refusal(prompt_tokens=60_000)
        'cost budget exhausted ($0.4000 of $0.5000 spent, the next request may cost $0.1300)'
        """
        per_input, per_output = self.price.of(prompt_tokens)
        next_usd = (prompt_tokens * per_input + self.max_reply * per_output) / 1e6
        if self.usd + next_usd <= self.max_usd:
            return None
        spent = f"${self.usd:.4f} of ${self.max_usd:.4f} spent"
        return f"cost budget exhausted ({spent}, the next request may cost ${next_usd:.4f})"


def estimate_prompt(messages: list, tools: list) -> int:
    """Tokens of a request, on the safe side: three bytes of its JSON a token."""
    return len(json.dumps([wire_messages(messages), tools], ensure_ascii=False, default=str).encode()) // 3


def metered(complete: Complete, facts: dict, budget: BudgetTracker | None = None) -> Complete:
    """``complete`` that adds up every call in ``facts``.

    Kept are ``model_calls``, ``prompt_tokens``, ``completion_tokens`` and ``cost_usd``. The provider's
    counts are taken when the message carries them, else estimates; ``cost_usd`` is None as soon as one
    call's cost is unknown. With a `CostBudget`, a request that it refuses isn't sent: StopRun.
    """
    priced = budget if isinstance(budget, CostBudget) else None
    facts.update(model_calls=0, prompt_tokens=0, completion_tokens=0, cost_usd=0.0)

    def measured(messages: list, tools: list) -> Any:
        if priced and (refusal := priced.refusal(estimate_prompt(messages, tools))):
            raise StopRun("budget", refusal)
        message = complete(messages, tools)
        prompt = get_field(message, "prompt_tokens") or estimate_prompt(messages, tools)
        completion = get_field(message, "completion_tokens") or estimate_tokens(message)
        facts["model_calls"] += 1
        facts["prompt_tokens"] += prompt
        facts["completion_tokens"] += completion
        if priced:
            priced.charge(prompt, completion)
            facts["cost_usd"] = priced.usd
        elif facts["cost_usd"] is not None:
            cost = get_field(message, "cost")
            facts["cost_usd"] = facts["cost_usd"] + cost if isinstance(cost, (int, float)) else None
        return message

    return measured
