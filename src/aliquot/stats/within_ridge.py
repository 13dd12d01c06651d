"""Ridge regression inside groups: slopes from what varies within a campaign, never from what differs between campaigns.

Minimises sum_i w_i (y_i - x_i b)^2 + sum_k penalty_k b_k^2 with y and x centred in each group (the "within" estimator
of panel data): scales, languages and judges differ between campaigns, and what they differ by must teach nothing.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray

_STEPS = 30
_CLOSE = 1e-4


def group_weights(groups: IntArray) -> FloatArray:
    """Weights of mean 1 that let a group count as the root of its size, so that no large group decides alone.

    >>> group_weights(np.array([0, 0, 0, 0, 1])).round(3).tolist()
    [0.833, 0.833, 0.833, 0.833, 1.667]
    """
    weight = 1.0 / np.sqrt(np.bincount(groups)[groups])
    scaled: FloatArray = weight / weight.mean()
    return scaled


def centred(values: FloatArray, groups: IntArray, weight: FloatArray) -> FloatArray:
    """Values (n or n x K) less the weighted mean of their group.

    >>> centred(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), np.ones(3)).tolist()
    [-1.0, 1.0, 0.0]
    """
    average = _averages(groups, weight)
    gathered: FloatArray = values - np.asarray(average @ values)[groups]
    return gathered


def _averages(groups: IntArray, weight: FloatArray) -> sparse.csr_matrix:
    """The matrix that turns values into weighted means of groups."""
    count = int(groups.max()) + 1 if len(groups) else 0
    total = np.maximum(np.bincount(groups, weight, minlength=count), 1e-300)
    shares = weight / total[groups]
    return sparse.csr_matrix((shares, (groups, np.arange(len(groups)))), shape=(count, len(groups)))


def within_ridge(
    features: FloatArray, target: FloatArray, groups: IntArray, weight: FloatArray, penalty: FloatArray
) -> FloatArray:
    """Slopes of few features, by solving the normal equations.

    >>> x = np.array([[0.0], [1.0], [0.0], [1.0]])
    >>> y = np.array([5.0, 7.0, -3.0, -1.0])  # slope 2 in both groups, which differ by 8
    >>> within_ridge(x, y, np.array([0, 0, 1, 1]), np.ones(4), np.zeros(1)).round(6).tolist()
    [2.0]
    """
    if (np.asarray(penalty) < 0).any():
        raise OptionError("a ridge penalty is negative; choose 0 or more")
    x, y = centred(features, groups, weight), centred(target, groups, weight)
    gram = (x * weight[:, None]).T @ x + np.diag(np.maximum(penalty, 1e-9 * len(y)))
    slopes: FloatArray = np.linalg.solve(gram, x.T @ (weight * y))
    return slopes


def sparse_within_ridge(
    matrix: sparse.csr_matrix, target: FloatArray, groups: IntArray, weight: FloatArray, penalty: float
) -> FloatArray:
    """Slopes of very many sparse features, by conjugate gradients; centring is done on the fly.

    >>> x = sparse.csr_matrix(np.array([[0.0], [1.0], [0.0], [1.0]]))
    >>> y = np.array([5.0, 7.0, -3.0, -1.0])
    >>> sparse_within_ridge(x, y, np.array([0, 0, 1, 1]), np.ones(4), 1e-9).round(6).tolist()
    [2.0]
    """
    if penalty <= 0:
        raise OptionError(f"the ridge penalty {penalty} of very many features must be above 0")
    average = _averages(groups, weight)
    transposed = matrix.T.tocsr()

    def centre(values: FloatArray) -> FloatArray:
        less: FloatArray = values - (average @ values)[groups]
        return less

    def product(slopes: FloatArray) -> FloatArray:
        # X'C'WC X b, C the centring; C'W C = W C because both project by weighted means
        back: FloatArray = transposed @ (weight * centre(matrix @ slopes)) + penalty * slopes
        return back

    k = matrix.shape[1]
    operator = LinearOperator((k, k), matvec=product, dtype=np.float64)
    slopes, _ = cg(operator, transposed @ (weight * centre(target)), rtol=_CLOSE, maxiter=_STEPS)
    return np.asarray(slopes, dtype=np.float64)
