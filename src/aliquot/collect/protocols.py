"""Protocols: what annotators are asked, declared in TOML. Presets are files in `presets/`.

A protocol has widgets. Each widget asks one thing about an output, an item, a document, or the annotator. What is wrong
with a user's file is said with the file, the line and a remedy.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl

from aliquot.annotation.clean import clean
from aliquot.core.judgments import Judgments
from aliquot.errors import AliquotError, FormatError, NameUnknownError, quoted, unknown_name
from aliquot.io.files import decode_text, read_bytes

Scope = Literal["output", "item", "document", "annotator"]
ANCHOR = re.compile(r"-?\d+(\.\d+)?")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: unknown keys are errors."""


# -- widgets -------------------------------------------------------------------------------------------------------


class Score(_Table, frozen=True, tag_field="kind", tag="score"):
    """A number: a slider, a Likert scale, or SQM's scale with labelled steps; one for each of several criteria."""

    name: str = "score"
    label: str | None = None
    scope: Scope = "output"
    required: bool = True
    style: Literal["slider", "likert", "sqm"] = "slider"
    low: float = 0.0
    high: float = 100.0
    step: float = 1.0
    anchors: dict[str, str] = {}
    criteria: tuple[str, ...] = ()


class Severity(_Table, frozen=True):
    """How bad an error is: its name, the key that chooses it, and what it costs in MQM."""

    name: str
    key: str | None = None
    label: str | None = None
    weight: float = 0.0


class Spans(_Table, frozen=True, tag_field="kind", tag="spans"):
    """Errors marked in the text, with a severity and perhaps a category."""

    name: str = "errors"
    label: str | None = None
    scope: Scope = "output"
    required: bool = True
    severities: tuple[Severity, ...] = (Severity(name="minor", weight=1.0), Severity(name="major", weight=5.0))
    categories: dict[str, tuple[str, ...]] = {}
    on_source: bool = False
    overlap: bool = True
    prefill: str | None = None


class Choice(_Table, frozen=True, tag_field="kind", tag="choice"):
    """A comparison of outputs shown side by side."""

    name: str = "choice"
    label: str | None = None
    scope: Scope = "item"
    required: bool = True
    style: Literal["pairwise", "best-worst", "ranking"] = "pairwise"
    ties: bool = True
    strength: int = 0


class Text(_Table, frozen=True, tag_field="kind", tag="text"):
    """A text: the corrected output (`postedit`), or a comment."""

    name: str = "text"
    label: str | None = None
    scope: Scope = "output"
    required: bool = False
    style: Literal["postedit", "comment"] = "comment"


class Field(_Table, frozen=True):
    """One field of a form."""

    name: str
    label: str | None = None
    kind: Literal["text", "number", "select", "checkbox", "consent"] = "text"
    options: tuple[str, ...] = ()
    required: bool = True


class Form(_Table, frozen=True, tag_field="kind", tag="form"):
    """Questions to the annotator, once: consent, demographics."""

    name: str = "form"
    label: str | None = None
    scope: Scope = "annotator"
    required: bool = True
    fields: tuple[Field, ...] = ()


Widget = Score | Spans | Choice | Text | Form


# -- what the server checks and pays -------------------------------------------------------------------------------


class Gold(_Table, frozen=True):
    """An output whose score is known to lie in a range."""

    item: int | str
    system: str
    low: float
    high: float


class Checks(_Table, frozen=True):
    """Quality control that annotators do not see."""

    damaged: float = 0.0
    repeats: float = 0.0
    gold: tuple[Gold, ...] = ()
    floor_seconds_per_char: float = 0.0
    clean: str = ""  # cleaning steps, as `aliquot clean --steps` takes them, before live estimates
    action: Literal["mark", "pause"] = "mark"


class Example(_Table, frozen=True):
    """One example of a tutorial: what is shown, which scores are right, and what to say then."""

    output: str
    feedback: str
    source: str | None = None
    reference: str | None = None
    low: float | None = None
    high: float | None = None


class Tutorial(_Table, frozen=True):
    """Examples with feedback before the work begins."""

    examples: tuple[Example, ...] = ()
    instructions: str = ""


class Question(_Table, frozen=True):
    """One question of a quiz; `answer` is one of the options."""

    question: str
    options: tuple[str, ...]
    answer: str
    feedback: str = ""


class Quiz(_Table, frozen=True):
    """Questions on the instructions; whoever fails all attempts is screened out."""

    questions: tuple[Question, ...] = ()
    attempts: int = 2


class PaymentRules(_Table, frozen=True):
    """What annotators are paid."""

    currency: str = "EUR"
    per_unit: float = 0.0
    bonus: float = 0.0


