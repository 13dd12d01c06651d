"""Human evaluation of WMT25 and later: JSON lines, one for each segment, with what annotators said of each system.

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
from pathlib import Path
from typing import Any

import polars as pl

from aliquot.core.columns import ScoreCells, TextCells, frame_from_records
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError, OptionError, quoted, unknown_name
from aliquot.io.files import decode_json, first_character, number_lines
from aliquot.io.formats.answers import parse_number, read_spans, require_type
from aliquot.io.formats.samples import read_score
from aliquot.io.formats.tables import add_criterion_scores

_SEPARATOR = "_#_"
_REMEDY = "download the file again"
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


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a segment of WMT's human evaluation."""
    return {"src_text", "tgt_text", "doc_id", "scores"} <= fields.keys()


def read(raw: bytes, path: Path | str, pair: str | None = None) -> EvalSet:
    """Read one language pair; it must be named where the file holds several."""
    segments = _choose_pair(list(_read_segments(raw, path)), pair, path)
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


def _choose_pair(segments: Sequence[_Segment], pair: str | None, path: Path | str) -> list[_Segment]:
    """Return the segments of a pair, which may be named without its region: en-cs for en-cs_CZ."""
    pairs = sorted({segment.pair for segment in segments})
    if pair is None and len(pairs) > 1:
        raise OptionError(f"{path}: holds {len(pairs)} language pairs ({quoted(pairs)}); choose one with `pair`")
    chosen = pairs if pair is None else [p for p in pairs if p == pair] or [p for p in pairs if _drop_region(p) == pair]
    if len(chosen) != 1:
        raise unknown_name("language pair", pair, pairs)
    return [segment for segment in segments if segment.pair == chosen[0]]


def _drop_region(pair: str) -> str:
    """Return a pair without the region of its target language.

    >>> _drop_region("en-cs_CZ"), _drop_region("en-sr_Cyrl_RS")
    ('en-cs', 'en-sr')
    """
    return pair.partition("_")[0]


# -- segments ------------------------------------------------------------------------------------------------------


def _read_segments(raw: bytes, path: Path | str) -> Iterator[_Segment]:
    records = [(where, _require_record(record, where)) for where, record in _iterate_records(raw, path)]
    if not records:
        raise FormatError(f"{path}: it holds no segments; {_REMEDY}")
    lines = Counter(record["doc_id"] for _, record in records)
    numbers: Counter[str] = Counter()
    for where, record in records:
        name = record["doc_id"]
        pair, domain, document, segment = _split_id(name, where)
        number = numbers[name]
        numbers[name] += 1
        is_whole = segment is not None and lines[name] == 1
        yield _Segment(
            where=where,
            id=name if is_whole else f"{name}{_SEPARATOR}{number}",
            pair=pair,
            domain=domain,
            document=document,
            position=int(segment) if is_whole and segment is not None else number,
            source=_read_optional_text(record["src_text"], f"{where}, src_text"),
            texts=_read_texts(record["tgt_text"], where),
            entries=_read_entries(record["scores"], where),
        )


def _iterate_records(raw: bytes, path: Path | str) -> Iterator[tuple[str, Any]]:
    if first_character(raw) == b"[":
        for number, record in enumerate(decode_json(raw, str(path), _REMEDY), start=1):
            yield f"{path} record {number}", record
        return
    for where, line in number_lines(raw, path):
        yield where, decode_json(line, where, _REMEDY)


def _require_record(record: Any, where: str) -> dict[str, Any]:
    fields = dict(require_type(record, dict, where, "an object with src_text, tgt_text, doc_id and scores"))
    lacking = next((name for name in ("doc_id", "src_text", "tgt_text", "scores") if name not in fields), None)
    if lacking is not None:
        raise FormatError(f"{where}: it has no '{lacking}'; each line needs src_text, tgt_text, doc_id and scores")
    require_type(fields["doc_id"], str, f"{where}, doc_id", "a text")
    return fields


def _split_id(name: str, where: str) -> tuple[str, str | None, str, str | None]:
    """Return pair, domain, document, and the number of the segment if it is there."""
    pair, *rest = name.split(_SEPARATOR)
    if not rest:
        raise FormatError(f"{where}: the doc_id '{name[:60]}' has no '{_SEPARATOR}'; it is PAIR_#_DOMAIN_#_DOCUMENT")
    segment = rest.pop() if len(rest) > 2 and rest[-1].isdecimal() and len(rest[-1]) < 10 else None
    domain = rest[0] if len(rest) > 1 else None
    return pair, domain, _SEPARATOR.join(rest[1:] or rest), segment


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


# -- what annotators and metrics say -------------------------------------------------------------------------------


def _list_metrics(segment: _Segment) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield each system's numbers that are not an annotator's answer."""
    for system, entries in segment.entries.items():
        numbers = {name: read_score(value) for entry in entries for name, value in entry.items() if _is_metric(name)}
        yield system, {name: value for name, value in numbers.items() if value is not None}


def _is_metric(name: str) -> bool:
    return _ANSWER.fullmatch(name) is None


def _list_judgments(segment: _Segment) -> Iterator[dict[str, Any]]:
    for system, entries in segment.entries.items():
        text = segment.texts.get(system)
        for entry in entries:
            rounds = dict.fromkeys(match[1] for name in entry if (match := _ANSWER.fullmatch(name)) is not None)
            for number in rounds:
                where = f"{segment.where}, scores of '{system}'"
                yield {"item": segment.id, "system": system} | _read_answer(entry, number, text, where)


def _read_answer(entry: Mapping[str, Any], number: str, text: str | None, where: str) -> dict[str, Any]:
    """Return one annotator's value, spans and time; `number` is the round that the fields' names end in."""
    name = f"human{number}" if f"human{number}" in entry else f"score{number}"
    value, annotator = parse_number(entry.get(name)), entry.get(f"annotator{number}")
    if value is None and entry.get(name) is not None:
        raise FormatError(f"{where}: {name} is {str(entry[name])[:40]!r}, which is not a number; correct it")
    answer: dict[str, Any] = {"annotator": None if annotator is None else str(annotator), "value": value}
    errors = entry.get(f"errors{number}")
    if errors is not None:
        answer["spans"] = list(read_spans(errors, where, text, inclusive=True))
    times = entry.get(f"times{number}")
    stamps = [parse_number(time) for time in times] if isinstance(times, list) else []
    if len(stamps) == 2 and stamps[0] is not None and stamps[1] is not None:
        answer |= {"seconds": abs(stamps[1] - stamps[0]), "time": max(stamps[0], stamps[1])}
    return answer
