"""Which column of somebody's table is which: our names, the synonyms people use, and the user's own mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aliquot.errors import FormatError, OptionError, quoted, unknown_name

SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "item": ("item", "item_id", "segment_id", "seg_id", "segment", "seg", "id", "i", "sentence_id", "sent_id",
                 "example_id", "instance_id", "line_id", "globalsegid"),
        "system": ("system", "system_id", "system_name", "sys", "model", "model_id", "model_name", "generator"),
        "metric": ("metric", "metric_name", "score_name", "scorer", "measure"),
        "value": ("value", "score", "rating", "judgment", "judgement", "grade", "points"),
        "annotator": ("annotator", "annotator_id", "rater", "rater_id", "judge", "judge_id", "worker", "worker_id",
                      "user", "user_id", "participant", "participant_id", "coder", "login"),
        "criterion": ("criterion", "criteria", "dimension", "aspect", "question", "attribute"),
        "seconds": ("seconds", "secs", "duration", "annotation_time", "time_seconds", "seconds_spent"),
        "time": ("time", "timestamp", "start_time", "date"),
        "order": ("order", "sequence"),
        "control": ("control", "is_control", "attention_check"),
        "repeat": ("repeat", "is_repeat"),
        "source": ("source", "src", "source_text", "input", "prompt"),
        "reference": ("reference", "ref", "reference_text", "gold"),
        "output": ("output", "tgt", "target", "translation", "hypothesis", "hyp", "mt", "summary", "response"),
        "document": ("document", "doc", "document_id", "doc_id", "docid"),
        "position": ("position", "doc_position"),
        "domain": ("domain", "genre", "topic"),
        "cost": ("cost",),
    }
)  # fmt: skip
ITEM_FIELDS = ("source", "reference", "document", "position", "domain", "cost")
MAY_BE_SCORES = ("metric", "value", "source", "reference", "output")
"""Roles whose names people also give to metrics and systems in wide tables, where their columns hold numbers."""


def map_columns(present: Sequence[str], wanted: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """Return our name -> the table's column name; the user's mapping first, then exact names, then synonyms.

    >>> map_columns(["segment_id", "model", "score"], None, "t.csv")
    {'item': 'segment_id', 'system': 'model', 'value': 'score'}
    """
    found: dict[str, str] = {}
    for ours, theirs in (wanted or {}).items():
        if ours not in SYNONYMS:
            raise unknown_name("column role", ours, SYNONYMS, "write --columns role=column")
        if theirs not in present:
            raise FormatError(f"{where}: {unknown_name('column', theirs, present)}")
        if theirs in found.values():
            raise OptionError(f"--columns gives the column '{theirs}' two roles; each column plays one")
        found[ours] = theirs
    free = {name.strip().casefold().replace(" ", "_"): name for name in present if name not in found.values()}
    for ours, names in SYNONYMS.items():
        match = next((free[name] for name in names if name in free), None)
        if ours not in found and match is not None:
            found[ours] = match
    return {ours: found[ours] for ours in SYNONYMS if ours in found}


def require(roles: Sequence[str], mapped: Mapping[str, str], present: Sequence[str], kind: str, where: str) -> None:
    """Raise for the first role that no column plays."""
    for role in roles:
        if role not in mapped:
            raise FormatError(
                f"{where}: {kind} need a column '{role}' (or {quoted(SYNONYMS[role][1:4])}); "
                f"there are {quoted(present)}; name it with --columns {role}=NAME"
            )


def parse_mapping(text: str) -> dict[str, str]:
    """Parse `role=column,role=column` as the command line gives it.

    >>> parse_mapping("item=segment,value=points")
    {'item': 'segment', 'value': 'points'}
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for role, equals, column in pairs:
        if not (role and equals and column):
            raise OptionError(f"--columns '{text}': expected role=column pairs, e.g. item=segment_id,value=points")
    return {role.strip(): column.strip() for role, _, column in pairs}
