"""`make_report`: one page about one or several test sets, for readers without Python.

The page is one HTML file that asks for nothing: style, script and drawings are inside, and a content security policy
forbids any request. Every text goes through `core.escape` by Jinja's autoescape.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from aliquot._version import __version__
from aliquot.core import escape
from aliquot.core.escape import Html
from aliquot.core.result import Result, make_signature
from aliquot.core.view import View
from aliquot.core.written import render_latex, render_markdown
from aliquot.errors import MissingExtraError, OptionError
from aliquot.estimation.targets import Target
from aliquot.io.formats import tables
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike
from aliquot.io.writing import write_bytes
from aliquot.report import method_text
from aliquot.report.blocks import Section, Template, render_block
from aliquot.report.findings import PARTS, Findings, Part, ReportOptions, gather_findings
from aliquot.report.html_tables import MAX_NAME, TableStyle, shorten_name, write_name
from aliquot.validation import one_of

_ENDINGS = (".html", ".htm")
_MAX_ROWS = 20  # of a table; the others are folded away


@dataclass(frozen=True, eq=False)
class SetReport(Result):
    """One test set of a report: the sections with their verdicts, the results behind them, texts to paste."""

    name: str
    sections: tuple[Section, ...]
    findings: Findings
    texts: Mapping[str, str]  # method paragraph and tables, by their kind

    def to_frame(self) -> pl.DataFrame:
        """Return one row per section: the question and its verdict."""
        rows = [(section.title, section.verdict) for section in self.sections]
        return pl.DataFrame(rows, schema=["question", "verdict"], orient="row")

    def views(self) -> tuple[View, ...]:
        """Return the questions with their answers."""
        return tuple(View(section.id, intro=(section.title, section.verdict)) for section in self.sections)

    def document(self) -> dict[str, Any]:
        """Return sections, results of the verbs and texts."""
        return {
            "name": self.name,
            "sections": [{"id": part.id, "title": part.title, "verdict": part.verdict} for part in self.sections],
            "results": {verb: result.to_dict() for verb, result in self.findings.results.items()},
            "texts": self.texts,
            "signatures": self.findings.signatures,
            "left_out": self.findings.left_out,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """The result of `make_report`."""

    title: str
    sets: tuple[SetReport, ...]
    html: str  # the whole page
    signature: str

    def __repr__(self) -> str:
        return f"Report({', '.join(part.name for part in self.sets)}: {self.megabytes:.2f} MB)"

    @property
    def megabytes(self) -> float:
        """The size of the page."""
        return len(self.html.encode("utf-8", "replace")) / 1e6

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not in the report, and why."""
        return tuple(f"not in this report: {line}" for part in self.sets for line in part.findings.left_out)

    def save(self, path: str | Path) -> None:  # type: ignore[override]  # one HTML page
        """Write the page, whole or not at all."""
        require_page(Path(path))
        write_bytes(path, self.html.encode("utf-8", "replace"))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per section: the test set, the question and its verdict."""
        return pl.concat(part.to_frame().insert_column(0, pl.lit(part.name).alias("data")) for part in self.sets)

    def views(self) -> tuple[View, ...]:
        """Return the questions with their answers, test set by test set."""
        names = [(View(part.name, intro=(part.name,)),) if len(self.sets) > 1 else () for part in self.sets]
        return tuple(view for name, part in zip(names, self.sets, strict=True) for view in (*name, *part.views()))

    def document(self) -> dict[str, Any]:
        """Return all fields but the page."""
        return self.fields_without("html")

    def _repr_html_(self) -> str:
        """Show the page inside a notebook, in a frame of its own."""
        return f'<iframe sandbox="allow-scripts" width="100%" height="600" srcdoc="{escape.html(self.html)}"></iframe>'


def require_page(path: Path) -> None:
    """Raise before any work where the ending is not that of a page, or Jinja is not installed."""
    if str(path) != "-" and not path.name.removesuffix(".gz").lower().endswith(_ENDINGS):
        raise OptionError(f"{path}: a report is a page; use .html")
    _import_jinja()


def _import_jinja() -> Any:
    try:
        import jinja2  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("the report page needs Jinja; install it with: pip install 'aliquot[report]'") from None
    return jinja2


def make_report(
    data: DataLike | Sequence[DataLike],
    *,
    selection: SelectionLike | Sequence[SelectionLike] | None = None,
    judgments: JudgmentsLike | Sequence[JudgmentsLike] | None = None,
    title: str | None = None,
    method: str = "auto",
    human: str | None = None,
    criterion: str | None = None,
    level: float = 0.95,
    alpha: float = 0.05,
    target: Target = "testset",
    clean: str | None = None,
    without: Sequence[Part | str] = (),
    examples: int = 20,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Make one page that answers the questions about a campaign, in the order people ask them.

    The function is not called `report`, because that is the package it lives in.

    Args:
        data: the whole test set, or several; or a table of choices (see `compare`).
        selection: how the judged items were chosen; for several test sets one each, in the same order.
        judgments: people's answers, where they are not in the data: scores, or a table of choices; for one test set
            several files or tables, for several test sets one each.
        title: of the page.
        method: the estimator, as in `estimate`.
        human: the name of the human score.
        criterion: which of several criteria.
        level: coverage of intervals.
        alpha: significance of clusters and pairs.
        target: what the estimates are about, as in `estimate`.
        clean: a preset of `clean` to run first; its audit is part of the page.
        without: parts to leave out: agreement, metrics, plan, datasheet. Parts that the data do not allow are left out
            anyway.
        examples: items to show in full, at most.
        seed: same seed, same page.
        progress: called with finished and all test sets.

    Raises:
        MissingExtraError: Jinja is not installed.

    >>> import aliquot
    >>> data = aliquot.synthetic(items=60, systems=3, seed=5)
    >>> page = aliquot.make_report(data, without=["plan", "metrics"])
    >>> [section.id for section in page.sets[0].sections]
    ['best', 'pairs', 'judged', 'trust', 'examples', 'method']
    """
    _import_jinja()
    parts = frozenset(PARTS) - {one_of("without", part, PARTS) for part in without}
    sources = list(data) if isinstance(data, (list, tuple)) else [data]
    options = ReportOptions(method, human, criterion, level, alpha, target, clean, parts, seed)
    selections = _match_sources(selection, len(sources), "selection")
    answers = _match_sources(judgments, len(sources), "judgments")
    sets = []
    for index, inputs in enumerate(zip(sources, selections, answers, strict=True)):
        if progress is not None:
            progress(index, len(sources))
        sets.append(_report_set(gather_findings(*inputs, options), examples))
    heading = title or f"Human evaluation: {', '.join(part.name for part in sets)}"
    line = make_signature(
        "report",
        None,
        method=None if method == "auto" else method,
        human=human,
        criterion=criterion,
        clean=clean,
        without=",".join(without) or None,
        seed=seed,
        data=",".join(_digest_data(part.findings) for part in sets),
    )
    return Report(heading, tuple(sets), render_page(heading, sets, line), line)


