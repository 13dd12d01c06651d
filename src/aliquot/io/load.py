"""Load data of any readable format, detected by content."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from aliquot.core.conventions import guess_human_score
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.score_join import gather_scores, join_scores
from aliquot.errors import AliquotWarning, DataError, FormatError, NameUnknownError, OptionError, quoted, unknown_name
from aliquot.io import download as catalog
from aliquot.io import hub
from aliquot.io.files import STDIN, pause_collection, read_bytes, require_readable
from aliquot.io.format_detection import build_parquet_error, detect_format, is_item_table
from aliquot.io.formats import (
    annotation_tools,
    appraise,
    arena,
    campaign,
    campaign_database,
    huggingface,
    items,
    logs,
    mqm,
    mtme,
    parquet,
    pearmut,
    summeval,
    tables,
    text_folder,
    wmt25,
)
from aliquot.io.formats.answers import Key, apply_key, read_key
from aliquot.io.formats.samples import LogFile
from aliquot.io.formats.table_columns import Absent
from aliquot.io.formats.table_files import (
    PARQUET_MAGIC,
    Table,
    read_frame,
    to_polars,
)
from aliquot.io.formats.tables import TableOptions, Wide
from aliquot.io.parquet_seal import PARQUET_ERRORS, require_intact, silence_panics
from aliquot.stats.arrays import FloatArray
from aliquot.validation import invalid, one_of

Format = Literal[
    "items",
    "mtme",
    "mqm",
    "table",
    "summeval",
    "texts",
    "campaign",
    "pearmut",
    "appraise",
    "label-studio",
    "prodigy",
    "potato",
    "argilla",
    "arena",
    "wmt25",
    "lm-eval",
    "inspect",
    "langfuse",
    "langsmith",
    "promptfoo",
]
FORMATS: tuple[Format, ...] = get_args(Format)
ScoreSource = str | Path | EvalSet | Table


@dataclass(frozen=True)
class LoadOptions:
    """The options of `load`; `absent` and `judgments` are as in `TableOptions`."""

    format: Format | None = None
    human: str | None = None
    lower_is_better: Sequence[str] = ()
    columns: Mapping[str, str] | None = None
    wide: Wide | None = None
    score_name: str | None = None
    answer: str | None = None
    pair: str | None = None
    mqm_weights: mqm.MQMWeights | None = None
    sources_only: bool = False
    key: str | Path | None = None
    absent: Absent | None = None
    judgments: bool = False  # a table in memory holds judgments, whatever its columns
    scores: Sequence[ScoreSource] = ()
    joins: bool = False  # the source holds scores to be joined to data

    def __post_init__(self) -> None:
        if self.format is not None:
            one_of("format", self.format, FORMATS)

    @property
    def has_plain_table(self) -> bool:
        """Whether a table is to be read by its columns' names alone."""
        return not (self.columns or self.wide or self.answer or self.joins or self.key)

    @property
    def table(self) -> TableOptions:
        """The options of tables."""
        return TableOptions(
            self.columns, self.wide, self.score_name, self.answer, self.absent, self.judgments, self.joins
        )


