"""Run a tool-calling agent on a repository, within a budget, and say why it stopped.

examples:
  python agent_app.py "where is safe_resolve defined?" --repo .
  python agent_app.py "what model does this repo default to?" --expect offline --optimal-steps 3
  python agent_app.py "list the files in tests" --quiet
  python agent_app.py "which files use Action?" --model claude-haiku-5-5 --max-steps 6 --json

exit codes:
  0 answered (and completed, with --expect)    1 no answer, or not completed
  2 bad usage, configuration or repository, or a milestone is missing
  3 the provider failed                        130 interrupted
"""

# Role: provided. The orchestrator: system prompt, live `complete`, budget, trace, answer and score.

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import agent
from agent import RunResult, run_agent, wire_messages
from config import (
    OFFLINE_MODEL,
    Config,
    ProviderError,
    call_provider,
    load_config,
    load_litellm,
    model_problem,
)
from evaluate import Trace, evaluate_run, redact, stopped, summary, tell
from safety import BudgetTracker, detect_stuck
from tools import list_directory

SYSTEM_PROMPT = """\
You answer questions about a code repository that you can only see through tools.

Before any tool response: call a tool at once, such as search_code with one name from the question. \
Do not describe the call, make it.
After each tool response: if it contains the answer, write the answer in one plain sentence, without JSON. \
Otherwise call a tool with other arguments.

Files of the repository:
{listing}"""
INSTALL = "code/requirements.txt lists what has to be installed, in a virtual environment"


def build_messages(task: str, repo_root: str | Path) -> list[dict]:
    """The two messages that a run starts from: system prompt and task."""
    prompt = SYSTEM_PROMPT.format(listing=list_directory(repo_root))
    return [{"role": "system", "content": prompt}, {"role": "user", "content": task}]


def make_complete(config: Config) -> Callable[[list, list], Any]:
    """The live ``complete(messages, tools)``: one call of ``config.model`` through LiteLLM.

    The message carries what `config.call_provider` says. Raises ImportError when LiteLLM isn't there;
    what it returns raises ProviderError.
    """
    litellm = load_litellm()
    if config.model == OFFLINE_MODEL:
        from lab.keyword_model import register

        register(litellm)
    settings = {"model": config.model, "temperature": config.temperature, "max_tokens": config.max_tokens}

    def complete(messages: list, tools: list) -> Any:
        offered = {"tools": tools, "tool_choice": "auto"} if tools else {}  # an empty list is refused
        return call_provider(litellm, messages=wire_messages(messages), **offered, **settings)

    return complete


