"""X3, `check_emitted` and `structured`: an answer that is handed in through a tool."""

import pytest

from agent import run_agent
from extras.structured import check_emitted, structured
from extras.tests.support import assert_legal, call, contents, read, task, turn, wrong
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import TOOL_SCHEMAS, dispatch_tool

GOOD = {"answer": "It is 3.", "steps_taken": 2, "confidence": 0.9}


def emit(**changes):
    return call("emit_answer", GOOD | changes)


def run(repo, *turns, facts=None, messages=None):
    model = ScriptedModel(*turns)
    complete, dispatch = structured(model, dispatch_tool, facts)
    budget = BudgetTracker(9, 9_999)
    return run_agent(
        task() if messages is None else messages, repo, complete, budget, dispatch=dispatch
    ), model


@pytest.mark.parametrize(
    "changes",
    [{}, {"confidence": 0}, {"confidence": 1}, {"confidence": 1.0}, {"steps_taken": 0}, {"extra": "ignored"}],
    ids=str,
)
def test_valid_arguments_have_no_fault(changes):
    fault = check_emitted(GOOD | changes)
    assert fault is None, wrong(
        called=f"check_emitted({GOOD | changes})",
        got=fault,
        wanted=None,
        idea="The ends of a range belong to it. A check that is too strict costs a right answer.",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("answer", value) for value in (None, "", "  \n", 3, ["3"])]
    + [("steps_taken", value) for value in (None, -1, 2.5, "2", True)]
    + [
        ("confidence", value)
        for value in (None, -0.1, 1.1, "high", True, float("nan"), float("inf"), 10**400)
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_fault_names_its_field(field, value):
    try:
        fault = check_emitted(GOOD | {field: value})
    except NotImplementedError:
        raise
    except Exception as error:
        fault = error
    assert isinstance(fault, str) and field in fault, wrong(
        called=f"check_emitted({str(GOOD | {field: value})[:120]})",
        got=fault,
        wanted=f"a sentence that names {field}",
        idea="The model reads this sentence. It can put right only what it is told; a check never raises.",
    )


def test_a_missing_field_is_named():
    fault = check_emitted({"answer": "It is 3.", "confidence": 0.9})
    assert isinstance(fault, str) and "steps_taken" in fault, wrong(
        called="check_emitted({'answer': 'It is 3.', 'confidence': 0.9})",
        got=fault,
        wanted="a sentence that names steps_taken",
        idea="What isn't there is wrong too.",
    )


def test_a_valid_call_is_the_answer(repo):
    facts = {}
    result, model = run(repo, turn(read("settings.py")), turn(emit()), facts=facts)
    got = (result.stop_reason, result.answer, result.steps, facts.get("emitted"))
    assert got == ("answered", "It is 3.", 2, GOOD), wrong(
        called="run_agent with structured(...): a read, then a valid emit_answer",
        got=f"(stop_reason, answer, steps, facts['emitted']) = {got}",
        wanted=("answered", "It is 3.", 2, GOOD),
        idea="The call is the answer: the loop must see a message without tool calls, and end.",
    )
    offered = [tool["function"]["name"] for tool in model.sent[0].tools]
    assert offered[-1] == "emit_answer" and len(offered) == len(TOOL_SCHEMAS) + 1, wrong(
        called="the tools that the model was offered",
        got=offered,
        wanted="the tools of the run, and emit_answer",
        idea="A model can only call what it is offered.",
    )


def test_an_invalid_call_is_fed_back_and_the_run_goes_on(repo):
    messages = task()
    result, _ = run(repo, turn(emit(confidence="high")), turn(emit()), messages=messages)
    observation = contents(messages, "tool")[0]
    assert observation.startswith("Error: ") and "confidence" in observation, wrong(
        called="the observation after emit_answer(confidence='high')",
        got=observation,
        wanted="'Error: ' and what is wrong with confidence",
        idea="An invalid answer is an observation like any other error: say what to put right.",
    )
    assert (result.stop_reason, result.answer, result.steps) == ("answered", "It is 3.", 2), wrong(
        called="run_agent with structured(...): an invalid emit_answer, then a valid one",
        got=(result.stop_reason, result.answer, result.steps),
        wanted=("answered", "It is 3.", 2),
        idea="The second try counts.",
    )
    assert_legal(messages)


def test_a_plain_answer_is_asked_for_again(repo):
    messages = task()
    result, model = run(repo, turn(text="It is 3.", tokens=10), turn(emit(), tokens=20), messages=messages)
    got = (result.answer, result.steps, result.tokens, len(model.sent), len(messages))
    assert got == ("It is 3.", 1, 30, 2, 2), wrong(
        called="run_agent with structured(...): a plain answer, then emit_answer",
        got=f"(answer, steps, tokens, model calls, messages) = {got}",
        wanted=("It is 3.", 1, 30, 2, 2),
        idea="Asking again happens on a copy, inside one step, and both replies are paid for.",
    )
    assert contents(model.sent[1].messages, "assistant") == ["It is 3."], wrong(
        called="what the model was sent when it was asked again",
        got=model.sent[1].messages,
        wanted="the transcript, its plain answer, and a request to hand it in",
        idea="Without its own words in front of it, a model may answer something else.",
    )


def test_near_miss_it_is_asked_for_again_only_once(repo):
    facts = {}
    result, model = run(repo, turn(text="It is 3."), turn(text="I did say so."), facts=facts)
    got = (result.stop_reason, result.answer, len(model.sent), "emitted" in facts)
    assert got == ("answered", "It is 3.", 2, False), wrong(
        called="run_agent with structured(...): two plain answers",
        got=f"(stop_reason, answer, model calls, emitted) = {got}",
        wanted=("answered", "It is 3.", 2, False),
        idea="A form is no reason to lose an answer. The first text answers the task, the second the form.",
    )


def test_near_miss_it_is_asked_for_once_a_run_not_once_an_answer(repo):
    result, model = run(repo, turn(text="It is 3."), turn(read("settings.py")), turn(text="It is 3."))
    assert (result.answer, len(model.sent)) == ("It is 3.", 3), wrong(
        called="run_agent with structured(...): a plain answer, then a read, then a plain answer",
        got=(result.answer, len(model.sent)),
        wanted=("It is 3.", 3),
        idea="Asked again, the model went on working. It was asked; now its plain text stands.",
    )


@pytest.mark.parametrize("early", [0, 1])
def test_near_miss_an_answer_beside_other_calls_is_too_early(repo, early):
    messages = task()
    calls = [read("settings.py")]
    calls.insert(early, emit(answer="a guess"))
    result, _ = run(repo, turn(*calls), turn(emit()), messages=messages)
    results = contents(messages, "tool")
    refused = results.pop(early)
    assert result.answer == "It is 3." and "RETRIES" in results[0] and refused.startswith("Error: "), wrong(
        called="run_agent with structured(...): read_file and emit_answer in one turn, then emit_answer",
        got=(result.answer, results, refused),
        wanted="the read is done, the early answer is refused, the later one counts",
        idea="An answer that comes with a call was given before the result was seen.",
    )
    assert_legal(messages)


def test_near_miss_other_calls_and_side_questions_are_left_alone(repo):
    model = ScriptedModel(turn(text="fine"))
    complete, dispatch = structured(model, dispatch_tool)
    complete(task(), [])
    assert model.sent[0].tools == []
    assert "RETRIES" in dispatch("read_file", {"path": "settings.py"}, repo)
