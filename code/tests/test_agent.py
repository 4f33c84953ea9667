"""test_agent.py: the loop that plays a model's turns, survives its tools and says why it stopped (M3).

Read these as guided examples. The model is a script (`turn(call(...))`, then `turn(text="...")`), the
tools are the real ones on a small repository unless a test brings its own. A test that says "this
fires" has a twin that must not. A failure tells what was called, what came back, what was wanted, the
idea behind it, and where the lesson explains it.
"""

import json
from copy import deepcopy
from pathlib import Path

import pytest

import agent
from agent import RunResult, estimate_tokens, get_field, run_agent
from safety import Action, BudgetTracker
from tests.conftest import Idea, Outcome, ScriptedModel, as_typed, call, shortened, transcript_fault, turn
from tools import TOOL_SCHEMAS

SETTINGS, MAIN, WORDS = {"path": "settings.py"}, {"path": "greeter/main.py"}, {"path": "greeter/words.py"}
DIFFERENT = [
    turn(
        call("search_code", {"query": f"word {n}"})
        if n % 3 == 2
        else call("read_file", {"path": "settings.py", "start_line": n})
    )
    for n in range(1, 9)
]
SAME = [turn(call("search_code", {"query": "greet"})) for _ in range(8)]

A_RESULT = Idea("A run ends with a RunResult: why it stopped is worth as much as what it said.", "3.5")


class Run(Outcome):
    """One run: ``messages`` as it left them, the ``model`` and what it was sent, the ``budget``."""

    def __init__(self, repo, turns, budget, because, options):
        self.messages = [{"role": "user", "content": "Which language is the default?"}]
        self.model, self.budget, self.because = ScriptedModel(*turns), budget, because
        given = "".join(f", {name}={as_typed(value)}" for name, value in options.items() if name != "tools")
        plays = "".join(f"\n            {number}. {_shown(each)}" for number, each in enumerate(turns, 1))
        super().__init__(f"run_agent(messages, repo, model, {budget!r}{given}), where the model plays{plays}")

    def check(self, what, got, wanted, because=None):
        """Fail unless ``got`` is ``wanted``."""
        __tracebackhide__ = True
        if got != wanted:
            self.fail(f"{what} = {as_typed(got)}", f"{what} = {as_typed(wanted)}", because or self.because)

    def ends(self, stop_reason, **fields):
        """Fail unless the result has this ``stop_reason`` and these ``fields``."""
        __tracebackhide__ = True
        result = self.value("a RunResult", self.because)
        if not isinstance(result, RunResult):
            self.fail(result, "a RunResult", A_RESULT)
        for name, wanted in {"stop_reason": stop_reason, **fields}.items():
            self.check(f"result.{name}", getattr(result, name), wanted)

    def sent(self, step):
        """The messages that the model was sent at this step, the first being 1."""
        __tracebackhide__ = True
        if len(self.model.sent) < step:
            self.fail(f"{len(self.model.sent)} calls of the model", f"at least {step} of them", self.because)
        return self.model.sent[step - 1].messages

    def results(self, step):
        """The tool messages among them."""
        __tracebackhide__ = True
        return [each for each in self.sent(step) if isinstance(each, dict) and each.get("role") == "tool"]

    def seen(self, step):
        """The text of the last tool message among them, or '' when there is none."""
        __tracebackhide__ = True
        return str((self.results(step) or [{}])[-1].get("content", ""))


def _shown(message):
    if isinstance(message, BaseException):
        return repr(message)
    said = []
    for each in message.tool_calls or []:
        function = get_field(each, "function")
        name, raw = get_field(function, "name"), get_field(function, "arguments")
        plain = isinstance(raw, str) and raw.startswith("{") and raw.endswith("}")
        said.append(f"call({name!r}, {raw if plain else repr(raw)})")
    said += [] if message.content is None else [f"text={message.content!r}"]
    said += [f"tokens={message.tokens_used}"] if hasattr(message, "tokens_used") else []
    return f"turn({', '.join(map(shortened, said))})"


