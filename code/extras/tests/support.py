"""What the tests of the extras share beside `tests.conftest`."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from agent import get_field, parse_tool_calls
from tests.conftest import call, explain, turn

wrong = partial(explain, section="10")  # the words of a failure: called, got, wanted, idea


def read(path: str, **more: Any) -> SimpleNamespace:
    """A call of read_file."""
    return call("read_file", {"path": path, **more})


def search(query: str) -> SimpleNamespace:
    """A call of search_code."""
    return call("search_code", {"query": query})


def task(text: str = "what is RETRIES?") -> list:
    """A fresh transcript: the system prompt and one task."""
    return [{"role": "system", "content": "You answer questions."}, {"role": "user", "content": text}]


def contents(messages: list, role: str) -> list[str]:
    """The contents of all messages of one role, in order."""
    return [get_field(message, "content") for message in messages if get_field(message, "role") == role]


def assert_legal(messages: list) -> None:
    """Fail unless every call is followed by its result, in call order, and no result stands alone."""
    waiting: list[str] = []
    for message in messages:
        if get_field(message, "role") == "tool":
            assert waiting and waiting.pop(0) == message["tool_call_id"], "a result without its call"
        else:
            assert not waiting, f"calls without results: {waiting}"
            waiting = [made.id for made in parse_tool_calls(message)]
    assert not waiting, f"calls without results: {waiting}"


__all__ = ["assert_legal", "call", "contents", "read", "search", "task", "turn", "wrong"]
