"""outcome.py: a run ends with a result, whatever happens in it.

`run_agent` lets an error of the model's side go up, and with it goes what the run had found. Here it
becomes a result with the stop reason ``"error"``, the history read back from the transcript, and what was
spent. A `StopRun`, by which an extra ends a run, becomes a result in the same way.

Seam: the run as a whole.
Helps: batches and services, where one provider fault must not lose an hour's work or its bill.
Hurts: while you are debugging: the traceback is gone, one sentence is left.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent import RunResult, describe_error, parse_tool_calls
from extras.seams import StopRun
from safety import Action, BudgetTracker


@dataclass
class Outcome(RunResult):
    """A `RunResult` that also carries what the extras found out: cost, plan, emitted answer, faults."""

    facts: dict = field(default_factory=dict)


def settling(run: Callable[..., RunResult], every_error: bool = False) -> Callable[..., RunResult]:
    """``run`` (which is called as `run_agent` is) that turns a `StopRun` into its result.

    With ``every_error`` any other Exception ends as ``"error"`` too. KeyboardInterrupt and SystemExit
    always go up.
    """

    def settled(
        messages: list, repo_root: Any, complete: Any, budget: BudgetTracker, **options: Any
    ) -> RunResult:
        start, steps, tokens = len(messages), budget.steps, budget.tokens
        try:
            return run(messages, repo_root, complete, budget, **options)
        except StopRun as stop:
            reason, detail, answer = stop.reason, stop.detail, stop.answer
            if stop.tokens:
                budget.tick(stop.tokens)
        except Exception as error:
            if not every_error:
                raise
            reason, answer = "error", None
            detail = describe_error(error).splitlines()[0].removeprefix("Error: ")
        history = [
            Action(call.name, call.arguments) for turn in messages[start:] for call in parse_tool_calls(turn)
        ]
        return RunResult(answer, history, budget.steps - steps, budget.tokens - tokens, reason, detail)

    return settled
