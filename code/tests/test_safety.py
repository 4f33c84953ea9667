"""test_safety.py: when is a run stuck (M1), and what may it spend (M2)?

Read these as guided examples. A test that says "this fires" has a twin that nearly looks the same and
must not fire: that is where wrong versions hide. A failure tells what was called, what came back, what
was wanted, the idea behind it, and where the lesson explains it.
"""

import re
from copy import deepcopy

import pytest

from safety import Action, BudgetTracker, detect_stuck
from tests.conftest import Idea, as_typed, calling

LIST = Action("list_directory", {"path": "src"})
READ_A = Action("read_file", {"path": "a.py"})
READ_B = Action("read_file", {"path": "b.py"})
READ_C = Action("read_file", {"path": "c.py"})
FOO = Action("search_code", {"query": "foo"})

REPEAT = Idea(
    "Stuck is one and the same action `window` times in a row: at that count, not one later.", "3.2"
)
BOTH_PARTS = Idea(
    "An action is its tool and its arguments together: a change in either one is progress.", "3.2"
)
LAST = Idea("Only the last `window` actions count, whatever came before them.", "3.2")
EVERY_ONE = Idea(
    "Every one of the last `window` actions has to be the same: other work in between is progress.", "3.2"
)
TOO_FEW = Idea("Fewer than `window` actions are never stuck: there isn't enough history to tell.", "3.2")
WINDOW = Idea("How many repeats are too many is for the caller to say: `window` is a parameter.", "3.2")
BY_VALUE = Idea("Actions are compared by value: not by object, and not by the order of their keys.", "3.2")
AS_THEY_ARE = Idea("Arguments are compared whole and as they are: a small change is another question.", "3.2")
GUARD_OFF = Idea("A window below 1 turns the guard off; mind that `history[-0:]` is the whole list.", "3.2")
ONLY_LOOKS = Idea(
    "The detector only looks: it keeps no memory of its own and leaves the history as it was.", "3.2"
)


