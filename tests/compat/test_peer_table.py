"""Every method and argument of subset2evaluate 1.0.27 side by side: its answer, or a difference that is documented."""

from __future__ import annotations

import copy
import inspect
import sys
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from aliquot.compat import evaluate, select_subset
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotError
from aliquot.sampling.methods import UNSUPPORTED, find_method
from aliquot.stats.arrays import FloatArray
from aliquot.stats.irt import fit_irt

peer = pytest.importorskip("subset2evaluate", reason="pip install --no-deps subset2evaluate==1.0.27")
METHODS = peer.methods.METHODS
UTILITY = "subset2evaluate_utility"
Items = list[dict[str, Any]]

pytestmark = pytest.mark.filterwarnings("ignore::aliquot.errors.AliquotWarning")


@cache
def _made() -> Items:
    """Items with numpy's numbers in every place where subset2evaluate writes them."""
    rng = np.random.default_rng(5)
    words = [f"w{k}" for k in range(30)]
    return [
        {
            "i": k,
            "src": " ".join(rng.choice(words, 6)),
            "tgt": {system: " ".join(rng.choice(words, 7 + k % 3)) for system in "ABCD"},
            "scores": {
                system: {"m": np.float64(rng.normal()), "n": np.float32(rng.normal()), "human": rng.integers(9)}
                for system in "ABCD"
            },
            "cost": np.float64(1 + k % 3),
            UTILITY: np.float64(0.5),
        }
        for k in range(30)
    ]


def made() -> Items:
    return copy.deepcopy(_made())


def both(method: str, given: dict[str, Any]) -> tuple[Items, Items]:
    theirs = peer.select_subset.basic(made(), method=method, **copy.deepcopy(given))
    return select_subset.basic(made(), method=method, **given), theirs


def places(items: Items) -> list[int]:
    return [item["i"] for item in items]


def utilities(items: Items) -> FloatArray:
    return np.array([item[UTILITY] for item in sorted(items, key=lambda item: item["i"])], dtype=np.float64)


PARTS = [
    {"method": "metric_avg", "metric": "m"},
    {"method": "metric_var", "metric": "n"},
    {"method": "random", "seed": 3},
]
WEIGHTED = list(zip((0.5, -0.2, 2.0), PARTS, strict=True))
SAME: list[tuple[str, dict[str, Any]]] = [
    *(("random", {"seed": seed}) for seed in (0, 1, 7, 12345)),
    ("random", {"seed": 2, "metric": "m", "budget": 3}),
    *((method, {"metric": metric}) for method in ("metric_avg", "metric_var", "metric_cons") for metric in ("m", "n")),
    ("metric_avg", {"metric": "m", "budget": 4, "seed": 1, "retry_on_error": True}),
    ("metric_cons", {"metric": "human"}),
    *(("metric_cons", {"metric": metric, "metric_target": "human"}) for metric in ("m", "n")),
    *(
        ("combinator", {"methods": methods, "operation": operation, "normalize": normalize})
        for methods in (PARTS, WEIGHTED)
        for operation in ("avg", "mul")
        for normalize in ("rank", "zscore", "01")
    ),
    ("combinator", {"methods": PARTS, "metric": "m"}),
]


@pytest.mark.parametrize(("method", "given"), SAME)
def test_order_and_utilities_are_the_peers(method, given):
    ours, theirs = both(method, given)
    assert utilities(ours) == pytest.approx(utilities(theirs), abs=1e-6, rel=0)
    assert places(ours) == places(theirs)


