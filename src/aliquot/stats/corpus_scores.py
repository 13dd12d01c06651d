"""Corpus BLEU, chrF and TER of many samples at once, from summed statistics.

The definitions are sacrebleu's; the last axis of `sums` holds its statistics, summed over the items of a sample. Scores
agree with sacrebleu's corpus scores to 1e-9 (a test).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, Seed, row_blocks
from aliquot.stats.resampling import SignCounts, batch_sizes, bootstrap_counts, spawn_seeds

CorpusScore = Callable[[FloatArray], FloatArray]
"""Maps sums (... x statistics) to scores (...)."""

_CHUNK = 1 << 21  # numbers that a temporary array may hold
_TIE = 1e-9  # rounding of scores of 0 to 100


def corpus_bleu(
    sums: FloatArray, *, order: int = 4, smooth: str = "exp", smooth_value: float | None = None, effective: bool = False
) -> FloatArray:
    """Compute BLEU from [system length, reference length, correct 1..n, total 1..n] (Papineni et al. 2002; Post 2018).

    >>> corpus_bleu(np.array([[4.0, 4, 3, 2, 1, 0, 4, 3, 2, 1]])).round(4)
    array([59.4604])
    """
    length, reference = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2 : 2 + order].astype(np.float64), sums[..., 2 + order :].astype(np.float64)
    any_match = (correct > 0).any(axis=-1)
    if smooth == "add-k":
        k = 1.0 if smooth_value is None else smooth_value
        added = np.concatenate([[0.0], np.full(order - 1, k)])
        correct, total = correct + added, total + added
    has_length = np.logical_and.accumulate(total > 0, axis=-1)
    none = (correct == 0) & has_length
    instead = {
        "exp": 0.5 ** np.cumsum(none, axis=-1),
        "floor": np.full(correct.shape, 0.1 if smooth_value is None else smooth_value),
    }.get(smooth, np.zeros(correct.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(has_length, np.where(none, instead, correct) / total, 0.0)
        used = np.maximum(has_length.sum(axis=-1), 1) if effective else np.full(has_length.shape[:-1], order)
        within = np.arange(order) < used[..., None]
        # sacrebleu's logarithm of 0
        logs = np.where(precision > 0, np.log(100 * precision), -9999999999.0)
        brevity = np.where(length < reference, np.where(length > 0, np.exp(1 - reference / length), 0.0), 1.0)
        score = brevity * np.exp(np.where(within, logs, 0.0).sum(axis=-1) / used)
    return np.asarray(np.where(any_match, score, 0.0), dtype=np.float64)


def corpus_chrf(sums: FloatArray, *, beta: int = 2, eps_smoothing: bool = False) -> FloatArray:
    """Compute chrF from [hypothesis, reference, matching n-grams] of each order (Popović 2015).

    >>> corpus_chrf(np.array([[4.0, 5, 4, 3, 4, 2]])).round(4)
    array([67.9916])
    """
    hypothesis, reference, match = (sums[..., column::3].astype(np.float64) for column in range(3))
    factor, eps = beta**2, 1e-16
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(hypothesis > 0, match / hypothesis, eps)
        recall = np.where(reference > 0, match / reference, eps)
        if eps_smoothing:
            below = factor * precision + recall
            scores = np.where(below > 0, (1 + factor) * precision * recall / below, eps)
            return np.asarray(100 * scores.mean(axis=-1), dtype=np.float64)
        usable = (hypothesis > 0) & (reference > 0)
        orders = np.maximum(usable.sum(axis=-1), 1)
        mean_p = np.where(usable, precision, 0.0).sum(axis=-1) / orders
        mean_r = np.where(usable, recall, 0.0).sum(axis=-1) / orders
        score = 100 * (1 + factor) * mean_p * mean_r / (factor * mean_p + mean_r)
    return np.asarray(np.where(mean_p + mean_r > 0, score, 0.0), dtype=np.float64)


def corpus_ter(sums: FloatArray, *, cap: float = float("inf")) -> FloatArray:
    """Compute TER from [edits, reference length], at most `cap` (Snover et al. 2006); lower is better.

    >>> corpus_ter(np.array([[3.0, 12.0], [5.0, 4.0]]), cap=100)
    array([ 25., 100.])
    """
    edits, reference = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(reference > 0, edits / reference, np.where(edits > 0, 1.0, 0.0))
    return np.asarray(np.minimum(100 * rate, cap), dtype=np.float64)


def corpus_sign_counts(
    statistics: Sequence[FloatArray],
    scores: Sequence[CorpusScore],
    trials: int,
    *,
    size: int | None = None,
    seed: Seed = 0,
) -> SignCounts:
    """Count bootstrap samples of items in which each system of a pair has the higher corpus score, by metric.

    Wei and Jia 2021 (eq. 3) score a sample as a whole. Each entry of `statistics` is items x systems x statistics, NaN
    where a system has no text; a system is scored on the texts that it has. Higher is better. All metrics share the
    samples.

    >>> edits = np.array([[[0.0, 4], [2, 4]], [[1, 4], [2, 4]]])
    >>> corpus_sign_counts([edits], [lambda sums: -corpus_ter(sums)], 100).share_ahead()
    array([[1.]])
    """
    if len(statistics) != len(scores) or not statistics:
        raise OptionError(f"there are {len(statistics)} statistics and {len(scores)} scores; give one score for each")
    items, systems = statistics[0].shape[:2]
    first, second = np.triu_indices(systems, 1)
    per_batch = batch_sizes(trials)
    (draw_seed,) = spawn_seeds(seed, 1)
    plus = np.full((len(per_batch), len(statistics), len(first)), np.nan)
    for row, (table, score) in enumerate(zip(statistics, scores, strict=True)):
        has_text = np.asarray(np.isfinite(table).all(axis=2))
        flat = np.where(has_text[:, :, None], table, 0.0).reshape(items, -1)
        some_text = np.asarray(has_text.any(axis=0))
        comparable = some_text[first] & some_text[second]
        rng = np.random.default_rng(draw_seed)
        for batch, batch_trials in enumerate(per_batch):
            won = np.zeros(len(first))
            for rows in row_blocks(int(batch_trials), max(items, flat.shape[1], len(first)), _CHUNK):
                counts = bootstrap_counts(rng, rows.stop - rows.start, items, items if size is None else size)
                drawn = score((counts @ flat).reshape(len(counts), systems, -1))
                ahead = drawn[:, first] - drawn[:, second]
                won += ((ahead > _TIE).sum(axis=0) + (ahead >= -_TIE).sum(axis=0)) / 2
            plus[batch, row] = np.where(comparable, won, np.nan)
    return SignCounts(plus, None, per_batch)
