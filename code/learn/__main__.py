"""The learner's bench: a copy of your own to build in, where you stand, and help in steps.

  python -m learn start DIR       make DIR your own copy of the project, with the bodies left to you
  python -m learn                 where you stand, and what comes next
  python -m learn watch [M]       the same again whenever you save a file (with M: only that milestone)
  python -m learn hint [M]        the next hint for a milestone (default: the current one)
  python -m learn reveal M        the reference beside your version, once yours is done
  python -m learn reset M         begin a milestone anew; your version is kept
  python -m learn check [M]       run everything, as a last look, or the tests of one milestone
  python -m learn misconceptions  which wrong versions the tests catch (in the finished project)

M is M1 to M6, or 0. A copy made with `start DIR --with-extras` also has the extended requirements as
exercises, X1 to X5: they come last, and nothing waits for them.

exit codes: 0 all right; 1 not done yet (check, reveal); 2 bad usage, or it can't be done here;
130 interrupted
"""

import argparse
import difflib
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from learn import stubs
from learn.bench import (
    CODE,
    REFERENCE,
    ROOT,
    RUNS,
    BenchError,
    Milestone,
    back_up,
    load_manifest,
    load_milestones,
    load_reference,
    load_state,
    read_text,
    save_state,
    show,
    write_text,
)
from learn.path import Standing, current, is_untouched, survey
from learn.report import run_tests

SHOWN_LINES = 12

FINISHED = """\
This is the finished project. To build it yourself, make a copy in which the bodies are left to you:

  python -m learn start ../../my-agent

Any folder outside of this project will do. `python -m learn --help` lists what else there is."""

MADE = """\
Your copy is ready: {target}

  cd {folder}
  {python} -m learn

Open source/lesson.agent.md there. Its questions come first, in UNDERSTANDING.md; then the code."""

CODE_FIRST = """\
You have begun to code before UNDERSTANDING.md is answered. Nothing is blocked, but its questions are worth
most before the code. They wait at step 0; this is said only once."""

ALL_DONE = """\
Every step is done. `python -m learn check` has a last look, `python -m learn reveal M3` shows another way to
write the loop, and source/project.md, "Extended requirements", says where it goes from here."""

OPTIONAL = """\
Every milestone is done. What follows goes beyond the core, in any order you like, or not at all."""


def start(options: argparse.Namespace) -> int:
    """Make a copy of the project in which the bodies are left to you."""
    from learn.start import make_copy

    make_copy(Path(options.dir), options.with_extras)
    python = "python" if shutil.which("python") == sys.executable else sys.executable
    folder = Path(options.dir) / "code"
    print(MADE.format(target=Path(options.dir).resolve(), folder=quoted(folder), python=quoted(python)))
    return 0


def quoted(path: Path | str) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def path(options: argparse.Namespace) -> int:
    """Print where the learner stands and what comes next; in the finished project, how to get a copy."""
    if not REFERENCE.exists():
        print(FINISHED)
        return 0
    standings, now = look()
    print_path(standings, now)
    print_now(now)
    return 0


def look() -> tuple[list[Standing], Standing | None]:
    """The standing of every step, and the one that is next."""
    load_reference()
    standings = survey(load_milestones())
    return standings, current(standings)


def print_path(standings: list[Standing], now: Standing | None) -> None:
    """One line a step; and, once only, a word to who has begun to code before step 0."""
    print()
    for standing in standings:
        step = standing.step
        if step.id == "X1":
            print("\n  Beyond the core, optional (`python -m learn watch X1` looks at one of them only):\n")
        mark = "[x]" if standing.done else "[>]" if standing is now else "[ ]"
        detail = standing.note if not step.file else f"{step.file}: {standing.note}"
        print(f"  {mark} {step.id:<3} {step.title:<17} {detail}")
    print()
    first, state = standings[0], load_state()
    if now and not first.done and now is not first and not state["told"]:
        print(CODE_FIRST + "\n")
        save_state(state | {"told": True})
    if now and now.step.extra:
        print(OPTIONAL + "\n")


def print_now(now: Standing | None) -> None:
    """What is in the way at the current step, and what to do."""
    if now is None:
        print(ALL_DONE)
        return
    step = now.step
    failing = step.functions and not is_untouched(step)
    print(f"Now: {step.id}, {step.title}. {step.idea}\n")
    print(textwrap.indent(now.trouble.strip("\n"), "  ") + "\n")
    print("Next:", "Make this test pass, then look again." if failing else step.todo.strip())
    if place := find_place(step):
        print(f"Open: {place}")
    if not failing:
        print(f"Read: {show(ROOT / 'source/lesson.agent.md')}, {step.lesson}")
    print(f"Help: python -m learn hint {step.id}")


