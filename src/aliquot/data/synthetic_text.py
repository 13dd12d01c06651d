"""Invented texts: references of made-up words, sources as their cipher, outputs that lose words as quality falls."""

from __future__ import annotations

import numpy as np

from aliquot.stats.arrays import FloatArray, IntArray

_VOCABULARY = 3000
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "st", "br", "kl", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "au", "ei")

Tokens = list[IntArray]


class TextMaker:
    """Makes the texts of one campaign from one random generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._words = np.array(self._invent(_VOCABULARY), dtype=object)
        self._cipher = rng.permutation(_VOCABULARY)
        ranks = np.arange(1, _VOCABULARY + 1)
        self._cumulative = np.cumsum(1.0 / ranks) / np.sum(1.0 / ranks)  # Zipf

    def _invent(self, count: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            syllables = self._rng.integers(1, 4)
            onsets = self._rng.integers(0, len(_ONSETS), syllables)
            vowels = self._rng.integers(0, len(_VOWELS), syllables)
            word = "".join(_ONSETS[o] + _VOWELS[v] for o, v in zip(onsets, vowels, strict=True))
            words[word] = None
        return list(words)

    def _draw(self, count: int) -> IntArray:
        return np.searchsorted(self._cumulative, self._rng.random(count)).astype(np.int64)

    def references(self, lengths: IntArray) -> Tokens:
        """Draw the words of each reference."""
        return np.split(self._draw(int(lengths.sum())), np.cumsum(lengths)[:-1])

    def sources(self, references: Tokens) -> list[str]:
        """Encipher the references word by word: another language with the same lengths."""
        return self.joined([self._cipher[tokens][::-1] for tokens in references])

    def outputs(self, references: Tokens, kept: FloatArray) -> list[str]:
        """Keep each word of item i with probability kept[i]; the others are replaced or dropped."""
        lengths = np.array([len(tokens) for tokens in references])
        flat = np.concatenate(references)
        keep = self._rng.random(len(flat)) < np.repeat(kept, lengths)
        dropped = ~keep & (self._rng.random(len(flat)) < 0.4)
        words = np.where(keep, flat, self._draw(len(flat)))
        ends = np.cumsum(lengths)[:-1]
        pairs = zip(np.split(words, ends), np.split(~dropped, ends), strict=True)
        return self.joined([tokens[stays] for tokens, stays in pairs])

    def joined(self, tokens: Tokens) -> list[str]:
        """Write tokens as sentences."""
        return [" ".join(self._words[words].tolist()).capitalize() + "." for words in tokens]
