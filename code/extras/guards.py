"""guards.py: asks guards about each tool call before it runs, in a fixed order.

A guard refuses a call with an observation of its own, and the tool isn't run. Every guard takes note of
every call, a refused one too, so that each sees what the model sees.

Seam: ``dispatch``.
Helps: when a model wastes steps on calls that can't bring anything new.
Hurts: when the refused call would have brought something new after all; a refusal is cheap, not free.
"""

from typing import Any, Protocol

from extras.seams import Dispatch, observe


class Guard(Protocol):
    """Judges tool calls. One instance serves one run."""

    def refuse(self, name: str, arguments: dict) -> str | None:
        """The observation that stands in for the call, or None to let it through."""

    def notice(self, name: str, arguments: dict, observation: str) -> None:
        """Take note of a call and of what the model saw of it."""


class Guarded:
    """A ``dispatch`` behind guards; the first that refuses a call answers it."""

    def __init__(self, dispatch: Dispatch, guards: list[Guard]) -> None:
        self.dispatch, self.guards = dispatch, guards

    def __call__(self, name: str, arguments: dict, repo_root: Any) -> str:
        refusals = (guard.refuse(name, arguments) for guard in self.guards)
        refusal = next((text for text in refusals if text), None)
        observation, error = (
            (refusal, None) if refusal else observe(self.dispatch, name, arguments, repo_root)
        )
        for guard in self.guards:
            guard.notice(name, arguments, observation)
        if error:
            raise error
        return observation


def guarded(dispatch: Dispatch, guard: Guard) -> Guarded:
    """``dispatch`` behind ``guard``, which is asked before those that are already there."""
    if isinstance(dispatch, Guarded):
        return Guarded(dispatch.dispatch, [guard, *dispatch.guards])
    return Guarded(dispatch, [guard])
