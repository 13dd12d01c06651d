"""Arena-like tables of preferences: a row for each battle of two models, who won it, and perhaps the conversations.

| columns | what they become |
|---|---|
| id (or question_id), turn where a question has several | the item |
| model_a, model_b | systems |
| winner: model_a, model_b, tie, both_bad; or winner_model_a, winner_model_b, winner_tie | two judgments: 1, 0 or 0.5 |
| conversation_a, conversation_b; or prompt, response_a, response_b | source (user turns), outputs (last answers) |
| language | domain |
| evaluation_session_id, evaluation_order | document, position |
| judge, user, ...; timestamp | annotator, time |
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import polars as pl

from aliquot.core.columns import encode_column, encode_series, ordered_union
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import AliquotWarning, FormatError, closest, quoted
from aliquot.io.files import first_character
from aliquot.io.formats.choice_labels import SIDE_OF_LABEL
from aliquot.io.formats.records import decode_records
from aliquot.io.formats.samples import read_text
from aliquot.io.formats.table_columns import SYNONYMS, parse_ids, parse_names
from aliquot.io.formats.table_files import read_frame
from aliquot.io.formats.tables import add_criterion_scores
from aliquot.stats.arrays import IntArray

MAX_CELLS = 20_000_000
"""Items x systems up to which outputs are read: a table of texts has a cell of 16 bytes for each, mostly empty."""
BOTH_BAD = "both_bad"
_MODELS = ("model_a", "model_b")
_WINNERS: Mapping[str, str] = MappingProxyType({"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"})
_CONVERSATIONS, _RESPONSES = ("conversation_a", "conversation_b"), ("response_a", "response_b")
_TEXTS = (*_CONVERSATIONS, *_RESPONSES, "prompt")
_ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "item": ("id", "question_id", *SYNONYMS["item"]),
        "annotator": (*SYNONYMS["annotator"], "judge_hash", "user_hash"),
        "system_a": ("model_a",),
        "system_b": ("model_b",),
        "choice": ("winner",),
        "document": ("evaluation_session_id", *SYNONYMS["document"]),
        "position": ("evaluation_order", *SYNONYMS["position"]),
        "domain": ("language", *SYNONYMS["domain"]),
        "time": ("timestamp", "tstamp", *SYNONYMS["time"]),
    }
)
_VALUES = MappingProxyType({"won": 1.0, "lost": 0.0, "tie": 0.5, BOTH_BAD: 0.5})
_NO_COMMA = re.compile(r"\}\s*\n\s*\{")  # how numpy prints an array of messages


@dataclass(frozen=True)
class _Battles:
    """The flat columns of a table of battles, and its texts as they stand in the file."""

    flat: pl.DataFrame
    texts: Mapping[str, Sequence[Any]]
    where: str


def looks_like(columns: Collection[str]) -> bool:
    """Return whether a table or record with these columns holds battles.

    >>> looks_like(["id", "model_a", "model_b", "winner"]), looks_like(["model_a", "model_b", "score"])
    (True, False)
    """
    names = set(columns)
    return names.issuperset(_MODELS) and ("winner" in names or names.issuperset(_WINNERS))


def read(raw: bytes, path: Path | str) -> EvalSet:
    """Read a table of battles from Parquet, CSV, Excel, JSON lines or a JSON array."""
    return _build_evalset(_read_battles(raw, path))


def from_table(table: pl.DataFrame, where: str) -> EvalSet:
    """Build an EvalSet from a table of battles."""
    return _build_evalset(_split_table(table, where))


def read_table(raw: bytes, path: Path | str) -> pl.DataFrame:
    """Read a table of battles with its own columns; of JSON those that are flat."""
    return _read_records(raw, path).flat if first_character(raw) in (b"{", b"[") else read_frame(raw, path)


def to_choices(table: pl.DataFrame, where: str) -> pl.DataFrame:
    """Return the choices of a table of battles, without texts.

    >>> table = pl.DataFrame({"id": [7], "model_a": ["X"], "model_b": ["Y"], "winner": ["tie"], "language": ["en"]})
    >>> to_choices(table, "t.csv").columns
    ['item', 'system_a', 'system_b', 'choice', 'domain']
    """
    flat = [name for name in table.columns if name not in _TEXTS and not table[name].dtype.is_nested()]
    return _name_roles(_Battles(table.select(flat), {}, where))


# -- rows ----------------------------------------------------------------------------------------------------------


def _read_battles(raw: bytes, path: Path | str) -> _Battles:
    is_json = first_character(raw) in (b"{", b"[")
    return _read_records(raw, path) if is_json else _split_table(read_frame(raw, path), str(path))


def _read_records(raw: bytes, path: Path | str) -> _Battles:
    records = decode_records(raw, path, dict[str, Any])
    columns = {name: [record.get(name) for record in records] for name in ordered_union(records)}
    texts = {name: columns.pop(name) for name in _TEXTS if name in columns}
    nested = [name for name, values in columns.items() if any(isinstance(value, (dict, list)) for value in values)]
    flat = [encode_column(name, values) for name, values in columns.items() if name not in nested]
    return _Battles(pl.DataFrame([c for c in flat if not c.dtype.is_nested()]), texts, str(path))


def _split_table(table: pl.DataFrame, where: str) -> _Battles:
    table = table.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    flat = [name for name in table.columns if name not in _TEXTS and not table[name].dtype.is_nested()]
    texts = {name: table[name].to_list() for name in _TEXTS if name in table.columns}
    return _Battles(table.select(flat), texts, where)


def _name_roles(battles: _Battles) -> pl.DataFrame:
    """Return item, annotator, system_a, system_b, choice and further columns, under these names."""
    table, where = battles.flat, battles.where
    if not table.height:
        raise FormatError(f"{where}: the table has a header but no rows; there is nothing to read")
    for name in _MODELS:
        if name not in table.columns:
            raise FormatError(f"{where}: the column '{name}' holds lists or objects; it should hold names of models")
    if "winner" not in table.columns:
        table = table.with_columns(_join_winners(table, where).alias("winner")).drop(_WINNERS)
    own = {role: next((n for n in names if n in table.columns), None) for role, names in _ROLES.items()}
    roles = {column: role for role, column in own.items() if column is not None}
    others = [name for name in table.columns if name not in roles]
    clash = {name: f"{name}_" for name in others if name in _ROLES}
    table = table.select(*roles, *others).rename(roles | clash)
    if "item" not in table.columns:
        return table.with_row_index("item").with_columns(pl.col("item").cast(pl.Int64))
    ids = parse_ids(table["item"], where)
    if "turn" in table.columns and not ids.is_unique().all() and table["turn"].n_unique() > 1:
        ids = pl.select(pl.format("{}#{}", ids, table["turn"])).to_series()  # a vote on each turn of a question
    return table.with_columns(ids.alias("item"))


def _join_winners(table: pl.DataFrame, where: str) -> pl.Series:
    """Return one column of sides for the three columns of 0 and 1."""
    marks = [table[name].cast(pl.String).str.to_lowercase().is_in(["1", "1.0", "true"]) for name in _WINNERS]
    several = pl.select(pl.sum_horizontal(marks)).to_series() > 1
    if several.any():
        row = int(several.arg_max() or 0) + 1
        raise FormatError(f"{where} row {row}: more than one of {quoted(_WINNERS)} is 1; keep one")
    sides = zip(_WINNERS.values(), marks, strict=True)
    return pl.select(pl.coalesce(pl.when(mark).then(pl.lit(side)) for side, mark in sides)).to_series()


# -- an EvalSet of them --------------------------------------------------------------------------------------------


def _build_evalset(battles: _Battles) -> EvalSet:
    table, where = _name_roles(battles), battles.where
    first, second = (parse_names(table[name], where) for name in ("system_a", "system_b"))
    systems = pl.concat([first.alias("system"), second.alias("system")]).unique(maintain_order=True)
    is_first = table["item"].is_first_distinct()
    rows, items = encode_series(table["item"]), table.filter(is_first)
    outputs = None
    if len(items) * len(systems) > MAX_CELLS and battles.texts:
        warnings.warn(
            f"{where}: {len(items)} items x {len(systems)} systems are too many for a table of outputs: choices only; "
            "keep fewer battles or models to read the texts",
            AliquotWarning,
            3,
        )
    elif battles.texts:
        sources, *texts = _read_texts(battles, table)
        items = items.with_columns(pl.Series("source", sources, dtype=pl.String).filter(is_first))
        columns = [encode_series(pl.concat([systems, names]))[len(systems) :] for names in (first, second)]
        outputs = _place_outputs(np.concatenate([rows, rows]), np.concatenate(columns), texts, len(items), systems)
    judged = _build_judgments(table, first, second, where)
    evalset = EvalSet(
        items=_build_items(items),
        systems=tuple(systems.to_list()),
        outputs=outputs,
        judgments=Judgments(judged),
        name=Path(where).name.split(".")[0],
    )
    return add_criterion_scores(evalset) if judged["value"].count() else evalset


def _build_items(table: pl.DataFrame) -> pl.DataFrame:
    left_out = ("system_a", "system_b", "choice", "annotator", "time")
    named = table.drop(left_out, strict=False).rename({"item": "id"} | ({"id": "id_"} if "id" in table.columns else {}))
    casts = {"document": pl.String, "domain": pl.String, "position": pl.Int64}
    return named.with_columns(pl.col(name).cast(casts[name], strict=False) for name in casts if name in named.columns)


def _build_judgments(table: pl.DataFrame, first: pl.Series, second: pl.Series, where: str) -> pl.DataFrame:
    """Return two judgments for each battle, the model's own result and its value."""
    sides = _read_sides(table["choice"], first, second, where)
    kept = [name for name in ("item", "annotator", "time") if name in table.columns]
    parts = []
    for system, own, other in ((first, "a", "b"), (second, "b", "a")):
        results = {own: "won", other: "lost", "tie": "tie", "both": "tie", "none": BOTH_BAD}
        choice = sides.replace_strict(results, default=None, return_dtype=pl.String).alias("choice")
        value = choice.replace_strict(_VALUES, default=None, return_dtype=pl.Float64).alias("value")
        parts.append(table.select(kept).with_columns(system.alias("system"), value, choice).with_row_index("row"))
    both = pl.concat(parts).sort("row", maintain_order=True).drop("row")
    if "annotator" in both.columns:
        both = both.with_columns(pl.col("annotator").cast(pl.String))
    return both.with_columns(pl.lit("preference").alias("criterion"))