def play(repo, *turns, because, budget=None, raises=(), **options):
    """Run the loop on scripted turns. What is raised and isn't of the type ``raises`` fails the test."""
    __tracebackhide__ = True
    run = Run(repo, turns, budget or BudgetTracker(10, 10_000), because, options)
    try:
        run.got = run_agent(run.messages, repo, run.model, run.budget, **options)
        run.model.finish()
    except raises as error:
        run.error = error
    except NotImplementedError:
        raise
    except (Exception, pytest.fail.Exception) as error:
        run.error = error.with_traceback(error.__traceback__.tb_next)
        run.value("a RunResult", because)
    return run


class ScriptedTools:
    """A ``dispatch`` that plays ``results`` in order and raises the exceptions; ``calls`` records."""

    def __init__(self, *results):
        self.results, self.calls = results, []

    def __call__(self, name, arguments, repo_root):
        self.calls.append((name, deepcopy(arguments), repo_root))
        if len(self.calls) > len(self.results):
            pytest.fail(
                f"tools ran {len(self.calls)} times, and their script has {len(self.results)} results"
            )
        played = self.results[len(self.calls) - 1]
        if isinstance(played, BaseException):
            raise played
        return played

    def __repr__(self):
        return f"tools that play {', '.join(map(repr, self.results))}"


def outline(messages):
    """A transcript in a few words a message, to compare and to read."""
    lines = []
    for message in messages:
        role = get_field(message, "role")
        calls = [str(get_field(each, "id")) for each in get_field(message, "tool_calls") or []]
        asks = f" calls {', '.join(calls)}" if calls else ""
        answers = f" answers {get_field(message, 'tool_call_id')}" if role == "tool" else ""
        lines.append(f"{role}{asks}{answers}")
    return lines


ANSWER = Idea("A message without tool calls is the answer, however 'no calls' is spelt.", "3.1")
BESIDE = Idea("Text beside a tool call is thinking aloud; only a message without calls is an answer.", "3.1")
NOT_ADDED = Idea("An answer ends the run: it is in the result, and isn't added to `messages`.", "3.1")


class TestM3Answer:
    def test_a_message_without_calls_is_the_answer(self, repo):
        run = play(repo, turn(text="French"), because=ANSWER)
        run.ends("answered", answer="French", history=[])

    def test_an_empty_list_of_calls_is_no_calls(self, repo):
        message = turn(text="French")
        message.tool_calls = []
        play(repo, message, because=ANSWER).ends("answered", answer="French")

    def test_text_beside_a_call_is_not_the_answer(self, repo):
        looking = turn(call("read_file", SETTINGS), text="It must be English. Let me look.")
        play(repo, looking, turn(text="French"), because=BESIDE).ends("answered", answer="French")

    def test_the_answer_is_not_added_to_the_messages(self, repo):
        run = play(repo, turn(text="French"), because=NOT_ADDED)
        run.ends("answered")
        run.check("messages", outline(run.messages), ["user"])


SEAM = Idea("`dispatch` is a seam: the tool layer that the caller passes is the one that runs.", "3.7")
LOOKUP = Idea("Left out, it is this module's `dispatch_tool`, looked up when the run starts.", "3.7")
ROOT = Idea(
    "Every call runs with its own name and arguments, in the repository that the caller named.", "3.7"
)
OFFER = Idea("The model is offered the tools that the caller passed, no others, at every step.", "3.7")
FED_BACK = Idea(
    "What a tool returns goes back to the model, or its next turn knows no more than the last.", "3.1"
)
WHOSE = Idea(
    "Each result carries the `tool_call_id` of its call, or nobody can tell which call it answers.", "3.1"
)
ORDER = Idea(
    "The assistant's turn comes first, then its results: a result without its call is an orphan.", "3.1"
)
IN_PLACE = Idea(
    "`messages` is the run's transcript, extended in place: the caller reads it afterwards.", "3.1"
)
WHOLE_TALK = Idea("Each step sends the whole conversation so far: the model remembers nothing else.", "3.1")
EVERY_CALL = Idea("A turn may hold several calls: each is run, recorded and answered, in call order.", "3.1")
RECORD = Idea("The history holds every action whole, tool and arguments, as the model asked for it.", "3.1")


