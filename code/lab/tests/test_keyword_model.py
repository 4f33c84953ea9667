"""The built-in model, on repositories of random names: no answer can be known beforehand."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent import parse_tool_calls
from lab import keyword_model
from lab.keyword_model import MAX_TURNS, reply
from lab.question import understand
from tools import TOOL_SCHEMAS, TOOLS, dispatch_tool

REQUIRED = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOL_SCHEMAS}
NO_FINDING = "I can't answer this"
UNSURE = "I can't tell whether this answers"


def converse(task: str, root: Path) -> SimpleNamespace:
    """Play the loop with the keyword model, and check that each of its turns is a legal one."""
    messages = [{"role": "system", "content": "Answer."}, {"role": "user", "content": task}]
    calls, turns = [], 0
    while True:
        message = reply(messages)
        assert message == reply(messages), "the same transcript must give the same reply"
        if not message["tool_calls"]:
            assert message["content"].strip(), f"an answer must not be blank: {task!r}"
            return SimpleNamespace(answer=message["content"], calls=calls, turns=turns)
        turns += 1
        assert turns <= MAX_TURNS, f"no end after {turns} turns: {calls}"
        json.dumps(message)
        messages.append({"role": "assistant"} | message)
        for call in parse_tool_calls(message):
            allowed = REQUIRED[call.name]
            assert set(allowed["required"]) <= set(call.arguments) <= set(allowed["properties"]), call
            assert (call.name, call.arguments) not in calls, f"repeated: {call}"
            calls.append((call.name, call.arguments))
            try:
                result = dispatch_tool(call.name, call.arguments, root)
            except Exception as error:
                result = f"Error: {error}"
            assert not result.startswith("Error: the arguments") and "must be" not in result, (call, result)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        ids = [call.id for message in messages for call in parse_tool_calls(message)]
        assert len(set(ids)) == len(ids), f"ids must differ: {ids}"


def line_of(root: Path, path: str, text: str) -> str:
    """``path:line: text`` of the first line that starts with ``text``, as an answer shows it."""
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))
    return f"{path}:{number}: {lines[number - 1].strip()}"


@pytest.mark.parametrize(
    "shape",
    [
        "where is {0} defined?",
        "Where is the {1} `{0}` defined",
        "Which file defines {0}?",
        "find the definition of {0}",
    ],
)
@pytest.mark.parametrize("kind", ["function", "class", "constant"])
def test_where_something_is_defined(strange, shape, kind):
    wanted = {"function": strange.function, "class": strange.cls, "constant": strange.constant}[kind]
    place = {
        "function": line_of(strange.root, strange.home, f"def {strange.function}("),
        "class": line_of(strange.root, strange.deep, f"class {strange.cls}"),
        "constant": line_of(strange.root, strange.home, f"{strange.constant} ="),
    }[kind]
    said = converse(shape.format(wanted, kind), strange.root)
    assert said.answer.split("\n")[1] == place
    assert said.turns == 1, "one turn of searches is enough"
    assert len(said.calls) == 2, "both likely spellings go into one turn"


def test_a_method_is_found_by_its_owner(strange):
    (strange.root / "a_first.py").write_text(f"class Else:\n    def {strange.method}(self):\n        pass\n")
    said = converse(f"where is {strange.cls}.{strange.method} defined?", strange.root)
    assert said.answer.split("\n")[1] == line_of(strange.root, strange.deep, f"def {strange.method}(")


@pytest.mark.parametrize(
    "task",
    [
        "where is f_one of second defined?",
        "where is second.f_one defined?",
        "In sub/second.py, where is f_one defined?",
        "where is f_one defined in sub/second.py?",
    ],
)
def test_what_the_task_says_of_the_place_counts(strange, task):
    for path in ("first.py", "sub/second.py", "sub/third.py"):
        (strange.root / path).parent.mkdir(exist_ok=True)
        (strange.root / path).write_text("def f_one():\n    pass\n")
    assert "defined at sub/second.py:1" in converse(task, strange.root).answer


def test_a_longer_name_is_not_the_one_asked_for(strange):
    said = converse(f"where is {strange.near} defined?", strange.root)
    assert "I found no definition" in said.answer, "only a name that begins alike is there"
    (strange.root / "aaa.py").write_text("class FluxDepthMore:\n    pass\n")
    assert "I found no definition" in converse("where is FluxDepth defined?", strange.root).answer


def test_a_mention_is_no_definition(strange):
    said = converse(f"where is `{strange.trouble}` defined?", strange.root)
    assert "I found no definition" in said.answer
    assert line_of(strange.root, strange.home, '"""Module') in said.answer


