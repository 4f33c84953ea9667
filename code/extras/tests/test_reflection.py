"""X2, `find_fault` and `reflecting`: a self-check after the answer."""

from copy import deepcopy

from agent import RunResult, run_agent
from extras.reflection import find_fault, reflecting
from extras.tests.support import assert_legal, contents, read, task, turn, wrong
from safety import BudgetTracker
from tests.conftest import ScriptedModel

FAULT = "The file that holds it is missing."
PARTLY = "Satisfied with the value, but no file is named."


def test_a_satisfied_judge_finds_no_fault():
    for verdict in ("SATISFIED", "Satisfied.", "**SATISFIED**", " satisfied: all parts are there\n"):
        fault = find_fault(task(), "It is 3.", ScriptedModel(turn(text=verdict)))
        assert fault is None, wrong(
            called=f"find_fault(messages, 'It is 3.', judge), where the judge replies {verdict!r}",
            got=fault,
            wanted=None,
            idea="A model's yes comes in many spellings; read as a no, it sends a right answer back.",
        )


def test_near_miss_a_reply_that_only_holds_the_word_is_a_fault():
    for verdict in (
        FAULT,
        "Not satisfied: no file is named.",
        "The task isn't SATISFIED.",
        "Unsatisfied.",
        PARTLY,
    ):
        fault = find_fault(task(), "It is 3.", ScriptedModel(turn(text=verdict)))
        assert fault == verdict, wrong(
            called=f"find_fault(messages, 'It is 3.', judge), where the judge replies {verdict!r}",
            got=fault,
            wanted=verdict,
            idea="'Not satisfied' holds the word too. The fault, as it was said, is what the run needs.",
        )


def test_a_blank_verdict_names_no_fault():
    for verdict in ("", "  \n", None):
        fault = find_fault(task(), "It is 3.", ScriptedModel(turn(text=verdict)))
        assert fault is None, wrong(
            called=f"find_fault(messages, answer, judge), where the judge replies {verdict!r}",
            got=fault,
            wanted=None,
            idea="A run can only go on from a fault that was named.",
        )


def test_the_judge_sees_task_and_answer_and_gets_no_tools():
    messages = task()
    before = deepcopy(messages)
    judge = ScriptedModel(turn(text="SATISFIED"))
    find_fault(messages, "It is 3.", judge)
    sent = judge.sent[0]
    got = (sent.messages[:2] == before, contents(sent.messages, "assistant"), sent.tools, messages == before)
    assert got == (True, ["It is 3."], [], True), wrong(
        called="find_fault(messages, 'It is 3.', judge); then what the judge was sent",
        got=f"(transcript first, the model's turns, tools offered, messages unchanged) = {got}",
        wanted=(True, ["It is 3."], [], True),
        idea="A judge that can't see what the tools showed judges the style. It judges; it doesn't act.",
    )


def test_a_fault_sends_the_run_on(repo):
    model = ScriptedModel(
        turn(read("README.md"), tokens=5),
        turn(text="It is 3.", tokens=10),
        turn(text=FAULT, tokens=20),
        turn(read("settings.py"), tokens=30),
        turn(text="It is 3, in settings.py.", tokens=40),
    )
    messages, budget = task(), BudgetTracker(9, 9_999)
    result = reflecting(run_agent, rounds=1)(messages, repo, model, budget)
    got = (result.stop_reason, result.answer, len(result.history), result.steps, result.tokens)
    wanted = ("answered", "It is 3, in settings.py.", 2, 5, 105)
    assert got == wanted, wrong(
        called="reflecting(run_agent)(...): a read, an answer, a fault, a read, a better answer",
        got=f"(stop_reason, answer, tool calls, steps, tokens) = {got}",
        wanted=wanted,
        idea="The run goes on from the fault. The check is a model call like any other: it counts as a step.",
    )
    assert (budget.steps, budget.tokens) == (5, 105), wrong(
        called="budget.steps, budget.tokens after that run",
        got=(budget.steps, budget.tokens),
        wanted=(5, 105),
        idea="One budget for all rounds and checks, or a few rounds cost several budgets.",
    )
    assert contents(messages, "assistant")[1] == "It is 3." and FAULT in messages[5]["content"], wrong(
        called="messages, after that run",
        got=messages,
        wanted="the rejected answer as the assistant's turn, then the fault as a user's turn",
        idea="The model has to see what it said and what was wrong with it.",
    )
    assert_legal(messages)


