"""What an estimate is about: these very judgments, this test set with other annotators, or items beyond it.

With V the covariance of the estimates for `given`, the mean of these judgments over the test set, the other targets add
to it (docs/methods.md, section 8): `testset` adds the noise of judging, Cov(noise) / N, because the mean of N noisy
scores is not the mean that other annotators would give; `beyond` adds the covariance of the scores themselves, S / N,
because the test set is a sample of items. Annotators are a sample, too: with p_js annotator j's share of the judgments
of system s and sa2 the variance of severities, the means of s and t share sa2 * sum_j p_js p_jt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import polars as pl

from aliquot.annotation.judgment_noise import find_score_judgments
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.errors import DataError
from aliquot.estimation.draws import MIN_REPEATED_DRAWS, DrawNoise
from aliquot.estimation.inputs import describe_repeats
from aliquot.estimation.pipeline import Inference
from aliquot.stats.annotator_effects import crossed_effects
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, snap_to_zero
from aliquot.validation import one_of

Target = Literal["testset", "given", "beyond"]
TARGETS: tuple[Target, ...] = get_args(Target)
Severities = tuple[float, FloatArray, FloatArray, FloatArray | None]
MIN_REPEATS = 10  # degrees of freedom of the judging noise from which it is trusted
_MAX_SHARE_DIFFERENCE = 0.01  # sum over annotators of squared differences of shares above which severity is adjusted


@dataclass(frozen=True, eq=False)
class JudgingNoise:
    """Noise of the judgments behind a score.

    Attributes:
        cell: variance of the noise of a cell's score, without the annotators' severity; NaN where nothing was judged
            twice, so that it is not known.
        severity: variance of the annotators' severities; 0 if it cannot be estimated.
        shares: J x M, each annotator's share of the judgments of a system.
        unexplained: J, the share of each severity's variance that is not estimated.
        effect: N x M, the sum of estimated severities in each cell's score; 0 elsewhere.
        annotators: number of annotators behind the score; 0 where they have no ids.
        notes: what a reader should know of the judgments.
        draws: noise of the draws behind the scores of prompts; None without draws.
    """

    cell: float
    severity: float = 0.0
    shares: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    unexplained: FloatArray = field(default_factory=lambda: np.zeros(0))
    effect: FloatArray | None = None
    annotators: int = 0
    notes: tuple[str, ...] = ()
    draws: DrawNoise | None = None

    @property
    def unknown_note(self) -> str:
        """Note for unknown noise: why the interval assumes the largest noise, and what to do."""
        if self.draws is not None:
            return (
                f"fewer than {MIN_REPEATED_DRAWS} prompts have a second judged draw: the interval assumes the largest "
                "noise of draws the data allow; judge two draws of more prompts to narrow it, or set `target=given`"
            )
        repeats = "fewer than " + str(MIN_REPEATS) if self.annotators else "no"
        reason = (
            "the noise of judging is unknown"
            if any("not the mean" in note for note in self.notes)
            else (f"{repeats} outputs were judged by a second annotator")
        )
        return (
            f"{reason}: the interval assumes the largest judging noise the data allow; have some outputs judged by "
            "another annotator to narrow it, or set `target=given`"
        )

    @property
    def unbalanced(self) -> bool:
        """Whether annotators' shares differ clearly between systems."""
        shares = self.shares[:, self.shares.any(axis=0)] if len(self.shares) else self.shares
        if self.effect is None or self.severity == 0 or shares.shape[1] < 2:
            return False
        square = shares.T @ shares
        gaps = np.diag(square)[:, None] + np.diag(square)[None, :] - 2 * square
        return bool(np.nanmax(gaps) > _MAX_SHARE_DIFFERENCE)

    def without_severity(self, data: EvalSet, human: str) -> EvalSet:
        """Return the data with annotators' severities subtracted from the score."""
        if self.effect is None:
            return data
        return data.with_score(human, data.score(human) - self.effect).with_human(human)

    def covariance(self, *, adjusted: bool) -> FloatArray:
        """Return the covariance of system means due to the choice of annotators.

        Where severities were adjusted for, what differs between systems is left only as far as it is not known; what
        is common to all systems cannot be adjusted for, and cancels in differences.
        """
        judged = self.shares.any(axis=0)
        common = self.shares[:, judged].mean(axis=1)
        # Scores without judgments are taken to come from the same people as the others.
        shares = np.where(judged, self.shares, common[:, None])
        if not adjusted:
            return self.severity * (shares.T @ shares)
        deviations = (shares - common[:, None]) * np.sqrt(self.unexplained)[:, None]
        remaining: FloatArray = self.severity * (float(common @ common) + deviations.T @ deviations)
        return remaining