class Crowd(_Table, frozen=True):
    """The codes that a provider wants back, and where people return to; {code} stands for the code."""

    completed: str = ""
    screened_out: str = ""
    failed: str = ""
    return_url: str = ""

    def codes(self) -> dict[str, str]:
        """Outcome -> code, where the study names one."""
        named = {"completed": self.completed, "screened_out": self.screened_out, "failed": self.failed}
        return {outcome: code for outcome, code in named.items() if code}


class Protocol(_Table, frozen=True, kw_only=True):
    """How outputs are judged.

    >>> load_protocol("da").widgets[0].high
    100.0
    """

    name: str
    title: str
    instructions: str
    unit: Literal["output", "side-by-side", "document"] = "output"
    show: int | Literal["all"] = "all"
    context: int = 2
    source: bool = True
    reference: bool = False
    locale: str = "en"
    widgets: tuple[Widget, ...]
    checks: Checks = Checks()
    tutorial: Tutorial = Tutorial()
    quiz: Quiz = Quiz()
    payment: PaymentRules = PaymentRules()
    crowd: Crowd = Crowd()
    facts: dict[str, str] = {}

    def of_scope(self, scope: str) -> tuple[Widget, ...]:
        """Return the widgets that ask about an output, an item, a document or the annotator."""
        return tuple(widget for widget in self.widgets if widget.scope == scope)

    def widget(self, name: str) -> Widget | None:
        """Return a widget by its name."""
        return next((widget for widget in self.widgets if widget.name == name), None)

    @property
    def side_by_side(self) -> bool:
        """Whether several systems are shown at once."""
        return self.unit != "output"

    def for_page(self) -> dict[str, Any]:
        """Return what the page needs; checks, right answers and the data's columns stay on the server."""
        fields = {
            name: getattr(self, name) for name in ("name", "title", "instructions", "unit", "source", "reference")
        }
        widgets: list[dict[str, Any]] = [msgspec.to_builtins(widget) for widget in self.widgets]
        for widget in widgets:
            widget.pop("prefill", None)
            for severity in widget.get("severities", ()):
                severity.pop("weight", None)
        return {**fields, "widgets": widgets}


# -- reading -------------------------------------------------------------------------------------------------------


def list_protocols() -> tuple[str, ...]:
    """Return the names of the presets.

    >>> "esa" in list_protocols()
    True
    """
    folder = resources.files("aliquot.collect") / "presets"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def protocol_text(protocol: str | Path) -> tuple[str, str]:
    """Return the TOML of a preset or a file, and where it came from."""
    name = str(protocol)
    if name in list_protocols():
        return (resources.files("aliquot.collect") / "presets" / f"{name}.toml").read_text("utf-8"), f"preset {name}"
    if not name.endswith(".toml") and not Path(name).exists():
        raise NameUnknownError(f"{unknown_name('protocol', name, list_protocols())}; or name a .toml file of your own")
    return decode_text(read_bytes(name), name), name


def load_protocol(protocol: str | Path | Protocol) -> Protocol:
    """Return a preset by its name, or read one from a TOML file; raise for values that fail later."""
    if isinstance(protocol, Protocol):
        text, where, loaded = "", f"protocol '{protocol.name}'", protocol
    else:
        text, where = protocol_text(protocol)
        loaded = read_protocol(text, where)
    for path, message in (*_list_faults(loaded), *_list_cleaning_faults(loaded)):
        raise FormatError(f"{where}{_locate_line(text, path)}: {message}")
    return loaded


