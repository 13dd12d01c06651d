"""Simulated annotators for rehearsals: how they judge, how fast, who is careless and who leaves.

An annotator sees an output's quality (0 to 1) with an own severity and noise. Everything is drawn from one seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aliquot.collect.bots import Answers, answer_unit
from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import DataError, OptionError
from aliquot.stats.arrays import FloatArray

_NOISE, _SEVERITY = 0.15, 0.06  # of the scale's width; what ESA and DA campaigns of WMT show, about
_SPREAD = 0.18
_METRIC_WEIGHT = 0.6
_TIE = 0.04
_ERRORS = 4.0
_MAJOR = 0.3


@dataclass(frozen=True)
class Behaviour:
    """How the simulated annotators are.

    Attributes:
        noise: standard deviation of a judgment around what the annotator means, as a share of the scale.
        severity: standard deviation between annotators, as a share of the scale.
        careless: share of annotators who answer at random, and fast.
        dropouts: share of annotators who leave before they have done their part.
        pace: seconds a judgment; None guesses by the number of characters.
        pace_spread: standard deviation of the logarithm of the pace between annotators.
    """

    noise: float = _NOISE
    severity: float = _SEVERITY
    careless: float = 0.1
    dropouts: float = 0.1
    pace: float | None = None
    pace_spread: float = 0.35

    def __post_init__(self) -> None:
        for name, limit in (("noise", 2.0), ("severity", 2.0), ("careless", 1.0), ("dropouts", 1.0)):
            if not 0 <= getattr(self, name) <= limit:
                raise OptionError(f"`{name}` is {getattr(self, name):g}; choose a number from 0 to {limit:g}")
        if self.pace is not None and not 0 < self.pace < 1e6:
            raise OptionError(f"`seconds_per_judgment` is {self.pace:g}; choose a number above 0")


def learn_behaviour(past: Judgments, behaviour: Behaviour) -> Behaviour:
    """Estimate noise, severity and pace from past judgments, where they allow it.

    >>> rows = [(i, a, 50 + 10 * i + 6 * a) for i in range(4) for a in (0, 1)]
    >>> items, who, values = ([row[at] for row in rows] for at in range(3))
    >>> past = pl.DataFrame({"item": items, "system": ["A"] * 8, "annotator": [str(a) for a in who], "value": values})
    >>> learn_behaviour(Judgments(past), Behaviour()).noise
    0.0
    """
    table = past.answers().filter(pl.col("value").is_not_null() & pl.col("annotator").is_not_null())
    if table["annotator"].n_unique() < 2 or not table.height:
        raise DataError("`like`: past judgments need at least two annotators, to tell noise from quality")
    spread = float(table["value"].max() or 0) - float(table["value"].min() or 0)  # type: ignore[arg-type]
    several = pl.len().over("item", "system", "criterion") > 1
    centred = table.filter(several).with_columns(
        (pl.col("value") - pl.col("value").mean().over("item", "system", "criterion")).alias("_off")
    )
    if not centred.height or spread <= 0:
        raise DataError("`like`: no output of the past data was judged by two annotators; give `noise` instead")
    by_person = centred.group_by("annotator").agg(pl.col("_off").mean().alias("_mean"), pl.len().alias("_n"))
    residuals = centred.join(by_person, on="annotator")
    # Deviations from the mean of k judgments are smaller than the noise, by the factor (k - 1) / k.
    share = centred.select((1 / pl.len().over("item", "system", "criterion")).sum()).item() / centred.height
    within = math.sqrt(float((residuals["_off"] - residuals["_mean"]).pow(2).mean() or 0.0) / max(1 - share, 1e-9))  # type: ignore[arg-type]
    between = float(by_person["_mean"].std() or 0.0)  # type: ignore[arg-type]
    seconds = table["seconds"].drop_nulls()
    pace = float(seconds.median() or 0.0) if len(seconds) else 0.0  # type: ignore[arg-type]
    return Behaviour(
        round(within / spread, 6),
        round(between / spread, 6),
        behaviour.careless,
        behaviour.dropouts,
        pace if pace > 0 else behaviour.pace,
        behaviour.pace_spread,
    )


def output_qualities(evalset: EvalSet, seed: int) -> tuple[FloatArray, str]:
    """Return the quality of every output (0 to 1), and where it comes from: human scores, a metric, or chance."""
    shape = (evalset.n_items, evalset.n_systems)
    rng = np.random.default_rng([seed, 11])
    human = evalset.human
    if human is not None and np.isfinite(evalset.scores[human]).mean() > 0.9:
        values = evalset.scores[human]
        low, high = np.nanmin(values), np.nanmax(values)
        if high > low:
            scaled = (np.where(np.isfinite(values), values, np.nanmean(values)) - low) / (high - low)
            return 0.05 + 0.9 * scaled, f"the score '{human}'"
    systems = rng.normal(0, 0.35, shape[1])
    items = rng.normal(0, 0.5, (shape[0], 1))
    scores = rng.normal(0, 0.8, shape)
    names = usable_metrics(evalset)
    if names:
        metric = evalset.scores[names[0]]
        finite = np.where(np.isfinite(metric), metric, np.nanmean(metric))
        z = (finite - finite.mean()) / max(float(finite.std()), 1e-12)
        latent = _METRIC_WEIGHT * z + math.sqrt(1 - _METRIC_WEIGHT**2) * scores
        return np.clip(0.65 + _SPREAD * latent, 0, 1), f"the metric '{names[0]}' and chance"
    return np.clip(0.65 + _SPREAD * (systems + items + scores), 0, 1), "chance"


Quality = Callable[[str, str | None], float]
"""What an output is worth: by its cell, or by an item-level cell and the slot it stands in."""


@dataclass
class Person:
    """One simulated annotator, with an own random stream."""

    name: str
    behaviour: Behaviour
    careless: bool
    leaves_after: float | None  # share of the own part
    severity: float
    speed: float
    rng: random.Random

    def perceived(self, quality: float) -> float:
        """Return the quality as this annotator sees it, 0 to 1."""
        if self.careless:
            return self.rng.random()
        return min(1.0, max(0.0, quality + self.severity + self.rng.gauss(0, self.behaviour.noise)))

    def answers(self, unit: Mapping[str, Any], protocol: Mapping[str, Any], quality: Quality) -> Answers:
        """Return an answer to every question of a unit."""
        answers = answer_unit(unit, protocol, self.rng)
        widgets = {widget["name"]: widget for widget in protocol["widgets"]}
        slots = [output["slot"] for row in unit["rows"] for output in row["outputs"] if not row["context"]]
        texts = {o["cell"]: o["text"] for row in unit["rows"] for o in row["outputs"] if o.get("cell")}
        for cell, answer in answers.items():
            perceived: dict[str, float] = {}
            for name in answer:
                widget = widgets[name]
                if widget["kind"] in ("score", "spans") and cell in texts:
                    worth = perceived.setdefault("", self.perceived(quality(cell, None)))
                    answer[name] = (
                        _answer_score(widget, worth)
                        if widget["kind"] == "score"
                        else self._answer_spans(widget, worth, texts[cell])
                    )
                elif widget["kind"] == "choice":
                    worths = {slot: self.perceived(quality(cell, slot)) for slot in dict.fromkeys(slots)}
                    answer[name] = _answer_choice(widget, worths)
        return answers

    def _answer_spans(self, widget: Mapping[str, Any], worth: float, text: str) -> list[dict[str, Any]]:
        count = min(5, int(-math.log(max(self.rng.random(), 1e-9)) * (1 - worth) * _ERRORS / 2))
        names = [severity["name"] for severity in widget["severities"]]
        usual = [name for name in names if name.casefold() in ("minor", "major")] or names
        leaves = [
            f"{top}/{leaf}" if leaf else top for top, below in widget["categories"].items() for leaf in below or [""]
        ]
        words = [part for part in text.split(" ") if part]
        spans = []
        for _ in range(count if words else 0):
            word = self.rng.choice(words)
            start = text.index(word)
            severity = usual[-1] if self.rng.random() < _MAJOR else usual[0]
            spans.append(
                {
                    "start": start,
                    "end": start + len(word),
                    "quote": word,
                    "side": "output",
                    "severity": severity,
                    "category": self.rng.choice(leaves) if leaves else None,
                }
            )
        return spans

    def seconds(self, expected: float) -> float:
        """Return how long a unit takes this annotator."""
        hurry = 0.25 if self.careless else 1.0
        return expected * self.speed * hurry * math.exp(self.rng.gauss(0, 0.2))


def _answer_score(widget: Mapping[str, Any], worth: float) -> Any:
    steps = round((widget["high"] - widget["low"]) / widget["step"])
    value = widget["low"] + round(worth * steps) * widget["step"]
    return dict.fromkeys(widget["criteria"], value) if widget["criteria"] else value


def _answer_choice(widget: Mapping[str, Any], worths: Mapping[str, float]) -> Any:
    order = sorted(worths, key=lambda slot: -worths[slot])
    if widget["style"] == "best-worst":
        return {"best": order[0], "worst": order[-1]}
    if widget["style"] == "ranking":
        return [[slot] for slot in order]
    tie = widget["ties"] and worths[order[0]] - worths[order[1]] < _TIE
    chosen = "tie" if tie else order[0]
    if not widget["strength"]:
        return chosen
    return {"choice": chosen} | ({} if tie else {"strength": 1})


def draw_people(names: Sequence[str], behaviour: Behaviour, seed: int) -> list[Person]:
    """Draw annotators; the shares of careless ones and of those who leave are met as exactly as whole people allow."""
    rng = np.random.default_rng([seed, 13])
    count = len(names)
    careless = set(rng.permutation(count)[: round(behaviour.careless * count)].tolist())
    leaving = set(rng.permutation(count)[: round(behaviour.dropouts * count)].tolist())
    return [
        Person(
            name,
            behaviour,
            index in careless,
            float(rng.uniform(0.1, 0.9)) if index in leaving else None,
            float(rng.normal(0, behaviour.severity)),
            float(np.exp(rng.normal(0, behaviour.pace_spread))),
            random.Random(f"{seed}/{name}"),  # noqa: S311  (a simulation)
        )
        for index, name in enumerate(names)
    ]
