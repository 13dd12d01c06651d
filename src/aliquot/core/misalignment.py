"""Scores that belong to other outputs: rows shifted by one, systems exchanged, another campaign under the same ids.

For all judgments and for each annotator alone; `stats.alignment` has the method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core.annotator_scales import mean_metric
from aliquot.core.evalset import EvalSet
from aliquot.stats.alignment import (
    Explanation,
    OutputFeatures,
    agreement_within_cells,
    explain_scores,
    find_swapped_systems,
    output_features,
    shift_cells,
)
from aliquot.stats.arrays import BoolArray, FloatArray, IntArray, encode_labels, group_means
from aliquot.stats.text_features import hashed_vectors

_MIN_ITEMS = 50  # for a test with power
_MIN_CELLS = 100  # of one annotator
_MAX_CELLS = (6_000, 60_000)  # outputs that are compared; the second if the first are not enough
_MAX_PAIRS = 3_000_000  # pairs of outputs
_CLEAR_GAIN = 60.0  # gain in log-likelihood of the first outputs with which no more are needed
_MIN_EVIDENCE = 3.0  # log-likelihood by which another alignment is better, beside the logarithm of the alternatives
_MAX_ANNOTATORS = 200
_REMEDY = "Compare the ids and systems of some judgments with what was judged"


def misalignment_notes(evalset: EvalSet, human: str) -> list[str]:
    """Return notes on scores that fit other outputs better than their own, or fit none.

    >>> import aliquot
    >>> misalignment_notes(aliquot.synthetic(items=60, systems=3, seed=2), "human")
    []
    """
    everything = _Answers.read(evalset, np.arange(evalset.n_items))
    if everything is not None and (notes := _find_shifted_answers(everything)):
        return notes
    scores = evalset.scores[human]
    if (np.isfinite(scores).sum(axis=1) > 1).sum() < _MIN_ITEMS:
        return []
    for max_cells in _MAX_CELLS:
        rows = _choose_items(scores, max_cells)
        features = _describe_outputs(evalset, rows)
        fit = explain_scores(scores[rows], features)
        if fit.gain > _CLEAR_GAIN or len(rows) * evalset.n_systems < max_cells:
            break
    answers = _Answers.read(evalset, rows)
    misfit = _compare_alignments(
        evalset, features, fit, f"scores '{human}'", _generate_shifted_scores(scores, rows, answers)
    )
    if misfit is not None:
        return [misfit.note]
    # Rare in sound campaigns, usual with scores of other outputs (benchmarks/study_mistakes.py). Without metrics little
    # can be expected: unlike texts of a free task need not show quality.
    if fit.gain < 0 and mean_metric(evalset) is not None:
        count = int(fit.judged.any(axis=1).sum())
        trace = (
            f"scores '{human}' have no relation to the outputs: neither metrics nor texts explain them ({count} items)"
        )
        return [f"{trace}: scores of other items, or of another campaign with the same ids? {_REMEDY}"]
    return [] if answers is None else _find_misaligned_annotators(evalset, features, answers)


def _choose_items(scores: FloatArray, max_cells: int) -> IntArray:
    """Return the rows of judged items and their neighbours; four blocks if there are many."""
    judged: BoolArray = np.asarray(np.isfinite(scores).any(axis=1))
    rows, width = np.flatnonzero(judged | np.append(judged[1:], False) | np.append(False, judged[:-1])), scores.shape[1]
    count = max(_MIN_ITEMS, min(max_cells // width, _MAX_PAIRS // width**2))
    if len(rows) <= count:
        return rows
    return np.concatenate([block[: -(-count // 4)] for block in np.array_split(rows, 4)])


def _describe_outputs(evalset: EvalSet, rows: IntArray) -> OutputFeatures:
    width = evalset.n_systems
    vectors, lengths = np.zeros((len(rows), width, 1)), np.full((len(rows), width), np.nan)
    if evalset.outputs is not None:
        texts = [evalset.outputs[system].gather(rows).to_list() for system in evalset.systems]
        flat = [text or "" for item in zip(*texts, strict=True) for text in item]
        vectors = hashed_vectors(flat).reshape(len(rows), width, -1)
        size = np.array([len(text) for text in flat], dtype=np.float64).reshape(len(rows), width)
        lengths = np.where(size > 0, size, np.nan)
    metric = mean_metric(evalset)
    return output_features(vectors, lengths, None if metric is None else metric[rows])


@dataclass(frozen=True)
class _Misfit:
    """Scores that fit better elsewhere: by how much log-likelihood, and the systems that were exchanged."""

    note: str
    evidence: float
    systems: tuple[int, int] | None = None


def _compare_alignments(
    evalset: EvalSet,
    features: OutputFeatures,
    fit: Explanation,
    what: str,
    moved: Iterable[FloatArray],
    other_means: FloatArray | None = None,
    tries: int = 1,
) -> _Misfit | None:
    """Compare scores with shifted ones and with two systems exchanged; shifts first: they exchange systems, too."""
    shifts = [explain_scores(scores, features, other_means).evidence(fit) for scores in moved]
    evidence = max(shifts, default=0.0)
    if evidence > _MIN_EVIDENCE + np.log(max(len(shifts), 1) * tries):
        trace = f"{what} fit the outputs better when moved by one row"
        note = f"{trace} (log-likelihood {evidence:+.0f}): rows shifted, or ids off by one? {_REMEDY}"
        return _Misfit(note, evidence)
    exchange = find_swapped_systems(fit, features, other_means)
    if exchange is None or exchange.evidence <= _MIN_EVIDENCE + np.log(exchange.tries * tries):
        return None
    first, second = (evalset.systems[system] for system in exchange.systems)
    trace = f"{what} of '{first}' fit the outputs of '{second}' better, and the other way round"
    note = f"{trace} (log-likelihood {exchange.evidence:+.0f}): were the two systems exchanged? {_REMEDY}"
    return _Misfit(note, exchange.evidence, exchange.systems)


def _find_shifted_answers(answers: _Answers) -> list[str]:
    """Return a note if annotators agree only after the rows of the table are shifted by one."""
    if answers.has_several_rows:
        return []
    agreement = max(agreement_within_cells(answers.cell, answers.annotator, answers.value), 0.0)
    moved = [agreement_within_cells(other.cell, other.annotator, other.value) for other in answers.shift_values()]
    if max(moved) <= agreement + _MIN_EVIDENCE:
        return []
    trace = "annotators agree only if each value is moved by one row of the judgments"
    return [f"{trace} ({max(moved) - agreement:.0f} standard errors more): rows shifted? {_REMEDY}"]


def _generate_shifted_scores(scores: FloatArray, rows: IntArray, answers: _Answers | None) -> Iterator[FloatArray]:
    """Yield the scores with rows shifted by one: of tables by item or system, of ids, of judgments."""
    for step in (-1, 1):
        yield shift_cells(scores[rows], step)
        yield shift_cells(scores[rows].T, step).T
        yield _shift_rows(scores, step)[rows]
    if answers is not None and answers.has_single_rows:
        yield from (other.means for other in answers.shift_values())


def _find_misaligned_annotators(evalset: EvalSet, features: OutputFeatures, answers: _Answers) -> list[str]:
    """Return notes on annotators whose judgments fit other outputs better."""
    counts = np.bincount(answers.annotator[answers.annotator >= 0], minlength=len(answers.names))
    people = [person for person in np.flatnonzero(counts >= _MIN_CELLS) if answers.names[person] is not None]
    misfits: list[_Misfit] = []
    for person in people[:_MAX_ANNOTATORS]:
        mine = answers.keep(answers.annotator == person)
        scores = mine.means
        keep = np.flatnonzero(np.isfinite(scores).sum(axis=1) > 1)
        if np.isfinite(scores[keep]).sum() < _MIN_CELLS:
            continue
        part = features.keep(keep)
        other_means = answers.keep(answers.annotator != person).means[keep]
        fit = explain_scores(scores[keep], part, other_means)
        fits = fit.gain > _CLEAR_GAIN / 2 or mine.has_several_rows  # rows that fit are not shifted
        moved = [] if fits else [other.means[keep] for other in mine.shift_values()]
        what = f"judgments of annotator '{answers.names[person]}'"
        misfit = _compare_alignments(evalset, part, fit, what, moved, other_means, len(people))
        misfits += [] if misfit is None else [misfit]
    # Who shares outputs with somebody who exchanged two systems seems to have done so, too: the clearest is named.
    clearest = {misfit.systems: misfit for misfit in sorted(misfits, key=lambda misfit: misfit.evidence)}
    return [misfit.note for misfit in misfits if misfit.systems is None or clearest[misfit.systems] is misfit]


@dataclass(frozen=True, eq=False)
class _Answers:
    """Values of judgments with their cells, by item; within an item in the order of the file."""

    cell: IntArray
    value: FloatArray
    annotator: IntArray
    order: FloatArray  # in which an annotator judged, or 0
    names: list[str | None]  # of annotators
    shape: tuple[int, int]

    @classmethod
    def read(cls, evalset: EvalSet, rows: IntArray) -> _Answers | None:
        """Return the judgments of these items; None without judgments."""
        if evalset.judgments is None:
            return None
        table = evalset.judgments.answers().filter(pl.col("value").is_not_null())
        row, column = evalset.cell_index(table["item"], table["system"])
        place = np.full(evalset.n_items, -1)
        place[rows] = np.arange(len(rows))
        names = table["annotator"].to_list()
        cell = place[row] * evalset.n_systems + column
        order = np.zeros(len(names))
        if "order" in table.columns and table["order"].dtype.is_numeric():
            order = table["order"].cast(pl.Float64).fill_null(0.0).to_numpy()
        answers = cls(
            cell,
            table["value"].to_numpy().astype(np.float64),
            encode_labels(names),
            order,
            list(dict.fromkeys(names)),
            (len(rows), evalset.n_systems),
        )
        return answers.keep(place[row] >= 0)

    @property
    def means(self) -> FloatArray:
        """Mean of each cell, NaN without judgments."""
        return group_means(self.cell, self.value, self.shape[0] * self.shape[1]).reshape(self.shape)

    @property
    def has_several_rows(self) -> bool:
        """Whether an annotator has several rows for one output, as for several criteria."""
        return len(np.unique(self.cell * len(self.names) + self.annotator)) < len(self.cell)

    @property
    def has_single_rows(self) -> bool:
        """Whether each output has one row; `_find_shifted_answers` compares the values of several annotators."""
        return len(np.unique(self.cell)) == len(self.cell)

    def keep(self, chosen: BoolArray) -> _Answers:
        """Return these rows only."""
        return self._take_rows(np.flatnonzero(chosen))

    def shift_values(self) -> list[_Answers]:
        """Return copies with each value shifted by one row, in every order that the rows of the file may have had."""
        system = self.cell % self.shape[1]
        sortings = [
            np.arange(len(self.cell)),
            *(
                np.lexsort(keys)
                for keys in (
                    (self.cell,),
                    (self.cell, system),
                    (self.cell, self.annotator),
                    (self.order, self.annotator),
                )
            ),
        ]
        distinct = {rows.tobytes(): rows for rows in sortings}.values()
        tables = [self._take_rows(rows) for rows in distinct]
        return [replace(table, value=_shift_rows(table.value, step)) for table in tables for step in (-1, 1)]

    def _take_rows(self, rows: IntArray) -> _Answers:
        return replace(
            self, cell=self.cell[rows], value=self.value[rows], annotator=self.annotator[rows], order=self.order[rows]
        )


def _shift_rows(values: FloatArray, step: int) -> FloatArray:
    moved = np.full(values.shape, np.nan)
    moved[max(step, 0) : len(values) + min(step, 0)] = values[max(-step, 0) : len(values) - max(step, 0)]
    return moved
