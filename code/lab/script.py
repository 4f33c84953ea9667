"""script.py: a model whose turns are written beforehand, which counts tokens as a provider bills them.

Each step pays for all that is sent, every message so far and the tool schemas, and for the reply, at
four characters a token. So a run's cost grows with the square of its steps, as with a real model.
"""

import json
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

from agent import get_field

Turns = Generator[Any, str, None]


def call(tool: str, **arguments: Any) -> dict:
    """A tool call for a script to yield."""
    return {"name": tool, "arguments": json.dumps(arguments)}


class OffScript(Exception):
    """The loop did what the script has no turn for."""


class Script:
    """A ``complete`` that plays ``turns``: a generator that yields turns and is sent the last observation.

    A turn is a string (the answer), a `call`, or a tuple of calls with, perhaps, a string beside them.
    Raises OffScript when there is no further turn, or when what it was sent is not what a loop sends.
    """

    def __init__(self, turns: Turns) -> None:
        self.turns, self.steps = turns, 0

    def __call__(self, messages: list, tools: list) -> SimpleNamespace:
        observation = get_field(messages[-1], "content") if self.steps else None
        try:
            turn = self.turns.send(observation)
        except StopIteration:
            raise OffScript(f"the script ends after {self.steps} turns, and was asked for another") from None
        except (AttributeError, TypeError, ValueError, LookupError) as error:
            raise OffScript(
                f"the script can't go on from the observation {str(observation)[:200]!r}"
            ) from error
        self.steps += 1
        parts = turn if isinstance(turn, tuple) else (turn,)
        functions = [part for part in parts if isinstance(part, dict)]
        calls = [
            SimpleNamespace(
                id=f"c{self.steps}.{number}", type="function", function=SimpleNamespace(**function)
            )
            for number, function in enumerate(functions, 1)
        ]
        text = next((part for part in parts if isinstance(part, str)), None)
        message = SimpleNamespace(role="assistant", content=text, tool_calls=calls or None)
        message.tokens_used = tokens_billed([*messages, message], tools)
        return message


def tokens_billed(messages: list, tools: list) -> int:
    """Tokens of one model call: the text, tool names and arguments of all messages, and the schemas."""
    return (sum(map(_characters, messages)) + (len(json.dumps(tools)) if tools else 0)) // 4


def _characters(message: Any) -> int:
    functions = [get_field(made, "function") for made in get_field(message, "tool_calls") or []]
    called = sum(
        len(get_field(function, "name") + get_field(function, "arguments")) for function in functions
    )
    return len(get_field(message, "content") or "") + called
