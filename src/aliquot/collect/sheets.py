"""Annotation without a server: blinded, shuffled .xlsx and .csv sheets, and a private key to read them back.

Every row has a random id. The key knows which item and which systems a row shows, and a digest of its texts, so that
rows that were changed, doubled or mixed up are noticed when the sheets come back.
"""

from __future__ import annotations

import hashlib
import io
import re
import secrets
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.collect.answers import Answer, check_answer, missing_widgets
from aliquot.collect.errors import CollectError
from aliquot.collect.lists import make_fixed_lists
from aliquot.collect.new_campaign import NewCampaign
from aliquot.collect.protocols import Choice, Form, Protocol, Score, Spans, Text, Widget
from aliquot.collect.records import SubmittedUnit, TimedAnswer, derive_rows
from aliquot.collect.unit_texts import ShownOutput, ShownRow, ShownText, ShownUnit, UnitTexts, slot_names
from aliquot.collect.units import Unit
from aliquot.errors import AliquotWarning, DataError, FormatError, MissingExtraError, OptionError, quoted
from aliquot.io.files import read_bytes
from aliquot.io.formats.campaign import records_frame
from aliquot.io.formats.table_files import read_frame
from aliquot.io.formats.tables import format_csv
from aliquot.io.writing import write_bytes

KEY = "key.csv"
_KEY_COLUMNS = ("annotator", "id", "part", "row", "item", "document", "systems", "texts", "protocol")
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")  # no place in an .xlsx
MAX_CELL_TEXT = 32_000  # characters that a cell of a spreadsheet holds
_CONTEXT = "context"
_NONE = "none"


@dataclass(frozen=True)
class AnswerColumn:
    """A column that the annotator fills in: which widget it answers, for which slot and criterion."""

    name: str
    widget: str
    scope: str
    slot: int | None = None
    criterion: str | None = None
    part: str | None = None  # of a choice: best, worst, strength


def answer_columns(protocol: Protocol, slots: int) -> list[AnswerColumn]:
    """Return the columns to fill in, for so many systems side by side."""
    columns: list[AnswerColumn] = []
    for widget in protocol.widgets:
        if isinstance(widget, Form):
            continue
        sides = range(slots) if widget.scope == "output" and protocol.side_by_side else [None]
        for slot in sides:
            end = "" if slot is None else f" {slot_names(slots)[slot]}"
            if isinstance(widget, Score) and widget.criteria:
                columns += [
                    AnswerColumn(f"{name}{end}", widget.name, widget.scope, slot, name) for name in widget.criteria
                ]
            elif isinstance(widget, Choice) and widget.style == "best-worst":
                columns += [AnswerColumn(part, widget.name, widget.scope, part=part) for part in ("best", "worst")]
            else:
                columns.append(AnswerColumn(f"{widget.name}{end}", widget.name, widget.scope, slot))
            if isinstance(widget, Choice) and widget.strength:
                columns.append(AnswerColumn("strength", widget.name, widget.scope, part="strength"))
    return columns


# -- writing -------------------------------------------------------------------------------------------------------


def write_sheets(
    inputs: NewCampaign,
    folder: Path,
) -> list[Path]:
    """Write one .xlsx and one .csv for each annotator, and the key; return the paths."""
    workbook = _require_openpyxl()
    units, protocol, settings = inputs.units, inputs.protocol, inputs.settings
    names = _file_names(inputs.annotators)
    texts = UnitTexts(inputs.evalset, protocol)
    widest = max(len(unit.systems) for unit in units)
    columns = answer_columns(protocol, widest)
    key: list[dict[str, Any]] = []
    written: list[tuple[Path, bytes]] = []
    systems = [unit.systems for unit in units]
    for who, numbers in make_fixed_lists(systems, inputs.annotators, settings.per_output, settings.seed).items():
        rows: list[dict[str, Any]] = []
        for part, (number, slots) in enumerate(numbers, start=1):
            unit = units[number]
            rows += _part_rows(unit, slots, protocol, texts, part, who, key, columns)
        frame = pl.DataFrame(rows, schema=dict.fromkeys(_list_headers(protocol, widest, columns), pl.String))
        written += [
            (folder / f"{names[who]}.csv", b"\xef\xbb\xbf" + format_csv(frame).encode()),
            (folder / f"{names[who]}.xlsx", workbook(frame, protocol, columns, widest)),
        ]
    if key:
        key[0]["protocol"] = msgspec.json.encode(protocol).decode()
    table = pl.DataFrame(key, schema=dict.fromkeys(_KEY_COLUMNS, pl.String))
    written.append((folder / KEY, format_csv(table).encode()))
    folder.mkdir(exist_ok=True)
    for path, _ in written:
        if path.exists():
            raise OptionError(f"{path}: exists already, and may hold judgments; choose another folder with -o")
    for path, content in written:
        write_bytes(path, content)
    return [path for path, _ in written]