def missing_milestone() -> str | None:
    """What the first learner-owned function that is still a stub says, or None."""
    for probe in (
        lambda: detect_stuck([], 3),
        lambda: BudgetTracker(1, 1).tick(1),
        lambda: BudgetTracker(1, 1).over_budget(),
        lambda: run_agent([], ".", None, BudgetTracker(0, 0)),
        lambda: evaluate_run(RunResult("", [], 1, 1, ""), {"answer_contains": "x", "optimal_steps": 1}),
    ):
        try:
            probe()
        except NotImplementedError as error:
            return str(error)
        except Exception:  # a learner's bug shows better in the run itself
            pass
    return None


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line ``argv``; ends the process with code 2 on bad usage."""
    about, _, epilog = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if {"-h", "--help"} & set(sys.argv[1:] if argv is None else argv):
        from extras.stack import EXTRAS

        parser.epilog += (
            "\nextras (for language models; the built-in searcher understands none of them):\n"
            + "\n".join(f"  {name:<11} {extra.clause}" for name, extra in EXTRAS.items())
        )
    add = parser.add_argument
    add("task", help="what to find out")
    add("--repo", metavar="DIR", dest="repo_root", help="the repository (default: AGENT_REPO_ROOT, else .)")
    add("--model", metavar="NAME", help="LiteLLM's name of the model (default: from the environment)")
    add("--max-steps", metavar="N", type=int, help="ceiling of model calls (default: 10)")
    add("--token-budget", metavar="N", type=int, help="ceiling of tokens (default: 20000)")
    add("--expect", metavar="TEXT", help="completed means: the answer contains TEXT")
    add("--optimal-steps", metavar="N", type=int, default=2, help="steps of the best run (default: 2)")
    add("--trace", metavar="FILE", help="write the run to FILE, one JSON event a line, as it happens")
    add("--with", metavar="NAME,...", dest="extras", help="switch on extras: what goes beyond the core")
    add("--max-usd", metavar="USD", type=float, help="ceiling of the cost; needs a model with a known price")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--quiet", action="store_true", help="print the answer only")
    output.add_argument("--json", action="store_true", help="print one JSON object; the trace on stderr")
    options = parser.parse_args(argv)
    if not options.task.strip():
        parser.error("the task is empty")
    if options.expect is not None and not options.expect.strip():
        parser.error("--expect is blank, and a blank text is in every answer")
    if min(options.max_steps or 0, options.token_budget or 0, options.optimal_steps) < 0:
        parser.error("steps and tokens are whole numbers of at least 0")
    return options


def configure(options: argparse.Namespace) -> Config:
    """Environment and flags as one `Config`, checked. Raises ValueError, a sentence for a person."""
    fields = vars(Config())
    given = {name: value for name, value in vars(options).items() if name in fields and value is not None}
    config = replace(load_config(), **given)
    if missing := missing_milestone():
        raise ValueError(f"a milestone is missing: {missing} (python -m learn shows the way)")
    if problem := model_problem(config.model):
        raise ValueError(problem)
    try:
        if not os.path.isdir(config.repo_root):
            raise ValueError("there is no such directory")
        list_directory(config.repo_root)
    except (OSError, ValueError) as error:
        raise ValueError(f"the repository {config.repo_root!r} can't be read: {error}") from error
    return config


def choose_loop(options: argparse.Namespace, config: Config, trace: Trace) -> Callable[..., RunResult]:
    """`run_agent`, its tools watched, with the extras that ``options`` name. Raises ValueError."""

    def watched(*task: Any, dispatch: Callable = agent.dispatch_tool, **settings: Any) -> RunResult:
        return run_agent(*task, dispatch=trace.watch_dispatch(dispatch), **settings)

    if options.extras is None and options.max_usd is None:
        return watched
    from extras.stack import assemble

    names = [name.strip() for name in (options.extras or "").split(",") if name.strip()]
    return assemble(
        names, model=config.model, max_usd=options.max_usd, max_reply=config.max_tokens, run=watched
    )


def run(options: argparse.Namespace, config: Config, loop: Callable[..., RunResult], trace: Trace) -> int:
    """Run the task, print what ``options`` ask for, return the exit code."""
    trace.say(f"model {config.model}, repository {config.repo_root}")
    trace.say(f"budget: steps {config.max_steps}, tokens {config.token_budget}")
    if config.model == OFFLINE_MODEL:
        from lab.keyword_model import NOTICE

        trace.say(NOTICE)
    trace.event("run", task=options.task, model=config.model, repo=config.repo_root)
    result = loop(
        build_messages(options.task, config.repo_root),
        config.repo_root,
        trace.watch_complete(make_complete(config)),
        BudgetTracker(config.max_steps, config.token_budget),
    )
    trace.event("end", **{key: value for key, value in asdict(result).items() if key != "history"})
    expected = {"answer_contains": options.expect or "", "optimal_steps": options.optimal_steps}
    score = evaluate_run(result, expected)
    score["completed"] = score["completed"] if options.expect else None
    answered = result.stop_reason == "answered" and (result.answer or "").strip()
    if options.json:
        tell(json.dumps(asdict(result) | {"evaluation": score}, indent=2, default=str), sys.stdout)
    elif options.quiet:
        tell(answered or f"no answer: {stopped(result)}", sys.stdout if answered else sys.stderr)
    else:
        judged = {True: "yes", False: "no", None: "not judged (no --expect)"}[score["completed"]]
        cost = "unknown" if trace.cost is None else f"${trace.cost:.4f}"
        tell(f"{summary(result, score, judged, options.optimal_steps)}, cost: {cost}", sys.stdout)
    return 0 if answered and score["completed"] is not False else 1


def main(argv: list[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's own) and return the exit code."""
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    options = parse_arguments(argv)
    out = sys.stderr if options.json else sys.stdout
    trace = Trace(lambda line: None if options.quiet else tell(line, out))
    try:
        try:
            config = configure(options)
            loop = choose_loop(options, config, trace)
            if options.trace:
                Path(options.trace).parent.mkdir(parents=True, exist_ok=True)
                trace.file = open(options.trace, "x", encoding="utf-8")
        except FileExistsError:
            return _end(
                trace, 2, f"error: {options.trace} exists, and an earlier run is kept; name another file"
            )
        except (ValueError, OSError) as error:
            return _end(trace, 2, f"error: {error}")
        return run(options, config, loop, trace)
    except ImportError as error:
        return _end(trace, 2, f"error: {error}; {INSTALL}")
    except NotImplementedError as error:
        return _end(trace, 2, f"error: an exercise is missing: {error}")
    except ProviderError as error:
        return _end(trace, 3, f"error: {redact(str(error))}", options.quiet)
    except KeyboardInterrupt:
        told = f"interrupted; steps so far: {trace.steps}, tokens: {trace.tokens}"
        return _end(trace, 130, told, options.quiet)


def _end(trace: Trace, code: int, sentence: str, hidden: bool = False) -> int:
    if trace.file:
        trace.file.close()
    with contextlib.suppress(KeyboardInterrupt):
        tell("\n".join([*(trace.lines if hidden and trace.steps else ()), sentence]), sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
