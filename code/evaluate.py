"""evaluate.py: score one run, from its result alone.

Role: learner (`evaluate_run`, M4). Score and stop reason stay apart: the score says how good the
run was, the stop reason says how it ended.
"""

from agent import RunResult


def evaluate_run(result: RunResult, expected: dict) -> dict:
    """Score a run against what was expected of it.

    ``expected`` is ``{"answer_contains": str, "optimal_steps": int}``. The score has five keys:

    - ``completed`` (bool): the run stopped as ``answered`` and its answer, which isn't blank,
      contains ``answer_contains``, case and all. No answer is not completed.
    - ``steps`` and ``tool_calls`` (int): model calls made, and actions taken.
    - ``efficiency`` (float, at most 1.0): the share of the steps that an optimal run needs.
      A run without a step counts as one of a single step.
    - ``stop_reason`` (str): as the run gave it.

    Raises KeyError when ``expected`` lacks a key.

    >>> run = RunResult(answer="It is groq.", history=[], steps=4, tokens=90, stop_reason="answered")
    >>> evaluate_run(run, {"answer_contains": "groq", "optimal_steps": 2})["efficiency"]
    0.5
    """
    answer = result.answer or ""
    found = bool(answer.strip()) and expected["answer_contains"] in answer
    return {
        "completed": result.stop_reason == "answered" and found,
        "steps": result.steps,
        "tool_calls": len(result.history),
        "efficiency": min(1.0, expected["optimal_steps"] / max(result.steps, 1)),
        "stop_reason": result.stop_reason,
    }
