"""Training a source model: targets and features of past campaigns, ridge and boosting, cross-validation over campaigns.

All slopes are estimated within campaigns. The log length is hardly penalised: it is the baseline that the other
features must add to; so a model that learns nothing falls back to length.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from aliquot.core.conventions import list_domains, list_language_pairs, source_lengths, usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.estimation.proxies import standardise_metric
from aliquot.sampling.item_scores import row_mean, row_variance, system_means
from aliquot.sampling.source_features import UNSEEN, FeatureVocabulary, dense_features, languages_of, scale_features
from aliquot.sampling.source_model import Trees, apply_trees, extract_trees
from aliquot.sampling.text_methods import diversity
from aliquot.sampling.text_vectors import NGRAMS, embed
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, average_ranks, is_constant
from aliquot.stats.correlation import kendall_with_target
from aliquot.stats.irt import fit_irt
from aliquot.stats.regression import (
    centre_in_groups,
    group_weights,
    pooled_ridge,
    sparse_within_group_ridge,
    within_group_ridge,
)
from aliquot.stats.text_features import (
    SURFACE_FEATURES,
    EncodedTexts,
    empty_seen_table,
    encode_texts,
    mark_seen,
    ngram_matrix,
    unseen_shares,
)
from aliquot.validation import one_of

Target = Literal["metric_avg", "metric_var", "metric_cons", "diversity", "irt_diffdisc", "residual"]
TARGETS: tuple[Target, ...] = get_args(Target)
_RIDGE = 1.0
_MIN_SYSTEMS = 2


def item_target(evalset: EvalSet, target: Target, *, metric: str | None = None, human: str | None = None) -> FloatArray:
    """Return the utility of every item, NaN where it is unknown.

    metric_avg is taken less each system's mean, so that items judged for the weaker systems only do not seem hard.
    residual is the root mean square, over systems, of what a ridge regression of the human score on all usable metrics
    leaves (each item predicted from the others): the items that metrics get wrong.

    >>> import aliquot
    >>> item_target(aliquot.synthetic(items=5, systems=3, seed=1), "metric_var").shape
    (5,)
    """
    one_of("target", target, TARGETS)
    if target == "diversity":
        if evalset.outputs is None or evalset.n_systems < _MIN_SYSTEMS:
            raise DataError(f"{evalset.name}: the target diversity needs outputs of at least two systems (field 'tgt')")
        spread: FloatArray = diversity(evalset)
        return spread
    scores = evalset.score(metric) if metric is not None else evalset.human_score(human)
    several = np.isfinite(scores).sum(axis=1) >= (1 if target == "metric_avg" else _MIN_SYSTEMS)
    if not several.any():
        raise DataError(f"{evalset.name}: no item has the scores that the target {target} needs; leave this set out")
    values = _from_scores(evalset, scores, target, metric)
    return np.where(several, values, np.nan)


def _from_scores(evalset: EvalSet, scores: FloatArray, target: Target, metric: str | None) -> FloatArray:
    if target == "metric_avg":
        return -row_mean(scores - row_mean(scores.T)[None, :])
    if target == "metric_var":
        return row_variance(scores)
    if target == "metric_cons":
        return kendall_with_target(scores, system_means(scores), "c")
    if target == "irt_diffdisc":
        fit = fit_irt(scores)
        return fit.discrimination * fit.difficulty
    return _residual_target(evalset, scores, metric)


def _residual_target(evalset: EvalSet, scores: FloatArray, metric: str | None) -> FloatArray:
    names = [name for name in usable_metrics(evalset) if name != metric]
    if not names:
        raise DataError(f"{evalset.name}: the target residual needs an automatic metric; choose another target")
    features = np.stack([standardise_metric(evalset, name) for name in names], axis=2)
    fit = pooled_ridge(features, scores, np.ones(evalset.n_items), _RIDGE)
    residual = scores - row_mean(scores.T)[None, :] - fit.left_out
    return np.sqrt(row_mean(residual**2))


def normal_scores(values: FloatArray) -> FloatArray:
    """Standardise within a campaign by ranks: the k-th of n values becomes the normal quantile of (k - 1/2) / n.

    Campaigns use other scales and are skewed to a different degree (MQM penalties are mostly 0); ranks are common to
    all. Ties share their mean rank; NaN stays.

    >>> normal_scores(np.array([5.0, np.nan, 100.0, 7.0])).round(2).tolist()
    [-0.97, nan, 0.97, 0.0]
    """
    present = np.isfinite(values)
    scaled = np.full(len(values), np.nan)
    scaled[present] = ndtri((average_ranks(values[present]) - 0.5) / max(1, present.sum()))
    return scaled


# -- past campaigns as one table -------------------------------------------------------------------------------------


_N_PARTS = 10
MIN_SOURCES = 20
_UNSEEN_AT = len(SURFACE_FEATURES)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sources of all campaigns with a target."""

    texts: tuple[str, ...]  # the sources
    names: tuple[str, ...]  # the campaigns' names; `groups` counts in them
    groups: IntArray  # the campaign of each source
    units: IntArray  # what is kept together when a single campaign is cut into folds: documents, or single sources
    target: FloatArray  # normal scores of the target within the campaign
    lengths: FloatArray  # the baseline, source_length
    vocabulary: FeatureVocabulary  # domains and languages that occur
    dense: FloatArray  # features of each source; shares of unseen words are against the other parts of the corpus
    ngrams: sparse.csr_matrix  # hashed n-grams
    trained_on: tuple[tuple[str, str, int], ...]  # name, fingerprint and number of sources of each campaign

    def __len__(self) -> int:
        return len(self.texts)


