"""How many values a written scale has: "1-5", "1 to 100", "0, 25, ..., 100", "A better, B better, neither"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_NUMBER = r"[-−+]?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"^\W*?(?:from\s+)?({_NUMBER})\s*(?:-|–|—|−|to|\.\.+|…|through)\s*({_NUMBER})(?![\d.]*\d)")
_STEP = re.compile(rf"steps?\s*(?:of|size)?\s*[:=]?\s*({_NUMBER})")
_LABEL = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|(?<=\d)\s*[=:]\s*[^,;|\n–—-]+")
_DOTS = ("...", "…", "..", "etc", "etc.")


@dataclass(frozen=True)
class Scale:
    """What a text says of a scale: how many values (None where it cannot be told), and whether it is a range."""

    size: int | None
    is_range: bool


def read_scale(text: str) -> Scale:
    """Read a list or a range of values; names in brackets or after '=' are not values.

    >>> read_scale("1-100"), read_scale("A better, B better, neither")
    (Scale(size=100, is_range=True), Scale(size=3, is_range=False))
    >>> read_scale("1 (not at all fluent) to 5 (very fluent)").size, read_scale("0, 25, ..., 100").size
    (5, 5)
    >>> read_scale("0.0 to 1.0").size is None, read_scale("0-1 in steps of 0.1").size, read_scale("-25 to 0").size
    (True, 11, 26)
    """
    plain = _LABEL.sub(" ", text).strip()
    found = _RANGE.match(plain)
    if found and not re.search(r"[,;|\n]", plain[found.end() :].replace("in steps", "")):
        return Scale(_range_size(found.group(1), found.group(2), plain[found.end() :]), is_range=True)
    values = _listed(re.sub(r"\([^()]*\)", "", text))  # a comma inside brackets parts no values
    if any(value in _DOTS for value in values):
        return Scale(_progression_size([value for value in values if value not in _DOTS]), is_range=True)
    return Scale(len(values), is_range=False)


def _listed(text: str) -> list[str]:
    """Part a list at commas and the like; a text without any at slashes, 'or' and 'and': yes/no, A or B."""
    for separator in (r"[,;|\n]", r"/|\bor\b|\band\b"):
        values = [value.strip() for value in re.split(separator, text) if value.strip()]
        if len(values) > 1:
            return values
    return values


def _range_size(low: str, high: str, rest: str) -> int | None:
    step = _STEP.search(rest)
    if step is None and ("." in low or "." in high):
        return None
    return _steps(_exact(low), _exact(high), _exact(step.group(1)) if step else Fraction(1))


def _progression_size(values: list[str]) -> int | None:
    """Return the size of `1, 2, ..., 10`: the first two give the step, the last the end."""
    numbers = [re.match(_NUMBER, value) for value in values]
    if len(values) < 3 or any(number is None for number in numbers):
        return None
    exact = [_exact(number.group()) for number in numbers if number]
    return _steps(exact[0], exact[-1], exact[1] - exact[0])


def _steps(low: Fraction, high: Fraction, step: Fraction) -> int | None:
    if step == 0 or (high - low) / step < 0 or ((high - low) / step).denominator != 1:
        return None
    return int((high - low) / step) + 1


def _exact(text: str) -> Fraction:
    return Fraction(text.replace("−", "-"))
