"""reminders.py: tells the model again what it is looking for, and that its calls are running out.

From 5 tool calls on the task is repeated as a system message at the end of the request, where a model
looks first; from 15 on a warning comes with it. Neither is stored: the next request has a fresh one.

Seam: ``complete``.
Helps: long runs, where pages of tool results lie between the task and the next decision.
Hurts: some chat templates refuse a late system message; and a warning makes some models answer too soon.
"""

from typing import Any

from extras.seams import Complete, count_since_task, note, task_of

GOAL = "Reminder of the task: {task}"
WARNING = "You have made {calls} tool calls. Call a tool only if you must; else answer with what you have."


def repeating_goal(complete: Complete, after: int = 5) -> Complete:
    """``complete`` that repeats the person's last message from ``after`` tool calls on."""

    def reminded(messages: list, tools: list) -> Any:
        task = task_of(messages)
        if not tools or not task or count_since_task(messages, "tool") < after:
            return complete(messages, tools)
        return complete([*messages, note(GOAL.format(task=task))], tools)

    return reminded


def warning_of_budget(complete: Complete, after: int = 15) -> Complete:
    """``complete`` that warns from ``after`` tool calls on."""

    def warned(messages: list, tools: list) -> Any:
        calls = count_since_task(messages, "tool")
        if not tools or calls < after:
            return complete(messages, tools)
        return complete([*messages, note(WARNING.format(calls=calls))], tools)

    return warned