def _read_sides(choice: pl.Series, first: pl.Series, second: pl.Series, where: str) -> pl.Series:
    """Return a, b, tie, both, none or null; raise FormatError for another winner, with its row."""
    texts = choice.cast(pl.String).str.strip_chars()
    is_named = {"a": texts == first, "b": texts == second}
    by_label = texts.str.to_lowercase().replace_strict(SIDE_OF_LABEL, default=None, return_dtype=pl.String)
    by_name = [pl.when(mask).then(pl.lit(side)) for side, mask in is_named.items()]
    sides = pl.select(pl.coalesce(*by_name, by_label)).to_series()
    unknown = sides.is_null() & texts.is_not_null() & (texts != "")
    if unknown.any():
        row = int(unknown.arg_max() or 0)
        labels = ("model_a", "model_b", "tie", BOTH_BAD)
        guess = closest(texts[row], labels)
        hint = f"did you mean '{guess}'? Write" if guess else "write"
        raise FormatError(f"{where} row {row + 1}: unknown winner '{texts[row]}'; {hint} {quoted(labels)}, or nothing")
    same = first == second
    if same.any():
        row = int(same.arg_max() or 0)
        raise FormatError(
            f"{where} row {row + 1}: the model '{first[row]}' is compared with itself; correct or remove the row"
        )
    return sides


