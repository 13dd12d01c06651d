"""Preferences: choices between systems, whether people made them in pairs, on ballots, or by scoring outputs apart.

Everything becomes pairwise choices on items. A ranking says who beats whom, a best-worst ballot that the best beats
and the worst loses to everything shown; scores say it where one annotator (or all of them on average) scored two
outputs of the same item.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from aliquot.annotation import choices as ballots
from aliquot.annotation.choice_tables import choice_table, fingerprint, known_systems
from aliquot.annotation.choices import Preferences, annotator_notes, cluster_codes, pair_preferences
from aliquot.annotation.comparison import Comparison, PairPreference, Position, SystemPreference
from aliquot.annotation.judgment_rows import OPEN, group_codes, judgment_rows
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.result import signature
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray, Seed
from aliquot.stats.bradley_terry import BradleyTerry, bradley_terry
from aliquot.stats.choices import choices_of_scores, choices_of_system, clustered_sign_test, sign_test, tally
from aliquot.stats.clustered import clustered_share, wilson_interval
from aliquot.stats.ranks import adjusted, holm, rank_intervals, student_p
from aliquot.stats.ranks import cluster as cluster_numbers

# -- Preferences: choices between systems, whether people made them in pairs, on ballots, or by scoring outputs apart


WITHIN = ("annotator", "item")


def table_preferences(
    table: pl.DataFrame,
    kind: str = "pairwise",
    *,
    systems: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    cluster: str = "item",
    strict: bool = False,
    where: str = "table",
) -> Preferences:
    """Read choices from a table of pairs, best-worst ballots or rankings (columns: see choice_tables).

    Args:
        table: As it came.
        kind: pairwise, best-worst or ranking.
        systems: Keep only these; for pairs and ballots that do not name the systems shown, who they were.
        columns: Our column role -> the table's column.
        ignore: Choices to leave out.
        cluster: item, annotator, or none to take all choices for independent.
        strict: Refuse duplicates that contradict each other instead of merging them.
        where: File name, for messages.

    Example:
        >>> table = pl.DataFrame({"item": [1, 2], "annotator": ["p", "p"], "system_a": ["X", "Y"],
        ...                       "system_b": ["Y", "X"], "choice": ["a", "b"]})
        >>> table_preferences(table).choices.outcome.tolist()
        [1, 1]
    """
    sorted_out = choice_table(table, kind, columns, where)
    asked = (("systems", _joined(systems)), ("ignore", _joined(ignore)))
    if kind == "pairwise":
        return replace(pair_preferences(sorted_out, systems, ignore, cluster, strict=strict), asked=asked)
    read = ballots.best_worst if kind == "best-worst" else ballots.rankings
    found = read(sorted_out, systems, strict=strict)
    codes = cluster_codes(found.keys, cluster)
    choices = choices_of_scores(found.values, codes, ties=kind == "ranking")
    if not len(choices):
        raise DataError(f"{where}: no choice between two systems is left; check the choices and --systems")
    return Preferences(
        systems=found.systems,
        choices=choices,
        kind=kind,
        items=found.keys["item"].n_unique(),
        annotators=found.keys["annotator"].drop_nulls().n_unique(),
        shown=found.shown,
        notes=(*found.notes, *annotator_notes(found.keys)),
        fingerprint=sorted_out.fingerprint,
        asked=asked,
    )


def _joined(names: Collection[str] | None) -> str | None:
    return ",".join(names) if names else None


# -- scores --------------------------------------------------------------------------------------------------------


def score_preferences(
    data: EvalSet | Judgments,
    *,
    systems: Sequence[str] | None = None,
    criterion: str | None = None,
    human: str | None = None,
    within: str = "annotator",
    margin: float = 0.0,
    cluster: str = "item",
) -> Preferences:
    """Derive choices from scores: of two outputs of an item, the one that the same annotator scored higher is chosen.

    Args:
        data: Judgments, or data with them; data without judgments are compared by their human score.
        systems: Keep only these.
        criterion: One criterion; by default the mean over all that the annotator answered.
        human: Compare by this score instead of by judgments.
        within: annotator (an annotator's own scores are compared) or item (the item's means over annotators are).
        margin: Differences up to it are ties.
        cluster: item, annotator, or none.

    Raises:
        DataError: Nobody scored two systems on the same item.

    Example:
        >>> import aliquot
        >>> data = aliquot.synthetic(items=30, systems=3, seed=1)
        >>> score_preferences(data, within="item").items
        30
    """
    if within not in WITHIN:
        raise unknown_name("within", within, WITHIN)
    judgments = data if isinstance(data, Judgments) else data.judgments
    asked = (("systems", _joined(systems)), ("criterion", criterion), ("human", human),
             ("within", None if within == "annotator" else within), ("margin", margin or None))  # fmt: skip
    if human is not None or judgments is None:
        if isinstance(data, Judgments):
            raise OptionError("human= names a score, and judgments alone have none; give data with scores")
        return replace(_from_score(data, systems, human, margin), asked=asked)
    found = _from_answers(judgments, systems, criterion, within, margin, cluster)
    digest = data.fingerprint if isinstance(data, EvalSet) else fingerprint(judgments.table)
    return replace(found, fingerprint=digest, asked=asked)


def _from_score(data: EvalSet, systems: Sequence[str] | None, human: str | None, margin: float) -> Preferences:
    kept = data if systems is None else data.keep(systems=known_systems(systems, data.systems, data.name))
    scores = kept.human_score(human)
    rows = np.flatnonzero(np.isfinite(scores).sum(axis=1) > 1)
    if not len(rows):
        raise DataError(f"{data.name}: no item has the score '{human or data.human}' for two systems; check --human")
    codes = np.arange(len(rows), dtype=np.int64)  # one row per item: items, annotators and rows are the same
    choices = choices_of_scores(scores[rows], codes, margin)
    note = f"compared by the score '{human or data.human}', item by item"
    return Preferences(kept.systems, choices, "scores", len(rows), 0, notes=(note,), fingerprint=data.fingerprint)


def _from_answers(
    judgments: Judgments, systems: Sequence[str] | None, criterion: str | None, within: str, margin: float, cluster: str
) -> Preferences:
    table = judgment_rows(judgments).table.filter(OPEN & pl.col("control").is_null())
    notes = []
    if criterion is not None:
        if criterion not in judgments.criteria:
            raise unknown_name("criterion", criterion, judgments.criteria)
        table = table.filter(pl.col("criterion") == criterion)
    elif len(judgments.criteria) > 1:
        notes.append(f"the mean over {len(judgments.criteria)} criteria is compared; --criterion NAME compares one")
    names = table["system"].unique(maintain_order=True).to_list()
    if systems is not None:
        names = known_systems(systems, names, "judgments")
        table = table.filter(pl.col("system").is_in(names))
    notes += _torn(table)
    table, keys = _units(table, within)
    matrix, kept = _matrix(table, keys, names)
    if not len(kept):
        raise DataError(
            "nobody scored two of the systems on the same item" + (
                "; compare the items' means over annotators with --within item" if within == "annotator" else ""
            )
        )  # fmt: skip
    units = keys[kept]
    return Preferences(
        systems=tuple(names),
        choices=choices_of_scores(matrix, cluster_codes(units, cluster), margin),
        kind="scores",
        items=units["item"].n_unique(),
        annotators=units["annotator"].drop_nulls().n_unique(),
        notes=(*notes, *(annotator_notes(units) if within == "annotator" else [])),
    )


def _torn(table: pl.DataFrame) -> list[str]:
    """Say how often an annotator scored an output twice and differently; such scores are averaged."""
    cell = ["item", "annotator", "system", "criterion"]
    several = table.filter(pl.col("annotator").is_not_null()).group_by(cell).agg(pl.col("value").n_unique())
    torn = several.filter(pl.col("value") > 1).height
    return [f"outputs that an annotator scored more than once and differently, averaged: {torn}"] if torn else []


def _units(table: pl.DataFrame, within: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cell means with the number of the unit (an annotator on an item, or an item) they belong to, and the units."""
    by = ["item", "annotator"] if within == "annotator" else ["item"]
    cells = table.group_by(*by, "system", maintain_order=True).agg(pl.col("value").mean())
    cells = cells.with_columns(pl.Series("unit", group_codes(cells, by)))
    keys = cells.group_by("unit").agg(pl.col(*by).first()).sort("unit").drop("unit")
    return cells, keys if within == "annotator" else keys.with_columns(pl.lit(None, dtype=pl.String).alias("annotator"))


