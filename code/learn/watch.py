"""watch.py: notice that a file was saved, on any file system, by looking again and again."""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 0.5


def snapshot(roots: list[Path]) -> dict[str, tuple[int, int]]:
    """Time of change and size of ``roots`` and of every file under them, hidden and cached ones left out."""
    paths = [str(root) for root in roots if root.is_file()]
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            paths += [os.path.join(folder, name) for name in files if not name.startswith(".")]
    seen = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:  # an editor swaps files while it saves
            continue
        seen[path] = (status.st_mtime_ns, status.st_size)
    return seen


def follow(roots: list[Path], act: Callable[[str], bool]) -> None:
    """Call ``act`` with ``""`` at first, then with each line typed and ``"saved: NAME"`` after each save.

    Ends when ``act`` returns False.
    """
    typed: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_lines, args=(typed,), daemon=True).start()
    before = snapshot(roots)
    going_on = act("")
    while going_on:
        try:
            going_on = act(typed.get(timeout=SECONDS).strip())
            continue
        except queue.Empty:
            now = snapshot(roots)
        if now != before:
            while (later := snapshot(roots)) != now:  # wait until the saving is over
                now = later
                time.sleep(SECONDS / 5)
            changed = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
            before = now
            going_on = act(f"saved: {os.path.basename(changed[0])}")


def _read_lines(typed: queue.Queue) -> None:
    try:
        # unbuffered: a thread that waits inside sys.stdin would hold its lock when Python ends
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as lines:
            for line in lines:
                typed.put(line.decode(errors="replace"))
    except (OSError, AttributeError):  # there is no standard input
        pass
