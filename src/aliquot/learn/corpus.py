"""Past campaigns as one table: texts, features, targets standardised within each campaign, and what was seen where."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from aliquot.data.evalset import EvalSet
from aliquot.data.language_pairs import domains_of, pairs_of
from aliquot.data.lengths import source_lengths
from aliquot.data.source_features import UNSEEN, Known, dense_features, languages_of
from aliquot.errors import AliquotWarning, DataError, OptionError
from aliquot.learn.targets import item_target, normal_scores
from aliquot.select.embedding import NGRAMS, embed
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray
from aliquot.stats.text_features import SURFACE, empty_memory, ngram_matrix, remember, unseen_shares
from aliquot.stats.text_hashing import Pieces, pieces

_PARTS = 10
FEWEST = 20
_UNSEEN_AT = len(SURFACE)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sources of all campaigns with a target.

    Attributes:
        texts: the sources.
        names: the campaigns' names; `groups` counts in them.
        groups: the campaign of each source.
        units: what is kept together when a single campaign is cut into folds: documents, or single sources.
        target: normal scores of the target within the campaign.
        lengths: the baseline, source_length.
        known: domains and languages that occur.
        dense: features of each source; shares of unseen words are against the other parts of the corpus.
        ngrams: hashed n-grams.
        trained_on: name, fingerprint and number of sources of each campaign.
    """

    texts: tuple[str, ...]
    names: tuple[str, ...]
    groups: IntArray
    units: IntArray
    target: FloatArray
    lengths: FloatArray
    known: Known
    dense: FloatArray
    ngrams: sparse.csr_matrix
    trained_on: tuple[tuple[str, str, int], ...]

    def __len__(self) -> int:
        return len(self.texts)


def corpus_of(
    sets: Sequence[EvalSet],
    target: str,
    *,
    metric: str | None = None,
    human: str | None = None,
    embedding: str = "",
) -> Corpus:
    """Gather the sources of all campaigns that have a target."""
    texts: list[str] = []
    pairs: list[str | None] = []
    domains: list[str | None] = []
    parts: list[tuple[FloatArray, FloatArray, IntArray]] = []
    trained_on = []
    for evalset in _named_apart(sets):
        if "source" not in evalset.items.columns:
            raise DataError(f"{evalset.name}: there are no sources to learn from (field 'src'); leave this set out")
        values = item_target(evalset, target, metric=metric, human=human)
        source = evalset.items["source"].to_list()
        use = np.isfinite(values) & np.array([bool(text and text.strip()) for text in source])
        if use.sum() < FEWEST:
            warnings.warn(f"{evalset.name}: only {use.sum()} sources with a target: left out", AliquotWarning, 3)
            continue
        rows = np.flatnonzero(use).tolist()
        of_item, domain = pairs_of(evalset), domains_of(evalset)
        texts += [source[row] for row in rows]
        pairs += [of_item[row] for row in rows]
        domains += [domain[row] for row in rows]
        codes = evalset.documents if evalset.documents is not None else np.arange(evalset.n_items)
        parts.append((normal_scores(values[use]), source_lengths(evalset)[use], codes[use]))
        trained_on.append((evalset.name, evalset.fingerprint, len(rows)))
    if not parts:
        raise DataError(f"no campaign has {FEWEST} sources with a target; give campaigns with human scores and sources")
    known = _known(pairs, domains)
    if embedding == NGRAMS:  # their dimensions follow from the texts at hand: those of new sources mean something else
        raise OptionError("encoder=ngrams: n-grams are features already; name a sentence-transformers model")
    vectors = embed(texts, embedding) if embedding else None
    if vectors is not None:
        known = replace(known, dimensions=vectors.shape[1])
    cut = pieces(texts)
    dense = dense_features(cut, known, empty_memory(), pairs, domains, vectors)
    dense[:, _UNSEEN_AT : _UNSEEN_AT + len(UNSEEN)] = _unseen_by_others(cut, texts)
    return Corpus(
        tuple(texts), tuple(name for name, _, _ in trained_on),
        np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts]),
        np.concatenate([part[2] for part in parts]), np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]), known, dense, ngram_matrix(cut), tuple(trained_on),
    )  # fmt: skip


def _named_apart(sets: Sequence[EvalSet]) -> list[EvalSet]:
    """Give campaigns of the same name numbers."""
    seen: dict[str, int] = {}
    found = []
    for evalset in sets:
        seen[evalset.name] = seen.get(evalset.name, 0) + 1
        number = seen[evalset.name]
        found.append(evalset if number == 1 else replace(evalset, name=f"{evalset.name} #{number}"))
    return found


def _known(pairs: Sequence[str | None], domains: Sequence[str | None]) -> Known:
    sides = [languages_of(pair) for pair in pairs]
    return Known(
        tuple(sorted({domain for domain in domains if domain})),
        tuple(sorted({side[0] for side in sides if side[0]})),
        tuple(sorted({side[1] for side in sides if side[1]})),
    )


def _unseen_by_others(cut: Pieces, texts: Sequence[str]) -> FloatArray:
    """Unseen shares of each source against nine tenths of the corpus without it; equal texts stay together."""
    part = np.array([zlib.crc32(text.encode("utf-8", "surrogatepass")) % _PARTS for text in texts])
    marks = []
    for number in range(_PARTS):
        memory = empty_memory()
        remember(pieces([texts[row] for row in np.flatnonzero(part == number).tolist()]), memory)
        marks.append(memory)
    times = np.sum(marks, axis=0, dtype=np.int8)
    found = np.zeros((cut.n, len(UNSEEN)))
    for number in range(_PARTS):
        rows = np.flatnonzero(part == number)
        if len(rows):
            found[rows] = unseen_shares(pieces([texts[row] for row in rows.tolist()]), times > marks[number])
    return found


def memory_of(texts: Sequence[str]) -> BoolArray:
    """What a model remembers of its training sources."""
    memory = empty_memory()
    remember(pieces(texts), memory)
    return memory


def held_out_features(corpus: Corpus, train: IntArray, test: IntArray) -> FloatArray:
    """Features of sources that the training part never saw: unseen shares are against that part alone."""
    dense = corpus.dense[test].copy()
    memory = memory_of([corpus.texts[row] for row in train])
    dense[:, _UNSEEN_AT : _UNSEEN_AT + len(UNSEEN)] = unseen_shares(pieces([corpus.texts[row] for row in test]), memory)
    return dense