class TestM3Turn:
    def test_the_callers_tool_layer_runs(self, repo):
        tools = ScriptedTools("fr")
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=SEAM, dispatch=tools)
        run.ends("answered")
        run.check("the tools that ran", [name for name, _, _ in tools.calls], ["read_file"])

    def test_left_out_it_is_the_modules_own(self, repo, monkeypatch):
        tools = ScriptedTools("fr")
        monkeypatch.setattr(agent, "dispatch_tool", tools)
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=LOOKUP)
        run.ends("answered")
        run.check("the tools that ran", [name for name, _, _ in tools.calls], ["read_file"])

    def test_a_tool_gets_its_arguments_and_the_repository(self, repo):
        tools = ScriptedTools("fr")
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=ROOT, dispatch=tools)
        calls = [(name, arguments, Path(root)) for name, arguments, root in tools.calls]
        run.check("the calls of dispatch", calls, [("read_file", SETTINGS, repo)])

    def test_the_result_goes_back_to_the_model(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=FED_BACK)
        if 'DEFAULT_LANGUAGE = "fr"' not in run.seen(step=2):
            run.fail(
                f"step 2 was sent {outline(run.sent(2))}",
                "the text of settings.py in a tool message",
                FED_BACK,
            )

    def test_the_result_names_its_call(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS, id="c1")), turn(text="French"), because=WHOSE)
        run.check("tool_call_id", [each.get("tool_call_id") for each in run.results(step=2)], ["c1"])

    def test_the_assistants_turn_comes_before_its_results(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS, id="c1")), turn(text="French"), because=ORDER)
        run.check(
            "the messages of step 2", outline(run.sent(2)), ["user", "assistant calls c1", "tool answers c1"]
        )

    def test_the_messages_are_the_transcript(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS, id="c1")), turn(text="French"), because=IN_PLACE)
        run.check("messages", outline(run.messages), ["user", "assistant calls c1", "tool answers c1"])

    def test_every_step_sees_all_that_went_before(self, repo):
        first, second = turn(call("read_file", SETTINGS, id="c1")), turn(call("read_file", WORDS, id="c2"))
        run = play(repo, first, second, turn(text="French"), because=WHOLE_TALK)
        run.check("the messages of step 1", outline(run.sent(1)), ["user"])
        after_one = ["user", "assistant calls c1", "tool answers c1"]
        run.check("the messages of step 2", outline(run.sent(2)), after_one)
        run.check(
            "the messages of step 3",
            outline(run.sent(3)),
            [*after_one, "assistant calls c2", "tool answers c2"],
        )

    @pytest.mark.parametrize("tools", [TOOL_SCHEMAS[:1], []], ids=["one tool", "no tools"])
    def test_the_model_is_offered_the_callers_tools(self, repo, tools):
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=OFFER, tools=tools)
        run.check("the tools at each step", [each.tools for each in run.model.sent], [tools, tools])

    def test_left_out_the_model_is_offered_all_tools(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=OFFER)
        names = [[schema["function"]["name"] for schema in each.tools] for each in run.model.sent]
        run.check("the tools at each step", names, [["read_file", "list_directory", "search_code"]] * 2)

    def test_each_action_is_recorded_whole(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=RECORD)
        run.ends("answered", history=[Action("read_file", SETTINGS)])

    def test_every_call_of_a_turn_is_answered_in_order(self, repo):
        both = turn(call("read_file", SETTINGS, id="c1"), call("list_directory", {}, id="c2"))
        run = play(repo, both, turn(text="French"), because=EVERY_CALL)
        run.check(
            "the messages of step 2",
            outline(run.sent(2)),
            ["user", "assistant calls c1, c2", "tool answers c1", "tool answers c2"],
        )
        texts = [str(each.get("content")).splitlines()[0] for each in run.results(2)]
        run.check("the first lines of the results", texts, ['DEFAULT_LANGUAGE = "fr"', "README.md"])
        run.ends("answered", history=[Action("read_file", SETTINGS), Action("list_directory", {})])


COUNT_ALL = Idea("Every model call is a step that costs, also the one that brings the answer.", "3.3")
ONE_STEP = Idea("A step is one model call, however many tool calls it asks for.", "3.3")
ADD_UP = Idea("A run costs the sum of its model calls: what each of them used is added once.", "3.3")
CHARGE = Idea(
    "Each step is charged to the tracker that the caller passed, which may serve another run.", "3.3"
)
ESTIMATE = Idea(
    "What a step used is for `estimate_tokens` to say: the provider's count, or an estimate.", "3.3"
)


