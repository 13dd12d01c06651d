"""Estimators of every system's mean over the whole test set, by name (METHODS.md section 4).

Each takes a `Sample` and gives a `Fitted`: values, and the n x M residuals whose weighted mean carries the error, from
which the design makes the joint covariance. Keyword-only arguments are the user's parameters.
"""

from __future__ import annotations

from aliquot.data.parameters import bind
from aliquot.data.spec import Spec
from aliquot.errors import unknown_name
from aliquot.estimate import control_variates, means, regressions
from aliquot.estimate.fitted import ESTIMATORS, Estimator, Fitted
from aliquot.estimate.sample import Sample

FILES = (means, regressions, control_variates)
"""Where estimators are defined; importing them registers their estimators."""


def estimators() -> dict[str, Estimator]:
    """Return all estimators by name."""
    return dict(ESTIMATORS)


def check_estimator(spec: Spec) -> None:
    """Refuse an unknown estimator or parameter before any work is done."""
    if spec.name not in ESTIMATORS:
        raise unknown_name("estimator", spec.name, ESTIMATORS)
    bind(spec.name, ESTIMATORS[spec.name].parameters, spec.parameters)


def run_estimator(sample: Sample, spec: Spec) -> Fitted:
    """Run the estimator that a spec names."""
    if spec.name not in ESTIMATORS:
        raise unknown_name("estimator", spec.name, ESTIMATORS)
    return ESTIMATORS[spec.name].run(sample, spec.parameters)