def _file_names(annotators: Sequence[str]) -> dict[str, str]:
    names = {who: re.sub(r"[^\w.-]+", "_", who).strip(".") or "annotator" for who in annotators}
    lowered = [name.casefold() for name in names.values()]
    if len(set(lowered)) < len(lowered) or "key" in lowered:
        raise OptionError(
            f"`annotators` {quoted(annotators, 5)}: two of these names, or the key, make one file; "
            "use letters and digits that differ"
        )
    return names


def _list_headers(protocol: Protocol, slots: int, columns: Sequence[AnswerColumn]) -> list[str]:
    outputs = [f"output {slot}" for slot in slot_names(slots)] if protocol.side_by_side else ["output"]
    texts = (["source"] if protocol.source else []) + (["reference"] if protocol.reference else []) + outputs
    return ["id", "part", *texts, *(column.name for column in columns)]


def _part_rows(
    unit: Unit,
    slots: Sequence[int],
    protocol: Protocol,
    texts: UnitTexts,
    part: int,
    who: str,
    key: list[dict[str, Any]],
    columns: Sequence[AnswerColumn],
) -> Iterator[dict[str, Any]]:
    systems = [unit.systems[index] for index in slots]
    names = _output_names(protocol, len(systems))
    for number, row in enumerate(texts.show_unit(unit)):
        texts_shown = {"part": str(part)}
        for name, text in (("source", row.source), ("reference", row.reference)):
            if text is not None:
                texts_shown[name] = _cell_text(text.text)
        for name, slot in zip(names, slots, strict=True):
            texts_shown[name] = _cell_text(row.outputs[slot].text)
        if row.context:
            yield {"id": _CONTEXT, **texts_shown}
            continue
        identity = secrets.token_hex(5)
        key.append(
            {
                "annotator": who,
                "id": identity,
                "part": str(part),
                "row": str(number),
                "item": msgspec.json.encode(row.item).decode(),
                "document": unit.document,
                "systems": msgspec.json.encode(systems).decode(),
                "texts": _digest_texts(texts_shown),
                "protocol": None,
            }
        )
        yield {"id": identity, **texts_shown, **_prefill_postedits(protocol, columns, texts_shown)}