@pytest.mark.parametrize("target", [None, "human"])
def test_systems_whose_means_are_equal_tie_as_there(target):
    """Two systems have the same scores in another order: whether their means tie is a matter of rounding."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        likert = rng.integers(3, 16, size=(100, 4)) / 3
        likert[:, 1] = rng.permutation(likert[:, 0])
        items = [
            {"i": k, "scores": {name: {"m": value, "human": value} for name, value in zip("ABCD", row, strict=True)}}
            for k, row in enumerate(likert)
        ]
        given = {"method": "metric_cons", "metric": "m", "metric_target": target}
        theirs = peer.select_subset.basic(copy.deepcopy(items), **given)
        ours = select_subset.basic(items, **given)
        assert utilities(ours) == pytest.approx(utilities(theirs), abs=1e-12)
        assert places(ours) == places(theirs)


def test_unigram_diversity_is_the_peers_but_for_rounding():
    ours, theirs = (utilities(items) for items in both("diversity", {"metric": "unigram"}))
    assert ours == pytest.approx(theirs, abs=1e-12, rel=0)


@pytest.mark.parametrize("metric", ["BLEU", "bleu", "chrF", "CHRF"])
def test_diversity_leaves_out_the_pairs_of_a_text_with_itself(metric):
    """The peer averages all 4 * 4 pairs; 4 of them score 100: 16 theirs = 12 ours - 400."""
    ours, theirs = (utilities(items) for items in both("diversity", {"metric": metric}))
    assert 16 * theirs == pytest.approx(12 * ours - 400, abs=1e-6, rel=0)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("pyirt_diff", "diff"),
        ("pyirt_disc", "disc"),
        ("pyirt_diffdisc", "diffdisc"),
        ("pyirt_feas", "feas"),
        ("pyirt_fic", "fisher_information_content"),
    ],
)
def test_item_response_utilities_are_the_peers_given_the_same_fit(method, name):
    """Fits differ (ours is deterministic), what is made of one does not: the peer's function on our parameters."""
    fit = fit_irt(np.array([[scores["m"] for scores in item["scores"].values()] for item in made()]))
    table = {
        "models": dict(zip("ABCD", fit.ability, strict=True)),
        "items": [
            {"diff": difficulty, "disc": discrimination, "feas": feasibility}
            for difficulty, discrimination, feasibility in zip(
                fit.difficulty, fit.discrimination, fit.feasibility, strict=True
            )
        ],
    }
    theirs = [peer.methods.fn_irt_utility(None, item, table, name) for item in table["items"]]
    ours = select_subset.basic(made(), method=method, metric="m")
    assert utilities(ours) == pytest.approx(theirs, abs=1e-9)
    assert places(ours) == np.argsort(-np.array(theirs), kind="stable").tolist()


# -- methods with models, which answer from a made one here ------------------------------------------------------------


class Encoder:
    """Unit vectors that depend on the text: near one of three axes by the first letter of its digest."""

    def __init__(self, *_: object) -> None:
        pass

    def encode(self, texts: list[str], **_: object) -> np.ndarray:
        vectors = []
        for text in texts:
            digest = sha256(text.encode()).digest()
            vector = np.full(3, 0.01) * np.frombuffer(digest[1:4], dtype=np.uint8) / 255
            vector[digest[0] % 3] += 1.0
            vectors.append(vector / np.linalg.norm(vector))
        return np.array(vectors, dtype=np.float32)


@pytest.fixture
def encoder(monkeypatch, tmp_path):
    module = ModuleType("sentence_transformers")
    module.__spec__ = ModuleSpec("sentence_transformers", None)
    module.SentenceTransformer = Encoder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr("aliquot.sampling.text_vectors.cache_folder", lambda: tmp_path)


@pytest.mark.usefixtures("encoder")
def test_diversity_by_embeddings_is_the_peers_where_vectors_have_length_one():
    ours, theirs = (utilities(items) for items in both("diversity", {"metric": "LM"}))
    assert ours == pytest.approx(theirs, abs=1e-6, rel=0)


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("features", ["src", "tgt_0", "tgt_rand", "tgt_avg"])
def test_kmeans_is_the_peers_where_clusters_are_clear(features):
    """Starts differ; three clusters far apart are found from any. Means of outputs have none, so only their number."""
    ours, theirs = both("kmeans", {"budget": 3, "features": features})
    if features == "tgt_avg":
        assert utilities(ours).sum() == utilities(theirs).sum() == 3
    else:
        assert places(ours) == places(theirs)