def _match_sources(inputs: Any, count: int, parameter: str) -> list[Any]:
    """Return one input for each test set, None for none; several judgments for one test set are all about it."""
    if inputs is None:
        return [None] * count
    several = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if count == 1 and len(several) > 1 and parameter == "judgments":
        return [several]
    if len(several) != count:
        raise OptionError(
            f"{count} test set{'s' * (count != 1)} and {len(several)} times `{parameter}`: give it once for each, in "
            "the same order, or not at all",
            parameter,
        )
    return several


def _digest_data(findings: Findings) -> str:
    if findings.comparison is not None:
        return findings.comparison.signature.rpartition("data:")[2]
    return "" if findings.data is None else findings.data.fingerprint


def _report_set(findings: Findings, max_examples: int) -> SetReport:
    from aliquot.report import campaign_sections, sections  # noqa: PLC0415  (slow to import)
    from aliquot.report.examples import show_examples  # noqa: PLC0415  (likewise)

    texts = write_paste_texts(findings)
    parts = (
        sections.rank_systems(findings),
        sections.compare_pairs(findings),
        campaign_sections.describe_campaign(findings),
        campaign_sections.check_trust(findings),
        campaign_sections.assess_metrics(findings),
        show_examples(findings, max_examples),
        sections.judge_budget(findings),
        _describe_method(findings, texts),
    )
    return SetReport(findings.name, tuple(part for part in parts if part is not None), findings, texts)


# -- Texts to paste --------------------------------------------------------------------------------------------------


def write_paste_texts(findings: Findings) -> dict[str, str]:
    """Return the method paragraph, the references and the table of systems, for each medium."""
    if findings.ranking is None:
        return {}
    pieces = method_text.write_paragraph(findings)
    keys = method_text.list_citations(pieces) + (["shimorina2022"] if findings.datasheet is not None else [])
    frame = findings.ranking.to_frame()
    narrow = frame.select(name for name in _COLUMNS if name in frame.columns)
    return {
        "method.md": method_text.to_markdown(pieces),
        "method.tex": method_text.to_latex(pieces),
        "references.bib": method_text.to_bibtex(keys),
        "systems.tex": render_latex(narrow),
        "systems.md": render_markdown(narrow),
        "systems.csv": tables.format_csv(frame),
    }