class TestM1DetectStuck:
    def test_three_times_the_same_is_stuck(self):
        calling(detect_stuck, [FOO, FOO, FOO], window=3).gives(True, because=REPEAT)

    def test_reading_three_files_is_slow_and_not_stuck(self):
        calling(detect_stuck, [READ_A, READ_B, READ_C], window=3).gives(False, because=BOTH_PARTS)

    def test_three_tools_on_one_path_are_not_stuck(self):
        history = [Action(tool, {"path": "src"}) for tool in ("list_directory", "read_file", "search_code")]
        calling(detect_stuck, history, window=3).gives(False, because=BOTH_PARTS)

    def test_earlier_work_is_no_excuse(self):
        calling(detect_stuck, [READ_A, READ_B, FOO, FOO, FOO], window=3).gives(True, because=LAST)

    def test_earlier_repeats_are_forgiven(self):
        calling(detect_stuck, [FOO, FOO, FOO, READ_A, READ_B], window=3).gives(False, because=LAST)

    @pytest.mark.parametrize(
        "history",
        [
            pytest.param([FOO, READ_A, FOO], id="other work in the middle"),
            pytest.param([READ_A, FOO, FOO], id="the last two only"),
            pytest.param([FOO, FOO, READ_A], id="the first two only"),
            pytest.param([FOO, FOO, READ_A, FOO], id="three of the last four"),
            pytest.param([FOO, READ_A, FOO, READ_B, FOO], id="three in the whole history"),
            pytest.param([READ_A, READ_B, READ_A, READ_B, READ_A, READ_B], id="a loop of two"),
        ],
    )
    def test_repeats_with_other_work_between_are_not_stuck(self, history):
        calling(detect_stuck, history, window=3).gives(False, because=EVERY_ONE)

    @pytest.mark.parametrize("count", [0, 1])
    def test_a_short_history_is_not_stuck(self, count):
        calling(detect_stuck, [FOO] * count, window=3).gives(False, because=TOO_FEW)

    def test_another_run_starts_from_nothing(self):
        first = calling(detect_stuck, [READ_A, READ_A], window=3).value("the same for each run", ONLY_LOOKS)
        calling(detect_stuck, [READ_A, READ_A], window=3).gives(first, because=ONLY_LOOKS)

    def test_one_below_the_window_is_not_stuck(self):
        calling(detect_stuck, [FOO, FOO], window=3).gives(False, because=TOO_FEW)

    @pytest.mark.parametrize("window", [1, 2, 4, 5])
    def test_the_window_is_the_callers(self, window):
        calling(detect_stuck, [LIST] + [FOO] * window, window=window).gives(True, because=WINDOW)
        calling(detect_stuck, [LIST] + [FOO] * window, window=window + 1).gives(False, because=WINDOW)

    def test_the_window_is_three_when_nobody_says_otherwise(self):
        calling(detect_stuck, [LIST, FOO, FOO]).gives(False, because=WINDOW)
        calling(detect_stuck, [LIST, FOO, FOO, FOO]).gives(True, because=WINDOW)

    @pytest.mark.parametrize(
        "spellings",
        [
            pytest.param(
                [{"path": "a.py", "start_line": 5}, {"path": "a.py", "start_line": 5}],
                id="objects that are equal",
            ),
            pytest.param(
                [{"path": "a.py", "start_line": 5}, {"start_line": 5, "path": "a.py"}], id="order of the keys"
            ),
            pytest.param([{"in": {"a": 1, "b": [2]}}, {"in": {"b": [2], "a": 1}}], id="order of inner keys"),
            pytest.param(
                [{"path": ["a.py", {"deep": None}]}, {"path": ["a.py", {"deep": None}]}], id="nested values"
            ),
        ],
    )
    def test_equal_actions_are_the_same_action(self, spellings):
        first, second = (Action("read_file", arguments) for arguments in spellings)
        calling(detect_stuck, [first, second, deepcopy(first)], window=3).gives(True, because=BY_VALUE)

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param([{"query": "Foo"}, {"query": "foo"}, {"query": "FOO"}], id="case"),
            pytest.param([{"query": "a b"}, {"query": "a  b"}, {"query": " a b"}], id="spaces"),
            pytest.param(
                [{"path": "a.py", "start_line": line} for line in (1, 201, 401)], id="paging through a file"
            ),
            pytest.param([{"path": "test_1.py"}, {"path": "test_2.py"}, {"path": "test_3.py"}], id="digits"),
            pytest.param([{"start_line": line, "path": "a.py"} for line in (1, 1, 2)], id="one value of two"),
            pytest.param([{"order": [1, 2]}, {"order": [2, 1]}, {"order": [1, 2]}], id="order of a list"),
            pytest.param([{}, {"path": "."}, {}], id="a default spelt out"),
            pytest.param([{"query": "x" * 300 + end} for end in "abc"], id="the end of a long text"),
        ],
    )
    def test_nearly_the_same_is_not_the_same(self, arguments):
        history = [Action("search_code", each) for each in arguments]
        calling(detect_stuck, history, window=3).gives(False, because=AS_THEY_ARE)

    @pytest.mark.parametrize("window", [0, -1, -3])
    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_a_window_below_one_is_never_stuck(self, count, window):
        calling(detect_stuck, [FOO] * count, window=window).gives(False, because=GUARD_OFF)

    def test_asked_twice_it_answers_the_same(self):
        history = [READ_A, FOO, FOO, FOO]
        calling(detect_stuck, history, window=3).gives(True, because=ONLY_LOOKS)
        again = calling(detect_stuck, history, window=3)
        again.gives(True, because=ONLY_LOOKS)
        if history != [READ_A, FOO, FOO, FOO]:
            again.fail(f"a history of {as_typed(history)}", "the history as it was", because=ONLY_LOOKS)


