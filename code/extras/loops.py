"""loops.py: stops loops that whole-action comparison of neighbours can't see.

`detect_stuck` sees A, A, A. This sees A, B, A, B, and the same action that keeps coming back with the
same result while others come between. Both count only when the results repeat as well: an action that
shows something new is progress, however often it comes.

Seam: both; ``dispatch`` to see each result, ``complete`` to stop before the next request.
Helps: small models, which circle between two files until the budget is gone.
Hurts: when waiting is the work: a tool that is polled and hasn't changed yet looks like a loop.
"""

from typing import Any

from extras.dedup import key_of
from extras.seams import Complete, Dispatch, StopRun, observe

Seen = tuple[str, str, str]  # tool, its call as one text, what came back


def find_loop(seen: list[Seen], repeats: int = 3) -> str | None:
    """A sentence about the loop that ``seen`` ends in, or None.

    A loop is A, B, A, B with the same two results, or the last action with the same result ``repeats``
    times anywhere in the run.
    """
    if not seen:
        return None
    last = seen[-1]
    if len(seen) >= 4 and seen[-4:-2] == seen[-2:] and seen[-2] != last:
        return f"{seen[-2][0]} and {last[0]} alternate and bring the same two results"
    if seen.count(last) >= repeats:
        return f"the same call of {last[0]} brought the same result {repeats} times"
    return None


def watching_loops(complete: Complete, dispatch: Dispatch, repeats: int = 3) -> tuple[Complete, Dispatch]:
    """Both seams, watched: a loop ends the run as ``"stuck"`` before another request is paid for."""
    seen: list[Seen] = []

    def watched_dispatch(name: str, arguments: dict, repo_root: Any) -> str:
        key = key_of(name, arguments)  # before the tool, which may change its arguments
        observation, error = observe(dispatch, name, arguments, repo_root)
        seen.append((name, key, str(observation)))
        if error:
            raise error
        return observation

    def watched_complete(messages: list, tools: list) -> Any:
        if tools and (loop := find_loop(seen, repeats)):
            raise StopRun("stuck", loop)
        return complete(messages, tools)

    return watched_complete, watched_dispatch
