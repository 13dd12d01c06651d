"""What a text answer must look like, form by form: each rule returns what is wrong and what to do, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

from aliquot.errors import closest
from aliquot.report.datasheet.questions import SheetQuestion

# -- The languages of ISO 639-1 by code, with the names under which the standard lists them --------------------------


_SEPARATOR = re.compile(r"[,;/\n]|\band\b|&")
_BRACKETS = re.compile(r"\(([^()]*)\)")


@cache
def languages_by_code() -> dict[str, tuple[str, ...]]:
    """Return the names of each language by its two-letter code.

    >>> len(languages_by_code()), languages_by_code()["nl"]
    (185, ('Dutch', 'Flemish'))
    """
    text = files("aliquot.report.datasheet").joinpath("languages.txt").read_text("utf-8")
    entries = (line.split(" ", 1) for line in text.splitlines())
    return {code: tuple(name.strip() for name in names.split(",")) for code, names in entries}


@cache
def _codes_by_name() -> dict[str, str]:
    return {name.casefold(): code for code, names in languages_by_code().items() for name in names}


def find_unknown_languages(text: str) -> list[tuple[str, str | None]]:
    """Return what is not a full ISO 639-1 name in a list of languages, each with the name that may be meant.

    Brackets qualify a name or hold another code.

    >>> find_unknown_languages("Czech, Chinese (Traditional), Cebuano (ceb), Germn")
    [('Germn', 'German')]
    """
    shielded = _BRACKETS.sub(lambda found: _SEPARATOR.sub(" ", found.group(0)), text)
    return [
        (name, _guess_language(name))
        for name in (part.strip() for part in _SEPARATOR.split(shielded))
        if name and not _is_language(name)
    ]


def _is_language(name: str) -> bool:
    bare = _BRACKETS.sub("", name).strip().casefold()
    codes = [inside.strip() for inside in _BRACKETS.findall(name)]
    return bare in _codes_by_name() or (bool(bare) and any(re.fullmatch("[a-z]{3}", code) for code in codes))


def _guess_language(name: str) -> str | None:
    if name.casefold() in languages_by_code():
        return languages_by_code()[name.casefold()][0]
    return closest(name, (names for all_names in languages_by_code().values() for names in all_names))


def find_language_pair(name: str) -> tuple[str, str] | None:
    """Return the languages of a pair of codes in a data set's name, where it holds exactly one.

    >>> find_language_pair("wmt24-esa-en-cs-waves23"), find_language_pair("summeval"), find_language_pair("wmt23/en-de")
    (('English', 'Czech'), None, ('English', 'German'))
    >>> find_language_pair("wmt22-da-de-en") is None  # Danish to German, or German to English judged by DA?
    True
    """
    codes = re.findall(r"(?<![a-zA-Z])(?=([a-z]{2})-([a-z]{2})(?![a-zA-Z]))", name)
    pairs = {(a, b) for a, b in codes if a in languages_by_code() and b in languages_by_code() and a != b}
    if len(pairs) != 1:
        return None
    ((source, target),) = pairs
    return languages_by_code()[source][0], languages_by_code()[target][0]


# -- What a text answer must look like, form by form: each rule returns what is wrong and what to do, or None --------


Fault = tuple[str, str]
"""What is wrong, and what to do."""

_LINK = re.compile(r"https?://\S|www\.\S|\bdoi\b|\b10\.\d{4,}/\S|\barxiv\b|\baclanthology\b|\S\.\w+/\S", re.IGNORECASE)
_WHOLE = re.compile(r"(\d+)\s*(\([^()]*\))?\.?", re.DOTALL)
_YES_NO = re.compile(r"(yes|no)\b[\s.,:;–—-]*(.*)", re.IGNORECASE | re.DOTALL)


def match_special_value(question: SheetQuestion, text: str) -> str | None:
    """Return the special value (N/A, No, ...) that a text is, whatever its case and a full stop behind it.

    >>> from aliquot.report.datasheet.questions import load_questions
    >>> match_special_value(load_questions()["2.4"], " n/a. "), match_special_value(load_questions()["2.4"], "English")
    ('N/A', None)
    """
    bare = text.strip().rstrip(".").strip("'\"‘’").casefold()
    return next((value for value in question.special if value.casefold() == bare), None)


def is_not_applicable(text: str) -> bool:
    """Return whether a text says N/A.

    >>> is_not_applicable("n/a"), is_not_applicable("none")
    (True, False)
    """
    return text.strip().rstrip(".").casefold() in ("n/a", "na", "not applicable")


def parse_whole_number(text: str) -> int | None:
    """Return the whole number that a text is, brackets behind it allowed, or None.

    >>> parse_whole_number("460 (refA: 120)"), parse_whole_number("about 460"), parse_whole_number("-3")
    (460, None, None)
    """
    match = _WHOLE.fullmatch(text.strip())
    return int(match.group(1)) if match and match.group(1).isascii() else None


def find_fault(question: SheetQuestion, text: str) -> Fault | None:
    """Return what is wrong with a text that answers this question, or None.

    >>> from aliquot.report.datasheet.questions import load_questions
    >>> find_fault(load_questions()["3.2.1"], "a dozen")
    ("'a dozen' is not a whole number", 'write a whole number of 1 or more; remarks may follow in brackets')
    """
    if match_special_value(question, text) is not None or not question.form:
        return None
    return _FORMS[question.form](text.strip())


def _check_integer(text: str) -> Fault | None:
    number = parse_whole_number(text)
    if number is None or number < 1:
        return f"'{_shorten_text(text)}' is not a whole number" + (" of 1 or more" if number == 0 else ""), (
            "write a whole number of 1 or more; remarks may follow in brackets"
        )
    return None


def _check_link(text: str) -> Fault | None:
    if _LINK.search(text):
        return None
    return "there is no link in it", "add a web address or a DOI, or the word that HEDS has for this case"


def _check_contact(text: str) -> Fault | None:
    if re.search(r"\S+\s?(@|\[at\]|\(at\))\s?\S+", text):
        return None
    return "there is no e-mail address in it", "add name, affiliation and e-mail address"


def _check_languages(text: str) -> Fault | None:
    unknown = find_unknown_languages(text)
    if not unknown:
        return None
    names = ", ".join(f"'{name}'" + (f" (did you mean '{guess}'?)" if guess else "") for name, guess in unknown)
    return f"not a full language name of ISO 639-1: {names}", (
        "write full English names; a language outside ISO 639-1 with its three-letter code: Cebuano (ceb)"
    )


def _check_yes_no(text: str) -> Fault | None:
    match = _YES_NO.fullmatch(text)
    if match is None:
        return "it begins with neither Yes nor No", "write No, or Yes with the registry and a link"
    if match.group(1).casefold() == "yes" and not match.group(2).strip():
        return "Yes, but not where", "add the name of the registry and a link"
    return None


def _check_power(text: str) -> Fault | None:
    if re.search(r"\d", text):
        return None
    return "there is no number in it", "give the power and the program that computed it (`aliquot plan` does)"


def _check_size(text: str) -> Fault | None:
    if parse_whole_number(text):
        return None
    return (
        f"'{_shorten_text(text)}' is no size",
        "write a whole number, 'continuous', or N/A without a rating instrument",
    )


def _check_values(_text: str) -> Fault | None:
    return None  # what it must be depends on 4.3.3, see checking


def _shorten_text(text: str, width: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


_FORMS: Mapping[str, Callable[[str], Fault | None]] = {
    "integer": _check_integer,
    "link": _check_link,
    "contact": _check_contact,
    "languages": _check_languages,
    "yes_no": _check_yes_no,
    "power": _check_power,
    "size": _check_size,
    "values": _check_values,
}

ADVICE = frozenset({"power"})
"""Forms that HEDS recommends; a sheet is complete without them."""
