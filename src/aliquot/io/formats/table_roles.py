"""Columns whose role their name leaves open (question, answer, label, category, an `id` of rows): decided by content.

A note names each such decision. Where no reading is plausible, `propose_readings` yields candidates for the user to
confirm.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import polars as pl

from aliquot.core.conventions import is_human_name
from aliquot.errors import AliquotWarning, quoted
from aliquot.io.formats.table_columns import SYNONYMS, fold_name, holds_numbers, parse_flags

_VALUES = ("label", "verdict", "grade", "mark", "correct", "passed", "outcome", "result")
_MAX_ID, _HEX = 60, 6
_MAX_SYSTEMS, _MAX_COLUMNS = 60, 8
_PEOPLE = re.compile(r"\b(rater|annotator|reviewer|evaluator|judge|human|expert|person|assessor)s?\b", re.IGNORECASE)
_METRICS = re.compile(
    r"^(sacre)?(bleu|chrf|comet|cometkiwi|ter|wer|cer|meteor|rouge|bert_?score|bleurt|metricx|gemba|xcomet|f1|accuracy|"
    r"exact_match|perplexity|fluency|adequacy|coherence|consistency|relevance|helpfulness|correctness|style|grammar|"
    r"faithfulness|harmlessness|overall|quality|naturalness)([-_ .0-9+].*)?$",
    re.IGNORECASE,
)
_HINTS = {
    "annotator": r"who|person|people|coder|student|initials|by\b",
    "system": r"engine|model|system|bot|version|llm|candidate|provider|variant",
    "item": r"item|id\b|sentence|segment|prompt|question|example|case|row|nr|no\b",
}


def settle_roles(table: pl.DataFrame, roles: dict[str, str], chosen: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the roles with those that content decides; `chosen` are the user's own, which stay.

    >>> table = pl.DataFrame({"id": [1, 1], "question": ["Who?", "Who?"], "answer": ["I", "You"], "llm": ["A", "B"]})
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     settle_roles(table, {"item": "id", "system": "llm", "criterion": "question"}, {}, "t.csv")
    {'item': 'id', 'system': 'llm', 'source': 'question', 'output': 'answer'}
    """
    names = {fold_name(name): name for name in table.columns if name not in roles.values()}
    roles = dict(roles)
    if "annotator" in roles and fold_name(roles.get("reference", "")) == "expected" and "reference" not in chosen:
        del roles["reference"]  # of controls: the judgment that is expected
    _settle_question(table, roles, chosen, where)
    _settle_items(table, roles, chosen, where)
    if "answer" in names:
        _settle_answer(table, names["answer"], roles, where)
    _settle_value(table, names, roles, where)
    category = names.get("category")
    if category and "domain" not in roles and not {"severity", "errors"} & names.keys():
        keys = _item_keys(table, roles)
        if keys and _is_constant(table, keys, category):
            roles["domain"] = category
    return roles


def _item_keys(table: pl.DataFrame, roles: Mapping[str, str]) -> str | None:
    name = roles.get("item", roles.get("source"))
    return name if name is not None and not table[name].dtype.is_nested() else None


def _is_constant(table: pl.DataFrame, key: str, column: str) -> bool:
    """Return whether a column has one value for each value of the key."""
    if table[column].dtype.is_nested():
        return False
    return table[list({key, column})].unique().height == table[key].n_unique()


def _warn(where: str, text: str) -> None:
    warnings.warn(f"{where}: {text}", AliquotWarning, 5)


def _settle_question(table: pl.DataFrame, roles: dict[str, str], chosen: Mapping[str, str], where: str) -> None:
    """Read `question` as the source, not a criterion, where it differs from item to item."""
    name = roles.get("criterion")
    if name is None or fold_name(name) != "question" or "criterion" in chosen or "source" in roles:
        return
    several, item = table[name].n_unique(), roles.get("item")
    items = table.height if item is None else table[item].n_unique()
    enough = max(2, items / 2) if "annotator" in roles else min(2, items)
    by_item = item is None or (_is_constant(table, item, name) and several >= enough)
    if by_item:
        del roles["criterion"]
        roles["source"] = name
        if "annotator" in roles:
            _warn(where, f"the column '{name}' differs by item and is read as the source, not as criteria")


def _settle_items(table: pl.DataFrame, roles: dict[str, str], chosen: Mapping[str, str], where: str) -> None:
    """Take another column for the items where an `id` numbers the rows; where there is none, the source."""
    system, item = roles.get("system"), roles.get("item")
    if system is None or "item" in chosen:
        return
    if item is None or (table[item].n_unique() == table.height and table[system].n_unique() > 1):
        ids = [n for n in table.columns if fold_name(n) in SYNONYMS["item"] and n != item]
        other = next((n for n in (*ids, roles.get("source")) if n and _identifies_items(table, n, roles)), None)
        if other is not None and (item is not None or other == roles.get("source")):
            reason = "there is no column of ids" if item is None else f"'{item}' numbers the rows"
            _warn(where, f"{reason}: each '{other}' is an item")
            roles["item"] = other


def _identifies_items(table: pl.DataFrame, name: str, roles: Mapping[str, str]) -> bool:
    """Return whether systems share the values of a column, so that it can stand for the items."""
    if table[name].dtype.is_nested() or table[name].null_count():
        return False
    return table[name].n_unique() < table.height or table[roles["system"]].n_unique() == 1


