"""test_evaluate.py: how good was a run (M4)?

Read these as guided examples. Each run is built by hand, so that these tests need nothing but
`evaluate_run`. A test that says "completed" has a twin that must not be. A failure tells what was
called, what came back, what was wanted, the idea behind it, and where the lesson explains it.
"""

from copy import deepcopy

import pytest

from agent import RunResult
from evaluate import evaluate_run
from safety import Action
from tests.conftest import Idea, as_typed, calling

LOOK, READ = Action("search_code", {"query": "model"}), Action("read_file", {"path": "config.py"})


def check(key, wanted, *, because, contains="groq", optimal=3, **fields):
    """Score a run built from ``fields`` and fail unless the score has ``wanted`` under ``key``."""
    __tracebackhide__ = True
    run = {
        "answer": "It is groq.",
        "history": [LOOK, READ],
        "steps": 3,
        "tokens": 900,
        "stop_reason": "answered",
    }
    expected = {"answer_contains": contains, "optimal_steps": optimal}
    outcome = calling(evaluate_run, RunResult(**run | fields), expected)
    score = outcome.value(f"{key!r}: {as_typed(wanted)} in the score", because)
    if not isinstance(score, dict) or key not in score:
        outcome.fail(score, f"a dict with the key {key!r}", FIVE_KEYS)
    got = score[key]
    told = f"{key!r}: {as_typed(got)}", f"{key!r}: {as_typed(wanted)}"
    if isinstance(wanted, bool) and not isinstance(got, bool):
        outcome.fail(*told, YES_OR_NO)
    if got != (pytest.approx(wanted, abs=1e-9) if isinstance(wanted, float) else wanted):
        outcome.fail(*told, because)


FIVE_KEYS = Idea("A score is a dict of five measures; each answers its own question.", "3.6")
SPOKEN = Idea("A run that was cut off hasn't completed its task, whatever its text says.", "3.6")
RIGHT = Idea("An answer isn't the right answer: the text that was expected has to be in it.", "3.6")
CONTAINS = Idea(
    "The answer contains what was expected: a sentence around it is no fault, and no merit.", "3.6"
)
EXACT_CASE = Idea("The text is looked for as it is written, case and all.", "3.6")
NOTHING_SAID = Idea("No answer, or a blank one, completes nothing; None isn't the text 'None'.", "3.6")
CHECKED = Idea(
    "A check that checks nothing must not pass: an expectation without its keys is an error.", "3.6"
)
YES_OR_NO = Idea("`completed` is a plain yes or no: True or False, whatever it was worked out from.", "3.6")


class TestM4Completed:
    def test_an_answer_with_the_expected_text_is_completed(self):
        check("completed", True, answer="It is groq.", because=CONTAINS)

    def test_an_answer_that_says_something_else_is_not(self):
        check("completed", False, answer="It is something else.", because=RIGHT)

    @pytest.mark.parametrize("stop_reason", ["stuck", "budget", "max_steps"])
    def test_a_run_that_was_cut_off_is_not(self, stop_reason):
        check("completed", False, answer="It is groq.", stop_reason=stop_reason, because=SPOKEN)

    @pytest.mark.parametrize(
        "answer", ["groq", "groq, I think", "By default: groq", "a\nlong text\nabout groq\n"]
    )
    def test_wherever_the_text_stands(self, answer):
        check("completed", True, answer=answer, because=CONTAINS)

    def test_a_part_of_the_expected_text_is_not_enough(self):
        check("completed", False, answer="groq", contains="groq/openai", because=CONTAINS)

    def test_another_case_is_another_text(self):
        check("completed", False, answer="It is GROQ.", because=EXACT_CASE)
        check("completed", True, answer="It is GROQ.", contains="GROQ", because=EXACT_CASE)
        check("completed", False, answer="It is groq.", contains="GROQ", because=EXACT_CASE)

    @pytest.mark.parametrize("contains", ["None", "groq"])
    def test_no_answer_completes_nothing(self, contains):
        check("completed", False, answer=None, contains=contains, because=NOTHING_SAID)

    @pytest.mark.parametrize(("answer", "contains"), [("", "groq"), ("", ""), (" \n\t", " "), (None, "")])
    def test_a_blank_answer_completes_nothing(self, answer, contains):
        check("completed", False, answer=answer, contains=contains, because=NOTHING_SAID)

    def test_a_misspelt_expectation_is_not_passed(self):
        result = RunResult("It is groq.", [], 3, 900, "answered")
        for expected in (
            {"anser_contains": "gpt", "optimal_steps": 3},
            {"answer_contains": "groq", "optimal": 3},
        ):
            outcome = calling(evaluate_run, result, expected)
            if not isinstance(outcome.error, KeyError):
                outcome.fail(outcome.error or outcome.got, "KeyError, raised", CHECKED)


