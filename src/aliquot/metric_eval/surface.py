"""Surface metrics on the spot: BLEU, chrF and TER of every output against its reference, by sacrebleu.

Invariant: every number is sacrebleu's sentence score under the signature that is recorded with it; an output or
reference that is missing has no score; a lower-is-better metric (TER) is flipped, and said to be.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import logging
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Parameter, Spec, bind, parameters_of, parse_spec, split_outside, split_specs
from aliquot.errors import DataError, DownloadError, MissingExtraError, OptionError, OutputError, unknown_name
from aliquot.io.download import cache_folder
from aliquot.io.files import write_bytes
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.stats.arrays import FloatArray

# -- Scores of texts, remembered by content: in memory, and on disk in the cache folder ------------------------------


_FORMAT = "1"
_MOST = 4096
_memory: dict[str, FloatArray] = {}


def cache_key(
    metric: str,
    signature: str,
    parameters: Sequence[tuple[str, str]],
    texts: Sequence[str | None],
    references: Sequence[str | None],
) -> str:
    """Digest of all that the scores of a column depend on.

    >>> cache_key("bleu", "v", [], ["a", None], ["b", "c"]) == cache_key("bleu", "v", [], ["a"], ["b", "c"])
    False
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in (_FORMAT, metric, signature, repr(list(parameters))):
        _add(digest, part)
    for column in (texts, references):
        _add(digest, str(len(column)))
        for text in column:
            _add(digest, text)
    return digest.hexdigest()


def _add(digest: hashlib.blake2b, text: str | None) -> None:
    """Lengths are part of it, so that no two lists of texts look alike."""
    if text is None:
        digest.update(b"-")
        return
    raw = text.encode("utf-8", "surrogatepass")
    digest.update(f"{len(raw)}:".encode() + raw)


def cache_file(key: str) -> Path:
    """Where the scores of a key are kept."""
    return cache_folder() / "surface" / key[:2] / f"{key}.npy"


def recall(key: str, size: int) -> FloatArray | None:
    """The remembered scores, or None."""
    if key in _memory:
        return _memory[key]
    with suppress(OSError, ValueError, EOFError, zipfile.BadZipFile):
        scores = np.load(io.BytesIO(cache_file(key).read_bytes()), allow_pickle=False)
        if scores.shape == (size,) and scores.dtype == np.float64:
            return _hold(key, scores)
    return None


def remember(key: str, scores: FloatArray) -> None:
    """Keep scores in memory and, if possible, on disk."""
    _hold(key, scores)
    buffer = io.BytesIO()
    np.save(buffer, scores, allow_pickle=False)
    with suppress(OSError, OutputError):
        cache_file(key).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(cache_file(key), buffer.getvalue())


def _hold(key: str, scores: FloatArray) -> FloatArray:
    if len(_memory) >= _MOST:
        _memory.pop(next(iter(_memory)))  # the oldest
    scores.setflags(write=False)
    _memory[key] = scores
    return scores


# -- Surface metrics on the spot: BLEU, chrF and TER of every output against its reference, by sacrebleu -------------


Progress = Callable[[int, int], None]

_COPIES = 10
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


def _bleu(
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    smooth_method: Literal["exp", "floor", "add-k", "none"] = "exp",
    smooth_value: float | None = None,
    max_ngram_order: int = 4,
    effective_order: bool = True,
    trg_lang: str = "",
) -> BLEU:
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise unknown_name("tokeniser", tokenize, BLEU.TOKENIZERS, "give bleu:tokenize=NAME")
    if max_ngram_order < 1:
        raise OptionError(f"bleu: max_ngram_order={max_ngram_order}; choose at least 1")
    return BLEU(lowercase=lowercase, force=True, tokenize=tokenize, smooth_method=smooth_method,
                smooth_value=smooth_value, max_ngram_order=max_ngram_order, effective_order=effective_order,
                trg_lang=trg_lang)  # fmt: skip


def _chrf(
    *,
    char_order: int = 6,
    word_order: int = 0,
    beta: int = 2,
    lowercase: bool = False,
    whitespace: bool = False,
    eps_smoothing: bool = False,
) -> CHRF:
    if char_order < 1 or word_order < 0 or beta < 1:
        raise OptionError(f"chrf: char_order={char_order}, word_order={word_order}, beta={beta}; choose at least 1, 0 "
                          "and 1")  # fmt: skip
    return CHRF(char_order, word_order, beta, lowercase, whitespace, eps_smoothing)


def _ter(
    *, normalized: bool = False, no_punct: bool = False, asian_support: bool = False, case_sensitive: bool = False
) -> TER:
    return TER(normalized, no_punct, asian_support, case_sensitive)


_MAKERS: dict[str, Callable[..., Any]] = {"bleu": _bleu, "chrf": _chrf, "ter": _ter}
SURFACE = tuple(_MAKERS)
"""The metrics that can be computed."""


