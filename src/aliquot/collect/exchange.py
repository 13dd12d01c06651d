"""Export of campaigns to other annotation tools: Pearmut, Appraise, Label Studio and Potato.

Invariant: nothing in the tool's folder names a system, an item of the data or a metric; `key.csv`, which stands beside
that folder, alone says what the opaque ids stand for, and is what `--key` takes when the judgments come back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import polars as pl

from aliquot.collect.lists import make_fixed_lists
from aliquot.collect.new_campaign import NewCampaign
from aliquot.collect.protocols import Protocol, Score, Spans
from aliquot.collect.unit_texts import MarkedSpan, ShownRow, UnitTexts
from aliquot.collect.units import Unit
from aliquot.core.evalset import ItemId
from aliquot.errors import OptionError, unknown_name
from aliquot.io.formats.answers import CELL
from aliquot.io.formats.tables import format_csv

KEY = "key.csv"
Files = dict[str, bytes]
_LANGUAGES = {
    "ar": "ara",
    "bg": "bul",
    "bn": "ben",
    "cs": "ces",
    "da": "dan",
    "de": "deu",
    "el": "ell",
    "en": "eng",
    "es": "spa",
    "et": "est",
    "fa": "fas",
    "fi": "fin",
    "fr": "fra",
    "gu": "guj",
    "he": "heb",
    "hi": "hin",
    "hr": "hrv",
    "hu": "hun",
    "is": "isl",
    "it": "ita",
    "ja": "jpn",
    "kk": "kaz",
    "ko": "kor",
    "lt": "lit",
    "lv": "lav",
    "nl": "nld",
    "no": "nor",
    "pl": "pol",
    "pt": "por",
    "ro": "ron",
    "ru": "rus",
    "sk": "slk",
    "sl": "slv",
    "sr": "srp",
    "sv": "swe",
    "th": "tha",
    "tr": "tur",
    "uk": "ukr",
    "vi": "vie",
    "zh": "zho",
}
"""Codes of two letters -> those of three, which Appraise takes."""


@dataclass(frozen=True)
class _Plan:
    """What is judged and how; `lists` holds each annotator's units with the order of their systems."""

    protocol: Protocol
    rows: Sequence[list[ShownRow]]  # of each unit
    units: Sequence[Unit]
    lists: Mapping[str, list[tuple[int, list[int]]]]
    languages: tuple[str, str]
    per_output: int
    seed: int

    @property
    def scores(self) -> list[Score]:
        return [widget for widget in self.protocol.widgets if isinstance(widget, Score)]

    @property
    def spans(self) -> Spans | None:
        return next((widget for widget in self.protocol.widgets if isinstance(widget, Spans)), None)


class _Key:
    """Random opaque ids, and the item and system of each."""

    def __init__(self, count: int, seed: int) -> None:
        self.numbers = iter(np.random.default_rng([seed, 7]).permutation(count).tolist())
        self.rows: list[dict[str, Any]] = []

    def fresh(self) -> int:
        """Return an unused number."""
        return int(next(self.numbers)) + 1

    def add(self, cell: str, item: ItemId, system: str) -> str:
        """Record the item and system of an id."""
        self.rows.append({CELL: cell, "item": str(item), "system": system})
        return cell

    def content(self) -> bytes:
        """Return the key as CSV."""
        ordered = sorted(self.rows, key=lambda row: row[CELL])
        return format_csv(pl.DataFrame(ordered, schema=dict.fromkeys((CELL, "item", "system"), pl.String))).encode()


def write_for(
    tool: str,
    inputs: NewCampaign,
) -> Files:
    """Return the files of a campaign for a tool: the tool's own in a folder of its name, and the key beside it.

    Args:
        tool: pearmut, appraise, label-studio or potato.
        inputs: data, units and protocol, as `gather_inputs` returns them; the protocol asks for scores, error spans or
            both. Pearmut and Appraise get a list for each annotator.
    """
    if tool not in TOOLS:
        raise unknown_name("annotation tool", tool, TOOLS)
    units, protocol, settings = inputs.units, inputs.protocol, inputs.settings
    per_output, seed = settings.per_output, settings.seed
    texts = UnitTexts(inputs.evalset, protocol)
    pair = next((p for p in texts.pairs if len(p) == 2), ["", ""])
    lists = make_fixed_lists([unit.systems for unit in units], inputs.annotators, per_output, seed)
    rows = [texts.show_unit(unit) for unit in units]
    plan = _Plan(protocol, rows, units, lists, (pair[0], pair[1]), per_output, seed)
    _require_writable(tool, plan)
    max_ids = sum(len(unit.rows) * len(unit.systems) + 1 for unit in units) * per_output
    key = _Key(max_ids, seed)
    files = {f"{tool}/{name}": content for name, content in TOOLS[tool](plan, key).items()}
    return files | {KEY: key.content()}


