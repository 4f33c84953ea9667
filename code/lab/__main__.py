"""``python -m lab COMMAND``: the lab's front door. Each command is imported when it is asked for."""

import sys
from importlib import import_module

COMMANDS = {
    "break": ("lab.ablations", "run the agent with one guard on and off, side by side"),
    "evaluate": ("lab.evaluate_tasks", "run the tasks, score each run, or compare two result files"),
    "replay": ("lab.replay", "show a recorded run as a person reads it, and score it"),
    "bench": ("lab.bench", "measure the loop, the search and the start-up"),
}
USAGE = "usage: python -m lab COMMAND [options]    (COMMAND --help tells its options)\n\n" + "\n".join(
    f"  {name:10}{what}" for name, (_, what) in COMMANDS.items()
)


def main(argv: list[str]) -> int:
    """Run one command of the lab and return its exit code; 2 when there is no such command."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] not in COMMANDS:
        print(f"lab: there is no command {argv[0]!r}\n\n{USAGE}", file=sys.stderr)
        return 2
    try:
        return import_module(COMMANDS[argv[0]][0]).main(argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
