"""audit.py: a record of each model call and tool call, written before and after it happens.

What couldn't be recorded beforehand isn't done. It sits next to the model and the tools, inside every
other extra, and so shows what really went over the wire: plans, checks and repairs, each try of a retry,
and no call that a guard refused.

Seam: both.
Helps: to find out afterwards what a run did, also one that was killed: the last line says what it was at.
Hurts: a disk that is full or slow stops the agent. `agent_app --trace`, which isn't a guarantee, goes on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import describe_error, estimate_tokens, get_field, parse_tool_calls
from evaluate import Trace
from extras.seams import Complete, Dispatch

Event = Callable[..., None]


def audit_file(path: str | Path) -> Event:
    """``event(kind, **data)``, which appends one flushed JSON line to ``path``, secrets taken out.

    Raises OSError when the line can't be written.
    """

    trace = Trace(lambda line: None)

    def event(kind: str, **data: Any) -> None:
        trace.steps += kind == "model_call"
        with open(path, "a", encoding="utf-8", newline="\n") as trace.file:
            trace.event(kind, **data)  # what it couldn't write, closing the file raises

    return event


def audited(complete: Complete, dispatch: Dispatch, event: Event) -> tuple[Complete, Dispatch]:
    """Both seams, recorded: model_call and model_reply, tool_call and tool_result, or what was raised."""

    def recorded_complete(messages: list, tools: list) -> Any:
        event("model_call", messages=len(messages), tools=[tool["function"]["name"] for tool in tools])
        try:
            message = complete(messages, tools)
        except BaseException as error:
            event("model_reply", error=repr(error))
            raise
        calls = [{"tool": call.name, "arguments": call.arguments} for call in parse_tool_calls(message)]
        event(
            "model_reply", tokens=estimate_tokens(message), content=get_field(message, "content"), calls=calls
        )
        return message

    def recorded_dispatch(name: str, arguments: dict, repo_root: Any) -> str:
        event("tool_call", tool=name, arguments=arguments)
        try:
            observation = dispatch(name, arguments, repo_root)
        except BaseException as error:
            event("tool_result", tool=name, error=describe_error(error))
            raise
        event("tool_result", tool=name, result=observation)
        return observation

    return recorded_complete, recorded_dispatch
