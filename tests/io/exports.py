"""Files as annotation tools export them, made here from their documentation; readers' tests and the fuzzer use them."""

from __future__ import annotations

import json
from typing import Any

ITEMS, SYSTEMS, PEOPLE = (0, 1, 2), ("A", "B"), ("ann", "bob")
CELLS = [(item, system, person) for person in PEOPLE for item in ITEMS for system in SYSTEMS]


def value(item: int, system: str, person: str) -> int:
    """The score that everybody gives in all files."""
    return 40 + 10 * item + 25 * (system == "A") + 3 * (person == "bob")


def text(item: int, system: str) -> str:  # noqa: ARG001
    return f"output {item} of the system"  # no name of a system: the same for all


def cell(item: int, system: str) -> str:
    return f"c{item}{SYSTEMS.index(system)}x"


def key() -> str:
    rows = [f"{cell(i, s)},{i},{s}\n" for i in ITEMS for s in SYSTEMS]
    return "cell,item,system\n" + "".join(rows)


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def pearmut(*, scores: bool = True, opaque: bool = False) -> list[dict[str, Any]]:
    """One submission a person, a document of all items; end_i is the last character of a span."""
    span = {"start_i": 0, "end_i": 5, "severity": "minor", "category": None}
    names = {s: f"m{at}" if opaque else s for at, s in enumerate(SYSTEMS)}
    return [
        {
            "user_id": person,
            "item_i": 0,
            "actions": [{"time": 100.0, "action": "load"}, {"time": 112.0, "action": "submit"}],
            "item": [
                {
                    "item_id": f"i{i}" if opaque else str(i),
                    "src": f"source {i}",
                    "tgt": {names[s]: text(i, s) for s in SYSTEMS},
                }
                for i in ITEMS
            ],
            "annotation": [
                {
                    names[s]: {
                        "score": value(i, s, person) if scores else None,
                        "textfield": None,
                        "error_spans": [span] if s == "B" else [],
                    }
                    for s in SYSTEMS
                }
                for i in ITEMS
            ],
        }
        for person in PEOPLE
    ]


def appraise(*, literal: bool = True) -> str:
    """Rows without header: user, system, item, type, languages, score, document, complete, spans, start, end."""
    span = {"start_i": 0, "end_i": 6, "severity": "minor"}
    rows = []
    for at, (item, system, person) in enumerate(CELLS):
        spans = [span] if system == "B" else []
        written = repr(spans) if literal else json.dumps(spans)
        quoted = '"' + written.replace('"', '""') + '"'
        score, start = value(item, system, person), 1000.0 + 60 * at
        rows.append(f"{person},{system},{item},TGT,eng,deu,{score},doc1,False,{quoted},{start},{start + 12}\n")
    rows.append('ann,A,0,BAD,eng,deu,3,doc1#bad,False,"[]",5000.0,5009.0\n')
    return "".join(rows)


def label_studio() -> list[dict[str, Any]]:
    """Tasks with annotations; an answer and the regions of an annotation are results of its list."""
    return [
        {
            "id": 100 + at,
            "data": {"cell": cell(item, system), "source": f"source {item}", "output": text(item, system)},
            "predictions": [],
            "annotations": [
                {
                    "id": 1,
                    "completed_by": {"id": 7, "email": person},
                    "was_cancelled": False,
                    "ground_truth": False,
                    "lead_time": 12.0,
                    "created_at": "2026-01-01T10:00:00Z",
                    "result": [
                        {
                            "id": "n",
                            "from_name": "score",
                            "to_name": "output",
                            "type": "number",
                            "value": {"number": value(item, system, person)},
                        },
                        *(
                            [
                                {
                                    "id": "r",
                                    "from_name": "errors",
                                    "to_name": "output",
                                    "type": "labels",
                                    "value": {"start": 0, "end": 6, "text": "output", "labels": ["Minor"]},
                                }
                            ]
                            if system == "B"
                            else []
                        ),
                    ],
                }
                for person in PEOPLE
            ],
        }
        for at, (item, system) in enumerate((i, s) for i in ITEMS for s in SYSTEMS)
    ]


