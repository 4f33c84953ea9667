"""keyword_model.py: the built-in model ``offline/keyword``, a keyword searcher in a language model's place.

It lets the agent run with no key, no network and no download: the same loop, the same messages, the
same call through LiteLLM. It understands nothing: `lab.question` reads the shape of the task,
`lab.plans` says what to search and read, and the answer is the lines that this turned up.

`reply` keeps no state. A plan is a generator that yields the tool calls of a turn and is sent their
results; `reply` runs it from its start against the transcript, and asks for the first calls that
have no result there yet.
"""

import json
from typing import Any

from agent import get_field, parse_tool_calls
from lab.plans import plan_for
from tools import MAX_HITS

NOTICE = (
    "offline/keyword is a keyword searcher, not a language model. "
    "For a real model, set LLM_MODEL or a provider's key in .env."
)
MAX_TURNS = 6  # turns with tool calls for one task; after them it answers with what it has
MAX_SEEN = 32_000  # and so it does once the results hold this many characters
CHARS_PER_TOKEN = 4


def register(litellm: Any) -> None:
    """Make ``litellm.completion(model="offline/keyword", ...)`` answer with `reply`.

    The usage it reports is an estimate: four characters a token, over the messages and the reply.
    """

    class Keyword(litellm.CustomLLM):
        def completion(self, *args: Any, **kwargs: Any) -> Any:
            messages, parameters = kwargs["messages"], kwargs.get("optional_params") or {}
            message = {"role": "assistant"} | reply(messages, tools=bool(parameters.get("tools")))
            sent = len(json.dumps(messages, default=str)) // CHARS_PER_TOKEN
            received = len(json.dumps(message)) // CHARS_PER_TOKEN
            finish = "tool_calls" if message["tool_calls"] else "stop"
            return litellm.ModelResponse(
                model=kwargs["model"],
                choices=[{"index": 0, "finish_reason": finish, "message": message}],
                usage={"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received},
            )

    others = [entry for entry in litellm.custom_provider_map or [] if entry["provider"] != "offline"]
    litellm.custom_provider_map = [*others, {"provider": "offline", "custom_handler": Keyword()}]


def reply(messages: list, tools: bool = True) -> dict:
    """The assistant's next message: ``{"content": str, "tool_calls": list or None}``, in OpenAI's shape.

    ``messages`` is the transcript, dicts or message objects; the task is its last user message.
    Without ``tools`` no call is made: the first line of the task is the question, and the rest of its
    text is the one file that there is. The same messages always give the same reply, no call is ever
    repeated, and after six turns with calls, or 32,000 characters of results, it answers.
    """
    task, results, turns, asked = _read_transcript(messages)
    plan = plan_for(task if tools else task.split("\n", 1)[0])
    try:
        thought, calls = next(plan)
        while not tools:
            thought, calls = plan.send([_look_in_prompt(task, *call) for call in calls])
        while True:
            missing = [call for call in calls if _key(*call) not in results]
            if missing and turns < MAX_TURNS and sum(map(len, results.values())) < MAX_SEEN:
                calls = [_tool_call(asked + number, *call) for number, call in enumerate(missing, 1)]
                return {"content": thought, "tool_calls": calls}
            thought, calls = plan.send([results.get(_key(*call), "") for call in calls])
    except StopIteration as end:
        return {"content": end.value, "tool_calls": None}


def _read_transcript(messages: list) -> tuple[str, dict[str, str], int, int]:
    """The task, the result of each call made so far, the turns spent on the task, the calls asked for."""
    task, results, turns, asked, waiting = "", {}, 0, 0, []
    for message in messages:
        role, content = get_field(message, "role"), get_field(message, "content") or ""
        if isinstance(content, list):
            content = "\n".join(str(get_field(part, "text") or "") for part in content)
        if role == "user":
            task, turns = content, 0
        elif role == "tool" and waiting:
            call = waiting.pop(0)  # results come in the order of their calls
            results[_key(call.name, call.arguments)] = content
        elif calls := parse_tool_calls(message):
            results |= {_key(call.name, call.arguments): "" for call in calls}
            waiting, turns, asked = calls, turns + 1, asked + len(calls)
    return task, results, turns, asked


def _look_in_prompt(task: str, tool: str, arguments: dict) -> str:
    """What ``tool`` would show if the task's text below its first line were a file."""
    lines = ["", *task.split("\n")[1:]]
    if tool == "read_file":
        return "\n".join(lines[arguments.get("start_line", 1) - 1 :])
    if tool == "search_code":
        found = [
            f"prompt:{number}: {line}" for number, line in enumerate(lines, 1) if arguments["query"] in line
        ]
        return "\n".join(found[:MAX_HITS])
    return "Error: there are no directories in a prompt"


def _key(tool: str, arguments: dict) -> str:
    return tool + json.dumps(arguments, sort_keys=True, default=str)


def _tool_call(number: int, tool: str, arguments: dict) -> dict:
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call_{number}", "type": "function", "function": function}
