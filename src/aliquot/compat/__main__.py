"""`python -m aliquot.compat OLD NEW [--metric human]`: the two lines that `subset2evaluate-eval` prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aliquot.compat.evaluate import eval_command_line
from aliquot.errors import AliquotError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print mean correlation and mean cluster count; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m aliquot.compat", description=__doc__)
    parser.add_argument("data_old", help="All items.")
    parser.add_argument("data_new", help="The same items in the order of a selection.")
    parser.add_argument("--metric", default="human", help="The score that ranks systems.")
    parser.add_argument(
        "--as-meant",
        action="store_true",
        help="Compare the first items of NEW with all of OLD. subset2evaluate-eval has the two the wrong way round.",
    )
    options = parser.parse_args(arguments)
    try:
        correlation, clusters = eval_command_line(
            options.data_old, options.data_new, options.metric, swapped=not options.as_meant
        )
    except AliquotError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"Correlation: {correlation:.1%}\nClusters: {clusters:.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
