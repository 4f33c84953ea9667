"""test_messages.py: the provided parts that the loop stands on, and what a model may throw at them.

All of this passes before the first milestone: `parse_tool_calls`, `estimate_tokens`, `describe_error`
and `RunResult` of agent.py, `Action` and the fields of `BudgetTracker` of safety.py.
"""

import doctest
import json
import math
import re
from copy import deepcopy
from types import SimpleNamespace

import pytest

import agent
from agent import RunResult, ToolCall, describe_error, estimate_tokens, parse_tool_calls, wire_messages
from safety import Action, BudgetTracker
from tests.conftest import call, transcript_fault, turn
from tools import MALFORMED, dispatch_tool

A_PY = {"path": "a.py"}


def arguments_of(raw):
    """What `parse_tool_calls` makes of one call's raw arguments."""
    (parsed,) = parse_tool_calls(turn(call("read_file", raw)))
    return parsed.arguments


def nested(depth):
    """JSON text of an object that holds lists and objects ``depth`` levels deep."""
    return '{"a":' * depth + "1" + "}" * depth


class TestArguments:
    @pytest.mark.parametrize("raw", ["", "  ", "\n", "\t\r\n", "{}", " {} ", {}], ids=repr)
    def test_no_arguments_have_many_spellings(self, raw):
        assert arguments_of(raw) == {}, f"{raw!r} is how some provider spells 'no arguments'"

    def test_none_is_no_arguments(self):
        message = turn(
            SimpleNamespace(id="c1", function=SimpleNamespace(name="list_directory", arguments=None))
        )
        assert parse_tool_calls(message) == [ToolCall("c1", "list_directory", {})]

    @pytest.mark.parametrize(
        "raw",
        [
            '{"path": "a.py"}',
            '{"path":"a.py"}',
            ' {"path":\n"a.py"}\n',
            '{"pa\\u0074h": "a.py"}',
            A_PY,
            json.dumps(json.dumps(A_PY)),
        ],
        ids=repr,
    )
    def test_one_object_has_many_spellings(self, raw):
        assert arguments_of(raw) == A_PY, f"{raw!r} spells {A_PY}"
        assert Action("read_file", arguments_of(raw)) == Action("read_file", A_PY)

    @pytest.mark.parametrize(
        ("raw", "wanted"),
        [
            ('{"query": "def f(\n"}', {"query": "def f(\n"}),
            ('{"query": "a\tb"}', {"query": "a\tb"}),
            ('{"query": "a  b"}', {"query": "a  b"}),
            ('{"query": "\\ud800"}', {"query": "\ud800"}),
            ('{"n": 1e300, "m": 12345678901234567890}', {"n": 1e300, "m": 12345678901234567890}),
            ('{"path": "a.py", "path": "b.py"}', {"path": "b.py"}),
            (nested(40), json.loads(nested(40))),
        ],
    )
    def test_values_come_through_as_they_are(self, raw, wanted):
        assert arguments_of(raw) == wanted

    @pytest.mark.parametrize(
        "raw",
        [
            *["null", "[]", "[1]", '[{"path": "a.py"}]', "3", "-0.5", "true", '"a.py"', '"{bad"'],
            *["NaN", "Infinity", '{"path": NaN}', '{"n": -Infinity}'],
            *[
                "{oops",
                '{"path": "a.p',
                '{"{"path":"a.py"}',
                "{'path': 'a.py'}",
                '{"path": "a.py",}',
                "path=a.py",
            ],
            *['{"path":"a.py"}{"path":"b.py"}', '{"path":"a.py"} and more', '```json\n{"path":"a.py"}\n```'],
            *[r'{"query": "\d+"}', r'{"path": "C:\dir\x"}', "\ufeff{}", "\x00", "\ud800"],
            *[json.dumps(json.dumps(json.dumps(A_PY))), json.dumps("null")],
            *[nested(201), nested(5000), "[" * 100_000, '{"a":' * 5000, "9" * 5000],
            *[5, 1.5, True, b"{}", [], ["path"], ("path", "a.py"), object()],
        ],
        ids=lambda raw: repr(raw)[:40],
    )
    def test_anything_else_is_refused_and_explained(self, raw, repo):
        arguments = arguments_of(raw)
        assert list(arguments) == [MALFORMED], f"{raw!r} is not a JSON object"
        assert isinstance(arguments[MALFORMED], str) and 0 < len(arguments[MALFORMED]) < 1000
        for tool in ("list_directory", "read_file", "search_code"):
            seen = dispatch_tool(tool, arguments, repo)
            assert seen.startswith("Error") and "README.md" not in seen, (
                "a tool is never run on guessed arguments"
            )
            assert tool in seen and "JSON object" in seen, "the model is told what a right call looks like"
            assert len(seen.encode()) < 5000

    def test_where_broken_json_breaks_is_told(self):
        assert "char 17" in arguments_of('{"path": "a.py", path}')[MALFORMED]

    def test_equal_malformed_calls_are_equal_actions(self):
        assert Action("read_file", arguments_of("{bad")) == Action("read_file", arguments_of("{bad"))
        assert Action("read_file", arguments_of("{bad")) != Action("read_file", arguments_of("{worse"))

    def test_a_dict_is_copied(self):
        given = {"path": ["a.py"]}
        parsed = parse_tool_calls(
            {"tool_calls": [{"id": "c1", "function": {"name": "x", "arguments": given}}]}
        )
        parsed[0].arguments["path"].append("changed")
        assert given == {"path": ["a.py"]}


