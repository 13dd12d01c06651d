"""Surface metrics on the spot: BLEU, chrF and TER of every output against its references, by sacrebleu.

Invariant: every number is sacrebleu's sentence score under the signature that is recorded with it; an output or
reference that is missing has no score; a lower-is-better metric (TER) is flipped, and said to be. A tokeniser of one's
own is applied to both sides before sacrebleu sees them.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import itertools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from aliquot.core.evalset import EvalSet
from aliquot.core.progress import ProgressLike, resolve_progress
from aliquot.core.registry import (
    Parameter,
    Spec,
    SpecText,
    bind_parameters,
    parse_spec,
    read_parameters,
    split_specs,
    split_top_level,
)
from aliquot.errors import DataError, DownloadError, MissingExtraError, OptionError, OutputError, unknown_name
from aliquot.io.download import cache_folder
from aliquot.io.inputs import DataLike, as_evalset
from aliquot.io.writing import write_bytes
from aliquot.stats.arrays import FloatArray

# -- Scores of texts, remembered by content: in memory, and on disk in the cache folder ------------------------------


_CACHE_FORMAT = "2"
MAX_CACHED = 4096
_memory_cache: dict[str, FloatArray] = {}


def compute_cache_key(
    metric: str,
    signature: str,
    parameters: Sequence[tuple[str, str]],
    texts: Sequence[str | None],
    references: Sequence[Sequence[str]],
) -> str:
    """Digest of all that the scores of a column depend on.

    >>> one, other = (compute_cache_key("bleu", "v", [], texts, [["b"], ["c"]]) for texts in (["a", None], ["a"]))
    >>> one == other
    False
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in (_CACHE_FORMAT, metric, signature, repr(list(parameters))):
        _update_digest(digest, part)
    for column in (texts, *references):
        _update_digest(digest, str(len(column)))
        for text in column:
            _update_digest(digest, text)
    return digest.hexdigest()


def _update_digest(digest: hashlib.blake2b, text: str | None) -> None:
    """Lengths are part of it, so that no two lists of texts look alike."""
    if text is None:
        digest.update(b"-")
        return
    raw = text.encode("utf-8", "surrogatepass")
    digest.update(f"{len(raw)}:".encode() + raw)


def locate_cache_file(key: str) -> Path:
    """Where the scores of a key are kept."""
    return cache_folder() / "surface" / key[:2] / f"{key}.npy"


def read_cached_scores(key: str, size: int) -> FloatArray | None:
    """The remembered scores, or None."""
    if key in _memory_cache:
        return _memory_cache[key]
    with suppress(Exception):  # numpy raises a dozen classes for a damaged file; the scores are computed anew
        scores = np.load(io.BytesIO(locate_cache_file(key).read_bytes()), allow_pickle=False)
        if scores.shape == (size,) and scores.dtype == np.float64:
            return _keep_in_memory(key, scores)
    return None


def cache_scores(key: str, scores: FloatArray) -> None:
    """Keep scores in memory and, if possible, on disk."""
    _keep_in_memory(key, scores)
    buffer = io.BytesIO()
    np.save(buffer, scores, allow_pickle=False)
    with suppress(OSError, OutputError):
        locate_cache_file(key).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(locate_cache_file(key), buffer.getvalue())


def _keep_in_memory(key: str, scores: FloatArray) -> FloatArray:
    if len(_memory_cache) >= MAX_CACHED:
        _memory_cache.pop(next(iter(_memory_cache)))  # the oldest
    scores.setflags(write=False)
    _memory_cache[key] = scores
    return scores


# -- Surface metrics on the spot: BLEU, chrF and TER of every output against its reference, by sacrebleu -------------


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


Tokenizer = Callable[[str], "str | Sequence[str]"]
ReferenceChoice = Literal["first", "all"]


@dataclass(frozen=True, eq=False)
class Scorer:
    """A sacrebleu metric with its references, tokeniser and cap."""

    metric: Any  # sacrebleu's
    references: ReferenceChoice  # the first reference, or all of an item
    tokenizer: Tokenizer | None = None  # applied before sacrebleu's own
    tokenizer_name: str | None = None
    cap: float = float("inf")  # the most a score can be

    @property
    def signature(self) -> str:
        """Signature of sacrebleu, with the own tokeniser and the cap."""
        text = str(self.metric.get_signature())
        if self.references == "all":  # sacrebleu gives the number of the item it saw last
            text = re.sub(r"^nrefs:[^|]*", "nrefs:all", text)
        additions = "" if self.tokenizer_name is None else f"|own_tok:{self.tokenizer_name}"
        additions += "" if np.isinf(self.cap) else f"|cap:{self.cap:g}"
        return f"{text}{additions}"

    def tokenize(self, text: str) -> str:
        """Return the text, split by the own tokeniser where there is one."""
        if self.tokenizer is None:
            return text
        tokens = self.tokenizer(text)
        return tokens if isinstance(tokens, str) else " ".join(tokens)

    def score(self, text: str, references: Sequence[str]) -> float:
        """Score one text."""
        value = self.metric.sentence_score(
            self.tokenize(text), [self.tokenize(reference) for reference in references]
        ).score
        return min(float(value), self.cap)


def _load_tokenizer(tokenizer: str | None, tokenizers: Mapping[str, Tokenizer]) -> tuple[Tokenizer | None, str | None]:
    """Find a tokeniser by name, in `tokenizers` or as an importable `package.module.function`."""
    if tokenizer is None:
        return None, None
    if tokenizer in tokenizers:
        return tokenizers[tokenizer], tokenizer
    module, _, name = tokenizer.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name) if module else None
    except ImportError as error:
        raise OptionError(
            f"tokenizer={tokenizer}: cannot be imported ({error}); give package.module.function"
        ) from None
    except AttributeError:
        raise OptionError(f"tokenizer={tokenizer}: the module '{module}' has no '{name}'") from None
    if not callable(function):
        raise OptionError(
            f"tokenizer={tokenizer} is not a function; give package.module.function, or name it in tokenizers="
        )
    return function, tokenizer


