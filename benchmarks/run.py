"""`make bench`: every benchmark of this folder, one table of ratios; `BENCH_ARGS=load` runs only that file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import harness
from rich.console import Console
from rich.table import Table


def main() -> int:
    wanted = sys.argv[1:]
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    table = Table("what", "ours (s)", "peer (s)", "ratio", "promise", "kept", box=None)
    broken = 0
    for name in names:
        if wanted and not any(part in name for part in wanted):
            continue
        print(f"running {name} ...", file=sys.stderr)
        rows: list[harness.Row] = importlib.import_module(name).measure()
        for row in rows:
            peer = "" if row.peer is None else f"{row.peer:.3f}"
            ratio = "" if row.ratio is None else f"{row.ratio:.1f}"
            kept = "" if row.kept is None else "yes" if row.kept else "NO"
            table.add_row(row.name, f"{row.ours:.3f}", peer, ratio, row.promise, kept)
            broken += row.kept is False
    Console(width=140).print(table)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
