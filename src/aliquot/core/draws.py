"""Several draws per prompt: every draw is an item, its `draw` a number from 1, its `document` the prompt.

`combine_draws` makes prompts of them: a score of a prompt is the mean over its draws, or for pass/fail scores pass@k,
pass^k or the majority.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray, IntArray
from aliquot.stats.draws import DrawScore, score_passes, score_variance, sum_draws

DRAW = "draw"
"""The item column with the number of a draw."""


@dataclass(frozen=True)
class DrawRule:
    """How draws become a score of their prompt: the mean (`kind` None), or a score of how many pass."""

    kind: DrawScore | None = None
    k: int = 1

    def count_passes(self, values: FloatArray, prompt: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the numbers of draws that pass and that have a score, prompts x systems."""
        draws = sum_draws(values, prompt)
        passes = np.where(draws.count > 0, draws.mean, 0.0) * draws.count
        return np.round(passes), draws.count

    def variance(self, values: FloatArray, prompt: IntArray) -> FloatArray:
        """Return the variance that other draws would give the scores of passes, prompts x systems."""
        return score_variance(self.kind or "pass@", *self.count_passes(values, prompt), self.k)

    def combine(self, values: FloatArray, prompt: IntArray) -> FloatArray:
        """Return the prompts' scores; NaN for prompts without a score."""
        if self.kind is None:
            return sum_draws(values, prompt).mean
        passes, count = self.count_passes(values, prompt)
        return np.where(count > 0, score_passes(self.kind, passes, count, self.k), np.nan)


def parse_draw_rule(how: str) -> DrawRule:
    """Parse mean, pass@K, pass^K or majority.

    >>> parse_draw_rule("pass@4")
    DrawRule(kind='pass@', k=4)
    """
    if how in ("mean", "majority"):
        return DrawRule() if how == "mean" else DrawRule("majority")
    match = re.fullmatch(r"(pass[@^])([1-9][0-9]{0,5})", how)
    if match is None:
        raise OptionError(f"`draws` is {how!r}; give mean, pass@K, pass^K (such as pass@4) or majority", "draws")
    return DrawRule("pass@" if match[1] == "pass@" else "pass^", int(match[2]))


def has_draws(evalset: EvalSet) -> bool:
    """Return whether some prompt has several draws: items of one document with different numbers in `draw`.

    >>> items = pl.DataFrame({"id": [1, 2], "document": ["a", "a"], "draw": [1, 2]})
    >>> segments = items.with_columns(draw=1)  # two segments of a document, each with one draw
    >>> [has_draws(EvalSet(table, ("X",), {})) for table in (items, segments)]
    [True, False]
    """
    return evalset.derived("has draws", _repeats_documents)


def _repeats_documents(evalset: EvalSet) -> bool:
    codes = evalset.documents if DRAW in evalset.items.columns else None
    if codes is None:
        return False
    draws = pl.DataFrame({"code": codes, "draw": evalset.items[DRAW]}).drop_nulls().unique()
    return draws.height > draws["code"].n_unique()


def build_draws_error(evalset: EvalSet, option: str) -> OptionError:
    """Build the error for an option that needs several draws of a prompt."""
    return OptionError(
        f"`{option}`: {evalset.name} has one draw of each prompt; several are items with the prompt's id as `document` "
        "and a column `draw`, a number from 1"
    )


def prompt_codes(evalset: EvalSet) -> IntArray:
    """Return integer codes of the items' prompts, in order of first appearance; without draws each item is one."""
    codes = evalset.documents if has_draws(evalset) else None
    return np.arange(evalset.n_items) if codes is None else codes


def prompt_ids(evalset: EvalSet) -> pl.Series:
    """Return the id of each item's prompt: its document, or its own id without draws or document."""
    ids = evalset.items["id"]
    if not has_draws(evalset):
        return ids
    documents = evalset.items["document"].cast(pl.String)
    return pl.select(pl.coalesce(documents, ids.cast(pl.String)).alias("id")).to_series()


