"""Monitor: its error rate over whole runs, when it says stop, what it refuses, and replaying a campaign."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import aliquot
from aliquot import AliquotError, Judgments, Monitor, save
from aliquot.cli.main import run
from aliquot.estimation.inputs import attach_judgments
from aliquot.estimation.picture import PairState, Picture
from aliquot.estimation.running_sequences import Features
from aliquot.estimation.sequential import replay_items
from aliquot.estimation.targets import JudgingNoise, judging_noise
from aliquot.stats.arrays import FloatArray, IntArray

NAMES = ("A", "B", "C", "D")


def scores_of(row: Iterable[float]) -> dict[str, float]:
    return dict(zip(NAMES, map(float, row), strict=False))


def watch(monitor: Monitor, scores: FloatArray, order: Iterable[int]) -> Iterator[Picture]:
    """The picture after every item."""
    for item in order:
        monitor.add(int(item), scores_of(scores[item]))
        yield monitor.picture()


# -- the promise ---------------------------------------------------------------------------------------------------


def tied(rng: np.random.Generator) -> FloatArray:
    """Four systems with the same scores on other items: no pair can rightly be decided."""
    one = np.round(100 * rng.beta(2, 1, 60))
    return np.column_stack([rng.permutation(one) for _ in NAMES])


def close(rng: np.random.Generator) -> FloatArray:
    """Four systems half a point to two points apart, on items that differ by tens of points."""
    difficulty = 100 * rng.beta(3, 2, (60, 1))
    return np.clip(np.round(difficulty - [0.0, 0.5, 1.0, 2.0] + 10 * rng.normal(size=(60, 4))), 0, 100)


def falsely_decided(decided: Iterable[tuple[int, int]], truth: FloatArray) -> bool:
    return any(truth[better] <= truth[worse] + 1e-9 for better, worse in decided)


def ever_wrong(scores: FloatArray, order: Iterable[int], alpha: float) -> bool:
    truth = scores.mean(axis=0)
    monitor = Monitor(NAMES, 60, value_range=(0, 100), question="ranking", alpha=alpha, noise=0.0)
    return any(
        falsely_decided([(NAMES.index(pair.a), NAMES.index(pair.b)) for pair in picture.decided], truth)
        for picture in watch(monitor, scores, order)
    )


def peeking_is_wrong(scores: FloatArray, order: IntArray) -> bool:
    """What people do instead: a t-test of every pair after every item from the tenth on."""
    truth = scores.mean(axis=0)
    for a in range(4):
        for b in range(4):
            gap = (scores[order, a] - scores[order, b])[:, None]
            p = [float(stats.ttest_1samp(gap[:n, 0], 0, alternative="greater").pvalue) for n in range(10, 60, 5)]
            if truth[a] <= truth[b] + 1e-9 and min(p) < 0.05 and a != b:
                return True
    return False


@pytest.mark.parametrize("population", [tied, close])
def test_any_false_decision_in_a_whole_run_is_rare(population):
    """Looked at after every item, from the first to the last: at most alpha of the runs are ever wrong."""
    runs, alpha = 100, 0.1
    wrong = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        scores = population(rng)
        wrong += ever_wrong(scores, rng.permutation(60), alpha)
    assert wrong / runs <= alpha


def test_peeking_without_it_is_wrong_often():
    """A guard for the test above: on the same populations repeated t-tests are wrong far more often."""
    wrong = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores = tied(rng)
        wrong.append(peeking_is_wrong(scores, rng.permutation(60)))
    assert np.mean(wrong) > 0.25


def test_systems_that_tie_are_not_decided_by_rounding():
    """All items are judged and the means are equal to the last digit: nobody is better by 1e-14 points."""
    scores = tied(np.random.default_rng(5))
    monitor = Monitor(NAMES, 60, value_range=(0, 100), question="ranking")
    *_, last = watch(monitor, scores, range(60))
    assert last.decided == []
    assert not last.stop


@pytest.mark.parametrize("population", [tied, close])
def test_the_best_system_is_rarely_named_wrongly(population):
    """Asked for the best, alpha is divided by M - 1 only; that a system which is not the best is ever named is rare."""
    runs, alpha = 100, 0.1
    wrong = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        scores = population(rng)
        monitor = Monitor(NAMES, 60, value_range=(0, 100), question="best", alpha=alpha, noise=0.0)
        named = {picture.best for picture in watch(monitor, scores, rng.permutation(60))} - {None}
        means = scores.mean(axis=0)
        wrong += any(means[NAMES.index(name)] <= np.delete(means, NAMES.index(name)).max() + 1e-9 for name in named)
    assert wrong / runs <= alpha


def test_a_system_is_out_when_any_other_has_beaten_it():
    """B has beaten C and D, A has beaten B only: A is left alone, although it has never met C and D."""
    monitor = Monitor(NAMES, 100, value_range=(0, 1), question="best")
    for item in range(60):
        monitor.add(item, {"B": 0.6, "C": 0.1, "D": 0.1} if item < 30 else {"A": 0.9, "B": 0.3})
    assert monitor.picture().best == "A"
    assert not any(pair.decided for pair in monitor.picture().pairs if {pair.a, pair.b} == {"A", "C"})


def test_pairs_are_not_easier_to_decide_when_means_are_asked_for():
    """The promise is about any false decision; asking for means must not spend alpha on pairs twice."""
    scores = close(np.random.default_rng(1))
    monitors = [
        Monitor(NAMES, 60, value_range=(0, 100), question="ranking"),
        Monitor(NAMES, 60, value_range=(0, 100), question="means", margin=5.0),
    ]
    ranking, other = ([*watch(monitor, scores, range(40))][-1] for monitor in monitors)
    for strict, loose in zip(ranking.pairs, other.pairs, strict=True):
        assert loose.high - loose.low >= strict.high - strict.low - 1e-9


def test_means_lie_in_their_intervals_at_every_look():
    """Half widths only: at the end they are 0, and on the way they do not grow."""
    scores = close(np.random.default_rng(2))
    monitor = Monitor(NAMES, 60, value_range=(0, 100), question="means", margin=1.0, noise=0.0)
    widths = [[*picture.half_widths.values()] for picture in watch(monitor, scores, range(60))]
    assert (np.diff(widths, axis=0) <= 1e-9).all()
    assert widths[0] == pytest.approx([50.0] * 4, rel=0.05)
    assert widths[-1] == pytest.approx([0.0] * 4, abs=1e-9)


# -- when to stop --------------------------------------------------------------------------------------------------


def clear(items: int = 100) -> FloatArray:
    """A far ahead of B and C, which are alike; a little noise."""
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, (items, 3))
    return np.array([0.9, 0.3, 0.3]) + noise


def test_best_stops_before_the_ranking_does():
    stops = {}
    for question in ("best", "ranking"):
        monitor = Monitor(NAMES[:3], 100, value_range=(0, 1), question=question)
        pictures = [*watch(monitor, clear(), range(60))]
        stops[question] = next((picture.items for picture in pictures if picture.stop), None)
        if question == "best":
            assert pictures[-1].best == "A"
            assert pictures[-1].reason == "stop: A is the best system"
            assert {(pair.a, pair.b) for pair in pictures[-1].decided} >= {("A", "B"), ("A", "C")}
    assert stops["best"] is not None
    assert stops["best"] < 40
    assert stops["ranking"] is None


def test_ranking_stops_when_all_pairs_are_decided():
    scores = np.array([0.9, 0.5, 0.1]) + np.random.default_rng(0).uniform(-0.1, 0.1, (100, 3))
    monitor = Monitor(NAMES[:3], 100, value_range=(0, 1), question="ranking")
    pictures = [*watch(monitor, scores, range(100))]
    first = next(picture for picture in pictures if picture.stop)
    assert first.items < 80
    assert first.reason == "stop: all pairs are decided"
    assert all(picture.stop for picture in pictures[first.items - 1 :])
    assert [(pair.a, pair.b) for pair in first.pairs] == [("A", "B"), ("A", "C"), ("B", "C")]


@pytest.mark.parametrize("margin", [0.05, 0.2])
def test_means_stop_within_the_margin(margin):
    monitor = Monitor(NAMES[:3], 100, value_range=(0, 1), question="means", margin=margin)
    pictures = [*watch(monitor, clear(), range(100))]
    first = next(picture for picture in pictures if picture.stop)
    assert max(first.half_widths.values()) <= margin
    assert max(pictures[first.items - 2].half_widths.values()) > margin
    assert first.reason == "stop: all means are known closely enough"
    assert pictures[0].reason.startswith("go on: the widest interval is +-0.")


def test_one_system_may_be_watched_for_its_mean():
    monitor = Monitor(["A"], 20, value_range=(0, 1), question="means", margin=0.2)
    for item in range(20):
        monitor.add(item, {"A": 0.5})
    assert monitor.picture().stop
    assert monitor.picture().pairs == ()


def test_before_the_first_judgment():
    picture = Monitor(NAMES, 50, value_range=(0, 10)).picture()
    assert (picture.items, picture.judgments, picture.stop, picture.best) == (0, 0, False, None)
    assert all(pair.more_items == 50 and (pair.low, pair.high) == (-10, 10) for pair in picture.pairs)
    assert "4 systems may be the best; A and B need about 50 more items" in picture.reason
    ranking = Monitor(NAMES, 50, value_range=(0, 10), question="ranking").picture()
    assert "6 pairs are open" in ranking.reason


def test_a_pair_has_its_better_system_first():
    monitor = Monitor(["bad", "good"], 100, value_range=(0, 1))
    for item in range(40):
        monitor.add(item, {"bad": 0.1, "good": 0.9 - 0.01 * (item % 5)})
    (pair,) = monitor.picture().pairs
    assert (pair.a, pair.b, pair.decided, pair.more_items, pair.items) == ("good", "bad", True, 0, 40)
    assert 0 < pair.low < pair.difference < pair.high


def test_how_many_more_items_the_closest_pair_needs():
    """Never more than are left; half way to the decision, of the right size as a rule."""
    ratios = []
    for seed in range(12):
        scores = np.clip([0.75, 0.5] + 0.25 * np.random.default_rng(seed).normal(size=(200, 2)), 0, 1)
        pictures = [*watch(Monitor(NAMES[:2], 200, value_range=(0, 1)), scores, range(200))]
        assert all(picture.pairs[0].more_items <= 200 - picture.items for picture in pictures)
        needed = next(picture.items for picture in pictures if picture.stop)
        ratios.append(pictures[needed // 2 - 1].pairs[0].more_items / (needed - needed // 2))
    assert 0.5 < np.median(ratios) < 3.0


def test_ambiguous_pairs_come_with_the_nearest_first():
    monitor = Monitor(NAMES, 200, value_range=(0, 100), noise=0.0)
    *_, picture = watch(monitor, close(np.random.default_rng(3)), range(30))
    left = [pair.more_items for pair in picture.ambiguous]
    assert left == sorted(left)
    assert len(left) + len(picture.decided) == 6
    assert picture.ambiguous[0].a in picture.reason


# -- how judgments come --------------------------------------------------------------------------------------------


def same(first: Picture, second: Picture) -> bool:
    def numbers(pair: PairState) -> list[float]:
        return [pair.difference, pair.low, pair.high, pair.items]

    return all(
        numbers(p) == pytest.approx(numbers(q), abs=1e-12) for p, q in zip(first.pairs, second.pairs, strict=True)
    )


def test_systems_of_an_item_may_come_one_by_one():
    scores = close(np.random.default_rng(6))[:25]
    whole, singly = (Monitor(NAMES, 60, value_range=(0, 100)) for _ in range(2))
    for item, row in enumerate(scores):
        whole.add(item, scores_of(row))
        for system, value in scores_of(row).items():
            singly.add(item, {system: value})
    first, second = whole.picture(), singly.picture()
    assert same(first, second)
    assert (first.items, first.judgments) == (second.items, second.judgments) == (25, 100)
    assert first.half_widths == pytest.approx(second.half_widths)


def test_a_pair_counts_only_the_items_both_were_judged_on():
    monitor = Monitor(NAMES[:3], 60, value_range=(0, 1))
    monitor.add(1, {"A": 0.5, "B": 0.25})
    monitor.add(2, {"A": 0.75, "C": 0.5})
    monitor.add(3, {"A": 1.0})
    counts = {frozenset((pair.a, pair.b)): (pair.items, pair.difference) for pair in monitor.picture().pairs}
    assert counts[frozenset("AB")] == (1, 0.25)
    assert counts[frozenset("AC")] == (1, 0.25)
    assert counts[frozenset("BC")][0] == 0
    monitor.add(3, {"B": 0.5})
    assert {pair.items for pair in monitor.picture().pairs if {pair.a, pair.b} == {"A", "B"}} == {2}


def table(scores: FloatArray, rows: Iterable[int]) -> pl.DataFrame:
    """Two annotators on every output, one point above and below."""
    return pl.DataFrame(
        [
            {"item": int(row), "system": system, "annotator": who, "value": value + shift, "time": 10 * at}
            for at, row in enumerate(rows)
            for system, value in scores_of(scores[row]).items()
            for who, shift in (("ann", 1.0), ("bob", -1.0))
        ]
    )


@pytest.mark.parametrize("form", [Judgments, lambda rows: rows], ids=["judgments", "table"])
def test_batches_are_averaged_per_output(form):
    scores = np.clip(close(np.random.default_rng(7)), 1, 99)
    one, batches = (Monitor(NAMES, 60, value_range=(0, 100)) for _ in range(2))
    *_, expected = watch(one, scores, range(30))
    batches.add_judgments(form(table(scores, range(12))))
    batches.add_judgments(form(table(scores, range(12, 30))))
    assert same(batches.picture(), expected)
    assert batches.picture().items == 30


# -- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        (["A", "B"], {"value_range": (1, 0)}, "the lower end must be below"),
        (["A", "B"], {"question": "worst"}, "`question` is 'worst'"),
        (["A", "A"], {}, "each once"),
        ([], {}, "must be named"),
        (["A"], {}, "cannot be compared"),
        (["A", "B"], {"population": 0}, "`population` is 0"),
        (["A", "B"], {"question": "means"}, "'means' needs the half width"),
        (["A", "B"], {"question": "means", "margin": 0.0}, "above 0"),
        (["A", "B"], {"alpha": 0.0}, "`alpha` is 0.0"),
        (["A", "B"], {"alpha": 1.0}, "`alpha` is 1.0"),
    ],
)
def test_questions_that_make_no_sense(systems, options, message):
    given = {"population": 50, "value_range": (0, 1)} | options
    with pytest.raises(AliquotError) as error:
        Monitor(systems, **given)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"Z": 0.5}, "unknown system 'Z'"),
        ({"A": 1.5}, "1.5 lies outside the scale 0 to 1"),
        ({"A": float("nan")}, "lies outside the scale"),
        ({"B": 0.5, "A": 0.4}, "item 0, system 'A' has been judged before; average repeats first"),
    ],
)
def test_a_refused_judgment_leaves_no_trace(scores, message):
    item = 0 if "before" in message else 9
    monitor = Monitor(["A", "B"], 50, value_range=(0, 1))
    monitor.add(0, {"A": 0.5})
    before = monitor.picture()
    with pytest.raises(AliquotError) as error:
        monitor.add(item, scores)
    assert message in str(error.value)
    after = monitor.picture()
    assert (after.items, after.judgments) == (before.items, before.judgments) == (1, 1)
    assert after.half_widths == before.half_widths
    monitor.add(9, {"A": 0.5, "B": 0.4})
    assert monitor.picture().items == 2


def test_more_items_than_there_are():
    monitor = Monitor(["A", "B"], 2, value_range=(0, 1))
    for item in range(2):
        monitor.add(item, {"A": 0.5, "B": 0.4})
    with pytest.raises(AliquotError, match="population is 2"):
        monitor.add(2, {"A": 0.5, "B": 0.4})
    assert monitor.picture().items == 2


# -- replaying -----------------------------------------------------------------------------------------------------


def test_replay_says_when_one_could_have_stopped():
    scores: dict[int | str, dict[str, float]] = {item: scores_of(row) for item, row in enumerate(clear())}
    outcome = replay_items(Monitor(NAMES[:3], 100, value_range=(0, 1), noise=0.0), list(scores), scores)
    assert outcome.stopped_after is not None
    assert [items for items, _ in outcome.path] == list(range(1, 101))
    decided = dict(outcome.path)
    assert decided[outcome.stopped_after] >= 2
    assert decided[outcome.stopped_after - 1] < 2
    assert outcome.final.items == 100
    assert outcome.final.half_widths["A"] == pytest.approx(0.0, abs=1e-9)


@pytest.fixture
def files(tmp_path) -> tuple[str, str]:
    """A campaign of 80 items, all judged, in an order that only the column `time` tells."""
    rng = np.random.default_rng(8)
    scores: FloatArray = np.clip(np.round([90.0, 60.0, 55.0] + 8 * rng.normal(size=(80, 3))), 1, 99)
    data = aliquot.EvalSet(
        items=pl.DataFrame({"id": np.arange(80)}), systems=NAMES[:3], scores={"m": scores + rng.normal(size=(80, 3))}
    )
    save(data, tmp_path / "data.jsonl")
    table(scores, rng.permutation(80)).sample(fraction=1.0, shuffle=True, seed=1).write_csv(tmp_path / "judgments.csv")
    return str(tmp_path / "data.jsonl"), str(tmp_path / "judgments.csv")


def sequential(capsys: pytest.CaptureFixture[str], files: tuple[str, str], *options: str) -> tuple[int, str, str]:
    data, judgments = files
    code = run(["estimate", data, "--judgments", judgments, "--sequential", *options])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command_replays_in_time_order(capsys, files):
    code, out, err = sequential(capsys, files, "--range", "0,100", "--json")
    assert code == 0, err
    document = json.loads(out)
    answers = pl.read_csv(files[1])
    order = answers.group_by("item").agg(pl.col("time").first()).sort("time")["item"].to_list()
    cells = answers.group_by("item", "system").agg(pl.col("value").mean())
    scores: dict[int | str, dict[str, float]] = {item: {} for item in order}
    for item, system, value in cells.iter_rows():
        scores[item][system] = value
    noise = judging_noise(attach_judgments(aliquot.load(files[0]), answers)[0], "human")
    assert noise.cell >= 0
    expected = replay_items(Monitor(NAMES[:3], 80, value_range=(0, 100), noise=noise), order, scores)
    assert document["stopped_after"] == expected.stopped_after
    assert (document["best"], document["items"], document["judgments"]) == ("A", 80, 240)
    assert document["path"] == [{"items": items, "decided": decided} for items, decided in expected.path]
    assert set(document["pairs"][0]) == {"a", "b", "difference", "low", "high", "items", "decided", "more_items"}


def test_the_command_says_it_in_words(capsys, files):
    code, out, err = sequential(capsys, files, "--range", "0,100")
    assert code == 0, err
    assert "One could have stopped after " in out
    assert "A is the best system" in out
    assert "decided" in out
    assert all(len(line) <= 100 for line in out.splitlines())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--sequential needs the scale's ends"),
        (("--range", "0,50"), "lies outside the scale"),
        (("--range", "0,100", "--question", "all"), "--question is 'all'"),
        (("--range", "0,100", "--question", "means"), "margin"),
        (("--range", "0,100", "--alpha", "0"), "alpha"),
    ],
)
def test_the_command_refuses(capsys, files, options, message):
    code, out, err = sequential(capsys, files, *options)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


def test_the_command_writes_what_it_is_asked_to_write(capsys, files, tmp_path):
    code, _, err = sequential(capsys, files, "--range", "0,100", "-o", str(tmp_path / "replay.json"))
    assert code == 2 or (tmp_path / "replay.json").exists(), err


@pytest.mark.parametrize("method", ["pps:size=difficulty,tau=0.2", "documents", "metric_avg:metric=m"])
def test_the_command_does_not_promise_without_a_random_order_of_items(capsys, files, tmp_path, method):
    """Drawn by size, by whole documents, or chosen by a utility: betting is refused, or a note says so."""
    data = aliquot.load(files[0])
    documents = pl.Series("document", [f"d{row // 5}" for row in range(80)])
    data = replace(data, items=data.items.with_columns(documents))
    save(data, tmp_path / "documents.jsonl")
    aliquot.select(data, method, 40).save(tmp_path / "selection.jsonl")
    options = ("--range", "0,100", "--selection", str(tmp_path / "selection.jsonl"))
    code, out, err = sequential(capsys, (str(tmp_path / "documents.jsonl"), files[1]), *options)
    assert code == 2 or any(word in out + err for word in ("chance", "probabilit", "random order"))


# -- unequal probabilities, and metrics ----------------------------------------------------------------------------


def drawn_by_size(sizes: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Rows drawn one after another, each with the same probabilities (proportional to size), without repeats."""
    return np.argsort(rng.exponential(size=len(sizes)) / sizes)[:n]