def _require_writable(tool: str, plan: _Plan) -> None:
    protocol = plan.protocol
    of_outputs = protocol.of_scope("output")
    judged = [widget for widget in of_outputs if isinstance(widget, Score | Spans)]
    further = [widget for widget in protocol.widgets if not isinstance(widget, Score | Spans)]
    if not judged or any(widget.required for widget in further) or len(judged) < len(plan.scores) + bool(plan.spans):
        raise OptionError(
            f"{tool}: the protocol '{protocol.name}' asks for more than scores and error spans of "
            "outputs; take da, sqm, esa, esa-ai, mqm or likert, or `aliquot collect new`"
        )
    if protocol.side_by_side and tool != "pearmut":
        raise OptionError(
            f"{tool}: the protocol '{protocol.name}' shows outputs side by side; {tool} gets one "
            "output at a time: take esa, or pearmut"
        )
    plain = all(not s.criteria and (s.low, s.high) == (0, 100) for s in plan.scores) and len(plan.scores) < 2
    if tool == "appraise" and not plain:
        raise OptionError(
            f"appraise: it asks for one score from 0 to 100, and the protocol '{protocol.name}' "
            "for others; take da, esa or mqm, or another tool"
        )


def _list_questions(score: Score) -> list[str]:
    return list(score.criteria) or [score.name]


def _encode_json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _join_context(rows: Sequence[ShownRow], number: int, *, after: bool = False) -> tuple[str, str]:
    """Return the sources and the outputs that stand next to a row on one side, and are not judged."""
    near = rows[number + 1 :] if after else rows[:number]
    grey = [row for row in near if row.context]
    sources = [row.source.text for row in grey if row.source is not None]
    return "\n".join(sources), "\n".join(row.outputs[0].text for row in grey)


def _texts_beside(row: ShownRow) -> dict[str, str]:
    """Return the texts that stand beside the outputs: source, reference."""
    texts = {"source": row.source, "reference": row.reference}
    return {name: text.text for name, text in texts.items() if text is not None}


# -- Pearmut and Appraise: a list for each annotator ----------------------------------------------------------------


def _write_pearmut(plan: _Plan, key: _Key) -> Files:
    tasks = []
    for numbers in plan.lists.values():
        documents = []
        for number, slots in numbers:
            unit, rows = plan.units[number], plan.rows[number]
            documents.append([_build_pearmut_item(row, unit, slots, key) for row in rows if not row.context])
        tasks.append(documents)
    info: dict[str, Any] = {
        "assignment": "task-based",
        "protocol": _pearmut_protocol(plan),
        "users": list(plan.lists),
        "shuffle": False,  # the order of outputs is balanced here
        "instructions": plan.protocol.instructions.replace("&", "&amp;").replace("<", "&lt;"),
    }
    usual = all(not s.criteria and (s.low, s.high, s.step) == (0, 100, 1) for s in plan.scores)
    if plan.scores and not usual:
        info["sliders"] = [
            {"name": name, "min": score.low, "max": score.high, "step": score.step}
            for score in plan.scores
            for name in _list_questions(score)
        ]
    if plan.spans is not None and plan.spans.categories:
        info["mqm_categories"] = {name: list(below) for name, below in plan.spans.categories.items()}
        info["mqm_severities"] = [severity.name for severity in plan.spans.severities]
    campaign = {"campaign_id": f"aliquot-{plan.protocol.name}-{plan.seed}", "info": info, "data": tasks}
    return {"campaign.json": _encode_json(campaign)}


def _pearmut_protocol(plan: _Plan) -> str:
    if plan.spans is None:
        return "DA"
    if plan.spans.categories:
        return "MQM"
    return "cESA" if plan.protocol.side_by_side else "ESA"


def _build_pearmut_item(row: ShownRow, unit: Unit, slots: Sequence[int], key: _Key) -> dict[str, Any]:
    name = f"r{key.fresh():06d}"
    texts = {name[:3]: text for name, text in _texts_beside(row).items()}  # src, ref
    outputs, suggested = {}, {}
    for place, column in enumerate(slots):
        alias = f"output{chr(ord('A') + place)}" if place < 26 else f"output{place}"
        key.add(f"{name}:{alias}", row.item, unit.systems[column])
        output = row.outputs[column]
        outputs[alias] = output.text
        if output.prefilled is not None:
            suggested[alias] = [
                {"start_i": s.start, "end_i": s.end - 1, "severity": s.severity, "category": s.category}
                for s in output.prefilled
            ]
    return {"item_id": name, **texts, "tgt": outputs} | ({"error_spans": suggested} if suggested else {})


