"""Scorers of sacrebleu (BLEU, chrF, TER) from specs such as `bleu:tokenize=zh`, with tokenisers of one's own."""

from __future__ import annotations

import importlib
import itertools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

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
from aliquot.errors import DownloadError, MissingExtraError, OptionError, unknown_name

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
