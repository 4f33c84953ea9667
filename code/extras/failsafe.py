"""failsafe.py: a hard cap on tool calls, and one last call that says what was found so far.

When the cap is reached, the model is called once more, without tools and with an emergency prompt, and the
run ends with that text. It stays a failed run: the stop reason is ``"max_steps"``, with the text beside it.

Seam: ``complete``.
Helps: long runs that found most of the answer; half an answer, marked as such, beats none.
Hurts: the last step is the emergency's, so a run that needed every step is cut off; and the text is a
guess of a model that wasn't finished.
"""

from typing import Any

from agent import estimate_tokens
from extras.seams import Complete, StopRun, count_since_task, note, text_of

EMERGENCY = (
    "The limit of this run is reached and there are no more tools. Say in plain text what you found out so "
    "far that answers the task, and what is still open. Don't make anything up."
)


def failsafe(complete: Complete, max_calls: int = 25, max_turns: int = 48) -> Complete:
    """``complete`` that ends the run ``max_calls`` tool calls, or ``max_turns`` turns, after the last task.

    ``max_turns`` has to leave the loop room for the emergency call: at most its own bound less one.
    """

    def capped(messages: list, tools: list) -> Any:
        calls, turns = (count_since_task(messages, role) for role in ("tool", "assistant"))
        if not tools or (calls < max_calls and turns < max_turns):
            return complete(messages, tools)
        reply = complete([*messages, note(EMERGENCY)], [])
        cap = f"{max_calls} tool calls" if calls >= max_calls else f"{max_turns} steps"
        answer = text_of(reply) or None
        raise StopRun("max_steps", f"hard cap of {cap} reached", answer, tokens=estimate_tokens(reply))

    return capped
