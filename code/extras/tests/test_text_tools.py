"""Tools told in words, for a server that drops the ``tools`` of a request."""

import json
from copy import deepcopy

from extras.stack import assemble
from extras.tests.support import assert_legal, call, contents, read, task, turn
from extras.text_tools import spell_out, spelling_out
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import TOOL_SCHEMAS


def result(made, content):
    return {"role": "tool", "tool_call_id": made.id, "content": content}


def test_tools_calls_and_results_are_all_text_and_turns_alternate():
    calls = [read("a.py"), call("search_code", {"query": "x"})]
    messages = [*task(), turn(*calls, text="Looking."), *map(result, calls, ["text of a", "no line"])]
    before = deepcopy(messages)
    sent = spell_out(messages, TOOL_SCHEMAS)
    assert messages == before
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert all(set(message) == {"role", "content"} for message in sent)
    assert sent[0]["content"].startswith("You answer questions.")
    assert all(tool["function"]["name"] in sent[0]["content"] for tool in TOOL_SCHEMAS)
    assert sent[2]["content"].startswith("Looking.\n```json\n") and sent[2]["content"].count("```json") == 2
    assert "Result:\ntext of a\n\nResult:\nno line" in sent[3]["content"]


def test_a_conversation_without_a_system_prompt_gets_one():
    sent = spell_out([{"role": "user", "content": "hello"}], TOOL_SCHEMAS)
    assert [message["role"] for message in sent] == ["system", "user"]


def test_the_model_is_offered_no_tools_and_a_side_question_stays_as_it_is():
    model = ScriptedModel(turn(text="ok"), turn(text="ok"))
    complete = spelling_out(model)
    complete(task(), TOOL_SCHEMAS)
    complete(task(), [])
    assert [sent.tools for sent in model.sent] == [[], []]
    assert model.sent[1].messages == task()


def test_text_and_repair_carry_a_whole_run_over_plain_chat(repo):
    written = json.dumps({"name": "search_code", "arguments": {"query": "RETRIES"}})
    model = ScriptedModel(turn(text=f"```json\n{written}\n```"), turn(text="RETRIES is 3."))
    runner = assemble(["repair", "text", "structured", "compact"])
    model.turns += (turn(text='{"name": "emit_answer", "arguments": {"answer": "3"}}'),)
    model.turns += (
        turn(text='{"name": "emit_answer", "arguments": {"answer": "3", "steps_taken": 2, "confidence": 1}}'),
    )
    outcome = runner(messages := task(), repo, model, BudgetTracker(9, 9_999))
    assert (outcome.stop_reason, outcome.answer, len(model.sent)) == ("answered", "3", 4)
    assert "settings.py:2" in contents(messages, "tool")[0]
    assert_legal(messages)
    assert all(sent.tools == [] and not contents(sent.messages, "tool") for sent in model.sent)
    assert "emit_answer" in model.sent[0].messages[0]["content"]
