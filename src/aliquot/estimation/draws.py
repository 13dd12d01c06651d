"""Estimates about prompts from judged draws: the sample of prompts, and the noise of their draws.

A prompt's score is the mean over its judged draws (or pass@k, ...; see core/draws.py). With V_s the variance that other
draws, judged by others, would give a prompt's score, the mean over N prompts has the variance V_s / N besides that of
the choice of prompts, because the N prompts are the test set and the draws are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core.draws import (
    DRAW,
    DrawRule,
    build_draws_error,
    combine_draws,
    has_draws,
    parse_draw_rule,
    prompt_codes,
    prompt_ids,
)
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection, Variance
from aliquot.estimation.scales import find_scale
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, nan_std, snap_to_zero
from aliquot.stats.draws import sum_draws

MIN_REPEATED_DRAWS = 10
"""Degrees of freedom of the variance within prompts from which it is trusted."""


@dataclass(frozen=True, eq=False)
class DrawNoise:
    """Variances of a prompt's score, by system.

    Attributes:
        others: That other draws, judged by others, would give it; NaN where too few prompts have two judged draws.
        rest: That the prompt's draws without a judgment give it.
        judging: The mean of 1 / draws, the part of a draw's judging noise that is left in the score.
        note: How prompts are scored.
    """

    others: FloatArray
    rest: FloatArray
    judging: FloatArray
    note: str

    @property
    def is_known(self) -> bool:
        """Whether enough prompts have two judged draws."""
        return bool(np.isfinite(self.others).all())

    @property
    def is_complete(self) -> BoolArray:
        """For which systems the draws without a judgment add nothing."""
        return self.rest <= 0.0


@dataclass(frozen=True)
class DrawTask:
    """How draws become prompts in an estimate: the rule, and which cells were chosen to be judged."""

    how: str
    rule: DrawRule
    human: str | None
    selection: Selection | None

    def combine(self, data: EvalSet) -> EvalSet:
        """Return the prompts; a prompt's human score is that of its selected draws."""
        name = self.human or data.human
        if name is not None and self.selection is not None:
            scores = {**data.scores, name: np.where(self._is_selected(data), data.score(name), np.nan)}
            data = replace(data, scores=scores)
        return combine_draws(data, self.how, human=name)

    def measure_noise(self, data: EvalSet) -> DrawNoise:
        """Measure what draws add to the noise of the prompts' scores."""
        values = np.where(self._is_selected(data), data.human_score(self.human), np.nan)
        codes = prompt_codes(data)
        sums = sum_draws(values, codes)
        freedom = sums.freedom
        # One more degree of freedom stands for the largest noise there can be: few draws that agree prove little.
        largest = _find_largest_noise(values)
        pooled = float(sums.square.sum() + largest.mean()) / float(freedom.sum() + 1.0)
        within = np.where(freedom >= MIN_REPEATED_DRAWS, sums.within, pooled)
        rest = snap_to_zero(sums.mean_variance(within, finite=True), largest)
        if self.rule.kind is None:
            others = (freedom * sums.mean_variance(within) + largest * sums.inverse_count) / (freedom + 1.0)
        else:
            scores = self.rule.combine(values, codes)
            count = np.isfinite(scores).sum(axis=0)
            mean = (np.nansum(scores, axis=0) + 0.5) / (count + 1.0)
            total = np.nansum(self.rule.variance(values, codes), axis=0)
            # On average over prompts, scores from 0 to 1 vary no more than one 0/1 score with the same mean.
            others = np.minimum(total / np.maximum(count, 1), mean * (1.0 - mean))
            rest = np.where(rest > 0, others, 0.0)
        if freedom.sum() < MIN_REPEATED_DRAWS:
            others = np.full(len(freedom), np.nan)
        score = "the mean" if self.rule.kind is None else self.how
        note = f"{data.n_items} draws of {len(sums.listed)} prompts: a prompt's score is {score} of its judged draws"
        return DrawNoise(others, rest, sums.inverse_count, note + _describe_equal_numbers(data))

    def _is_selected(self, data: EvalSet) -> BoolArray:
        """Return which cells are selected, items x systems."""
        if self.selection is None:
            return np.ones((data.n_items, data.n_systems), dtype=np.bool_)
        systems = self.selection.systems or [data.systems] * len(self.selection)
        cells = dict(zip(self.selection.ids, map(set, systems), strict=True))
        return np.array([[system in cells.get(item, ()) for system in data.systems] for item in data.ids])