def test_kmeans_with_outputs_needs_outputs():
    items = [{key: value for key, value in item.items() if key != "tgt"} for item in made()]
    with pytest.raises(AliquotError, match="features='tgt_0': item number 0 has no outputs"):
        select_subset.basic(items, method="kmeans", budget=3, features="tgt_0", model="ngrams")


@pytest.mark.usefixtures("encoder")
def test_diffuse_clusters_distances_where_the_peer_clusters_mean_differences():
    ours, theirs = both("diffuse", {"budget": 4})
    assert utilities(ours).sum() == utilities(theirs).sum() == 4
    assert sorted(utilities(ours)) == sorted(utilities(theirs))


@pytest.mark.parametrize("budget", [5, 6, 7])
def test_greedy_keeps_to_the_budget_where_the_peer_takes_whole_steps(budget):
    ours, theirs = both("bruteforce_greedy", {"budget": budget, "stepsize": 3, "simulations": 5, "metric": "m"})
    assert utilities(ours).sum() == budget
    assert utilities(theirs).sum() == 3 * np.ceil(budget / 3)


def test_searches_look_at_people_by_default():
    for method in ("bruteforce", "bruteforce_greedy"):
        given: dict[str, Any] = {"budget": 5, "simulations": 20}
        assert places(select_subset.basic(made(), method=method, **given)) == places(
            select_subset.basic(made(), method=method, metric="human", **given)
        )


class Prediction(dict[str, list[float]]):
    """What a model answers: a dictionary whose entries are attributes too."""

    scores: list[float]


class Model:
    """A model with COMET's interface that counts digits."""

    def predict(self, samples: list[dict[str, str]], **_: object) -> Prediction:
        result = Prediction(confidences=[float(sample.get("mt", "").count("2")) for sample in samples])
        result["scores"] = result.scores = [float(sample["src"].count("1")) + 0.5 for sample in samples]
        return result


