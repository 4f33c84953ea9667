"""reports.py: what the records of `evaluate_tasks` add up to, as Markdown that reads well in a terminal."""

import json
import statistics
from collections import Counter
from collections.abc import Iterable

from lab.tables import markdown

MEASURED = ("completed", "steps", "tokens")
OUTCOMES = (
    "completed, after looking",
    "completed, without a tool call",
    "wrong, after looking",
    "wrong, without a tool call",
    "a tool call written as text",
    "stuck",
    "budget",
    "max_steps",
)


def outcome(record: dict) -> str:
    """Which of `OUTCOMES` a finished run came to: the stop reason, and what an answer stood on."""
    if record["stop_reason"] != "answered":
        return record["stop_reason"]
    looked = "after looking" if record["tool_calls"] else "without a tool call"
    if record["completed"]:
        return f"completed, {looked}"
    try:
        written = isinstance(json.loads(record["answer"]), dict)
    except (TypeError, ValueError):
        written = False
    return "a tool call written as text" if written else f"wrong, {looked}"


def document_tables(files: list[list[dict]], tasks: list[dict]) -> dict[str, str]:
    """The tables of EVALUATION.md by name: outcomes, totals, and the runs of each result file.

    Each of ``files`` holds the finished runs of one model, which heads its column.
    """
    names = [runs[0]["model"] for runs in files]
    counts = [Counter(map(outcome, runs)) for runs in files]
    outcomes = [{"outcome": what} | {n: c[what] for n, c in zip(names, counts)} for what in OUTCOMES]
    outcomes.append({"outcome": "runs"} | {n: c.total() for n, c in zip(names, counts)})
    all_totals = [_totals(runs, tasks) for runs in files]
    totals = [
        {"figure": what} | {n: total[what] for n, total in zip(names, all_totals)} for what in all_totals[0]
    ]
    tables = {"outcomes": markdown(outcomes), "totals": markdown(totals)}
    return tables | {f"runs-{n}": run_table(runs, tasks) for n, runs in enumerate(files, 1)}


def _totals(runs: list[dict], tasks: list[dict]) -> dict[str, object]:
    needed = {task["id"]: task["agent_needed"] for task in tasks}
    completed = [run for run in runs if run["completed"]]
    tokens = sum(run["tokens"] for run in runs)
    return {
        "completed": _share(runs),
        "completed, tasks that need an agent": _share([run for run in runs if needed.get(run["id"])]),
        "completed, one call would do": _share([run for run in runs if needed.get(run["id"]) is False]),
        "efficiency, all runs": _mean(run["efficiency"] for run in runs),
        "efficiency, completed runs": _mean(run["efficiency"] for run in completed),
        "steps (model calls)": sum(run["steps"] for run in runs),
        "tool calls": sum(run["tool_calls"] for run in runs),
        "tokens": tokens,
        "of them in prompts": sum(run["prompt_tokens"] for run in runs),
        "of them in replies": sum(run["completion_tokens"] for run in runs),
        "tokens a run, median": round(statistics.median(run["tokens"] for run in runs)),
        "tokens a completed task": round(tokens / len(completed)) if completed else "-",
        "seconds": round(sum(run["seconds"] for run in runs)),
        "seconds a run, median": f"{statistics.median(run['seconds'] for run in runs):.1f}",
    }


def report(records: list[dict], tasks: list[dict]) -> str:
    """Run table, stop reasons, completion, efficiency, tokens, seconds and cost of ``records``.

    A run that failed has a row and no figures, and counts in none. A cost is unknown as soon as that of
    one run is.
    """
    known = {task["id"]: task for task in tasks}
    runs = [record for record in records if not record["error"]]
    lines = [run_table(records, tasks)] if records else []
    lines += ["", *(f"failed: {record['id']}: {record['error']}" for record in records if record["error"])]
    if not runs:
        return "\n".join([*lines, "no run was finished"])
    stops = Counter(record["stop_reason"] for record in runs)
    completed = [record for record in runs if record["completed"]]
    lines.append("stop reasons: " + ", ".join(f"{stop} {count}" for stop, count in stops.most_common()))
    lines.append(f"completed: {_share(runs)}")
    for needed, kind in ((True, "that need an agent"), (False, "that one call with the file would do")):
        some = [run for run in runs if run["id"] in known and known[run["id"]]["agent_needed"] is needed]
        if some:
            lines.append(f"  of the tasks {kind}: {_share(some)}")
    if completed:
        mean = statistics.mean(run["efficiency"] for run in completed)
        lines.append(f"efficiency of the completed runs: {mean:.2f} on average")
    for what, figure in (("tokens", "{:,.0f}"), ("seconds", "{:.1f}")):
        values = [run[what] for run in runs]
        total, median = figure.format(sum(values)), figure.format(statistics.median(values))
        lines.append(f"{what}: {total} in all, {median} a run (median)")
    costs = [run["cost"] for run in runs]
    lines.append(f"cost: {_money(None if None in costs else sum(costs))}")
    return "\n".join(lines)