@pytest.mark.parametrize(
    "task, place, start, value",
    [
        ("what does {constant} default to?", "home", "{constant} =", "set to {number} "),
        ("what is the value of {constant}?", "home", "{constant} =", "set to {number} "),
        (
            "what does the `{parameter}` parameter of {function} default to?",
            "home",
            "{parameter}: int",
            "set to {size} ",
        ),
        ("What {parameter} does {function} use by default?", "home", "{parameter}: int", "set to {size} "),
        ("what does {parameter} default to?", "home", "{parameter}: int", "set to {size} "),
        ("What is {cls}'s {field} default?", "deep", "{field}: float", "set to {number}.5 "),
        ("what does {cls}.{field} default to", "deep", "{field}: float", "set to {number}.5 "),
        ("what {thing} does this repo default to?", "home", "DEFAULT_", 'set to "{model}" '),
        ("what's the default {thing} in this project?", "home", "DEFAULT_", 'set to "{model}" '),
        ("How many {topic} does {function} take at most?", "home", "MAX_", "set to {limit} "),
        ("What is the maximum {topic}?", "home", "MAX_", "set to {limit} "),
        ("what does {variable} default to?", "home", "{variable} =", '"{port}"'),
    ],
)
def test_what_something_defaults_to(strange, task, place, start, value):
    task, start, value = (text.format(**vars(strange)) for text in (task, start, value))
    lead, *lines = converse(task, strange.root).answer.split("\n")
    assert value in f"{lead} ", f"{task} -> {lead}"
    assert line_of(strange.root, getattr(strange, place), start) in lines


def test_a_default_that_is_a_name_is_followed_to_its_value(strange):
    said = converse(f"what does the depth of {strange.cls} default to?", strange.root)
    assert f"which is {strange.number}" in said.answer
    assert line_of(strange.root, strange.home, f"{strange.constant} =") in said.answer


def test_a_default_that_is_computed_is_shown_with_what_it_is_made_of(strange):
    (strange.root / "setup_it.py").write_text(
        f"CHOICES_HERE = ['{strange.trouble}']\n"
        + "\n" * 50
        + f"def default_{strange.absent}():\n    return CHOICES_HERE[0]\n"
    )
    said = converse(f"what {strange.absent} does this repo default to?", strange.root)
    assert f"setup_it.py:1: CHOICES_HERE = ['{strange.trouble}']" in said.answer
    assert "setup_it.py:53: return CHOICES_HERE[0]" in said.answer


@pytest.mark.parametrize(
    "path, line",
    [
        ("aaa.py", "run({0}={0})"),
        ("aaa.py", "run(1, {0}=1)"),
        ("aaa.py", "# {0}=1"),
        ("docs/conf.py", "{0} = 1"),
        ("A.md", "{0} = 1"),
    ],
)
def test_a_call_a_comment_or_an_example_is_not_the_likeliest_default(strange, path, line):
    (strange.root / path).parent.mkdir(exist_ok=True)
    (strange.root / path).write_text(line.format(strange.parameter) + "\n")
    said = converse(f"what does {strange.parameter} default to?", strange.root)
    assert f"set to {strange.size}" in said.answer.split("\n")[0]


def test_a_value_that_its_owner_does_not_show_is_told_with_that_doubt(strange):
    doubt = f"I saw no value of it in `{strange.cls}`. Elsewhere `{strange.parameter}` is set to {strange.size} "
    said = converse(f"what does the {strange.parameter} of {strange.cls} default to?", strange.root)
    assert said.answer.startswith(doubt)
    module = converse(f"what does the {strange.parameter} of {strange.module} default to?", strange.root)
    assert module.answer.startswith(f"`{strange.parameter}` is set to"), "a module is seen in the path"