def load(
    path: str | Path | Table,
    format: Format | None = None,  # noqa: A002  (the public name users expect)
    human: str | None = None,
    *,
    lower_is_better: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    wide: Wide | None = None,
    score_name: str | None = None,
    answer: str | None = None,
    pair: str | None = None,
    mqm_weights: mqm.MQMWeights | None = None,
    sources_only: bool = False,
    key: str | Path | None = None,
    scores: ScoreSource | Sequence[ScoreSource] = (),
) -> EvalSet:
    r"""Load an evaluation set from a file, a folder, standard input ("-") or a descriptor such as "wmt23/en-de".

    Args:
        path: item JSON lines (plain or gzip, or a JSON array), an mt-metrics-eval folder, a folder of texts (one file a
            system), an MQM TSV, a table (CSV, TSV, Parquet, .xlsx, JSON lines), SummEval's JSON lines, a campaign of
            `aliquot collect` (its judgments), what Pearmut, Appraise, Label Studio, Potato, Prodigy or Argilla export,
            battles of an arena, the human evaluation of WMT25, samples of lm-evaluation-harness, logs of Inspect,
            results of promptfoo, exports of Langfuse and LangSmith; or a descriptor, which is looked up in the data
            folder ($ALIQUOT_DATA), then in the cache, and downloaded once otherwise; or a file of the Hugging Face Hub
            (hf://datasets/OWNER/NAME/data/*.parquet); or a Polars or pandas table.
        format: one of items, mtme, mqm, table, summeval, texts, campaign, pearmut, appraise, label-studio, potato,
            prodigy, argilla, arena, wmt25, lm-eval, inspect, langfuse, langsmith, promptfoo; by default the
            content decides.
        human: the score that people gave; by default `human`, or the only score named like one.
        lower_is_better: scores or criteria to flip, with the judgments they come from, so that higher is better for
            all; remembered in `flipped`.
        columns: for tables, our column role -> the table's column, e.g. {"item": "segment", "value": "points"}.
        wide: for tables, "systems" or "metrics" when each column is one.
        score_name: for tables that hold one unnamed score, its name.
        answer: for tables of judgments, the column of the answers, which may be labels such as yes and no. Numbers
            become values; labels stay in a judgment column of that name (`label` for a column `value`).
        pair: for folders and files with several language pairs, which one.
        mqm_weights: for MQM TSVs, what errors cost.
        sources_only: accept items without any system (selection before outputs exist).
        key: for judgments with opaque ids, the table of their meanings: cell, item, system.
        scores: files, tables or sets with further scores, which are joined by item id and system: a row per item and
            system, or a row per item and a column per system (the score is then called like the file, or
            `score_name`). `columns` holds for them, too. A note counts what does not fit the data.

    >>> import aliquot, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = path.write_text("segment_id,model,metric,score\n1,A,BLEU,30\n1,B,BLEU,35\n")
    >>> aliquot.load(path).scores["BLEU"]
    array([[30., 35.]])
    """
    options = LoadOptions(
        format, human, lower_is_better, columns, wide, score_name, answer, pair, mqm_weights, sources_only, key
    )
    several: Any = scores if isinstance(scores, (list, tuple)) else [scores]
    return load_source(path, replace(options, scores=several))


def load_all(path: str | Path, human: str | None = None) -> dict[str, EvalSet]:
    """Load every language pair of an mt-metrics-eval test set: pair -> EvalSet."""
    folder, _ = _resolve_source(path, None)
    if not isinstance(folder, Path) or not mtme.looks_like(folder):
        raise FormatError(f"{path}: not a folder of mt-metrics-eval v2; load() reads single files")
    with _prefix_errors(folder):
        return {pair: _set_human(mtme.read(folder, pair), human) for pair in mtme.list_pairs(folder)}


# -- reading -------------------------------------------------------------------------------------------------------


def load_source(source: str | Path | Table, options: LoadOptions) -> EvalSet:
    """Load what `load` takes, with its options in one object."""
    joining = bool(options.scores)
    absent = list_absent(options.columns) if joining and options.absent is None else options.absent
    evalset, place = _load_alone(source, replace(options, absent=absent))
    for scores in options.scores:
        evalset = _join_source(evalset, scores, options, absent or {})
    if options.absent is None and absent:
        raise next(iter(absent.values()))
    with _prefix_errors(place):
        for name in options.lower_is_better:
            evalset = _flip_score(evalset, name, options.absent)
        return _set_human(evalset, options.human)


def _load_alone(source: str | Path | Table, options: LoadOptions) -> tuple[EvalSet, Path | str]:
    """Load a source, before other files are joined to it; also return its place, for messages."""
    key = _read_key_option(options)
    if not isinstance(source, (str, Path)):
        frame = _apply_key(to_polars(source), "the table", key)
        if options.has_plain_table and arena.looks_like(frame.columns):
            return arena.from_table(frame, "the table"), "the table"
        return tables.from_table(frame, "the table", options.table), "the table"
    place, pair = _resolve_source(source, options.pair)
    with _prefix_errors(place), pause_collection():
        evalset = _read_source(place, replace(options, pair=pair), key)
        is_pattern = hub.as_hub_path(place) is not None and "*" in evalset.name
        return replace(evalset, name=hub.name_dataset(str(place))) if is_pattern else evalset, place


def list_absent(columns: Mapping[str, str] | None) -> Absent:
    """Return the error for each column asked for, to be raised if no table has it."""
    return {
        f"{role}={name}": FormatError(f"no column '{name}': none of the files is a table that has it; check `columns`")
        for role, name in (columns or {}).items()
    }