def _matrix(cells: pl.DataFrame, keys: pl.DataFrame, names: Sequence[str]) -> tuple[FloatArray, IntArray]:
    """Units x systems of those units that scored at least two, and which units they are."""
    unit = cells["unit"].to_numpy().astype(np.int64)
    kept = np.flatnonzero(np.bincount(unit, minlength=keys.height) > 1)
    place = np.full(keys.height, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    place_of = {name: at for at, name in enumerate(names)}
    column = cells["system"].replace_strict(place_of, return_dtype=pl.Int64).to_numpy().astype(np.int64)
    rows = place[unit]
    matrix = np.full((len(kept), len(names)), np.nan)
    matrix[rows[rows >= 0], column[rows >= 0]] = cells["value"].to_numpy()[rows >= 0]
    return matrix, kept


# -- From preferences to win rates, tests, Bradley-Terry scores, ranks and clusters ----------------------------------


@dataclass(frozen=True, eq=False)
class _Ranks:
    low: IntArray
    high: IntArray
    cluster: IntArray


def compare_preferences(
    preferences: Preferences,
    *,
    ties: str = "half",
    interval: str = "robust",
    level: float = 0.95,
    alpha: float = 0.05,
    adjust: bool = False,
    prior: float | None = None,
    draws: int = 1000,
    cluster: str = "item",
    seed: Seed = 0,
) -> Comparison:
    """Compare systems by the choices between them.

    Args:
        preferences: From `table_preferences` or `score_preferences`.
        ties: How Bradley-Terry scores treat ties: half, davidson or drop. Win rates count them half, sign tests leave
            them out.
        interval: Of the scores: robust, bootstrap or information.
        level: Coverage of all intervals.
        alpha: Significance of ranks and clusters, one-sided.
        adjust: Holm's correction over pairs, for ranks and clusters.
        prior: Choices to add to every compared pair for the scores, half won by either side; None adds one only where
            they would be infinite.
        draws: Bootstrap draws.
        cluster: What choices were clustered by, for the record.
        seed: Of the bootstrap.

    Example:
        >>> import aliquot
        >>> from aliquot.annotation.preferences import score_preferences
        >>> data = aliquot.synthetic(items=60, systems=3, seed=1)
        >>> compare_preferences(score_preferences(data, within="item")).systems[0].system
        'sys1'
    """
    if not 0.0 < alpha < 0.5:
        raise OptionError(f"alpha is {alpha}; choose between 0 and 0.5, for instance 0.05")
    fit = bradley_terry(
        preferences.choices, ties=ties, interval=interval, level=level, prior=prior, draws=draws, seed=seed
    )
    ranks = _ranks(fit, alpha, adjust=adjust)
    systems = _system_rows(preferences, fit, ranks, level)
    order = sorted(
        range(len(systems)), key=lambda at: (systems[at].component, -np.nan_to_num(fit.scores[at], nan=-np.inf))
    )
    seeded = seed if isinstance(seed, int) and interval == "bootstrap" else None
    return Comparison(
        systems=tuple(systems[at] for at in order),
        pairs=_pair_rows(preferences, level),
        kind=preferences.kind,
        choices=len(preferences.choices),
        items=preferences.items,
        annotators=preferences.annotators,
        clusters=cluster,
        ties=ties,
        tie_parameter=fit.tie,
        interval=interval,
        level=level,
        prior=fit.prior,
        position=_position(preferences, level),
        notes=(*preferences.notes, *_fit_notes(preferences, fit, ties, prior)),
        signature=signature(
            f"compare:{preferences.kind}", None, **dict(preferences.asked), ties=ties, interval=interval, level=level,
            cluster=None if cluster == "item" else cluster, prior=prior, alpha=None if alpha == 0.05 else alpha,
            holm="yes" if adjust else None, draws=draws if seeded is not None else None, seed=seeded,
            data=preferences.fingerprint,
        ),
    )  # fmt: skip


def _ranks(fit: BradleyTerry, alpha: float, *, adjust: bool) -> _Ranks:
    """Rank the systems of each component among themselves."""
    number = len(fit.scores)
    low, high, clusters = (np.ones(number, dtype=np.int64) for _ in range(3))
    variances = np.diag(fit.covariance)
    for part in np.unique(fit.component):
        here = np.flatnonzero(fit.component == part)
        scores = fit.scores[here]
        variance = variances[here][:, None] + variances[here][None, :] - 2 * fit.covariance[np.ix_(here, here)]
        se = np.sqrt(np.maximum(variance, 0.0))
        se[se <= 1e-9] = np.nan  # a difference that was never seen to vary is not known for sure
        p = student_p(scores[:, None] - scores[None, :], se, fit.df)
        np.fill_diagonal(p, 0.5)
        p = holm(p) if adjust and len(here) > 1 else p
        better = np.nan_to_num(p, nan=1.0) < alpha
        low[here], high[here] = rank_intervals(better)
        clusters[here] = cluster_numbers(scores, better)
    return _Ranks(low, high, clusters)


def _system_rows(preferences: Preferences, fit: BradleyTerry, ranks: _Ranks, level: float) -> list[SystemPreference]:
    counts = tally(preferences.choices)
    se = np.sqrt(np.diag(fit.covariance))
    rows = []
    for at, name in enumerate(preferences.systems):
        share = clustered_share(*choices_of_system(preferences.choices, at), level)
        best, worst = _named(preferences.shown, at)
        row = SystemPreference(
            system=name, n=share.n, wins=int(counts.wins[at].sum()), ties=int(counts.ties[at].sum()),
            losses=int(counts.wins[:, at].sum()), win_rate=share.share, low=share.low, high=share.high,
            score=float(fit.scores[at]), se=float(se[at]), score_low=float(fit.low[at]),
            score_high=float(fit.high[at]), rank_low=int(ranks.low[at]), rank_high=int(ranks.high[at]),
            cluster=int(ranks.cluster[at]), component=int(fit.component[at]) + 1, best=best, worst=worst,
        )  # fmt: skip
        rows.append(row)
    return rows


def _named(shown: IntArray | None, at: int) -> tuple[float, float]:
    """Shares of the ballots with a system on which it was the best and the worst."""
    if shown is None or not shown[at, 0]:
        return float("nan"), float("nan")
    return float(shown[at, 1] / shown[at, 0]), float(shown[at, 2] / shown[at, 0])


def _pair_rows(preferences: Preferences, level: float) -> tuple[PairPreference, ...]:
    rows = []
    for first, second, cluster, outcome in preferences.choices:
        names, turned = (preferences.systems[first], preferences.systems[second]), outcome.astype(np.int64)
        if turned.sum() < 0:  # the more often chosen one stands first
            names, turned = names[::-1], -turned
        rows.append(_pair_row(*names, cluster.astype(np.int64), turned, level))
    p = adjusted(np.array([row.p for row in rows], dtype=np.float64), "holm")
    full = [replace(row, p_holm=float(value)) for row, value in zip(rows, p, strict=True)]
    return tuple(sorted(full, key=lambda row: (-row.win_rate, row.a, row.b)))


def _pair_row(a: str, b: str, cluster: IntArray, outcome: IntArray, level: float) -> PairPreference:
    wins, losses = int((outcome == 1).sum()), int((outcome == -1).sum())
    rate = clustered_share((1.0 + outcome) / 2, cluster, level)
    share = wins / (wins + losses) if wins + losses else float("nan")
    share_low, share_high = wilson_interval(share, wins + losses, level)
    return PairPreference(
        a=a, b=b, n=len(outcome), clusters=rate.clusters, wins=wins, ties=len(outcome) - wins - losses, losses=losses,
        win_rate=rate.share, low=rate.low, high=rate.high, share=share, share_low=share_low, share_high=share_high,
        p_sign=float(sign_test(wins, losses)), p=clustered_sign_test(np.bincount(cluster, outcome).astype(np.int64)),
        p_holm=float("nan"),
    )  # fmt: skip


def _position(preferences: Preferences, level: float) -> Position | None:
    if preferences.first_won is None or preferences.first_cluster is None:
        return None
    share = clustered_share(preferences.first_won, preferences.first_cluster, level)
    return Position(share.n, share.share, share.low, share.high)


def _fit_notes(preferences: Preferences, fit: BradleyTerry, ties: str, prior: float | None) -> list[str]:
    notes = []
    outcome = preferences.choices.outcome
    tied = int((outcome == 0).sum())
    if tied == len(outcome):
        notes.append(f"all {tied} choices are ties: nothing can be tested, and no system is better")
    elif tied:
        how = {"half": "half a win for each", "davidson": "by Davidson's model", "drop": "left out"}[ties]
        notes.append(
            f"{tied} of {len(outcome)} choices are ties: half a win in win rates, left out of sign tests, {how} in "
            "scores"
        )
    if fit.prior and prior is None:
        notes.append(
            "the choices are too one-sided for finite scores (some systems never lose): half a win for each side was "
            "added to every compared pair (--prior)"
        )
    if fit.repaired:
        notes.append(
            f"{fit.repaired} bootstrap draws had infinite scores: half a win for each side was added to every pair"
        )
    parts = len(np.unique(fit.component))
    if parts > 1:
        notes.append(
            f"the comparisons fall into {parts} groups of systems that were never compared with each other: scores, "
            "ranks and clusters count within a group only (column component)"
        )
    return notes