@pytest.mark.parametrize("method", [m for m in METHODS if m.startswith(("precomet", "sentinel", "comet"))])
@pytest.mark.parametrize("reverse", [None, True, False])
def test_pretrained_models_are_asked_as_the_peer_asks(method, reverse, monkeypatch):
    for name in ("precomet", "sentinel_metric", "comet_early_exit"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    given: dict[str, Any] = {"load_model": (Model(), Model()) if method == "precomet_diffdisc" else Model()}
    given |= {} if reverse is None else {"reverse": reverse}
    theirs = peer.select_subset.basic(
        made(), method=method, **given | ({"model_path": ""} if method == "precomet" else {})
    )
    ours = select_subset.basic(made(), method=method, **given)
    assert utilities(ours) == pytest.approx(utilities(theirs))
    assert places(ours) == places(theirs)


# -- what differs, and says so -----------------------------------------------------------------------------------------


DIFFERENT: list[tuple[str, dict[str, Any], str]] = [
    ("metric_avg", {"metric": "m", "return_model": True}, "'return_model' has no counterpart"),
    ("metric_avg", {"metric": "m", "metrik": 1}, "metrik"),
    ("metric_cons", {"metric": "m", "metric_target": "human", "metrik": 1}, "metrik"),
    ("combinator", {"methods": PARTS, "weight": 1}, "weight"),
    ("combinator", {"methods": PARTS, "normalize": "none"}, "give 'rank', 'zscore' or '01'"),
    ("combinator", {"methods": PARTS, "operation": "add"}, "give 'avg' or 'mul'"),
    ("combinator", {"methods": ["metric_avg"]}, "give a dictionary with a 'method' for each"),
    ("kmeans", {"features": "src"}, "'kmeans' chooses a subset; give the number of items as `budget`"),
    ("kmeans", {"budget": 3, "load_model": Encoder()}, "'kmeans' takes no load_model"),
    ("diffuse", {"budget": 3, "load_model": Encoder()}, "'diffuse' takes no load_model"),
    ("pyirt_diff", {"metric": "m", "load_model": {}}, "'pyirt_diff' takes no load_model"),
    *(
        ("pyirt_diffdisc", {"metric": "m", name: value}, name)
        for name, value in {"model": "2pl", "dropout": 0.1, "epochs": 9, "enforce_positive_disc": True}.items()
    ),
    ("bruteforce", {"budget": 3, "metric": ("m", "human")}, "give one metric, not"),
    ("pyirt_experiment", {"metric": "m"}, "no utility in subset2evaluate either"),
]


@pytest.mark.parametrize(("method", "given", "message"), DIFFERENT)
def test_what_has_no_counterpart_is_refused(method, given, message):
    with pytest.raises(AliquotError, match=message):
        select_subset.basic(made(), method=method, **given)


def test_no_seed_means_zero_where_the_peer_draws_anew():
    assert select_subset.basic(made(), method="random") == select_subset.basic(made(), method="random", seed=0)


def test_a_constant_part_counts_nothing_where_the_peer_gives_nan():
    items = [{"i": k, "scores": {"A": {"m": 1.0, "n": k}, "B": {"m": 1.0, "n": k}}} for k in range(4)]
    parts = [{"method": "metric_var", "metric": "m"}, {"method": "metric_avg", "metric": "n"}]
    for normalize, best in (("zscore", 3 / np.sqrt(5) / 2), ("01", 0.5)):
        came = select_subset.basic(items, method="combinator", methods=parts, normalize=normalize)
        assert places(came) == [0, 1, 2, 3]
        assert came[0][UTILITY] == pytest.approx(best)


def test_objects_that_are_no_data_are_named():
    with pytest.raises(AliquotError, match=r"items hold .*, a Encoder; give texts, numbers"):
        select_subset.basic([{**item, "extra": Encoder()} for item in made()], method="metric_avg", metric="m")


def test_a_choice_may_cost_the_whole_budget():
    """The peer stops before the budget is reached; three items of cost 1 fit 3 here, two there."""
    items = [{"i": k, UTILITY: np.float64(k), "cost": np.float64(1.0)} for k in range(6)]
    assert places(select_subset.costaware(items, 3)) == [5, 4, 3]
    assert len(peer.select_subset.costaware(copy.deepcopy(items), 3)) == 2


# -- nothing is forgotten ----------------------------------------------------------------------------------------------


def test_every_method_is_in_these_tables():
    compared = {method for method, *_ in [*SAME, *DIFFERENT]} | {"diversity", "kmeans", "diffuse", "bruteforce_greedy"}
    rest = {m for m in METHODS if m.startswith(("pyirt_", "precomet", "sentinel", "comet"))}
    assert set(METHODS) == compared | rest
    for method in METHODS.keys() - UNSUPPORTED.keys():
        find_method(method)


def test_every_function_of_evaluate_takes_the_same_arguments():
    theirs = {
        name: function
        for name, function in vars(import_module("subset2evaluate.evaluate")).items()
        if inspect.isfunction(function) and name != "main_cli"
    }
    assert set(theirs) <= set(evaluate.__all__)
    for name, function in theirs.items():
        assert list(inspect.signature(getattr(evaluate, name)).parameters) == list(
            inspect.signature(function).parameters
        )


def test_arguments_may_be_numpy_numbers():
    greedy = {"metric": "m", "simulations": 5, "budget": 4, "stepsize": 2}
    for method, plain in (("random", {"seed": 7}), ("bruteforce_greedy", greedy)):
        given: dict[str, Any] = {k: np.int64(v) if isinstance(v, int) else v for k, v in plain.items()}
        assert places(select_subset.basic(made(), method=method, **given)) == places(
            select_subset.basic(made(), method=method, **dict[str, Any](plain))
        )


def test_items_with_numpy_numbers_make_an_evalset():
    data = select_subset.to_evalset(made())
    assert isinstance(data, EvalSet)
    assert data.scores["human"].sum() == sum(s["human"] for item in made() for s in item["scores"].values())
