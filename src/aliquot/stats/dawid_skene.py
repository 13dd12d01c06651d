"""Dawid and Skene (1979): labels, and how each annotator errs, by expectation-maximisation.

Every annotator k has a confusion matrix pi^k[j, l], the chance to answer l where the truth is j. From vote shares:
  M: p_j = mean_i T_ij,  pi^k_jl = sum_i T_ij n^k_il / sum_l' sum_i T_ij n^k_il'
  E: T_ij proportional to p_j prod_k prod_l (pi^k_jl)^(n^k_il)
until the log-likelihood per answer grows by less than `tolerance`. Annotators need not have seen all items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from aliquot.stats.arrays import FloatArray, IntArray

_SMALLEST = 1e-10  # a chance of 0 would forbid what has happened once; crowd-kit clips at the same value


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """What the fit found.

    Attributes:
        posterior: the chance of each label for each item (I x K).
        prior: how frequent each label is (K).
        confusion: confusion[k, j, l], annotator k's chance to answer l where the truth is j (A x K x K).
        log_likelihood: of all answers, in the end.
        iterations: how many rounds it took.
        converged: whether it stopped by itself.
    """

    posterior: FloatArray
    prior: FloatArray
    confusion: FloatArray
    log_likelihood: float
    iterations: int
    converged: bool

    @property
    def accuracy(self) -> FloatArray:
        """Each annotator's chance to give the right label: sum_j p_j pi_jj."""
        return np.asarray(np.einsum("j,kjj->k", self.prior, self.confusion))


def dawid_skene(
    items: IntArray,
    annotators: IntArray,
    labels: IntArray,
    *,
    kinds: int | None = None,
    smoothing: float = 0.01,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> DawidSkene:
    """Fit the model to answers given as three arrays of codes (0, 1, ...), one entry for each answer.

    Args:
        items: which item was labelled; every item below the largest code should have an answer.
        annotators: who labelled it.
        labels: the label given.
        kinds: how many labels there are, where not all were given.
        smoothing: answers added to every entry of every confusion matrix, spread evenly; 0 for maximum likelihood.
        tolerance: stop when the log-likelihood per answer grows by less.
        iterations: stop after so many rounds.

    >>> fit = dawid_skene(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2]), np.array([1, 1, 0, 0, 0, 0]))
    >>> fit.posterior.argmax(axis=1).tolist()
    [1, 0]
    """
    size, people = int(items.max()) + 1, int(annotators.max()) + 1
    kinds = int(labels.max()) + 1 if kinds is None else kinds
    # One row for each annotator and label, one column for each item: both steps are products with this matrix.
    answers = sparse.csr_array(
        (np.ones(len(items)), (annotators * kinds + labels, items)), shape=(people * kinds, size)
    )
    by_item = answers.T.tocsr()
    share = by_item @ np.tile(np.eye(kinds), (people, 1))
    posterior = share / np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    log_likelihood, converged, rounds = -np.inf, False, 0
    while not converged and rounds < iterations:
        prior, confusion = _maximise(answers, posterior, people, kinds, smoothing)
        posterior, new = _expect(by_item, prior, confusion)
        rounds += 1
        # The first round has nothing to compare with; later rounds never lower the likelihood (up to clipping).
        converged = new - log_likelihood < tolerance * len(items)
        log_likelihood = new
    prior, confusion = _maximise(answers, posterior, people, kinds, smoothing)
    return DawidSkene(posterior, prior, confusion.transpose(0, 2, 1), float(log_likelihood), rounds, converged)


def _maximise(
    answers: sparse.csr_array, posterior: FloatArray, people: int, kinds: int, smoothing: float
) -> tuple[FloatArray, FloatArray]:
    """Prior and confusion[k, l, j] (answered l, truth j) given the posterior."""
    counts = (answers @ posterior).reshape(people, kinds, kinds) + smoothing / kinds
    counts = np.maximum(counts, _SMALLEST)
    return np.maximum(posterior.mean(axis=0), _SMALLEST), counts / counts.sum(axis=1, keepdims=True)


def _expect(by_item: sparse.csr_array, prior: FloatArray, confusion: FloatArray) -> tuple[FloatArray, float]:
    """Posterior and log-likelihood given prior and confusion."""
    kinds = len(prior)
    joint = by_item @ np.log(confusion).reshape(-1, kinds) + np.log(prior)
    evidence = logsumexp(joint, axis=1, keepdims=True)
    return np.exp(joint - evidence), float(evidence.sum())