def test_near_miss_a_satisfying_answer_ends_the_run_at_once(repo):
    model = ScriptedModel(turn(text="It is 3."), turn(text="SATISFIED"))
    messages = task()
    result = reflecting(run_agent, rounds=5)(messages, repo, model, BudgetTracker(9, 9_999))
    got = (result.answer, result.steps, len(messages))
    assert got == ("It is 3.", 2, 2), wrong(
        called="reflecting(run_agent, rounds=5)(...): an answer that the judge is satisfied with",
        got=f"(answer, steps, messages) = {got}",
        wanted=("It is 3.", 2, 2),
        idea="One check, no more rounds, and nothing added to the transcript.",
    )


def test_the_rounds_are_bounded(repo):
    turns = [turn(text=text) for text in ("a1", FAULT, "a2", FAULT, "a3")]
    model = ScriptedModel(*turns)
    result = reflecting(run_agent, rounds=2)(task(), repo, model, BudgetTracker(50, 99_999))
    assert (result.answer, len(model.sent)) == ("a3", 5), wrong(
        called="reflecting(run_agent, rounds=2)(...), where the judge is never satisfied",
        got=(result.answer, len(model.sent)),
        wanted=("a3", 5),
        idea="A judge may never be satisfied. Two rounds are two checks, and the last answer stands.",
    )


def test_a_failed_run_is_not_checked(repo):
    model = ScriptedModel(*[turn(read("settings.py")) for _ in range(3)])
    result = reflecting(run_agent)(task(), repo, model, BudgetTracker(9, 9_999))
    assert (result.stop_reason, len(model.sent)) == ("stuck", 3), wrong(
        called="reflecting(run_agent)(...) of a run that is stuck",
        got=(result.stop_reason, len(model.sent)),
        wanted=("stuck", 3),
        idea="There is no answer to check, and a failure must stay one.",
    )


def test_near_miss_the_last_words_of_a_failed_run_are_not_checked(repo):
    failed = RunResult("it may be 3", [], 9, 90, "max_steps")
    result = reflecting(lambda *request: failed)(task(), repo, ScriptedModel(), BudgetTracker(99, 9_999))
    assert result == failed, wrong(
        called="reflecting(run)(...), where the run failed and says what it had found",
        got=result,
        wanted=failed,
        idea="Only an answered run has an answer to check; a check could turn this failure into success.",
    )


def test_there_is_no_further_round_when_the_check_used_up_the_budget(repo):
    model = ScriptedModel(turn(text="It is 3."), turn(text=FAULT))
    messages = task()
    result = reflecting(run_agent)(messages, repo, model, BudgetTracker(2, 9_999))
    got = (result.stop_reason, result.answer, result.steps, len(messages))
    assert got == ("answered", "It is 3.", 2, 2), wrong(
        called="reflecting(run_agent)(...) with 2 steps: an answer, and a check that finds a fault",
        got=f"(stop_reason, answer, steps, messages) = {got}",
        wanted=("answered", "It is 3.", 2, 2),
        idea="The loop makes a call before it looks at the budget: look first.",
    )


def test_there_is_no_check_on_an_empty_budget(repo):
    model = ScriptedModel(turn(read("settings.py")), turn(text="It is 3."))
    result = reflecting(run_agent)(task(), repo, model, BudgetTracker(2, 9_999))
    assert (result.stop_reason, result.answer) == ("answered", "It is 3."), wrong(
        called="reflecting(run_agent)(...) of a run that answers on its last step",
        got=(result.stop_reason, result.answer),
        wanted=("answered", "It is 3."),
        idea="The ceiling holds for checks too; what was answered within it is kept.",
    )


def test_a_further_round_that_fails_keeps_its_reason_and_the_last_answer(repo):
    model = ScriptedModel(
        turn(text="It is 3."), turn(text=FAULT), *[turn(read("settings.py")) for _ in range(3)]
    )
    result = reflecting(run_agent)(task(), repo, model, BudgetTracker(9, 9_999))
    assert (result.stop_reason, result.answer) == ("stuck", "It is 3."), wrong(
        called="reflecting(run_agent)(...): an answer, a fault, then the same read three times",
        got=(result.stop_reason, result.answer),
        wanted=("stuck", "It is 3."),
        idea="A failure isn't turned into success, and what was found isn't thrown away.",
    )


def test_a_judge_that_raises_leaves_the_answer(repo):
    model = ScriptedModel(turn(text="It is 3."), ConnectionError("server gone"))
    result = reflecting(run_agent)(task(), repo, model, BudgetTracker(9, 9_999))
    assert (result.stop_reason, result.answer) == (
        "answered",
        "It is 3.",
    ) and "server gone" in result.detail, wrong(
        called="reflecting(run_agent)(...), where the check can't be made",
        got=(result.stop_reason, result.answer, result.detail),
        wanted="the answer, and a detail that says it wasn't checked",
        idea="A check that fails must not cost the answer that was paid for.",
    )
