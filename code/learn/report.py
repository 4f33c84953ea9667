"""report.py: run tests in a process of their own, and tell how each went in words for a learner.

As a program (``python -m learn.report FILE TEST...``) it runs pytest and writes one JSON line for each
thing that happens, flushed, so that nothing is lost when a test never ends.
"""

import faulthandler
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from learn.bench import CODE, BenchError, load_milestones

SECONDS_TO_LOAD = 30
SECONDS_A_TEST = 10
SECONDS_IN_ALL = 300
ENDLESS = "is there a loop that never ends?"


def run_tests(tests: list[str]) -> dict[str, str | None]:
    """Run ``tests`` (files, folders or ids, from ``code/``): for each test id None, or why it failed.

    A file that can't be loaded is one failed test, under its own name. Raises BenchError when pytest
    can't run.
    """
    for step in load_milestones():  # two saves in one second can leave bytecode that is stale
        Path(importlib.util.cache_from_source(step.path)).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "report"
        file.touch()
        command = [sys.executable, "-m", "learn.report", str(file), *tests, f"--basetemp={folder}/temp"]
        hidden = {"PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONIOENCODING": "utf-8"}
        try:
            quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
            run = subprocess.run(command, cwd=CODE, env=env, timeout=SECONDS_IN_ALL, **quiet)
        except subprocess.TimeoutExpired:
            run = None
        records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    results: dict[str, str | None] = {}
    collected: list[str] = []
    running = ""
    for record in records:
        collected += record.get("collected", [])
        running = record.get("started", running)
        if test := record.get("test"):
            results[test] = results.get(test) or record["failure"]
            running = running if running != test else ""
    if running:
        results[running] = f"not done after {SECONDS_A_TEST} seconds: {ENDLESS}"
    for test in collected:
        results.setdefault(test, f"not run, because {running or 'pytest'} broke off")
    if not results:
        said = (run.stdout + run.stderr).decode("utf-8", "replace").split("\n") if run else []
        last = next((line.strip() for line in reversed(said) if line.strip()), "pytest ended without a word")
        if "named 'pytest'" in last:
            last += "; `python -m pip install -r requirements.txt` installs it"
        if any(line.startswith("Timeout (") for line in said):
            last = f"they are not loaded after {SECONDS_TO_LOAD} seconds: {ENDLESS}"
        raise BenchError(f"the tests can't be run: {last}")
    return results


class Recorder:
    """The pytest plugin that writes the report into the open text ``file``."""

    def __init__(self, file) -> None:
        self.file, self.stderr = file, os.dup(2)  # pytest redirects 2
        self.allow(SECONDS_TO_LOAD)

    def allow(self, seconds: int) -> None:
        """End the process when what begins now isn't done after ``seconds``."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.stderr)

    def write(self, **record) -> None:
        print(json.dumps(record), file=self.file, flush=True)

    def pytest_collection_finish(self, session) -> None:
        self.write(collected=[item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.allow(SECONDS_A_TEST)
        self.write(started=nodeid)

    def pytest_exception_interact(self, node, call, report) -> None:
        self.write(test=node.nodeid, failure=explain(call.excinfo.value))

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "teardown":
            faulthandler.cancel_dump_traceback_later()
        elif report.when == "call" and report.passed or report.skipped:
            self.write(test=report.nodeid, failure=None)


def explain(error: BaseException) -> str:
    """The part of a failure that a learner reads: what it says, and where in their code it came up."""
    if type(error).__name__ == "CollectError" and error.__cause__:
        error = error.__cause__
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()
        return f"{Path(error.filename or '').name}, line {error.lineno}: {error.msg}\n  {line}".rstrip()
    text = str(error)
    if isinstance(error, (AssertionError, NotImplementedError)) or type(error).__name__ == "Failed":
        text = text.partition("\nassert ")[0] or type(error).__name__
        if text.startswith("\n"):  # pytest indents the words of an `assert`, and not those of a `fail`
            text = "\n" + textwrap.indent(textwrap.dedent(text.strip("\n")), "  ")
    else:
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    if isinstance(error, NotImplementedError):
        return text
    own = {step.path for step in load_milestones() if step.file}
    where, trace = "", error.__traceback__
    while trace:
        if (path := Path(trace.tb_frame.f_code.co_filename)) in own:
            where = f"\n  at      {path.name}, line {trace.tb_lineno}, in {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return text + where


def main(argv: list[str]) -> int:
    """Run pytest on ``argv[1:]`` and write the report to the file ``argv[0]``."""
    import pytest

    with open(argv[0], "a", encoding="utf-8") as file:
        quiet = ["-q", "--tb=line", "--continue-on-collection-errors", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--rootdir", str(CODE)]
        return pytest.main([*quiet, *argv[1:]], plugins=[Recorder(file)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
