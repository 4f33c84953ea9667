"""planning.py: asks for a plan before the first action, and keeps it in front of the model.

One extra model call, without tools, breaks the task into a few steps. The plan then travels with the
task in every request; the transcript doesn't change.

Seam: ``complete``.
Helps: tasks with several parts, where a model forgets the second while it works on the first.
Hurts: small tasks: the plan costs a call and some tokens of every request, and a wrong plan leads astray.
"""

import re
from typing import Any

from agent import get_field
from extras.seams import Complete, charged, is_task, note, recording, task_of, text_of

MAX_PLAN_STEPS = 6
STEP = re.compile(r"^\s*(?:\d+[.):]|[-*])\s*(\S.*?)\s*$", re.MULTILINE)
PROMPT = """\
Break the task into at most {limit} short steps, one a line, numbered. Each step is one look at a code
repository with one of these tools, or the final answer. Write the steps only; don't do them.
{tools}"""


def plan_task(task: str, complete: Complete, tools: list) -> list[str]:
    """The steps to take for ``task``, in order, as one call of the model without tools proposes them.

    The request names the task and what each of ``tools`` does. Steps are told without their numbers;
    there are at most `MAX_PLAN_STEPS`. A reply that holds no list is no plan: ``[]``.

    >>> from types import SimpleNamespace
    >>> reply = SimpleNamespace(content="1. search TIMEOUT\\n2. answer", tool_calls=None)
    >>> model = lambda messages, tools: reply
    >>> plan_task("what is TIMEOUT?", model, [])
    ['search TIMEOUT', 'answer']
    """
    listing = "\n".join(f"- {tool['function']['name']}: {tool['function']['description']}" for tool in tools)
    request = note(PROMPT.format(limit=MAX_PLAN_STEPS, tools=listing))
    reply = complete([request, {"role": "user", "content": task}], [])
    return STEP.findall(text_of(reply))[:MAX_PLAN_STEPS]


def planning(complete: Complete, facts: dict | None = None) -> Complete:
    """``complete`` that plans at its first request and sends the plan along with the task from then on.

    The plan is noted in ``facts["plan"]``, its tokens are charged to the first reply.
    """
    plan: list[str] | None = None

    def planned(messages: list, tools: list) -> Any:
        nonlocal plan
        if not tools:
            return complete(messages, tools)
        paid: list = []
        if plan is None:
            plan = plan_task(task_of(messages), recording(complete, paid), tools)
            if facts is not None:
                facts["plan"] = plan
        steps = "".join(f"\n{number}. {step}" for number, step in enumerate(plan, 1))
        sent = list(messages)
        at = next((i for i in reversed(range(len(sent))) if is_task(sent[i])), None)
        if steps and at is not None:
            sent[at] = {"role": "user", "content": f"{get_field(sent[at], 'content')}\n\nPlan:{steps}"}
        return charged(complete(sent, tools), *paid) if paid else complete(sent, tools)

    return planned