def check_target(target: str) -> None:
    """Raise NameUnknownError for an unknown target."""
    one_of("target", target, TARGETS)


def judging_noise(data: EvalSet, human: str, items: Sequence[ItemId] | None = None) -> JudgingNoise:
    """Measure the noise of the judgments behind a score: from outputs judged more than once, and from annotators.

    Only judgments of `items` count, where a selection names them: what else the data hold was not part of it.
    """
    try:
        sources = find_score_judgments(data, human)
    except DataError:  # nothing is known of the noise of a score without judgments
        return JudgingNoise(np.nan, notes=_unrelated_judgments(data, human))
    table = sources.table
    if items is not None:
        table = table.filter(pl.col("item").is_in(pl.Series(list(items), dtype=table["item"].dtype).implode()))
    notes = tuple(row.sentence for row in describe_repeats(sources.merged))
    per_cell = table.group_by("item", "system").agg(pl.len().alias("k"), pl.col("value").var().alias("var"))
    repeated = per_cell.filter(pl.col("k") > 1)
    free = int((repeated["k"] - 1).sum()) if repeated.height else 0
    severity = _measure_severities(data, table, sources.slope)
    n_annotators = 0 if table["annotator"].null_count() else table["annotator"].n_unique()
    cell = np.nan
    if free >= MIN_REPEATS:
        k, variance = repeated["k"].to_numpy(), repeated["var"].to_numpy()
        # Different annotators judged these cells, so that their squares contain the severities.
        squares = max(float((variance * (k - 1)).sum()) * sources.slope**2 - free * severity[0], 0.0)
        # One more degree of freedom stands for the largest noise there can be: few repeats that agree prove little.
        largest = table.group_by("system").agg(pl.col("value").var())["value"].drop_nulls().to_numpy()
        within = (squares + float(largest.mean()) * sources.slope**2) / (free + 1)
        cell = within * float((1.0 / per_cell["k"].to_numpy()).mean())
    return JudgingNoise(cell, *severity, n_annotators, notes)


def _unrelated_judgments(data: EvalSet, human: str) -> tuple[str, ...]:
    """Return a note if the data hold judgments, but not those behind the score."""
    if data.judgments is None or not len(data.judgments):
        return ()
    count = len(data.judgments)
    return (f"'{human}' is not the mean of any of the {count} judgments in the data: they do not tell its noise",)


def _measure_severities(data: EvalSet, table: pl.DataFrame, slope: float) -> Severities:
    """Return variance of severities, shares of annotators, unexplained shares, and effects on cells."""
    nothing: Severities = (0.0, np.zeros((0, data.n_systems)), np.zeros(0), None)
    named = table.filter(pl.col("annotator").is_not_null())
    if named.height < table.height or named["annotator"].n_unique() < 2 or named.height < 3 * data.n_systems:
        return nothing
    people = _encode_values(named["annotator"])
    rows, columns = data.cell_index(named["item"], named["system"])
    try:
        fit = crossed_effects(
            named["value"].to_numpy().astype(np.float64),
            people,
            _encode_values(named["item"]),
            np.unique(columns, return_inverse=True)[1].astype(np.int64),
        )
    except (ValueError, np.linalg.LinAlgError):
        return nothing
    cell = rows * data.n_systems + columns
    weight = 1.0 / np.bincount(cell, minlength=data.n_items * data.n_systems)[cell]
    shares = np.zeros((people.max() + 1, data.n_systems))
    np.add.at(shares, (people, columns), weight)
    shares /= np.maximum(shares.sum(axis=0), 1e-300)
    effect = np.bincount(cell, weight * fit.annotator[people], minlength=data.n_items * data.n_systems)
    severity = float(snap_to_zero(np.asarray(fit.annotator_sd**2), float(np.nanvar(named["value"].to_numpy()))))
    unexplained_share = fit.annotator_se**2 / severity if severity > 0 else np.ones(len(shares))
    unexplained = np.clip(np.asarray(unexplained_share, dtype=np.float64), 0.0, 1.0)
    added = np.asarray(slope * effect, dtype=np.float64).reshape(data.n_items, data.n_systems)
    return severity * slope**2, shares, unexplained, added


