"""misconceptions.py: do the guiding tests catch what learners get wrong?

The table (misconceptions.toml) holds wrong versions of the learner-owned functions. Each one is planted
in the core, in the place of the function, and the guiding tests of its milestone run against it, as they
would against a learner's file. It is caught when a test fails and the failure says the idea that was
missed. Run it as ``python -m learn misconceptions [NAME...]`` from ``code/``.
"""

import argparse
import importlib
import io
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

CODE = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("misconceptions.toml")
CORE = ("safety", "agent", "evaluate")
TESTS = {"M1": "test_safety", "M2": "test_safety", "M3": "test_agent", "M4": "test_evaluate"}
BUILT_ON_IT = {"M1": ["M3"], "M2": ["M3"]}


@dataclass(frozen=True)
class Version:
    """One way to write a learner-owned function: its whole ``code``, and what is known about it.

    ``says`` is the idea that a wrong version misses, ``why`` what one believes who writes it; both are
    empty for a right one.
    """

    id: str
    milestone: str
    function: str
    code: str
    says: str = ""
    why: str = ""


@dataclass(frozen=True)
class Failure:
    """A guiding test that failed, named as pytest names it, and the message of its failure."""

    test: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """What the guiding tests said of a version: how many passed, and which failed, in their order."""

    version: Version
    passed: int
    failures: list[Failure]

    @property
    def caught_by(self) -> str | None:
        """The first test that fails, the one that a learner reads, if it says the idea; else None."""
        first = self.failures[0] if self.failures else None
        return first.test if first and self.version.says in first.message else None


def load(table: Path = TABLE) -> tuple[list[Version], list[Version]]:
    """The wrong versions of the table, in its order, and the right ones that they are made of.

    Raises ValueError when a change doesn't fit the right version in exactly one place.
    """
    data = tomllib.loads(table.read_text(encoding="utf-8"))
    right = [
        Version(f"right-{name}", data["milestone"][name], name, code) for name, code in data["right"].items()
    ]
    wrong = []
    for version in right:
        for idea in data[version.function]:
            for id, why, *changes in idea["wrong"]:
                code = _changed(id, version.code, changes)
                wrong.append(Version(id, version.milestone, version.function, code, idea["says"], why))
    return wrong, right


def _changed(id: str, code: str, changes: list[str]) -> str:
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        if code.count(old) != 1:
            raise ValueError(f"{id}: the right version has {old!r} {code.count(old)} times, not once")
        code = code.replace(old, new)
    return code


def try_out(versions: Iterable[Version], whole: bool = False) -> list[Verdict]:
    """Plant each version in turn and run the guiding tests of its milestone against it.

    A version's tests end with the first failure. When ``whole``, all of them run, and those of the
    milestone that is built on it. Raises RuntimeError when pytest can't run the tests.
    """
    runner = _Runner(list(versions), whole)
    files = [str(CODE / "tests" / f"{name}.py") for name in sorted(set(TESTS.values()))]
    options = ["-s", "--tb=native", "--no-summary", "--disable-plugin-autoload", "--rootdir", str(CODE)]
    unused = "cacheprovider faulthandler logging warnings threadexception unraisableexception"
    options += ["-o", "addopts=", *(f"-pno:{name}" for name in unused.split())]
    said = io.StringIO()
    with _imports_of_our_own(), redirect_stdout(said), redirect_stderr(said):
        pytest.main([*options, *files], plugins=[runner])
    if len(runner.verdicts) < len(runner.versions):
        raise RuntimeError(f"the guiding tests can't be run:\n{said.getvalue().strip()[-2000:]}")
    return runner.verdicts