@pytest.mark.parametrize("helped", [False, True])
def test_weighted_sequences_are_rarely_wrong(helped):
    """Four systems without a difference over the set, harder items drawn more often: 5% of 120 runs may decide."""
    wrong = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        hard = rng.gamma(2.0, size=300)
        scores = -hard[:, None] * rng.exponential(size=(300, 4)) * 10
        scores -= scores.mean(axis=0)
        sizes = 0.2 + hard / hard.mean()
        metric = scores + rng.normal(size=scores.shape) * 10
        features = Features(tuple(range(300)), (metric - metric.mean(axis=0))[:, :, None] / 10) if helped else None
        monitor = Monitor(NAMES, 300, question="ranking", kind="asymptotic", features=features, noise=0.0)
        rows = drawn_by_size(sizes, 120, rng)
        decided = False
        for at, row in enumerate(rows):
            monitor.add(int(row), scores_of(scores[row]), weight=float(sizes.mean() / sizes[row]))
            decided = decided or (at % 10 == 9 and bool(monitor.picture().decided))
        wrong += decided
    assert wrong <= 6 + 3 * np.sqrt(6)


@pytest.mark.parametrize("helped", [False, True])
def test_weighted_sequences_hold_to_the_last_item(helped):
    """A is better on hard items, which are drawn first, B on easy ones, equal over all: late looks must not decide."""
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        hard = rng.gamma(2.0, size=150)
        sizes = 0.5 + 0.5 * hard / hard.mean()
        difference = (hard - hard.mean()) / hard.std() + 0.5 * rng.normal(size=150)
        scores = np.column_stack([difference - difference.mean(), np.zeros(150)])
        metric = np.column_stack([rng.normal(size=150), rng.normal(size=150)])[:, :, None]
        features = Features(tuple(range(150)), metric) if helped else None
        monitor = Monitor(NAMES[:2], 150, question="ranking", kind="asymptotic", features=features, noise=0.0)
        decided = False
        for at, row in enumerate(drawn_by_size(sizes, 150, rng)):
            monitor.add(int(row), scores_of(scores[row]), weight=float(sizes.mean() / sizes[row]))
            decided = decided or (at % 10 == 9 and bool(monitor.picture().decided))
        wrong += decided
        (pair,) = monitor.picture().pairs
        assert pair.low == pytest.approx(pair.high)  # all items are judged: the difference is known
        assert pair.low == pytest.approx(0.0, abs=1e-12)
    assert wrong <= 3 + 3 * np.sqrt(3)


