"""Item response theory for continuous scores: ability of systems, difficulty and discrimination of items.

Invariant: the fit is deterministic, and missing cells have no influence on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from threadpoolctl import threadpool_limits

from aliquot.errors import OptionError
from aliquot.stats.arrays import BoolArray, FloatArray, is_constant, is_negligible, max_abs
from aliquot.validation import at_least

# Normal priors, on the scale of the unconstrained parameters. Ability and difficulty are N(0, 1), which fixes
# the origin and the unit that the likelihood leaves open. Discrimination is centred on 1. Feasibility is centred
# on 0.88: without a prior on it a low flat item could be read as infeasible, as hard, or as both.
_LOG_DISCRIMINATION_SD = 0.5
_LOGIT_FEASIBILITY_MEAN = 2.0
_LOGIT_FEASIBILITY_SD = 1.0

_NOISE_FLOOR = 0.01
"""Smallest noise on the [0, 1] scale: exactly additive scores would otherwise switch the priors off."""

_NOISE_DEFAULT = 0.1
"""Noise where the table is too sparse to leave a residual."""

_OPTIMISER = {"maxcor": 20, "ftol": 1e-8, "gtol": 1e-5}


@dataclass(frozen=True)
class IRTFit:
    """A fitted item-response model; NaN for items and systems without a single score."""

    ability: FloatArray  # theta, one per system
    difficulty: FloatArray  # b, one per item
    discrimination: FloatArray  # a > 0, one per item
    feasibility: FloatArray  # c in (0, 1], one per item: the score that a perfect system reaches
    noise: float  # residual standard deviation that the fit assumes, on the [0, 1] scale
    loss: float  # negative log posterior at the solution, up to a constant
    converged: bool  # whether the optimiser converged before `max_iterations`
    iterations: int  # iterations used


@dataclass(frozen=True)
class _IRTProblem:
    """Data of the objective: scaled scores (0 where missing), 0/1 weights, noise precision."""

    scores: FloatArray
    weight: FloatArray
    precision: float

    @property
    def ability_unit(self) -> float:
        """Scale of an ability relative to an item parameter: N cells inform a system, M an item."""
        items, systems = self.scores.shape
        return float(np.sqrt(systems / items))


def fit_irt(scores: FloatArray, *, max_iterations: int = 1000) -> IRTFit:
    """Fit r = c / (1 + exp(-a (theta - b))) by maximum a posteriori (Zouhar et al. 2025, eq. 8).

    Scores are scaled to [0, 1] over the whole table, not binarised. The likelihood is Gaussian with the residual
    variance of an additive item + system model; the priors are normal on theta, b, log a and logit c. a > 0 identifies
    the sign. A fit that needs more iterations of L-BFGS is returned with `converged=False`.

    >>> easy, hard = [0.7, 0.8, 0.9], [0.1, 0.3, 0.6]
    >>> fit = fit_irt(np.array([easy, hard, easy, hard]))
    >>> bool(fit.difficulty[1] > fit.difficulty[0]), bool(fit.ability[2] > fit.ability[0])
    (True, True)
    """
    from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

    present = _validate_scores(scores, max_iterations)
    items, systems = np.asarray(present.any(axis=1)), np.asarray(present.any(axis=0))
    problem = _scale_problem(scores[np.ix_(items, systems)])
    # Many small steps: threads cost six times what they save.
    with threadpool_limits(limits=1, user_api="blas"):
        outcome = minimize(
            _negative_log_posterior,
            _initial_values(problem),
            args=(problem,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iterations, "maxfun": 10 * max_iterations, **_OPTIMISER},
        )
    ability, difficulty, log_disc, logit_feas = _unpack_parameters(np.asarray(outcome.x, dtype=np.float64), problem)
    return IRTFit(
        ability=_scatter_values(ability, systems),
        difficulty=_scatter_values(difficulty, items),
        discrimination=_scatter_values(np.exp(log_disc), items),
        feasibility=_scatter_values(expit(logit_feas), items),
        noise=problem.precision**-0.5,
        loss=float(outcome.fun),
        converged=bool(outcome.success),
        iterations=int(outcome.nit),
    )


def fisher_information(fit: IRTFit) -> FloatArray:
    """Return the Fisher information of every item, sum of a^2 p (1 - p) (Zouhar et al. 2025, eq. 14 to 16).

    p is the logistic part alone, without feasibility. Systems without an ability are left out.

    >>> one = np.array([1.0])
    >>> fit = IRTFit(np.array([0.0, 2.0]), 0 * one, 2 * one, one, 0.1, 0.0, True, 1)
    >>> fisher_information(fit).round(4)
    array([1.0707])
    """
    ability = fit.ability[~np.isnan(fit.ability)]
    slope = fit.discrimination[:, None]
    logits = slope * (ability - fit.difficulty[:, None])
    # 1 - p as expit(-x): the subtraction would lose all digits for items far from all systems.
    information = (slope**2 * expit(logits) * expit(-logits)).sum(axis=1)
    return np.asarray(information, dtype=np.float64)


def _validate_scores(scores: FloatArray, max_iterations: int) -> BoolArray:
    """Return where scores are present; raise OptionError if no model can be fitted."""
    at_least("max_iterations", max_iterations, 1)
    if scores.ndim != 2:
        raise OptionError(f"`scores` has {scores.ndim} dimension(s); give an items x systems table")
    if np.isinf(scores).any():
        raise OptionError("scores holds infinite values; replace them by numbers, or by NaN for missing")
    present = ~np.isnan(scores)
    systems = int(present.any(axis=0).sum())
    if systems < 2:
        raise OptionError(f"`scores` has {systems} system(s) with scores; item response theory compares at least 2")
    observed = scores[present]
    if is_constant(observed):
        raise OptionError(f"`scores` are all {observed[0]:g}; nothing tells items apart, choose a score that varies")
    return present


def _scale_problem(scores: FloatArray) -> _IRTProblem:
    """Scale to [0, 1] and set the noise to the residual of an additive model."""
    low, high = np.nanmin(scores), np.nanmax(scores)
    scaled = (scores - low) / (high - low)
    present = ~np.isnan(scaled)
    item_mean, system_mean = np.nanmean(scaled, axis=1), np.nanmean(scaled, axis=0)
    residual = scaled - item_mean[:, None] - system_mean + np.nanmean(scaled)
    freedom = int(present.sum()) - sum(scores.shape) + 1
    noise = np.sqrt(np.nansum(residual**2) / freedom) if freedom > 0 else _NOISE_DEFAULT
    return _IRTProblem(
        scores=np.where(present, scaled, 0.0),
        weight=present.astype(np.float64),
        precision=1.0 / max(float(noise), _NOISE_FLOOR) ** 2,
    )


def _initial_values(problem: _IRTProblem) -> FloatArray:
    """Compute initial values from row and column means."""
    totals, weight = problem.scores * problem.weight, problem.weight
    system_logit = _clipped_logit(totals.sum(axis=0) / weight.sum(axis=0))
    ability = system_logit - system_logit.mean()
    spread = float(ability.std())
    if not is_negligible(spread, max_abs(system_logit)):
        ability = ability / spread
    feasibility = expit(_LOGIT_FEASIBILITY_MEAN)
    difficulty = -_clipped_logit(totals.sum(axis=1) / weight.sum(axis=1) / feasibility)
    flat = np.zeros_like(difficulty)
    return np.concatenate([ability / problem.ability_unit, difficulty, flat, flat + _LOGIT_FEASIBILITY_MEAN])


def _clipped_logit(share: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(share, 0.02, 0.98)), dtype=np.float64)


def _unpack_parameters(
    point: FloatArray, problem: _IRTProblem
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Split the optimiser's vector into ability, difficulty, log discrimination, logit feasibility."""
    items, systems = problem.scores.shape
    ability, difficulty, log_disc, logit_feas = np.split(point, systems + items * np.arange(3))
    return ability * problem.ability_unit, difficulty, log_disc, logit_feas


