"""The ladder: no milestone blocks another, and what `start` took out is all that it took out."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest

from learn.bench import ROOT, Milestone, load_manifest, load_milestones
from learn.start import owned_files
from learn.tests.conftest import Copy, original

BUILT = [step for step in load_milestones() if step.functions]
EXTRAS = [step for step in load_milestones(with_extras=True) if step.extra]
PROVIDED = ["tests/test_config_models.py", "tests/test_tools.py", "tests/test_messages.py"]
# One process for all stages: plant the files of a stage, forget what was imported, run its tests.
PROGRAM = """
import importlib.util, json, pathlib, sys
from learn import report
code = pathlib.Path.cwd()
for number, (texts, tests) in enumerate(json.load(sys.stdin)):
    for name, text in texts.items():
        path = code.parent / name
        path.write_bytes(text.encode())
        pathlib.Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(code)) and module is not report:
            del sys.modules[name]
    report.main([f"{sys.argv[1]}.{number}", *tests])
"""
Results = dict[str, str | None]


def results_of(copy: Copy, tmp_path_factory, *stages: tuple[list[Milestone], list[str]]) -> list[Results]:
    """Of each stage, the milestones built in ``copy`` and the tests to run: how every test went."""
    told = []
    for steps, tests in stages:
        copy.fresh().build(*steps)
        names = {step.name for step in BUILT + EXTRAS}
        told.append(({name: copy.text(name) for name in sorted(names)}, sorted(tests)))
    report = tmp_path_factory.mktemp("ladder") / "report"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(report)],
        cwd=copy.fresh().code,
        input=json.dumps(told).encode(),
        capture_output=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr.decode()
    results = []
    for number, _ in enumerate(stages):
        lines = report.with_suffix(f".{number}").read_text("utf-8").splitlines()
        records = [record for line in lines if "test" in (record := json.loads(line))]
        failed = {record["test"]: record["failure"] for record in records if record["failure"] is not None}
        results.append({record["test"]: None for record in records} | failed)
    return results


def files_of(steps: list[Milestone]) -> list[str]:
    return sorted({file for step in steps for file in step.test_files})


@pytest.fixture(scope="module")
def ladder(one_copy, tmp_path_factory):
    """How the guiding tests went with M1 to Mk built, for each k; with none, also the provided ones."""
    tests = files_of(BUILT)
    stages = [(BUILT[:done], tests) for done in range(1, len(BUILT) + 1)]
    return results_of(one_copy, tmp_path_factory, ([], [*tests, *PROVIDED]), *stages)


@pytest.fixture(scope="module")
def extras(one_copy_with_extras, tmp_path_factory):
    """On a finished core, how the tests of the extras went as stubs, then built; and on stubs, the core's."""
    tests = files_of(EXTRAS)
    stages = (BUILT, tests), (BUILT + EXTRAS, tests), ([], files_of(BUILT))
    return results_of(one_copy_with_extras, tmp_path_factory, *stages)


def own_tests(step: Milestone, results: Results) -> Results:
    own = {test: said for test, said in results.items() if any(fnmatchcase(test, p) for p in step.tests)}
    unused = [pattern for pattern in step.tests if not any(fnmatchcase(test, pattern) for test in own)]
    assert own and not unused, f"{step.id}: no test is named {unused}"
    return own


@pytest.mark.parametrize("done", range(len(BUILT) + 1), ids=lambda done: f"M{done}")
def test_what_is_built_is_green_and_what_is_not_fails_on_its_own_stub(ladder, done):
    results = {test: said for test, said in ladder[done].items() if test.partition("::")[0] not in PROVIDED}
    for step in BUILT:
        own = own_tests(step, results)
        wanted = [None] if step in BUILT[:done] else [step.message(function) for function in step.functions]
        for test, said in own.items():
            assert said in wanted, f"with M1 to M{done} built, {test} says: {said}"
        results = {test: said for test, said in results.items() if test not in own}
    assert ladder[done].keys() >= ladder[-1].keys() >= ladder[1].keys(), "the same tests ran each time"
    assert not results, f"these tests belong to no milestone: {list(results)}"