def _write_appraise(plan: _Plan, key: _Key) -> Files:
    languages = tuple(_LANGUAGES.get(code[:2], code or "und") for code in plan.languages)
    batches = []
    for batch, numbers in enumerate(plan.lists.values(), start=1):
        entries = [entry for number, _ in numbers for entry in _build_appraise_items(plan, number, key)]
        task = {
            "batchNo": batch,
            "batchSize": len(entries),
            "sourceLanguage": languages[0],
            "targetLanguage": languages[1],
            "requiredAnnotations": 1,
            "randomSeed": plan.seed,
        }
        batches.append({"items": entries, "task": task})
    options = "" if plan.spans is None else "MQM" if plan.spans.categories else "ESA"
    name = f"aliquot{plan.protocol.name.replace('-', '')}"
    manifest = {
        "CAMPAIGN_URL": "http://127.0.0.1:8000/dashboard/sso/",
        "CAMPAIGN_NAME": name,
        "CAMPAIGN_KEY": name,
        "CAMPAIGN_NO": 1,
        "REDUNDANCY": 1,
        "TASKS_TO_ANNOTATORS": [[*languages, "uniform", len(batches), len(batches)]],
        "TASK_TYPE": "Document",
        "TASK_OPTIONS": options,
    }
    return {"batches.json": _encode_json(batches), "manifest.json": _encode_json(manifest)}


def _build_appraise_items(plan: _Plan, number: int, key: _Key) -> Iterator[dict[str, Any]]:
    """Yield the segments of a unit; Appraise wants one target id in a document, and whole numbers as item ids."""
    unit, rows = plan.units[number], plan.rows[number]
    document = f"d{key.fresh():06d}"
    for position, row in enumerate(rows):
        if row.context:
            continue
        item = key.fresh()
        key.add(f"{item}:{document}", row.item, unit.systems[0])
        before, right = _join_context(rows, position), _join_context(rows, position, after=True)
        marks = [{"start_i": s.start, "end_i": s.end, "severity": s.severity} for s in row.outputs[0].prefilled or ()]
        yield {
            "_item": "",
            "mqm": marks,
            "documentID": document,
            "sourceID": document,
            "targetID": document,
            "itemID": item,
            "itemType": "TGT",
            "isCompleteDocument": False,
            "sourceText": _texts_beside(row).get("source", ""),
            "targetText": row.outputs[0].text,
            "sourceContextLeft": before[0],
            "targetContextLeft": before[1],
            "sourceContextRight": right[0],
            "targetContextRight": right[1],
        }


# -- Label Studio and Potato: one pool for all -----------------------------------------------------------------------


def _list_outputs(plan: _Plan, key: _Key) -> Iterator[tuple[dict[str, str], list[MarkedSpan]]]:
    """Yield each output to judge with its texts, and the spans it begins with."""
    for unit, rows in zip(plan.units, plan.rows, strict=True):
        for number, row in enumerate(rows):
            if row.context:
                continue
            cell = key.add(f"c{key.fresh():06d}", row.item, unit.systems[0])
            (source_before, before), (source_after, after) = (
                _join_context(rows, number),
                _join_context(rows, number, after=True),
            )
            near = {
                "source_before": source_before,
                "output_before": before,
                "source_after": source_after,
                "output_after": after,
            }
            output = row.outputs[0]
            yield {CELL: cell, **_texts_beside(row), **near, "output": output.text}, output.prefilled or []


def _list_shown_fields(plan: _Plan) -> list[tuple[str, str]]:
    texts = _texts_beside(next(row for row in plan.rows[0] if not row.context))
    grey = any(row.context for rows in plan.rows for row in rows)
    fields = [("source_before", "before")] if grey and "source" in texts else []
    fields += [(name, name) for name in texts]
    fields += [("output_before", "before")] if grey else []
    return [*fields, ("output", "output"), *([("output_after", "after")] if grey else [])]


def _write_label_studio(plan: _Plan, key: _Key) -> Files:
    tasks = []
    for data, suggested in _list_outputs(plan, key):
        regions = [
            {
                "id": f"s{number}",
                "from_name": "errors",
                "to_name": "output",
                "type": "labels",
                "value": {"start": s.start, "end": s.end, "text": s.quote, "labels": [s.severity]},
            }
            for number, s in enumerate(suggested)
        ]
        predictions = {"predictions": [{"model_version": "suggested", "result": regions}]} if regions else {}
        tasks.append({"data": data, **predictions})
    return {"tasks.json": _encode_json(tasks), "config.xml": _build_label_studio_config(plan).encode()}


