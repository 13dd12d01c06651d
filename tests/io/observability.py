"""Exports of Langfuse and LangSmith, written to the schemas that they document."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

Record = dict[str, Any]
QUESTIONS = ("What is 2 plus 2?", "Name a river.", "Why is the sky blue?")
SKY = 'Light scatters, "blue" most.\nSo it\'s blue.'


def observation(number: int, question: int, model: str, output: str | None, **fields: Any) -> Record:
    """A root generation, as a row of `observations_v2/`."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTIONS[question]}]
    return {
        "id": f"obs-{number}",
        "trace_id": f"trace-{number}",
        "project_id": "p",
        "type": "GENERATION",
        "parent_observation_id": "",
        "is_root_observation": True,
        "start_time": "2026-03-01 10:00:00.000000",
        "end_time": "2026-03-01 10:00:01.500000",
        "name": "answer",
        "metadata": {},
        "level": "DEFAULT",
        "status_message": "",
        "input": json.dumps(messages),
        "output": output or "",
        "provided_model_name": model,
        "usage_details": {"input": 10, "output": 5, "total": 15},
        "total_cost": 0.002,
        "latency": 1500,
        "prompt_name": "",
        "prompt_version": None,
        "tags": ["a", "b"],
    } | fields


def score(number: int, trace: int, name: str, value: float, source: str, **fields: Any) -> Record:
    """A score of a trace, as a row of `scores/`."""
    return {
        "id": f"score-{number}",
        "timestamp": f"2026-03-02 10:00:{number:02}.000000",
        "project_id": "p",
        "trace_id": f"trace-{trace}",
        "observation_id": None,
        "session_id": None,
        "dataset_run_id": None,
        "name": name,
        "value": value,
        "source": source,
        "comment": None,
        "data_type": "NUMERIC",
        "string_value": None,
    } | fields


def langfuse_observations() -> list[Record]:
    """Three questions for two models; the second model fails on the last."""
    replies = ["4", "The Nile.", SKY]
    rows = [observation(i, i, "small", reply) for i, reply in enumerate(replies)]
    rows += [observation(10 + i, i, "large", reply.upper()) for i, reply in enumerate(replies[:2])]
    return [*rows, observation(12, 2, "large", None, level="ERROR", status_message="rate limit\nretry")]


def langfuse_scores() -> list[Record]:
    """A person's scores, labels and pass/fail, and a judge's scores."""
    people = [score(i, trace, "helpful", 1.0 + i, "ANNOTATION") for i, trace in enumerate((0, 1, 10))]
    labels = [score(10, 0, "tone", 1, "ANNOTATION", data_type="CATEGORICAL", string_value="rude", comment="Hm, no.")]
    passed = [score(11, 0, "correct", 1, "ANNOTATION", data_type="BOOLEAN", author_user_id="ann")]
    judge = [score(20 + i, trace, "judge", i / 4, "EVAL") for i, trace in enumerate((0, 1, 2, 10, 11))]
    return [*people, *labels, *passed, *judge]


def run(number: int, example: int, experiment: str, output: str | None, **fields: Any) -> Record:
    """A root run of LangSmith."""
    return {
        "id": f"run-{number}",
        "name": "Target",
        "run_type": "chain",
        "start_time": "2026-03-01T10:00:00.000000",
        "end_time": "2026-03-01T10:00:02.500000",
        "inputs": {"question": QUESTIONS[example]},
        "outputs": None if output is None else {"answer": output, "documents": ["d"]},
        "error": None,
        "trace_id": f"run-{number}",
        "parent_run_id": None,
        "session_id": experiment,
        "reference_example_id": f"example-{example}",
        "total_tokens": 12,
        "total_cost": "0.003",
        "feedback_stats": None,
    } | fields


def feedback(number: int, about: int, key: str, points: float | None, source: str, **fields: Any) -> Record:
    """A feedback of LangSmith about a run."""
    return {
        "id": f"feedback-{number}",
        "created_at": f"2026-03-02T10:00:{number:02}",
        "session_id": "e1",
        "run_id": f"run-{about}",
        "key": key,
        "score": points,
        "value": None,
        "comment": None,
        "correction": None,
        "feedback_source": {"type": source, "metadata": None, "user_id": "user-1" if source == "app" else None},
    } | fields


def langsmith_runs() -> list[Record]:
    """Two experiments on three examples; e2 repeats each, and one of its runs has a child."""
    runs = [run(i, i, "e1", f"reply {i}") for i in range(3)]
    runs += [run(10 * repeat + i, i, "e2", f"reply {repeat} {i}") for repeat in (1, 2) for i in range(3)]
    runs[-1] |= {"outputs": None, "error": "TimeoutError: 60 s"}
    return [*runs, run(99, 0, "e2", "found", name="Retriever", parent_run_id="run-10", run_type="retriever")]


def langsmith_feedback() -> list[Record]:
    """Feedback of a person, a judge and a program."""
    people = [feedback(i, i, "correct", float(i != 1), "app") for i in range(3)]
    label = feedback(5, 0, "tone", None, "app", value="polite", comment="Fine.", correction={"answer": "Better"})
    judge = [feedback(20 + i, about, "judge", i / 8, "model") for i, about in enumerate((0, 1, 2, 10, 11, 12, 20))]
    return [*people, label, *judge, feedback(40, 0, "length", 7, "api")]


def to_lines(records: list[Record]) -> str:
    """JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def to_csv(records: list[Record]) -> str:
    """CSV as these tools write it: objects and lists as JSON, empty cells for null."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for record in records for name in record)))
    writer.writeheader()
    for record in records:
        writer.writerow({k: json.dumps(v) if isinstance(v, (dict, list, bool)) else v for k, v in record.items()})
    return out.getvalue()


def to_camel_case(record: Record) -> Record:
    """A record as the API gives it."""
    words = {name: name.split("_") for name in record}
    return {first + "".join(word.title() for word in rest): record[name] for name, (first, *rest) in words.items()}
