"""Surface metrics on the spot: BLEU, chrF and TER of every output against its references, by sacrebleu.

Invariant: every number is sacrebleu's sentence score under the signature that is recorded with it; an output or
reference that is missing has no score; a lower-is-better metric (TER) is flipped, and said to be. A tokeniser of one's
own is applied to both sides before sacrebleu sees them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.progress import ProgressLike, resolve_progress
from aliquot.core.registry import (
    Spec,
)
from aliquot.errors import DataError
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.metric_eval.sacrebleu_scorers import (
    Scorer,
    Tokenizer,
    make_scorer,
    parse_compute,
    silence_sacrebleu,
)
from aliquot.metric_eval.score_cache import cache_scores, compute_cache_key, read_cached_scores
from aliquot.stats.arrays import FloatArray

MIN_COPIES = 10
"""Outputs that all are the reference itself from which a system is taken for the reference."""


@dataclass(frozen=True)
class SurfaceScore:
    """A score that was computed: its name among the scores, and how to get it again."""

    metric: str  # the name, as typed
    signature: str  # sacrebleu's
    flipped: bool  # whether it was lower-is-better and has been negated
    cells: int  # outputs that have it


@dataclass(frozen=True, eq=False)
class Surface:
    """What `surface` gives."""

    data: EvalSet  # the set with the scores added
    scores: tuple[SurfaceScore, ...]  # what was computed, with sacrebleu's signatures
    notes: tuple[str, ...]  # what a reader should know


def surface(
    data: DataLike,
    compute: str | Sequence[str] = "bleu,chrf",
    *,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    cache: bool = True,
    progress: ProgressLike = None,
) -> Surface:
    """Compute sentence-level BLEU, chrF or TER of every output against the item's reference, and add them as scores.

    Sentence BLEU has effective order unless `bleu:effective_order=no`; everything else is sacrebleu's default. TER of
    long texts takes sacrebleu long (a fifth of a second for an output of a paragraph).

    Args:
        data: with outputs and references.
        compute: "bleu", "chrf", "ter", with sacrebleu's parameters where wanted: "bleu:tokenize=zh,lowercase=yes". A
            parameter with several values, "bleu:tokenize=13a|intl|char", gives a score for each. `references=all`
            scores against all references of an item (`reference`, `reference_*`, `refs`), as sacrebleu does;
            `ter:cap=100` cuts scores above 100; `tokenizer=NAME` splits texts with a function of one's own.
        tokenizers: name -> function from a text to its tokens (or to a text split by blanks), for `tokenizer=NAME`.
            Other names are imported: `tokenizer=package.module.function`.
        cache: keep scores in memory and on disk ($ALIQUOT_CACHE or ~/.cache/aliquot), by the content of the texts.
        progress: called with the number of finished and of all columns (systems x metrics); True writes a line
            of text.

    Raises:
        DataError: there are no outputs or no references.
        NameUnknownError: another metric, parameter or tokeniser.
        MissingExtraError: a tokeniser whose library is not installed.

    >>> import aliquot
    >>> found = surface(aliquot.synthetic(items=10, systems=2, seed=1), "chrf:word_order=2,ter", cache=False)
    >>> [(score.metric, score.flipped) for score in found.scores]
    [('chrf:word_order=2', False), ('ter', True)]
    >>> found.scores[0].signature  # doctest: +ELLIPSIS
    'nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:...'
    """
    data = as_evalset(data)
    metrics = [(spec, make_scorer(spec, tokenizers)) for spec in parse_compute(compute)]
    references = collect_references(data)
    notes, scores = [], []
    total, tell = len(metrics) * data.n_systems, resolve_progress(progress, "computing metrics")
    for metric_index, (spec, metric) in enumerate(metrics):
        if str(spec) in data.scores:
            notes.append(f"{data.name}: the score '{spec}' was there; it is computed anew")
        columns = []
        used = references if metric.references == "all" else [texts_of_item[:1] for texts_of_item in references]
        copies = _find_reference_copies(data, used)
        notes += [f"{data.name}: '{system}' is the reference itself, so it has no '{spec}'" for system in copies]
        for system_index, system in enumerate(data.systems):
            texts = [None] * data.n_items if system in copies else list_outputs(data, system)
            columns.append(_score_system(spec, metric, texts, used, cache=cache))
            if tell is not None:
                tell(metric_index * data.n_systems + system_index + 1, total)
        values = np.column_stack(columns)
        flipped = spec.name == "ter"
        if flipped:
            notes.append(f"{data.name}: '{spec}' counts errors and is flipped: higher is better, as for every score")
        data = data.with_score(str(spec), values, lower_is_better=flipped)
        scores.append(SurfaceScore(str(spec), metric.signature, flipped, int(np.isfinite(values).sum())))
    return Surface(data, tuple(scores), tuple(notes))


def collect_references(data: EvalSet) -> list[list[str]]:
    """Return the references of each item, from `reference`, `reference_*` and the list `refs`, in this order."""
    if data.outputs is None:
        raise DataError(f"{data.name}: there are no outputs to score; give data with texts ('tgt')")
    names = [name for name in data.items.columns if name == "reference" or name.startswith("reference_")]
    streams = [data.items[name].cast(pl.String).to_list() for name in sorted(names)]
    lists = (
        _parse_reference_lists(data.items["refs"])
        if "refs" in data.items.columns
        else [[] for _ in range(data.n_items)]
    )
    references = []
    for *each, more in zip(*streams, lists, strict=True):
        references.append(list(dict.fromkeys(text for text in (*each, *more) if text is not None)))
    if not any(references):
        raise DataError(f"{data.name}: there are no references to score outputs against; give data with 'ref'")
    return references


def _parse_reference_lists(column: pl.Series) -> list[list[str]]:
    """Parse lists of texts, kept as lists or as JSON; other values give no reference."""
    values = column.struct.field("json").to_list() if isinstance(column.dtype, pl.Struct) else column.to_list()
    lists = []
    for value in values:
        try:
            texts = msgspec.json.decode(value) if isinstance(value, str) else value
        except msgspec.DecodeError:
            texts = None
        lists.append([text for text in texts if isinstance(text, str)] if isinstance(texts, list) else [])
    return lists


def list_outputs(data: EvalSet, system: str) -> list[str | None]:
    """Return a system's outputs, one for each item."""
    texts: list[str | None] = data.outputs[system].to_list() if data.outputs is not None else []
    return texts


def _find_reference_copies(data: EvalSet, references: list[list[str]]) -> list[str]:
    """Return systems whose outputs all equal a reference: references entered as systems."""
    copies = []
    for system in data.systems:
        pairs = [
            (text, item_references)
            for text, item_references in zip(list_outputs(data, system), references, strict=True)
            if text and item_references
        ]
        if len(pairs) >= MIN_COPIES and all(text in item_references for text, item_references in pairs):
            copies.append(system)
    return copies


def _score_system(
    spec: Spec, metric: Scorer, texts: Sequence[str | None], references: Sequence[Sequence[str]], *, cache: bool
) -> FloatArray:
    """Return the scores of one system, from the cache or from sacrebleu."""
    cache = cache and metric.tokenizer is None  # what a function does may change
    key = compute_cache_key(spec.name, metric.signature, sorted(spec.parameters.items()), texts, references)
    cached = read_cached_scores(key, len(texts)) if cache else None
    if cached is not None:
        return cached
    with silence_sacrebleu():
        scores = np.array(
            [
                np.nan if text is None or not item_references else metric.score(text, item_references)
                for text, item_references in zip(texts, references, strict=True)
            ],
            dtype=np.float64,
        )
    if cache:
        cache_scores(key, scores)
    return scores