class TestCalls:
    @pytest.mark.parametrize("calls", [None, [], (), 0, "", "text", 7, {}, {"id": "c1"}, False], ids=repr)
    def test_no_calls_have_many_spellings(self, calls):
        assert parse_tool_calls(SimpleNamespace(content="hello", tool_calls=calls)) == []
        assert parse_tool_calls({"content": "hello", "tool_calls": calls}) == []

    @pytest.mark.parametrize(
        "message", [None, {}, "text", [], 3, SimpleNamespace(), {"role": "assistant"}], ids=repr
    )
    def test_what_is_no_message_has_no_calls(self, message):
        assert parse_tool_calls(message) == []

    def test_dicts_and_objects_are_read_alike(self):
        as_dict = {
            "id": "c1",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "a.py"}'},
        }
        wanted = [ToolCall("c1", "read_file", A_PY)]
        assert parse_tool_calls({"tool_calls": [as_dict]}) == wanted
        assert parse_tool_calls(turn(call("read_file", A_PY, id="c1"))) == wanted
        assert parse_tool_calls(SimpleNamespace(tool_calls=[as_dict])) == wanted

    @pytest.mark.parametrize(
        "entry",
        [None, "junk", 7, {}, [], {"id": "c1"}, {"function": None}, {"function": "x"}, SimpleNamespace()],
        ids=repr,
    )
    def test_a_broken_entry_is_still_a_call_to_answer(self, entry):
        first, second = parse_tool_calls(turn(entry, call("read_file", A_PY, id="c2")))
        assert (first.name, first.arguments) == ("", {})
        assert second == ToolCall("c2", "read_file", A_PY)

    @pytest.mark.parametrize("id", [None, 5, [], {}, True], ids=repr)
    def test_an_id_that_is_no_text_is_empty(self, id):
        assert parse_tool_calls(turn(call("read_file", A_PY, id=id)))[0].id == ""

    def test_equal_and_empty_ids_hide_no_call(self):
        message = turn(
            *[
                call("read_file", {"path": path}, id=id)
                for path, id in (("a", ""), ("b", ""), ("c", "x"), ("d", "x"))
            ]
        )
        assert [(each.id, each.arguments["path"]) for each in parse_tool_calls(message)] == [
            ("", "a"), ("", "b"), ("x", "c"), ("x", "d"),
        ]  # fmt: skip

    @pytest.mark.parametrize("name", [None, 5, True, ["read_file"], {"read_file": 1}], ids=repr)
    def test_a_name_that_is_no_text_is_empty(self, name):
        assert parse_tool_calls(turn(call(name, A_PY)))[0].name == ""

    @pytest.mark.parametrize(
        "name", ["", " ", "read_file ", "READ_FILE", "functions.read_file", "__class__", "\ud800"]
    )
    def test_a_name_is_kept_as_it_is_and_answered(self, name, repo):
        (parsed,) = parse_tool_calls(turn(call(name, A_PY)))
        assert parsed.name == name
        seen = dispatch_tool(parsed.name, parsed.arguments, repo)
        assert all(tool in seen for tool in ("read_file", "list_directory", "search_code")), (
            "the model is told what exists"
        )

    def test_parsing_changes_nothing(self):
        message = turn(
            call("read_file", '{"path":"a.py"}', id="c1"), call("list_directory", "{}", id="c2"), text="hm"
        )
        before = deepcopy(message)
        parse_tool_calls(message)
        assert message == before


