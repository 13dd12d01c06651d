"""`estimate`: from few judgments to scores, intervals and a ranking one can defend."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from aliquot.core import memory
from aliquot.core.evalset import EvalSet
from aliquot.core.plausibility import plausibility_notes
from aliquot.core.registry import Spec, parse_spec, suggest_arguments
from aliquot.core.result import make_signature
from aliquot.core.selection import Selection
from aliquot.errors import AliquotWarning, unknown_name
from aliquot.estimation.draws import plan_draws, select_prompts
from aliquot.estimation.estimate_result import Estimates, PairEstimate, SystemEstimate
from aliquot.estimation.estimators import estimate_mean
from aliquot.estimation.inputs import (
    COPIES,
    REPEATS,
    Mismatch,
    attach_judgments,
    criteria_note,
    has_extreme_metrics,
    refuse_mismatches,
    require_metrics_of_pool,
    rescale_judgments,
    rescale_scores,
    score_divisor,
    select_criterion,
    use_criterion_score,
)
from aliquot.estimation.intervals import Bounds, IntervalKind, check_level, compute_bounds, cut_to_scale, refuse_outside
from aliquot.estimation.missing import Missing, missing_cells, missing_notes, refuse_missing
from aliquot.estimation.notes import (
    MODELS,
    PUBLISHED_RULE,
    SEVERITY_NOTE,
    change_cause,
    direction_notes,
    find_changes,
    no_spread_notes,
    plain_means,
    sampling_notes,
    scale_notes,
)
from aliquot.estimation.past import add_past_prediction
from aliquot.estimation.pipeline import Inference, infer_means
from aliquot.estimation.ranking import Ranking, Rule, Test, follow_exact_tests, rank_systems
from aliquot.estimation.sample import Fitted, Sample, judged_sample, proxy_correlation
from aliquot.estimation.scales import Scale, find_scale, scale_of_range
from aliquot.estimation.targets import (
    JudgingNoise,
    Target,
    TargetVariance,
    check_target,
    judging_noise,
    target_variance,
)
from aliquot.io.inputs import (
    DataLike,
    JudgmentsLike,
    SelectionLike,
    as_evalset,
    as_evalsets,
    as_judgments,
    as_selection,
)
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.multiple_testing import PairAdjustment, choose_adjustment

AUTO_ESTIMATORS = {"means": "greg", "ranking": "multilevel"}
"""What `auto` and `auto:goal=ranking` stand for; docs/evidence.md gives the evidence."""
AUTO_WITH_PAST = "informed"
"""What `auto` stands for with earlier campaigns."""


@suggest_arguments
def estimate(
    data: DataLike,
    method: str = "auto",
    *,
    selection: SelectionLike | None = None,
    judgments: JudgmentsLike | None = None,
    human: str | None = None,
    criterion: str | None = None,
    interval: IntervalKind = "t",
    level: float = 0.95,
    value_range: tuple[float, float] | None = None,
    test: Test = "estimator",
    rule: Rule = "any",
    alpha: float = 0.05,
    adjust: PairAdjustment | None = None,
    strict: bool = False,
    target: Target = "testset",
    draws: str = "mean",
    past: Sequence[DataLike] = (),
    seed: int = 0,
    **parameters: Any,
) -> Estimates:
    """Estimate each system's mean over the whole test set, with intervals, tests of all pairs, clusters and ranks.

    Args:
        data: the whole test set, with human scores on some items, or with separate `judgments`.
        method: an estimator spec: mean, stratified, cv, greg, multilevel, informed, paper_best, or auto (greg with what
            helps; auto:goal=ranking trades unbiased means for a better ranking).
        selection: the selection of the judged items, with inclusion probabilities. Without one, the judged items are
            assumed to be a simple random sample.
        judgments: judgments of the selected items.
        human: the name of the human score.
        criterion: the criterion to estimate, where judgments have several.
        interval: t, bootstrap, hoeffding, bernstein or sequence (valid at every look).
        level: coverage of the intervals.
        value_range: ends of the scale, to which intervals are clipped; required by hoeffding, bernstein and sequence.
            Usual scales (0/1, 1-5, 0-100, penalties up to 0) are detected.
        test: source of p-values: estimator, or permutation, analytic, wilcoxon on the judged items.
        rule: a new cluster starts below a system that is worse than "any" member, or than the last one ("neighbour");
            "published" is the common practice of unadjusted one-sided tests, with more false differences.
        alpha: significance level of clusters and rank intervals.
        adjust: adjustment of two-sided p-values for the number of pairs: bh (the default, Benjamini-Hochberg: controls
            the false discovery rate), holm or maxt (family-wise error rate), or none.
        strict: raise DataError for judgments that do not fit and selected outputs without judgment, instead of notes.
        target: what is estimated: testset (this test set, judged by other annotators of the same kind), given (the
            mean of these very judgments over the test set), or beyond (also other items of the same kind).
        draws: the score of a prompt with several draws: mean, or of pass/fail scores pass@K, pass^K or majority (see
            `combine_draws`). Estimates are about prompts then.
        past: earlier campaigns with human scores, from which to learn how scores follow metrics, length and texts;
            helps with 10 to 40 judged items. auto is then `informed`, whose means are biased.
        seed: seed of bootstrap, permutations and probabilities of being best.
        **parameters: parameters of the estimator, such as metrics=["COMET"].

    >>> import aliquot
    >>> data = aliquot.synthetic(items=200, systems=3, seed=5)
    >>> chosen = aliquot.select(data, "pps", budget=60, seed=1)
    >>> result = aliquot.estimate(data, selection=chosen)
    >>> [row.system for row in result.systems]
    ['sys1', 'sys2', 'sys3']
    """
    data, scale = as_evalset(data), value_range
    given_judgments = None if judgments is None else as_judgments(judgments)
    divisor = score_divisor(data, given_judgments, human)
    if divisor != 1.0 or has_extreme_metrics(data):
        data = rescale_scores(data, divisor)
        given_judgments = None if given_judgments is None else rescale_judgments(given_judgments, divisor)
        value_range = None if value_range is None else (value_range[0] / divisor, value_range[1] / divisor)
    selection = None if selection is None else as_selection(selection)
    selection_notes = () if selection is None else selection.check(data, strict=strict)
    mismatches: tuple[Mismatch, ...] = ()
    if given_judgments is not None:
        made = select_criterion(given_judgments, criterion, human)
        data, mismatches = attach_judgments(data, made, selection, human)
        if strict:
            refuse_mismatches(mismatches)
    elif criterion is not None:
        data = use_criterion_score(data, criterion, human)
        human = data.human
    check_target(target)
    check_level(level)
    adjust = choose_adjustment(adjust, rule)
    memory.require_pair_memory(data.n_systems)
    campaigns = as_evalsets(past)
    spec = auto_estimator(parse_spec(method).with_parameters(parameters), past=bool(campaigns))
    name, selected = human or data.human, None if selection is None else selection.ids
    missing = missing_cells(data, human, selection)
    if strict:
        refuse_missing(missing)
    noise = JudgingNoise(np.nan) if target == "given" or name is None else judging_noise(data, name, selected)
    adjusted = target == "testset" and noise.unbalanced and spec.name != "mean"
    whole = data
    data, sample, raw, noise = _take_samples(data, human, selection, noise, draws, adjusted=adjusted)
    require_metrics_of_pool(data, sample.evalset, spec)
    if value_range is not None:
        refuse_outside(raw, value_range, interval)
    question = _EstimationTask(target, noise, campaigns, _scale_of(raw, value_range, adjusted=adjusted))
    inference, goal = question.infer(sample, spec, adjusted=adjusted)
    fitted = inference.fitted
    limits = _compute_limits(inference, interval, adjust, level=level, value_range=value_range, seed=seed)
    notes = [
        *selection_notes,
        *sampling_notes(sample, selection),
        *no_spread_notes(inference),
        *([] if value_range else scale_notes(inference, limits)),
        *fitted.notes,
        *goal.notes,
        *([] if noise.draws is None else [noise.draws.note]),
        *(row.sentence for row in mismatches if row.what in (COPIES, REPEATS)),
        *([SEVERITY_NOTE.format(count=len(noise.shares))] if adjusted else []),
        *([PUBLISHED_RULE] if rule == "published" else []),
        *direction_notes(inference, name),
        *missing_notes(whole, human, missing, selected=selection is not None),
        *criteria_note(whole, name),
        *plausibility_notes(whole, name),
    ]
    compare = partial(rank_systems, test=test, rule=rule, alpha=alpha, adjust=adjust, seed=seed)
    ranking, is_compared = compare(inference), adjusted or spec.name in MODELS
    comparison_spec = spec if adjusted else Spec("mean", {})
    before = compare(question.infer(raw, comparison_spec, adjusted=False)[0]) if is_compared else None
    plain = plain_means(raw)
    changes = find_changes(inference, plain, ranking, before, alpha, change_cause(spec, raw, adjusted=adjusted))
    systems = _system_rows(inference, limits, ranking, missing, plain)
    order = np.argsort(-np.nan_to_num(fitted.values, nan=-np.inf), kind="stable")
    result = Estimates(
        systems=tuple(systems[index] for index in order),
        pairs=_pair_rows(sample, fitted, limits, ranking, order),
        covariance=inference.whole_covariance,
        method=str(spec),
        interval=interval,
        level=level,
        population=sample.population,
        judged=sample.n,
        unbiased=sample.pi is not None and "share" not in fitted.details,
        notes=tuple(notes),
        target=target,
        alpha=alpha,
        adjust=adjust,
        rule=rule,
        annotators=noise.annotators,
        changes=changes,
        variance=goal.parts,
        details=dict(fitted.details)
        | {"mismatches": mismatches, "dataset": data.name, "score": name, "scale": scale or _find_binary_scale(raw)}
        | ({} if noise.draws is None else {"unit": "prompts"}),
        signature=make_signature(
            f"estimate:{spec}",
            whole,
            selection=_describe_selection(selection),
            human=human,
            criterion=criterion,
            interval=interval,
            level=level,
            range=None if value_range is None else f"{value_range[0]:g},{value_range[1]:g}",
            test=None if test == "estimator" else test,
            alpha=None if alpha == 0.05 else alpha,
            rule=None if rule == "any" else rule,
            adjust=None if adjust == "bh" or rule == "published" else adjust,
            target=None if target == "testset" else target,
            draws=None if draws == "mean" else draws,
            past=_join_fingerprints(campaigns),
            seed=seed,
        ),
    )
    return result if divisor == 1.0 else _rescale_estimates(result, divisor)


@dataclass(frozen=True, eq=False)
class _EstimationTask:
    """What the estimates are about: the target, the noise of judging, earlier campaigns, and the scale."""

    target: Target
    noise: JudgingNoise
    campaigns: Sequence[EvalSet]
    scale: Scale | None

    def infer(self, sample: Sample, spec: Spec, *, adjusted: bool) -> tuple[Inference, TargetVariance]:
        """Fit an estimator; add the covariance that the target requires."""
        is_given = self.target == "given"
        draws = self.noise.draws
        is_exact = np.asarray(is_given if draws is None else is_given & draws.is_complete)
        base = infer_means(add_past_prediction(sample, self.campaigns), spec, question=(self.scale, is_exact))
        goal = target_variance(base, self.target, self.noise, adjusted=adjusted)
        return (base if is_given and self.noise.draws is None else replace(base, added=goal.added)), goal


def _compute_limits(
    inference: Inference, interval: IntervalKind, adjust: PairAdjustment, *, level: float, **options: Any
) -> Bounds:
    """Return intervals; those of differences are simultaneous if the adjustment is `holm` or `maxt`."""
    limits = cut_to_scale(compute_bounds(interval, inference, level=level, **options), inference.scale)
    if interval == "t":
        limits = cut_to_scale(follow_exact_tests(limits, inference, options["seed"]), inference.scale)
    if adjust not in ("holm", "maxt"):
        return limits
    pairs = max(1, len(inference.values) * (len(inference.values) - 1) // 2)
    wide = cut_to_scale(compute_bounds(interval, inference, level=1 - (1 - level) / pairs, **options), inference.scale)
    return replace(limits, pair_low=wide.pair_low, pair_high=wide.pair_high)


def _scale_of(sample: Sample, value_range: tuple[float, float] | None, *, adjusted: bool) -> Scale | None:
    """Return the scale of the scores; scores adjusted for severity are not binary."""
    scale = find_scale(sample.scores) if value_range is None else scale_of_range(value_range, sample.scores)
    return replace(scale, binary=False) if scale is not None and adjusted else scale


def _find_binary_scale(sample: Sample) -> tuple[float, float] | None:
    """Return the ends of pass/fail scores; other scales are guesses."""
    scale = find_scale(sample.scores)
    return (scale.low, scale.high) if scale is not None and scale.binary else None


def _take_samples(
    data: EvalSet, human: str | None, selection: Selection | None, noise: JudgingNoise, draws: str, *, adjusted: bool
) -> tuple[EvalSet, Sample, Sample, JudgingNoise]:
    """Return the data, the judged sample, the one without adjustment, and the noise; draws become prompts."""
    name = human or data.human
    scored = noise.without_severity(data, name) if adjusted and name else data
    task = plan_draws(data, draws, human, selection)
    if task is not None:
        scored, whole, data = task.combine(scored), data, task.combine(data)
        noise = replace(noise, draws=task.measure_noise(whole))
        selection = None if selection is None else select_prompts(selection, whole)
    sample = judged_sample(scored, human, selection)
    return data, sample, _sample_without_warnings(data, human, selection) if adjusted else sample, noise


def _sample_without_warnings(data: EvalSet, human: str | None, selection: Selection | None) -> Sample:
    """Return the judged sample of the unadjusted scores, without repeating the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        return judged_sample(data, human, selection)