def test_passing_an_argument_on_sets_nothing(strange):
    (strange.root / "aaa.py").write_text(f"run({strange.absent}={strange.absent})\n")
    assert "is set to" not in converse(f"what does {strange.absent} default to?", strange.root).answer


def test_a_plain_word_that_is_computed_somewhere_is_no_default(strange):
    word = strange.trouble.split()[0] + "zz"
    (strange.root / "aaa.py").write_text(f"{word} = measure(1)\n")
    assert "is set to" not in converse(f"what {word} does this repo default to?", strange.root).answer


def test_only_the_value_asked_for_is_given_and_all_of_it(strange):
    (strange.root / "aaa.py").write_text(
        f"def f_one(a_one=(1, '), x'), b_one=2): pass\n{strange.absent} = [\n    'p',\n    'q',\n]\n"
    )
    assert (
        "set to (1, '), x') at aaa.py:1"
        in converse("what does the a_one of f_one default to?", strange.root).answer
    )
    assert "aaa.py:4: 'q'," in converse(f"what does {strange.absent} default to?", strange.root).answer


def test_an_overload_has_no_default_and_one_look_at_the_file_is_enough(strange):
    (strange.root / "aaa.py").write_text(
        "@overload\ndef f_one(span: int = ...) -> int: ...\n\n\n"
        "def f_one(span: int = 5) -> int:\n    return span\n"
    )
    said = converse("what does the span of f_one default to?", strange.root)
    assert "set to 5 at aaa.py:5" in said.answer
    assert [tool for tool, _ in said.calls].count("read_file") == 1


def test_words_about_a_limit_that_no_line_sets_are_shown_as_that(strange):
    (strange.root / "aaa.py").write_text(
        'def f_one(a):\n    """Take it.\n\n    At most 77 pebbles.\n    """\n'
    )
    said = converse("how many pebbles does f_one take at most?", strange.root)
    assert said.answer.startswith("I found nothing that sets `pebbles`")
    assert said.answer.split("\n")[1:] == ["aaa.py:1: def f_one(a):", "aaa.py:4: At most 77 pebbles."]


def test_which_files_use_something(strange):
    said = converse(f"which files use {strange.function}?", strange.root)
    assert "is used in 2 files" in said.answer
    assert [line.split(":")[0] for line in said.answer.split("\n")[1:]] == [
        strange.deep,
        f"tests/test_{strange.module}.py",
    ]
    dotted = converse(f"which files use {strange.module}.{strange.function}?", strange.root)
    assert "is used in 2 files" in dotted.answer, "without the module's name it is found as well"
    imported = converse(f"Which modules import {strange.function}?", strange.root)
    assert "is used in 1 file;" in imported.answer and strange.deep in imported.answer


def test_uses_beyond_what_a_search_shows_are_called_at_least(strange):
    for number in range(60):
        (strange.root / f"a{number:02}.py").write_text(f"x = {strange.function}\n")
    (strange.root / "zz_last.py").write_text(f"from a import {strange.function}\nimport {strange.function}\n")
    said = converse(f"which files import {strange.function}?", strange.root)
    assert "at least" in said.answer and "zz_last.py:1" in said.answer, "a second turn narrows it down"


def test_a_longer_name_is_no_use(strange):
    (strange.root / "aaa.py").write_text(f"my_{strange.function}_x()\n")
    assert "aaa.py" not in converse(f"which files use {strange.function}?", strange.root).answer


def test_a_name_that_is_only_defined_is_not_called_used(strange):
    assert "no use of" in converse(f"who calls {strange.near}_more?", strange.root).answer


