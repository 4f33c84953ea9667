"""cooldown.py: sends the model elsewhere when one tool keeps failing.

After three error observations in a row from one tool, its next call isn't run; the model is told that
this way is stalled. Then the count starts afresh, so the tool is there again for a better call.

Seam: ``dispatch``, as a guard.
Helps: when a model guesses paths or arguments one after the other, all different, all wrong.
Hurts: when the fourth guess would have been right; it costs that call a step.
"""

from collections import Counter


class Cooldown:
    """Refuses one call of a tool after ``limit`` errors in a row from it."""

    def __init__(self, limit: int = 3) -> None:
        self.limit = limit
        self.errors: Counter[str] = Counter()

    def refuse(self, name: str, arguments: dict) -> str | None:
        if self.errors[name] < self.limit:
            return None
        self.errors[name] = -1  # the refusal is noticed as an error, and doesn't count
        return (
            f"Error: stalled: {name} failed {self.limit} times in a row, so this call was not run; "
            "try another tool or a different approach"
        )

    def notice(self, name: str, arguments: dict, observation: str) -> None:
        self.errors[name] = self.errors[name] + 1 if str(observation).startswith("Error: ") else 0
