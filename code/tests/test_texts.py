"""test_texts.py: the texts say what is so.

Every link resolves, every example prints what it says, and every file, command, flag, variable,
function, milestone, section and default that a text names exists. In a learner's own copy the worked
documents are the learner's to word, and examples that need an unwritten function wait for it.
"""

import builtins
import doctest
import inspect
import io
import re
import shlex
import tokenize
import tomllib
from pathlib import Path

import pytest

import agent
import agent_app
import evaluate
import safety
import tools
from config import PROVIDER_DEFAULTS, Config

CODE = Path(__file__).resolve().parents[1]
ROOT = CODE.parent
ORIGINAL = (CODE / "learn" / "tests").is_dir()  # only the project itself has them, a learner's copy hasn't
WORKED = {"UNDERSTANDING.md", "FAILURE_ANALYSIS.md", "EVALUATION.md", "STARCALLOS_REFLECTION.md"}
LESSON = ROOT / "source" / "lesson.agent.md"
README = ROOT / "README.md"
NOTES = sorted((ROOT / "sources").rglob("*.md"))
TEXTS = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("source/*.md"), *NOTES])
    if ORIGINAL or path.name not in WORKED
]
# a note names other projects' things, a reflection things to come
OURS = [path for path in TEXTS if path not in NOTES and path.name != "STARCALLOS_REFLECTION.md"]

INVENTED = {"a.py", "b.py", "c.py", "ollama/", "ollama_chat/"}  # they look like files of ours, and aren't
# names of exercises, and of a provider's field
ELSEWHERE = {"plan_task", "emit_answer", "max_usd", "steps_taken", "finish_reason"}
FOREIGN = {"pip", "pytest", "venv"}  # modules that `python -m` runs and that aren't ours
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose(path: Path) -> str:
    """The text without its code blocks."""
    return FENCE.sub("", read(path))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def spans(path: Path) -> list[str]:
    """What stands between backquotes, outside code blocks."""
    return re.findall(r"`([^`\n]+)`", prose(path))


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that the usual renderers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(path: Path, first: str) -> list[list[str]]:
    """The rows below the table header whose first cell is ``first``."""
    rows = re.search(rf"^\| *{re.escape(first)} *\|.*\n\|[-| :]+\n((?:\|.*\n?)+)", read(path), re.MULTILINE)
    assert rows, f"{name(path)} has no table that starts with {first!r}"
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[1].strip().split("\n")
    ]


def section(path: Path, title: str) -> str:
    """The text below the ``##`` heading that starts with ``title``."""
    found = re.search(rf"^## {re.escape(title)}.*?\n(.*?)(?=^## |\Z)", read(path), re.DOTALL | re.MULTILINE)
    assert found, f"{name(path)} has no section {title!r}"
    return found[1]


def ours(pattern: str = "*.py") -> list[Path]:
    """The project's own code, this file and the rooms' tests left out."""
    paths = [path.relative_to(CODE) for path in CODE.rglob(pattern)]
    return [
        CODE / path
        for path in paths
        if not any(part.startswith(".") or "test" in part for part in path.parts)
    ]


@pytest.fixture(scope="module")
def vocabulary() -> set[str]:
    """Every name in the code, and every word and flag in its strings, comments left out."""
    words = {"python", "--help", *dir(builtins)}
    for path in [*ours(), CODE / "tests" / "conftest.py"]:
        for token in tokenize.generate_tokens(io.StringIO(read(path)).readline):
            if token.type != tokenize.COMMENT:
                words.update(re.findall(r"--[a-z][a-z-]+|\w+", token.string))
    for path in [ROOT / ".env.example", *ours("*.toml"), *ours("*.jsonl")]:
        words.update(re.findall(r"\w+", read(path)))
    return words


def commands(path: Path) -> list[list[str]]:
    """The words of every command line that runs Python, in blocks and between backquotes."""
    blocks = [
        block for kind, block in FENCE.findall(read(path)) if kind in ("", "text", "bash", "powershell")
    ]
    lines, found = "\n".join(blocks).splitlines(), []
    for line in lines + spans(path):
        for part in re.split(r"&&|;|\|", line):
            words = part.strip().strip("()").removeprefix("$ ").replace("\\", "/")
            if re.match(r"(\S*/)?(python[\d.]*|py)(\.exe)? \S", words):
                found.append(shlex.split(words, comments=True)[1:])
    return found


def said_in(folder: Path) -> set[str]:
    return {word for path in folder.glob("*.py") for word in re.findall(r"\w+", read(path))}