class TestTokens:
    @pytest.mark.parametrize("count", [1, 12_150, 10**12])
    def test_the_providers_count_is_taken(self, count):
        assert estimate_tokens(turn(text="x" * 40_000, tokens=count)) == count
        assert estimate_tokens({"content": "x" * 40_000, "tokens_used": count}) == count

    @pytest.mark.parametrize("count", [None, 0, -5, "12", 1.5, math.nan, [], {}, True], ids=repr)
    def test_a_count_that_cannot_be_is_estimated(self, count):
        message = SimpleNamespace(content="x" * 400, tool_calls=None, tokens_used=count)
        assert estimate_tokens(message) == 100

    def test_four_characters_are_a_token(self):
        assert estimate_tokens(turn(text="x" * 400)) == 100
        assert estimate_tokens(turn(call("n" * 40, "a" * 360))) == 100
        assert (
            estimate_tokens(turn(call("n" * 40, "a" * 60), call("n" * 40, "a" * 60), text="x" * 200)) == 100
        )

    @pytest.mark.parametrize(
        "message",
        [
            None,
            {},
            "text",
            turn(),
            turn(text=""),
            turn(text=[]),
            turn(None, "junk", {}),
            turn(call(None, None)),
            turn(text=0),
        ],
        ids=repr,
    )
    def test_no_call_is_free(self, message):
        counted = estimate_tokens(message)
        assert type(counted) is int and counted >= 1

    def test_nesting_without_end_is_no_error(self):
        endless: list = []
        for _ in range(5_000):
            endless = [endless]
        assert estimate_tokens(turn(call("x", endless), text=endless)) >= 1
        assert MALFORMED in arguments_of(endless)

    def test_parts_and_dicts_are_measured_too(self):
        assert estimate_tokens(turn(text=[{"type": "text", "text": "x" * 400}])) >= 100
        assert estimate_tokens(turn(call("read_file", {"path": "x" * 400}))) >= 100


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "wanted"),
        [
            (ValueError("the path leads outside"), "Error: the path leads outside"),
            (KeyError("path"), "Error: KeyError: 'path'"),
            (RuntimeError(), "Error: RuntimeError"),
            (RuntimeError("  \n"), "Error: RuntimeError"),
            (KeyError(), "Error: KeyError"),
            (AssertionError(), "Error: AssertionError"),
            (
                OSError(2, "No such file or directory", "a.py"),
                "Error: [Errno 2] No such file or directory: 'a.py'",
            ),
            (
                UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
                "Error: 'utf-8' codec can't decode byte 0xff in position 0: bad",
            ),
        ],
        ids=repr,
    )
    def test_the_model_is_told_what_happened(self, error, wanted):
        assert describe_error(error) == wanted

    def test_an_error_that_cannot_be_told_is_told_by_its_type(self):
        class Broken(Exception):
            def __str__(self):
                raise RuntimeError("no words")

        assert "Broken" in describe_error(Broken())

    def test_any_error_is_a_bounded_text_that_can_be_sent(self):
        assert len(describe_error(ValueError("x" * 10**6))) < 2000
        assert describe_error(ValueError("\ud800")).encode("utf-8")


