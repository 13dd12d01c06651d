"""What a text answer must look like, form by form: each rule returns what is wrong and what to do, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from aliquot.report.datasheet.languages import unknown_languages
from aliquot.report.datasheet.questions import Question

Fault = tuple[str, str]
"""What is wrong, and what to do."""

_LINK = re.compile(r"https?://\S|www\.\S|\bdoi\b|\b10\.\d{4,}/\S|\barxiv\b|\baclanthology\b|\S\.\w+/\S", re.IGNORECASE)
_WHOLE = re.compile(r"(\d+)\s*(\([^()]*\))?\.?", re.DOTALL)
_YES_NO = re.compile(r"(yes|no)\b[\s.,:;–—-]*(.*)", re.IGNORECASE | re.DOTALL)


def special_value(question: Question, text: str) -> str | None:
    """Return the special value (N/A, No, ...) that a text is, whatever its case and a full stop behind it.

    >>> from aliquot.report.datasheet.questions import questions
    >>> special_value(questions()["2.4"], " n/a. "), special_value(questions()["2.4"], "English")
    ('N/A', None)
    """
    bare = text.strip().rstrip(".").strip("'\"‘’").casefold()
    return next((value for value in question.special if value.casefold() == bare), None)


def is_not_applicable(text: str) -> bool:
    """Tell whether a text says N/A.

    >>> is_not_applicable("n/a"), is_not_applicable("none")
    (True, False)
    """
    return text.strip().rstrip(".").casefold() in ("n/a", "na", "not applicable")


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is, brackets behind it allowed, or None.

    >>> whole_number("460 (refA: 120)"), whole_number("about 460"), whole_number("-3")
    (460, None, None)
    """
    found = _WHOLE.fullmatch(text.strip())
    return int(found.group(1)) if found and found.group(1).isascii() else None


def fault(question: Question, text: str) -> Fault | None:
    """Return what is wrong with a text that answers this question, or None.

    >>> from aliquot.report.datasheet.questions import questions
    >>> fault(questions()["3.2.1"], "a dozen")
    ("'a dozen' is not a whole number", 'write a whole number of 1 or more; remarks may follow in brackets')
    """
    if special_value(question, text) is not None or not question.form:
        return None
    return _FORMS[question.form](text.strip())


def _integer(text: str) -> Fault | None:
    number = whole_number(text)
    if number is None or number < 1:
        return f"'{_short(text)}' is not a whole number" + (" of 1 or more" if number == 0 else ""), (
            "write a whole number of 1 or more; remarks may follow in brackets"
        )
    return None


def _link(text: str) -> Fault | None:
    if _LINK.search(text):
        return None
    return "there is no link in it", "add a web address or a DOI, or the word that HEDS has for this case"


def _contact(text: str) -> Fault | None:
    if re.search(r"\S+\s?(@|\[at\]|\(at\))\s?\S+", text):
        return None
    return "there is no e-mail address in it", "add name, affiliation and e-mail address"


def _languages(text: str) -> Fault | None:
    unknown = unknown_languages(text)
    if not unknown:
        return None
    names = ", ".join(f"'{name}'" + (f" (did you mean '{guess}'?)" if guess else "") for name, guess in unknown)
    return f"not a full language name of ISO 639-1: {names}", (
        "write full English names; a language outside ISO 639-1 with its three-letter code: Cebuano (ceb)"
    )


def _yes_no(text: str) -> Fault | None:
    found = _YES_NO.fullmatch(text)
    if found is None:
        return "it begins with neither Yes nor No", "write No, or Yes with the registry and a link"
    if found.group(1).casefold() == "yes" and not found.group(2).strip():
        return "Yes, but not where", "add the name of the registry and a link"
    return None


def _power(text: str) -> Fault | None:
    if re.search(r"\d", text):
        return None
    return "there is no number in it", "give the power and the program that computed it (`aliquot plan` does)"


def _size(text: str) -> Fault | None:
    if whole_number(text):
        return None
    return (
        f"'{_short(text)}' is no size",
        "write a whole number, 'continuous', or N/A without a rating instrument",
    )


def _values(_text: str) -> Fault | None:
    return None  # what it must be depends on 4.3.3, see checking


def _short(text: str, width: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


_FORMS: Mapping[str, Callable[[str], Fault | None]] = {
    "integer": _integer,
    "link": _link,
    "contact": _contact,
    "languages": _languages,
    "yes_no": _yes_no,
    "power": _power,
    "size": _size,
    "values": _values,
}

ADVICE = frozenset({"power"})
"""Forms that HEDS wishes for but whose lack does not make a sheet incomplete."""