def print_one(standing: Standing) -> bool:
    """What is in the way at one step, whichever is the current one; return whether it is done."""
    if standing.done:
        print(f"{standing.step.id}, {standing.step.title}, is done: {standing.note}.")
    else:
        print_now(standing)
    return standing.done


def find_place(step: Milestone) -> str:
    """Where to write: file and line of the first function that is a stub, else of the first."""
    places = []
    for function in step.functions:
        try:
            text = read_text(step.path)
            places.append((not stubs.is_stub(text, function), stubs.find(text, function).lineno))
        except (LookupError, SyntaxError):
            return ""
    if places:
        return f"{step.file}, line {min(places)[1]}"
    return ", ".join(show(ROOT / name) for name in step.documents)


def watch(options: argparse.Namespace) -> int:
    """Show where you stand again whenever a file is saved."""
    from learn.watch import follow

    load_reference()
    only = choose(options.milestone) if options.milestone else None
    print("Watching. Enter looks again, h gives a hint, q ends; so does Ctrl-C.", flush=True)
    last = None

    def act(event: str) -> bool:
        nonlocal last
        if event == "q":
            return False
        if event == "h":
            give_hint(last.step if last else load_milestones()[-1])
        else:
            try:
                standings, now = ([], survey([only])[0]) if only else look()
                print(f"\n--- {time.strftime('%H:%M:%S')} {event}".rstrip())
                if only:
                    print_one(now)
                else:
                    if event == "" or now is None or last is None or now.step != last.step:
                        print_path(standings, now)
                    print_now(now)
                last = now
            except BenchError as error:
                print(f"error: {error}")
        sys.stdout.flush()
        return True

    try:
        follow([CODE, RUNS, *(ROOT / name for name in load_manifest()["introductions"])], act)
    except KeyboardInterrupt:
        print()
    print("No longer watching; your files are as you saved them.")
    return 0


def hint(options: argparse.Namespace) -> int:
    """Give the next hint."""
    load_reference()
    if options.milestone:
        give_hint(choose(options.milestone))
    else:
        now = look()[1]
        if now is None:
            raise BenchError("every step is done; name the one you want a hint for", 1)
        give_hint(now.step)
    return 0


def give_hint(step: Milestone) -> None:
    """Print the next hint of ``step`` and remember that it was shown."""
    state = load_state()
    shown = min(state["hints"].get(step.id, 0) + 1, len(step.hints))
    save_state(state | {"hints": state["hints"] | {step.id: shown}})
    print(f"Hint {shown} of {len(step.hints)} for {step.id}, {step.title}\n")
    print(textwrap.indent(step.hints[shown - 1].strip("\n"), "  "))
    if shown < len(step.hints):
        print("\nThe same command gives the next one.")
    elif step.functions:
        print(f"\nThat is the last one. `python -m learn reveal {step.id} --give-up` shows a finished body.")


def choose(name: str) -> Milestone:
    """The step that is meant by ``name``: M3, m3 or 3. Raises BenchError."""
    steps = load_milestones()
    for step in steps:
        if name.upper() in (step.id, step.id.removeprefix("M")):
            return step
    raise BenchError(f"there is no milestone {name}; there are {', '.join(step.id for step in steps)}")


def reveal(options: argparse.Namespace) -> int:
    """Show the reference beside your version."""
    step, reference = choose(options.milestone), load_reference()
    if not (step.functions or step.documents):
        raise BenchError(f"{step.id} has nothing to reveal; `python -m learn hint {step.id}` helps")
    if not options.give_up and not survey([step])[0].done:
        raise BenchError(f"{step.id} is not done yet; `reveal {step.id} --give-up` shows it all the same", 1)
    for name in step.documents:
        print(f"===== {name}, as finished\n\n{reference[name]}")
    for function in step.functions:
        finished = reference[step.name]
        theirs = stubs.extract(finished, function)
        try:
            yours = stubs.extract(read_text(step.path), function)
        except (LookupError, SyntaxError) as error:
            print(f"{step.file}: {error}; the whole of the reference is shown.")
            yours = ""
        names = (f"yours: {step.file}, {function}", f"reference: {step.file}, {function}")
        both = yours.splitlines(), theirs.splitlines()
        lines = [line.rstrip() for line in difflib.unified_diff(*both, *names, n=1000, lineterm="")]
        print("\n".join(lines) if lines else f"{function}: yours is the reference.", end="\n\n")
    print("Whatever passes the tests is right; the reference is one way among others.")
    return 0


