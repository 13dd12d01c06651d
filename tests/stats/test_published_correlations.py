"""Correlations against the tables of the HumEval 2022 proceedings, as worked out in the notes on them.

Detoxification (paper 8): Tables 1 and 2 give Tables 3 and 4. Korean tokenisation (paper 1): Table 4. Formality transfer
(paper 9): Table 3. The extraction lost the names of metrics of the last; by value ranges they are those below.
"""

from __future__ import annotations

import numpy as np
import pytest

from aliquot.stats.arrays import FloatArray
from aliquot.stats.correlation import Coefficient, correlate, correlate_tables
from aliquot.stats.system_correlation import extreme_curves, leave_one_system_out, nested_statistic
from aliquot.stats.system_correlation import metric_pairwise_accuracy as pairwise_accuracy

# system: automatic STA SIM FL J ChrF (Table 1), manual STA SIM FL J (Table 2)
DETOXIFICATION = {
    "adversarial": (0.97, 0.94, 0.96, 0.87, 0.53, 0.25, 0.13, 0.24, 0.02),
    "ruT5-finetune": (0.98, 0.86, 0.97, 0.82, 0.55, 0.80, 0.78, 0.87, 0.56),
    "ruT5-large": (0.95, 0.86, 0.97, 0.78, 0.57, 0.73, 0.87, 0.92, 0.60),
    "ruT5-clean": (0.95, 0.82, 0.91, 0.71, 0.57, 0.79, 0.87, 0.90, 0.63),
    "lewis": (0.93, 0.80, 0.88, 0.66, 0.56, 0.82, 0.79, 0.85, 0.58),
    "ruGPT3-XL": (0.94, 0.73, 0.89, 0.61, 0.50, 0.81, 0.70, 0.90, 0.50),
    "RuT5 Baseline": (0.80, 0.83, 0.84, 0.56, 0.57, 0.79, 0.82, 0.92, 0.61),
    "ruPrompts-plus": (0.80, 0.80, 0.83, 0.54, 0.56, 0.78, 0.81, 0.90, 0.57),
    "ruPrompts": (0.81, 0.79, 0.80, 0.53, 0.55, 0.80, 0.70, 0.87, 0.49),
    "ruT5-preproc": (0.85, 0.76, 0.78, 0.52, 0.53, 0.79, 0.72, 0.78, 0.51),
    "human references": (0.85, 0.72, 0.78, 0.49, 0.77, 0.89, 0.82, 0.89, 0.65),
    "ruGPT3-filter": (0.83, 0.76, 0.76, 0.48, 0.51, 0.77, 0.72, 0.83, 0.45),
    "RoBERTa-replace": (0.57, 0.89, 0.91, 0.44, 0.54, 0.43, 0.62, 0.79, 0.17),
    "Delete": (0.56, 0.89, 0.85, 0.41, 0.53, 0.39, 0.71, 0.73, 0.16),
    "Duplicate": (0.24, 1.00, 1.00, 0.24, 0.56, 0.11, 1.00, 1.00, 0.11),
}
AUTOMATIC = ("STA", "SIM", "FL", "J", "ChrF")
MANUAL = ("STA", "SIM", "FL", "J")
SPEARMAN = (
    (0.376, -0.776, -0.398, 0.278, 0.223),
    (-0.046, 0.031, 0.190, 0.000, 0.789),
    (-0.083, -0.032, 0.288, 0.070, 0.619),
    (0.326, -0.495, -0.211, 0.350, 0.735),
)
# STA manual with FL automatic is printed -0.398, a copy of Table 3; the scores give -0.550.
PEARSON = (
    (0.695, -0.888, -0.550, 0.305, 0.264),
    (-0.305, -0.153, -0.042, -0.431, 0.276),
    (-0.237, -0.291, -0.116, -0.425, 0.218),
    (0.595, -0.746, -0.380, 0.278, 0.367),
)


def detoxification(manual: str, automatic: str) -> tuple[FloatArray, FloatArray]:
    table = np.array(list(DETOXIFICATION.values()))
    return table[:, AUTOMATIC.index(automatic)], table[:, 5 + MANUAL.index(manual)]


@pytest.mark.parametrize("coefficient", ["spearman", "pearson"])
@pytest.mark.parametrize("manual", MANUAL)
@pytest.mark.parametrize("automatic", AUTOMATIC)
def test_detoxification(coefficient: Coefficient, manual: str, automatic: str) -> None:
    printed = (SPEARMAN if coefficient == "spearman" else PEARSON)[MANUAL.index(manual)][AUTOMATIC.index(automatic)]
    result = correlate(*detoxification(manual, automatic), coefficient)
    assert result.value == pytest.approx(printed, abs=0.001)
    assert (result.cells, result.undefined) == (15, 0)