def test_rare_catastrophes_do_not_make_false_decisions():
    """Equal systems with penalties of -25 to -50 in 3% of the outputs, as in MQM: at most alpha of 60 runs decide.

    Before unseen outliers were allowed for, 16 of these runs did: a pair whose one catastrophe is still to come looks
    decided.
    """
    wrong = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        catastrophes = rng.random((120, 4)) < 0.03
        scores = -rng.exponential(size=(120, 4)) - catastrophes * rng.uniform(25, 50, (120, 4))
        monitor = Monitor(NAMES, 120, question="ranking", kind="asymptotic", noise=0.0)
        pictures = watch(monitor, scores - scores.mean(axis=0), range(119))
        wrong += any(at >= 29 and picture.decided for at, picture in enumerate(pictures))
    assert wrong <= 3


def test_weights_remove_the_bias_and_metrics_narrow():
    """B is better on the easy items only; drawing hard ones more often must not hide that it is better overall."""
    rng = np.random.default_rng(5)
    hard = rng.uniform(0, 1, 2000)
    scores = np.column_stack([np.zeros(2000), np.where(hard < 0.7, 2.0, -4.0)]) + rng.normal(size=(2000, 2))
    sizes = np.where(hard < 0.7, 0.5, 4.0)
    rows = drawn_by_size(sizes, 400, rng)
    weights = sizes.mean() / sizes
    metric = np.column_stack([np.zeros(2000), np.where(hard < 0.7, 2.0, -4.0)])[:, :, None]
    plain, weighted, helped = (
        Monitor(NAMES[:2], 2000, kind="asymptotic", features=features)
        for features in (None, None, Features(tuple(range(2000)), metric))
    )
    for row in rows.tolist():
        plain.add(row, scores_of(scores[row]))
        weighted.add(row, scores_of(scores[row]), weights[row])
        helped.add(row, scores_of(scores[row]), weights[row])
    (biased,), (right,), (narrow,) = (monitor.picture().pairs for monitor in (plain, weighted, helped))
    truth = float(np.diff(scores.mean(axis=0))[0])
    assert biased.a == "A"  # wrong
    assert (right.a, narrow.a) == ("B", "B")
    assert right.low < truth < right.high
    assert narrow.low < truth < narrow.high
    assert narrow.high - narrow.low < 0.6 * (right.high - right.low)