def build_corpus(
    sets: Sequence[EvalSet], target: Target, *, metric: str | None = None, human: str | None = None, embedding: str = ""
) -> Corpus:
    """Return the sources of all campaigns that have a target."""
    texts: list[str] = []
    pairs: list[str | None] = []
    domains: list[str | None] = []
    parts: list[tuple[FloatArray, FloatArray, IntArray]] = []
    trained_on = []
    for evalset in _number_names(sets):
        if "source" not in evalset.items.columns:
            raise DataError(f"{evalset.name}: there are no sources to learn from (field 'src'); leave this set out")
        values = item_target(evalset, target, metric=metric, human=human)
        source = evalset.items["source"].to_list()
        use = np.isfinite(values) & np.array([bool(text and text.strip()) for text in source])
        if use.sum() < MIN_SOURCES:
            warnings.warn(f"{evalset.name}: only {use.sum()} sources with a target: left out", AliquotWarning, 3)
            continue
        rows = np.flatnonzero(use).tolist()
        of_item, domain = list_language_pairs(evalset), list_domains(evalset)
        texts += [source[row] for row in rows]
        pairs += [of_item[row] for row in rows]
        domains += [domain[row] for row in rows]
        codes = evalset.documents if evalset.documents is not None else np.arange(evalset.n_items)
        parts.append((normal_scores(values[use]), source_lengths(evalset)[use], codes[use]))
        trained_on.append((evalset.name, evalset.fingerprint, len(rows)))
    if not parts:
        raise DataError(
            f"no campaign has {MIN_SOURCES} sources with a target; give campaigns with human scores and sources"
        )
    vocabulary = _collect_vocabulary(pairs, domains)
    if embedding == NGRAMS:  # their dimensions follow from the texts at hand: those of new sources mean something else
        raise OptionError("encoder=ngrams: n-grams are features already; name a sentence-transformers model")
    vectors = embed(texts, embedding) if embedding else None
    if vectors is not None:
        vocabulary = replace(vocabulary, dimensions=vectors.shape[1])
    cut = encode_texts(texts)
    dense = dense_features(cut, vocabulary, empty_seen_table(), pairs, domains, vectors)
    dense[:, _UNSEEN_AT : _UNSEEN_AT + len(UNSEEN)] = _unseen_by_others(cut, texts)
    return Corpus(
        tuple(texts),
        tuple(name for name, _, _ in trained_on),
        np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts]),
        np.concatenate([part[2] for part in parts]),
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        vocabulary,
        dense,
        ngram_matrix(cut),
        tuple(trained_on),
    )


def _number_names(sets: Sequence[EvalSet]) -> list[EvalSet]:
    """Number campaigns with the same name."""
    counts: dict[str, int] = {}
    renamed = []
    for evalset in sets:
        counts[evalset.name] = counts.get(evalset.name, 0) + 1
        number = counts[evalset.name]
        renamed.append(evalset if number == 1 else replace(evalset, name=f"{evalset.name} #{number}"))
    return renamed


def _collect_vocabulary(pairs: Sequence[str | None], domains: Sequence[str | None]) -> FeatureVocabulary:
    sides = [languages_of(pair) for pair in pairs]
    return FeatureVocabulary(
        tuple(sorted({domain for domain in domains if domain})),
        tuple(sorted({side[0] for side in sides if side[0]})),
        tuple(sorted({side[1] for side in sides if side[1]})),
    )