class TestM3Counts:
    def test_the_answer_is_a_step_too(self, repo):
        run = play(repo, turn(text="French", tokens=120), because=COUNT_ALL)
        run.ends("answered", steps=1)
        run.check("result.tokens > 0", run.got.tokens > 0, True)

    def test_each_step_is_charged_to_the_callers_tracker(self, repo):
        run = play(repo, *DIFFERENT, budget=BudgetTracker(2, 10_000), because=CHARGE)
        run.check("budget.steps", run.budget.steps, len(run.model.sent))

    def test_so_is_the_answer(self, repo):
        run = play(repo, DIFFERENT[0], turn(text="French"), because=COUNT_ALL)
        run.check("budget.steps", run.budget.steps, 2)

    def test_a_step_costs_what_the_provider_counted(self, repo):
        play(repo, turn(text="French", tokens=120), because=ESTIMATE).ends("answered", tokens=120)

    def test_a_step_that_nobody_counted_is_estimated(self, repo):
        message = turn(text="French. " * 50)
        play(repo, message, because=ESTIMATE).ends("answered", tokens=estimate_tokens(message))

    def test_tokens_add_up_over_the_run(self, repo):
        steps = turn(call("read_file", SETTINGS), tokens=100), turn(call("read_file", WORDS), tokens=300)
        run = play(repo, *steps, turn(text="French", tokens=200), because=ADD_UP)
        run.ends("answered", steps=3, tokens=600)
        run.check("budget.steps, budget.tokens", (run.budget.steps, run.budget.tokens), (3, 600))

    def test_two_calls_in_one_turn_are_one_step(self, repo):
        both = turn(call("read_file", SETTINGS), call("read_file", WORDS), tokens=100)
        run = play(repo, both, turn(text="French", tokens=100), because=ONE_STEP)
        run.ends("answered", steps=2, tokens=200)
        run.check("budget.steps, budget.tokens", (run.budget.steps, run.budget.tokens), (2, 200))


GO_ON = Idea("A tool's error is an observation: the run goes on, and the model can try another way.", "3.4")
CAUSE = Idea(
    "The observation says that it is an error and what caused it; that is what the model adapts to.", "3.4"
)
THE_REST = Idea("One call that fails doesn't take the others of its turn with it.", "3.4")
TRIED = Idea("A call that failed was an action too: without a record of it nobody sees the repeats.", "3.4")
ONCE = Idea("The loop runs each call once; to try again is for the model to decide.", "3.4")
PERSON = Idea(
    "Ctrl-C is a person's and not a tool's error: KeyboardInterrupt and SystemExit go through.", "3.4"
)
CALLERS = Idea(
    "The loop recovers from tools only: a model call that fails is for the caller to handle.", "3.4"
)


class Sulk(Exception):
    """An error that no list of known errors has."""


