"""safety.py: the reliability primitives, which say when a run has to stop.

Role: partial. `Action` and the fields of `BudgetTracker` are provided; `detect_stuck` (M1),
`BudgetTracker.tick` and `BudgetTracker.over_budget` (M2) are learner-owned.

What is covered:
- the same action (tool and arguments) several times in a row, however its JSON was spelt
- too many steps, and too many tokens in however few steps
- a tool that changes its arguments after the fact: an action is a snapshot

What is not covered:
- loops of two or more actions (A, B, A, B) and near-repeats: they end at a ceiling
- one model call that is larger than what is left: tokens are counted once they are spent
- money and wall-clock time
"""

from copy import deepcopy
from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One tool call as the model asked for it: ``tool`` name and ``arguments`` object.

    Two actions are equal when both fields are equal by value; key order doesn't count.
    ``arguments`` is copied, so that nothing that happens later rewrites the history.
    """

    tool: str
    arguments: dict

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", deepcopy(self.arguments))

    def __hash__(self) -> int:
        return hash(self.tool)  # arguments needn't be hashable; equality tells the rest apart

    def __str__(self) -> str:
        named = (
            self.arguments.items() if isinstance(self.arguments, dict) else [("arguments", self.arguments)]
        )
        text = f"{self.tool}({', '.join(f'{key}={value!r}' for key, value in named)})"
        return text if len(text) <= 300 else text[:300] + "…"


def detect_stuck(history: list[Action], window: int = 3) -> bool:
    """Tell whether the agent repeats itself: the last ``window`` actions are all identical.

    Identical means the same tool and the same arguments. Fewer than ``window`` actions are never
    stuck, and a ``window`` below 1 turns the guard off; both give ``False``. Never raises.

    >>> look = Action("read_file", {"path": "a.py"})
    >>> detect_stuck([Action("list_directory", {}), look, look, look], window=3)
    True
    """
    recent = history[-window:] if window > 0 else []
    return len(recent) == window > 0 and all(action == recent[0] for action in recent)


@dataclass
class BudgetTracker:
    """What a run may spend, ``max_steps`` model calls and ``max_tokens`` tokens, and what it has spent.

    A tracker that is given to a second run goes on from where it stands.
    Raises ValueError when a field isn't a whole number of at least 0.
    """

    max_steps: int
    max_tokens: int
    steps: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "steps", "tokens"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, not {value!r}")

    def tick(self, tokens_used: int) -> None:
        """Record one step that used ``tokens_used`` tokens.

        >>> budget = BudgetTracker(max_steps=5, max_tokens=10_000)
        >>> budget.tick(2_000)
        >>> (budget.steps, budget.tokens)
        (1, 2000)
        """
        self.steps += 1
        self.tokens += tokens_used

    def over_budget(self) -> str | None:
        """Say which ceiling has been reached, or ``None`` while there is room under both.

        The reason is a sentence for a person: it names the ceiling, steps before tokens if both are
        reached, and gives what was spent and what was allowed. A count that equals its ceiling has
        reached it.

        >>> BudgetTracker(max_steps=5, max_tokens=10_000, steps=3, tokens=11_000).over_budget()
        'token budget exhausted (11000/10000)'
        """
        if self.steps >= self.max_steps:
            return f"step budget exhausted ({self.steps}/{self.max_steps})"
        if self.tokens >= self.max_tokens:
            return f"token budget exhausted ({self.tokens}/{self.max_tokens})"
        return None