ON_THE_SPOT = Idea("`tick` changes the tracker that it is called on: one step more, and its tokens.", "3.3")
EVERY_STEP = Idea("A step is a step: it counts once, whatever it cost.", "3.3")
SUM = Idea(
    "Both counts add up over the run: each model call is paid for, not only the last or the largest.", "3.3"
)
TRUE_COUNT = Idea(
    "`tick` writes down what was spent, also beyond a ceiling: it neither caps nor judges.", "3.3"
)
OWN_COUNT = Idea("Each tracker keeps its own count: what one run spends doesn't burden another.", "3.3")
FIXED = Idea("Spending raises the counts; the ceilings stay where the caller set them.", "3.3")


class TestM2Tick:
    @staticmethod
    def check(budget, *ticks, steps, tokens, because):
        """Tick ``budget`` and compare both of its counts."""
        __tracebackhide__ = True
        before = repr(budget)
        for used in ticks:
            outcome = calling(budget.tick, used)
            outcome.called = f"budget = {before}" + "".join(f"; budget.tick({used})" for used in ticks)
            outcome.value(f"steps={steps}, tokens={tokens}", because)
        got, wanted = (budget.steps, budget.tokens), (steps, tokens)
        if got != wanted:
            outcome.fail(
                "steps={!r}, tokens={!r}".format(*got), "steps={}, tokens={}".format(*wanted), because
            )
        return outcome

    def test_one_tick_is_one_step_and_its_tokens(self):
        self.check(BudgetTracker(5, 10_000), 2_000, steps=1, tokens=2_000, because=ON_THE_SPOT)

    def test_two_trackers_are_two(self):
        first, second = BudgetTracker(5, 10_000), BudgetTracker(5, 10_000)
        outcome = self.check(first, 2_000, steps=1, tokens=2_000, because=OWN_COUNT)
        for name, other in (("another tracker", second), ("a new tracker", BudgetTracker(5, 10_000))):
            if (other.steps, other.tokens) != (0, 0):
                outcome.fail(
                    f"{name} at {other.steps} steps and {other.tokens} tokens", f"{name} at 0", OWN_COUNT
                )
        self.check(second, 30, steps=1, tokens=30, because=OWN_COUNT)

    def test_a_free_step_counts_too(self):
        self.check(BudgetTracker(5, 10_000), 0, steps=1, tokens=0, because=EVERY_STEP)

    def test_tokens_add_up(self):
        self.check(BudgetTracker(5, 10_000), 100, 300, 200, steps=3, tokens=600, because=SUM)

    def test_the_count_goes_on_from_where_it_stands(self):
        budget = BudgetTracker(5, 10_000, steps=2, tokens=4_000)
        self.check(budget, 1_000, steps=3, tokens=5_000, because=SUM)

    def test_spending_beyond_a_ceiling_is_written_down(self):
        budget = BudgetTracker(5, 10_000, steps=2, tokens=4_000)
        self.check(budget, 7_000, steps=3, tokens=11_000, because=TRUE_COUNT)
        self.check(BudgetTracker(1, 10_000), 5, 5, steps=2, tokens=10, because=TRUE_COUNT)

    def test_the_ceilings_stay(self):
        budget = BudgetTracker(5, 10_000)
        outcome = self.check(budget, 2_000, 2_000, steps=2, tokens=4_000, because=FIXED)
        if (budget.max_steps, budget.max_tokens) != (5, 10_000):
            outcome.fail(repr(budget), "max_steps=5, max_tokens=10000", FIXED)


ROOM = Idea("`None`, and nothing else, means that there is room under both ceilings.", "3.3")
TWO = Idea("Either ceiling is enough: steps miss a few enormous calls, tokens miss many cheap ones.", "3.3")
REASON = Idea(
    "`over_budget` returns its reason as a sentence; what to do about it is for the loop to decide.", "3.3"
)
NAMED = Idea("The reason names the ceiling that was reached, steps before tokens when both are.", "3.3")
FIGURES = Idea("A reason gives both figures, what was spent and what was allowed.", "3.3")
REACHED = Idea("A count that equals its ceiling has reached it: what was allowed is spent.", "3.3")
ZERO = Idea("A ceiling of 0 allows nothing; it doesn't mean 'no limit'.", "3.3")
ONLY_TELLS = Idea("`over_budget` only tells: asking spends nothing and resets nothing.", "3.3")