def test_the_default_design_may_be_watched():
    data = aliquot.synthetic(items=300, systems=3, annotators=3, seed=8)
    chosen = aliquot.select(data, budget=150, seed=1)
    assert chosen.probability is not None
    assert np.ptp(chosen.probability) > 0
    outcome = aliquot.sequential(data, value_range=(-300, 0), selection=chosen, question="ranking")
    assert outcome.final.items == 150
    assert any("unequal probabilities" in note for note in outcome.notes)
    truth = dict(zip(data.systems, data.human_score().mean(axis=0), strict=True))
    assert outcome.final.decided
    assert all(truth[pair.a] > truth[pair.b] for pair in outcome.final.decided)
    again = aliquot.sequential(data, value_range=(-300, 0), selection=chosen, question="ranking")
    assert again.to_dict() == outcome.to_dict()


def test_the_question_speaks_of_the_pair_that_matters():
    """C and D are far behind and still open among themselves: the best is between A and B."""
    rng = np.random.default_rng(2)
    monitor = Monitor(NAMES, 5000, value_range=(0, 100))
    for item in range(400):
        monitor.add(item, scores_of(np.clip(rng.normal([80, 79, 30, 30], 8), 0, 100)))
    picture = monitor.picture()
    open_ = {frozenset((pair.a, pair.b)) for pair in picture.ambiguous}
    assert open_ == {frozenset("AB"), frozenset("CD")}
    assert "2 systems may be the best, A leads; A and B need about" in picture.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "bets"}, "`kind` is 'bets'"),
        ({"kind": "betting"}, "needs the scale's ends"),
        ({"features": "wide"}, "features are of 3 systems"),
    ],
)
def test_kinds_that_make_no_sense(options, message):
    if options.get("features"):
        options = {"features": Features((1, 2), np.zeros((2, 3, 1)))}
    with pytest.raises(AliquotError, match=message):
        Monitor(NAMES, 50, **options)


