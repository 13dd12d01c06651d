"""What `estimate` returns: systems, pairs, and how they were estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import polars as pl

from aliquot.core.result import Result
from aliquot.core.statements import Decision, SystemMean
from aliquot.core.verdict_words import Lead, PairTest, decide_pairs, find_lead
from aliquot.core.view import View
from aliquot.errors import unknown_name
from aliquot.estimation.estimate_views import estimate_views
from aliquot.estimation.intervals import IntervalKind
from aliquot.estimation.ranking import Rule
from aliquot.estimation.targets import Target
from aliquot.stats.arrays import FloatArray
from aliquot.stats.multiple_testing import PairAdjustment
from aliquot.validation import one_of


@dataclass(frozen=True)
class SystemEstimate:
    """One system: its estimated mean over the whole test set, its interval and its ranks.

    A system that was never judged has no rank, no cluster and no probability of being best.
    """

    system: str
    estimate: float
    se: float
    low: float
    high: float
    n: int
    effective_n: float
    proxy_correlation: float
    rank_low: int | None
    rank_high: int | None
    p_best: float
    cluster: int | None
    missing: int = 0  # selected outputs without a judgment
    plain_mean: float = float("nan")  # of the judged outputs, without weights, metrics or adjustment


@dataclass(frozen=True)
class PairEstimate:
    """Two systems, the better one first: their difference, and p-values.

    `p` is two-sided, `p_adjusted` takes all pairs into account (and decides clusters and ranks). One-sided, that `a` is
    not better: `p_sample` says how sure the judged items are; `p_full` predicts what judging all items would say.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    p_sample: float
    p_full: float


EstimateTable = Literal["systems", "pairs"]


@dataclass(frozen=True, eq=False)
class Estimates(Result):
    """The result of `estimate`: systems best first, pairs, joint covariance, and how it was made."""

    systems: tuple[SystemEstimate, ...]
    pairs: tuple[PairEstimate, ...]
    covariance: FloatArray
    method: str
    interval: IntervalKind
    level: float
    population: int
    judged: int
    unbiased: bool
    target: Target = "testset"
    alpha: float = 0.05
    adjust: PairAdjustment = "bh"
    rule: Rule = "any"
    annotators: int = 0  # behind the score; 0 where they have no ids
    changes: tuple[str, ...] = ()  # where adjustment, weights or a model change what plain means say
    variance: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    signature: str = ""

    def __getitem__(self, system: str) -> SystemEstimate:
        for row in self.systems:
            if row.system == system:
                return row
        raise unknown_name("system", system, [row.system for row in self.systems])

    def __repr__(self) -> str:
        best = self.systems[0].system if self.systems else "nobody"
        return f"Estimates({len(self.systems)} systems by {self.method}, {self.judged} items judged, best: {best})"

    @property
    def lead(self) -> Lead:
        """The leading systems by the p-values of the result; needs two judged systems."""
        judged = [row for row in self.systems if row.cluster is not None]
        clusters, method = [row.cluster or 0 for row in judged], "none" if self.rule == "published" else self.adjust
        return find_lead([row.system for row in judged], clusters, self._pair_tests, alpha=self.alpha, method=method)

    @property
    def _pair_tests(self) -> list[PairTest]:
        """The tests of all pairs of judged systems."""
        published, judged = self.rule == "published", {row.system for row in self.systems if row.cluster is not None}
        return [
            PairTest(pair.a, pair.b, pair.p_sample if published else pair.p, pair.p_adjusted)
            for pair in self.pairs
            if {pair.a, pair.b} <= judged
        ]

    def decisions(self) -> tuple[Decision, ...]:
        """Return for each pair of judged systems whether they are told apart."""
        tests = self._pair_tests
        if self.rule == "published":
            tests = [replace(test, p_adjusted=test.p) for test in tests]
        return decide_pairs(tests, self.alpha)

    def means(self) -> list[SystemMean]:
        """Return the estimate of each judged system."""
        return [
            SystemMean(
                row.system,
                score=self.details.get("score") or "human",
                dataset=self.details.get("dataset", "data"),
                value=row.estimate,
                se=row.se,
                low=row.low,
                high=row.high,
                level=self.level,
                n=row.n,
                method=self.method,
                interval=self.interval,
                scale=self.details.get("scale"),
            )
            for row in self.systems
            if not math.isnan(row.estimate)
        ]

    @property
    def contenders(self) -> tuple[str, ...]:
        """Systems that may be the best: the first cluster, and those not significantly worse than its only member."""
        if sum(row.cluster is not None for row in self.systems) < 2:
            return tuple(row.system for row in self.systems if row.cluster == 1)
        return (*self.lead.leaders, *self.lead.rivals)

    def views(self) -> Sequence[View]:
        """Return the views `mismatches`, `systems` and `pairs`."""
        return estimate_views(self)

    def to_frame(self, table: EstimateTable = "systems") -> pl.DataFrame:
        """Return one row per system, best first, or per pair of systems."""
        if one_of("table", table, get_args(EstimateTable)) == "pairs":
            return self.pairs_frame()
        return pl.DataFrame([vars(row) for row in self.systems])

    def pairs_frame(self) -> pl.DataFrame:
        """One row per pair of systems, the better one first."""
        schema = None if self.pairs else dict.fromkeys(PairEstimate.__dataclass_fields__, pl.Float64)
        return pl.DataFrame([vars(row) for row in self.pairs], schema=schema)

    def document(self) -> Mapping[str, Any]:
        """All fields but the covariance; judgments that do not fit are `mismatches`."""
        shared = self.fields_without("covariance", "annotators", "changes", "details", "signature")
        mismatches = self.details.get("mismatches", ())
        return {"verdict": self.verdict, **shared, "mismatches": mismatches, "signature": self.signature}
