"""start.py: write a learner's copy of the finished project.

The copy is built beside its place and moved there when it is whole, so that an interrupted `start`
leaves nothing that looks finished.
"""

import os
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

from learn import documents, stubs
from learn.bench import (
    REFERENCE,
    ROOT,
    RUNS,
    BenchError,
    Milestone,
    load_manifest,
    load_milestones,
    pack_reference,
    read_text,
)

ALWAYS_IGNORED = [".git", ".env", ".venv", "__pycache__", "*.pyc", ".pytest_cache", ".DS_Store"]


def make_copy(target: Path, with_extras: bool = False) -> None:
    """Make ``target``, which mustn't exist or has to be empty, a learner's copy. Raises BenchError."""
    target = target.resolve()
    if REFERENCE.exists():
        raise BenchError("this is a learner's copy already; make another one from the finished project")
    if target.is_relative_to(ROOT):
        raise BenchError(f"{target} lies inside the project; choose a place outside of {ROOT}")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BenchError(f"{target} exists and is not an empty folder; nothing was written")
    steps = load_milestones(with_extras)
    finished = {name: read_text(ROOT / name) for name in owned_files(steps)}
    learnt = learners_texts(finished, steps)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    part.mkdir()
    try:
        for name in project_files(with_extras):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, part / name)
        for name, text in learnt.items():
            (part / name).write_bytes(text.encode())
        (part / REFERENCE.relative_to(ROOT)).write_bytes(pack_reference(finished))
        (part / RUNS.relative_to(ROOT)).mkdir()
        if target.exists():
            target.rmdir()
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def owned_files(steps: list[Milestone]) -> list[str]:
    """The files that are the learner's to fill, by path from the root."""
    return [*sorted({step.name for step in steps if step.file}), *load_manifest()["introductions"]]


def learners_texts(finished: dict[str, str], steps: list[Milestone]) -> dict[str, str]:
    """What a learner gets in place of the ``finished`` texts, by path from the root. Raises BenchError."""
    texts = dict(finished)
    for step in steps:
        for function in step.functions:
            name = step.name
            try:
                if stubs.is_stub(texts[name], function):
                    raise LookupError(f"{function} is a stub already, so this is not the finished project")
                texts[name] = stubs.cut(texts[name], function, step.message(function))
            except (LookupError, SyntaxError) as error:
                raise BenchError(f"{step.file}: {error}") from error
    for name, introduction in load_manifest()["introductions"].items():
        texts[name] = documents.make_template(finished[name], introduction)
    return texts


def project_files(with_extras: bool = False) -> list[str]:
    """The files that a copy gets, by path from the root: what git tracks, or else what it wouldn't ignore."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        command = ["git", "-C", str(ROOT), "ls-files", "-z"]
        listed = subprocess.run(command, env=env, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError, UnicodeDecodeError):
        listed = []
    if "code/learn/start.py" not in listed:
        listed = [
            (Path(folder) / file).relative_to(ROOT).as_posix()
            for folder, _, files in os.walk(ROOT)
            for file in files
        ]
    left_out, ignored = load_manifest()["leave_out"], [*ALWAYS_IGNORED, *_ignored()]
    kept = load_manifest()["keep_with_extras"] if with_extras else []
    return sorted(
        name
        for name in listed
        if (ROOT / name).is_file()
        and (name in kept or not any(fnmatchcase(f"{name}/", f"{pattern}/*") for pattern in left_out))
        and not any(fnmatchcase(piece, pattern) for piece in name.split("/") for pattern in ignored)
    )


def _ignored() -> list[str]:
    path = ROOT / ".gitignore"
    lines = read_text(path).splitlines() if path.exists() else []
    return [line.strip().strip("/") for line in lines if line.strip() and not line.startswith(("#", "!"))]
