"""Factor analysis against R's factanal and promax, Heywood case included."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import require_debian

from aliquot.stats.arrays import FloatArray
from aliquot.stats.factor_analysis import ml_factors

SCRIPT = Path(__file__).with_name("factors.R")
CASES = {
    "two factors": (8, 2, 300, 0),
    "three": (10, 3, 400, 1),
    "Heywood": (8, 4, 500, 2),
    "few rows": (12, 3, 150, 3),
}


def correlations(variables: int, factors: int, n: int, seed: int) -> FloatArray:
    """Of a sample with correlated factors and small second loadings."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((variables, factors))
    for at in range(variables):
        loadings[at, at % factors] = rng.uniform(0.5, 0.9)
        loadings[at, (at + 1) % factors] += rng.uniform(0, 0.3)
    common = rng.normal(size=(n, factors)) @ np.linalg.cholesky(np.eye(factors) * 0.6 + 0.4).T
    found = np.corrcoef(common @ loadings.T + 0.6 * rng.normal(size=(n, variables)), rowvar=False)
    return np.asarray(found, dtype=np.float64)


def aligned(theirs: FloatArray) -> FloatArray:
    """R's columns in our order: largest loadings first, each pointing up."""
    ordered = theirs[:, np.argsort(-(theirs**2).sum(axis=0), kind="stable")]
    return ordered * np.where(ordered.sum(axis=0) < 0, -1.0, 1.0)


@pytest.mark.parametrize("case", CASES)
def test_loadings_are_those_of_r(case, tmp_path):
    rscript = require_debian("r-base-core", "Rscript")
    variables, factors, n, seed = CASES[case]
    matrix = correlations(variables, factors, n, seed)
    np.savetxt(tmp_path / "correlation.csv", matrix, delimiter=",")
    (tmp_path / "size.csv").write_text(f"n,m\n{n},{factors}\n")
    done = subprocess.run([rscript, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pattern, spss, default = (
        aligned(np.loadtxt(tmp_path / f"{name}.csv", delimiter=",")) for name in ("pattern", "spss", "default")
    )
    *unique, statistic, df = np.loadtxt(tmp_path / "fit.csv", delimiter=",").tolist()
    fit = ml_factors(matrix, n, factors)
    assert fit.converged
    assert fit.loadings == pytest.approx(pattern, abs=1e-5)
    assert ml_factors(matrix, n, factors, rotation="spss").loadings == pytest.approx(spss, abs=1e-5)
    assert 1 - fit.communality == pytest.approx(unique, abs=1e-6)
    assert (fit.chi2, fit.df) == pytest.approx((statistic, df), rel=1e-6)
    # factanal's own varimax stops at a relative gain of 1e-5: its printed loadings are off by that much.
    assert np.abs(fit.loadings - default).max() < 0.006
    assert (case == "Heywood") == bool(fit.heywood)
