"""Human evaluation of WMT25 and later: JSON lines, one for each segment, with the annotators' answers on each system.

{"src_text": ..., "tgt_text": {"refA": ..., "SysA": ...}, "doc_id": "en-cs_CZ_#_news_#_document_#_0",
 "scores": {"SysA": {"human": 80.0, "errors": [{"start_i": 0, "end_i": 3, "severity": "minor"}], "annotator": "a1"}}}

Where several annotators judged, fields are numbered (human1, annotator1, errors1, times1, human2, ...), or a system has
a list of such objects. The character at `end_i` belongs to the error. A `doc_id` without the number of the segment
stands on several lines, which are numbered here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from aliquot.core.columns import ScoreCells, TextCells, frame_from_records
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError, OptionError, quoted, unknown_name
from aliquot.io.files import first_character
from aliquot.io.formats.answers import parse_number, read_spans, require_type
from aliquot.io.formats.records import decode_records
from aliquot.io.formats.samples import read_score
from aliquot.io.formats.tables import add_criterion_scores

_SEPARATOR = "_#_"
_REMEDY = "download the file again"
_FIELDS = ("src_text", "tgt_text", "doc_id", "scores")
_REFERENCE = re.compile(r"ref[A-Z]?")
_ANSWER = re.compile(r"(?:human|score|errors|annotator|times)(\d*)")


@dataclass(frozen=True, slots=True)
class _Segment:
    """One line: the parts of its `doc_id`, its texts, and the entries of each system."""

    where: str
    id: str
    pair: str
    domain: str | None
    document: str
    position: int
    source: str | None
    texts: Mapping[str, str | None]
    entries: Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Record:
    """One line as it is decoded."""

    where: str
    name: str
    pair: str
    fields: Mapping[str, Any]


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a segment of WMT's human evaluation."""
    return fields.keys() >= set(_FIELDS)


def read(raw: bytes, path: Path | str, pair: str | None = None) -> EvalSet:
    """Read one language pair; it must be named where the file holds several."""
    segments = list(_read_segments(_choose_pair(_read_records(raw, path), pair, path)))
    scored = {system for segment in segments for system in segment.entries}
    references = sorted({name for segment in segments for name in segment.texts if _REFERENCE.fullmatch(name)})
    scores, texts = ScoreCells(), TextCells()
    judged: list[dict[str, Any]] = []
    for row, segment in enumerate(segments):
        own = {name: text for name, text in segment.texts.items() if name in scored or name not in references}
        texts.add(row, own)
        scores.add(row, dict.fromkeys(own) | dict(_list_metrics(segment)))
        judged += _list_judgments(segment)
    systems = list(scores.systems)
    if not systems:
        raise FormatError(f"{path}: no segment has a system in tgt_text or scores; {_REMEDY}")
    evalset = EvalSet(
        items=_build_items(segments, references),
        systems=tuple(systems),
        scores=scores.to_arrays(len(segments), systems),
        outputs=texts.to_frame(len(segments), systems),
        judgments=Judgments(frame_from_records(judged)) if judged else None,
        name=f"{Path(path).name.split('.')[0]}/{segments[0].pair}",
    )
    return add_criterion_scores(evalset) if any(row["value"] is not None for row in judged) else evalset


def _choose_pair(records: Sequence[_Record], pair: str | None, path: Path | str) -> list[_Record]:
    """Return the records of a pair, which may be named without its region: en-cs for en-cs_CZ."""
    pairs = sorted({record.pair for record in records})
    if pair is None and len(pairs) > 1:
        raise OptionError(f"{path}: holds {len(pairs)} language pairs ({quoted(pairs)}); choose one with `pair`")
    chosen = pairs if pair is None else [p for p in pairs if p == pair] or [p for p in pairs if _drop_region(p) == pair]
    if len(chosen) != 1:
        raise unknown_name("language pair", pair, pairs)
    return [record for record in records if record.pair == chosen[0]]


def _drop_region(pair: str) -> str:
    """Return a pair without the region of its target language.

    >>> _drop_region("en-cs_CZ"), _drop_region("en-sr_Cyrl_RS")
    ('en-cs', 'en-sr')
    """
    return pair.partition("_")[0]


# -- segments ------------------------------------------------------------------------------------------------------


def _read_records(raw: bytes, path: Path | str) -> list[_Record]:
    what = "record" if first_character(raw) == b"[" else "line"
    records = []
    for number, fields in enumerate(decode_records(raw, path, dict[str, Any]), start=1):
        where = f"{path} {what} {number}"
        lacking = next((name for name in _FIELDS if name not in fields), None)
        if lacking is not None:
            raise FormatError(f"{where}: it has no '{lacking}'; each line needs {', '.join(_FIELDS)}")
        name = require_type(fields["doc_id"], str, f"{where}, doc_id", "a text")
        if _SEPARATOR not in name:
            raise FormatError(
                f"{where}: the doc_id '{name[:60]}' has no '{_SEPARATOR}'; it is PAIR_#_DOMAIN_#_DOCUMENT"
            )
        records.append(_Record(where, name, name.partition(_SEPARATOR)[0], fields))
    if not records:
        raise FormatError(f"{path}: it holds no segments; {_REMEDY}")
    return records


