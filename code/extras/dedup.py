"""dedup.py: exact dedup, which never runs the same tool call twice in a run.

A second call with the same tool and the same arguments (as JSON with sorted keys) is answered with an
error that points back at the first result. Unlike `detect_stuck` it doesn't wait for three in a row.

Seam: ``dispatch``, as a guard.
Helps: models that go round in circles; a refusal costs a line where the result costs pages.
Hurts: when asking again makes sense: the file has changed, the first try failed for a passing reason
(put ``retry`` behind it), or ``compact`` has shortened the first result, which then can't be had back.
"""

import json


def key_of(name: str, arguments: dict) -> str:
    """One text for one call, whatever the order of its arguments."""
    return json.dumps([name, arguments], sort_keys=True, default=str)


class ExactDedup:
    """Refuses a call that equals any earlier one."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def refuse(self, name: str, arguments: dict) -> str | None:
        if key_of(name, arguments) in self.seen:
            return (
                f"Error: duplicate call: {name} was already called with exactly these arguments; "
                "use the result above, or ask for something else"
            )
        return None

    def notice(self, name: str, arguments: dict, observation: str) -> None:
        self.seen.add(key_of(name, arguments))