def _make_bleu(
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    smooth_method: Literal["exp", "floor", "add-k", "none"] = "exp",
    smooth_value: float | None = None,
    max_ngram_order: int = 4,
    effective_order: bool = True,
    trg_lang: str = "",
    references: ReferenceChoice = "first",
    tokenizer: str | None = None,
    tokenizers: Mapping[str, Tokenizer],
) -> Scorer:
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise unknown_name("tokeniser", tokenize, BLEU.TOKENIZERS, "give bleu:tokenize=NAME")
    if max_ngram_order < 1:
        raise OptionError(f"bleu: max_ngram_order={max_ngram_order}; choose at least 1")
    function, name = _load_tokenizer(tokenizer, tokenizers)
    if function is not None and tokenize is None:
        tokenize = "none"  # what is split already is not split again
    metric = BLEU(
        lowercase=lowercase,
        force=True,
        tokenize=tokenize,
        smooth_method=smooth_method,
        smooth_value=smooth_value,
        max_ngram_order=max_ngram_order,
        effective_order=effective_order,
        trg_lang=trg_lang,
    )
    return Scorer(metric, references, function, name)


def _make_chrf(
    *,
    char_order: int = 6,
    word_order: int = 0,
    beta: int = 2,
    lowercase: bool = False,
    whitespace: bool = False,
    eps_smoothing: bool = False,
    references: ReferenceChoice = "first",
    tokenizer: str | None = None,
    tokenizers: Mapping[str, Tokenizer],
) -> Scorer:
    if char_order < 1 or word_order < 0 or beta < 1:
        raise OptionError(
            f"chrf: char_order={char_order}, word_order={word_order}, beta={beta}; choose at least 1, 0 and 1"
        )
    metric = CHRF(char_order, word_order, beta, lowercase, whitespace, eps_smoothing)
    return Scorer(metric, references, *_load_tokenizer(tokenizer, tokenizers))


def _make_ter(
    *,
    normalized: bool = False,
    no_punct: bool = False,
    asian_support: bool = False,
    case_sensitive: bool = False,
    cap: float | None = None,
    references: ReferenceChoice = "first",
    tokenizer: str | None = None,
    tokenizers: Mapping[str, Tokenizer],
) -> Scorer:
    if cap is not None and not cap > 0:
        raise OptionError(f"ter: cap={cap:g}; choose a score above 0, for instance 100 (as many edits as words)")
    metric = TER(normalized, no_punct, asian_support, case_sensitive)
    return Scorer(metric, references, *_load_tokenizer(tokenizer, tokenizers), cap=float("inf") if cap is None else cap)


_MAKERS: dict[str, Callable[..., Scorer]] = {"bleu": _make_bleu, "chrf": _make_chrf, "ter": _make_ter}
SURFACE_METRICS = tuple(_MAKERS)
"""The metrics that can be computed."""


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


def parse_compute(compute: str | Sequence[str]) -> list[Spec]:
    """Read "bleu:tokenize=13a|zh,chrf:word_order=2,ter"; several values of a parameter are several metrics.

    >>> [str(spec) for spec in parse_compute("bleu:tokenize=13a|zh,lowercase=yes,ter")]
    ['bleu:tokenize=13a,lowercase=yes', 'bleu:tokenize=zh,lowercase=yes', 'ter']
    """
    texts = split_specs(compute) if isinstance(compute, str) else [str(text) for text in compute]
    if not texts:
        raise OptionError("nothing to compute is named; write for instance bleu,chrf:word_order=2")
    specs = [each for text in texts for each in _expand_choices(parse_spec(text))]
    for index, spec in enumerate(specs):
        if spec.name not in _MAKERS:
            raise unknown_name("surface metric", spec.name, SURFACE_METRICS, "write for instance bleu:tokenize=zh")
        if spec in specs[:index]:
            raise OptionError(f"'{spec}' is to be computed twice; name it once")
    return specs


def _expand_choices(spec: Spec) -> Iterator[Spec]:
    choices = [
        [(key, SpecText(choice.strip())) for choice in split_top_level(value, "|")]
        for key, value in spec.parameters.items()
    ]
    for chosen in itertools.product(*choices):
        yield Spec(spec.name.lower(), dict(chosen))


def make_scorer(spec: Spec, tokenizers: Mapping[str, Tokenizer] | None = None) -> Scorer:
    """Build the sacrebleu metric and try it on a text, so that missing tokenisers show."""
    maker = _MAKERS[spec.name]
    parameters: dict[str, Parameter] = read_parameters(maker, ("tokenizers",))
    arguments = bind_parameters(spec.name, parameters, spec.parameters)
    try:
        with silence_sacrebleu():
            scorer = maker(**arguments, tokenizers=tokenizers or {})
            scorer.metric.sentence_score("a", ["a"])
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise MissingExtraError(f"'{spec}' cannot be computed here: {reason}") from None
    except OSError as error:
        raise DownloadError(f"'{spec}': what sacrebleu needs could not be fetched ({error}); run again") from None
    return scorer


@contextmanager
def silence_sacrebleu() -> Iterator[None]:
    """Silence sacrebleu's log, which warns once per sentence."""
    log = logging.getLogger("sacrebleu")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


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
