"""Decision repair: calls that a model without native tool calls writes as text.

The replies are what a small local model really sends.
"""

import json

import pytest

from agent import parse_tool_calls, run_agent
from extras.outcome import settling
from extras.repair import SENTINEL, calls_in, fault_of, repairing
from extras.tests.support import assert_legal, call, contents, read, task, turn
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import TOOL_SCHEMAS

NAMES = [tool["function"]["name"] for tool in TOOL_SCHEMAS]
CALL = '{"name": "read_file", "arguments": {"path": "a.py"}}'
WANTED = [("read_file", {"path": "a.py"})]


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"I will look at the file.\n\n```json\n{CALL}\n```\nThen I can answer.",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}</tool_call>",
        '{"tool": "read_file", "args": {"path": "a.py"}}',
        '{"function": "read_file", "parameters": {"path": "a.py"}}',
        f'{{"type": "function", "function": {CALL}}}',
        '{\n  "name": "read_file",\n  "arguments": {\n    "path": "a.py"\n  }\n}',
        f"{{{CALL}}}",
        f"{CALL}\n{CALL}",  # the same call twice in one turn
        f'{CALL}\n{{"name": "search_code", "argum',  # the last one cut off
    ],
    ids=range(13),
)
def test_a_call_written_as_text_is_read(text):
    assert calls_in(text, NAMES) == WANTED


def test_six_calls_of_which_the_last_is_cut_off_are_five():
    blocks = [f'```json\n{{"name": "read_file", "arguments": {{"path": "{i}.py"}}}}\n```' for i in range(6)]
    text = "\n".join(blocks)[:-20]
    assert [arguments["path"] for _, arguments in calls_in(text, NAMES)] == [f"{i}.py" for i in range(5)]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "greeter", "arguments": {"language": "fr"}}',  # no tool of that name
        '{"name": "read_file"}',
        '{"name": "read_file", "arguments": "a.py"}',
        '{"path": "a.py"}',
        '{"type": "function", "function": {"name": "read_file", "description": "Read.", "parameters": {}}}',
        'It is called as in {"name": "read_file", "arguments": {"path": "a.py"}}, see tools.py.',
        '{"name": "read_file", "arguments": {"path": "a.py"',
        '{"outer":\n{"name": "read_file", "arguments": {"path": "a.py"}}}',
        "{" * 5000,
        "read_file",
        "",
    ],
    ids=range(11),
)
def test_near_miss_other_text_holds_no_call(text):
    assert calls_in(text, NAMES) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "search_code",
        "`search_code`.",
        "search_code search_code",
        "I will use the search_code function.",
        "Let me read the file first.",
        "I'll now search for it:",
        "I see the error. Let's try again with a valid query.",
        '```json\n{"name": "search_code", "arguments": {"query": "RET',
        '{"name": "read_file"}',
        '```json\n{"name": "open_file", "arguments": {"path": "a.py"}}\n```',
        '{{"name": "Exception", "arguments": null}}',
        "To find the constant that holds it, you can use the `search_code` function with 'RETRIES'.",
        "<tools></tools>",
        '<tools>\n{"type": "function", "function": {"name": "set_status", "parameters": {}}}\n</tools>',
        "<tool_response>\nError: 'config.py' is not there\n</tool_response>",
    ],
    ids=range(17),
)
def test_what_is_neither_call_nor_answer_has_a_fault(text):
    assert fault_of(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "RETRIES is 3, in settings.py.",
        "42",
        "The function search_code is defined in tools.py.",
        "You can use search_code to find it.",
        "It is 3. Let me know if you need more.",
        'The settings are:\n```json\n{"name": "greeter", "retries": 3}\n```',
        "I looked at settings.py and found 3.",
        "I will not answer that.",
        "no line holds it",
        "<b>3</b>",
        "To set it, you can use the environment variable TOKEN_BUDGET.",
        "The template opens with <tools> and closes with </tools>.",
        "RETRIES is 3. " + "It is the number of tries. " * 20 + "Let me look at it another way: it is 3.",
    ],
    ids=range(13),
)
def test_near_miss_an_answer_has_none(text):
    assert fault_of(text, NAMES) is None


def test_in_a_run_a_written_call_is_a_call(repo):
    model = ScriptedModel(
        turn(text='```json\n{"name": "search_code", "arguments": {"query": "RETRIES"}}\n```'),
        turn(text='{"name": "read_file", "arguments": {"path": "settings.py"}}'),
        turn(text="RETRIES is 3."),
    )
    messages = task()
    result = run_agent(messages, repo, repairing(model), BudgetTracker(9, 9_999))
    assert (result.stop_reason, result.answer, len(result.history)) == ("answered", "RETRIES is 3.", 2)
    assert "settings.py:2" in contents(messages, "tool")[0]
    assert_legal(messages)
    ids = [made.id for message in messages for made in parse_tool_calls(message)]
    assert len(set(ids)) == 2 and all(ids)


def test_a_bad_reply_is_shown_and_asked_for_again_on_a_copy(repo):
    model = ScriptedModel(
        turn(text="I will use the search_code function.", tokens=10),
        turn(text="search_code", tokens=20),
        turn(search_call(), tokens=30),
        turn(text="RETRIES is 3.", tokens=40),
    )
    messages = task()
    result = run_agent(messages, repo, repairing(model), BudgetTracker(9, 9_999))
    assert (result.answer, result.steps, result.tokens) == ("RETRIES is 3.", 2, 100)
    first, second = model.sent[1].messages, model.sent[2].messages
    assert contents(first, "assistant") == ["I will use the search_code function."]
    assert "announces" in first[-1]["content"] and "only the name" in second[-1]["content"]
    assert '{"name": "search_code", "arguments": {"query": "..."}}' in second[-1]["content"]
    assert all(name in first[-1]["content"] for name in NAMES)
    assert len(second) == len(first) + 2
    assert contents(messages, "user") == ["what is RETRIES?"], "repairs aren't stored"
    assert_legal(messages)


def search_call():
    return call("search_code", {"query": "RETRIES"})


def test_repairs_are_bounded_and_end_as_a_failure(repo):
    model = ScriptedModel(*[turn(text="search_code", tokens=10) for _ in range(3)])
    result = settling(run_agent)(task(), repo, repairing(model), BudgetTracker(9, 9_999))
    assert (result.stop_reason, result.answer, result.tokens, len(model.sent)) == ("error", SENTINEL, 30, 3)


def test_an_answer_in_json_becomes_its_text():
    for text in ('{"answer": "It is 3."}', '```json\n{"answer": "It is 3."}\n```'):
        assert repairing(ScriptedModel(turn(text=text)))(task(), TOOL_SCHEMAS).content == "It is 3."


@pytest.mark.parametrize(
    "message",
    [
        turn(read("a.py")),
        turn(read("a.py"), text="I will use read_file."),
        turn(call("read_file", '{"path": "a.p')),  # cut off, but native: the loop explains it
        turn(text="RETRIES is 3."),
        turn(text='{"answer": 3}'),
    ],
    ids=range(5),
)
def test_near_miss_native_calls_and_answers_pass_unchanged(message):
    assert repairing(ScriptedModel(message))(task(), TOOL_SCHEMAS) is message


def test_near_miss_a_side_question_is_left_alone():
    message = turn(text=json.dumps({"name": "read_file", "arguments": {"path": "a.py"}}))
    assert repairing(ScriptedModel(message))(task(), []) is message
    blank = turn(text="")
    assert repairing(ScriptedModel(blank))(task(), []) is blank