def test_the_misprint_is_not_the_pearson_of_the_scores() -> None:
    assert abs(correlate(*detoxification("STA", "FL")).value - -0.398) > 0.1


@pytest.mark.parametrize(
    ("manual", "automatic", "full", "without"), [("STA", "STA", 0.695, 0.937), ("J", "J", 0.278, 0.738)]
)
def test_one_system_makes_the_weak_correlation(manual: str, automatic: str, full: float, without: float) -> None:
    metric, human = detoxification(manual, automatic)
    result = leave_one_system_out(metric[None], human[None], lambda x, y: correlate_tables(x, y).value)
    adversarial = list(DETOXIFICATION).index("adversarial")
    assert result.full == pytest.approx(full, abs=0.001)
    assert result.without[adversarial] == pytest.approx(without, abs=0.001)
    assert result.high == result.without[adversarial]
    assert result.low < result.full


TOKENISATIONS = ("Word", "Okt", "MeCab", "Komoran", "Kkma", "Kiwi", "Khaiii", "Hannanum", "SPM", "Character", "CV")
KOREAN_Z = np.array([0.203, 0.112, 0.027, -0.220])
KOREAN_RAW = np.array([68.783, 67.160, 64.688, 57.734])
KOREAN = {
    "BLEU": (
        (28.099, 33.398, 38.341, 40.275, 40.986, 41.022, 40.005, 36.939, 41.015, 48.712, 48.467),
        (28.932, 34.351, 39.185, 41.007, 41.920, 41.997, 40.881, 37.793, 41.948, 49.553, 49.188),
        (23.941, 30.415, 35.605, 36.621, 37.236, 38.458, 37.034, 32.902, 37.213, 45.924, 45.098),
        (25.941, 31.382, 35.602, 37.304, 38.063, 38.138, 36.939, 34.058, 38.155, 47.096, 46.602),
    ),
    "TER": (
        (82.811, 68.223, 64.142, 63.041, 62.253, 62.352, 63.412, 67.833, 62.391, 57.718, 52.932),
        (82.334, 67.332, 63.519, 62.585, 61.545, 61.649, 62.867, 67.249, 61.083, 56.364, 51.962),
        (89.652, 69.882, 64.898, 64.859, 63.479, 62.983, 64.346, 71.199, 65.914, 62.163, 54.063),
        (86.699, 70.356, 66.611, 65.641, 64.751, 64.758, 66.126, 71.199, 64.767, 59.771, 54.697),
    ),
    "ChrF": (
        (44.897, 46.508, 47.544, 48.904, 46.326, 49.299, 48.763, 46.019, 47.932, 47.887, 53.140),
        (45.725, 47.345, 48.370, 49.635, 47.131, 50.096, 49.560, 46.826, 48.807, 48.707, 53.807),
        (42.742, 44.171, 45.342, 46.182, 43.796, 47.017, 46.354, 43.401, 45.357, 45.699, 51.198),
        (43.505, 45.134, 46.031, 47.166, 44.639, 47.557, 47.011, 44.378, 44.378, 46.533, 51.775),
    ),
}
KOREAN_R = {
    "BLEU": (0.509, 0.602, 0.755, 0.692, 0.668, 0.782, 0.768, 0.637, 0.654, 0.545, 0.533),
    "TER": (-0.550, -0.795, -0.921, -0.876, -0.894, -0.912, -0.933, -0.779, -0.596, -0.464, -0.794),
    "ChrF": (0.578, 0.546, 0.602, 0.585, 0.597, 0.646, 0.629, 0.574, 0.851, 0.563, 0.615),
}


def korean_r(human: FloatArray) -> dict[str, FloatArray]:
    return {
        name: np.array([correlate(scores, human).value for scores in np.array(table).T])
        for name, table in KOREAN.items()
    }


def test_korean_corpus_level() -> None:
    found = korean_r(KOREAN_Z)
    for name, expected in KOREAN_R.items():
        assert found[name] == pytest.approx(expected, abs=0.001)


def test_korean_range_is_against_z_scores() -> None:
    """The paper says 0.46 to 0.93: TER on characters, and on Khaiii's morphemes."""
    sizes = {name: np.abs(values) for name, values in korean_r(KOREAN_Z).items()}
    everything = np.concatenate(list(sizes.values()))
    assert everything.min() == sizes["TER"][TOKENISATIONS.index("Character")] == pytest.approx(0.464, abs=0.0005)
    assert everything.max() == sizes["TER"][TOKENISATIONS.index("Khaiii")] == pytest.approx(0.933, abs=0.0005)
    assert max(np.abs(values).max() for values in korean_r(KOREAN_RAW).values()) == pytest.approx(0.954, abs=0.0005)


