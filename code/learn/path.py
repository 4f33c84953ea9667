"""path.py: where a learner stands, worked out anew from the tests and the files each time."""

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase

from learn import documents, stubs
from learn.bench import CODE, ROOT, RUNS, Milestone, load_reference, read_text, show
from learn.report import run_tests

EXPERIMENTS = 3
REPORTS = ("EVALUATION.md",)  # its labels fit the finished report, so a part of each section is enough
SINGLE_CALL = "single call"  # what the heading of the experiment that has to be among them says


@dataclass(frozen=True)
class Standing:
    """How far one step is: ``note`` in a few words, ``trouble`` what stands in the way ("" when done)."""

    step: Milestone
    note: str
    trouble: str

    @property
    def done(self) -> bool:
        return not self.trouble


def survey(steps: list[Milestone], results: dict[str, str | None] | None = None) -> list[Standing]:
    """The standing of each of ``steps``, from ``results`` or else from a new run of their tests.

    Raises BenchError when the tests can't be run.
    """
    if results is None:
        begun = [step for step in steps if step.tests and not is_untouched(step)]
        files = {file for step in begun for file in step.test_files}
        there = sorted(file for file in files if (CODE / file).exists())
        results = run_tests(there) if there else {}
    return [_stand(step, results) for step in steps]


def _stand(step: Milestone, results: dict[str, str | None]) -> Standing:
    if step.tests:
        return _tested(step, results)
    if step.id == "0":
        return Standing(step, *_answers(step.documents))
    return _explored(step) if step.documents else _run_live(step)


def is_untouched(step: Milestone) -> bool:
    """Whether every learner-owned function of ``step`` is still its stub."""
    try:
        return all(stubs.is_stub(read_text(step.path), function) for function in step.functions)
    except (LookupError, SyntaxError):
        return False


def _tested(step: Milestone, results: dict[str, str | None]) -> Standing:
    if is_untouched(step):
        return Standing(step, "not begun", "not begun yet: " + step.message(next(iter(step.functions))))
    own = {
        test: failure
        for test, failure in results.items()
        if test in step.test_files or any(fnmatchcase(test, pattern) for pattern in step.tests)
    }
    failed = [(test, failure) for test, failure in own.items() if failure is not None]
    note = f"{len(own) - len(failed)} of {len(own)} tests pass"
    if step.test_files & {test for test, _ in failed}:
        note = "can't be loaded"
    if not own:
        return Standing(step, "no tests", f"none of the tests {', '.join(step.tests)} is there")
    return Standing(step, note, f"{failed[0][0]}\n{failed[0][1]}" if failed else "")


def _sections(name: str) -> tuple[list[documents.Section], int]:
    """The sections of one of the learner's documents, and how many the finished one has."""
    path = ROOT / name
    written = documents.read_sections(read_text(path)) if path.exists() else []
    return written, len(documents.read_sections(load_reference()[name]))


def _answers(names: list[str]) -> tuple[str, str]:
    """Note and trouble of documents of which every section has to be filled, of a report at least begun."""
    notes, troubles = [], []
    for name in names:
        sections, asked = _sections(name)
        open_ones = [each for each in sections if not (each.begun if name in REPORTS else each.filled)]
        filled = len(sections) - len(open_ones)
        notes.append(f"{name}: {min(filled, asked)} of {asked}")
        if filled < asked:
            gone = f"{asked - filled} of its {asked} questions are gone"
            gaps = [f"not answered yet: {section.title}" for section in open_ones]
            troubles.append(f"{name}, {[*gaps, gone][0]}")
    return ", ".join(notes), next(iter(troubles), "")


def _explored(step: Milestone) -> Standing:
    name, *others = step.documents
    filled = [section.title.lower() for section in _sections(name)[0] if section.filled]
    experiments = [title for title in filled if title.startswith("experiment")]
    note, trouble = _answers(others)
    if len(experiments) < EXPERIMENTS:
        trouble = f"{name}: {len(experiments)} of at least {EXPERIMENTS} experiments are filled"
    elif not any(SINGLE_CALL in title for title in experiments):
        trouble = f"{name}: the experiment in which a single call would do is not among the filled ones"
    return Standing(step, f"{name}: {min(len(experiments), EXPERIMENTS)} of {EXPERIMENTS}, {note}", trouble)


def _run_live(step: Milestone) -> Standing:
    files = sorted(RUNS.glob("*.jsonl"))
    for path in files:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("event") == "end" and event.get("stop_reason"):
                return Standing(step, f"{show(path)}: {event['stop_reason']}", "")
    broken = f"; {show(files[-1])} has no end" if files else ""
    return Standing(step, "no run recorded", f"no finished run is recorded in {show(RUNS)}/{broken}")


def current(standings: list[Standing]) -> Standing | None:
    """The step that is next: the first open one; step 0 comes last once code has been written.

    An extra is next only when nothing else is open.
    """
    todo = [standing for standing in standings if not (standing.done or standing.step.extra)]
    has_code = any(standing.step.functions and not is_untouched(standing.step) for standing in standings)
    if has_code and len(todo) > 1 and todo[0].step.id == "0":
        todo = todo[1:]
    return next(iter(todo or [standing for standing in standings if not standing.done]), None)