def surface(
    data: DataLike, compute: str | Sequence[str] = "bleu,chrf", *, cache: bool = True, progress: Progress | None = None
) -> Surface:
    """Compute sentence-level BLEU, chrF or TER of every output against the item's reference, and add them as scores.

    Sentence BLEU has effective order unless `bleu:effective_order=no`; everything else is sacrebleu's default. TER of
    long texts takes sacrebleu long (a fifth of a second for an output of a paragraph).

    Args:
        data: with outputs and references.
        compute: "bleu", "chrf", "ter", with sacrebleu's parameters where wanted: "bleu:tokenize=zh,lowercase=yes". A
            parameter with several values, "bleu:tokenize=13a|intl|char", gives a score for each.
        cache: keep scores in memory and on disk ($ALIQUOT_CACHE or ~/.cache/aliquot), by the content of the texts.
        progress: called with the number of finished and of all columns (systems x metrics).

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
    metrics = [(spec, _made(spec)) for spec in parse_compute(compute)]
    references = _references(data)
    copies = _copies(data, references)
    notes = [f"{data.name}: '{system}' is the reference itself, so it has no {', '.join(str(s) for s, _ in metrics)}"
             for system in copies]  # fmt: skip
    found = []
    total = len(metrics) * data.n_systems
    for at, (spec, metric) in enumerate(metrics):
        if str(spec) in data.scores:
            notes.append(f"{data.name}: the score '{spec}' was there; it is computed anew")
        columns = []
        for place, system in enumerate(data.systems):
            texts = [None] * data.n_items if system in copies else _texts(data, system)
            columns.append(_column(spec, metric, texts, references, cache=cache))
            if progress is not None:
                progress(at * data.n_systems + place + 1, total)
        values = np.column_stack(columns)
        flipped = spec.name == "ter"
        if flipped:
            notes.append(f"{data.name}: '{spec}' counts errors and is flipped: higher is better, as for every score")
        data = data.with_score(str(spec), values, lower_is_better=flipped)
        found.append(SurfaceScore(str(spec), _signature(metric), flipped, int(np.isfinite(values).sum())))
    return Surface(data, tuple(found), tuple(notes))


def parse_compute(compute: str | Sequence[str]) -> list[Spec]:
    """Read "bleu:tokenize=13a|zh,chrf:word_order=2,ter"; several values of a parameter are several metrics.

    >>> [str(spec) for spec in parse_compute("bleu:tokenize=13a|zh,lowercase=yes,ter")]
    ['bleu:tokenize=13a,lowercase=yes', 'bleu:tokenize=zh,lowercase=yes', 'ter']
    """
    typed = split_specs(compute) if isinstance(compute, str) else [str(one) for one in compute]
    if not typed:
        raise OptionError("nothing to compute is named; write for instance bleu,chrf:word_order=2")
    specs = [each for text in typed for each in _expanded(parse_spec(text))]
    for at, spec in enumerate(specs):
        if spec.name not in _MAKERS:
            raise unknown_name("surface metric", spec.name, SURFACE, "write for instance bleu:tokenize=zh")
        if spec in specs[:at]:
            raise OptionError(f"'{spec}' is to be computed twice; name it once")
    return specs


def _expanded(spec: Spec) -> Iterator[Spec]:
    choices = [[(key, one.strip()) for one in split_outside(value, "|")] for key, value in spec.parameters.items()]
    for chosen in itertools.product(*choices):
        yield Spec(spec.name.lower(), dict(chosen))


def _made(spec: Spec) -> Any:
    """The sacrebleu metric, ready to be asked for its signature."""
    maker = _MAKERS[spec.name]
    known: dict[str, Parameter] = parameters_of(maker, ())
    given = bind(spec.name, known, spec.parameters)
    try:
        with _quiet():
            metric = maker(**given)
            metric.sentence_score("a", ["a"])
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingExtraError(f"'{spec}' cannot be computed here: {reason}") from None
    except OSError as error:
        raise DownloadError(f"'{spec}': what sacrebleu needs could not be fetched ({error}); run again") from None
    return metric


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep sacrebleu from repeating the same advice for every sentence."""
    log = logging.getLogger("sacrebleu")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _signature(metric: Any) -> str:
    return str(metric.get_signature())


def _references(data: EvalSet) -> list[str | None]:
    if data.outputs is None:
        raise DataError(f"{data.name}: there are no outputs to score; give data with texts ('tgt')")
    if "reference" not in data.items.columns or data.items["reference"].null_count() == data.n_items:
        raise DataError(f"{data.name}: there are no references to score outputs against; give data with 'ref'")
    return data.items["reference"].cast(pl.String).to_list()


def _texts(data: EvalSet, system: str) -> list[str | None]:
    texts: list[str | None] = data.outputs[system].to_list() if data.outputs is not None else []
    return texts


def _copies(data: EvalSet, references: list[str | None]) -> list[str]:
    """Systems whose outputs all are the reference: the reference itself, entered as a system."""
    found = []
    for system in data.systems:
        both = [(a, b) for a, b in zip(_texts(data, system), references, strict=True) if a and b]
        if len(both) >= _COPIES and all(a == b for a, b in both):
            found.append(system)
    return found


def _column(
    spec: Spec, metric: Any, texts: Sequence[str | None], references: Sequence[str | None], *, cache: bool
) -> FloatArray:
    """Scores of one system, from the cache or from sacrebleu."""
    key = cache_key(spec.name, _signature(metric), sorted(spec.parameters.items()), texts, references)
    known = recall(key, len(texts)) if cache else None
    if known is not None:
        return known
    with _quiet():
        scores = np.array(
            [
                np.nan if text is None or reference is None else metric.sentence_score(text, [reference]).score
                for text, reference in zip(texts, references, strict=True)
            ],
            dtype=np.float64,
        )
    if cache:
        remember(key, scores)
    return scores
