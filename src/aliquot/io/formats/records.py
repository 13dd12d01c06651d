"""Records that tools export as JSON, JSON lines, CSV or Parquet, and the texts of a program's inputs and outputs.

A kind of record is a msgspec Struct whose fields are `Any` and optional: fields of other names are skipped, and a value
of an unexpected type is the reader's to refuse or to leave out.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aliquot.errors import AliquotWarning, FormatError, quoted
from aliquot.io.files import decode_text, first_character, number_lines
from aliquot.io.formats.samples import LogFile, read_messages, read_text
from aliquot.io.formats.table_files import PARQUET_MAGIC, parse_csv, read_frame

Record = TypeVar("Record", bound=msgspec.Struct)
Decoded = TypeVar("Decoded")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER_KEYS = (b'"traceId"', b'"dataType"', b'"projectId"', b'"feedback_source.type"')
"""Keys of files whose fields have other spellings than the tools' own exports."""
_JSON_STARTS = ("{", "[", '"')
_ROLES = {"human": "user", "ai": "assistant", "HumanMessage": "user", "AIMessage": "assistant"}
_REPLY_FIELDS = ("output", "answer", "response", "text", "content", "result", "completion")
_JSON_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)
API_REMEDY = "they are metrics; where people gave them, name one as the human score (human=NAME)"
_SEVERAL = 3  # names that a note lists
_REMEDY = "export the file again, or remove the record"


@cache
def to_snake_case(name: str) -> str:
    """Return a field's name in the spelling of files: APIs write `traceId` for `trace_id`.

    >>> to_snake_case("parentObservationId"), to_snake_case("feedback_source.type")
    ('parent_observation_id', 'feedback_source_type')
    """
    return _CAPITAL.sub("_", name).lower().replace(".", "_")


def read_records(file: LogFile, kind: type[Record]) -> list[Record]:
    """Read the records of a file: JSON (an array, or an API's `data`), JSON lines, CSV, TSV or Parquet."""
    raw, path = file.read(), file.path
    if raw.startswith(PARQUET_MAGIC):
        return convert_rows(read_frame(raw, path).to_dicts(), kind)
    if first_character(raw) not in (b"{", b"["):
        return convert_rows(parse_csv(decode_text(raw, path), path).to_dicts(), kind)
    if any(key in raw for key in _OTHER_KEYS):
        return convert_rows(decode_records(raw, path, dict[str, Any]), kind)
    return decode_records(raw, path, kind)


def convert_rows(rows: list[dict[str, Any]], kind: type[Record]) -> list[Record]:
    """Return rows as records, whichever spelling their fields have."""
    return [msgspec.convert({to_snake_case(name): value for name, value in row.items()}, kind) for row in rows]


class _Page(msgspec.Struct):
    """An answer of an API: its records."""

    data: msgspec.Raw = msgspec.Raw(b"")
    runs: msgspec.Raw = msgspec.Raw(b"")


_PAGE = msgspec.json.Decoder(_Page)


def decode_records(raw: bytes, path: Path | str, kind: type[Decoded]) -> list[Decoded]:
    r"""Decode JSON lines, an array, or an object that holds an array as `data` or `runs`.

    >>> decode_records(b'{"a": 1}\n{"a": 2}\n', "x.jsonl", dict)
    [{'a': 1}, {'a': 2}]
    """
    decoder = msgspec.json.Decoder(kind)
    if first_character(raw) == b"{":
        try:
            page = _PAGE.decode(raw)
        except _JSON_ERRORS:
            try:
                return decoder.decode_lines(raw)
            except _JSON_ERRORS:
                return [decode_typed(decoder, line, where, _REMEDY) for where, line in number_lines(raw, path)]
        inside = bytes(page.data) or bytes(page.runs)
        if not inside.startswith(b"["):
            return [decode_typed(decoder, raw, str(path), _REMEDY)]
        raw = inside
    return decode_typed(msgspec.json.Decoder(list[kind]), raw, str(path), _REMEDY)  # type: ignore[valid-type]


def decode_typed(decoder: msgspec.json.Decoder[Decoded], raw: bytes | msgspec.Raw, where: str, remedy: str) -> Decoded:
    """Decode JSON as Python writes it, where NaN and infinity become null; raise FormatError if it is not valid."""
    try:
        try:
            return decoder.decode(raw)
        except msgspec.DecodeError:
            text = bytes(raw)
            if b"NaN" not in text and b"Infinity" not in text:
                raise
            plain = json.loads(text, parse_constant=lambda _: None)
            return decoder.decode(msgspec.json.encode(plain))
    except RecursionError:
        raise FormatError(f"{where}: nested too deeply to be JSON of aliquot; {remedy}") from None
    except msgspec.ValidationError as error:
        raise FormatError(f"{where}: not as the tool writes it ({error}); {remedy}") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise FormatError(f"{where}: not valid JSON ({error}); {remedy}") from None


# -- values --------------------------------------------------------------------------------------------------------