def _prefill_postedits(protocol: Protocol, columns: Sequence[AnswerColumn], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the initial texts of post-editing columns: the outputs."""
    filled = {}
    for column in columns:
        widget = protocol.widget(column.widget)
        if isinstance(widget, Text) and widget.style == "postedit":
            end = "" if column.slot is None else f" {slot_names(column.slot + 1)[-1]}"
            filled[column.name] = texts.get(f"output{end}", "")
    return filled


def _output_names(protocol: Protocol, count: int) -> list[str]:
    return [f"output {slot}" for slot in slot_names(count)] if protocol.side_by_side else ["output"]


def _cell_text(text: str) -> str:
    if len(text) > MAX_CELL_TEXT:
        raise DataError(
            f"a text of {len(text):,} characters does not fit into a cell of a spreadsheet; use `aliquot "
            "collect new` and the page instead"
        )
    return _ILLEGAL.sub("�", text)


def _normalise_text(text: str) -> str:
    """Normalise what spreadsheets change: white space, line ends, Unicode form."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _digest_texts(by_name: Mapping[str, str | None]) -> str:
    texts = "\x1f".join(f"{name}={_normalise_text(text or '')}" for name, text in sorted(by_name.items()))
    return hashlib.sha256(texts.encode("utf-8", "replace")).hexdigest()[:16]


def _require_openpyxl() -> Any:
    """Return the function that makes an .xlsx, or say what it needs."""
    try:
        import openpyxl  # type: ignore[import-untyped]  # noqa: F401, PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("sheets need openpyxl: pip install 'aliquot[sheets]'") from None
    return _make_workbook


def _make_workbook(frame: pl.DataFrame, protocol: Protocol, columns: Sequence[AnswerColumn], slots: int) -> bytes:
    from openpyxl import Workbook  # noqa: PLC0415
    from openpyxl.styles import Alignment, Font, PatternFill  # type: ignore[import-untyped]  # noqa: PLC0415

    book = Workbook()
    sheet = book.active
    sheet.title = "judge"
    sheet.append(frame.columns)
    grey, wrap = Font(color="808080", italic=True), Alignment(wrap_text=True, vertical="top")
    highlight = PatternFill("solid", fgColor="FFF7D6")
    names = {column.name for column in columns}
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    for number, row in enumerate(frame.iter_rows(named=True), start=2):
        for position, (name, value) in enumerate(row.items(), start=1):
            cell = sheet.cell(number, position)
            if value is not None:
                cell.value = value
                cell.data_type = "s"  # a text that begins with = stays a text
            cell.alignment = wrap
            if row["id"] == _CONTEXT:
                cell.font = grey
            elif name in names:
                cell.fill = highlight
    for position, name in enumerate(frame.columns, start=1):
        letter = sheet.cell(1, position).column_letter
        sheet.column_dimensions[letter].width = 12 if name in ("id", "part") else 16 if name in names else 60
        column = next((column for column in columns if column.name == name), None)
        if column is not None and frame.height:
            _add_validation(
                sheet, f"{letter}2:{letter}{frame.height + 1}", protocol.widget(column.widget), column, slots
            )
    sheet.freeze_panes = "C2"
    words = book.create_sheet("instructions")
    for line in [protocol.title, "", *_explain_columns(protocol, columns, slots)]:
        words.append([None])
        cell = words.cell(words.max_row, 1)
        cell.value, cell.data_type, cell.alignment = line, "s", wrap
    words.column_dimensions["A"].width = 100
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _explain_columns(protocol: Protocol, columns: Sequence[AnswerColumn], slots: int) -> Iterator[str]:
    yield protocol.instructions
    yield "Fill in the yellow columns. Rows in grey are context. Leave all other cells as they are."
    for column in columns:
        widget = protocol.widget(column.widget)
        if isinstance(widget, Score):
            yield f"{column.name}: {widget.low:g} to {widget.high:g}"
        elif isinstance(widget, Spans):
            names = ", ".join(severity.name for severity in widget.severities)
            form = "severity (Category/Kind)" if widget.categories else "severity"
            yield f"{column.name}: one error a line, as {form}: the wrong words (severity: {names}), or {_NONE}"
        elif isinstance(widget, Choice):
            yield f"{column.name}: {', '.join(_list_choices(widget, column, slots)) or 'such as A > B = C'}"


def _list_choices(widget: Choice, column: AnswerColumn, slots: int) -> list[str]:
    if column.part == "strength":
        return [str(level) for level in range(1, widget.strength + 1)]
    if widget.style == "ranking":
        return []
    tie = ["tie"] if widget.style == "pairwise" and widget.ties else []
    return [*slot_names(slots), *tie]


def _add_validation(sheet: Any, cells: str, widget: Widget | None, column: AnswerColumn, slots: int) -> None:
    from openpyxl.worksheet.datavalidation import DataValidation  # type: ignore[import-untyped]  # noqa: PLC0415

    rule = None
    if isinstance(widget, Score):
        is_whole = widget.step.is_integer() and widget.low.is_integer()
        rule = DataValidation(
            type="whole" if is_whole else "decimal",
            operator="between",
            formula1=f"{widget.low:g}",
            formula2=f"{widget.high:g}",
            allow_blank=True,
        )
        rule.error = f"A number from {widget.low:g} to {widget.high:g}"
    elif isinstance(widget, Choice) and (names := _list_choices(widget, column, slots)):
        rule = DataValidation(type="list", formula1=f'"{",".join(names)}"', allow_blank=True)
        rule.error = f"One of {', '.join(names)}"
    if rule is not None:
        rule.showErrorMessage = True
        sheet.add_data_validation(rule)
        rule.add(cells)


# -- reading back --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadSheets:
    """What filled sheets say."""

    judgments: pl.DataFrame
    choices: pl.DataFrame
    protocol: Protocol
    answered: int
    expected: int


@dataclass(frozen=True)
class _Filled:
    """A row that came back, with its line of the key."""

    where: str
    cells: Mapping[str, str | None]
    key: Mapping[str, Any]


def read_sheets(paths: Sequence[str | Path], key: str | Path) -> ReadSheets:
    """Read filled sheets, check them against the key, and make judgments of them."""
    key_rows, protocol = _read_key(key)
    filled: dict[str, _Filled] = {}
    for path in paths:
        if Path(path).resolve() == Path(key).resolve():
            continue
        for row in _read_sheet(path, key_rows):
            before = filled.get(row.key["id"])
            if before is not None:
                raise FormatError(
                    f"{row.where}: the row '{row.key['id']}' was read before ({before.where}); every "
                    "row counts once: delete one, or name one of the two files only"
                )
            filled[row.key["id"]] = row
    if not filled:
        raise FormatError("no sheet holds a row of the key; name the .xlsx or .csv files that annotators filled in")
    judgments, choices, answered = _derive_judgments(filled, protocol)
    expected = sum(
        entry["annotator"] in {row.key["annotator"] for row in filled.values()} for entry in key_rows.values()
    )
    if answered < expected:
        warnings.warn(f"{expected - answered} of {expected} rows are not answered yet", AliquotWarning, 2)
    if not judgments:
        raise FormatError(f"{paths[0]}: no row is answered; fill in the yellow columns first")
    return ReadSheets(_build_frame(judgments), _build_frame(choices), protocol, answered, expected)


def _build_frame(records: list[dict[str, Any]]) -> pl.DataFrame:
    frame = records_frame(records)
    first = [name for name in ("item", "system", "annotator", "criterion", "value") if name in frame.columns]
    unknown = [name for name in ("time", "guidelines", "order") if name in frame.columns]
    return frame.select(*first, *(name for name in frame.columns if name not in (*first, *unknown)))


def _read_key(path: str | Path) -> tuple[dict[str, dict[str, Any]], Protocol]:
    frame = read_frame(read_bytes(path), path)
    lacking = [name for name in _KEY_COLUMNS if name not in frame.columns]
    if lacking:
        raise FormatError(
            f"{path}: is no key of sheets (the column '{lacking[0]}' is missing); name the key.csv that "
            "`aliquot collect sheets` wrote"
        )
    text = next((value for value in frame["protocol"].to_list() if value), "")
    try:
        protocol = msgspec.json.decode(text, type=Protocol)
        rows = {
            row["id"]: row
            | {
                "item": msgspec.json.decode(row["item"]),
                "systems": msgspec.json.decode(row["systems"]),
                "part": int(row["part"]),
                "row": int(row["row"]),
            }
            for row in frame.iter_rows(named=True)
        }
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: the key was changed ({error}); give the file as it was written") from None
    return rows, protocol


def _read_sheet(path: str | Path, key_rows: Mapping[str, Mapping[str, Any]]) -> Iterator[_Filled]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)  # of the second sheet, which holds the instructions
        frame = read_frame(read_bytes(path), path)
    if "id" not in frame.columns:
        raise FormatError(f"{path}: no column 'id' says which row is which; give the sheet with all its columns")
    owner: str | None = None
    for number, cells in enumerate(frame.iter_rows(named=True), start=2):
        where = f"{path} row {number}"
        identity = (cells["id"] or "").strip()
        if identity in (_CONTEXT, "") and (identity or not any(cells.values())):
            continue
        if identity not in key_rows:
            raise FormatError(
                f"{where}: the id '{identity}' is not in the key; restore the column 'id', or give the "
                "key that belongs to this sheet"
            )
        entry = key_rows[identity]
        if owner is not None and entry["annotator"] != owner:
            raise FormatError(
                f"{where}: the row belongs to the sheet of '{entry['annotator']}', and others here to "
                f"'{owner}'; do not copy rows between sheets"
            )
        owner = entry["annotator"]
        _require_unchanged(cells, entry, where)
        yield _Filled(where, cells, entry)