class _Runner:
    """A pytest plugin that runs the tests it finds once for every version."""

    def __init__(self, versions: list[Version], whole: bool) -> None:
        self.versions, self.whole = versions, whole
        self.verdicts: list[Verdict] = []
        self.message: str | None = None
        self.folder: Path | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files = {item.path.stem: item.getparent(pytest.Module) for item in session.items}
        for version in self.versions:
            _plant(version.function, version.code)
            passed, failures = 0, []
            also = BUILT_ON_IT.get(version.milestone, []) if self.whole else []
            for item in _fresh_tests(files, [version.milestone, *also]):
                self.message = None
                item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
                if self.message is None:
                    passed += 1
                    continue
                failures.append(Failure(item.nodeid.removeprefix("tests/"), self.message))
                if not self.whole:
                    break
            self.verdicts.append(Verdict(version, passed, failures))
        return True

    @pytest.fixture
    def tmp_path(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """One folder for all: to make one for each of thousands of tests would take most of the time."""
        self.folder = self.folder or tmp_path_factory.mktemp("shared")
        return self.folder

    def pytest_exception_interact(self, call: pytest.CallInfo) -> None:
        self.message = str(call.excinfo.value)


def _fresh_tests(files: dict[str, pytest.Module], milestones: list[str]) -> Iterator[pytest.Item]:
    """The tests of the milestones, their files imported anew, so that they see the planted core."""
    for milestone in milestones:
        old = files[TESTS[milestone]]
        sys.modules.pop(f"tests.{TESTS[milestone]}", None)
        for group in type(old).from_parent(old.parent, path=old.path).collect():
            if group.name.startswith(f"Test{milestone}"):
                yield from old.session.genitems(group)


def _plant(function: str, code: str) -> None:
    """Import the core anew, with ``code`` in the place of ``function``, before anything else takes it up."""
    for name in CORE:
        sys.modules.pop(name, None)
    *owner, name = function.split(".")
    for module in map(importlib.import_module, CORE):
        target = getattr(module, owner[0], None) if owner else module
        if hasattr(target, name):
            break
    else:
        raise ValueError(f"the core has no {function}")
    exec(compile(code, str(CODE / f"{module.__name__}.py"), "exec"), module.__dict__)
    if owner:
        setattr(target, name, module.__dict__.pop(name))


@contextmanager
def _imports_of_our_own() -> Iterator[None]:
    """Keep the modules that were loaded before from those that are loaded here, compiled files included."""

    def ours() -> dict[str, ModuleType]:
        tests = {f"tests.{name}" for name in TESTS.values()}
        return {name: module for name, module in sys.modules.items() if name in tests or name in CORE}

    before, settings = ours(), (sys.dont_write_bytecode, sys.pycache_prefix)
    with TemporaryDirectory() as folder:
        sys.dont_write_bytecode = False  # so that each file is compiled once, not each time
        sys.pycache_prefix = folder
        try:
            yield
        finally:
            sys.dont_write_bytecode, sys.pycache_prefix = settings
            for name in ours():
                del sys.modules[name]
            sys.modules.update(before)


def main(argv: list[str] | None = None) -> int:
    """Print the table with the test that catches each version.

    Returns 0 when all are caught, 1 when one isn't or the tests can't be run, 2 for bad usage.
    """
    parser = argparse.ArgumentParser(
        prog="python -m learn misconceptions",
        description="Plant each wrong version of a learner-owned function and show the test that catches it.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a version, a function or a milestone; all if left out"
    )
    names = parser.parse_args(argv).names
    wrong, _ = load()
    known = {name for each in wrong for name in (each.id, each.function, each.milestone)}
    if unknown := [name for name in names if name not in known]:
        print(f"there is no wrong version, function or milestone {', '.join(unknown)}", file=sys.stderr)
        return 2
    chosen = [each for each in wrong if not names or {each.id, each.function, each.milestone} & set(names)]
    print(f"planting {len(chosen)} wrong versions ...", flush=True)
    start = time.monotonic()
    try:
        verdicts = try_out(chosen)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    for function, of_function in groupby(verdicts, key=lambda verdict: verdict.version.function):
        for says, of_idea in groupby(of_function, key=lambda verdict: verdict.version.says):
            print(f"\n{function}: {says}")
            for verdict in of_idea:
                print(f"  {verdict.version.id}: {verdict.version.why}")
                print(f"    {verdict.caught_by or 'NOT CAUGHT'}")
    missed = [verdict.version.id for verdict in verdicts if verdict.caught_by is None]
    seconds = time.monotonic() - start
    print(f"\n{len(verdicts)} wrong versions, {len(verdicts) - len(missed)} caught, {seconds:.1f} s")
    if missed:
        print(f"not caught: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