def read_id(value: object) -> str | None:
    """Return an id as text; None for an empty or unusable one.

    >>> read_id("a"), read_id(7), read_id(""), read_id([1])
    ('a', '7', None, None)
    """
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def read_object(value: object) -> Mapping[str, Any]:
    """Return an object, which tables hold as JSON text; empty for anything else."""
    value = _decode_text(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else {}


def read_seconds(start: object, end: object) -> float | None:
    """Return the seconds between two times: ISO texts or datetimes.

    >>> read_seconds("2024-05-29 13:46:19.5", "2024-05-29T13:46:21Z")
    1.5
    """
    first, last = _read_time(start), _read_time(end)
    if first is None or last is None:
        return None
    if (first.tzinfo is None) != (last.tzinfo is None):
        first, last = first.replace(tzinfo=None), last.replace(tzinfo=None)
    return (last - first).total_seconds()


def _read_time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return time if isinstance(time, datetime) else None


def encode_payload(value: object) -> str:
    """Return a payload as text: a string as it is, other values as JSON."""
    try:
        return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    except (*_JSON_ERRORS, TypeError):
        return str(value)


def name_input(value: object) -> str:
    """Return an id for an input: equal for equal inputs, in every export.

    >>> name_input("Why?")
    'input-dee833a37fe2'
    """
    return "input-" + hashlib.blake2b(encode_payload(value).encode(errors="replace"), digest_size=6).hexdigest()


def read_payload(value: object, *, is_reply: bool = False) -> str | None:
    r"""Return a program's input or output as text: a string, a conversation, or an object with one of these.

    Args:
        value: a string, which may hold JSON, or the decoded value.
        is_reply: of a conversation only the last message counts, of an object with several fields the usual one.

    >>> read_payload('{"question": "Why?"}'), read_payload({"answer": "So.", "documents": []}, is_reply=True)
    ('Why?', 'So.')
    >>> read_payload({"messages": [{"type": "human", "content": "Hi"}, {"type": "ai", "content": "Ho"}]}, is_reply=True)
    'Ho'
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if not value.startswith(_JSON_STARTS):
            return value
        if value.startswith("[") and (text := _read_plain_conversation(value, is_reply=is_reply)) is not None:
            return text
    decoded = _decode_text(value)
    text = _read_object_text(decoded, is_reply=is_reply) if isinstance(decoded, dict) else None
    if isinstance(decoded, str):
        text = decoded
    elif isinstance(decoded, list):
        text = _read_conversation(decoded, is_reply=is_reply)
    return text or encode_payload(value)


class _Turn(msgspec.Struct):
    role: str
    content: str


_TURNS = msgspec.json.Decoder(list[_Turn])


def _read_plain_conversation(text: str, *, is_reply: bool) -> str | None:
    """Return what `read_messages` makes of messages that are plain texts, in a third of the time; else None."""
    try:
        turns = [turn for turn in _TURNS.decode(text) if turn.content]
    except _JSON_ERRORS:
        return None
    if is_reply or len(turns) == 1:
        return turns[-1].content if turns else None
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns) or None


def _decode_text(value: object) -> object:
    """Decode a string that is JSON; return other values as they are."""
    if not isinstance(value, str) or not value.startswith(_JSON_STARTS):
        return value
    try:
        return msgspec.json.decode(value)
    except _JSON_ERRORS:
        return value


def _read_object_text(value: Mapping[str, Any], *, is_reply: bool) -> str | None:
    choices, generations = value.get("choices"), value.get("generations")
    if value.keys() == {"args", "kwargs"}:  # of a traced function
        value = _merge_arguments(value["args"], value["kwargs"])
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return _read_conversation([choices[0].get("message")], is_reply=is_reply)
    while isinstance(generations, list) and generations:
        generations = generations[0]
    if isinstance(generations, dict) and isinstance(generations.get("text"), str):
        return generations["text"] or _read_conversation([generations.get("message")], is_reply=is_reply)
    if isinstance(value.get("messages"), list):
        return _read_conversation(value["messages"], is_reply=is_reply)
    if "content" in value and ("role" in value or "type" in value):
        return _read_conversation([value], is_reply=is_reply)
    names = [*value] if len(value) == 1 else _REPLY_FIELDS if is_reply else ()
    for name in names:
        inner = value.get(name)
        text = _read_conversation(inner, is_reply=is_reply) if isinstance(inner, list) else inner
        if isinstance(text, str):
            return text
        if isinstance(inner, dict) and "content" in inner:
            return _read_conversation([inner], is_reply=is_reply)
    return None


def _merge_arguments(args: object, kwargs: object) -> Mapping[str, Any]:
    positional = {str(place): value for place, value in enumerate(args)} if isinstance(args, list) else {}
    return {**positional, **kwargs} if isinstance(kwargs, dict) else positional


def _read_conversation(messages: list[Any], *, is_reply: bool) -> str | None:
    """Return messages of OpenAI or LangChain as text; None if these are none."""
    if len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]
    turns = [_read_message(message) for message in messages]
    if not all(turns):
        return None
    return read_messages(turns[-1:] if is_reply else turns)


def _read_message(message: object) -> dict[str, Any] | None:
    if not isinstance(message, dict):
        return None
    inner = next((m for m in (message.get("kwargs"), message.get("data")) if isinstance(m, dict)), message)
    if "content" not in inner:
        return None
    kind, name = message.get("type"), message.get("id")
    if kind == "constructor":  # LangChain's serialization names the class
        kind = inner.get("type") or (name[-1] if isinstance(name, list) and name else None)
    role = message.get("role") or inner.get("role") or (_ROLES.get(kind, kind) if isinstance(kind, str) else None)
    return {"role": role, "content": read_text(inner.get("content"))}


def warn_names(what: str, names: Iterable[object], why: str) -> None:
    """Warn of scores, if there are any, by the most frequent names among them."""
    if counts := Counter(map(str, names)):
        listed = quoted([name for name, _ in counts.most_common()], _SEVERAL)
        warnings.warn(f"{what} ({listed}): {why}", AliquotWarning, 3)
