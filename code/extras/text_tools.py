"""text_tools.py: tells a model about its tools in words, when its server can't.

Some servers drop the ``tools`` of a request, or put them in a form that the model was never taught. Here
they go into the system prompt with one rule for a call, and past calls and results are spelled out as
text in the same form. ``repair`` then reads the calls from the replies.

Seam: ``complete``.
Helps: small local models, and any server that only knows plain chat; use it together with ``repair``.
Hurts: models with native tool calls, which are trained on their own form and checked by their provider.
"""

import json
from typing import Any

from agent import get_field, parse_tool_calls
from extras.seams import Complete

PROMPT = """\
You have these tools:
{tools}

To call a tool, reply with one fenced JSON object and nothing else:
```json
{{"name": "<tool>", "arguments": {{...}}}}
```
You then get its result. When the results show the answer, reply in plain text without JSON."""


def spell_out(messages: list, tools: list) -> list[dict]:
    """The request as plain chat: tools, calls and results as text. ``messages`` stays as it is."""
    listing = "\n".join(json.dumps(tool["function"]) for tool in tools)
    prompt = PROMPT.format(tools=listing)
    sent: list[dict] = []
    for message in messages:
        role, content = get_field(message, "role") or "assistant", str(get_field(message, "content") or "")
        if role == "tool":
            role, content = "user", f"Result:\n{content}"
        for call in parse_tool_calls(message):
            block = json.dumps({"name": call.name, "arguments": call.arguments})
            content = f"{content}\n```json\n{block}\n```".lstrip()
        if sent and role == sent[-1]["role"] == "user":  # plain chat takes turns
            sent[-1]["content"] += f"\n\n{content}"
        else:
            sent.append({"role": role, "content": content})
    if sent and sent[0]["role"] == "system":
        sent[0]["content"] += f"\n\n{prompt}"
    else:
        sent.insert(0, {"role": "system", "content": prompt})
    return sent


def spelling_out(complete: Complete) -> Complete:
    """``complete`` that is sent no tools, but told about them; a request without tools stays as it is."""

    def told(messages: list, tools: list) -> Any:
        return complete(spell_out(messages, tools), []) if tools else complete(messages, tools)

    return told
