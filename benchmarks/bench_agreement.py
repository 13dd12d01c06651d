"""Judgments: alpha on a million of them, its bootstrap, the whole verb, and cleaning."""

from __future__ import annotations

import harness
import krippendorff
import numpy as np
import polars as pl

import aliquot
from aliquot.stats.alpha import alpha_measure, krippendorff_alpha, pairable_judgments, to_long_form
from aliquot.stats.arrays import FloatArray
from aliquot.stats.resampling import bootstrap_intervals


def measure() -> list[harness.Row]:
    rng = np.random.default_rng(0)
    unit, annotator, value = to_long_form(_ratings(rng, 5_000, 200))
    few = to_long_form(_ratings(rng, 10_000, 3))
    answers = pairable_judgments(few[0], few[2])
    sparse = _ratings(rng, 2_000, 60, 100)
    sparse[np.argsort(rng.random(sparse.shape), axis=1) >= 3] = np.nan  # a crowd: three of sixty on each output
    short = to_long_form(sparse)
    ours, peer = harness.side_by_side(
        lambda: krippendorff_alpha(short[0], short[2], "ordinal"),
        lambda: krippendorff.alpha(reliability_data=sparse.T, level_of_measurement="ordinal"),
    )
    timed = _timed(rng, 1_000_000)
    whole = pl.DataFrame({"item": unit, "annotator": annotator.astype(str), "value": value})
    return [
        harness.within(
            "alpha, 1,000,000 judgments x 200 annotators",
            harness.seconds(lambda: krippendorff_alpha(unit, value, "ordinal")),
            10,
        ),
        harness.within(
            "1,000 draws of alpha, 10,000 items x 3",
            harness.seconds(lambda: bootstrap_intervals([alpha_measure(answers, "ordinal")], 1000)),
            10,
        ),
        harness.within(
            "agreement, 1,000,000 judgments x 200 annotators, all tables",
            harness.seconds(lambda: aliquot.agreement(whole)),
            30,
        ),
        harness.within("1,000,000 judgments cleaned and z-scored", harness.seconds(lambda: _cleaned(timed)), 5),
        harness.faster("alpha of 0 to 100, 2,000 outputs, 3 of 60 annotators, and krippendorff's", ours, peer, 5),
    ]


def _cleaned(table: pl.DataFrame) -> None:
    aliquot.combine(aliquot.clean(table, "da_wmt").judgments, normalise="z")


def _timed(rng: np.random.Generator, count: int) -> pl.DataFrame:
    """Judgments of 20,000 items x 10 systems by 200 annotators, with the seconds they took."""
    return pl.DataFrame(
        {
            "item": rng.integers(0, 20_000, count),
            "system": rng.integers(0, 10, count).astype(str),
            "annotator": rng.integers(0, 200, count).astype(str),
            "value": rng.integers(0, 101, count).astype(float),
            "seconds": rng.gamma(2, 10, count),
        }
    )


def _ratings(rng: np.random.Generator, units: int, people: int, highest: int = 5) -> FloatArray:
    seen = rng.integers(1, highest + 1, (units, 1)) + rng.integers(-1, 2, (units, people))
    return np.asarray(np.clip(seen, 1, highest), dtype=np.float64)