def _build_label_studio_config(plan: _Plan) -> str:
    lines = ["<View>", f"  <Header value={quoteattr(plan.protocol.instructions)}/>"]
    for field, title in _list_shown_fields(plan):
        lines.append(f"  <Header value={quoteattr(title)} size={quoteattr('5')}/>")
        if field == "output" and plan.spans is not None:
            lines.append(f"  <Labels name={quoteattr('errors')} toName={quoteattr('output')}>")
            lines += [f"    <Label value={quoteattr(severity.name)}/>" for severity in plan.spans.severities]
            lines.append("  </Labels>")
        lines.append(f"  <Text name={quoteattr(field)} value={quoteattr('$' + field)}/>")
    if plan.spans is not None and plan.spans.categories:
        lines.append('  <Taxonomy name="category" toName="output" perRegion="true" leafsOnly="true">')
        for name, below in plan.spans.categories.items():
            lines.append(f"    <Choice value={quoteattr(name)}>")
            lines += [f"      <Choice value={quoteattr(kind)}/>" for kind in below]
            lines.append("    </Choice>")
        lines.append("  </Taxonomy>")
    for score in plan.scores:
        low, high, step = (quoteattr(_format_number(value)) for value in (score.low, score.high, score.step))
        for name in _list_questions(score):
            lines.append(f"  <Header value={quoteattr(name)} size={quoteattr('5')}/>")
            lines.append(
                f'  <Number name={quoteattr(name)} toName="output" min={low} max={high} step={step} '
                f"slider={quoteattr('true')} "
                f"required={quoteattr(str(score.required).lower())}/>"
            )
    return "\n".join([*lines, "</View>", ""])


def _format_number(number: float) -> str:
    return f"{number:g}"


def _write_potato(plan: _Plan, key: _Key) -> Files:
    lines = [
        json.dumps({"id": data.pop(CELL), **data}, ensure_ascii=False) for data, _ in _list_outputs(plan, key)
    ]  # Potato 2 has no spans to begin with
    fields = [
        {"key": field, "type": "text", "label": title} | ({"span_target": True} if field == "output" else {})
        for field, title in _list_shown_fields(plan)
    ]
    config = {
        "annotation_task_name": plan.protocol.title,
        "server_name": plan.protocol.title,
        "task_dir": ".",
        "data_files": ["data/items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "output"},
        "output_annotation_dir": "annotation_output/",
        "export_annotation_format": ["jsonl", "csv"],
        "max_annotations_per_item": plan.per_output,
        "assignment_strategy": "random",
        "user_config": {"allow_all_users": False, "users": list(plan.lists)},
        "instance_display": {"fields": fields},
        "annotation_schemes": list(_list_potato_schemes(plan)),
    }
    # JSON is YAML, and needs no library to be written correctly
    return {"config.yaml": _encode_json(config), "data/items.jsonl": ("\n".join(lines) + "\n").encode()}


def _list_potato_schemes(plan: _Plan) -> Iterator[dict[str, Any]]:
    instructions = plan.protocol.instructions
    if plan.spans is not None and plan.spans.categories:
        yield {
            "annotation_type": "error_span",
            "name": plan.spans.name,
            "description": instructions,
            "show_score": False,
            "error_types": [{"name": n, "subtypes": list(below)} for n, below in plan.spans.categories.items()],
            "severities": [{"name": s.name, "weight": -s.weight} for s in plan.spans.severities],
        }
    elif plan.spans is not None:
        names = [severity.name for severity in plan.spans.severities]
        yield {"annotation_type": "span", "name": plan.spans.name, "description": instructions, "labels": names}
    for score in plan.scores:
        low, high = (
            score.anchors.get(_format_number(value), _format_number(value)) for value in (score.low, score.high)
        )
        for name in _list_questions(score):
            base = {
                "name": name,
                "description": instructions if plan.spans is None else name,
                "min_label": low,
                "max_label": high,
                "label_requirement": {"required": score.required},
            }
            if score.style == "likert" and (score.low, score.step) == (1, 1):
                yield {"annotation_type": "likert", "size": int(score.high), **base}
            else:
                yield {"annotation_type": "slider", "min": score.low, "max": score.high, "step": score.step, **base}


TOOLS: dict[str, Callable[[_Plan, _Key], Files]] = {
    "pearmut": _write_pearmut,
    "appraise": _write_appraise,
    "label-studio": _write_label_studio,
    "potato": _write_potato,
}