def _encode_values(values: pl.Series) -> IntArray:
    return np.unique(values.cast(pl.String).to_numpy(), return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class TargetVariance:
    """Covariance that a target adds to the estimates, shares of a mean's variance, and notes."""

    added: FloatArray
    parts: Mapping[str, float]
    notes: tuple[str, ...] = ()


def target_variance(inference: Inference, target: Target, noise: JudgingNoise, *, adjusted: bool) -> TargetVariance:
    """Compute the covariance that the target adds to that of `given`."""
    sample, n = inference.sample, inference.sample.population
    nothing = np.zeros((len(inference.values),) * 2)
    if noise.draws is not None and (target == "given" or (target == "testset" and noise.draws.is_known)):
        return _draw_variance(inference, target, noise, noise.draws, adjusted=adjusted)
    if target == "given":
        everything = (sample.counts[inference.judged] == n).all()
        note = (
            "every item is judged: the mean of these judgments is known exactly; `target=testset` also counts "
            "the noise of judging"
        )
        return TargetVariance(nothing, _variance_parts(inference, nothing, nothing), (note,) if everything else ())
    annotators = noise.covariance(adjusted=adjusted) if len(noise.shares) else nothing
    about = (*noise.notes, *_few_annotators(noise.annotators))
    if target == "beyond":  # the choice of items, noise of judging included
        choice = np.nan_to_num(inference.score_covariance) / n
        return TargetVariance(annotators + choice, _variance_parts(inference, annotators, nothing, choice), about)
    if np.isfinite(noise.cell) and noise.draws is None:
        judging = np.eye(len(nothing)) * noise.cell / n
        return TargetVariance(annotators + judging, _variance_parts(inference, annotators, judging), about)
    # Metrics do not explain the noise of judging, but they do explain that of draws.
    largest = inference.residual_covariance if noise.draws is None else inference.score_covariance
    judging = np.nan_to_num(largest) / n
    return TargetVariance(
        annotators + judging, _variance_parts(inference, annotators, judging), (*about, noise.unknown_note)
    )


def _draw_variance(
    inference: Inference, target: Target, noise: JudgingNoise, draws: DrawNoise, *, adjusted: bool
) -> TargetVariance:
    """Compute what a target adds to estimates about prompts, and the parts: prompts, draws, judging, annotators.

    Scores of draws differ by the draw and by its judging, so that their variance within prompts holds both.
    """
    n, counts = inference.sample.population, np.maximum(inference.sample.counts, 1)
    is_given, others = target == "given", np.nan_to_num(draws.others)
    annotators = (
        noise.covariance(adjusted=adjusted) if len(noise.shares) and not is_given else 0.0 * inference.covariance
    )
    added = np.diag(draws.rest if is_given else others) / n
    judging = np.minimum(np.nan_to_num(noise.cell) * draws.judging, others) if not is_given else 0.0 * others
    chosen = np.diag(inference.covariance)
    # What the draws of the chosen prompts contribute is within the covariance of the estimates.
    within = np.minimum(others * np.maximum(1.0 / counts - 1.0 / n, 0.0), chosen)
    is_known, total = np.isfinite(inference.se), others
    share = np.divide(judging, total, out=np.zeros_like(total), where=total > 0)
    noisy = within + np.diag(added)
    sizes = {
        "prompts": chosen - within,
        "draws": noisy * (1.0 - share),
        "judging": noisy * share,
        "annotators": np.diag(annotators),
    }
    notes = () if is_given else (*noise.notes, *_few_annotators(noise.annotators))
    return TargetVariance(annotators + added, _share_parts(sizes, is_known), notes)


def _few_annotators(annotators: int) -> tuple[str, ...]:
    """Return a note if only one or two annotators judged."""
    if annotators not in (1, 2):
        return ()
    who = "one annotator" if annotators == 1 else "two annotators"
    return (f"only {who} judged: how far others would differ cannot be known, and the intervals do not cover it",)


def _variance_parts(
    inference: Inference, annotators: FloatArray, judging: FloatArray, choice: FloatArray | float = 0.0
) -> dict[str, float]:
    """Return shares of the mean variance: items, annotators, and judging noise."""
    parts = {"items": inference.covariance + choice, "annotators": annotators, "residual": judging}
    return _share_parts({name: np.diag(part) for name, part in parts.items()}, np.isfinite(inference.se))


def _share_parts(variances: Mapping[str, FloatArray], is_known: BoolArray) -> dict[str, float]:
    """Return the shares of parts of the systems' variances, as means over systems."""
    sizes = {name: float(part[is_known].mean()) if is_known.any() else np.nan for name, part in variances.items()}
    total = sum(sizes.values())
    return {name: size / total if total > 0 else np.nan for name, size in sizes.items()}
