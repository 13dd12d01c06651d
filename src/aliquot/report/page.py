"""`make_report`: one page about one or several test sets, to send to somebody who has no Python.

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
from aliquot.core.result import Result, signature
from aliquot.core.written import latex, markdown
from aliquot.errors import MissingExtraError, OptionError, unknown_name
from aliquot.io.formats import tables
from aliquot.io.inputs import DataLike, JudgmentsLike, SelectionLike
from aliquot.io.writing import write_bytes
from aliquot.report import method_text
from aliquot.report.findings import Findings, Options, findings

PARTS = ("agreement", "metrics", "plan", "datasheet")
"""Parts of a report that can be left out."""
_LONGEST_NAME = 48
_ENDINGS = (".html", ".htm")


@dataclass(frozen=True, eq=False)
class SetReport(Result):
    """One test set of a report: the sections with their verdicts, the results behind them, texts to paste."""

    name: str
    sections: tuple[Any, ...]  # of aliquot.report.sections.Section
    findings: Findings
    texts: Mapping[str, str]  # method paragraph and tables, by their kind

    def to_frame(self) -> pl.DataFrame:
        """One row per section: the question and its verdict."""
        rows = [(part.title, part.verdict) for part in self.sections]
        return pl.DataFrame(rows, schema=["question", "verdict"], orient="row")

    def document(self) -> dict[str, Any]:
        """Sections, results of the verbs, texts."""
        found = self.findings
        return {
            "name": self.name,
            "sections": [{"id": one.id, "title": one.title, "verdict": one.verdict} for one in self.sections],
            "results": {verb: result.to_dict() for verb, result in found.results.items()},
            "texts": self.texts,
            "signatures": found.signatures,
            "left_out": found.left_out,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """The result of `make_report`."""

    title: str
    sets: tuple[SetReport, ...]
    html: str  # the whole page
    signature: str

    def __repr__(self) -> str:
        return f"Report({', '.join(one.name for one in self.sets)}: {len(self.html) / 1e6:.2f} MB)"

    def save(self, path: str | Path) -> None:  # type: ignore[override]  # one HTML page
        """Write the page, whole or not at all."""
        require_page(Path(path))
        write_bytes(path, self.html.encode("utf-8", "replace"))

    def to_frame(self) -> pl.DataFrame:
        """One row per section: the test set, the question and its verdict."""
        rows = [(one.name, part.title, part.verdict) for one in self.sets for part in one.sections]
        return pl.DataFrame(rows, schema=["data", "question", "verdict"], orient="row")

    def document(self) -> dict[str, Any]:
        """All but the page itself."""
        return self.fields_without("html")

    def _repr_html_(self) -> str:
        """Show the page inside a notebook, in a frame of its own."""
        return f'<iframe sandbox="allow-scripts" width="100%" height="600" srcdoc="{escape.html(self.html)}"></iframe>'


def require_page(path: Path) -> None:
    """Refuse, before any work, an ending that is no page or a machine without Jinja."""
    if str(path) != "-" and not path.name.removesuffix(".gz").lower().endswith(_ENDINGS):
        raise OptionError(f"{path}: a report is a page; use .html")
    _jinja()


def _jinja() -> Any:
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
    target: str = "testset",
    clean: str | None = None,
    without: Sequence[str] = (),
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
    _jinja()
    for part in without:
        if part not in PARTS:
            raise unknown_name("part", part, PARTS, "check --without / without=")
    sets = list(data) if isinstance(data, (list, tuple)) else [data]
    options = Options(method, human, criterion, level, alpha, target, clean, frozenset(PARTS) - set(without), seed)
    chosen, answers = _each(selection, len(sets), "selection"), _each(judgments, len(sets), "judgments")
    found = []
    for at, (one, drawn, made) in enumerate(zip(sets, chosen, answers, strict=True)):
        if progress is not None:
            progress(at, len(sets))
        found.append(_set_report(findings(one, drawn, made, options), examples))
    heading = title or f"Human evaluation: {', '.join(one.name for one in found)}"
    line = signature(
        "report",
        None,
        method=None if method == "auto" else method,
        human=human,
        criterion=criterion,
        clean=clean,
        without=",".join(without) or None,
        seed=seed,
        data=",".join(_fingerprint(one.findings) for one in found),
    )
    return Report(heading, tuple(found), render(heading, found, line), line)


def _each(given: Any, count: int, what: str) -> list[Any]:
    """One for each test set; None for none; several judgments for one test set are all about it."""
    if given is None:
        return [None] * count
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    if count == 1 and len(several) > 1 and what == "judgments":
        return [several]
    if len(several) != count:
        raise OptionError(
            f"{count} test set{'s' * (count != 1)} and {len(several)} {what}: give one for each, in the "
            "same order, or none"
        )
    return several


def _fingerprint(found: Findings) -> str:
    if found.comparison is not None:
        return found.comparison.signature.rpartition("data:")[2]
    return "" if found.data is None else found.data.fingerprint


def _set_report(found: Findings, most: int) -> SetReport:
    from aliquot.report import campaign_sections, sections  # noqa: PLC0415  (they need markupsafe, of an extra)
    from aliquot.report.examples import examples  # noqa: PLC0415

    texts = paste_texts(found)
    makers: tuple[Callable[[], Any], ...] = (
        lambda: sections.best(found),
        lambda: sections.pairs(found),
        lambda: campaign_sections.judged(found),
        lambda: campaign_sections.trust(found),
        lambda: campaign_sections.metrics(found),
        lambda: examples(found, most),
        lambda: sections.enough(found),
        lambda: _method(found, texts),
    )
    made = tuple(section for section in (make() for make in makers) if section is not None)
    return SetReport(found.name, made, found, texts)


# -- Texts to paste --------------------------------------------------------------------------------------------------


def paste_texts(found: Findings) -> dict[str, str]:
    """The method paragraph, the references and the table of systems, for each medium."""
    pieces = method_text.paragraph(found)
    keys = method_text.cited(pieces) + (["shimorina2022"] if found.datasheet is not None else [])
    result = found.estimates if found.estimates is not None else found.comparison
    if result is None:
        return {}
    frame = result.to_frame()
    narrow = [name for name in _COLUMNS if name in frame.columns]
    return {
        "method.md": method_text.to_markdown(pieces),
        "method.tex": method_text.to_latex(pieces),
        "references.bib": method_text.bibtex(keys),
        "systems.tex": latex(frame.select(narrow)),
        "systems.md": markdown(frame.select(narrow)),
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


def _method(found: Findings, texts: Mapping[str, str]) -> Any:
    from aliquot.report.datasheet import check, render  # noqa: PLC0415
    from aliquot.report.sections import Section  # noqa: PLC0415

    sheet, rendered = found.datasheet, ""
    says = "Every number can be computed again: the signatures below hold method, seed and a digest of the data."
    if sheet is not None:
        status = check(sheet)
        says += f" The datasheet (HEDS 2.0) has {status.answered} of {status.questions} answers."
        rendered = _lowered(render(sheet, "html", fragment=True))
    shown = {
        "texts": texts,
        "signatures": found.signatures,
        "datasheet": rendered,
        "left_out": found.left_out,
        "labels": _LABELS,
    }
    return Section("method", "Method: texts to paste, and how to reproduce", says, "method.html", shown)


_LABELS = {
    "method.md": "Method paragraph, Markdown",
    "method.tex": "Method paragraph, LaTeX",
    "references.bib": "References, BibTeX",
    "systems.tex": "Table, LaTeX (booktabs)",
    "systems.md": "Table, Markdown",
    "systems.csv": "Table, CSV",
}


def _lowered(page: str) -> str:
    """The datasheet inside another page: headings two levels down, ids and links to them left out."""
    body = re.sub(r"<nav>.*?</nav>", "", page, flags=re.DOTALL)
    body = re.sub(r' id="[^"]*"', "", body)
    return re.sub(r"(</?h)([1-4])\b", lambda found: f"{found.group(1)}{min(6, int(found.group(2)) + 3)}", body)


# -- The page --------------------------------------------------------------------------------------------------------


def render(title: str, sets: Sequence[SetReport], line: str) -> str:
    """Return the page."""
    style, script = _file("page.css"), _file("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    template = _environment().get_template("page.html")
    page: str = template.render(
        title=title,
        sets=sets,
        signature=line,
        version=__version__,
        style=Html(style),
        script=Html(script),
        policy=policy,
        letters=_letters([name for one in sets for name in one.findings.systems]),
    )
    return page


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _file(name: str) -> str:
    return (resources.files("aliquot.report") / "templates" / name).read_text("utf-8")


@cache
def _environment() -> Any:
    jinja2 = _jinja()

    def shown(value: Any) -> Any:
        """Escape every text by the rules of the one place for it, controls included."""
        return escape.html(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[],
    )
    environment.filters["who"] = jinja2.pass_context(_who)
    environment.filters["named"] = jinja2.pass_context(_named)
    environment.filters["sheet"] = Html  # the datasheet's own page, escaped by its renderer
    return environment


# -- Names, and the letters that stand for them where the reader wants to be blind -----------------------------------


def _letters(systems: Sequence[str]) -> dict[str, str]:
    """A letter for each system, in an order that says nothing about its rank."""
    order = sorted(set(systems), key=lambda name: hashlib.sha256(name.encode("utf-8", "replace")).digest())
    return {name: f"System {_letter(at)}" for at, name in enumerate(order)}


def _letter(at: int) -> str:
    """A, B, ..., Z, AA, AB, ...

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', 'AA')
    """
    rest, place = divmod(at, 26)
    return (_letter(rest - 1) if rest else "") + chr(ord("A") + place)


def short_name(name: str) -> str:
    """A name that is longer than a table can hold, without its middle.

    >>> len(short_name("x" * 300))
    48
    """
    if len(name) <= _LONGEST_NAME:
        return name
    half = (_LONGEST_NAME - 1) // 2
    return f"{name[:half]}…{name[-half - 1 :]}"


def _who(context: Any, name: str) -> Any:
    """A system's name, and its letter, of which the page shows one."""
    letter = context["letters"].get(name)
    if letter is None:
        return Html(f"<bdi>{escape.html(short_name(name))}</bdi>")
    return Html(
        f'<bdi class="who"><span class="named">{escape.html(short_name(name))}</span>'
        f'<span class="letter">{letter}</span></bdi>'
    )


def _named(context: Any, sentence: str) -> Any:
    """A sentence in which every system's name can be blinded."""
    names = sorted(context["letters"], key=len, reverse=True)
    if not names:
        return sentence
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names))
    pieces, at = [], 0
    for hit in pattern.finditer(sentence):
        pieces += [escape.html(sentence[at : hit.start()]), str(_who(context, hit.group()))]
        at = hit.end()
    return Html("".join([*pieces, escape.html(sentence[at:])]))