def _unseen_by_others(cut: EncodedTexts, texts: Sequence[str]) -> FloatArray:
    """Return unseen shares of each source against the nine tenths of the corpus without it."""
    part = np.array([zlib.crc32(text.encode("utf-8", "surrogatepass")) % _N_PARTS for text in texts])
    marks = []
    for number in range(_N_PARTS):
        memory = empty_seen_table()
        mark_seen(encode_texts([texts[row] for row in np.flatnonzero(part == number).tolist()]), memory)
        marks.append(memory)
    times = np.sum(marks, axis=0, dtype=np.int8)
    shares = np.zeros((cut.n, len(UNSEEN)))
    for number in range(_N_PARTS):
        rows = np.flatnonzero(part == number)
        if len(rows):
            shares[rows] = unseen_shares(encode_texts([texts[row] for row in rows.tolist()]), times > marks[number])
    return shares


def remember_texts(texts: Sequence[str]) -> BoolArray:
    """Return the table of words and n-grams seen in the sources."""
    memory = empty_seen_table()
    mark_seen(encode_texts(texts), memory)
    return memory


def held_out_features(corpus: Corpus, train: IntArray, test: IntArray) -> FloatArray:
    """Return features of test sources, with unseen shares against the training sources."""
    dense = corpus.dense[test].copy()
    memory = remember_texts([corpus.texts[row] for row in train])
    dense[:, _UNSEEN_AT : _UNSEEN_AT + len(UNSEEN)] = unseen_shares(
        encode_texts([corpus.texts[row] for row in test]), memory
    )
    return dense


_LENGTH = SURFACE_FEATURES.index("log length")
_FOLDS = 5
_MIN_SPREAD = 0.25
_LENGTH_PENALTY = 1e-6
BASELINE = "source_length"


@dataclass(frozen=True)
class ModelCandidate:
    """Penalties on dense features (per source) and on n-grams (total; 0: no n-grams), and whether to boost."""

    penalty: float
    ngrams: float = 0.0
    boost: bool = False

    @property
    def name(self) -> str:
        """The candidate's name in reports."""
        return f"{self.kind}:penalty={self.penalty:g}" + (f",ngrams={self.ngrams:g}" if self.ngrams else "")

    @property
    def kind(self) -> str:
        """Ridge or gbm."""
        return "gbm" if self.boost else "ridge"


CAREFUL = (ModelCandidate(20.0), ModelCandidate(5.0), ModelCandidate(5.0, ngrams=300.0))
FREE = (
    ModelCandidate(1.0),
    ModelCandidate(1.0, ngrams=300.0),
    ModelCandidate(5.0, ngrams=100.0),
    ModelCandidate(5.0, boost=True),
    ModelCandidate(5.0, ngrams=300.0, boost=True),
)
_MIN_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, eq=False)
class CandidateFit:
    """A fitted candidate, on standardised features."""

    centre: FloatArray
    scale: FloatArray
    slopes: FloatArray
    ngrams: NDArray[np.float32]
    trees: Trees | None


def fit_candidate(corpus: Corpus, rows: IntArray, candidate: ModelCandidate, seed: int) -> CandidateFit:
    """Fit a candidate on some of the sources."""
    groups = np.unique(corpus.groups[rows], return_inverse=True)[1].astype(np.int64)
    weight = group_weights(groups)
    target, dense = corpus.target[rows], corpus.dense[rows]
    centre = np.average(dense, axis=0, weights=weight)
    inside = np.sqrt(np.average(centre_in_groups(dense, groups, weight) ** 2, axis=0, weights=weight))
    scale = np.maximum(inside, _MIN_SPREAD * np.sqrt(np.average((dense - centre) ** 2, axis=0, weights=weight)))
    scale = np.where(scale > 1e-12, scale, 1.0)  # a constant carries no information
    x = scale_features(dense, centre, scale)
    penalty = np.full(x.shape[1], candidate.penalty * len(rows))
    penalty[_LENGTH] = _LENGTH_PENALTY * len(rows)
    slopes = within_group_ridge(x, target, groups, weight, penalty)
    residual = centre_in_groups(target - x @ slopes, groups, weight)
    weights = np.zeros(0, dtype=np.float32)
    if candidate.ngrams:
        weights = sparse_within_group_ridge(corpus.ngrams[rows], residual, groups, weight, candidate.ngrams).astype(
            np.float32
        )
    trees = _boost_residuals(x, residual, weight, seed) if candidate.boost else None
    return CandidateFit(centre, scale, slopes, weights, trees)


