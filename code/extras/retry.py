"""retry.py: tries a tool once more when its error may pass, before the error becomes an observation.

A time-out or a dropped connection often goes away by itself; the model can do nothing about it and would
only spend a step on asking again. A missing file or a bad path stays wrong, and is told at once.

Seam: ``dispatch``.
Helps: tools that reach over a network or share files with other programs.
Hurts: tools that change something: an action that half happened happens twice. And every retry waits.
"""

import errno
import time
from collections.abc import Callable
from typing import Any

from extras.seams import Dispatch

PASSING = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT}
)


def is_transient(error: BaseException | None) -> bool:
    """Tell whether the same call may succeed a moment later.

    Transient are time-outs, connection faults and an operating system that is busy (`PASSING`), also when
    such an error is only the cause of ``error``. Everything else is permanent.

    >>> is_transient(TimeoutError("no reply in 5 s"))
    True
    >>> is_transient(FileNotFoundError("no such file"))
    False
    """
    while error is not None:
        if isinstance(error, (TimeoutError, ConnectionError)):
            return True
        if isinstance(error, OSError) and error.errno in PASSING:
            return True
        error = error.__cause__
    return False


def retrying(dispatch: Dispatch, delay: float = 0.5, sleep: Callable[[float], Any] = time.sleep) -> Dispatch:
    """``dispatch`` that meets a transient error with one more try, after ``delay`` seconds of ``sleep``.

    What the second try raises goes up, and so does a permanent error, at once.

    >>> tries = iter([TimeoutError("slow"), None])
    >>> def tool(name, arguments, repo_root):
    ...     if error := next(tries):
    ...         raise error
    ...     return "the file"
    >>> retrying(tool, sleep=lambda seconds: None)("read_file", {"path": "a.py"}, ".")
    'the file'
    """

    def dispatched(name: str, arguments: dict, repo_root: Any) -> str:
        try:
            return dispatch(name, arguments, repo_root)
        except Exception as error:
            if not is_transient(error):
                raise
        sleep(delay)
        return dispatch(name, arguments, repo_root)

    return dispatched