def _rescale_estimates(estimates: Estimates, factor: float) -> Estimates:
    """Multiply the estimates by `factor`: back to the scale of the data."""
    systems = tuple(
        replace(
            row,
            estimate=row.estimate * factor,
            se=row.se * factor,
            low=row.low * factor,
            high=row.high * factor,
            plain_mean=row.plain_mean * factor,
        )
        for row in estimates.systems
    )
    pairs = tuple(
        replace(row, difference=row.difference * factor, low=row.low * factor, high=row.high * factor)
        for row in estimates.pairs
    )
    with np.errstate(over="ignore", under="ignore"):
        covariance = estimates.covariance * factor * factor
    return replace(estimates, systems=systems, pairs=pairs, covariance=covariance)


def _describe_selection(selection: Selection | None) -> str | None:
    """Describe a selection by its method and a digest of its items."""
    if selection is None:
        return None
    digest = hashlib.sha256(str(selection.to_dict()["items"]).encode()).hexdigest()[:6]
    return f"{selection.method}#{digest}"


def _join_fingerprints(campaigns: Sequence[EvalSet]) -> str | None:
    """Join the fingerprints of earlier campaigns."""
    return "+".join(campaign.fingerprint for campaign in campaigns) or None


def auto_estimator(spec: Spec, *, past: bool = False) -> Spec:
    """Replace `auto` by the recommended estimator.

    >>> str(auto_estimator(parse_spec("auto:goal=ranking")))
    'multilevel'
    """
    if spec.name != "auto":
        return spec
    parameters = dict(spec.parameters)
    goal = parameters.pop("goal", "means")
    if goal not in AUTO_ESTIMATORS:
        raise unknown_name("goal", goal, AUTO_ESTIMATORS)
    return Spec(AUTO_WITH_PAST if past and goal == "means" else AUTO_ESTIMATORS[goal], parameters)


