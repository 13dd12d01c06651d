"""Load judgments: from one or several files or tables, alone or beside the data they are about."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, OptionError, quoted
from aliquot.io.formats import mqm
from aliquot.io.formats.table_columns import Absent
from aliquot.io.formats.table_files import Table
from aliquot.io.formats.tables import Wide
from aliquot.io.judgment_sources import join_judgments, name_sources
from aliquot.io.load import Format, LoadOptions, list_absent, load_source

JudgmentSource = str | Path | EvalSet | Judgments | Table


def load_judgments(
    source: JudgmentSource | Sequence[JudgmentSource],
    *,
    columns: Mapping[str, str] | None = None,
    wide: Wide | None = None,
    lower_is_better: Sequence[str] = (),
    answer: str | None = None,
    format: Format | None = None,  # noqa: A002  (the public name)
    mqm_weights: mqm.MQMWeights | None = None,
    key: str | Path | None = None,
    human: str | None = None,
) -> Judgments:
    r"""Load judgments from one or several files or Polars or pandas tables.

    Rows of several sources stand in the order given, with the name of the file in a column `source` (unless they have
    such a column); a column that one of them lacks is empty there. Rows of named annotators that two sources have count
    once; a note tells of answers that differ between sources, whose mean counts, and of different scales. A file
    without single judgments gives its human score (or its only score) as judgments without an annotator.

    Args:
        source: what `load` reads, or a table in memory, or a list of these; Judgments and an EvalSet's judgments are
            returned as they are.
        columns: as for `load`; of several sources at least one must have the column.
        wide: as for `load`; with annotators, "metrics" are criteria.
        lower_is_better: criteria whose values to flip, or "human" for all.
        answer: as for `load`.
        format: as for `load`.
        mqm_weights: as for `load`.
        key: as for `load`.
        human: of files without single judgments, the score that people gave.

    >>> import aliquot, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "judgments.csv"
    >>> _ = path.write_text("segment_id,model,rater,score\n1,A,ann,30\n1,B,bob,35\n")
    >>> aliquot.load_judgments(path)
    Judgments(2 rows, 1 item, 2 systems, 2 annotators)
    """
    options = LoadOptions(format, human, lower_is_better, columns, wide, None, answer, None, mqm_weights, key=key)
    return _load_judgment_sources(source, options)


def load_with_judgments(
    data: str | Path,
    judgments: JudgmentSource | Sequence[JudgmentSource],
    *,
    answer: str | None = None,
    key: str | Path | None = None,
    judged: str | None = None,
    **options: Any,
) -> tuple[EvalSet, Judgments]:
    """Load data, and judgments from separate files, with shared options of `load`.

    A column or score that an option names must be in at least one of the files. The options format, human, pair and
    score_name are about the data, `answer`, `key` and `judged`, the name of the score that people gave, about the
    judgments.
    """
    in_data = list_absent(options.get("columns"))
    evalset = load_source(data, LoadOptions(**options, absent=in_data))
    shared = {name: options[name] for name in ("lower_is_better", "columns", "wide", "mqm_weights") if name in options}
    return evalset, _load_judgment_sources(
        judgments, LoadOptions(**shared, answer=answer, key=key, human=judged), in_data
    )


def _load_judgment_sources(
    source: JudgmentSource | Sequence[JudgmentSource], options: LoadOptions, in_data: Absent | None = None
) -> Judgments:
    """Load one or several sources; columns that options name must be in one of them, or in the data (`in_data`)."""
    sources: list[Any] = list(source) if isinstance(source, (list, tuple)) else [source]
    if not sources:
        raise OptionError("judgments are an empty list; give at least one file or table")
    if len(sources) == 1 and in_data is None:
        return _load_judgment_source(sources[0], options)
    absent = [list_absent(options.columns) for _ in sources]
    parts = [
        _load_judgment_source(part, replace(options, absent=out)) for part, out in zip(sources, absent, strict=True)
    ]
    for name, error in absent[-1].items():
        if all(name in errors for errors in (*absent, *([] if in_data is None else [in_data]))):
            raise error
    return parts[0] if len(parts) == 1 else join_judgments(parts, name_sources(sources), options.answer)


def _load_judgment_source(source: JudgmentSource, options: LoadOptions) -> Judgments:
    if isinstance(source, Judgments):
        return source
    if isinstance(source, EvalSet):
        return _extract_judgments(source, source.name, options.human)
    human, options = options.human, replace(options, human=None)  # files that lack this score may have judgments
    if isinstance(source, (str, Path)):
        return _extract_judgments(load_source(source, options), source, human)
    return _extract_judgments(load_source(source, replace(options, judgments=True)), "the table", human)


def _extract_judgments(evalset: EvalSet, where: str | Path, human: str | None = None) -> Judgments:
    """Return the judgments of a set; without any, its human score, the one named, or the only one."""
    if evalset.judgments is not None:
        return evalset.judgments
    name = human if human in evalset.scores else evalset.human
    if name is None and len(evalset.scores) == 1:
        name = next(iter(evalset.scores))
    if name is None and evalset.scores:
        first = shlex.quote(next(iter(evalset.scores)))
        raise DataError(
            f"{where}: no judgments in it, but the scores {quoted(evalset.scores)}; name the one that people gave, "
            f"e.g. `human={first}`, or give a table with the columns item, system, annotator and value"
        )
    if name is None:
        raise DataError(f"{where}: no judgments in it; a table of them has item, system, value and best an annotator")
    n, m = evalset.n_items, evalset.n_systems
    cells = pl.DataFrame(
        [
            evalset.items["id"].gather(np.repeat(np.arange(n), m)).alias("item"),
            pl.Series("system", list(evalset.systems) * n, dtype=pl.String),
            pl.Series("value", evalset.scores[name].ravel(), nan_to_null=True),
        ]
    )
    return Judgments(cells.drop_nulls("value"))