def _read_segments(records: Sequence[_Record]) -> Iterator[_Segment]:
    lines = Counter(record.name for record in records)
    numbers: Counter[str] = Counter()
    for record in records:
        name, where, fields = record.name, record.where, record.fields
        domain, document, segment = _split_id(name)
        number = numbers[name]
        numbers[name] += 1
        is_whole = segment is not None and lines[name] == 1
        yield _Segment(
            where=where,
            id=name if is_whole else f"{name}{_SEPARATOR}{number}",
            pair=record.pair,
            domain=domain,
            document=document,
            position=int(segment) if is_whole and segment is not None else number,
            source=_read_optional_text(fields["src_text"], f"{where}, src_text"),
            texts=_read_texts(fields["tgt_text"], where),
            entries=_read_entries(fields["scores"], where),
        )


def _split_id(name: str) -> tuple[str | None, str, str | None]:
    """Return domain, document, and the number of the segment if it is there.

    >>> _split_id("en-cs_CZ_#_news_#_paper_#_3"), _split_id("en-cs_CZ_#_news_#_paper")
    (('news', 'paper', '3'), ('news', 'paper', None))
    """
    rest = name.split(_SEPARATOR)[1:]
    segment = rest.pop() if len(rest) > 2 and rest[-1].isdecimal() and len(rest[-1]) < 10 else None
    domain = rest[0] if len(rest) > 1 else None
    return domain, _SEPARATOR.join(rest[1:] or rest), segment


def _read_optional_text(value: Any, where: str) -> str | None:
    return None if value is None else str(require_type(value, str, where, "a text"))


def _read_texts(value: Any, where: str) -> dict[str, str | None]:
    texts = require_type({} if value is None else value, dict, f"{where}, tgt_text", "an object: system -> text")
    return {system: _read_optional_text(text, f"{where}, tgt_text of '{system}'") for system, text in texts.items()}


def _read_entries(value: Any, where: str) -> dict[str, list[dict[str, Any]]]:
    by_system = require_type({} if value is None else value, dict, f"{where}, scores", "an object: system -> scores")
    entries = {}
    for system, several in by_system.items():
        place = f"{where}, scores of '{system}'"
        each = several if isinstance(several, list) else [] if several is None else [several]
        entries[system] = [require_type(entry, dict, place, "an object with human and errors") for entry in each]
    return entries


def _build_items(segments: Sequence[_Segment], references: Iterable[str]) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {
        "id": [segment.id for segment in segments],
        "source": [segment.source for segment in segments],
    }
    for number, name in enumerate(references):
        texts = [segment.texts.get(name) for segment in segments]
        columns["reference" if number == 0 else f"reference_{name}"] = texts
    columns |= {name: [getattr(segment, name) for segment in segments] for name in ("document", "position", "domain")}
    types = {name: pl.Int64 if name == "position" else pl.String for name in columns}
    return pl.DataFrame(columns, schema=types)


# -- answers and metrics -------------------------------------------------------------------------------------------


def _list_metrics(segment: _Segment) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield each system's numbers that are not an annotator's answer."""
    for system, entries in segment.entries.items():
        numbers = {name: read_score(entry[name]) for entry in entries for name in _sort_names(tuple(entry))[1]}
        yield system, {name: value for name, value in numbers.items() if value is not None}


@lru_cache(maxsize=1000)
def _sort_names(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rounds of answers that fields belong to, and the fields that belong to none.

    >>> _sort_names(("human1", "errors1", "human2", "chrF"))
    (('1', '2'), ('chrF',))
    """
    matches = {name: _ANSWER.fullmatch(name) for name in names}
    rounds = dict.fromkeys(match[1] for match in matches.values() if match is not None)
    return tuple(rounds), tuple(name for name, match in matches.items() if match is None)


def _list_judgments(segment: _Segment) -> Iterator[dict[str, Any]]:
    for system, entries in segment.entries.items():
        text, where = segment.texts.get(system), f"{segment.where}, scores of '{system}'"
        for entry in entries:
            for number in _sort_names(tuple(entry))[0]:
                answer = _read_answer(entry, number, text, where)
                if answer["value"] is not None or answer.get("spans"):
                    yield {"item": segment.id, "system": system} | answer


def _read_answer(entry: Mapping[str, Any], number: str, text: str | None, where: str) -> dict[str, Any]:
    """Return one annotator's value, spans and time; `number` is the round that the fields' names end in."""
    name = f"human{number}" if f"human{number}" in entry else f"score{number}"
    value, annotator = parse_number(entry.get(name)), entry.get(f"annotator{number}")
    if value is None and entry.get(name) is not None:
        raise FormatError(f"{where}: {name} is {str(entry[name])[:40]!r}, which is not a number; correct it")
    answer: dict[str, Any] = {"annotator": None if annotator is None else str(annotator), "value": value}
    errors = entry.get(f"errors{number}")
    if errors is not None:
        answer["spans"] = list(read_spans(errors, where, text, inclusive=True)) if errors != [] else []
    times = entry.get(f"times{number}")
    stamps = [parse_number(time) for time in times] if isinstance(times, list) else []
    if len(stamps) == 2 and stamps[0] is not None and stamps[1] is not None:
        answer |= {"seconds": abs(stamps[1] - stamps[0]), "time": max(stamps[0], stamps[1])}
    return answer