def reset(options: argparse.Namespace) -> int:
    """Put the start of a milestone back; your version is kept in .learn/."""
    from learn.start import learners_texts

    step, started = choose(options.milestone), learners_texts(load_reference(), load_milestones())
    names = [step.name] if step.file else step.documents
    if not names:
        raise BenchError(f"{step.id} has nothing to reset; the runs in ../runs/ are yours to delete")
    changes, what, why = {}, ", ".join(step.functions or names), ""
    for name in names:
        path, fresh = ROOT / name, started[name]
        try:
            text = yours = read_text(path) if path.exists() else ""
            for function in step.functions if yours else ():
                text = stubs.put(text, function, fresh)
            fresh = text if step.functions and yours else fresh
        except (LookupError, SyntaxError, BenchError) as error:
            yours, what, why = None, f"all of {step.file}", f"{error}. "
        if fresh != yours:
            changes[path] = fresh
    if not changes:
        print(f"{step.id} is as it was at the start.")
        return 0
    if not options.yes and not agreed(f"{why}Put {what} back as at the start? Your version is kept."):
        print("Nothing was changed.")
        return 0
    for path, fresh in changes.items():
        kept = f"; your version of {show(path)} is kept as {show(back_up(path))}" if path.exists() else ""
        write_text(path, fresh)
        print(f"{what if step.file else show(path)}: back at the start{kept}")
    return 0


def agreed(question: str) -> bool:
    """Whether a person says yes to ``question``; no answer is a no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def check(options: argparse.Namespace) -> int:
    """Run all tests and look at all steps; or only at one of them."""
    load_reference()
    if options.milestone:
        return 0 if print_one(survey([choose(options.milestone)])[0]) else 1
    steps = load_milestones()
    idle = {file for step in steps if step.extra and is_untouched(step) for file in step.test_files}
    results = {test: said for test, said in run_tests(["."]).items() if test.partition("::")[0] not in idle}
    standings = survey(steps, results)
    print_path(standings, None)
    failed = [(test, failure.strip()) for test, failure in results.items() if failure is not None]
    for file in dict.fromkeys(test.partition("::")[0] for test, _ in failed):
        test, failure = next((test, failure) for test, failure in failed if test.startswith(file))
        print(f"{sum(other.startswith(file) for other, _ in failed)} failed in {file}, the first is {test}")
        print(textwrap.indent("\n".join(failure.splitlines()[:SHOWN_LINES]), "  ") + "\n")
    for standing in standings:
        if not (standing.done or standing.step.tests):
            print(f"{standing.step.id} is open: {standing.trouble}")
    optional = {file for step in steps if step.extra for file in step.test_files}
    blocked = any(test.partition("::")[0] not in optional for test, _ in failed)
    still_open = [standing.step for standing in standings if not standing.done]
    done = not blocked and all(step.extra for step in still_open)
    passed = f"{len(results) - len(failed)} of {len(results)} tests pass."
    all_done = "Every milestone is done." if still_open else "Everything is done."
    print(passed, all_done if done else "Not done yet.")
    return 0 if done else 1


def misconceptions(argv: list[str]) -> int:
    """Hand over to the table of misconceptions, which a learner's copy doesn't have."""
    try:
        from learn.misconceptions import main as show_misconceptions
    except ModuleNotFoundError as error:
        if error.name != "learn.misconceptions":
            raise
        raise BenchError("the misconceptions are kept with the finished project, not in a copy") from error
    return show_misconceptions(argv)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The command line ``argv``; ends the process with code 2 on bad usage."""
    parser = argparse.ArgumentParser(
        prog="python -m learn",
        usage="%(prog)s [-h] [command]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=path)
    commands = parser.add_subparsers(prog=parser.prog, metavar="command", help=argparse.SUPPRESS)

    def command(run: Callable) -> Callable:
        added = commands.add_parser(run.__name__, description=run.__doc__)
        added.set_defaults(run=run)
        return added.add_argument

    add = command(start)
    add("dir", metavar="DIR", help="a new or empty folder outside of this project")
    add("--with-extras", action="store_true", help="the extended requirements are left to you, too: X1 to X5")
    command(watch)("milestone", nargs="?", metavar="M", help="such as M1 (default: the current one)")
    command(hint)("milestone", nargs="?", metavar="M", help="such as M1 (default: the current one)")
    add = command(reveal)
    add("milestone", metavar="M", help="such as M1")
    add("--give-up", action="store_true", help="also when it is not done yet")
    add = command(reset)
    add("milestone", metavar="M", help="such as M1")
    add("--yes", action="store_true", help="don't ask")
    command(check)("milestone", nargs="?", metavar="M", help="such as M1 (default: everything)")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the command line ``argv`` and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    try:
        if argv[:1] == ["misconceptions"]:
            return misconceptions(argv[1:])
        options = parse_arguments(argv)
        code = options.run(options)
        sys.stdout.flush()
        return code
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # the reader of a pipe, such as less, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