def _require_unchanged(cells: Mapping[str, str | None], entry: Mapping[str, Any], where: str) -> None:
    texts = {
        name: text
        for name, text in cells.items()
        if name in ("part", "source", "reference", "output") or name.startswith("output ")
    }
    present = {name: text for name, text in texts.items() if text is not None}
    if entry["texts"] not in (_digest_texts(present), _digest_texts(texts)) and entry[
        "texts"
    ] not in _digests_with_empty(texts):
        raise FormatError(
            f"{where}: source, output or part are not what the annotator was given; restore the row as "
            "it was, and change only the yellow columns"
        )


def _digests_with_empty(texts: Mapping[str, str | None]) -> Iterator[str]:
    """Yield digests with each missing text as an empty one: sheets do not distinguish them."""
    empty = [name for name, text in texts.items() if text is None]
    for name in empty:
        yield _digest_texts({key: text for key, text in texts.items() if text is not None or key == name})


def _derive_judgments(
    filled: Mapping[str, _Filled], protocol: Protocol
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    parts: dict[tuple[str, int], list[_Filled]] = {}
    for row in filled.values():
        parts.setdefault((row.key["annotator"], row.key["part"]), []).append(row)
    judgments: list[dict[str, Any]] = []
    choices: list[dict[str, Any]] = []
    answered = 0
    for (who, part), unsorted_rows in parts.items():
        rows = sorted(unsorted_rows, key=lambda row: row.key["row"])
        shown_unit = _shown_unit(rows, protocol)
        answers = {
            cell_id: TimedAnswer(_check_answer(protocol, shown_unit, cell_id, answer, where), None, 0.0, 0)
            for cell_id, answer, where in _read_answers(rows, shown_unit, protocol)
            if answer
        }
        cells = [cell for cell in shown_unit.cells.values() if cell.id in answers]
        rows_done = {cell.row for cell in cells if not missing_widgets(protocol, cell.scope, answers[cell.id].answer)}
        answered += len(rows) if None in rows_done else len(rows_done)
        unit = SubmittedUnit(f"{who}-{part}", who, shown_unit, range(len(shown_unit.systems)), 0)
        made, compared = derive_rows(protocol, unit, answers, {})
        judgments += made
        choices += compared
    return judgments, choices, answered


def _shown_unit(rows: Sequence[_Filled], protocol: Protocol) -> ShownUnit:
    """A part as it was shown; the cells are named by row and slot."""
    systems = tuple(rows[0].key["systems"])
    names = _output_names(protocol, len(systems))
    asks_outputs, asks_items = bool(protocol.of_scope("output")), bool(protocol.of_scope("item"))
    shown_rows = []
    for number, row in enumerate(rows):
        source = row.cells.get("source")
        shown_rows.append(
            ShownRow(
                item=row.key["item"],
                context=False,
                source=None if source is None else ShownText(source),
                outputs=[
                    ShownOutput(row.cells.get(name) or "", cell=f"{number}/{slot}" if asks_outputs else None)
                    for slot, name in enumerate(names)
                ],
                cell=str(number) if asks_items else None,
            )
        )
    document_cell = "document" if protocol.of_scope("document") else None
    return ShownUnit(systems, shown_rows, rows[0].key["document"], document_cell)


def _read_answers(
    rows: Sequence[_Filled], shown_unit: ShownUnit, protocol: Protocol
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each cell with its answer and where it stands; a document's answer stands in any one of its rows."""
    columns = answer_columns(protocol, len(shown_unit.systems))
    of_document: dict[str, Any] = {}
    for number, row in enumerate(rows):
        answers: dict[str, dict[str, Any]] = {}
        for column in columns:
            text = row.cells.get(column.name)
            if column.name not in row.cells:
                raise FormatError(
                    f"{row.where}: the column '{column.name}' is missing; give the sheet with all columns"
                )
            if text is None or not text.strip():
                continue
            cell = {"item": str(number), "document": "document"}.get(column.scope, f"{number}/{column.slot or 0}")
            target = of_document if column.scope == "document" else answers.setdefault(cell, {})
            _store_entry(
                target, protocol, column, text.strip(), shown_unit, number, f"{row.where}, column '{column.name}'"
            )
        yield from ((cell, answer, row.where) for cell, answer in answers.items())
    if of_document:
        yield "document", of_document, rows[0].where


def _store_entry(
    answer: dict[str, Any],
    protocol: Protocol,
    column: AnswerColumn,
    text: str,
    shown_unit: ShownUnit,
    row: int,
    where: str,
) -> None:
    widget = protocol.widget(column.widget)
    if isinstance(widget, Score):
        number = _parse_number(text, where)
        if column.criterion is None:
            answer[widget.name] = number
        else:
            answer.setdefault(widget.name, {})[column.criterion] = number
    elif isinstance(widget, Spans):
        answer[widget.name] = list(_read_spans(widget, text, shown_unit.rows[row], column.slot or 0, where))
    elif isinstance(widget, Text):
        answer[widget.name] = text
    elif isinstance(widget, Choice):
        _store_choice(answer, widget, column, text, where)


def _store_choice(answer: dict[str, Any], widget: Choice, column: AnswerColumn, text: str, where: str) -> None:
    slot = text if text.casefold() == "tie" else text.upper()
    slot = "tie" if slot.casefold() == "tie" else slot
    if widget.style == "ranking":
        groups = [[part.strip().upper() for part in group.split("=")] for group in text.split(">")]
        answer[widget.name] = groups
    elif column.part == "strength":
        answer.setdefault(widget.name, {})["strength"] = int(_parse_number(text, where))
    elif column.part is not None:
        answer.setdefault(widget.name, {})[column.part] = slot
    elif widget.strength:
        answer.setdefault(widget.name, {})["choice"] = slot
    else:
        answer[widget.name] = slot


def _parse_number(text: str, where: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise FormatError(f"{where}: '{text[:40]}' is not a number; correct it") from None


_ERROR = re.compile(r"\s*([^:(]+?)\s*(?:\(([^)]*)\))?\s*:\s*(.*\S)\s*")


def _read_spans(widget: Spans, text: str, row: ShownRow, slot: int, where: str) -> Iterator[dict[str, Any]]:
    """Read one error a line: severity (category): the words as they stand in the output, or in the source."""
    if text.strip().casefold() in (_NONE, "no errors", "no error", "-"):
        return
    texts = {"output": row.outputs[slot].text}
    if widget.on_source and row.source is not None:
        texts["source"] = row.source.text
    for line in filter(str.strip, text.split("\n")):
        match = _ERROR.fullmatch(line)
        if match is None:
            raise FormatError(
                f"{where}: '{line.strip()[:60]}' is not severity: words; write one error a line, or {_NONE}"
            )
        severity, category, words = match.groups()
        side = next((side for side, text_of_side in texts.items() if words in text_of_side), None)
        if side is None:
            raise FormatError(f"{where}: '{words[:60]}' does not stand in the text; copy the wrong words as they are")
        start = texts[side].index(words)
        yield {
            "start": start,
            "end": start + len(words),
            "quote": words,
            "severity": severity,
            "category": category,
            "side": side,
        }


def _check_answer(protocol: Protocol, shown_unit: ShownUnit, cell: str, answer: dict[str, Any], where: str) -> Answer:
    try:
        return check_answer(protocol, shown_unit, cell, answer)
    except CollectError as error:
        raise FormatError(f"{where}: {error}; correct it in the sheet") from None
