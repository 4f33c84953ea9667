"""heartbeat.py: a sign of life every few seconds, from a thread that always ends with the run.

A model call may take minutes, and from outside a slow run looks like a dead one. The thread is started
before the loop and stopped after it, whatever the loop raises.

Seam: the run as a whole.
Helps: when something watches the run and restarts what looks dead.
Hurts: it says that the process lives, not that the run gets on; a stuck run has a healthy heartbeat.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agent import RunResult


@contextmanager
def heartbeat(beat: Callable[[float], Any], every: float = 10.0) -> Iterator[None]:
    """Call ``beat(seconds since the start)`` every ``every`` seconds while the block runs.

    A beat that raises ends the beating, not the block. Raises ValueError unless ``every`` is over 0.
    """
    if not every > 0:
        raise ValueError(f"the time between two beats must be over 0 seconds, not {every!r}")
    stop, start = threading.Event(), time.monotonic()

    def pulse() -> None:
        try:
            while not stop.wait(every):
                beat(time.monotonic() - start)
        except Exception:  # whoever listens has gone
            pass

    thread = threading.Thread(target=pulse, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=5)  # a beat that hangs must not hang the run


def beating(
    run: Callable[..., RunResult], beat: Callable[[float], Any], every: float = 10.0
) -> Callable[..., RunResult]:
    """``run`` (which is called as `run_agent` is) with a heartbeat for as long as it takes."""

    def alive(*arguments: Any, **options: Any) -> RunResult:
        with heartbeat(beat, every):
            return run(*arguments, **options)

    return alive