def exists(text: str, near: Path) -> bool:
    text = text.removesuffix("/")
    return any(
        (base / text).exists() or any(base.glob(text))
        for base in (ROOT, CODE, CODE / "tests", CODE / "extras", near.parent)
    )


# --- links, sources -------------------------------------------------------------------------------
@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_every_link_inside_the_repository_resolves(path: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"https?:|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        aimed = (path.parent / file).resolve() if file else path
        if not aimed.exists():
            broken.append(f"{target}: there is no such file")
        elif anchor and anchor not in map(slug, headings(aimed)):
            broken.append(f"{target}: {name(aimed)} has no such heading")
    assert not broken, f"{name(path)} links to nothing:\n" + "\n".join(broken)


@pytest.mark.parametrize("note", NOTES, ids=name)
def test_every_note_is_cited(note: Path) -> None:
    target = "../" + name(note)
    assert f"]({target})" in read(ROOT / "source" / "resources.md"), (
        f"source/resources.md doesn't list {name(note)}"
    )
    citing = [path for path in OURS if path.name != "resources.md" and f"{name(note)})" in read(path)]
    assert citing, f"{name(note)} is listed, but no text rests on it"


@pytest.mark.parametrize("path", OURS, ids=name)
def test_every_citation_has_its_fact(path: Path) -> None:
    """``[ReAct, F5](../sources/…)`` and ``[ReAct](../sources/…), F5`` name a fact that the note holds."""
    missing = []
    for text, target, after in re.findall(
        r"\[([^\]]+)\]\(([^)]*sources/[^)]+\.md)\)([^\[;]{0,40})", prose(path)
    ):
        after = re.match(r"(, |; | and |F\d+|\s)*", after)[0]
        for fact in re.findall(r"F\d+", text + after):
            if f"**{fact}**" not in read((path.parent / target).resolve()):
                missing.append(f"{target} has no fact {fact}")
    assert not missing, f"{name(path)} cites what isn't there:\n" + "\n".join(missing)


# --- names ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", OURS, ids=name)
def test_every_file_that_a_text_names_exists(path: Path) -> None:
    files = re.compile(r"[\w.*/-]+(\.(py|md|txt|toml|jsonl|example)|/)")
    gone = [span for span in spans(path) if files.fullmatch(span) and not exists(span, path)]
    gone = [span for span in gone if span not in INVENTED and (ORIGINAL or "tests" not in span)]
    assert not gone, f"{name(path)} names files that don't exist: {', '.join(gone)}"


@pytest.mark.parametrize("path", OURS, ids=name)
def test_every_name_that_a_text_uses_is_in_the_code(path: Path, vocabulary: set[str]) -> None:
    """Functions, fields, constants, environment variables, flags."""
    known = vocabulary | ELSEWHERE
    unknown = set()
    for span in set(spans(path)) - INVENTED:
        if exists(span, path):
            continue
        unknown.update({*re.findall(r"(?<!\S)--[a-z][a-z-]+|\b[A-Z][A-Z\d]*(?:_[A-Z\d]+)+\b", span)} - known)
        called = re.match(r"([A-Za-z_][\w.]*)(\(.*\))?( = .*| -> .*)?$", span)
        if called and (called[2] or re.search(r"[_.]|[a-z][A-Z]", called[1])):
            unknown.update(part for part in called[1].split(".") if part and part not in known)
    assert not unknown, f"{name(path)} uses names that the code doesn't have: {', '.join(sorted(unknown))}"


@pytest.mark.parametrize("path", OURS, ids=name)
def test_every_command_can_be_typed(path: Path, vocabulary: set[str]) -> None:
    wrong = []
    for words in commands(path):
        line = " ".join(words)
        if words[:1] == ["-m"] and words[1] not in FOREIGN:
            folder, words = CODE.joinpath(*words[1].split(".")), words[2:]
            if folder.with_suffix(".py").is_file():
                words = []
            elif not (folder / "__main__.py").is_file():
                wrong.append(f"{line}: {folder.name} can't be run")
            wrong += [
                f"{line}: {word}" for word in words[:1] if word.isalpha() and word not in said_in(folder)
            ]
        elif words[:2] == ["-m", "pytest"]:
            wrong += [
                f"{line}: {word}" for word in words[2:] if word.endswith(".py") and not exists(word, path)
            ]
            words = []
        elif words[0].endswith(".py") and not exists(words[0], path):
            wrong.append(f"{line}: {words[0]}")
        elif words[0] in ("-m", "-c"):
            words = []
        wrong += [f"{line}: {word}" for word in words if word.startswith("--") and word not in vocabulary]
    assert not wrong, f"{name(path)} has commands that don't work:\n" + "\n".join(wrong)


# --- examples, figures ----------------------------------------------------------------------------
@pytest.mark.parametrize("path", [path for path in TEXTS if "```python\n" in read(path)], ids=name)
def test_every_example_prints_what_it_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CODE)
    names, failed, waiting, said = {}, [], [], io.StringIO()
    for block in FENCE.finditer(read(path)):
        if block[1] != "python":
            continue
        line = read(path)[: block.start()].count("\n") + 1
        example = doctest.DocTestParser().get_doctest(block[2], names, name(path), None, line)
        assert example.examples, (
            f"{name(path)}, line {line}: a Python block without a prompt, so nothing checks it"
        )
        before = said.tell()
        doctest.DocTestRunner(verbose=False).run(example, out=said.write, clear_globs=False)
        names = example.globs
        if told := said.getvalue()[before:]:
            (waiting if "NotImplementedError" in told else failed).append(told)
    assert not failed, "".join(failed)
    if waiting:
        pytest.skip(f"{len(waiting)} examples wait for a function that is yours to write")


