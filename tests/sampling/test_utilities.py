"""Utilities: each one against a plain loop over items written here, with holes in the scores and outputs."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sacrebleu
from scipy import stats
from scipy.special import expit

import aliquot
from aliquot import AliquotWarning, EvalSet
from aliquot.errors import DataError, NameUnknownError, OptionError
from aliquot.sampling import text_vectors as embedding
from aliquot.sampling.select import select

NAN = float("nan")
IRT = ("irt_diffdisc", "irt_diff", "irt_disc", "irt_feas", "irt_info")
ON_METRIC = ("metric_avg", "metric_var", "metric_cons", *IRT)


def table(values: Any, outputs: Sequence[Sequence[str | None]] | None = None, **columns: Any) -> EvalSet:
    """A set with the one metric `m`, and outputs where given."""
    array = np.asarray(values, dtype=float)
    systems = tuple(f"s{at}" for at in range(array.shape[1]))
    texts = None if outputs is None else pl.DataFrame(dict(zip(systems, zip(*outputs, strict=True), strict=True)))
    items = pl.DataFrame({"id": [f"i{at}" for at in range(len(array))], **columns})
    return EvalSet(items=items, systems=systems, scores={"m": array}, outputs=texts)


def utilities(evalset: EvalSet, method: str, **options: Any) -> np.ndarray:
    """Every item's utility in the order of the set, through the public door."""
    selection = select(evalset, method, **options)
    assert selection.utility is not None
    assert selection.probability is None
    of = dict(zip(selection.ids, selection.utility.tolist(), strict=True))
    return np.array([of[item] for item in evalset.ids])


