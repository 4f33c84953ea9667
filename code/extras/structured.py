"""structured.py: makes the model hand its answer in through a tool, with fields that are checked.

The model is offered one more tool, ``emit_answer(answer, steps_taken, confidence)``. A call with valid
arguments ends the run with its ``answer``; an invalid one is answered with what is wrong; an answer in
plain text is asked for again, once a run, and then taken as it is.

Seam: both; ``complete`` offers the tool and takes the answer, ``dispatch`` explains an invalid call.
Helps: when a program reads the answer: no more guessing where in the prose it stands.
Hurts: small models, which lose a right answer on the form. And a confidence is a claim, not a measurement.
"""

from typing import Any

from agent import parse_tool_calls
from extras.seams import Complete, Dispatch, charged, note, rewritten, said
from tools import MALFORMED

FIELDS = {
    "answer": {"type": "string", "description": "the whole answer to the task"},
    "steps_taken": {"type": "integer", "description": "how many steps you took"},
    "confidence": {"type": "number", "description": "how sure you are, from 0 to 1"},
}
EMIT_ANSWER = {
    "type": "function",
    "function": {
        "name": "emit_answer",
        "description": "Hand in the final answer and finish. Call it alone, when you have seen the answer.",
        "parameters": {"type": "object", "properties": FIELDS, "required": list(FIELDS)},
    },
}
USAGE = 'call emit_answer alone, with {"answer": "...", "steps_taken": 3, "confidence": 0.8}'
ASK = f"Hand that answer in through the tool: {USAGE}."


def check_emitted(arguments: dict) -> str | None:
    """What is wrong with the arguments of an `emit_answer` call, as a sentence that names the field; or None.

    Right are a non-blank string ``answer``, a whole ``steps_taken`` of at least 0 and a
    ``confidence`` from 0 to 1. A bool is no number. Further fields are ignored. Never raises.

    >>> check_emitted({"answer": "30", "steps_taken": 2, "confidence": 1}) is None
    True
    >>> check_emitted({"answer": "30", "steps_taken": 2, "confidence": "high"})
    "confidence must be a number from 0 to 1, not 'high'"
    """
    if MALFORMED in arguments:
        return f"the arguments are not a JSON object: {arguments[MALFORMED]}"
    answer, steps, confidence = (arguments.get(field) for field in FIELDS)
    if not isinstance(answer, str) or not answer.strip():
        return f"answer must be a string that isn't blank, not {answer!r}"
    if type(steps) is not int or steps < 0:
        return f"steps_taken must be a whole number of at least 0, not {steps!r}"
    if type(confidence) not in (int, float) or not 0 <= confidence <= 1:
        return f"confidence must be a number from 0 to 1, not {confidence!r}"
    return None


def structured(
    complete: Complete, dispatch: Dispatch, facts: dict | None = None
) -> tuple[Complete, Dispatch]:
    """Both seams, so that the run ends through ``emit_answer``.

    A valid call that comes alone becomes the answer, a message without tool calls; its arguments are
    noted in ``facts["emitted"]``. Any other call of it stays a call, and ``dispatch`` answers it with an
    error that says what to put right. The first answer in plain text is asked for again, on a copy of the
    transcript; both replies are charged. When that brings no call, the plain text stands.
    """
    asked = False

    def emitting(messages: list, tools: list) -> Any:
        nonlocal asked
        if not tools:
            return complete(messages, tools)
        offered = [*tools, EMIT_ANSWER]
        message = complete(messages, offered)
        if not asked and not parse_tool_calls(message):
            asked = True
            again = complete([*messages, said(message), note(ASK, "user")], offered)
            message = charged(again, message) if parse_tool_calls(again) else charged(message, again)
        calls = parse_tool_calls(message)
        if [call.name for call in calls] != ["emit_answer"] or check_emitted(calls[0].arguments):
            return message
        if facts is not None:
            facts["emitted"] = {field: calls[0].arguments[field] for field in FIELDS}
        return rewritten(message, calls[0].arguments["answer"])

    def explaining(name: str, arguments: dict, repo_root: Any) -> str:
        if name != "emit_answer":
            return dispatch(name, arguments, repo_root)
        return f"Error: {check_emitted(arguments) or 'it came before the other results were seen'}; {USAGE}"

    return emitting, explaining