def read_protocol(text: str, where: str) -> Protocol:
    r"""Read a protocol; errors name the place, the line and the remedy.

    >>> read_protocol('name = "x"\ntitle = "X"\ninstructions = ""\nwidgets = []\n', "x.toml")
    Traceback (most recent call last):
        ...
    aliquot.errors.FormatError: x.toml line 4: a protocol needs at least one widget; add a table [[widgets]]
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = f" line {match.group(1)}" if match else ""
        what = str(error).split(" (at ")[0]
        raise FormatError(f"{where}{line}: not valid TOML ({what}); correct the line") from None
    except RecursionError:
        raise FormatError(f"{where}: nested too deeply to be a protocol; make it flatter") from None
    try:
        protocol = msgspec.convert(table, Protocol)
    except msgspec.ValidationError as error:
        raise _build_format_error(text, where, str(error)) from None
    for path, message in _list_faults(protocol):
        raise FormatError(f"{where}{_locate_line(text, path)}: {message}")
    return protocol


_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _build_format_error(text: str, where: str, message: str) -> FormatError:
    """Turn msgspec's message into plain words with the line."""
    what, _, path = message.partition(" - at `")
    path = path.rstrip("`").removeprefix("$").lstrip(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    missing = re.fullmatch(r"Object missing required field `(.*)`", what)
    wrong = re.fullmatch(r"Expected `(.*)`, got `(.*)`", what)
    place = f"{path}: " if path else ""
    if unknown is not None:
        path = f"{path}.{unknown.group(1)}".lstrip(".")
        keys = _list_keys(path)
        problem = str(unknown_name("key", unknown.group(1), keys)) if keys else f"no key '{unknown.group(1)}'"
        return FormatError(f"{where}{_locate_line(text, path)}: {place}{problem}; correct or remove it")
    if missing is not None:
        return FormatError(f"{where}{_locate_line(text, path)}: {place}the key '{missing.group(1)}' is missing; add it")
    if wrong is not None:
        expected, got = (" or ".join(_WORDS.get(k, k) for k in part.split(" | ")) for part in wrong.groups())
        return FormatError(f"{where}{_locate_line(text, path)}: {place}should be {expected}, found {got}; correct it")
    return FormatError(
        f"{where}{_locate_line(text, path)}: {place}{what[:1].lower()}{what[1:]}{_list_choices(path)}; correct it"
    )


_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Protocol,
    "checks": Checks,
    "checks.gold": Gold,
    "tutorial": Tutorial,
    "tutorial.examples": Example,
    "quiz": Quiz,
    "quiz.questions": Question,
    "payment": PaymentRules,
    "crowd": Crowd,
    "widgets.severities": Severity,
    "widgets.fields": Field,
}