def combine_draws(evalset: EvalSet, how: str = "mean", *, human: str | None = None) -> EvalSet:
    """Return the set with prompts as items.

    Scores, costs and times are means over the draws that have them. Judgments keep their rows, with the prompt as item
    and the column `draw`; other columns of an item are those of its first draw; outputs are left out.

    Args:
        evalset: items are draws: they have a column `draw`, and the prompt's id as `document`.
        how: what the human score of a prompt is: mean, or of pass/fail scores (0/1) pass@K, the probability that one of
            K draws passes, pass^K, that all of them do, or majority: whether most draws pass, 0.5 for a tie.
        human: name of the human score, if `evalset` does not name it.

    >>> items = pl.DataFrame({"id": [1, 2, 3, 4], "document": ["a", "a", "b", "b"], "draw": [1, 2, 1, 2]})
    >>> data = EvalSet(items, ("X",), {"correct": np.array([[1.0], [0.0], [0.0], [0.0]])}, human="correct")
    >>> combine_draws(data).scores["correct"].ravel().tolist()
    [0.5, 0.0]
    >>> combine_draws(data, "pass@2").scores["correct"].ravel().tolist()
    [1.0, 0.0]
    """
    rule = parse_draw_rule(how)
    codes, ids = prompt_codes(evalset), prompt_ids(evalset)
    first = np.unique(codes, return_index=True)[1]
    scores = {name: sum_draws(values, codes).mean for name, values in evalset.scores.items()}
    if rule.kind is not None:
        name = human or evalset.human or ""
        values = evalset.human_score(human)
        _require_passes(evalset, name, values, codes, rule, how)
        scores[name] = rule.combine(values, codes)
    judgments = evalset.judgments
    if judgments is not None:
        judgments = Judgments(_rename_items(evalset, judgments.table, ids))
    return replace(
        evalset,
        items=evalset.items[first].with_columns(ids.gather(first)).drop("document", DRAW, strict=False),
        scores=scores,
        outputs=None,
        judgments=judgments,
        human=human or evalset.human,
        averaged=evalset.averaged if rule.kind is None else {},
        usage={name: sum_draws(values, codes).mean for name, values in evalset.usage.items()},
    )


def _rename_items(evalset: EvalSet, table: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Return judgments with prompts as items, and the number of the draw."""
    if not has_draws(evalset):
        return table
    names = evalset.items.select(pl.col("id").alias("item"), ids.alias("_prompt"), DRAW)
    table = table.drop(DRAW, strict=False).join(names, on="item", how="left", maintain_order="left")
    return table.with_columns(pl.col("_prompt").alias("item")).drop("_prompt")


def _require_passes(evalset: EvalSet, name: str, values: FloatArray, codes: IntArray, rule: DrawRule, how: str) -> None:
    """Raise unless scores are 0 or 1 and every scored prompt has enough draws."""
    present = np.isfinite(values)
    other = values[present & ~np.isin(values, (0.0, 1.0))]
    if other.size:
        raise DataError(
            f"{evalset.name}: `draws={how}` is for pass/fail scores, 0 or 1, and '{name}' has {other[0]:g}; take the "
            "mean, or name a score that is 0 or 1 with `human`"
        )
    _, count = rule.count_passes(values, codes)
    few = (count > 0) & (count < rule.k)
    if few.any():
        row, column = np.argwhere(few)[0]
        prompt = prompt_ids(evalset).gather(np.flatnonzero(codes == row)[:1])[0]
        raise DataError(
            f"{evalset.name}: `draws={how}` needs {rule.k} draws with a score, and prompt {prompt} has "
            f"{count[row, column]:.0f} of {evalset.systems[column]} ({int(few.any(axis=1).sum())} prompts in all); "
            "take a smaller number, or leave these prompts out"
        )