@pytest.mark.parametrize("tokenisation", TOKENISATIONS)
def test_korean_rankings(tokenisation: str) -> None:
    """People say A > B > P > Q; BLEU puts B over A, and Q over P except on three kinds of morphemes."""
    scores = np.array(KOREAN["BLEU"])[:, TOKENISATIONS.index(tokenisation)]
    swaps = 1 if tokenisation in {"MeCab", "Kiwi", "Khaiii"} else 2
    assert correlate(scores, KOREAN_Z, "kendall_b").value == pytest.approx(1 - swaps / 3)
    assert pairwise_accuracy(scores[None], KOREAN_Z[None]).value == pytest.approx(1 - swaps / 6)


# system: human z of content; BLEU chrF ROUGE-L WMD METEOR BERTScore BLEURT COMET against the source, then the reference
FORMALITY = {
    "HIGH": "0.542 0.608 0.775 0.758 0.672 0.808 0.880 0.851 0.895 0.366 0.547 0.582 1.086 0.554 0.643 0.347 0.400",
    "NIU": "0.491 0.637 0.772 0.769 0.652 0.808 0.873 0.818 0.899 0.376 0.560 0.605 1.036 0.567 0.649 0.373 0.418",
    "BART": "0.370 0.514 0.688 0.692 0.840 0.724 0.798 0.687 0.752 0.382 0.555 0.596 1.053 0.573 0.646 0.388 0.425",
    "IBT": "0.337 0.543 0.711 0.717 0.782 0.749 0.838 0.744 0.813 0.373 0.550 0.582 1.094 0.574 0.635 0.350 0.391",
    "RAO": "0.328 0.649 0.778 0.791 0.608 0.815 0.833 0.751 0.822 0.336 0.525 0.561 1.145 0.533 0.601 0.234 0.305",
    "ZHOU": "-0.659 0.610 0.717 0.765 0.758 0.770 0.739 0.189 0.318 0.253 0.461 0.494 1.351 0.469 0.508 -0.200 -0.125",
    "YI": "-0.669 0.547 0.684 0.731 0.823 0.728 0.716 0.148 0.320 0.288 0.483 0.517 1.307 0.491 0.524 -0.154 -0.059",
    "LUO": "-0.749 0.472 0.638 0.660 1.034 0.681 0.646 0.020 0.034 0.222 0.416 0.445 1.514 0.434 0.453 -0.289 -0.278",
}
FORMALITY_R = (
    0.440,
    0.712,
    0.364,
    -0.659,
    0.636,
    0.937,
    0.993,
    0.972,
    0.944,
    0.936,
    0.930,
    -0.941,
    0.931,
    0.963,
    0.984,
    0.978,
)
BLEU_REFERENCE, COMET_REFERENCE = 8, 15


def formality() -> tuple[FloatArray, FloatArray]:
    """Metrics x systems, and human scores."""
    table = np.array([row.split() for row in FORMALITY.values()], dtype=np.float64)
    return table[:, 1:].T, table[:, 0]


def test_formality_system_level() -> None:
    metrics, human = formality()
    assert [correlate(metric, human).value for metric in metrics] == pytest.approx(list(FORMALITY_R), abs=0.001)


@pytest.mark.parametrize(
    ("metric", "top"),
    [
        (COMET_REFERENCE, (0.978, 0.984, 0.980, 0.488, 0.058, -0.887)),
        (BLEU_REFERENCE, (0.944, 0.936, 0.946, 0.301, -0.600, -0.931)),
    ],
)
def test_formality_of_the_best_systems(metric: int, top: tuple[float, ...]) -> None:
    metrics, human = formality()
    shuffled = np.array([3, 7, 0, 5, 1, 6, 2, 4])
    curves = extreme_curves(
        metrics[metric][None, shuffled],
        human[None, shuffled],
        nested_statistic(lambda x, y: correlate_tables(x, y).value),
    )
    assert curves.sizes.tolist() == [8, 7, 6, 5, 4, 3]
    assert curves.top == pytest.approx(top, abs=0.001)
    assert shuffled[curves.order].tolist() == list(range(8))


def test_formality_of_the_worst_systems() -> None:
    metrics, human = formality()
    curves = extreme_curves(
        metrics[COMET_REFERENCE][None], human[None], nested_statistic(lambda x, y: correlate_tables(x, y).value)
    )
    assert curves.last == pytest.approx((0.978, 0.979, 0.976, 0.970, 0.953, 0.921), abs=0.001)