def test_the_chart_shows_what_its_command_prints() -> None:
    blocks = FENCE.findall(read(LESSON))
    printed = "".join(block for kind, block in blocks if kind == "python")
    lines = [
        line for kind, block in blocks if kind == "mermaid" for line in re.findall(r"line (\[.*\])", block)
    ]
    assert len(lines) == 2 and all(f"\n{line}\n" in printed for line in lines), (
        "the chart and its figures differ"
    )


# --- the course -----------------------------------------------------------------------------------
@pytest.mark.skipif(not ORIGINAL, reason="the document is the learner's")
def test_the_questions_are_the_lessons() -> None:
    asked = re.findall(r"^- \*\*(Q\d+\. .+?)\*\*", section(LESSON, "5. "), re.MULTILINE)
    answered = re.findall(r"^## (Q\d+\. .+)$", read(ROOT / "UNDERSTANDING.md"), re.MULTILINE)
    assert asked and asked == answered, "UNDERSTANDING.md asks the lesson's questions, word for word"


def test_every_section_that_is_named_exists() -> None:
    there = {match[1] for heading in headings(LESSON) if (match := re.match(r"(\d+(?:\.\d)?)\.? ", heading))}
    texts = {
        name(path): prose(path) for path in OURS if path.parent.name == "source" or path.name == "README.md"
    }
    short = re.compile(r"(?<![\d.$])[34]\.\d(?![\d.%])")
    named = {(where, found) for where, text in texts.items() for found in short.findall(text)}
    said = [
        LESSON,
        README,
        ROOT / "source" / "project.md",
        *CODE.glob("tests/test_*.py"),
        *ours("*.toml"),
        *ours(),
    ]
    for path in said:
        numbers = re.findall(r"Idea\(.*, \"([\d.]+)\"\)|[Ss]ections? (\d[\d.]*)", read(path))
        named |= {
            (name(path), (first or second).rstrip(".")) for first, second in numbers if path != Path(__file__)
        }
    wrong = sorted(f"{where}: {found}" for where, found in named if found not in there)
    assert not wrong, "these sections aren't in the lesson:\n" + "\n".join(wrong)


def test_the_milestones_agree() -> None:
    owned = {}
    for functions, _, milestone in table(LESSON, "function"):
        owned.setdefault(milestone, []).extend(re.findall(r"`([\w.]+)`", functions))
    listed = re.findall(r"^\| (M\d) ", section(LESSON, "7. "), re.MULTILINE)
    assert listed == [f"M{number}" for number in range(1, 7)]
    for path in OURS:
        assert set(re.findall(r"\bM\d\b", prose(path))) <= set(listed), (
            f"{name(path)} names another milestone"
        )
    manifest = CODE / "learn" / "milestones.toml"
    if not manifest.exists():
        pytest.skip("learn/milestones.toml isn't there")
    plan = tomllib.loads(read(manifest))
    steps = [step for step in plan["milestones"] if step.get("functions") and not step.get("extra")]
    assert owned == {step["id"]: list(step["functions"]) for step in steps}


def test_the_lesson_has_every_extra() -> None:
    stack = pytest.importorskip("extras.stack")
    rows = [[cell.strip("`") for cell in row] for row in table(LESSON, "`--with`")]
    seams = {"the run": "loop"}
    listed = {name: seams.get(seam, seam) for name, _, _, seam, *_ in rows}
    assert listed == {name: extra.seam for name, extra in stack.EXTRAS.items()}


