"""Pools: time, processor seconds and peak memory of whole `aliquot pool` runs, workers and all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import harness
import numpy as np
import polars as pl

_BLOCK = 250_000
_WORDS = 25
_FEW = 100_000
_ENOUGH_GB = 2.0


@dataclass(frozen=True)
class Run:
    """What one run took: seconds by the clock, seconds of processors, and gigabytes of all its processes together."""

    seconds: float
    cpu: float
    gigabytes: float


def measure() -> list[harness.Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pool(folder, 1_000_000)
        model = write_model(folder)
        learned = ["--method", f"pps:size=(source:model={model})", "--budget", "2000"]
        tenth = folder / "tenth.parquet"
        pl.read_parquet(folder / "part-000.parquet", n_rows=_FEW).write_parquet(tenth)
        small = run_pool([str(tenth)], learned, folder)
        large = run_pool([str(folder / "part-*.parquet")], learned, folder)
        rows = _rows("1,000,000 sources, learned utility + pps", large, 180)
        growth = (large.cpu / 1_000_000) / (small.cpu / _FEW)
        told = f"  cpu per source, 1,000,000 against {_FEW:,}: x{growth:.2f}"
        rows.append(harness.Row(told, small.cpu, None, "linear", growth < 1.5))
        write_pool(folder, 10_000_000)
        for what, spec in (("source_length", "pps:size=length"), ("column", "pps:size=clicks")):
            taken = run_pool([str(folder / "part-*.parquet")], ["--method", spec, "--budget", "2000"], folder)
            rows += _rows(f"10,000,000 sources, {what} + pps", taken, 120)
    return rows


def _rows(what: str, taken: Run, limit: float) -> list[harness.Row]:
    memory = f"  peak memory {taken.gigabytes:.2f} GB, {taken.cpu:.0f} s of processors"
    return [
        harness.within(what, taken.seconds, limit),
        harness.Row(memory, taken.seconds, None, f"under {_ENOUGH_GB:g} GB", taken.gigabytes < _ENOUGH_GB),
    ]


def write_pool(folder: Path, items: int) -> None:
    """Write files of 250,000 sources of 25 words each; the texts of a file stand in another order in the next."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(20_000)])
    texts = pl.Series([" ".join(row) for row in words[rng.integers(0, len(words), (_BLOCK, _WORDS))]])
    for number in range(items // _BLOCK):
        path = folder / f"part-{number:03d}.parquet"
        if path.exists():
            continue
        ids = np.arange(number * _BLOCK, (number + 1) * _BLOCK)
        pl.DataFrame(
            {
                "i": ids,
                "src": texts.gather(rng.permutation(_BLOCK)),
                "clicks": rng.gamma(2.0, size=_BLOCK),
                "doc": pl.Series(ids // 10).cast(pl.String),
            }
        ).write_parquet(path)


def write_model(folder: Path) -> Path:
    """Learn from small simulated campaigns: the model's size, and so its speed, is that of a real one."""
    import aliquot

    sets = [aliquot.synthetic(items=400, systems=6, seed=seed) for seed in range(3)]
    path = folder / "utility.model"
    aliquot.learn(sets, "metric_var").model.save(path)
    return path


def run_pool(files: list[str], arguments: list[str], folder: Path, jobs: int = 2) -> Run:
    """Run the verb in processes of its own and watch what they take."""
    code = "import sys; from aliquot.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "pool", *files, *arguments, "--jobs", str(jobs)]
    command += ["-o", str(folder / "chosen.jsonl")]
    before, start = os.times(), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    process.wait()
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(time.perf_counter() - start, cpu, peak[0])


def _watch(process: subprocess.Popen[bytes], peak: list[float]) -> None:
    """Remember the largest sum of the memory of the process and its workers (shared pages counted once)."""
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_gigabytes, _family(process.pid))))
        time.sleep(0.25)


def _family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [root]
    while left:
        found.append(left.pop())
        left += parents.get(found[-1], [])
    return found


def _gigabytes(pid: int) -> float:
    try:
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith("Pss:")), 0.0) / 1e6