def test_the_files_in_a_directory(strange):
    everything = converse(f"what is in {strange.folder}?", strange.root)
    assert "holds 3 entries: one.py, sub/, two.md" in everything.answer
    for task, wanted in {
        "list the files in {0}": "2 files: one.py, two.md",
        "How many Python files are in the {0} directory?": "1 files: one.py",
        "which directories are there in {0}/?": "1 directories: sub/",
        "list the files in {0}/sub": "1 files: three.py",
        "list the files in sub": f"`{strange.folder}/sub/` holds 1 files: three.py",
        "list the files": "holds 1 files: README.md",
    }.items():
        said = converse(task.format(strange.folder), strange.root)
        assert wanted in said.answer, f"{task}: {said.answer}"


def test_what_a_function_does_is_what_its_docstring_says(strange):
    for task in ("what does {0} do?", "Explain {0}", "what is the purpose of {0}?"):
        said = converse(task.format(strange.function), strange.root)
        assert line_of(strange.root, strange.home, '"""Do') in said.answer
        assert "More of it" not in said.answer, "the first paragraph is enough"
    assert "if not source" not in said.answer, "a docstring leaves the body out"
    (strange.root / "aaa.py").write_text('def f_one():\n    """Short."""\n    return 1\n')
    assert "return 1" not in converse("what does f_one do?", strange.root).answer
    raises = converse(f"what does {strange.function} raise?", strange.root)
    assert line_of(strange.root, strange.home, "raise ValueError") in raises.answer


def test_without_a_docstring_the_body_is_shown_and_said_to_be(strange):
    said = converse(f"what does {strange.cls}.{strange.method} do?", strange.root)
    assert "without a docstring" in said.answer and f"return {strange.function}('a')" in said.answer


def test_a_comment_above_is_taken_for_a_docstring(strange):
    (strange.root / "aaa.py").write_text("x = 1\n# Counts pebbles.\n@cache\ndef f_one():\n    return 1\n")
    said = converse("what does f_one do?", strange.root).answer
    assert "the comment above it says" in said and said.endswith("aaa.py:2: # Counts pebbles.")


def test_what_a_file_and_the_repository_are_for(strange):
    assert f"Module for {strange.trouble}." in converse(f"what does {strange.home} do?", strange.root).answer
    assert (
        f"Module for {strange.trouble}."
        in converse(f"what is the {strange.module} module for?", strange.root).answer
    )
    about = converse("What does this project do?", strange.root).answer
    assert f"A tool for {strange.purpose}." in about and "nobody" not in about, (
        "the licence isn't what it does"
    )


def test_the_methods_of_a_class(strange):
    said = converse(f"which methods does {strange.cls} have?", strange.root)
    assert said.answer.startswith("2 methods") and f"def {strange.method}(self):" in said.answer


def test_a_class_or_a_directory_that_is_not_shown_to_its_end_is_said_to_be_cut(strange):
    body = "".join(f"    def m{number:04}(self):\n        pass\n" for number in range(900))
    (strange.root / "aaa.py").write_text(f"class Large:\n{body}")
    assert ", up to line " in converse("which methods does Large have?", strange.root).answer.split("\n")[0]
    (strange.root / "many").mkdir()
    for number in range(203):
        (strange.root / "many" / f"{number:03}.py").touch()
    said = converse("list the files in many", strange.root).answer
    assert "holds 200 files" in said and said.endswith("[3 more entries are not shown]")


def test_a_name_counts_more_than_words(strange):
    (strange.root / "aaa.py").write_text("# why would anybody count some green pebbles here, and when\n" * 3)
    (strange.root / "bbb.py").write_text("zip_it_up()\n")
    said = converse("why would anybody count green pebbles when `zip_it_up` happens?", strange.root)
    assert said.answer.split("\n")[1] == "bbb.py:1: zip_it_up()"


def test_pairs_of_words_are_looked_for_as_constants_too(strange):
    (strange.root / "aaa.py").write_text("green_pebble = read(GREEN_PEBBLE_FILE)\n")
    (strange.root / "bbb.py").write_text("x = 'GREEN_PEBBLE_FILE'\n")
    said = converse("Who tells how the green pebble went?", strange.root)
    assert "bbb.py:1: x = 'GREEN_PEBBLE_FILE'" in said.answer