class TestM3Recovery:
    ERRORS = [
        ValueError("the path leads outside"),
        FileNotFoundError(2, "No such file", "settings.py"),
        KeyError("path"),
        TypeError("path must be a string"),
        TimeoutError("the disk is asleep"),
        StopIteration("nothing left"),
        Sulk("not today"),
    ]

    @pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
    def test_a_run_survives_a_tool_that_raises(self, repo, error):
        tools = ScriptedTools(error, "fr", "never asked for")
        turns = turn(call("read_file", SETTINGS)), turn(call("read_file", WORDS)), turn(text="French")
        play(repo, *turns, because=GO_ON, dispatch=tools).ends("answered", answer="French")

    def test_each_call_runs_once(self, repo):
        tools = ScriptedTools(ValueError("no such file"), "fr", "never asked for")
        turns = turn(call("read_file", MAIN)), turn(call("read_file", SETTINGS)), turn(text="French")
        run = play(repo, *turns, because=ONCE, dispatch=tools)
        paths = [arguments["path"] for _, arguments, _ in tools.calls]
        run.check("the paths that were read", paths, [MAIN["path"], SETTINGS["path"]])

    def test_a_run_survives_every_tool_that_raises(self, repo):
        tools = ScriptedTools(*self.ERRORS)
        run = play(repo, *DIFFERENT[:7], turn(text="I can't tell."), because=GO_ON, dispatch=tools)
        run.ends("answered", answer="I can't tell.")

    def test_the_model_is_told_what_went_wrong(self, repo):
        tools = ScriptedTools(ValueError("the path leads outside"))
        run = play(
            repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=CAUSE, dispatch=tools
        )
        seen = run.seen(step=2)
        if "the path leads outside" not in seen or "error" not in seen.lower():
            run.fail(
                f"step 2 was sent {outline(run.sent(2))}, the last text {seen!r}",
                "'Error: the path leads outside' in a tool message",
                CAUSE,
            )

    def test_each_error_has_its_own_cause(self, repo):
        tools = ScriptedTools(
            "first text", ValueError("second trouble"), OSError("third trouble"), "fourth text"
        )
        run = play(repo, *DIFFERENT[:4], turn(text="French"), because=CAUSE, dispatch=tools)
        for step, wanted in enumerate(("first text", "second trouble", "third trouble", "fourth text"), 2):
            if wanted not in run.seen(step):
                run.fail(f"step {step} was sent {run.seen(step)!r}", f"{wanted!r} in the last message", CAUSE)
            if wanted.endswith("text"):
                run.check(f"the last message of step {step}", run.seen(step), wanted, because=FED_BACK)

    def test_an_error_leaves_the_transcript_legal(self, repo):
        tools = ScriptedTools(ValueError("the path leads outside"))
        ask = turn(call("read_file", SETTINGS, id="c1"))
        run = play(repo, ask, turn(text="French"), because=CAUSE, dispatch=tools)
        run.check(
            "the messages of step 2", outline(run.sent(2)), ["user", "assistant calls c1", "tool answers c1"]
        )

    def test_the_rest_of_the_turn_still_runs(self, repo):
        tools = ScriptedTools(ValueError("no such file"), "fr", KeyError("path"))
        names = ("read_file", "list_directory", "read_file")
        three = [call(name, {"path": f"part {n}"}, id=f"c{n}") for n, name in enumerate(names, 1)]
        run = play(repo, turn(*three), turn(text="French"), because=THE_REST, dispatch=tools)
        answered = [f"tool answers c{n}" for n in (1, 2, 3)]
        run.check(
            "the messages of step 2", outline(run.sent(2)), ["user", "assistant calls c1, c2, c3", *answered]
        )

    def test_a_failed_call_is_an_action_too(self, repo):
        tools = ScriptedTools(ValueError("no such file"), "fr")
        turns = turn(call("read_file", MAIN)), turn(call("read_file", SETTINGS)), turn(text="French")
        run = play(repo, *turns, because=TRIED, dispatch=tools)
        run.ends("answered", history=[Action("read_file", MAIN), Action("read_file", SETTINGS)])

    @pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
    def test_a_person_can_interrupt(self, repo, signal):
        turns = turn(call("read_file", SETTINGS)), turn(text="French")
        run = play(repo, *turns, because=PERSON, raises=signal, dispatch=ScriptedTools(signal()))
        if run.error is None:
            run.fail(run.got, f"{signal.__name__}, raised", PERSON)

    def test_a_model_call_that_fails_goes_up(self, repo):
        turns = turn(call("read_file", SETTINGS)), ConnectionError("no route to the provider")
        run = play(repo, *turns, because=CALLERS, raises=ConnectionError)
        if run.error is None:
            run.fail(run.got, "ConnectionError, raised", CALLERS)
        run.check("the calls of the model", len(run.model.sent), 2)


AT_THE_THIRD = Idea(
    "The guard speaks in the turn that repeats: no more model calls are spent on a stuck run.", "3.2"
)
COSTLY = Idea("A step cap doesn't catch a few enormous steps: the token ceiling ends the run as well.", "3.3")
NO_MORE = Idea("`max_steps` model calls and not one more: the last allowed call is the last.", "3.3")
BACKSTOP = Idea("The loop is bounded by itself: a tracker that never objects doesn't make it endless.", "3.5")
FOUR = Idea(
    "There are four ways to stop, each with its own word; a failure is never told as a success.", "3.5"
)
STUCK_FIRST = Idea(
    "Stuck is told before budget: it says what to mend, where a larger budget wouldn't help.", "3.5"
)
NO_ANSWER = Idea(
    "Only the model answers: at a limit the answer is None, whatever was said or read before.", "3.5"
)