def _join_source(evalset: EvalSet, source: ScoreSource, options: LoadOptions, absent: Absent) -> EvalSet:
    """Join the scores of a file, table or set; columns that it has are removed from `absent`."""
    if isinstance(source, EvalSet):
        return join_scores(evalset, source, source.name)
    is_file = isinstance(source, (str, Path))
    where = str(source) if is_file else "the table of scores"
    name = options.score_name if options.score_name not in evalset.scores else None  # the data may have used it
    if name is None and is_file:
        name = Path(where).name.split(".")[0]
    own_absent = list_absent(options.columns)
    shared = LoadOptions(columns=options.columns, wide=options.wide, mqm_weights=options.mqm_weights, score_name=name)
    other, _ = _load_alone(source, replace(shared, absent=own_absent, joins=True))
    for column in absent.keys() - own_absent.keys():
        del absent[column]
    return join_scores(evalset, other, where)


def read_score_table(evalset: EvalSet, name: str, table: Table) -> FloatArray:
    """Return a score of a table, long or wide, as an array of items x systems of a set."""
    other, place = _load_alone(table, LoadOptions(score_name=name, joins=True))
    names = [name] if name in other.scores else list(other.scores)
    if len(names) > 1:
        raise unknown_name("score", name, names, "the table has several; name one of them, or keep one")
    return gather_scores(evalset, other, names, str(place))[names[0]]


@contextmanager
def _prefix_errors(path: Path | str) -> Iterator[None]:
    """Prefix messages about the data with the path, unless they name it."""
    name = campaign_database.without_password(path)
    try:
        yield
    except (DataError, NameUnknownError) as error:
        if name in str(error):
            raise
        if type(error) is DataError:
            raise FormatError(f"{name}: {error}") from None
        error.args = (f"{name}: {error}",)
        raise


def _resolve_source(path: str | Path, pair: str | None) -> tuple[Path | str, str | None]:
    """Return the path to read and the pair; a descriptor becomes a folder of the data folder or cache."""
    if str(path) == STDIN:
        return STDIN, pair
    if (url := hub.as_hub_path(path)) is not None:
        return url, pair
    if (url := campaign_database.as_url(path)) is not None:
        return url, pair
    if catalog.is_descriptor(str(path)) and not Path(path).exists():
        return catalog.locate_data(str(path), pair)
    return Path(path), pair


def _read_source(path: Path | str, options: LoadOptions, key: Key | None) -> EvalSet:
    if options.format in (None, "campaign") and path != STDIN and campaign_database.is_campaign(path):
        if isinstance(path, Path):
            require_readable(path)
        name = campaign_database.without_password(path)
        return tables.from_table(campaign.read_judgments_of_texts(path), name, options.table)
    if isinstance(path, Path):
        require_readable(path)
        if path.is_dir():
            return _read_folder(path, options)
    raw = read_bytes(path)
    require_intact(raw, path)
    kind = options.format or detect_format(raw, path, joins=options.joins)
    if kind == "arena" and options.format is None and not options.has_plain_table:
        kind = "table"
    if kind in logs.READERS:
        return logs.read(kind, [LogFile(path, raw)], path)
    if kind == "arena":
        return arena.read(raw, path)
    if kind == "table" or (raw.startswith(PARQUET_MAGIC) and not is_item_table(raw, path)):
        return tables.from_table(_apply_key(read_frame(raw, path), str(path), key), str(path), options.table)
    if kind in ("pearmut", "appraise", *annotation_tools.TOOLS):
        reader = {"pearmut": pearmut.read, "appraise": appraise.read}.get(kind, annotation_tools.read)
        return reader(raw, path, key, options.mqm_weights)
    if key is not None:
        raise invalid("key", str(options.key), f"{path} names its items and systems ({kind}): leave it out")
    if raw.startswith(PARQUET_MAGIC):
        return _read_parquet(raw, path, options)
    if kind == "items":
        return items.read(raw, path, sources_only=options.sources_only)
    if kind == "summeval":
        return summeval.read(raw, path)
    if kind == "wmt25":
        return wmt25.read(raw, path, options.pair)
    if kind == "mqm":
        return mqm.read(raw, path, options.mqm_weights)
    if kind == "campaign":
        raise FormatError(f"{path}: is no campaign (not an SQLite file); name a file that `aliquot collect new` made")
    raise FormatError(f"{path}: is a file, and the format '{kind}' is a folder")


def _read_key_option(options: LoadOptions) -> Key | None:
    return None if options.key is None else read_key(options.key)


def _apply_key(table: pl.DataFrame, where: str, key: Key | None) -> pl.DataFrame:
    return table if key is None else apply_key(table, key, where)