def run_table(records: list[dict], tasks: list[dict]) -> str:
    """One row a run, in the order of ``tasks``."""
    known = {task["id"]: task for task in tasks}
    order = {name: number for number, name in enumerate(known)}
    records = sorted(records, key=lambda record: (order.get(record["id"], len(order)), record["repeat"]))
    return markdown([_row(record, known) for record in records])


def _row(record: dict, tasks: dict[str, dict]) -> dict:
    name = record["id"] + f" #{record['repeat'] + 1}" * (record["repeat"] > 0)
    optimal = tasks[record["id"]]["optimal_steps"] if record["id"] in tasks else "?"
    failed = bool(record["error"])
    return {
        "task": name,
        "stop": "failed" if failed else record["stop_reason"],
        "completed": "-" if failed else record["completed"],
        "steps": "-" if failed else record["steps"],
        "optimal": optimal,
        "efficiency": "-" if failed else f"{record['efficiency']:.2f}",
        "tool calls": "-" if failed else record["tool_calls"],
        "tokens": "-" if failed else record["tokens"],
        "cost": "-" if failed else _money(record["cost"]),
        "seconds": "-" if failed else f"{record['seconds']:.1f}",
    }


def compare(first: list[dict], second: list[dict]) -> str:
    """Two sets of runs side by side, task by task, and the differences that repeats don't explain.

    A difference of means is claimed when it is larger than the larger of the two spreads (highest minus
    lowest value over the repeats). Where a task ran once on a side there is no spread, and no claim.
    """
    sides = [_by_task(records) for records in (first, second)]
    shared = [name for name in sides[0] if name in sides[1]]
    if not shared:
        return "the two files have no task in common"
    rows, larger, once = [], [], 0
    for name in shared:
        runs = [side[name] for side in sides]
        found = [what for what in MEASURED if _is_larger([[run[what] for run in side] for side in runs])]
        single = min(map(len, runs)) == 1
        once += single
        larger += [f"{what} of {name}" for what in found]
        means = {what: _arrow([run[what] for run in side] for side in runs) for what in MEASURED}
        claim = "unknown: one run" if single else ", ".join(found) or "nothing"
        rows.append({"task": name} | means | {"larger than the spread": claim})
    lines = [markdown(rows), ""]
    for what in MEASURED:
        values = [[run[what] for name in shared for run in side[name]] for side in sides]
        lines.append(f"{what}, mean over the runs: {_arrow(values)}")
    lines.append(f"larger than the spread between repeats: {', '.join(larger) or 'nothing'}")
    if once:
        lines.append(
            f"{once} of {len(shared)} tasks ran once on a side, so their spread is unknown: use --repeat"
        )
    if apart := sorted(sides[0].keys() ^ sides[1].keys()):
        lines.append(f"in one file only: {', '.join(apart)}")
    return "\n".join(lines)


def _by_task(records: list[dict]) -> dict[str, list[dict]]:
    return {
        name: [run for run in records if run["id"] == name]
        for name in dict.fromkeys(r["id"] for r in records)
    }


def _is_larger(values: list[list]) -> bool:
    means = [statistics.mean(map(float, side)) for side in values]
    spread = max(max(side) - min(side) for side in values)
    return min(map(len, values)) > 1 and abs(means[0] - means[1]) > spread


def _arrow(values) -> str:
    return " -> ".join(f"{statistics.mean(map(float, side)):,.2f}".rstrip("0").rstrip(".") for side in values)


def _money(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"${dollars:.4f}"


def _share(runs: list[dict]) -> str:
    count = sum(run["completed"] for run in runs)
    return f"{count} of {len(runs)} ({100 * count / len(runs):.0f} %)" if runs else "-"


def _mean(values: Iterable[float]) -> str:
    values = list(values)
    return f"{statistics.mean(values):.2f}" if values else "-"