ITSELF = Idea("A result counts its own run: what the tracker had counted before belongs to another.", "3.3")


class NeverObjects(BudgetTracker):
    """A tracker that doesn't police its ceilings."""

    def over_budget(self):
        return None


class NeverCounts(BudgetTracker):
    """A tracker that forgets what it is told."""

    def tick(self, tokens_used):
        pass


class TestM3StopReasons:
    def test_a_run_that_repeats_itself_ends(self, repo):
        run = play(repo, *SAME, because=AT_THE_THIRD)
        run.check("the calls of the model", len(run.model.sent), 3)

    def test_a_run_that_costs_too_much_ends(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS), tokens=11_000), *DIFFERENT, because=COSTLY)
        run.check("the calls of the model", len(run.model.sent), 1)

    @pytest.mark.parametrize("max_steps", [0, 1, 2, 3])
    def test_a_run_that_takes_too_many_steps_ends(self, repo, max_steps):
        run = play(repo, *DIFFERENT, budget=BudgetTracker(max_steps, 10_000), because=NO_MORE)
        run.check("the calls of the model", len(run.model.sent), max_steps)

    @pytest.mark.parametrize("tracker", [NeverObjects, NeverCounts])
    def test_a_run_that_nobody_polices_ends(self, repo, tracker):
        run = play(repo, *DIFFERENT, budget=tracker(4, 10_000), because=BACKSTOP)
        run.check("the calls of the model", len(run.model.sent), 4)

    def test_a_second_run_on_one_tracker_counts_itself_only(self, repo):
        used = BudgetTracker(9, 10_000, steps=2, tokens=300)
        play(repo, turn(text="French", tokens=40), budget=used, because=ITSELF).ends(
            "answered", steps=1, tokens=40
        )

    @pytest.mark.parametrize(
        ("stop_reason", "turns", "budget"),
        [
            pytest.param(
                "answered", [DIFFERENT[0], turn(text="French")], BudgetTracker(9, 10_000), id="answered"
            ),
            pytest.param("stuck", SAME, BudgetTracker(9, 10_000), id="stuck"),
            pytest.param(
                "budget", [turn(call("read_file", SETTINGS), tokens=900)], BudgetTracker(9, 900), id="budget"
            ),
            pytest.param("max_steps", [], BudgetTracker(0, 10_000), id="no step allowed"),
            pytest.param("max_steps", DIFFERENT[:3], NeverObjects(3, 10_000), id="the loop's own bound"),
        ],
    )
    def test_each_way_to_stop_has_its_word(self, repo, stop_reason, turns, budget):
        play(repo, *turns, budget=deepcopy(budget), because=FOUR).ends(stop_reason)

    def test_the_step_ceiling_is_told_as_one(self, repo):
        run = play(repo, *DIFFERENT[:3], budget=BudgetTracker(3, 10_000), because=FOUR)
        if (
            getattr(run.got, "stop_reason", None) != "max_steps"
        ):  # the loop's own bound may be the first to speak
            run.ends("budget")

    @pytest.mark.parametrize(
        "budget", [BudgetTracker(2, 10_000), BudgetTracker(9, 1), NeverObjects(2, 10_000)], ids=str
    )
    def test_no_answer_at_a_ceiling(self, repo, budget):
        turns = [turn(call("read_file", path), text="It might be French.") for path in (SETTINGS, WORDS)]
        run = play(repo, *turns, budget=deepcopy(budget), because=NO_ANSWER)
        run.check("result.answer", getattr(run.got, "answer", run.got), None)

    def test_no_answer_when_stuck(self, repo):
        turns = [turn(call("read_file", SETTINGS), text="It might be French.") for _ in range(3)]
        play(repo, *turns, because=NO_ANSWER).ends("stuck", answer=None)


SLOW = Idea("Stuck is not slow: different calls are progress, however many there are.", "3.2")
THE_ACTION = Idea("Only the action counts: not its id, its JSON spelling or the text beside it.", "3.2")
HOW_MANY = Idea("How many repeats are too many is the caller's `stuck_window`.", "3.2")
IN_ONE_TURN = Idea("Every call is an action: identical calls in one turn are repeats as well.", "3.2")
FULL_TURN = Idea("Guards speak after the turn is played in full, so that the transcript stays legal.", "3.1")
PAID = Idea("An answer that arrives on the last allowed step has been paid for, and is kept.", "3.3")