def _place_outputs(
    rows: IntArray, columns: IntArray, texts: Sequence[Sequence[str | None]], n: int, systems: pl.Series
) -> pl.DataFrame | None:
    """Return a table with a column of texts for each system; of several texts of one cell the first counts."""
    values = pl.Series([*texts[0], *texts[1], None], dtype=pl.String)
    if not values.count():
        return None
    written = np.flatnonzero(values.is_not_null().to_numpy())[::-1]  # the first one is placed last
    places = np.full((len(systems), n), len(values) - 1, dtype=np.int64)
    places[columns[written], rows[written]] = written
    return pl.DataFrame([values.gather(place).alias(system) for place, system in zip(places, systems, strict=True)])


# -- texts ---------------------------------------------------------------------------------------------------------


def _read_texts(battles: _Battles, table: pl.DataFrame) -> Iterator[list[str | None]]:
    """Yield the sources, the outputs of model_a, and those of model_b."""
    n, texts = table.height, battles.texts
    empty: list[Any] = [None] * n
    if not any(name in texts for name in _CONVERSATIONS):
        yield [_join_turns(_parse_list(cell)) for cell in texts.get("prompt", empty)]
        for name in _RESPONSES:
            parsed = [_parse_list(cell) for cell in texts.get(name, empty)]
            yield [read_text(turns[-1]) if isinstance(turns, list) and turns else read_text(turns) for turns in parsed]
        return
    turns = [None] * n
    if "turn" in table.columns:
        turns = table["turn"].cast(pl.Int64, strict=False).to_list()
    sides = [
        [
            _read_conversation(cell, turn, f"{battles.where} row {row}: the column '{name}'")
            for row, (cell, turn) in enumerate(zip(texts.get(name, empty), turns, strict=True), start=1)
        ]
        for name in _CONVERSATIONS
    ]
    yield [a[0] if a[0] is not None else b[0] for a, b in zip(*sides, strict=True)]
    for side in sides:
        yield [output for _, output in side]


def _read_conversation(cell: Any, turn: int | None, where: str) -> tuple[str | None, str | None]:
    """Return the user's turns and what the assistant says after the last one; `turn` is the last one that counts."""
    messages = _parse_list(cell)
    if messages is None:
        return None, None
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise FormatError(f"{where} is no list of messages with role and content: '{str(messages)[:40]}'; correct it")
    asked: list[str] = []
    answers: list[str] = []
    for message in messages:
        role, text = message.get("role"), read_text(message.get("content"))
        if role == "user":
            if turn is not None and 0 < turn <= len(asked):
                break
            asked.append(text or "")
            answers = []
        elif role == "assistant" and text:
            answers.append(text)
    return _join_turns(asked), _join_turns(answers)


def _join_turns(turns: Any) -> str | None:
    if not isinstance(turns, list):
        return read_text(turns)
    return "\n\n".join(text for turn in turns if (text := read_text(turn))) or None


def _parse_list(cell: Any) -> Any:
    """Return the value of a list that is written as JSON or by Python; anything else as it is."""
    if not isinstance(cell, str) or cell.lstrip()[:1] != "[":
        return cell or None
    try:
        return msgspec.json.decode(cell)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        return ast.literal_eval(_NO_COMMA.sub("}, {", cell.strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return cell