def test_anything_else_gets_the_closest_lines_and_the_word_that_they_may_not_answer(strange):
    said = converse(f"Why could there be {strange.trouble} about it?", strange.root)
    assert said.answer.startswith(UNSURE)
    assert line_of(strange.root, strange.home, "raise ValueError") in said.answer


def test_a_file_that_the_task_names_is_where_it_looks(strange):
    first, second = strange.trouble.split()
    said = converse(f"How is {first} with {second} told in {strange.module}.py?", strange.root)
    assert said.answer.startswith(UNSURE)
    assert line_of(strange.root, strange.home, "raise ValueError") in said.answer
    assert "search_code" not in {tool for tool, _ in said.calls} and strange.deep not in said.answer


@pytest.mark.parametrize(
    "task",
    [
        "where is {absent} defined?", "what does {absent} default to?", "which files use {absent}?",
        "what does {absent} do?", "which {absent} does {package} default to?", "list the files in {absent}",
        "which methods does {absent} have?", "what about {absent}?",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_answered(strange, task):
    said = converse(task.format(absent=strange.absent, package=strange.package), strange.root)
    assert said.answer.startswith(NO_FINDING), said.answer
    assert "\n" not in said.answer, "nothing in it can be taken for a finding"


@pytest.mark.parametrize(
    "task",
    [
        "", " ", "?", "\n\n", "🐍", "où est défini `clé` ?", "где определён класс Ключ?", "`", "``", '""',
        "a" * 10_000, "word " * 2000, "x_y " * 2500, "Be brief. Use the tools. Answer in one line.", "⟦0⟧",
        "where is ⟦7⟧ defined?", "what does \udce9 default to?", "where is \x00 defined?",
        "list the files in ../..", "list the files in /etc", "what does .env default to?",
        "where is %s{0}{x}\\ defined?", "what does (a|b)* default to?", "which files use `[`?",
        "what is the default?", "default to", "where is", "what does `a\tb` do?", "list", "'s default",
        "what does 's do?",
    ],
)  # fmt: skip
def test_weird_tasks_end_in_an_answer(strange, task):
    converse(task, strange.root)


def test_an_empty_repository_ends_in_no_finding(tmp_path):
    for task in (
        "where is x defined?",
        "what does y default to?",
        "list the files",
        "what does this project do?",
        "hello there",
    ):
        assert converse(task, tmp_path).answer


def test_the_task_is_the_last_user_message_and_earlier_calls_are_not_repeated(strange):
    first = {"role": "user", "content": f"where is {strange.function} defined?"}
    turn = {"role": "assistant"} | reply([first])
    results = [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": dispatch_tool(call.name, call.arguments, strange.root),
        }
        for call in parse_tool_calls(turn)
    ]
    again = reply([first, turn, *results, {"role": "assistant", "content": "There."}, first])
    assert again["tool_calls"] is None and strange.home in again["content"], (
        "what was found once is still known"
    )
    other = reply([first, turn, *results, {"role": "user", "content": f"which files use {strange.cls}?"}])
    assert parse_tool_calls(other)[0].arguments == {"query": strange.cls}


def test_message_objects_and_content_in_parts_are_read_too():
    parts = [{"type": "text", "text": "where is the_name defined?"}]
    assert reply([SimpleNamespace(role="user", content=parts)]) == reply(
        [{"role": "user", "content": parts[0]["text"]}]
    )


def test_without_results_it_still_ends():
    messages = [{"role": "user", "content": "what does the flux_depth of Capacitor default to?"}]
    for _ in range(MAX_TURNS + 1):
        message = reply(messages)
        if not message["tool_calls"]:
            break
        messages.append({"role": "assistant"} | message)  # the results are lost
    assert message["tool_calls"] is None


def test_large_results_end_the_search():
    task = {"role": "user", "content": "what does the flux_depth of Capacitor default to?"}
    turn = {"role": "assistant"} | reply([task])
    flood = [
        {"role": "tool", "tool_call_id": call.id, "content": "x" * 20_000} for call in parse_tool_calls(turn)
    ]
    assert reply([task, turn, *flood])["tool_calls"] is None


def test_without_tools_the_text_of_the_task_is_the_one_file():
    def answer(question: str) -> str:
        text = 'TIMEOUT = 5\nretry_count = 7\n\ndef f_one():\n    """Count pebbles."""\n    return TIMEOUT\n'
        said = reply([{"role": "user", "content": f"{question}\n\n{text}"}], tools=False)
        assert said["tool_calls"] is None, "no tool may be called"
        return said["content"]

    assert "prompt:4: retry_count = 7" in answer("What does retry_count default to?")
    assert "Count pebbles." in answer("What does f_one do?")
    assert "In aaa.py" not in answer("In aaa.py: what is TIMEOUT set to?")
    assert "prompt:3: TIMEOUT = 5" in answer("In aaa.py: what is TIMEOUT set to?")
    assert answer("What does zip_it_up default to?").startswith(NO_FINDING)
    assert answer("list the files in lib").startswith(NO_FINDING)
    assert reply([{"role": "user", "content": "What does it do?"}], tools=False)["content"]


def test_litellm_gets_a_handler_that_reports_its_estimated_usage():
    stub = SimpleNamespace(
        CustomLLM=object, ModelResponse=lambda **fields: fields, custom_provider_map=[{"provider": "own"}]
    )
    keyword_model.register(stub)
    keyword_model.register(stub)
    assert [entry["provider"] for entry in stub.custom_provider_map] == ["own", "offline"], "registered once"
    handler = stub.custom_provider_map[1]["custom_handler"]
    messages = [{"role": "user", "content": "where is abc_def defined?"}]
    asked = handler.completion(
        model="offline/keyword", messages=messages, optional_params={"tools": TOOL_SCHEMAS}
    )
    assert asked["choices"][0]["finish_reason"] == "tool_calls"
    assert asked["choices"][0]["message"]["tool_calls"] == reply(messages)["tool_calls"]
    usage = asked["usage"]
    assert usage["prompt_tokens"] == len(json.dumps(messages)) // 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    plain = handler.completion(model="offline/keyword", messages=messages, optional_params={})
    assert plain["choices"][0]["finish_reason"] == "stop", "with no tools offered none is called"


def test_importing_it_imports_no_litellm_and_the_notice_says_how_to_switch():
    code = "import sys, lab.keyword_model; print('litellm' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(keyword_model.__file__).parents[1],
    )
    assert run.stdout.strip() == "False", run.stderr
    assert "not a language model" in keyword_model.NOTICE and "LLM_MODEL" in keyword_model.NOTICE
    assert "\n" not in keyword_model.NOTICE


