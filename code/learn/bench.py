"""bench.py: where things are, the manifest, and the few files that the bench itself writes.

In a learner's copy the finished texts lie compressed in ``learn/reference.bin``; that file is what
makes it a copy. What the bench has to remember (hints shown) and what it saves (versions that a
`reset` replaced) lies in ``.learn/``.
"""

import json
import os
import tomllib
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CODE = Path(__file__).resolve().parents[1]
ROOT = CODE.parent
REFERENCE = Path(__file__).with_name("reference.bin")
KEPT = ROOT / ".learn"  # like runs/ not in code/, where the agent would find it
STATE = KEPT / "state.json"
RUNS = ROOT / "runs"


class BenchError(Exception):
    """What a person has to be told; the message is one sentence, ``code`` the exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Milestone:
    """One step of the path, as `milestones.toml` has it.

    ``file`` is relative to ``code/``; ``functions`` gives for each learner-owned one what to build, in
    a clause; ``tests`` are patterns of test ids; ``documents`` are relative to the project's root.
    ``extra`` marks what goes beyond the core: an optional step, which never stands in the way.
    """

    id: str
    title: str
    idea: str
    lesson: str
    todo: str
    hints: list[str]
    file: str = ""
    functions: dict[str, str] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    extra: bool = False

    @property
    def path(self) -> Path:
        return CODE / self.file

    @property
    def name(self) -> str:
        """The file by its path from the root."""
        return f"code/{self.file}"

    @property
    def test_files(self) -> set[str]:
        return {pattern.partition("::")[0] for pattern in self.tests}

    def message(self, function: str) -> str:
        """What the stub of ``function`` raises."""
        return f"{self.id}: {self.functions[function]}"


@cache
def load_manifest() -> dict:
    """`milestones.toml` as it is: what to leave out and keep, ``introductions`` and ``milestones``."""
    with open(Path(__file__).with_name("milestones.toml"), "rb") as file:
        return tomllib.load(file)


@cache
def load_milestones(with_extras: bool | None = None) -> list[Milestone]:
    """The steps of the path, in order, the extras last.

    Left out, ``with_extras`` is whether they are exercises here: in a copy that was made with them.
    """
    steps = [Milestone(**entry) for entry in load_manifest()["milestones"]]
    extras = [step for step in steps if step.extra]
    if with_extras is None:
        with_extras = REFERENCE.exists() and extras[0].name in load_reference()
    return [step for step in steps if not step.extra] + (extras if with_extras else [])


def read_text(path: Path) -> str:
    """A text file with its line ends as they are. Raises BenchError."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BenchError(f"{show(path)} can't be read: {reason}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file in one go: an interruption leaves the old one."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(text.encode())
    os.replace(part, path)


def show(path: Path) -> str:
    """``path`` as one types it in ``code/``."""
    return Path(os.path.relpath(path, CODE)).as_posix()


def pack_reference(texts: dict[str, str]) -> bytes:
    """The finished texts, by path from the root, so that neither a glance nor a search shows them."""
    return zlib.compress(json.dumps(texts).encode(), 9)


def load_reference() -> dict[str, str]:
    """The finished texts, by path from the root. Raises BenchError when this is not a learner's copy."""
    if not REFERENCE.exists():
        raise BenchError("this is the finished project; `python -m learn start DIR` makes a copy to work in")
    return json.loads(zlib.decompress(REFERENCE.read_bytes()))


def load_state() -> dict:
    """What the bench remembers: ``hints`` (how many were shown, by milestone) and ``told``."""
    try:
        state = json.loads(STATE.read_bytes())
        return {"hints": {key: int(count) for key, count in state["hints"].items()}, "told": state["told"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {"hints": {}, "told": False}


def save_state(state: dict) -> None:
    """Remember ``state``."""
    KEPT.mkdir(exist_ok=True)
    write_text(STATE, json.dumps(state) + "\n")


def back_up(path: Path) -> Path:
    """Keep a file under the next free number, and return where it is kept."""
    KEPT.mkdir(exist_ok=True)
    number = 1
    while True:
        kept = KEPT / f"{path.name}.{number}.bak"
        try:
            with open(kept, "xb") as file:
                file.write(path.read_bytes())
            return kept
        except FileExistsError:
            number += 1