CALLS_MADE = Idea(
    "`tool_calls` counts the actions taken, repeats and all; `steps` counts the model calls.", "3.6"
)
SHARE = Idea("Efficiency is the share of the steps that an optimal run needs: optimal_steps / steps.", "3.6")
AT_MOST_ONE = Idea("Efficiency is 1.0 at most: fewer steps than 'optimal' isn't better than perfect.", "3.6")
NO_STEP = Idea("A run without a step counts as one of a single step: a score never divides by zero.", "3.6")
APART = Idea("Each measure speaks for itself: efficiency says how many steps, not how the run ended.", "3.6")
AS_GIVEN = Idea(
    "The score passes the stop reason on as the run gave it: why a run ended isn't how good it was.", "3.6"
)
READ_ONLY = Idea("Scoring reads the run and the expectation, and leaves both as they were.", "3.6")


class TestM4Counts:
    def test_steps_are_the_runs(self):
        check("steps", 7, steps=7, because=CALLS_MADE)

    def test_tool_calls_are_the_actions(self):
        check("tool_calls", 2, history=[LOOK, READ], steps=3, because=CALLS_MADE)
        check("tool_calls", 4, history=[LOOK, READ, READ, READ], steps=2, because=CALLS_MADE)
        check("tool_calls", 0, history=[], steps=1, because=CALLS_MADE)


class TestM4Efficiency:
    @pytest.mark.parametrize(
        ("optimal", "steps", "wanted"), [(3, 3, 1.0), (3, 6, 0.5), (1, 3, 1 / 3), (2, 7, 2 / 7)]
    )
    def test_it_is_the_share_of_the_steps_that_were_needed(self, optimal, steps, wanted):
        check("efficiency", wanted, optimal=optimal, steps=steps, because=SHARE)

    def test_it_counts_steps_and_not_tool_calls(self):
        check("efficiency", 0.5, optimal=2, steps=4, history=[LOOK], because=SHARE)

    def test_it_is_one_at_most(self):
        check("efficiency", 1.0, optimal=5, steps=2, because=AT_MOST_ONE)

    def test_it_does_not_depend_on_the_end(self):
        check("efficiency", 0.75, optimal=3, steps=4, answer=None, stop_reason="stuck", because=APART)
        check("efficiency", 0.75, optimal=3, steps=4, answer="It is wrong.", because=APART)
        check("efficiency", 0.75, optimal=3, steps=4, answer="It is groq.", because=APART)

    def test_a_run_without_a_step_can_be_scored(self):
        check("efficiency", 1.0, optimal=1, steps=0, answer=None, stop_reason="max_steps", because=NO_STEP)
        check("efficiency", 1.0, optimal=2, steps=0, answer=None, stop_reason="max_steps", because=NO_STEP)


class TestM4StopReason:
    @pytest.mark.parametrize("stop_reason", ["answered", "stuck", "budget", "max_steps"])
    def test_it_is_passed_on(self, stop_reason):
        check("stop_reason", stop_reason, stop_reason=stop_reason, because=AS_GIVEN)

    def test_a_wrong_answer_still_answered(self):
        check("stop_reason", "answered", answer="It is something else.", because=AS_GIVEN)


class TestM4Score:
    def test_a_score_has_five_measures(self):
        result = RunResult("It is groq.", [LOOK, READ], 3, 900, "answered")
        outcome = calling(evaluate_run, result, {"answer_contains": "groq", "optimal_steps": 3})
        wanted = {
            "completed": True,
            "steps": 3,
            "tool_calls": 2,
            "efficiency": 1.0,
            "stop_reason": "answered",
        }
        outcome.gives(wanted, because=FIVE_KEYS)

    def test_a_run_can_be_scored_twice(self):
        result, expected = RunResult("It is groq.", [LOOK, READ], 3, 900, "answered"), {}
        expected.update(answer_contains="groq", optimal_steps=3)
        before = deepcopy((result, expected))
        first = calling(evaluate_run, result, expected).value("the same score at each call", READ_ONLY)
        again = calling(evaluate_run, result, expected)
        again.gives(first, because=READ_ONLY)
        if (result, expected) != before:
            again.fail(f"{result!r} and {expected!r}", "both as they were", READ_ONLY)