def test_every_tool_it_may_call_exists():
    assert set(TOOLS) == set(REQUIRED)


@pytest.mark.parametrize(
    "task, kind, names, context",
    [
        ("Where is load_it defined?", "define", ("load_it",), ()),
        ("Please tell me where `Foo.bar` is implemented in this repo.", "define", ("Foo.bar",), ()),
        ("Answer in one line. Which files import os.path?", "uses", ("os.path",), ()),
        ("List the files you read. Where is load_it defined?", "define", ("load_it",), ()),
        ("what model does this repo default to?", "default", ("model",), ()),
        ("What does the timeout of Client default to?", "default", ("timeout",), ("Client",)),
        ("What's Client's timeout default?", "default", ("timeout",), ("Client",)),
        ("What is the default log level?", "default", ("log_level", "LOG_LEVEL", "LogLevel", "logLevel"), ()),
        ("how does the retry loop work?", "does", ("retry_loop", "RETRY_LOOP", "RetryLoop", "retryLoop"), ()),
        ("what does DEFAULT_PORT do", "does", ("DEFAULT_PORT",), ()),
        (
            "which constant holds the names of the directories that find_it leaves out?",
            "other",
            ("find_it",),
            (),
        ),
        ("which files does lib have?", "list", ("lib",), ()),
        ("Tell me a joke.", "other", (), ()),
    ],
)
def test_how_a_task_is_read(task, kind, names, context):
    question = understand(task)
    assert (question.kind, question.names, question.context) == (kind, names, context)
