"""What a score's name says: people or metric, higher or lower is better."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HUMAN = re.compile(
    r"""^(
        (human|expert|turker|crowd|annotator|rater)s?([-_. ].*)?   # human, human_fluency, turker
      | (wmt[-_.])?(mqm|da|esa|esaai|sqm|likert|appraise|raw|z)    # a protocol, alone ...
        ([-_.](mqm|da|esa|sqm|likert|appraise|raw|z|merged|iaa|\d+|round\d+|col\d*|src|psqm|csqm))*  # ... or qualified
      | n[-_]?judg(e?)ments?
    )$""",
    re.IGNORECASE | re.VERBOSE,
)

_ERROR_RATE = re.compile(r"^(char[-_]?)?(ter|wer|per|cer|cder|eed|exteed|character)([-_.].*)?$", re.IGNORECASE)


def looks_human(name: str) -> bool:
    """Tell whether a score's name is that of people's judgments, which must not serve as an automatic metric.

    >>> [name for name in ("human_z", "da-sqm", "ESA-1", "GEMBA-MQM", "COMET") if looks_human(name)]
    ['human_z', 'da-sqm', 'ESA-1']
    """
    return _HUMAN.match(name) is not None


def implied_human(names: Iterable[str]) -> str | None:
    """Return the score that is people's where the names leave no doubt: `human`, or the only one named like it.

    >>> implied_human(["mqm", "COMET"]), implied_human(["mqm", "da"]), implied_human(["mqm", "human"])
    ('mqm', None, 'human')
    """
    candidates = [name for name in names if looks_human(name)]
    if "human" in candidates:
        return "human"
    return candidates[0] if len(candidates) == 1 else None


def is_error_rate(name: str) -> bool:
    """Tell whether a metric of this name counts errors, so that lower is better unless it was negated before.

    >>> [name for name in ("TER", "CharacTER", "EED", "COMET", "TERp-A") if is_error_rate(name)]
    ['TER', 'CharacTER', 'EED']
    """
    return _ERROR_RATE.match(name) is not None