def test_the_defaults_in_the_texts_are_the_programs() -> None:
    for field, default, _ in table(ROOT / "source" / "project.md", "field"):
        value = getattr(Config, field.strip("`"))
        assert re.match(rf"`?{re.escape(str(value))}`?(?!\d)", default), (
            f"project.md: {field} is {value!r}, not {default}"
        )
    lesson = prose(LESSON)
    for what in (
        f"the default of this project, {Config.token_budget:,}.",
        f"windows of {tools.READ_CHARS:,} characters",
        f"stops at {tools.MAX_HITS} hits",
        f"a directory at {tools.MAX_ENTRIES} names",
    ):
        assert what in lesson, f"the lesson should say {what!r}"
    assert inspect.signature(safety.detect_stuck).parameters["window"].default == 3, (
        "the lesson reasons about a window of 3"
    )


def test_the_signatures_in_the_specification_are_the_codes() -> None:
    text = read(ROOT / "source" / "project.md")
    written = re.search(r"^run_agent\(([^)]*)\) -> RunResult$", text, re.MULTILINE)[1].replace("\n", " ")
    parameters = inspect.signature(agent.run_agent).parameters.values()
    named = [re.split("=", part.strip())[0] for part in written.split(",") if part.strip() != "*"]
    assert named == [parameter.name for parameter in parameters]
    for call in (
        "detect_stuck(history, window=3)",
        "tick(tokens_used)",
        "over_budget()",
        "evaluate_run(result, expected)",
    ):
        owner = next(
            o for o in (safety, safety.BudgetTracker, evaluate) if hasattr(o, call.partition("(")[0])
        )
        parameters = inspect.signature(getattr(owner, call.partition("(")[0])).parameters
        assert call in text and re.findall(r"[(, ](\w+)(?==|[,)])", call) == [
            p for p in parameters if p != "self"
        ]


# --- the README -----------------------------------------------------------------------------------
def tree() -> list[tuple[str, str]]:
    """(path, clause) of each line of the README's tree."""
    block = next(block for _, block in FENCE.findall(read(README)) if block.startswith("README.md"))
    folders, lines = [], []
    for line in block.splitlines():
        entry, _, clause = line.strip().partition("  ")
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [entry]
        lines.append(("".join(folders), clause.strip()))
    return lines


def test_the_tree_in_the_readme_is_the_tree() -> None:
    listed = {path: clause for path, clause in tree()}
    assert all(listed.values()), "every line of the tree has its clause"
    gone = [path for path in listed if not (ROOT / path).exists()]
    assert not gone, f"the tree names what isn't there: {', '.join(gone)}"
    if not ORIGINAL:
        return
    opened = {path.rstrip("/").rpartition("/")[0] for path in listed}
    for folder in opened:
        for path in (ROOT / folder).iterdir():
            if path.name == ".env.example" or path.name[0] not in "._":
                entry = name(path) + "/" * path.is_dir()
                assert entry in listed, f"the README's tree doesn't show {entry}"


def test_the_readme_has_the_two_commands_that_ci_runs() -> None:
    shown = re.findall(r"^python3 -m venv \.venv && .*$", read(README), re.MULTILINE)
    assert len(shown) == 2 and "agent_app.py" in shown[0] and "pytest" in shown[1]


def test_the_readme_names_the_models_and_versions_that_are_used() -> None:
    text = read(README)
    for key, model in PROVIDER_DEFAULTS:
        assert re.search(rf"`{key}`.*`{re.escape(model)}`", text), (
            f"the README's table should give {key} its model {model}"
        )
    for line in read(CODE / "requirements.txt").split():
        if line.startswith("litellm"):
            assert f"`{line}`" in text, f"the README should explain the bounds {line}"


@pytest.mark.skipif(not ORIGINAL, reason="a learner's lines are elsewhere")
def test_the_readmes_trace_shows_lines_that_are_there() -> None:
    traces = "".join(block for kind, block in FENCE.findall(read(README)) if kind == "text")
    for file, line, text in set(re.findall(r"([\w/]+\.py):(\d+): (\S.*)", traces)):
        there = read(CODE / file).split("\n")[int(line) - 1].strip()
        assert there.startswith(text.strip()), f"{file}:{line} now holds {there!r}: run the command again"


def test_the_readme_has_every_exit_code() -> None:
    documented = set(
        re.findall(r"\b(\d+) (?:answered|no answer|bad usage|the provider|interrupted)", agent_app.__doc__)
    )
    shown = {row[0] for row in table(README, "exit code")}
    assert documented == shown == {"0", "1", "2", "3", "130"}