def test_features_and_weights_that_make_no_sense():
    with pytest.raises(AliquotError, match="all finite"):
        Features((1,), np.full((1, 2, 1), np.nan))
    with pytest.raises(AliquotError, match="betting needs weights of 1"):
        Monitor(NAMES, 50, value_range=(0, 1)).add(1, {"A": 0.5}, weight=2.0)
    with pytest.raises(AliquotError, match="has no features"):
        Monitor(NAMES[:2], 50, features=Features((1,), np.zeros((1, 2, 1)))).add(7, {"A": 0.5})


def test_systems_never_judged_are_not_compared():
    data = aliquot.synthetic(items=80, systems=3, annotators=2, seed=4)
    scores = data.human_score().copy()
    assert data.judgments is not None
    judged = Judgments(data.judgments.table.filter(pl.col("system") != "sys3"))
    outcome = aliquot.sequential(data.with_score("human", scores), value_range=(-300, 0), judgments=judged)
    assert len(outcome.final.pairs) == 1
    assert any("never judged, so not compared: sys3" in note for note in outcome.notes)


# -- the noise of judging ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["betting", "asymptotic"])
def test_judging_all_items_leaves_the_noise_of_judging(kind):
    """The mean of these judgments is known; what other annotators would say is not."""
    scores = close(np.random.default_rng(4))
    monitor = Monitor(NAMES, 60, value_range=(0, 100), question="ranking", kind=kind)
    *_, unknown = watch(monitor, scores, range(60))
    gap = scores[:, 0] - scores[:, 1]
    monitor.noise = 0.0
    given = monitor.picture()
    monitor.noise = 40.0
    known = monitor.picture()
    quantile = stats.t.ppf(1 - 0.05 / 6 / 8, 59)
    assert [pair.high - pair.low for pair in given.pairs] == pytest.approx([0.0] * 6, abs=1e-9)
    assert [pair.high - pair.low for pair in known.pairs] == pytest.approx([2 * quantile * np.sqrt(80 / 60)] * 6)
    assert [*known.half_widths.values()] == pytest.approx([stats.t.ppf(1 - 0.05 / 4 / 8, 59) * np.sqrt(40 / 60)] * 4)
    first = next(pair for pair in unknown.pairs if {pair.a, pair.b} == {"A", "B"})
    assert (first.high - first.low) / 2 == pytest.approx(quantile * gap.std(ddof=1) / np.sqrt(60), rel=0.1)
    assert given.stop
    assert not unknown.stop
    assert (unknown.noise_known, known.noise_known) == (False, True)