def scores(items: int = 60, systems: int = 7, holes: float = 0.0, seed: int = 5) -> np.ndarray:
    """Scores in tenths, so that there are ties, with a share of missing cells."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=(items, 1)) + rng.normal(size=(items, systems)), 1)
    return np.where(rng.random(values.shape) < holes, NAN, values)


# -- from one metric -----------------------------------------------------------------------------------------------


def present(row: np.ndarray) -> np.ndarray:
    kept: np.ndarray = row[~np.isnan(row)]
    return kept


def correlation(row: np.ndarray, means: np.ndarray, rank: str) -> float:
    kept = ~np.isnan(row)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy says that constant rows have no correlation
        if rank == "accuracy":
            pairs = list(itertools.combinations(np.flatnonzero(kept), 2))
            apart = [abs(np.sign(row[a] - row[b]) - np.sign(means[a] - means[b])) / 2 for a, b in pairs]
            value = 1 - np.mean(apart) if pairs else 0.0
        elif rank == "spearman":
            value = stats.spearmanr(row[kept], means[kept]).statistic
        else:
            value = stats.kendalltau(row[kept], means[kept], variant=rank[-1]).statistic
    return 0.0 if np.isnan(value) else float(value)


def by_loop(values: np.ndarray, rank: str) -> np.ndarray:
    means = np.array([present(column).mean() for column in values.T])
    return np.array([correlation(row, means, rank) for row in values])


ORACLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "metric_avg": lambda values: np.array([-present(row).mean() for row in values]),
    "metric_var": lambda values: np.array([((present(row) - present(row).mean()) ** 2).mean() for row in values]),
    "metric_cons": lambda values: by_loop(values, "tau-c"),
    "metric_cons:rank=tau-b": lambda values: by_loop(values, "tau-b"),
    "metric_cons:rank=spearman": lambda values: by_loop(values, "spearman"),
    "metric_cons:rank=accuracy": lambda values: by_loop(values, "accuracy"),
}


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("method", ORACLES)
def test_metric_utilities_equal_the_loop(method, holes):
    values = scores(holes=holes)
    assert utilities(table(values), method) == pytest.approx(ORACLES[method](values), abs=1e-12)


@pytest.mark.parametrize(("rank", "first"), [("tau-c", 0.0), ("tau-b", 0.0), ("spearman", 0.0), ("accuracy", 0.5)])
def test_systems_that_differ_by_rounding_alone_tie(rank, first):
    """0.3 + 0.3 + 0.8 is not 0.8 + 0.3 + 0.3 to the last bit."""
    values = np.array([[0.3, 0.8], [0.3, 0.3], [0.8, 0.3]])
    utility = utilities(table(values), f"metric_cons:rank={rank}")
    assert utility[0] == utility[2] == first


@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons"])
def test_best_come_first(method):
    selection = select(table(scores()), method)
    assert selection.utility is not None
    assert (np.diff(selection.utility) <= 0).all()


@pytest.mark.parametrize("method", ON_METRIC)
def test_an_item_without_the_metric_comes_last_and_is_reported(method):
    values = scores(items=20)
    values[3] = NAN
    with pytest.warns(AliquotWarning, match=f"1 of 20 items lack what '{method}' needs"):
        selection = select(table(values), method)
    assert selection.ids[-1] == "i3"


def test_a_utility_that_is_unknown_is_not_given_a_number():
    values = scores(items=20)
    values[3] = NAN
    with pytest.warns(AliquotWarning, match="come last"):
        found = utilities(table(values), "metric_avg")
    assert np.isnan(found[3])


@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons", "irt_diffdisc"])
def test_a_crowd_is_all_that_is_looked_at(method):
    evalset = table(scores())
    crowd = ["s4", "s0", "s2"]
    assert np.array_equal(utilities(evalset, method, crowd=crowd), utilities(evalset.keep(systems=crowd), method))
    assert not np.allclose(utilities(evalset, method, crowd=crowd), utilities(evalset, method))


def test_an_unknown_system_in_the_crowd_gets_a_suggestion():
    with pytest.raises(NameUnknownError, match=r"unknown system 'S1'; did you mean 's1'\?"):
        select(table(scores()), "metric_avg", crowd=["S1"])


@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons", "irt_disc", "bruteforce", "guided"])
def test_a_human_score_as_metric_is_called_an_oracle(method):
    evalset = aliquot.synthetic(items=30, systems=4, seed=1)
    with pytest.warns(AliquotWarning, match="'human' is a human score: this is an oracle"):
        select(evalset, method, 5, metric="human")


def test_a_score_named_like_a_human_one_is_an_oracle_too():
    evalset = table(scores()).rename(scores={"m": "da-sqm"})
    with pytest.warns(AliquotWarning, match="oracle"):
        select(evalset, "metric_avg", 5, metric="da-sqm")


def test_random_is_uniform_and_follows_the_seed():
    evalset = table(np.zeros((500, 1)))
    first = utilities(evalset, "random", seed=1)
    assert stats.kstest(first, "uniform").pvalue > 0.01
    assert np.array_equal(first, utilities(evalset, "random", seed=1))
    assert not np.array_equal(first, utilities(evalset, "random", seed=2))


# -- uncertainty and mixture ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "sign"), [("high", 1.0), ("low", -1.0)])
def test_uncertainty_is_the_mean_over_systems(first, sign):
    values = scores(holes=0.2)
    expected = sign * np.array([present(row).mean() for row in values])
    assert utilities(table(values), "uncertainty", score="m", first=first) == pytest.approx(expected)


@pytest.mark.parametrize(("first", "order"), [("high", ["i2", "i0", "i1"]), ("low", ["i1", "i0", "i2"])])
def test_uncertainty_may_be_an_item_column(first, order):
    evalset = table(np.zeros((3, 2)), unsure=[0.5, 0.1, 0.9])
    assert list(select(evalset, "uncertainty", score="unsure", first=first).ids) == order


def test_uncertainty_of_an_item_column_needs_no_metric():
    items = pl.DataFrame({"id": [0, 1], "unsure": [0.2, 0.4]})
    assert select(EvalSet(items=items, systems=("A",)), "uncertainty:score=unsure").ids == (1, 0)


def test_a_missing_uncertainty_comes_last():
    evalset = table(np.zeros((3, 2)), unsure=[None, -1.0, 2.0])
    with pytest.warns(AliquotWarning, match="1 of 3"):
        assert select(evalset, "uncertainty:score=unsure").ids == ("i2", "i1", "i0")


def test_an_unknown_uncertainty_gets_a_suggestion():
    with pytest.raises(NameUnknownError, match=r"unknown uncertainty score 'unsur'; did you mean 'unsure'\?"):
        select(table(np.zeros((2, 2)), unsure=[1, 2]), "uncertainty:score=unsur")


def test_uncertainty_without_a_score_says_which_parameter_is_missing():
    with pytest.raises(OptionError, match=r"uncertainty.*score"):
        select(table(scores()), "uncertainty")


@pytest.mark.parametrize("weights", [None, (1, 1, 1), (0.5, 2, 0), (3, 1, 1)])
def test_mixture_is_the_weighted_mean_of_ranks(weights):
    evalset = table(scores(holes=0.1))
    parts = ("metric_avg", "metric_var", "metric_cons:rank=spearman")
    ranks = [stats.rankdata(utilities(evalset, part)) for part in parts]
    mixed = utilities(evalset, "mixture", methods=parts, weights=weights)
    assert mixed == pytest.approx(np.average(ranks, axis=0, weights=weights))


def test_mixture_gives_its_metric_to_the_parts_that_have_none():
    evalset = table(scores()).with_score("other", scores(seed=6))
    told = utilities(evalset, "mixture:methods=metric_avg|(metric_var:metric=other),metric=m")
    parts = [utilities(evalset, "metric_avg", metric="m"), utilities(evalset, "metric_var", metric="other")]
    assert told == pytest.approx(np.mean([stats.rankdata(part) for part in parts], axis=0))


def test_mixture_puts_an_item_that_no_part_knows_last():
    values = scores(items=20)
    values[7] = NAN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        assert select(table(values), "mixture:methods=metric_avg|metric_var").ids[-1] == "i7"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("methods=metric_avg|segments", "'segments' gives no utility"),
        ("methods=metric_avg|bruteforce", "'bruteforce' gives no utility"),
        ("methods=metric_avg|metric_vra", "did you mean 'metric_var'"),
        ("methods=metric_avg|metric_var,weights=1", "1 weights for 2 methods"),
        ("methods=metric_avg|metric_var,weights=1|-1", "one positive weight each"),
        ("methods=metric_avg|metric_var,weights=0|0", "one positive weight each"),
        ("methods=metric_avg|metric_var,weights=1|much", "much"),
        ("methods=metric_avg|metric_var,weights=1|nan", "weight"),
    ],
)
def test_a_mixture_that_cannot_be_mixed_is_refused(given, message):
    with pytest.raises((OptionError, NameUnknownError), match=message):
        select(table(scores()), f"mixture:{given}")


# -- item response theory ------------------------------------------------------------------------------------------


def simulated(items: int = 200, systems: int = 15, seed: int = 3) -> tuple[EvalSet, np.ndarray, np.ndarray]:
    """Scores from the model itself, with a little noise and a few holes; difficulty and discrimination."""
    rng = np.random.default_rng(seed)
    ability, difficulty = np.linspace(-1.5, 1.5, systems), rng.normal(size=items)
    discrimination = np.exp(rng.normal(0.3, 0.5, items))
    feasibility = rng.uniform(0.8, 1.0, items)
    values = feasibility[:, None] * expit(discrimination[:, None] * (ability - difficulty[:, None]))
    values += rng.normal(0, 0.03, values.shape)
    values[rng.random(values.shape) < 0.05] = NAN
    return table(values), difficulty, discrimination


def test_irt_recovers_what_it_was_simulated_from():
    evalset, difficulty, discrimination = simulated()
    for method, truth in (("irt_diffdisc", discrimination * difficulty), ("irt_diff", difficulty)):
        assert stats.spearmanr(utilities(evalset, method), truth).statistic > 0.8
    assert stats.spearmanr(utilities(evalset, "irt_disc"), discrimination).statistic > 0.6


@pytest.mark.parametrize("method", IRT)
def test_irt_is_deterministic_whatever_the_seed(method):
    evalset, _, _ = simulated(items=60, systems=6)
    first = utilities(evalset, method, seed=1)
    assert np.isfinite(first).all()
    assert np.array_equal(first, utilities(evalset, method, seed=2))


def test_irt_parts_fit_together():
    evalset, _, _ = simulated(items=60, systems=6)
    parts = {name: utilities(evalset, name) for name in IRT}
    assert parts["irt_diffdisc"] == pytest.approx(parts["irt_diff"] * parts["irt_disc"])
    assert ((parts["irt_feas"] > 0) & (parts["irt_feas"] <= 1)).all()
    assert (parts["irt_info"] > 0).all()


# -- from texts ----------------------------------------------------------------------------------------------------

WORDS = ("ein", "Haus", "am", "See", "ist", "schön", "und", "groß", ".", "nicht", "Häuser", "alt")


def outputs(items: int = 12, systems: int = 4, holes: float = 0.15) -> list[list[str | None]]:
    rng = np.random.default_rng(8)
    texts: list[list[str | None]] = [
        [" ".join(rng.choice(WORDS, rng.integers(0, 9))) for _ in range(systems)] for _ in range(items)
    ]
    for row in texts:
        for at in np.flatnonzero(rng.random(systems) < holes):
            row[at] = None
    return texts


def dice(a: str, b: str) -> float:
    left, right = Counter(a.split()), Counter(b.split())
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if left and right else 1.0


BLEU, CHRF = sacrebleu.BLEU(effective_order=True), sacrebleu.CHRF()
SIMILARITIES: dict[str, Callable[[str, str], float]] = {
    "unigram": dice,
    "bleu": lambda a, b: BLEU.sentence_score(a, [b]).score,
    "chrf": lambda a, b: CHRF.sentence_score(a, [b]).score,
}


def mean_over_pairs(row: Sequence[str | None], similarity: Callable[[str, str], float]) -> float:
    texts = [text for text in row if text is not None]
    values = [similarity(a, b) for a, b in itertools.permutations(texts, 2)]
    return float(np.mean(values)) if values else NAN


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_diversity_equals_the_loop_over_pairs(similarity):
    texts = outputs(holes=0.0)
    evalset = table(np.zeros((len(texts), 4)), texts)
    expected = [-mean_over_pairs(row, SIMILARITIES[similarity]) for row in texts]
    assert utilities(evalset, "diversity", similarity=similarity) == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("similarity", [*SIMILARITIES, "embedding"])
def test_diversity_with_missing_outputs(similarity):
    texts = outputs()
    texts[4] = [None, "alt", None, None]
    texts[9] = [None] * 4
    evalset = table(np.zeros((len(texts), 4)), texts)
    model: dict[str, Any] = {"model": "ngrams"} if similarity == "embedding" else {}
    with pytest.warns(AliquotWarning, match="2 of 12 items lack what 'diversity' needs"):
        selection = select(evalset, "diversity", similarity=similarity, **model)
    assert set(selection.ids[-2:]) == {"i4", "i9"}
    if similarity != "embedding":
        expected = {f"i{at}": -mean_over_pairs(row, SIMILARITIES[similarity]) for at, row in enumerate(texts)}
        assert selection.utility is not None
        found = selection.utility[:-2].tolist()
        assert found == pytest.approx([expected[str(item)] for item in selection.ids[:-2]], abs=1e-9)


def test_diversity_by_embedding_is_the_mean_inner_product():
    texts = outputs(holes=0.0)
    vectors = embedding.embed([str(text) for row in texts for text in row], "ngrams").reshape(len(texts), 4, -1)
    expected = [-np.mean([a @ b for a, b in itertools.combinations(item, 2)]) for item in vectors]
    evalset = table(np.zeros((len(texts), 4)), texts)
    assert utilities(evalset, "diversity:similarity=embedding,model=ngrams") == pytest.approx(np.array(expected))


def test_diversity_looks_at_the_crowd_only():
    texts = outputs(holes=0.0)
    evalset = table(np.zeros((len(texts), 4)), texts)
    expected = [-dice(str(row[1]), str(row[3])) for row in texts]
    assert utilities(evalset, "diversity", crowd=["s1", "s3"]) == pytest.approx(np.array(expected))


def test_vectors_are_kept_on_disk_by_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a stand-in for the model: a text is embedded once for each model."""
    asked: list[list[str]] = []

    def encode(texts: list[str], model: str) -> np.ndarray:
        asked.append(texts)
        return np.array([[len(text), len(model)] for text in texts], dtype=np.float32)

    monkeypatch.setattr(embedding, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(embedding, "_encode_texts", encode)
    assert embedding.embed(["a", "bb", "a"], "one").tolist() == [[1, 3], [2, 3], [1, 3]]
    assert embedding.embed(["bb", "ccc"], "one").tolist() == [[2, 3], [3, 3]]
    assert embedding.embed(["a"], "other").tolist() == [[1, 5]]
    assert asked == [["a", "bb"], ["ccc"], ["a"]]


# -- what the data lack --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*IRT, "metric_cons", "diversity", "diffuse", "bruteforce", "greedy", "guided"])
def test_methods_that_compare_systems_refuse_a_single_one(method):
    evalset = table(scores(systems=1), [["ein Haus"]] * 60)
    with pytest.raises(DataError, match=f"'{method}' needs two systems.*use random or a design"):
        select(evalset, method, 5)


@pytest.mark.parametrize("method", ["diversity", "diffuse"])
def test_methods_that_read_outputs_say_when_there_are_none(method):
    with pytest.raises(DataError, match=f"'{method}' needs outputs"):
        select(table(scores()), method, 5)


@pytest.mark.parametrize("method", ["metric_avg", "metric_var", "metric_cons", "irt_disc", "bruteforce", "balanced"])
def test_methods_on_metrics_say_when_there_is_none(method):
    evalset = EvalSet(items=pl.DataFrame({"id": [0, 1, 2]}), systems=("A", "B"))
    with pytest.raises(DataError, match=f"'{method}' needs metric"):
        select(evalset, method, 2)


def test_a_metric_without_a_single_value_is_refused():
    evalset = table(np.full((4, 3), NAN))
    with pytest.raises(DataError, match="'m' has no value at all"):
        select(evalset, "metric_avg", 2)


def test_one_of_several_metrics_must_be_named():
    evalset = aliquot.synthetic(items=20, systems=3)
    with pytest.raises(OptionError, match=r"choose a metric.*'metricA', 'metricB', 'metricC'"):
        select(evalset, "metric_var", 5)


def test_a_metric_name_almost_right_gets_a_suggestion():
    evalset = aliquot.synthetic(items=20, systems=3)
    with pytest.raises(NameUnknownError, match=r"unknown score 'metrica'; did you mean 'metricA'\?"):
        select(evalset, "metric_var", 5, metric="metrica")
