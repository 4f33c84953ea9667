"""One learner's copy, made by the command as a user would, for all tests of the bench."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from learn import stubs
from learn.bench import CODE, REFERENCE, ROOT, Milestone

if REFERENCE.exists():
    pytest.skip("these are tests of the finished project", allow_module_level=True)


def run_bench(code: Path, *arguments: str, answer: str = "", **environment: str) -> SimpleNamespace:
    """Type ``python -m learn ...`` in ``code``: what it said (``out``, ``err``) and its exit ``code``."""
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, "-m", "learn", *arguments]
    run = subprocess.run(command, cwd=code, env=env, input=answer.encode(), capture_output=True, timeout=60)
    return SimpleNamespace(code=run.returncode, out=run.stdout.decode(), err=run.stderr.decode())


class Copy:
    """A learner's copy in ``root``; `learn` runs its bench, `fresh` undoes what a test wrote."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root, self.code = root, root / "code"
        self.made = run_bench(CODE, "start", str(root), *options)
        self.kept = {path: path.read_bytes() for path in self.files()}

    def files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and path.suffix != ".pyc"]

    def learn(self, *arguments: str, answer: str = "", **environment: str) -> SimpleNamespace:
        return run_bench(self.code, *arguments, answer=answer, **environment)

    def text(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_bytes(text.encode())

    def build(self, *steps: Milestone) -> None:
        """Put the finished bodies of ``steps`` in."""
        for step in steps:
            text = self.text(step.name)
            for function in step.functions:
                text = stubs.put(text, function, original(step.name))
            self.write(step.name, text)

    def fresh(self) -> "Copy":
        for path in self.files():
            if path not in self.kept:
                path.unlink()
        for path, data in self.kept.items():
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)
        return self


@pytest.fixture(scope="session")
def one_copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("learner") / "my agent")


@pytest.fixture
def copy(one_copy: Copy) -> Copy:
    """The learner's copy, as `start` made it."""
    return one_copy.fresh()


@pytest.fixture(scope="session")
def one_copy_with_extras(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("learner") / "with extras", "--with-extras")


@pytest.fixture
def copy_with_extras(one_copy_with_extras: Copy) -> Copy:
    """A copy in which the extended requirements are exercises, too, as `start` made it."""
    return one_copy_with_extras.fresh()


def original(name: str) -> str:
    """A text of the finished project, by path from its root."""
    return (ROOT / name).read_bytes().decode()
