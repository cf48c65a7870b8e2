"""The `stalerow` program: the simulator's commands, and the catalogue's beside them.

The simulator does not know the catalogue, so the two are put together here, where both are known.
"""

import sys
from collections.abc import Sequence

from stalerow.simulator.commands import cli

COMMANDS = {
    **cli.COMMANDS,
    "scenarios": cli.Command("the catalogue of public bugs: list, show, run, add", "stalerow.scenarios.command"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    return cli.main(argv, COMMANDS)


if __name__ == "__main__":
    sys.exit(main())