def label_studio_min() -> list[dict[str, Any]]:
    return [
        {
            "id": 100 + at,
            "cell": cell(item, system),
            "output": text(item, system),
            "score": [{"number": value(item, system, person)}],
            "annotator": person,
            "annotation_id": at,
            "created_at": "2026-01-01T10:00:00Z",
            "updated_at": "2026-01-01T10:00:00Z",
            "lead_time": 12.0,
            **({"errors": [{"start": 0, "end": 6, "text": "output", "labels": ["Minor"]}]} if system == "B" else {}),
        }
        for at, (item, system, person) in enumerate(CELLS)
    ]


def label_studio_csv() -> str:
    rows = []
    for at, record in enumerate(label_studio_min()):
        score = json.dumps(record["score"]).replace('"', '""')
        spans = json.dumps(record.get("errors", [])).replace('"', '""')
        rows.append(
            f'{at},"{record["annotator"]}","{record["cell"]}","2026-01-01","{spans}",{at},12.0,'
            f'"{record["output"]}","{score}","2026-01-01"\n'
        )
    return "annotation_id,annotator,cell,created_at,errors,id,lead_time,output,score,updated_at\n" + "".join(rows)


def potato(*, version: int = 2) -> list[dict[str, Any]]:
    """One record for each annotator and instance."""
    records: list[dict[str, Any]] = []
    for item, system, person in CELLS:
        spans = [{"start": 0, "end": 6, "label": "Minor", "text": "output"}] if system == "B" else []
        score = str(value(item, system, person))
        record: dict[str, Any] = {"instance_id": cell(item, system), "user_id": person}
        if version == 2:
            record |= {"labels": {"score": {"score": score}}, "spans": {"errors": spans}, "links": {}}
        else:
            record |= {
                "displayed_text": text(item, system),
                "label_annotations": {"score": {f"scale_{score}": score}},
                "span_annotations": spans,
                "behavioral_data": {"time_string": "Time spent: 0d 0h 0m 12s "},
            }
        records.append(record)
    return records


def potato_csv() -> str:
    rows = []
    for record in potato():
        spans = json.dumps(record["spans"]["errors"]).replace('"', '""')
        rows.append(f'{record["instance_id"]},{record["user_id"]},{record["labels"]["score"]["score"]},"{spans}"\n')
    return "instance_id,user_id,score.score,errors._spans\n" + "".join(rows)


def prodigy() -> list[dict[str, Any]]:
    return [
        {
            "text": text(item, system),
            "meta": {"item": item, "system": system},
            "_input_hash": 5,
            "_task_hash": at,
            "options": [{"id": value(item, system, p), "text": str(value(item, system, p))} for p in PEOPLE],
            "accept": [value(item, system, person)],
            "answer": "accept",
            "_session_id": person,
            "_view_id": "choice",
            "_timestamp": 1700000000 + at,
            "spans": [{"start": 0, "end": 6, "label": "Minor"}] if system == "B" else [],
        }
        for at, (item, system, person) in enumerate(CELLS)
    ]


def argilla(*, kind: str = "nested") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for item in ITEMS:
        for system in SYSTEMS:
            spans = [{"start": 0, "end": 6, "label": "Minor"}] if system == "B" else []
            scores = {person: value(item, system, person) for person in PEOPLE}
            shown = {"source": f"source {item}", "output": text(item, system)}
            record: dict[str, Any] = {"id": cell(item, system), "_server_id": "x", "status": "completed"}
            if kind == "flat":
                record |= shown | {
                    "score.responses": list(scores.values()),
                    "score.responses.users": list(scores),
                    "score.responses.status": ["submitted"] * len(scores),
                    "errors.responses": [spans] * len(scores),
                    "errors.responses.users": list(scores),
                    "score.suggestion": 50,
                }
            elif kind == "old":
                values = {p: {"score": {"value": v}, "errors": {"value": spans}} for p, v in scores.items()}
                record |= {"fields": shown, "metadata": {}}
                record["responses"] = [{"user_id": p, "status": "submitted", "values": v} for p, v in values.items()]
            else:
                record |= {"fields": shown, "metadata": {}, "suggestions": {"score": {"value": 50}}}
                record["responses"] = {
                    "score": [{"value": v, "user_id": p} for p, v in scores.items()],
                    "errors": [{"value": spans, "user_id": p} for p in scores],
                }
            records.append(record)
    return records