@pytest.mark.parametrize("file", PROVIDED)
def test_what_is_provided_is_green_from_the_start(ladder, file):
    results = {test: said for test, said in ladder[0].items() if test.partition("::")[0] == file}
    assert results and set(results.values()) == {None}, [item for item in results.items() if item[1]][:3]


@pytest.mark.parametrize("step", EXTRAS, ids=lambda step: step.id)
def test_an_extra_fails_on_its_own_stub_and_is_green_when_built(extras, step):
    stubbed, built, _ = extras
    stubs = [step.message(function) for function in step.functions]
    for test, said in own_tests(step, stubbed).items():
        assert said in stubs, f"{test} says: {said}"
    assert set(stubs) <= set(stubbed.values()), "each of its functions is asked for"
    red = [test for test, said in built.items() if said is not None]
    assert not red and built.keys() == stubbed.keys(), f"with everything built, these fail: {red}"


def test_stubs_in_the_extras_change_nothing_for_the_milestones(extras, ladder):
    plain = {test: said for test, said in ladder[0].items() if test.partition("::")[0] not in PROVIDED}
    assert extras[2] == plain


@pytest.mark.parametrize("kind", ["copy", "copy_with_extras"])
def test_with_the_finished_bodies_put_back_the_copy_is_the_original(kind, request):
    copy = request.getfixturevalue(kind)
    assert copy.made.code == 0, copy.made.err
    copy.build(*BUILT, *(EXTRAS if kind == "copy_with_extras" else []))
    files = {path.relative_to(copy.root).as_posix() for path in copy.files()}
    files -= {"code/learn/reference.bin", *load_manifest()["introductions"]}
    unlike = [name for name in sorted(files) if (copy.root / name).read_bytes() != (ROOT / name).read_bytes()]
    assert unlike == []


def test_the_extras_are_exercises_only_where_they_were_asked_for(copy, copy_with_extras):
    for step in EXTRAS:
        assert (copy.root / step.name).read_bytes() == (ROOT / step.name).read_bytes()
        for function in step.functions:
            assert step.message(function) in copy_with_extras.text(step.name)
    plain, extended = (
        {path.relative_to(each.root).as_posix() for path in each.kept} for each in (copy, copy_with_extras)
    )
    assert plain <= extended and extended - plain == set(load_manifest()["keep_with_extras"])


def test_the_copy_has_what_a_learner_needs_and_not_what_only_maintainers_need(copy):
    names = {path.relative_to(copy.root).as_posix() for path in copy.kept}
    assert {"README.md", ".gitignore", "code/tools.py", "code/tests/test_safety.py"} <= names
    private = re.compile(r"\.(git|ci|venv)/|\.env$|code/(learn|lab|extras)/tests/|code/learn/misconceptions")
    assert [name for name in names if private.match(name)] == []


@pytest.mark.parametrize("kind", ["copy", "copy_with_extras"])
def test_no_line_of_a_solution_is_in_the_copy(kind, request):
    copy, owned = request.getfixturevalue(kind), owned_files(load_milestones(kind == "copy_with_extras"))
    taken = {line.strip() for name in owned for line in original(name).splitlines()}
    taken -= {line.strip() for name in owned for line in copy.text(name).splitlines()}
    telling = {line.encode() for line in taken if len(line) >= 45}  # shorter ones are common idioms
    assert len(telling) > 20
    assert [(line, str(path)) for path, data in copy.kept.items() for line in telling if line in data] == []


def test_the_manifest_is_complete():
    steps = load_milestones(with_extras=True)
    ids = ["0", "M1", "M2", "M3", "M4", "M5", "M6", "X1", "X2", "X3", "X4", "X5"]
    assert [step.id for step in steps] == ids and steps[:7] == load_milestones()
    for step in steps:
        assert len(step.hints) == 3 and step.idea and step.lesson and step.todo, step.id
        assert bool(step.functions) == bool(step.tests) == bool(step.file), step.id
    asked = [name for step in steps for name in step.documents]
    assert sorted(asked) == sorted(load_manifest()["introductions"])