USER = {"role": "user", "content": "Which language is the default?"}


def result(text="text", id="c1"):
    return {"role": "tool", "tool_call_id": id, "content": text}


class TestWire:
    @staticmethod
    def check(messages):
        """What goes to a provider: a legal conversation, strict JSON, nothing of ours."""
        before = deepcopy(messages)
        sent = wire_messages(messages)
        assert messages == before, "the transcript stays as it is"
        assert transcript_fault(sent) is None
        json.dumps(sent, ensure_ascii=False, allow_nan=False).encode("utf-8")
        calls = [each for message in sent for each in message.get("tool_calls", [])]
        ids = [each["id"] for each in calls]
        assert len(ids) == len(set(ids)) and all(ids), f"ids are unique and not empty: {ids}"
        for each in calls:
            assert set(each) == {"id", "type", "function"} and set(each["function"]) == {"name", "arguments"}
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each["function"]["name"])
            arguments = json.loads(each["function"]["arguments"], parse_constant=pytest.fail)
            assert isinstance(arguments, dict)
        for message in sent:
            assert set(message) <= {"role", "content", "tool_calls", "tool_call_id"}
            assert isinstance(message["content"], str) and message.get("tool_calls") != []
        return sent

    @pytest.mark.parametrize(
        "messages",
        [
            pytest.param([], id="nothing"),
            pytest.param([USER, turn(call("read_file", A_PY, id="c1")), result()], id="as it should be"),
            pytest.param([USER, turn(call("read_file", "{bad", id="c1")), result()], id="broken arguments"),
            pytest.param([USER, turn(call("read_file", None, id="c1")), result()], id="no arguments"),
            pytest.param(
                [USER, turn(call("read_file", "[1]", id="c1")), result()], id="a list for arguments"
            ),
            pytest.param([USER, turn(call("", "", id="")), result(id="")], id="an empty call"),
            pytest.param(
                [USER, turn(call("a b/c.d é", {}, id=None)), result(id="")], id="a name no provider takes"
            ),
            pytest.param([USER, turn(call("n" * 200, {})), result()], id="a very long name"),
            pytest.param(
                [USER, turn(*[call("x", {}, id="c1")] * 3), *[result()] * 3], id="one id three times"
            ),
            pytest.param([USER, *[turn(call("x", {}, id="c1")), result()] * 3], id="one id in three turns"),
            pytest.param(
                [USER, turn(call("x", {}, id="c1"), "junk", None, {"id": 5}), *[result()] * 4],
                id="junk for calls",
            ),
            pytest.param([USER, turn(call("x", {}, id="c1"))], id="a result that is missing"),
            pytest.param(
                [USER, turn(call("x", {}, id="c1"), call("y", {}, id="c2")), result(), USER], id="broken off"
            ),
            pytest.param([USER, result("orphan"), turn(text="hm"), result("orphan")], id="orphans"),
            pytest.param(
                [USER, turn(call("x", {}, id="c1")), result(), result("twice")], id="a result too many"
            ),
            pytest.param([USER, turn(call("x", {}, id="c1")), result("")], id="an empty result"),
            pytest.param([USER, turn(call("x", {}, id="c1")), result(None)], id="no result"),
            pytest.param(
                [{"role": "user", "content": ["a", {"text": "b"}, {"type": "image_url"}]}], id="parts"
            ),
            pytest.param(
                [USER, turn(text="\ud800"), {"role": "user", "content": "\ud800"}], id="lone surrogates"
            ),
            pytest.param(
                [USER, turn(call("\ud800", {"q": "\ud800"}, id="c1")), result("\ud800")], id="and in calls"
            ),
            pytest.param([USER, turn(text="hm", tokens=12)], id="a count of ours"),
            pytest.param(
                [USER, turn(*[call("x", {}, id=id) for id in ("call_1", "", "")])], id="ids like ours"
            ),
            pytest.param(
                [USER, turn(call("x", '{"n": 1e400}', id="c1")), result()], id="a number beyond any"
            ),
            pytest.param(
                [USER, turn(call("x", {}, id="\ud800")), result()], id="an id that can't be written"
            ),
        ],
    )
    def test_any_transcript_becomes_a_legal_conversation(self, messages):
        self.check(messages)

    def test_nothing_that_was_said_is_lost(self):
        asks = turn(
            call("read_file", A_PY, id="c1"), call("search_code", {"query": "é"}, id="c2"), text="Two looks."
        )
        sent = self.check([USER, asks, result("one"), result("two", id="c2"), turn(text="French")])
        assert [message["content"] for message in sent] == [
            USER["content"],
            "Two looks.",
            "one",
            "two",
            "French",
        ]
        assert [each["id"] for each in sent[1]["tool_calls"]] == ["c1", "c2"]
        assert json.loads(sent[1]["tool_calls"][1]["function"]["arguments"]) == {"query": "é"}