_COLUMNS = (
    "system",
    "estimate",
    "se",
    "low",
    "high",
    "n",
    "rank_low",
    "rank_high",
    "p_best",
    "cluster",
    "win_rate",
    "score",
)
"""Columns of the tables for papers; the CSV has all."""


def _describe_method(findings: Findings, texts: Mapping[str, str]) -> Section:
    from aliquot.report.datasheet import check, render  # noqa: PLC0415  (slow to import)

    sheet, page = findings.datasheet, Html()
    says = "Every number can be computed again: the signatures below hold method, seed and a digest of the data."
    if sheet is not None:
        status = check(sheet)
        says += f" The datasheet (HEDS 2.0) has {status.answered} of {status.questions} answers."
        page = Html(render(sheet, "html", fragment=True, level=4))
    values = {
        "texts": texts,
        "signatures": findings.signatures,
        "datasheet": page,
        "left_out": findings.left_out,
        "labels": _LABELS,
    }
    return Section("method", "Method: texts to paste, and how to reproduce", says, [Template("method.html", values)])


_LABELS = {
    "method.md": "Method paragraph, Markdown",
    "method.tex": "Method paragraph, LaTeX",
    "references.bib": "References, BibTeX",
    "systems.tex": "Table, LaTeX (booktabs)",
    "systems.md": "Table, Markdown",
    "systems.csv": "Table, CSV",
}


# -- The page --------------------------------------------------------------------------------------------------------


def render_page(title: str, sets: Sequence[SetReport], line: str) -> str:
    """Return the page."""
    style, script = _read_template("page.css"), _read_template("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash_source(style)}'; script-src '{_hash_source(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    names = _Names([name for part in sets for name in part.findings.systems])
    tables_style = TableStyle(names.write_name, names.write_text, _MAX_ROWS, max_columns=20, folds=True)
    environment = _make_environment()

    def render_template(name: str, values: Mapping[str, Any]) -> str:
        return str(environment.get_template(name).render(s=values, who=names.write_name))

    page: str = environment.get_template("page.html").render(
        title=title,
        sets=sets,
        signature=line,
        version=__version__,
        style=Html(style),
        script=Html(script),
        policy=policy,
        named=names.write_text,
        show=lambda block: render_block(block, tables_style, render_template),
    )
    return page


def _hash_source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _read_template(name: str) -> str:
    return (resources.files("aliquot.report") / "templates" / name).read_text("utf-8")


@cache
def _make_environment() -> Any:
    jinja2 = _import_jinja()

    def escape_value(value: Any) -> Any:
        """Escape every text by `core.escape`, which covers control characters."""
        return escape.html(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        autoescape=True,
        finalize=escape_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[],
    )


# -- Names, and the letters that stand for them where the reader wants to be blind -----------------------------------


class _Names:
    """Writes systems' names, each with its letter, of which the page shows one."""

    def __init__(self, systems: Sequence[str]) -> None:
        self.letters = assign_letters(systems)
        longest_first = sorted(self.letters, key=len, reverse=True)
        self.pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first) or "(?!)")

    def write_name(self, name: str, limit: int = MAX_NAME) -> Html:
        """Return a system's name with its letter, or any other name."""
        letter = self.letters.get(name)
        if letter is None:
            return write_name(name, limit)
        named = f'<span class="named">{escape.html(shorten_name(name, limit))}</span>'
        return Html(f'<bdi class="who">{named}<span class="letter">{letter}</span></bdi>')

    def write_text(self, sentence: str) -> Html:
        """Return a sentence in which every system's name has its letter."""
        pieces, end = [], 0
        for match in self.pattern.finditer(sentence):
            pieces += [escape.html(sentence[end : match.start()]), self.write_name(match.group())]
            end = match.end()
        return Html("".join([*pieces, escape.html(sentence[end:])]))


def assign_letters(systems: Sequence[str]) -> dict[str, str]:
    """Return a letter for each system, in an order that says nothing about its rank."""
    order = sorted(set(systems), key=lambda name: hashlib.sha256(name.encode("utf-8", "replace")).digest())
    return {name: f"System {_write_letter(place)}" for place, name in enumerate(order)}


def _write_letter(place: int) -> str:
    """Return A, B, ..., Z, AA, AB, ...

    >>> _write_letter(0), _write_letter(25), _write_letter(26)
    ('A', 'Z', 'AA')
    """
    quotient, last = divmod(place, 26)
    return (_write_letter(quotient - 1) if quotient else "") + chr(ord("A") + last)
