"""What a score's name says: people or metric, higher or lower is better."""

from __future__ import annotations

import re

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


def is_error_rate(name: str) -> bool:
    """Tell whether a metric of this name counts errors, so that lower is better unless it was negated before.

    >>> [name for name in ("TER", "CharacTER", "EED", "COMET", "TERp-A") if is_error_rate(name)]
    ['TER', 'CharacTER', 'EED']
    """
    return _ERROR_RATE.match(name) is not None