def _settle_answer(table: pl.DataFrame, name: str, roles: dict[str, str], where: str) -> None:
    """Read `answer` as the output, or as the reference where it is the same for all systems."""
    item, system = _item_keys(table, roles), roles.get("system")
    if item is None or ("annotator" in roles and "value" not in roles):
        return  # what annotators answered
    other = f"name it with `columns=%s={name}` if it is"
    if system is None or "output" in roles:
        if "reference" not in roles and _is_constant(table, item, name):
            roles["reference"] = name
            _warn(where, f"the column '{name}' has one text for each item and is read as the reference")
        return
    several = table[[item, system]].unique().height > table[item].n_unique()
    if several and _is_constant(table, item, name) and "reference" not in roles:
        roles["reference"] = name
        _warn(where, f"the column '{name}' has one text for each item and is read as the reference")
        return
    roles["output"] = name
    if not several:
        _warn(where, f"the column '{name}' is read as the output, not as the reference; {other % 'reference'}")


def _settle_value(table: pl.DataFrame, names: Mapping[str, str], roles: dict[str, str], where: str) -> None:
    """Read `label`, `verdict` or `grade` as the score where it holds numbers or words such as pass and fail."""
    if "value" in roles or "system" not in roles:
        return
    open_names = [name for name in table.columns if name not in roles.values()]
    candidates = [names[n] for n in _VALUES if n in names and names[n] in open_names]
    value = next((n for n in candidates if holds_numbers(table[n]) or parse_flags(table[n]) is not None), None)
    if value is None or any(n != value and holds_numbers(table[n]) for n in open_names):
        return
    roles["value"] = value
    left = [n for n in candidates if n != value]
    _warn(where, f"the column '{value}' is read as the score" + (f", not {quoted(left)}" if left else ""))


def build_item_ids(sources: pl.Series) -> pl.Series:
    """Return ids for items that only a text names: the text, or its beginning and a digest if it is long.

    >>> build_item_ids(pl.Series(["Who?", "Why? " * 20])).to_list()
    ['Who?', 'Why? Why? Why? Why? Why? Why? Why? Why? Why? Why?~360f8f']
    """
    texts = {text: _shorten(str(text)) for text in sources.unique().to_list() if text is not None}
    return pl.Series(sources.name, [texts.get(text) for text in sources.to_list()], dtype=pl.String)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _MAX_ID and line == text:
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_HEX // 2).hexdigest()
    return f"{line[:50].strip()}~{digest}"


# -- proposals -----------------------------------------------------------------------------------------------------


def propose_readings(table: pl.DataFrame, roles: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield what `--read` could say about a table that cannot be read by names alone, the most plausible first.

    >>> table = pl.DataFrame({"nr": ["1", "2"], "A": ["3", "4"], "B": ["4", "5"]})
    >>> list(propose_readings(table, {}))[0]
    {'item': 'nr', 'wide': 'systems'}
    """
    free = [name for name in table.columns if name not in roles.values() and not table[name].dtype.is_nested()]
    numbers = [name for name in free if holds_numbers(table[name])]
    scores = [name for name in numbers if name != _first_id(table, roles, free)]
    item = {} if "item" in roles else {"item": name} if (name := _first_id(table, roles, free)) else {}
    if "system" not in roles and len(scores) > 1 and not any(map(looks_like_score, scores)):
        yield {**item, "wide": "systems"}
    yield from _propose_columns(table, roles, free)


def looks_like_score(name: str) -> bool:
    """Return whether a column has the name of a metric, a criterion or a rater, not of a system."""
    return bool(_METRICS.match(name.strip()) or _PEOPLE.search(name.replace("_", " ")) or is_human_name(name))


def _first_id(table: pl.DataFrame, roles: Mapping[str, str], free: Sequence[str]) -> str | None:
    """Return the first column, if its values could be ids: as many as rows, or for every annotator."""
    rows = table.height
    if "item" in roles or not free:
        return None
    people = table[roles["annotator"]].n_unique() if "annotator" in roles else 1
    first = free[0]
    return first if table[first].n_unique() * people >= rows and table[first].null_count() == 0 else None


def _propose_columns(table: pl.DataFrame, roles: Mapping[str, str], free: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield columns for the roles that are missing and whose values together identify the rows."""
    missing = [role for role in ("item", "system") if role not in roles]
    people = ["annotator"] if "annotator" not in roles else []
    value = {} if "value" in roles else _guess_value(table, free)
    present = [roles[r] for r in ("item", "system", "annotator", "metric", "criterion") if r in roles]
    keys = [n for n in free if n not in value.values() and table[n].null_count() == 0][:_MAX_COLUMNS]
    ranked = []
    for wanted in (missing, missing + people):
        for names in permutations(keys, len(wanted)):
            guess = dict(zip(wanted, names, strict=True))
            if not guess or not _is_plausible(table, guess):
                continue
            if table[[*present, *names]].unique().height == table.height:
                hints = sum(bool(re.search(_HINTS[role], name, re.IGNORECASE)) for role, name in guess.items())
                ranked.append((-hints, len(wanted), [keys.index(n) for n in names], guess))
    for _, _, _, guess in sorted(ranked, key=lambda entry: entry[:3]):
        yield {**guess, **value}
    if not missing and value:
        yield value


def _is_plausible(table: pl.DataFrame, guess: Mapping[str, str]) -> bool:
    for role, name in guess.items():
        distinct = table[name].n_unique()
        if role != "item" and not (1 < distinct <= _MAX_SYSTEMS and not holds_numbers(table[name])):
            return False
    return True


def _guess_value(table: pl.DataFrame, free: Sequence[str]) -> dict[str, str]:
    """Return the only column of numbers as the value; several need no role: they are scores by their names."""
    numbers = [name for name in free if holds_numbers(table[name]) and table[name].n_unique() < table.height]
    return {"value": numbers[0]} if len(numbers) == 1 else {}