def _effective_n(inference: Inference, n: FloatArray) -> FloatArray:
    """Return the size of a simple random sample whose plain mean has the same variance: n Var_mean / Var_est."""
    sample, variance = inference.sample, inference.se**2
    share = np.where(np.isfinite(sample.scores), sample.weight[:, None], 0.0)
    share = share / np.maximum(share.sum(axis=0), 1e-300)
    centred = np.where(share > 0, sample.scores - estimate_mean(sample).values, 0.0)
    spread = (share * centred**2).sum(axis=0) * n / np.maximum(n - 1, 1)
    plain = spread / np.maximum(n, 1) * (1 - n / sample.population)
    if inference.added is not None:  # a plain mean has the noise of judging, too
        plain = plain + np.diag(inference.added)
    usable = (n > 1) & (variance > 0) & ~(inference.unseen > 0)
    return np.where(usable, n * plain / np.where(usable, variance, 1.0), np.nan)


def _system_rows(
    inference: Inference, limits: Bounds, ranking: Ranking, missing: Missing, plain: FloatArray
) -> list[SystemEstimate]:
    sample, fitted, se = inference.sample, inference.fitted, inference.se
    n = np.isfinite(sample.scores).sum(axis=0)
    has_interval, several = n > 1, (n > 0).sum() > 1
    effective, correlation = _effective_n(inference, n.astype(np.float64)), proxy_correlation(fitted, sample)
    return [
        SystemEstimate(
            system=system,
            estimate=float(fitted.values[index]),
            se=float(se[index]),
            low=float(limits.low[index]) if has_interval[index] else float("nan"),
            high=float(limits.high[index]) if has_interval[index] else float("nan"),
            n=int(n[index]),
            effective_n=float(effective[index]),
            proxy_correlation=float(correlation[index]),
            rank_low=int(ranking.rank_low[index]) if n[index] and several else None,
            rank_high=int(ranking.rank_high[index]) if n[index] and several else None,
            p_best=float(ranking.p_best[index]),
            cluster=int(ranking.cluster[index]) if n[index] else None,
            missing=int(missing.counts[index]),
            plain_mean=float(plain[index]),
        )
        for index, system in enumerate(sample.evalset.systems)
    ]


def _pair_rows(
    sample: Sample, fitted: Fitted, limits: Bounds, ranking: Ranking, order: IntArray
) -> tuple[PairEstimate, ...]:
    names = sample.evalset.systems
    return tuple(
        PairEstimate(
            a=names[a],
            b=names[b],
            difference=float(fitted.values[a] - fitted.values[b]),
            low=float(limits.pair_low[a, b]),
            high=float(limits.pair_high[a, b]),
            p=float(ranking.p[a, b]),
            p_adjusted=float(ranking.p_adjusted[a, b]),
            p_sample=float(ranking.p_sample[a, b]),
            p_full=float(ranking.p_full[a, b]),
        )
        for place, a in enumerate(order)
        for b in order[place + 1 :]
    )