def _find_largest_noise(values: FloatArray) -> FloatArray:
    """Return the variance of single draws over all prompts, by system; no noise within prompts is larger.

    That of pass/fail scores is m(1 - m) with m = (passes + 2) / (draws + 4) (Agresti and Coull 1998), because draws
    that all pass do not prove that others would. Other equal scores get it on a scale with two ends, but no more than
    the other systems show.
    """
    spread, scale = np.nan_to_num(nan_std(values, axis=0)) ** 2, find_scale(values)
    varies = spread > 0
    usual = np.full(len(spread), spread[varies].mean() if varies.any() else 0.0)
    if scale is not None and np.isfinite(scale.width):
        count = np.isfinite(values).sum(axis=0)
        share = (np.nansum((values - scale.low) / scale.width, axis=0) + 2.0) / (count + 4.0)
        allowed = scale.width**2 * share * (1.0 - share)
        if scale.binary:
            return np.asarray(allowed)
        usual = np.minimum(usual, allowed)
    return np.where(varies, spread, usual)


def _describe_equal_numbers(data: EvalSet) -> str:
    """Return the end of a note if draws of a prompt have the same number: their document may not be a prompt."""
    draws = pl.DataFrame({"prompt": prompt_codes(data), DRAW: data.items[DRAW]}).drop_nulls()
    count = draws.height - draws.unique().height
    if not count:
        return ""
    return (
        f"; {count} items have the number of another draw of their prompt: `document` should be the prompt's id, and "
        "`draw` differ within it"
    )


def plan_draws(data: EvalSet, how: str, human: str | None, selection: Selection | None) -> DrawTask | None:
    """Return how draws become prompts; None for data without draws."""
    rule = parse_draw_rule(how)
    if has_draws(data):
        return DrawTask(how, rule, human, selection)
    if rule.k > 1:
        raise build_draws_error(data, f"draws={how}")
    return None


def select_prompts(selection: Selection, data: EvalSet) -> Selection:
    """Return the selection of prompts that a selection of their draws makes.

    >>> import polars as pl
    >>> from aliquot.core.selection import Design
    >>> items = pl.DataFrame({"id": [1, 2, 3, 4], "document": ["a", "a", "b", "b"], "draw": [1, 2, 1, 2]})
    >>> chosen = Selection((1, 4), 4, "segments", probability=np.array([0.25, 0.5]), design=Design("clustered"))
    >>> prompts = select_prompts(chosen, EvalSet(items, ("X",), {}))
    >>> prompts.ids, prompts.population, prompts.probability.tolist()
    (('a', 'b'), 2, [0.5, 1.0])
    """
    codes, ids = prompt_codes(data), prompt_ids(data).to_list()
    row_of = {item: row for row, item in enumerate(data.ids)}
    rows = np.array([row_of[item] for item in selection.ids], dtype=np.int64)
    listed = np.bincount(codes)
    _, first, place, chosen = np.unique(codes[rows], return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)  # prompts in the order of their first draw
    k = listed[codes[rows[first]]].astype(np.float64)

    def mean(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else (np.bincount(place, values) / chosen)[order]

    probability, utility, cost = mean(selection.probability), mean(selection.utility), mean(selection.cost)
    if probability is not None:
        probability = _find_prompt_probability(probability, k[order], chosen[order], selection.design.variance)
    spread = selection.design.variance in ("spread", "clustered")
    return replace(
        selection,
        ids=tuple(ids[row] for row in rows[first[order]]),
        population=max(round(selection.population * len(listed) / data.n_items), len(first)),
        probability=probability,
        weight=mean(selection.weight) if probability is None else None,
        # Of whole prompts an adaptive order has the size that each of their draws has.
        utility=utility if utility is None or selection.design.variance == "clustered" else utility * k[order],
        cost=None if cost is None else cost * chosen[order],
        stratum=None if selection.stratum is None else tuple(selection.stratum[row] for row in first[order]),
        systems=None,
        origin=None,
        design=replace(selection.design, variance="unordered", remainder=1.0) if spread else selection.design,
    )


def _find_prompt_probability(p: FloatArray, listed: FloatArray, chosen: IntArray, variance: Variance) -> FloatArray:
    """Return the probability that a prompt has a chosen draw, from that of each draw.

    The expected number of its chosen draws, over their number, where that is fixed: whole prompts, or one draw of each;
    the expected number, at most 1, where the draw goes along the documents; otherwise draws are taken one by one.
    """
    if variance == "clustered":
        return np.minimum(1.0, p * listed / chosen)
    return np.minimum(1.0, p * listed) if variance == "spread" else -np.expm1(listed * np.log1p(-np.minimum(p, 1.0)))