class TestM2OverBudget:
    @staticmethod
    def check_reason(budget, ceiling, spent, allowed, because):
        """The reason has to be a sentence that names the ceiling and gives its two figures."""
        __tracebackhide__ = True
        wanted = f"a sentence such as '{ceiling} budget exhausted ({spent}/{allowed})'"
        outcome = calling(budget.over_budget)
        reason = outcome.value(wanted, REASON)
        if reason is None:
            outcome.fail(reason, wanted, because)
        if not isinstance(reason, str):
            outcome.fail(reason, wanted, REASON)
        first = re.search(r"step|token", reason.lower())
        if first is None or first[0] != ceiling:
            outcome.fail(repr(reason), wanted, NAMED)
        plain = re.sub(r"(?<=\d)[,_ ](?=\d{3})", "", reason)
        figures = re.findall(r"\d+", plain)
        if not {str(spent), str(allowed)} <= set(figures) or (
            spent != allowed and f"{allowed}/{spent}" in plain
        ):
            outcome.fail(repr(reason), wanted, FIGURES)

    @staticmethod
    def check_twice(budget):
        """Ask twice: the same answer, and a tracker that is as it was."""
        __tracebackhide__ = True
        before = repr(budget)
        first = calling(budget.over_budget).value("the same answer at each call", ONLY_TELLS)
        second = calling(budget.over_budget)
        second.gives(first, because=ONLY_TELLS)
        if repr(budget) != before:
            second.fail(f"a tracker that is now {budget!r}", f"a tracker that is still {before}", ONLY_TELLS)

    def test_room_under_both_ceilings(self):
        calling(BudgetTracker(5, 10_000, steps=2, tokens=4_000).over_budget).gives(None, because=ROOM)

    def test_a_fresh_tracker_has_room(self):
        calling(BudgetTracker(5, 10_000).over_budget).gives(None, because=ROOM)

    def test_asking_spends_nothing(self):
        self.check_twice(BudgetTracker(5, 10_000, steps=2, tokens=4_000))

    def test_too_many_tokens_in_few_steps(self):
        self.check_reason(
            BudgetTracker(5, 10_000, steps=3, tokens=11_000), "token", 11_000, 10_000, because=TWO
        )

    def test_too_many_steps_with_few_tokens(self):
        self.check_reason(BudgetTracker(5, 10_000, steps=7, tokens=40), "step", 7, 5, because=TWO)

    def test_one_below_each_ceiling_there_is_room(self):
        calling(BudgetTracker(5, 10_000, steps=4, tokens=9_999).over_budget).gives(None, because=ROOM)

    def test_the_last_allowed_step_reaches_the_ceiling(self):
        self.check_reason(BudgetTracker(5, 10_000, steps=5, tokens=40), "step", 5, 5, because=REACHED)

    def test_the_last_allowed_token_reaches_the_ceiling(self):
        self.check_reason(
            BudgetTracker(5, 10_000, steps=3, tokens=10_000), "token", 10_000, 10_000, because=REACHED
        )

    def test_both_reached_names_steps_first(self):
        self.check_reason(BudgetTracker(5, 10_000, steps=6, tokens=11_000), "step", 6, 5, because=TWO)

    def test_zero_is_a_ceiling(self):
        self.check_reason(BudgetTracker(0, 10_000), "step", 0, 0, because=ZERO)
        self.check_reason(BudgetTracker(5, 0, steps=1, tokens=30), "token", 30, 0, because=ZERO)

    def test_telling_resets_nothing(self):
        self.check_twice(BudgetTracker(5, 10_000, steps=6, tokens=40))
        self.check_twice(BudgetTracker(5, 10_000, steps=2, tokens=11_000))

    def test_ticks_lead_to_the_ceiling(self):
        budget = BudgetTracker(5, 10_000)
        budget.tick(2_000)
        budget.tick(2_000)
        calling(budget.over_budget).gives(None, because=ROOM)
        budget.tick(7_000)
        self.check_reason(budget, "token", 11_000, 10_000, because=TWO)
