"""X1, `plan_task`: a plan before the first action."""

from copy import deepcopy

from agent import run_agent
from extras.planning import MAX_PLAN_STEPS, plan_task, planning
from extras.tests.support import contents, read, task, turn, wrong
from safety import BudgetTracker
from tests.conftest import ScriptedModel
from tools import TOOL_SCHEMAS

REPLY = "Here is the plan:\n1. search RETRIES\n2) read settings.py\n- answer\n"
TASK = "what is RETRIES?"


def test_a_plan_is_the_steps_in_order_without_their_numbers():
    plan = plan_task(TASK, ScriptedModel(turn(text=REPLY)), TOOL_SCHEMAS)
    assert plan == ["search RETRIES", "read settings.py", "answer"], wrong(
        called=f"plan_task({TASK!r}, model, TOOL_SCHEMAS), where the model replies {REPLY!r}",
        got=plan,
        wanted=["search RETRIES", "read settings.py", "answer"],
        idea="A plan is a list that code can count, not a text to be read again: one entry a step, in order.",
    )


def test_planning_is_one_call_that_knows_the_task_and_the_tools_and_offers_none():
    model = ScriptedModel(turn(text=REPLY))
    plan_task(TASK, model, TOOL_SCHEMAS)
    sent = "\n".join(str(message["content"]) for message in model.sent[0].messages)
    named = [tool["function"]["name"] for tool in TOOL_SCHEMAS if tool["function"]["name"] in sent]
    got = (len(model.sent), TASK in sent, named, model.sent[0].tools)
    wanted = (1, True, ["read_file", "list_directory", "search_code"], [])
    assert got == wanted, wrong(
        called="plan_task(task, model, TOOL_SCHEMAS); then what the model was sent",
        got=f"(calls, task in the request, tools named in it, tools offered) = {got}",
        wanted=wanted,
        idea="Decompose first: who plans must know what the steps can be, and must not act yet.",
    )


def test_a_plan_has_a_bounded_length():
    long = "\n".join(f"{number}. step" for number in range(1, 40))
    plan = plan_task(TASK, ScriptedModel(turn(text=long)), TOOL_SCHEMAS)
    assert len(plan) == MAX_PLAN_STEPS, wrong(
        called="plan_task(...), where the model proposes 39 steps",
        got=f"{len(plan)} steps",
        wanted=f"{MAX_PLAN_STEPS} steps",
        idea="The plan travels with every request. What a model writes has to be bounded before it is used.",
    )


def test_near_miss_a_reply_that_holds_no_list_is_no_plan():
    for text in ("It is easy, just answer.", "", None):
        plan = plan_task(TASK, ScriptedModel(turn(text=text)), TOOL_SCHEMAS)
        assert plan == [], wrong(
            called=f"plan_task(...), where the model replies {text!r}",
            got=plan,
            wanted=[],
            idea="No plan is better than prose taken for one; the run goes on without.",
        )


def test_the_plan_goes_with_every_request_and_not_into_the_transcript(repo):
    model = ScriptedModel(
        turn(text=REPLY, tokens=50), turn(read("settings.py"), tokens=10), turn(text="3", tokens=5)
    )
    facts: dict = {}
    messages = task()
    first = deepcopy(messages)
    result = run_agent(messages, repo, planning(model, facts), BudgetTracker(9, 9_999))
    assert [("2. read settings.py" in contents(sent.messages, "user")[0]) for sent in model.sent] == [
        False,
        True,
        True,
    ]
    assert messages[:2] == first, "the transcript keeps the task as it was typed"
    assert facts["plan"] == ["search RETRIES", "read settings.py", "answer"]
    assert (result.steps, result.tokens) == (2, 65), "the plan's tokens are charged to the first step"


def test_near_miss_without_a_plan_the_requests_stay_as_they_are(repo):
    model = ScriptedModel(turn(text="no idea"), turn(text="3"))
    run_agent(messages := task(), repo, planning(model), BudgetTracker(9, 9_999))
    assert model.sent[1].messages == messages
