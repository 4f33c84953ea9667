"""repair.py: reads tool calls that a model wrote as text, and asks again for what can't be read.

Small models know the format of a call and send it in the wrong place: a fenced JSON block, bare JSON, a
tag. Those become real calls. A reply that is no call and no answer (only a tool's name, an announcement,
half a call) is shown to the model with a request to put it right, a bounded number of times.

Seam: ``complete``.
Helps: models without native tool calls; without it every such call ends the run as an "answer".
Hurts: each repair is a model call; and an answer that consists of such JSON is taken for a call.
"""

import json
import re
from itertools import count
from types import SimpleNamespace
from typing import Any

from agent import parse_tool_calls
from extras.seams import Complete, StopRun, charged, note, rewritten, said, text_of

MAX_REPAIRS = 2
SENTINEL = "Error: the model gave neither a tool call nor an answer."
REQUEST = (
    "That is neither a tool call nor an answer: {fault}. The tools are {names}. Reply with one call as a "
    "JSON object and nothing else, such as {example}, or with the answer in plain text."
)
CALL_STARTS = re.compile(r"(?:^|\n|```\w*|<\w+>)[ \t]*\{?(?=\{)")  # some models double the braces
MARKUP = re.compile(r"\s*</?(?:tools?|tool_calls?|tool_response|function)\b[^>]*>", re.IGNORECASE)
WRITTEN = re.compile(CALL_STARTS.pattern + r'\{\s*"(?:name|tool|function|type)"')
ANNOUNCED = re.compile(
    r"\b(?:I will|I'll|I am going to|I'm going to|let me|let's|I need to)\s+(?:\w+\s+){0,3}?"
    r"(?:use|call|search|read|list|look|open|check|find|examine|try)\b",
    re.IGNORECASE,
)
ADVISED = re.compile(r"\s*To [^.]*\b(?:you|we) (?:can|could|should|need to) (?:use|call)\b", re.IGNORECASE)


def calls_in(text: str, names: list[str]) -> list[tuple[str, dict]]:
    """The distinct calls of tools in ``names`` that ``text`` holds as JSON, each at the start of a line."""
    decoder, calls, end = json.JSONDecoder(strict=False), [], 0
    for start in CALL_STARTS.finditer(text):
        if start.end() < end:
            continue  # inside an object that was read
        try:
            value, end = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            continue
        value = value.get("function", value) if isinstance(value.get("function", value), dict) else value
        name = next((value[key] for key in ("name", "tool", "function") if value.get(key) in names), None)
        given = next((value[key] for key in ("arguments", "args", "parameters") if key in value), None)
        echo = "description" in value  # the tool's schema, and no call of it
        if name and isinstance(given, dict) and not echo and (name, given) not in calls:
            calls.append((name, given))
    return calls


def fault_of(text: str, names: list[str]) -> str | None:
    """Why ``text`` doesn't look like an answer; None when it does."""
    named = [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]
    if not text.strip():
        return "it is empty"
    if named and (not re.sub(rf"[\W_]|{'|'.join(map(re.escape, names))}", "", text)):
        return "it is only the name of a tool"
    if WRITTEN.search(text) and (named or re.search(r'"(?:arguments|args|parameters)"\s*:', text)):
        return "it holds no call that can be run: an unknown tool, no arguments, or JSON that breaks off"
    if MARKUP.match(text):
        return "it repeats the markup of tool use"
    if len(text) < 300 and ANNOUNCED.search(text):
        return "it announces a step and doesn't take it"
    if named and ADVISED.match(text):
        return "it advises a call instead of making it"
    return None


def repairing(complete: Complete, attempts: int = MAX_REPAIRS) -> Complete:
    """``complete`` for models that write their calls as text.

    Native calls pass unchanged, and so does text that looks like an answer. ``{"answer": "..."}`` becomes
    its text. After ``attempts`` repairs without effect the run ends as ``"error"``. All replies are charged.
    """
    ids = count(1)

    def repaired(messages: list, tools: list) -> Any:
        message, paid, sent = complete(messages, tools), [], list(messages)
        names = [tool["function"]["name"] for tool in tools]
        while names and not parse_tool_calls(message):
            text = text_of(message)
            if calls := calls_in(text, names):
                message = rewritten(
                    message, None, [_as_call(f"repaired_{next(ids)}", *call) for call in calls]
                )
                break
            if (fault := fault_of(text, names)) is None:
                message = rewritten(message, _unwrapped(text)) if _unwrapped(text) else message
                break
            paid.append(message)
            if len(paid) > attempts:
                raise StopRun("error", SENTINEL, SENTINEL, charged(message, *paid[:-1]).tokens_used)
            sent += [said(message), note(_request(fault, text, tools), "user")]
            message = complete(sent, tools)
        return charged(message, *paid) if paid else message

    return repaired


def _request(fault: str, text: str, tools: list) -> str:
    """What is wrong, and a right call of the tool that ``text`` names (of the first, when it names none)."""
    functions = [tool["function"] for tool in tools]
    function = next((f for f in functions if f["name"] in text), functions[0])
    arguments = dict.fromkeys(function["parameters"].get("required", []), "...")
    example = json.dumps({"name": function["name"], "arguments": arguments})
    return REQUEST.format(fault=fault, names=", ".join(f["name"] for f in functions), example=example)


def _as_call(call_id: str, name: str, arguments: dict) -> SimpleNamespace:
    function = SimpleNamespace(name=name, arguments=json.dumps(arguments))
    return SimpleNamespace(id=call_id, type="function", function=function)


def _unwrapped(text: str) -> str | None:
    """The text of a reply that is nothing but ``{"answer": "..."}``, fenced or not."""
    try:
        value = json.loads(re.sub(r"^\s*```\w*\s*|\s*```\s*$", "", text), strict=False)
    except (ValueError, RecursionError):
        return None
    answer = value.get("answer") if isinstance(value, dict) else None
    return answer if isinstance(answer, str) and answer.strip() else None
