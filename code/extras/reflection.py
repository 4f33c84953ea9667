"""reflection.py: a self-check after the answer, which sends the run on if the task isn't satisfied.

The model reads the task, what the tools showed and its own answer, and names what is missing. The fault
goes back as a message and the loop runs on, within the same budget and for a bounded number of rounds.

Seam: the run as a whole.
Helps: when the first answer leaves out part of the task, or rests on nothing that was seen.
Hurts: every run pays for the check, and a weak judge sends right answers back. The judge is no oracle:
it is the same model, with the same blind spots.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agent import RunResult, describe_error, estimate_tokens
from extras.seams import Complete, note, recording, text_of

CHECK = (
    "Check your answer above against the task: does it answer every part, and does each claim rest on what "
    "the tools showed? If so, reply with the one word SATISFIED. If not, say in one sentence what is missing."
)
GO_ON = "Your answer doesn't satisfy the task yet: {fault}\nGo on with the tools, then give the full answer."


def find_fault(messages: list, answer: str, complete: Complete) -> str | None:
    """What is wrong with ``answer``, in the model's own words; None when it is satisfied.

    One call of the model without tools: the transcript ``messages``, the answer, and the request to check
    it. ``messages`` isn't changed. A blank verdict names no fault, and so finds none.

    >>> from types import SimpleNamespace
    >>> judge = lambda messages, tools: SimpleNamespace(content="**Satisfied.**", tool_calls=None)
    >>> find_fault([{"role": "user", "content": "what is TIMEOUT?"}], "It is 30.", judge) is None
    True
    """
    reply = complete([*messages, {"role": "assistant", "content": answer}, note(CHECK, "user")], [])
    verdict = text_of(reply)
    satisfied = re.match(r"\W*satisfied(?=\W*$|[.:!*])", verdict, re.IGNORECASE)  # not "satisfied with some"
    return None if satisfied else verdict or None


def reflecting(
    run: Callable[..., RunResult], rounds: int = 1, facts: dict | None = None
) -> Callable[..., RunResult]:
    """``run`` (which is called as `run_agent` is) whose answers are checked, at most ``rounds`` times.

    Each check is a model call: one step and its tokens, of the budget and of the result. A rejected answer
    and its fault become part of ``messages``, and the run goes on from there; the result counts all rounds.
    No check, and no further round, once the budget is used up. When a further round fails, its stop reason
    stands and the last answer is kept beside it. A check that raises leaves the answer as it is. Faults are
    listed in ``facts["faults"]``.
    """

    def reflected(
        messages: list, repo_root: Any, complete: Complete, budget: Any, **options: Any
    ) -> RunResult:
        result = run(messages, repo_root, complete, budget, **options)
        for _ in range(rounds):
            answer = result.answer or ""
            if result.stop_reason != "answered" or not answer.strip() or budget.over_budget():
                break
            replies: list = []
            try:
                fault = find_fault(messages, answer, recording(complete, replies))
            except Exception as error:
                fault = None
                result = replace(result, detail=f"the answer wasn't checked: {describe_error(error)}")
            for tokens in map(estimate_tokens, replies):
                budget.tick(tokens)
                result = replace(result, steps=result.steps + 1, tokens=result.tokens + tokens)
            if fault is None:
                break
            if facts is not None:
                facts.setdefault("faults", []).append(fault)
            if budget.over_budget():
                break
            messages += [{"role": "assistant", "content": answer}, note(GO_ON.format(fault=fault), "user")]
            more = run(messages, repo_root, complete, budget, **options)
            result = replace(
                more,
                answer=more.answer or answer,
                history=result.history + more.history,
                steps=result.steps + more.steps,
                tokens=result.tokens + more.tokens,
            )
        return result

    return reflected