def test_annotators_who_judged_other_systems_add_to_the_noise():
    scores = close(np.random.default_rng(4))
    monitor = Monitor(NAMES[:3], 60, kind="asymptotic", question="ranking")
    *_, _ = watch(monitor, scores[:, :3], range(60))
    shares = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # one annotator judged A and B, the other C
    monitor.noise = JudgingNoise(6.0, severity=4.0, shares=shares, unexplained=np.ones(2))
    widths = {pair.a + pair.b: (pair.high - pair.low) / 2 for pair in monitor.picture().pairs}
    quantile = stats.t.ppf(1 - 0.05 / 3 / 8, 59)
    for pair, width in widths.items():
        assert width == pytest.approx(quantile * np.sqrt(12 / 60 + (8.0 if "C" in pair else 0.0)))
    with pytest.raises(AliquotError, match="these 3 systems"):
        monitor.noise = JudgingNoise(1.0, severity=1.0, shares=np.ones((1, 2)))
    with pytest.raises(AliquotError, match="give a variance"):
        monitor.noise = -1.0


@pytest.mark.parametrize(("kind", "known"), [("betting", None), ("asymptotic", None), ("asymptotic", 100.0)])
def test_random_scores_rarely_decide_anything(kind, known):
    """Pure noise, looked at from half of the items to the last: any decided pair is wrong."""
    wrong = 0
    for seed in range(60):
        scores = np.clip(np.random.default_rng(seed).normal(50, 10, (60, 4)), 0, 100)
        monitor = Monitor(NAMES, 60, value_range=(0, 100), question="ranking", kind=kind, noise=known)
        decided = False
        for item, row in enumerate(scores):
            monitor.add(item, scores_of(row))
            decided |= item >= 30 and item % 5 == 4 and bool(monitor.picture().decided)
        wrong += decided
    assert wrong <= 3