def _negative_log_posterior(point: FloatArray, problem: _IRTProblem) -> tuple[float, FloatArray]:
    """Return the negative log posterior and its gradient."""
    ability, difficulty, log_disc, logit_feas = _unpack_parameters(point, problem)
    slope, ceiling = np.exp(log_disc)[:, None], expit(logit_feas)[:, None]
    distance = ability - difficulty[:, None]
    logistic = expit(slope * distance)
    error = problem.weight * (ceiling * logistic - problem.scores)
    pull = problem.precision * error * logistic
    by_logit = pull * ceiling * (1.0 - logistic)
    by_ability = by_logit * slope
    off_mean = logit_feas - _LOGIT_FEASIBILITY_MEAN
    prior = (
        ability @ ability
        + difficulty @ difficulty
        + log_disc @ log_disc / _LOG_DISCRIMINATION_SD**2
        + off_mean @ off_mean / _LOGIT_FEASIBILITY_SD**2
    )
    gradient = np.concatenate(
        [
            (by_ability.sum(axis=0) + ability) * problem.ability_unit,
            difficulty - by_ability.sum(axis=1),
            (by_ability * distance).sum(axis=1) + log_disc / _LOG_DISCRIMINATION_SD**2,
            (pull * ceiling * (1.0 - ceiling)).sum(axis=1) + off_mean / _LOGIT_FEASIBILITY_SD**2,
        ]
    )
    return float(0.5 * (problem.precision * np.vdot(error, error) + prior)), gradient


def _scatter_values(values: FloatArray, where: BoolArray) -> FloatArray:
    """Scatter fitted values to their indices, NaN elsewhere."""
    full = np.full(where.shape, np.nan)
    full[where] = values
    return full