def _table_of(path: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", path).rpartition(".")[0]


def _list_keys(path: str) -> tuple[str, ...]:
    table = _table_of(path)
    if table == "widgets":
        return tuple(
            dict.fromkeys(key for kind in (Score, Spans, Choice, Text, Form) for key in kind.__struct_fields__)
        )
    return _TABLES[table].__struct_fields__ if table in _TABLES else ()


_ONE_OF = {
    "style": "slider, likert, sqm (score); pairwise, best-worst, ranking (choice); postedit, comment (text)",
    "kind": "score, spans, choice, text, form",
    "scope": "output, item, document, annotator",
    "unit": "output, side-by-side, document",
    "action": "mark, pause",
}


def _list_choices(path: str) -> str:
    options = _ONE_OF.get(path.rpartition(".")[2])
    return f" (one of {options})" if options else ""


def _locate_line(text: str, path: str) -> str:
    r"""Say on which line the key at a path such as `widgets[1].low` stands, or its table.

    >>> _locate_line('name = "x"\n[[widgets]]\nlow = 1\n[[widgets]]\nlow = 2\n', "widgets[1].low")
    ' line 5'
    """
    parts = [part for part in re.split(r"\.", path) if part]
    if not parts:
        return ""
    best, table = 0, ""
    counts: dict[str, int] = {}
    names = [re.sub(r"\[.*", "", part) for part in parts]
    numbers = [int(match.group(1)) if (match := re.search(r"\[(\d+)\]", part)) else None for part in parts]
    depth = 0
    for number, line in enumerate(text.split("\n"), start=1):
        header = re.match(r"\s*(\[\[?)\s*([\w.\-\" ]+?)\s*\]\]?\s*(#.*)?$", line)
        if header is not None:
            table = header.group(2).replace('"', "").replace(" ", "")
            counts[table] = counts.get(table, -1) + 1
            inside = table.split(".")
            same = inside == names[: len(inside)]
            number_in_path = numbers[len(inside) - 1] if same else None
            if same and (number_in_path is None or number_in_path == counts[table]):
                best, depth = number, len(inside)
            else:
                depth = -1
            continue
        if depth < 0 or len(names) <= depth or (depth == 0 and table):
            continue
        if re.match(rf"\s*[\"']?{re.escape(names[depth])}[\"']?\s*(=|\.)", line):
            return f" line {number}"
    return f" line {best}" if best else ""


# -- what fits together --------------------------------------------------------------------------------------------


def _list_faults(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a protocol whose types are right: where, and what to do."""
    if not protocol.widgets:
        yield "widgets", "a protocol needs at least one widget; add a table [[widgets]]"
    if isinstance(protocol.show, int) and protocol.show < 2:
        yield "show", f'show = {protocol.show}: a comparison shows at least 2 systems; write 2 or more, or "all"'
    if not 0 <= protocol.context <= 50:
        yield "context", f"context = {protocol.context}: the number of neighbours is 0 to 50"
    names = [widget.name for widget in protocol.widgets]
    for number, widget in enumerate(protocol.widgets):
        place = f"widgets[{number}]"
        if names.index(widget.name) != number:
            yield f"{place}.name", f"two widgets are called '{widget.name}'; give each its own name"
        if widget.scope == "item" and protocol.unit == "output":
            problem = f"the widget '{widget.name}' asks about an item, and unit = \"output\" shows one system at a time"
            yield f"{place}.scope", f'{problem}; write scope = "output", or unit = "side-by-side"'
        for key, message in _list_widget_faults(widget, protocol):
            yield f"{place}.{key}", f"the widget '{widget.name}': {message}"
    if not any(_gives_values(widget) for widget in protocol.widgets):
        yield "widgets[0]", "no widget gives a value (score, spans, choice or post-edit); add one"
    yield from _list_check_faults(protocol)


def _gives_values(widget: Widget) -> bool:
    return isinstance(widget, Score | Spans | Choice) or (isinstance(widget, Text) and widget.style == "postedit")


def _list_widget_faults(widget: Widget, protocol: Protocol) -> Iterator[tuple[str, str]]:
    if (widget.scope == "annotator") != isinstance(widget, Form):
        yield "scope", f'scope = "{widget.scope}" does not fit; forms ask the annotator, and nothing else does'
    if isinstance(widget, Score):
        if not widget.low < widget.high:
            yield "high", f"high = {widget.high:g} is not above low = {widget.low:g}; swap or correct them"
        if not 0 < widget.step <= widget.high - widget.low:
            yield "step", f"step = {widget.step:g} should be above 0 and at most {widget.high - widget.low:g}"
        for anchor in widget.anchors:
            if ANCHOR.fullmatch(anchor) is None or not widget.low <= float(anchor) <= widget.high:
                yield "anchors", f"the anchor '{anchor}' is not a number from {widget.low:g} to {widget.high:g}"
        if len(set(widget.criteria)) < len(widget.criteria):
            yield "criteria", "a criterion is named twice; name each once"
    elif isinstance(widget, Spans):
        names = [severity.name for severity in widget.severities]
        if not names or len(set(names)) < len(names):
            yield "severities", "severities need at least one, each with its own name"
        if widget.scope != "output":
            yield "scope", 'errors are marked in outputs; write scope = "output"'
    elif isinstance(widget, Choice):
        if not protocol.side_by_side:
            yield "kind", 'a choice needs several systems on the page; write unit = "side-by-side"'
        if widget.style == "pairwise" and protocol.show != 2:
            yield "style", "a pairwise choice is between 2 systems; write show = 2 above the widgets"
        if widget.style == "best-worst" and isinstance(protocol.show, int) and protocol.show < 3:
            yield "style", "best-worst needs at least 3 systems; write show = 3 or more"
        if widget.scope == "output":
            yield "scope", 'a choice is about an item or a document; write scope = "item" or "document"'
        if not 0 <= widget.strength <= 9:
            yield "strength", f"strength = {widget.strength}: the number of levels is 0 (none) to 9"
    elif isinstance(widget, Form):
        for field in widget.fields:
            if field.kind == "select" and len(field.options) < 2:
                yield "fields", f"the field '{field.name}' needs at least two options"


def _list_cleaning_faults(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """Faults that a stored protocol of an older version may have: its campaign opens, and its page says so.

    The steps are run on one judgment, because most thresholds are checked when a step runs.
    """
    if not protocol.checks.clean:
        return
    judgment = {"item": "1", "system": "A", "annotator": "a", "criterion": "score", "value": 1.0, "seconds": 1.0}
    try:
        clean(Judgments(pl.DataFrame(judgment)), steps=protocol.checks.clean)
    except AliquotError as error:
        yield "checks.clean", f"checks.clean = '{protocol.checks.clean}': {error}"


def _list_check_faults(protocol: Protocol) -> Iterator[tuple[str, str]]:
    for name in ("damaged", "repeats"):
        share = getattr(protocol.checks, name)
        if not 0 <= share <= 0.5:
            yield f"checks.{name}", f"checks.{name} = {share:g} should be a share from 0 to 0.5"
    if protocol.checks.floor_seconds_per_char < 0:
        yield "checks.floor_seconds_per_char", "checks.floor_seconds_per_char should be 0 or more"
    for number, gold in enumerate(protocol.checks.gold):
        if not gold.low <= gold.high:
            yield f"checks.gold[{number}].high", f"gold for item {gold.item!r}: high is below low; correct it"
    for number, question in enumerate(protocol.quiz.questions):
        if question.answer not in question.options:
            problem = f"the answer '{question.answer}' is none of the options {quoted(question.options)}"
            yield f"quiz.questions[{number}].answer", f"{problem}; repeat one of them"
    if not 1 <= protocol.quiz.attempts <= 10:
        yield "quiz.attempts", f"quiz.attempts = {protocol.quiz.attempts}: 1 to 10 are possible"
    for name in ("per_unit", "bonus"):
        if getattr(protocol.payment, name) < 0:
            yield f"payment.{name}", f"payment.{name} should be 0 or more"