def files() -> dict[str, tuple[str, str, bool]]:
    """All of them: name -> file name, content, and whether a key is needed."""
    return {
        "pearmut": ("p.jsonl", lines(pearmut()), False),
        "pearmut download": ("p.json", json.dumps({"campaign": pearmut()}), False),
        "appraise": ("a.csv", appraise(), False),
        "appraise json": ("a.csv", appraise(literal=False), False),
        "label studio": ("l.json", json.dumps(label_studio(), indent=2), True),
        "label studio min": ("l.json", json.dumps(label_studio_min()), True),
        "label studio csv": ("l.csv", label_studio_csv(), True),
        "potato": ("o.jsonl", lines(potato()), True),
        "potato 1": ("o.jsonl", lines(potato(version=1)), True),
        "potato csv": ("o.csv", potato_csv(), True),
        "prodigy": ("d.jsonl", lines(prodigy()), False),
        "argilla": ("g.json", json.dumps(argilla()), True),
        "argilla flat": ("g.json", json.dumps(argilla(kind="flat")), True),
        "argilla 1": ("g.json", json.dumps(argilla(kind="old")), True),
    }


SIDES = ("conversation_a", "conversation_b")


def arena() -> list[dict[str, Any]]:
    """Battles of three models, two in each session, won by one of them, tied or both bad."""
    winners = ["model_a", "model_b", "tie", "both_bad", "model_a", "model_a"]
    models = [("x", "y"), ("y", "x"), ("x", "z"), ("z", "x"), ("y", "z"), ("z", "y")]
    return [
        {
            "id": f"battle{i}",
            "model_a": a,
            "model_b": b,
            "winner": winner,
            **{side: _conversation(i, model) for side, model in zip(SIDES, (a, b), strict=True)},
            "language": "de" if i % 2 else "en",
            "evaluation_session_id": f"session{i // 2}",
            "evaluation_order": i % 2 + 1,
            "timestamp": 1_700_000_000 + i,
            "is_code": i == 3,
        }
        for i, ((a, b), winner) in enumerate(zip(models, winners, strict=True))
    ]


def _conversation(battle: int, model: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"question {battle}"},
        {"role": "assistant", "content": f"{model} asks back"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": f"{model} answers {battle}"},
    ]


def wmt25() -> list[dict[str, Any]]:
    """Two language pairs: one with numbered rounds and segments in its ids, one with neither."""
    error = {"start_i": 0, "end_i": 3, "severity": "minor"}
    first = {"human1": 80.0, "annotator1": "ann", "errors1": [error], "times1": [100.0, 130.5]}
    second = {"human2": 90, "annotator2": "bob", "errors2": [{**error, "end_i": "missing", "severity": "major"}]}
    return [
        {
            "src_text": f"source {i}",
            "tgt_text": {"refA": f"reference {i}", "A": f"text {i} of A", "B": f"text {i} of B"},
            "doc_id": f"en-cs_CZ_#_news_#_paper.{i // 2}_#_{i % 2}",
            "scores": {"A": {**first, **second, "chrF": 0.5 + i / 10}, "B": {**first, "human1": 60 + i}} if i else {},
        }
        for i in range(4)
    ] + [
        {
            "src_text": f"source {i}",
            "tgt_text": {"refA": f"reference {i}", "A": f"text {i} of A"},
            "doc_id": "cs-de_DE_#_social_#_post",
            "scores": {"A": {"human": 70.0 + i, "errors": []}, "refA": [{"score": 95, "annotator": "cleo"}]},
        }
        for i in range(3)
    ]
