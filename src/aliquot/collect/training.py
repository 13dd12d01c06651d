"""Before the work: a quiz on the instructions and examples with feedback. Right answers never leave the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from aliquot.collect.answers import check_text, is_number
from aliquot.collect.errors import CollectError
from aliquot.collect.event_types import ExampleTaken, QuizTaken
from aliquot.collect.events import Log
from aliquot.collect.people import read_extra
from aliquot.collect.protocols import Protocol, Score

SCREENED_OUT = (
    "You did not pass the questions on the instructions, so there is no work for you here. Thank you for your time."
)


def next_training_step(protocol: Protocol, connection: Connection, annotator: str) -> dict[str, Any] | None:
    """Return the annotator's next quiz, example or rejection before the work; None when all is passed."""
    extra = read_extra(connection, annotator)
    quiz = protocol.quiz
    if quiz.questions and not extra.quiz_passed:
        attempts_left = quiz.attempts - extra.quiz_attempts
        if attempts_left <= 0:
            return {"finished": True, "message": SCREENED_OUT, "outcome": "screened_out"}
        questions = [{"question": q.question, "options": list(q.options)} for q in quiz.questions]
        return {"quiz": {"questions": questions, "attempts_left": attempts_left}}
    if extra.examples_done < len(protocol.tutorial.examples):
        example = protocol.tutorial.examples[extra.examples_done]
        texts = {name: getattr(example, name) for name in ("source", "reference", "output")}
        return {
            "tutorial": {
                **texts,
                "number": extra.examples_done + 1,
                "of": len(protocol.tutorial.examples),
                "instructions": protocol.tutorial.instructions,
            }
        }
    return None


def take_quiz(log: Log, connection: Connection, annotator: str, answers: Sequence[Any], now: float) -> dict[str, Any]:
    """Grade a quiz: how many are right, and feedback on the questions; not which answer is right."""
    quiz = log.protocol.quiz
    before = next_training_step(log.protocol, connection, annotator)
    if before is None or "quiz" not in before:
        raise CollectError("bad_answer", "there is no quiz to answer now; load the page again")
    if not isinstance(answers, list | tuple) or len(answers) != len(quiz.questions):
        raise CollectError("bad_answer", f"a quiz of {len(quiz.questions)} questions needs as many answers")
    texts = ["" if answer is None else check_text("answers", answer) for answer in answers]
    wrong = [number for number, (q, answer) in enumerate(zip(quiz.questions, texts, strict=True)) if answer != q.answer]
    event = QuizTaken(annotator=annotator, answers=[text[:500] for text in texts], passed=not wrong)
    log.append(connection, now, annotator, event)
    attempts_left = before["quiz"]["attempts_left"] - 1
    return {
        "passed": not wrong,
        "wrong": wrong,
        "attempts_left": attempts_left,
        "feedback": [quiz.questions[number].feedback for number in wrong],
    }


def take_example(log: Log, connection: Connection, annotator: str, score: Any, now: float) -> dict[str, Any]:
    """Grade a tutorial example and return its feedback."""
    before = next_training_step(log.protocol, connection, annotator)
    if before is None or "tutorial" not in before:
        raise CollectError("bad_answer", "there is no example to answer now; load the page again")
    example = log.protocol.tutorial.examples[before["tutorial"]["number"] - 1]
    if score is not None and not is_number(score):
        raise CollectError("bad_answer", "the score of an example should be a number")
    low, high = scale_of(log.protocol)
    inside = score is None or (
        (example.low if example.low is not None else low)
        <= score
        <= (example.high if example.high is not None else high)
    )
    log.append(connection, now, annotator, ExampleTaken(annotator=annotator, score=score, right=inside))
    return {"right": inside, "feedback": example.feedback}


def scale_of(protocol: Protocol) -> tuple[float, float]:
    """Return the range of the protocol's score; 0 to 100 if it has none."""
    widget = next((w for w in protocol.widgets if isinstance(w, Score)), None)
    return (widget.low, widget.high) if widget is not None else (0.0, 100.0)
