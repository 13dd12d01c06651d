"""Planning from a past campaign: its truth is known, so budgets are replayed (simulate/replay.py)."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

from aliquot.data.engine import run_tasks
from aliquot.data.evalset import EvalSet
from aliquot.errors import AliquotWarning
from aliquot.estimate.estimators import run_estimator
from aliquot.estimate.intervals import pair_errors
from aliquot.estimate.sample import Sample
from aliquot.plan.outlook import Outlook, Progress
from aliquot.simulate.budgets import Point as Share
from aliquot.simulate.methods import Plan
from aliquot.simulate.replay import Stage, draw, judged
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.design_variance import degrees_of_freedom, pair_degrees_of_freedom


@dataclass(frozen=True, eq=False)
class Past:
    """A finished campaign, replayed.

    Attributes:
        stage: the set and how it is replayed.
        replays: of each budget.
        seed: of the draws.
        jobs: processes.
    """

    stage: Stage
    replays: int = 100
    seed: int = 0
    jobs: int | None = 1

    @property
    def evalset(self) -> EvalSet:
        """The whole set."""
        return self.stage.evalset

    @property
    def means(self) -> FloatArray:
        """Each system's true mean."""
        return self.stage.truth.means

    def outlooks(self, tasks: Sequence[tuple[Plan, int]], progress: Progress | None = None) -> list[Outlook]:
        """Replay several methods and numbers of items, in parallel."""
        numbered = [(at, method, n, self) for at, (method, n) in enumerate(tasks)]
        found: dict[int, Outlook] = {}
        for at, outlook in run_tasks(_work, numbered, jobs=self.jobs):
            found[at] = outlook
            if progress is not None:
                progress(len(found), len(tasks))
        return [found[at] for at in range(len(tasks))]

    def outlook(self, method: Plan, n: int) -> Outlook:
        """Replay one number of items."""
        total = self.evalset.n_items
        share = Share(n / total, n / total)
        key = [self.seed, int(self.evalset.fingerprint, 16), zlib.crc32(method.typed.encode()), n]
        said, counts = [], np.zeros(total)
        with threadpool_limits(limits=1):
            for replay in range(self.replays if n < total else 1):
                rng = np.random.default_rng([*key, replay])
                sample = judged(self.stage, draw(self.stage, method, share, rng))
                counts += np.bincount(sample.rows, minlength=total)
                said.append(_said(sample, method, self.stage.level))
        estimates, half, pair_half, pair_se = (np.array(part) for part in zip(*said, strict=True))
        return Outlook(self.means[None], estimates, half, pair_half, pair_se, counts / len(said))


def _work(task: tuple[int, Plan, int, Past]) -> tuple[int, Outlook]:
    at, method, n, past = task
    return at, past.outlook(method, n)


def _said(sample: Sample, method: Plan, level: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Estimates, half widths of means and of differences, and errors of differences, as `estimate` gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        fitted = run_estimator(sample, method.estimator)
    errors = sample.errors(fitted.z)
    errors[:, _blind(sample)] = np.nan  # an error that was not seen is unknown, not 0
    most, upper = max(1.0, sample.units - 1.0), 0.5 + level / 2
    half = stdtrit(degrees_of_freedom(errors, most), upper) * np.sqrt((errors**2).sum(axis=0))
    pair_se = pair_errors(errors, matching=sample.matching)
    return fitted.values, half, stdtrit(pair_degrees_of_freedom(errors, most), upper) * pair_se, pair_se


def _blind(sample: Sample) -> IntArray:
    """Systems whose judged scores are all equal although not all items are judged."""
    if sample.n == sample.population:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.nanmax(sample.scores, axis=0) == np.nanmin(sample.scores, axis=0))