def _read_folder(path: Path, options: LoadOptions) -> EvalSet:
    if options.format not in (None, "mtme", "texts", *logs.READERS):
        raise FormatError(f"{path}: is a folder where a file is meant; name a file inside it")
    if options.format != "texts" and mtme.looks_like(path):
        return mtme.read(path, options.pair)
    if options.format is None and (whole := huggingface.find_items(path)) is not None:
        return replace(_read_source(whole, options, None), name=path.name)
    if text_folder.looks_like(path):
        return text_folder.read(path)
    if (files := _find_log_files(path, options.format)) is not None:
        return logs.read(*files, path)
    inside = sorted(entry.name for entry in path.iterdir())
    raise FormatError(
        f"{path}: is a folder where a file is meant; name one of {quoted(inside, 5) or 'its files (it is empty)'}, or "
        "a folder of mt-metrics-eval v2 (with sources/ and system-outputs/), of texts (SYSTEM.txt, source.txt), or of "
        f"logs ({', '.join(logs.READERS)})"
    )


def _find_log_files(folder: Path, kind: str | None) -> tuple[str, list[LogFile]] | None:
    """Return the tool and the files of a folder of logs; None if it holds none."""
    by_tool: dict[str, list[LogFile]] = {}
    paths = logs.list_files(folder)
    empty = [str(path.relative_to(folder)) for path in paths if path.stat().st_size == 0]
    for path in paths:
        try:
            tool = detect_format(read_bytes(path), path)
        except FormatError:
            continue
        if tool in logs.READERS:
            by_tool.setdefault(tool, []).append(LogFile(path))
    by_tool = {tool: files for tool, files in by_tool.items() if kind in (None, tool)}
    if empty and by_tool:
        warnings.warn(
            f"{folder}: files that are empty hold no log: {quoted(empty, 3)}; was their run cut short?",
            AliquotWarning,
            4,
        )
    if len(by_tool) > 1:
        counts = ", ".join(f"{tool} {len(files)}" for tool, files in by_tool.items())
        raise FormatError(
            f"{folder}: holds logs of several tools ({counts}); choose one, e.g. `format={next(iter(by_tool))}`"
        )
    return next(iter(by_tool.items()), None)


def _read_parquet(raw: bytes, path: Path | str, options: LoadOptions) -> EvalSet:
    try:
        with silence_panics():
            evalset = parquet.read(raw, path)
    except PARQUET_ERRORS as error:
        raise build_parquet_error(path, error) from None
    if not evalset.systems and not options.sources_only:
        raise FormatError(f"{path}: no item has a system (columns 'tgt' and 'scores' are absent); add one of them")
    return evalset


# -- flipping and naming the human score ---------------------------------------------------------------------------


def _flip_score(evalset: EvalSet, name: str, absent: Absent | None) -> EvalSet:
    """Negate a score, a criterion's judgments, or all judgments (`human`), with the scores that come from them."""
    judged = evalset.judgments
    criteria = [] if judged is None else judged.criteria
    criterion = next((c for c in criteria if name in (c, f"human_{c}")), None)
    of_judgments = judged is not None and (criterion is not None or name in ("human", "value"))
    if name not in evalset.scores and not of_judgments:
        error = unknown_name("score", name, [*evalset.scores, *criteria], "check `lower_is_better`")
        if absent is None:
            raise error
        absent[f"lower:{name}"] = error
        return evalset
    if name in evalset.flipped:
        raise OptionError(f"{evalset.name}: '{name}' was already flipped (higher is better now); do not flip it again")
    if judged is None or not of_judgments:
        return evalset.with_score(name, evalset.scores[name], lower_is_better=True)
    scores = [f"human_{c}" for c in criteria if criterion in (None, c)] + ["human"] * (criterion is None)
    averaged = criterion is not None and "human" in evalset.scores and _is_human_mean(evalset)
    chosen = pl.lit(True) if criterion is None else pl.col("criterion") == criterion
    table = judged.table.with_columns(pl.when(chosen).then(-pl.col("value")).otherwise("value").alias("value"))
    evalset = replace(evalset, judgments=Judgments(table))
    for score in scores:
        if score in evalset.scores:
            evalset = evalset.with_score(score, evalset.scores[score], lower_is_better=True)
    return evalset.aggregate() if averaged else evalset


def _is_human_mean(evalset: EvalSet) -> bool:
    """Return whether `human` is the mean of the judgments."""
    return np.array_equal(evalset.aggregate().scores["human"], evalset.scores["human"], equal_nan=True)


def _set_human(evalset: EvalSet, human: str | None) -> EvalSet:
    if human is not None:
        if human not in evalset.scores:
            raise unknown_name("score", human, evalset.scores, "name it with `human`")
        return evalset.with_human(human)
    return evalset if evalset.human is not None else evalset.with_human(guess_human_score(evalset.scores))