@pytest.mark.parametrize("noise", [None, 64.0])
def test_clear_differences_are_decided(noise):
    """Without repeats as well, where there are items enough."""
    rng = np.random.default_rng(3)
    scores = rng.normal([80.0, 70.0, 60.0, 60.0], 8.0, (100, 4))
    monitor = Monitor(NAMES, 100, kind="asymptotic", noise=noise)
    pictures = [*watch(monitor, scores, range(100))]
    first = next(picture for picture in pictures if picture.stop)
    assert (first.best, first.items < 60) == ("A", True)


def test_advice_can_be_followed():
    """Where no item is left, only more judgments of an output help; items asked for are never more than are left."""
    scores = np.random.default_rng(2).normal(50, 10, (40, 4))
    for question in ("best", "ranking"):
        monitor = Monitor(NAMES, 40, kind="asymptotic", question=question)
        pictures = [*watch(monitor, scores, range(40))]
        assert all(pair.more_items <= 40 - picture.items for picture in pictures for pair in picture.pairs)
        assert "more item" in pictures[34].reason
        assert pictures[-1].reason.endswith("all items are judged: judge some outputs twice, by another annotator")
        monitor.noise = 100.0
        assert "need more judgments per output, by other annotators" in monitor.picture().reason
        assert "about 0" not in monitor.picture().reason