class TestRecords:
    def test_an_action_is_equal_by_value(self):
        one, other = Action("read_file", {"a": 1, "b": [2]}), Action("read_file", {"b": [2], "a": 1})
        assert one == other and hash(one) == hash(other) and one in {other}
        assert Action("read_file", {"a": {"x": 1, "y": 2}}) == Action("read_file", {"a": {"y": 2, "x": 1}})

    @pytest.mark.parametrize(
        "other",
        [
            Action("list_directory", {"path": "a.py"}),
            Action("read_file", {"path": "A.py"}),
            Action("read_file", {}),
        ],
        ids=str,
    )
    def test_an_action_differs_by_either_part(self, other):
        assert Action("read_file", A_PY) != other

    @pytest.mark.parametrize(
        "arguments", [None, "text", {"path": ["a"]}, {"q": {"x": [1]}}, {"n": math.nan}, {}], ids=repr
    )
    def test_any_arguments_make_an_action(self, arguments):
        action = Action("read_file", arguments)
        assert len({action, action}) == 1 and str(action).startswith("read_file(")

    def test_an_action_is_a_snapshot(self):
        arguments = {"path": ["a.py"]}
        action = Action("read_file", arguments)
        arguments["path"].append("b.py")
        arguments.clear()
        assert action.arguments == {"path": ["a.py"]}
        with pytest.raises(AttributeError):
            action.tool = "other"

    def test_an_action_reads_like_a_call(self):
        assert (
            str(Action("read_file", {"path": "a.py", "start_line": 3}))
            == "read_file(path='a.py', start_line=3)"
        )

    def test_a_tracker_starts_at_zero(self):
        budget = BudgetTracker(5, 10_000)
        assert (budget.max_steps, budget.max_tokens, budget.steps, budget.tokens) == (5, 10_000, 0, 0)
        assert BudgetTracker(0, 0, 3, 40) == BudgetTracker(max_steps=0, max_tokens=0, steps=3, tokens=40)

    @pytest.mark.parametrize("value", [-1, 2.5, math.nan, math.inf, "3", None, True, [3]], ids=repr)
    @pytest.mark.parametrize("field", ["max_steps", "max_tokens", "steps", "tokens"])
    def test_a_tracker_refuses_what_is_no_count(self, field, value):
        with pytest.raises(ValueError, match=field):
            BudgetTracker(**{"max_steps": 5, "max_tokens": 10_000, field: value})

    def test_a_result_needs_no_detail(self):
        result = RunResult(None, [], 0, 0, "max_steps")
        assert (result.answer, result.history, result.steps, result.tokens, result.detail) == (
            None,
            [],
            0,
            0,
            "",
        )

    def test_the_examples_in_docstrings_hold(self):
        for owner in (describe_error, parse_tool_calls, estimate_tokens):
            for test in doctest.DocTestFinder().find(owner, globs=vars(agent)):
                assert doctest.DocTestRunner().run(test).failed == 0