class TestM3Stuck:
    def test_reading_one_file_page_by_page_is_not_stuck(self, repo):
        pages = [turn(call("read_file", {"path": "settings.py", "start_line": n})) for n in range(1, 6)]
        play(repo, *pages, turn(text="French"), because=SLOW).ends("answered", steps=6)

    def test_a_run_that_moves_on_after_two_is_not_stuck(self, repo):
        turns = *SAME[:2], DIFFERENT[0], *SAME[:2], turn(text="French")
        play(repo, *turns, because=SLOW).ends("answered", steps=6)

    def test_other_words_around_the_same_action_are_still_stuck(self, repo):
        spellings = (
            '{"path": "a.py", "start_line": 2}',
            '{"start_line":2,"path":"a.py"}',
            ' {"path":"a.py",\n"start_line":2}',
        )
        turns = [turn(call("read_file", raw), text=f"Try {n}") for n, raw in enumerate(spellings)]
        play(repo, *turns, because=THE_ACTION).ends("stuck")

    @pytest.mark.parametrize("window", [1, 2, 5])
    def test_the_window_is_the_callers(self, repo, window):
        play(repo, *SAME, because=HOW_MANY, stuck_window=window).ends("stuck", steps=window)

    def test_a_window_of_zero_turns_the_guard_off(self, repo):
        play(repo, *SAME[:5], turn(text="French"), because=HOW_MANY, stuck_window=0).ends("answered")

    def test_three_times_in_one_turn_is_stuck(self, repo):
        play(repo, turn(*[call("read_file", SETTINGS) for _ in range(3)]), because=IN_ONE_TURN).ends(
            "stuck", steps=1
        )

    def test_a_turn_is_played_to_its_end(self, repo):
        calls = [call("read_file", SETTINGS) for _ in range(3)] + [call("read_file", WORDS)]
        play(repo, turn(*calls), turn(text="French"), because=FULL_TURN).ends("answered", steps=2)

    def test_a_stuck_run_leaves_a_legal_transcript(self, repo):
        run = play(repo, *SAME[:3], because=FULL_TURN)
        run.ends("stuck", history=[Action("search_code", {"query": "greet"})] * 3)
        run.check("what is wrong with messages", transcript_fault(run.messages), None)
        run.check(
            "the roles",
            [line.split()[0] for line in outline(run.messages)],
            ["user", *["assistant", "tool"] * 3],
        )

    def test_failing_the_same_way_three_times_is_stuck(self, repo):
        tools = ScriptedTools(*[ValueError("no such file")] * 3)
        play(repo, *SAME[:3], because=TRIED, dispatch=tools).ends("stuck", answer=None)


class TestM3Ceilings:
    def test_one_token_below_the_ceiling_it_goes_on(self, repo):
        run = play(repo, turn(call("read_file", SETTINGS), tokens=9_998), turn(text="French"), because=COSTLY)
        run.ends("answered", answer="French")

    def test_an_answer_on_the_last_step_is_kept(self, repo):
        run = play(repo, *DIFFERENT[:2], turn(text="French"), budget=BudgetTracker(3, 10_000), because=PAID)
        run.ends("answered", answer="French", steps=3)

    def test_an_answer_that_breaks_the_token_ceiling_is_kept(self, repo):
        run = play(repo, DIFFERENT[0], turn(text="French", tokens=20_000), because=PAID)
        run.ends("answered", answer="French", steps=2)

    def test_a_run_over_budget_leaves_a_legal_transcript(self, repo):
        run = play(
            repo,
            turn(call("read_file", SETTINGS), call("read_file", WORDS), tokens=11_000),
            because=FULL_TURN,
        )
        run.ends("budget", history=[Action("read_file", SETTINGS), Action("read_file", WORDS)])
        run.check("what is wrong with messages", transcript_fault(run.messages), None)
        run.check("the number of messages", len(run.messages), 4)

    def test_a_tracker_goes_on_from_where_it_stands(self, repo):
        run = play(repo, DIFFERENT[0], budget=BudgetTracker(3, 10_000, steps=2, tokens=50), because=CHARGE)
        run.check("budget.steps", run.budget.steps, 3)

    def test_stuck_on_the_last_step_is_stuck(self, repo):
        play(repo, *SAME[:3], budget=BudgetTracker(3, 10_000), because=STUCK_FIRST).ends("stuck")