def _boost_residuals(x: FloatArray, residual: FloatArray, weight: FloatArray, seed: int) -> Trees:
    """Fit shallow trees to the residuals of the ridge regression on dense features."""
    from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415  (slow to import)

    model = GradientBoostingRegressor(
        n_estimators=60,
        learning_rate=0.05,
        max_depth=3,
        min_samples_leaf=max(5, min(60, len(x) // 20)),
        subsample=0.5,
        max_features=0.5,
        init="zero",
        random_state=seed,
    )
    return extract_trees(model.fit(x, residual, sample_weight=weight))


def predict_rows(fitted: CandidateFit, corpus: Corpus, rows: IntArray, dense: FloatArray) -> FloatArray:
    """Return predictions for rows of the corpus, given their features."""
    x = scale_features(dense, fitted.centre, fitted.scale)
    values = x @ fitted.slopes
    if len(fitted.ngrams):
        values = values + corpus.ngrams[rows] @ fitted.ngrams
    if fitted.trees is not None:
        values = values + apply_trees(fitted.trees, x)
    return np.asarray(values, dtype=np.float64)


# -- cross-validation ----------------------------------------------------------------------------------------------


def iterate_folds(corpus: Corpus, seed: int) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Yield name, training rows and test rows of leaving out each campaign, or fifths of a single one's documents.

    A source that occurs in the part left out is never trained on, in whatever campaign it stands.
    """
    if len(corpus.names) > 1:
        labels, code = corpus.names, corpus.groups
    else:
        units = np.unique(corpus.units, return_inverse=True)[1]
        part = np.random.default_rng(seed).permutation(units.max() + 1) % _FOLDS
        labels, code = tuple(f"{corpus.names[0]}, part {k + 1}" for k in range(_FOLDS)), part[units]
    for number, label in enumerate(labels):
        test = np.flatnonzero(code == number)
        test_texts = {corpus.texts[row] for row in test}
        train = np.array(
            [row for row in np.flatnonzero(code != number) if corpus.texts[row] not in test_texts], dtype=np.int64
        )
        if len(test) > 2 and len(train) >= MIN_SOURCES:
            yield label, train, test


def spearman(values: FloatArray, target: FloatArray) -> float:
    """Return the rank correlation; 0 if one side is constant."""
    if is_constant(values) or is_constant(target):
        return 0.0
    return float(np.corrcoef(average_ranks(values), average_ranks(target))[0, 1])


def cross_validate(corpus: Corpus, seed: int) -> tuple[ModelCandidate, dict[str, dict[str, float]]]:
    """Return the chosen candidate and, for each, its Spearman correlation with the target on each part left out."""
    parts = list(iterate_folds(corpus, seed))
    if not parts:
        raise DataError(
            f"{len(corpus)} sources of {len(corpus.names)} campaigns are too few, or too much alike, to learn from: no "
            f"part can be left out with {MIN_SOURCES} other sources to train on"
        )
    dense = {label: held_out_features(corpus, train, test) for label, train, test in parts}
    scores = {BASELINE: {label: spearman(corpus.lengths[test], corpus.target[test]) for label, _, test in parts}}

    for candidate in (*CAREFUL, *FREE):
        scores[candidate.name] = {}
        for label, train, test in parts:
            values = predict_rows(fit_candidate(corpus, train, candidate, seed), corpus, test, dense[label])
            scores[candidate.name][label] = spearman(values, corpus.target[test])
    return choose_candidate({c: np.array(list(scores[c.name].values())) for c in (*CAREFUL, *FREE)}), scores


def choose_candidate(scores: Mapping[ModelCandidate, FloatArray]) -> ModelCandidate:
    """Return the best careful ridge, or a freer candidate that is better by two standard errors over parts.

    A handful of campaigns is weak evidence for which candidate is best: taking the best mean of all lost to source
    length on campaigns never seen, while this rule gained (docs/evidence-sources.md).
    """
    best = max(CAREFUL, key=lambda candidate: float(scores[candidate].mean()))
    for candidate in FREE:
        gain = scores[candidate] - scores[best]
        if len(gain) > 1 and gain.mean() > _MIN_STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain)):
            best = candidate
    return best
