"""Simulated campaigns that behave like real ones, for the demo, the tests and trying things out.

The model: quality of an output = ability of the system - difficulty of the item + their interaction. Difficulty is
shared within documents and domains and grows with length. People see quality through a scale (errors that cost points,
or a bounded rating), with the severity and noise of the annotator; metrics see the human score through noise that is
partly shared by the outputs of an item. Texts are made of invented words, and lose words as quality falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
import polars as pl
from scipy.special import expit

from aliquot.core import memory
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import OptionError
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.validation import at_least, between, invalid, one_of

# -- Invented texts: references of made-up words, sources as their cipher, outputs that lose words as quality falls --


_VOCABULARY = 3000
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "st", "br", "kl", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "au", "ei")

Tokens = list[IntArray]


class TextMaker:
    """Draws the texts of one campaign from one random generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._words = np.array(self._invent_words(_VOCABULARY), dtype=object)
        self._cipher = rng.permutation(_VOCABULARY)
        ranks = np.arange(1, _VOCABULARY + 1)
        self._cumulative = np.cumsum(1.0 / ranks) / np.sum(1.0 / ranks)  # Zipf

    def _invent_words(self, count: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            syllables = self._rng.integers(1, 4)
            onsets = self._rng.integers(0, len(_ONSETS), syllables)
            vowels = self._rng.integers(0, len(_VOWELS), syllables)
            word = "".join(_ONSETS[o] + _VOWELS[v] for o, v in zip(onsets, vowels, strict=True))
            words[word] = None
        return list(words)

    def _draw_words(self, count: int) -> IntArray:
        return np.searchsorted(self._cumulative, self._rng.random(count)).astype(np.int64)

    def draw_references(self, lengths: IntArray) -> Tokens:
        """Draw the words of each reference."""
        return np.split(self._draw_words(int(lengths.sum())), np.cumsum(lengths)[:-1])

    def encipher(self, references: Tokens) -> list[str]:
        """Encipher the references word by word: another language with the same lengths."""
        return self.write_sentences([self._cipher[tokens][::-1] for tokens in references])

    def make_outputs(self, references: Tokens, share: FloatArray) -> list[str]:
        """Keep each word of item i with probability share[i]; replace or drop the others."""
        lengths = np.array([len(tokens) for tokens in references])
        flat = np.concatenate(references)
        keep = self._rng.random(len(flat)) < np.repeat(share, lengths)
        dropped = ~keep & (self._rng.random(len(flat)) < 0.4)
        words = np.where(keep, flat, self._draw_words(len(flat)))
        ends = np.cumsum(lengths)[:-1]
        pairs = zip(np.split(words, ends), np.split(~dropped, ends), strict=True)
        return self.write_sentences([tokens[stays] for tokens, stays in pairs])

    def write_sentences(self, tokens: Tokens) -> list[str]:
        """Write tokens as sentences."""
        return [" ".join(self._words[words].tolist()).capitalize() + "." for words in tokens]


# -- Simulated campaigns that behave like real ones, for the demo, the tests and trying things out -------------------


METRICS: Mapping[str, float] = MappingProxyType({"metricA": 0.6, "metricB": 0.45, "metricC": 0.25})
Protocol = Literal["mqm", "da", "likert"]
PROTOCOLS = get_args(Protocol)
_DOMAINS = ("news", "social", "speech", "literary")


@dataclass(frozen=True)
class _World:
    """The latent variables of a campaign."""

    document: IntArray
    domain: IntArray
    words: IntArray
    quality: FloatArray


def synthetic(
    items: int = 400,
    systems: int = 8,
    *,
    protocol: Protocol = "mqm",
    metrics: Mapping[str, float] | None = None,
    document_length: float = 6.0,
    domains: int = 3,
    annotators: int = 6,
    judgments_per_output: int = 1,
    texts: bool = True,
    seed: Seed = 0,
) -> EvalSet:
    """Simulate an evaluation campaign.

    Args:
        items: number of items, N.
        systems: number of systems, M; they are called sys1, sys2, ... in order of falling ability.
        protocol: how people judge: `mqm` (penalties, 0 best, skewed), `da` (0 to 100) or `likert` (1 to 5).
        metrics: name -> the metric's correlation with the human score over all outputs.
        document_length: mean number of items per document; 0 for no documents.
        domains: number of domains, at most four; 0 for none.
        annotators: number of annotators; 0 for scores without judgments.
        judgments_per_output: how many different annotators judge each output.
        texts: whether to make sources, references and outputs.
        seed: same seed, same campaign.

    >>> synthetic(items=100, systems=5, seed=1)  # doctest: +NORMALIZE_WHITESPACE
    EvalSet('synthetic (simulated)': 100 items x 5 systems, 4 scores (human: 'human'), 17 documents, outputs,
    500 judgments)
    """
    metrics = METRICS if metrics is None else metrics
    _validate_sizes(items, systems, document_length, domains, annotators, judgments_per_output)
    _validate_metrics(protocol, metrics)
    if isinstance(seed, int):
        at_least("seed", seed, 0)
    rng = np.random.default_rng(seed)
    world = _draw_world(items, systems, document_length, domains, rng)
    names = tuple(f"sys{number}" for number in range(1, systems + 1))
    judgments, human = _simulate_judgments(world, names, protocol, annotators, judgments_per_output, rng)
    scores = {"human": human}
    for name, correlation in metrics.items():
        scores[name] = _draw_metric(human, correlation, rng)
    columns, outputs = _build_item_columns(world, document_length, domains), None
    if texts:
        maker = TextMaker(rng)
        reference = maker.draw_references(world.words)
        columns += [
            pl.Series("source", maker.encipher(reference)),
            pl.Series("reference", maker.write_sentences(reference)),
        ]
        share = expit(2.2 + 1.3 * world.quality)
        outputs = pl.DataFrame(
            {name: maker.make_outputs(reference, share[:, column]) for column, name in enumerate(names)}
        )
    return EvalSet(
        items=pl.DataFrame([pl.Series("id", np.arange(items)), *columns]),
        systems=names,
        scores=scores,
        outputs=outputs,
        judgments=judgments,
        human="human",
        name="synthetic (simulated)",
    )


def _validate_metrics(protocol: str, metrics: Mapping[str, float]) -> None:
    one_of("protocol", protocol, PROTOCOLS)
    for name, correlation in metrics.items():
        if name in ("", "human"):
            raise OptionError(
                f"`metrics`: '{name}' cannot name a metric ('human' is people's); choose another", "metrics"
            )
        if not -1.0 <= correlation <= 1.0:
            raise invalid("metrics", f"{name}={correlation}", "give correlations from -1 to 1")


def _validate_sizes(
    items: int, systems: int, document_length: float, domains: int, annotators: int, repeats: int
) -> None:
    at_least("items", items, 1)
    at_least("systems", systems, 1)
    memory.require_memory(
        items * (1500.0 + 600.0 * systems * (1 + repeats * (annotators > 0))),  # texts, scores and judgments as objects
        f"{items} items of {systems} systems",
        "make fewer",
    )
    at_least("document_length", document_length, 0, "give a mean number of items, or 0 for no documents")
    between("domains", domains, 0, len(_DOMAINS))
    at_least("annotators", annotators, 0, "give 0 (scores without judgments) or more")
    if annotators:
        remedy = f"give 1 to {annotators}, the number of annotators"
        between("judgments_per_output", repeats, 1, annotators, remedy=remedy)


def _draw_world(items: int, systems: int, document_length: float, domains: int, rng: np.random.Generator) -> _World:
    document = _draw_documents(items, document_length, rng)
    n_documents = int(document.max()) + 1
    domain = rng.integers(0, max(1, domains), n_documents)[document]
    words = np.maximum(3, rng.lognormal(2.8, 0.55, items)).astype(np.int64)
    difficulty = (
        rng.normal(0, 0.5, n_documents)[document]
        + rng.normal(0, 0.3, max(1, domains))[domain]
        + 0.5 * (np.log(words) - 2.8)
        + rng.normal(0, 0.6, items)
    )
    ability = np.linspace(0.6, -0.6, systems) if systems > 1 else np.zeros(1)
    interaction = rng.normal(0, 0.6, (items, systems))
    return _World(document, domain, words, ability - difficulty[:, None] + interaction)


def _draw_documents(items: int, mean_length: float, rng: np.random.Generator) -> IntArray:
    if mean_length <= 0:
        return np.arange(items)
    lengths = 1 + rng.negative_binomial(2, 2 / (2 + max(mean_length - 1, 1e-9)), items)
    return np.repeat(np.arange(items), lengths)[:items].astype(np.int64)


def _build_item_columns(world: _World, document_length: float, domains: int) -> list[pl.Series]:
    columns = []
    if document_length > 0:
        columns.append(pl.Series("document", [f"doc{code + 1}" for code in world.document]))
    if domains > 0:
        columns.append(pl.Series("domain", [_DOMAINS[code] for code in world.domain]))
    return columns


# -- people --------------------------------------------------------------------------------------------------------


def _simulate_judgments(
    world: _World, names: tuple[str, ...], protocol: str, annotators: int, repeats: int, rng: np.random.Generator
) -> tuple[Judgments | None, FloatArray]:
    """Simulate judgments of every output, and the human score: the mean per output."""
    n, m = world.quality.shape
    if not annotators:
        return None, _rate_quality(world.quality, protocol, rng)
    severity = rng.normal(0, 0.25, annotators)
    first = rng.integers(0, annotators, int(world.document.max()) + 1)[world.document]  # one annotator a document
    values = np.empty((repeats, n, m))
    people = np.empty((repeats, n), dtype=np.int64)
    for repeat in range(repeats):
        people[repeat] = (first + repeat) % annotators
        perceived = world.quality - severity[people[repeat]][:, None] + rng.normal(0, 0.35, (n, m))
        values[repeat] = _rate_quality(perceived, protocol, rng)
    seconds = rng.lognormal(np.log(8 + 1.2 * world.words)[None, :, None], 0.5, values.shape)
    table = pl.DataFrame(
        {
            "item": np.broadcast_to(np.arange(n)[None, :, None], values.shape).ravel(),
            "system": pl.Series(np.array(names, dtype=object)[np.tile(np.arange(m), repeats * n)], dtype=pl.String),
            "annotator": [f"a{person + 1:02d}" for person in np.repeat(people.ravel(), m)],
            "criterion": [protocol] * values.size,
            "value": values.ravel(),
            "seconds": seconds.ravel().round(1),
            "order": _number_judgments(people, m),
        }
    )
    return Judgments(table), values.mean(axis=0)


def _number_judgments(people: IntArray, systems: int) -> IntArray:
    """Number each annotator's judgments from 1 in the order of the items."""
    worker = np.repeat(people.ravel(), systems)
    order = np.empty(len(worker), dtype=np.int64)
    for person in np.unique(worker):
        mine = np.flatnonzero(worker == person)
        order[mine] = np.arange(1, len(mine) + 1)
    return order


def _rate_quality(quality: FloatArray, protocol: str, rng: np.random.Generator) -> FloatArray:
    if protocol == "mqm":
        minor = rng.poisson(0.9 * np.exp(-0.8 * quality))
        major = rng.poisson(0.25 * np.exp(-1.1 * quality))
        return np.asarray(-np.minimum(minor + 5.0 * major, 25.0))
    rating: FloatArray = 100.0 * expit(1.4 + 1.2 * quality)
    if protocol == "da":
        return np.round(rating)
    return np.clip(np.round(1 + rating / 25.0), 1, 5)


# -- metrics -------------------------------------------------------------------------------------------------------


def _draw_metric(human: FloatArray, correlation: float, rng: np.random.Generator) -> FloatArray:
    """Draw a score whose Pearson correlation with `human` over all cells is exactly `correlation`.

    About half of the noise variance is shared by an item's outputs, a little by a system's, as in real metrics.
    """
    n, m = human.shape
    noise = rng.normal(size=(n, 1)) + rng.normal(size=(n, m)) + 0.2 * rng.normal(size=(1, m))
    target = _standardise(human)
    noise = noise - noise.mean()
    noise = _standardise(noise - (noise * target).mean() * target)
    mixed: FloatArray = correlation * target + np.sqrt(1 - correlation**2) * noise
    return 0.7 + 0.1 * mixed


def _standardise(values: FloatArray) -> FloatArray:
    spread = float(values.std())
    standard: FloatArray = (values - values.mean()) / (spread or 1.0)
    return standard
