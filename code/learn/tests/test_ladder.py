"""The ladder: no milestone blocks another, and what `start` took out is all that it took out."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest

from learn.bench import ROOT, load_manifest, load_milestones
from learn.start import owned_files
from learn.tests.conftest import Copy, original

BUILT = [step for step in load_milestones() if step.functions]
PROVIDED = ["tests/test_config_models.py", "tests/test_tools.py", "tests/test_messages.py"]


def results_in(copy: Copy, *tests: str) -> dict[str, str | None]:
    program = f"import json; from learn.report import run_tests; print(json.dumps(run_tests({tests!r})))"
    run = subprocess.run([sys.executable, "-c", program], cwd=copy.code, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr.decode()
    return json.loads(run.stdout)


@pytest.mark.parametrize("done", range(len(BUILT) + 1), ids=lambda done: f"M{done}")
def test_what_is_built_is_green_and_what_is_not_fails_on_its_own_stub(copy, done):
    copy.build(*BUILT[:done])
    files = sorted({pattern.partition("::")[0] for step in BUILT for pattern in step.tests})
    results = results_in(copy, *files)
    for step in BUILT:
        own = {test: said for test, said in results.items() if any(fnmatchcase(test, p) for p in step.tests)}
        assert own, f"{step.id} has no tests"
        wanted = [None] if step in BUILT[:done] else [step.message(function) for function in step.functions]
        for test, said in own.items():
            assert said in wanted, f"with M1 to M{done} built, {test} says: {said}"
        results = {test: said for test, said in results.items() if test not in own}
    assert not results, f"these tests belong to no milestone: {list(results)}"


def test_what_is_provided_is_green_from_the_start(copy):
    results = results_in(copy, *PROVIDED)
    assert {test.partition("::")[0] for test in results} == set(PROVIDED)
    failed = {test: said for test, said in results.items() if said is not None}
    assert not failed, f"{len(failed)} of these tests need what is not built yet: {list(failed.items())[:3]}"


def test_with_the_finished_bodies_put_back_the_copy_is_the_original(copy):
    assert copy.made.code == 0, copy.made.err
    copy.build(*BUILT)
    files = {path.relative_to(copy.root).as_posix() for path in copy.files()}
    files -= {"code/learn/reference.bin", *load_manifest()["introductions"]}
    unlike = [name for name in sorted(files) if (copy.root / name).read_bytes() != (ROOT / name).read_bytes()]
    assert unlike == []


def test_the_copy_has_what_a_learner_needs_and_not_what_only_maintainers_need(copy):
    names = {path.relative_to(copy.root).as_posix() for path in copy.kept}
    assert {"README.md", ".gitignore", "code/tools.py", "code/tests/test_safety.py"} <= names
    private = re.compile(r"\.(git|ci|venv)/|\.env$|code/(learn|lab|extras)/tests/|code/learn/misconceptions")
    assert [name for name in names if private.match(name)] == []


def test_no_line_of_a_solution_is_in_the_copy(copy):
    taken = {line.strip() for name in owned_files() for line in original(name).splitlines()}
    taken -= {line.strip() for name in owned_files() for line in copy.text(name).splitlines()}
    telling = {line.encode() for line in taken if len(line) >= 40}  # shorter ones are common idioms
    assert len(telling) > 20
    assert [(line, str(path)) for path, data in copy.kept.items() for line in telling if line in data] == []


def test_the_manifest_is_complete():
    steps = load_milestones()
    assert [step.id for step in steps] == ["0", "M1", "M2", "M3", "M4", "M5", "M6"]
    for step in steps:
        assert len(step.hints) == 3 and step.idea and step.lesson and step.todo, step.id
        assert bool(step.functions) == bool(step.tests) == bool(step.file), step.id
    asked = [name for step in steps for name in step.documents]
    assert sorted(asked) == sorted(load_manifest()["introductions"])