def test_it_stops_only_where_the_estimates_name_the_same_system():
    monitor = Monitor(NAMES[:3], 100, value_range=(0, 1))
    *_, picture = watch(monitor, clear(), range(60))
    assert picture.stop
    assert picture.confirm_leaders(["A"]) == picture
    doubted = picture.confirm_leaders(["A", "C"])
    assert (doubted.stop, doubted.best) == (False, None)
    said = "go on: by the estimates A and C cannot be told apart; judge more outputs, or some once more"
    assert doubted.reason == said
    assert picture.confirm_leaders(["B"]).reason.startswith("go on: by the estimates B leads;")


def test_the_command_has_the_target_of_estimate(capsys, files):
    """The same judgments: other annotators might say otherwise, so `testset` stops later, if at all."""
    stops = {}
    for target in ("given", "testset"):
        code, out, err = sequential(
            capsys, files, "--range", "0,100", "--question", "ranking", "--target", target, "--json"
        )
        assert code == 0, err
        stops[target] = json.loads(out)
    widths = {
        target: np.mean([pair["high"] - pair["low"] for pair in found["pairs"]]) for target, found in stops.items()
    }
    assert widths["given"] == pytest.approx(0.0, abs=1e-9)
    assert widths["testset"] > 0.1
    code, _, err = sequential(capsys, files, "--range", "0,100", "--target", "beyond")
    assert code == 2
    assert "--target is 'beyond'" in err