ANY_TURN = Idea(
    "Whatever a model sends, each of its calls is answered, and the run goes on to its end.", "3.4"
)
A_PY = '{"path": "settings.py"}'
ODD_TURNS = {
    "arguments that are cut off": [call("read_file", '{"path": "settings.p', id="c1")],
    "arguments that aren't an object": [
        call("read_file", raw, id=raw) for raw in ("null", "[1]", "3", "true", "NaN")
    ],
    "arguments that are no text": [
        call("read_file", raw, id=f"c{raw}") for raw in (None, 5, ["path"], {1: 2})
    ],
    "two objects in one": [call("read_file", A_PY + A_PY, id="c1")],
    "arguments of the wrong type": [
        call("read_file", {"path": value}, id=f"{value}") for value in (None, 5, [], {})
    ],
    "a parameter too many": [
        call("read_file", {"path": "settings.py", "repo_root": "/", "self": 1}, id="c1")
    ],
    "a bad call before a good one": [call("read_file", "{bad", id="c1"), call("read_file", A_PY, id="c2")],
    "tools that don't exist": [
        call(name, {}, id=f"{name}") for name in ("", " ", "READ_FILE", "__class__", None, 5)
    ],
    "a name that can't be hashed": [call(["read_file"], {}, id="c1")],
    "files that don't exist": [
        call("read_file", {"path": path}, id=path) for path in ("nope", "../x", "\ud800", "x" * 5000)
    ],
    "no id": [call("read_file", A_PY, id=None), call("list_directory", {}, id="")],
    "one id twice": [call("read_file", A_PY, id="c1"), call("list_directory", {}, id="c1")],
    "no function": [call("read_file", A_PY, id="c1"), {"id": "c2"}, "junk", None],
    "lone surrogates": [call("search_code", {"query": "\ud800"}, id="c1")],
    "nesting without end": [
        call("read_file", '{"path":' * 5000, id="c1"),
        call("read_file", "[" * 100_000, id="c2"),
    ],
}


class TestM3AnyTurn:
    @pytest.mark.parametrize("calls", ODD_TURNS.values(), ids=ODD_TURNS.keys())
    def test_an_odd_turn_is_answered(self, repo, calls):
        odd = turn(*calls, tokens=100)
        run = play(repo, odd, turn(text="French"), because=ANY_TURN, stuck_window=0)
        run.ends("answered", answer="French", steps=2)
        run.check("len(result.history)", len(run.got.history), len(calls))
        run.check("what is wrong with the messages of step 2", transcript_fault(run.sent(2)), None)
        for message in run.results(2):
            json.dumps(message["content"]).encode()
            if len(message["content"]) > 25_000:
                run.fail(f"a result of {len(message['content'])} characters", "a bounded one", ANY_TURN)

    def test_a_bad_call_does_not_run(self, repo):
        run = play(repo, turn(call("list_directory", "{oops")), turn(text="?"), because=ANY_TURN)
        if "README.md" in run.seen(2):
            run.fail(run.seen(2), "an error that says what is wrong with the arguments", ANY_TURN)

    def test_the_same_bad_call_is_stuck_in_the_end(self, repo):
        play(repo, *[turn(call("", "{bad")) for _ in range(5)], because=ANY_TURN).ends("stuck", steps=3)

    def test_the_same_unknown_tool_at_no_cost_ends_at_the_ceiling(self, repo):
        turns = [turn(call("read", {"try": n}), tokens=0) for n in range(9)]
        run = play(repo, *turns, budget=BudgetTracker(4, 10_000), because=NO_MORE)
        run.check("the calls of the model", len(run.model.sent), 4)

    def test_the_record_is_what_the_model_asked_for(self, repo):
        def tool_that_changes_its_arguments(name, arguments, repo_root):
            arguments["path"] = "elsewhere"
            return "text"

        run = play(
            repo, turn(call("read_file", SETTINGS)), turn(text="French"), because=RECORD, dispatch=tool_that_changes_its_arguments
        )
        run.ends("answered", history=[Action("read_file", SETTINGS)])
