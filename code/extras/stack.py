"""stack.py: the switchboard, which puts the chosen extras around `run_agent` in one fixed order.

`EXTRAS` lists them from the inside out: what comes later wraps what comes before. Why this order:

- the meter sits next to the model, audit around it and around the tools: they see what really happens,
  and what the meter refuses;
- text comes next, so that it spells out all that is sent;
- reminders stand inside the boundary, so that they repeat the task as it was fenced; compaction stands
  outside it, so that a mark is never cut;
- the plan is part of the task before the task is fenced; repair turns text into calls before structured
  looks for its call; failsafe and loops speak first, before anything is paid for;
- a retry is inside the guards, which see one call however often it was tried; the guards are asked dedup,
  near, cooldown, whatever the order of the names; loops see what the model sees, refusals included;
- outcome turns every end of one loop into a result, reflect may go round, heartbeat covers all of it.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agent
from agent import RunResult, run_agent
from extras.audit import audit_file, audited
from extras.boundary import bounded
from extras.compaction import compacting
from extras.cooldown import Cooldown
from extras.cost import CostBudget, Price, metered, price_of
from extras.dedup import ExactDedup
from extras.failsafe import failsafe
from extras.guards import guarded
from extras.heartbeat import beating
from extras.loops import watching_loops
from extras.near_search import NearSearch
from extras.outcome import Outcome, settling
from extras.planning import planning
from extras.reflection import reflecting
from extras.reminders import repeating_goal, warning_of_budget
from extras.repair import repairing
from extras.retry import retrying
from extras.seams import Complete, Dispatch
from extras.structured import structured
from extras.text_tools import spelling_out
from safety import BudgetTracker


@dataclass
class Run:
    """One run under construction: the wrapped seams so far, and what the extras may need to know."""

    complete: Complete
    dispatch: Dispatch
    loop: Callable[..., RunResult]
    budget: BudgetTracker
    facts: dict
    audit: Path


@dataclass(frozen=True)
class Extra:
    """What it does in one clause, its ``seam`` (a field of `Run`, or "both"), and how it is wrapped."""

    clause: str
    seam: str
    wrap: Callable[[Run], Any]


EXTRAS = {
    # the seams, innermost first
    "audit": Extra(
        "record each model and tool call in audit.jsonl, before and after it",
        "both",
        lambda run: audited(run.complete, run.dispatch, audit_file(run.audit)),
    ),
    "text": Extra(
        "tell the model about its tools in words; with repair, for servers without tool calls",
        "complete",
        lambda run: spelling_out(run.complete),
    ),
    "warn": Extra(
        "warn the model from 15 tool calls on",
        "complete",
        lambda run: warning_of_budget(run.complete),
    ),
    "goal": Extra(
        "repeat the task from 5 tool calls on",
        "complete",
        lambda run: repeating_goal(run.complete),
    ),
    "boundary": Extra(
        "fence the task and tool results as data",
        "complete",
        lambda run: bounded(run.complete),
    ),
    "compact": Extra(
        "send old tool results in short form",
        "complete",
        lambda run: compacting(run.complete),
    ),
    "plan": Extra(
        "plan before the first action",
        "complete",
        lambda run: planning(run.complete, run.facts),
    ),
    "repair": Extra(
        "turn tool calls written as text into real ones",
        "complete",
        lambda run: repairing(run.complete),
    ),
    "retry": Extra(
        "try a tool once more after a passing error",
        "dispatch",
        lambda run: retrying(run.dispatch),
    ),
    "cooldown": Extra(
        "refuse a tool's next call after 3 errors in a row",
        "dispatch",
        lambda run: guarded(run.dispatch, Cooldown()),
    ),
    "near": Extra(
        "refuse a search much like an earlier one",
        "dispatch",
        lambda run: guarded(run.dispatch, NearSearch()),
    ),
    "dedup": Extra(
        "refuse a call that was made before",
        "dispatch",
        lambda run: guarded(run.dispatch, ExactDedup()),
    ),
    "structured": Extra(
        "have the answer handed in through a checked tool",
        "both",
        lambda run: structured(run.complete, run.dispatch, run.facts),
    ),
    "failsafe": Extra(
        "say what was found when the cap is reached",
        "complete",
        lambda run: failsafe(run.complete, max_turns=max(1, min(48, run.budget.max_steps - 1))),
    ),
    "loops": Extra(
        "stop A, B, A, B and calls that bring the same result",
        "both",
        lambda run: watching_loops(run.complete, run.dispatch),
    ),
    # the run as a whole
    "outcome": Extra(
        "end with a result and what it cost, even on an error",
        "loop",
        lambda run: settling(run.loop, every_error=True),
    ),
    "reflect": Extra(
        "check the answer and go on if it isn't enough",
        "loop",
        lambda run: reflecting(run.loop, facts=run.facts),
    ),
    "heartbeat": Extra(
        "give a sign of life on stderr every 10 seconds",
        "loop",
        lambda run: beating(run.loop, lambda s: print(f"still running after {s:.0f} s", file=sys.stderr)),
    ),
}


def assemble(
    names: Iterable[str],
    *,
    model: str = "",
    max_usd: float | None = None,
    price: Price | None = None,
    max_reply: int = 1024,
    audit: str | Path = "audit.jsonl",
    run: Callable[..., RunResult] = run_agent,
) -> Callable[..., Outcome]:
    """A function with the signature of `run_agent` whose every run has the extras ``names``, in any order.

    ``max_usd`` adds the cost ceiling, at ``price`` or else the known price of ``model``; ``max_reply`` is
    the most tokens a reply may have. ``run`` is the loop that everything is put around.
    Raises ValueError on an unknown name, with the list, and on an unknown price.

    >>> assemble(["dedupe"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: there is no extra 'dedupe'; the extras are audit, ...
    """
    chosen = set(names)
    if unknown := sorted(chosen - set(EXTRAS)):
        raise ValueError(f"there is no extra {unknown[0]!r}; the extras are {', '.join(EXTRAS)}")
    if max_usd is not None:
        price = price or price_of(model)
        CostBudget(max_steps=0, max_tokens=0, max_usd=max_usd, price=price)  # a bad ceiling is told now

    def assembled(
        messages: list,
        repo_root: Any,
        complete: Complete,
        budget: BudgetTracker,
        *,
        dispatch: Dispatch | None = None,
        **options: Any,
    ) -> Outcome:
        own, facts = budget, {}
        if max_usd is not None:
            counts = (budget.max_steps, budget.max_tokens, budget.steps, budget.tokens)
            own = CostBudget(*counts, max_usd=max_usd, price=price, max_reply=max_reply)
        stack = Run(
            complete=metered(complete, facts, own),
            dispatch=dispatch or agent.dispatch_tool,
            loop=settling(run),
            budget=own,
            facts=facts,
            audit=Path(audit),
        )
        for name, extra in EXTRAS.items():
            if name in chosen:
                wrapped = extra.wrap(stack)
                if extra.seam == "both":
                    stack.complete, stack.dispatch = wrapped
                else:
                    setattr(stack, extra.seam, wrapped)
        try:
            result = stack.loop(messages, repo_root, stack.complete, own, dispatch=stack.dispatch, **options)
        finally:
            budget.steps, budget.tokens = own.steps, own.tokens
        return Outcome(**vars(result), facts=facts)

    return assembled
