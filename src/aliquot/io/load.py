"""Loading whatever people have, and saving it: formats are told by content, never by a guess at the name alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import polars as pl

from aliquot.core.conventions import implied_human
from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, FormatError, NameUnknownError, OptionError, quoted, unknown_name
from aliquot.io import download as catalog
from aliquot.io.files import STDIN, decode_text, first_character, read_bytes, require_readable
from aliquot.io.formats import items, mqm, mtme, parquet, summeval, tables
from aliquot.io.formats.tables import TableOptions

FORMATS = ("items", "mtme", "mqm", "table", "summeval")
_PARQUET_MAGIC, _ZIP_MAGIC = b"PAR1", b"PK\x03\x04"
STDOUT = "-"


def load(
    path: str | Path,
    format: str | None = None,  # noqa: A002  (the public name users expect)
    human: str | None = None,
    *,
    lower_is_better: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    wide: str | None = None,
    score_name: str | None = None,
    pair: str | None = None,
    mqm_weights: mqm.MQMWeights | None = None,
    sources_only: bool = False,
) -> EvalSet:
    r"""Load an evaluation set from a file, a folder, standard input ("-") or a descriptor such as "wmt23/en-de".

    Args:
        path: item JSON lines (plain or gzip, or a JSON array), an mt-metrics-eval folder, an MQM TSV, a CSV, TSV or
            Parquet table, SummEval's JSON lines; or a descriptor, which is looked up in the data folder
            ($ALIQUOT_DATA), then in the cache, and downloaded once otherwise.
        format: one of items, mtme, mqm, table, summeval; told by content when not given.
        human: the score that people gave; by default `human`, or the only score named like one.
        lower_is_better: scores to flip, so that higher is better for all; remembered in `flipped`.
        columns: for tables, our column role -> the table's column, e.g. {"item": "segment", "value": "points"}.
        wide: for tables, "systems" or "metrics" when each column is one.
        score_name: for tables that hold one unnamed score, its name.
        pair: for folders with several language pairs, which one.
        mqm_weights: for MQM TSVs, what errors cost.
        sources_only: accept items without any system (selection before outputs exist).

    >>> import aliquot, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = path.write_text("segment_id,model,metric,score\n1,A,BLEU,30\n1,B,BLEU,35\n")
    >>> aliquot.load(path).scores["BLEU"]
    array([[30., 35.]])
    """
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    options = TableOptions(columns=columns, wide=wide, score_name=score_name)
    folder, pair = _resolve(path, pair)
    with _naming(folder):
        evalset = _read(folder, format, options, pair, mqm_weights, sources_only=sources_only)
        return _with_human(_flipped(evalset, lower_is_better), human)


def load_all(path: str | Path, human: str | None = None) -> dict[str, EvalSet]:
    """Load every language pair of an mt-metrics-eval test set: pair -> EvalSet."""
    folder, _ = _resolve(path, None)
    if not isinstance(folder, Path) or not mtme.looks_like(folder):
        raise FormatError(f"{path}: not a folder of mt-metrics-eval v2; load() reads single files")
    with _naming(folder):
        return {pair: _with_human(mtme.read(folder, pair), human) for pair in mtme.pairs(folder)}


@contextmanager
def _naming(path: Path | str) -> Iterator[None]:
    """Put the path before every message about the data that does not name it yet."""
    try:
        yield
    except (DataError, NameUnknownError) as error:
        if str(path) in str(error):
            raise
        kind = FormatError if isinstance(error, DataError) else NameUnknownError
        raise kind(f"{path}: {error}") from None


def _resolve(path: str | Path, pair: str | None) -> tuple[Path | str, str | None]:
    """Return the path to read and the pair; a descriptor becomes a folder of the data folder or cache."""
    if str(path) == STDIN:
        return STDIN, pair
    if catalog.is_descriptor(str(path)) and not Path(path).exists():
        return catalog.locate(str(path), pair)
    return Path(path), pair


def _read(
    path: Path | str,
    format: str | None,  # noqa: A002
    options: TableOptions,
    pair: str | None,
    weights: mqm.MQMWeights | None,
    *,
    sources_only: bool,
) -> EvalSet:
    if isinstance(path, Path):
        require_readable(path)
        if path.is_dir():
            return _read_folder(path, format, pair)
    raw = read_bytes(path)
    if raw.startswith(_PARQUET_MAGIC):
        return _read_parquet(raw, path, options, sources_only=sources_only)
    kind = format or recognise(raw, path)
    if kind == "items":
        return items.read(raw, path, sources_only=sources_only)
    if kind == "summeval":
        return summeval.read(raw, path)
    if kind == "mqm":
        return mqm.read(raw, path, weights)
    if kind == "table":
        return tables.read_text(raw, path, options)
    raise FormatError(f"{path}: is a file, and the format '{kind}' is a folder")


def _read_folder(path: Path, format: str | None, pair: str | None) -> EvalSet:  # noqa: A002
    if format not in (None, "mtme"):
        raise FormatError(f"{path}: is a folder where a file is meant; name a file inside it")
    if mtme.looks_like(path):
        return mtme.read(path, pair)
    inside = sorted(entry.name for entry in path.iterdir())
    raise FormatError(
        f"{path}: is a folder where a file is meant; name one of {quoted(inside, 5) or 'its files (it is empty)'}, or "
        "a folder of mt-metrics-eval v2 (with sources/ and system-outputs/)"
    )


def _read_parquet(raw: bytes, path: Path | str, options: TableOptions, *, sources_only: bool) -> EvalSet:
    try:
        if not parquet.is_item_table(raw):
            return tables.from_table(pl.read_parquet(raw), str(path), options)
        evalset = parquet.read(raw, path)
    except pl.exceptions.PolarsError as error:
        raise FormatError(f"{path}: unreadable Parquet ({str(error).splitlines()[0]}); copy it again") from None
    if not evalset.systems and not sources_only:
        raise FormatError(f"{path}: no item has a system (columns 'tgt' and 'scores' are absent); add one of them")
    return evalset


def recognise(raw: bytes, path: Path | str = "data") -> str:
    r"""Tell the format of a file's content.

    >>> recognise(b'{"i": 0, "scores": {}}'), recognise(b"item,system,metric,value\n")
    ('items', 'table')
    """
    if not raw or raw.isspace():
        raise FormatError(f"{path}: the file is empty; it should hold items, scores or judgments")
    if raw.startswith(_ZIP_MAGIC):
        raise FormatError(
            f"{path}: is an Excel or zip file, which is not read; save the sheet as CSV, or unpack the zip"
        )
    start = first_character(raw)
    if start == b"[":
        return "items"
    if start == b"{":
        return "summeval" if summeval.looks_like(_first_object(raw)) else "items"
    header = decode_text(raw[: raw.find(b"\n") if b"\n" in raw else len(raw)], path).strip("\r")
    if "\t" in header and mqm.looks_like(header.split("\t")):
        return "mqm"
    if any(separator in header for separator in "\t,;"):
        return "table"
    raise FormatError(
        f"{path} line 1: neither a JSON object nor a table header: '{header[:60]}'; "
        "see docs/formats.md for what can be read, or name it with --format"
    )


def _first_object(raw: bytes) -> dict[str, object]:
    try:
        line = raw.lstrip()[: 1 << 24].split(b"\n", 1)[0]
        return dict(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}  # the reader will say what is wrong with it


def _flipped(evalset: EvalSet, names: Sequence[str]) -> EvalSet:
    for name in names:
        if name not in evalset.scores:
            raise unknown_name("score", name, evalset.scores, "check --lower-is-better / lower_is_better=")
        if name in evalset.flipped:
            raise OptionError(
                f"{evalset.name}: '{name}' was already flipped (higher is better now); do not flip it again"
            )
        evalset = evalset.with_score(name, evalset.scores[name], lower_is_better=True)
    return evalset


def _with_human(evalset: EvalSet, human: str | None) -> EvalSet:
    if human is not None:
        if human not in evalset.scores:
            raise unknown_name("score", human, evalset.scores, "use --human NAME / human=")
        return evalset.with_human(human)
    return evalset if evalset.human is not None else evalset.with_human(implied_human(evalset.scores))


def save(evalset: EvalSet, path: str | Path, *, what: str = "scores", pair: str | None = None) -> None:
    """Save by the path's ending: .jsonl(.gz) and .parquet keep everything; .csv and .tsv a long table.

    A path without ending becomes an mt-metrics-eval folder. `what` chooses the long table: scores or judgments.
    """
    name = str(path).removesuffix(".gz")
    if name == STDOUT:
        raise OptionError("data are not written to standard output ('-'); name a file, e.g. one ending in .jsonl")
    if name.endswith((".jsonl", ".json", ".ndjson")):
        items.write(evalset, path)
    elif name.endswith(".parquet"):
        parquet.write(evalset, path)
    elif name.endswith((".csv", ".tsv")):
        tables.write(_long_table(evalset, what), path)
    elif not Path(path).suffix:
        mtme.write(evalset, Path(path), pair or Path(evalset.name).name or "xx-yy")
    else:
        raise OptionError(
            f"{path}: unknown ending; use .jsonl, .jsonl.gz or .parquet (everything), .csv or .tsv (a long table)"
        )


def _long_table(evalset: EvalSet, what: str) -> pl.DataFrame:
    if what == "scores":
        if not evalset.scores:
            raise OptionError(f"{evalset.name}: there are no scores to write; .jsonl and .parquet keep everything else")
        return tables.long_scores(evalset)
    if what == "judgments":
        if evalset.judgments is None:
            raise OptionError(f"{evalset.name}: there are no judgments to write; leave --what out for scores")
        return evalset.judgments.table
    raise unknown_name("kind of table", what, ["scores", "judgments"], "choose with --what / what=")
