"""Utilities from pretrained models with COMET's interface: PreCOMET, Sentinel, COMET with confidences.

The models are packages of their own, with weights that must be downloaded; aliquot installs neither. An adapter asks
them what subset2evaluate asks: `load_from_checkpoint(path)`, `download_model(name)` where the name is no path, and
`predict([{"src": ...}], progress_bar=False)`, whose result has `scores`, one for each source (or `confidences`, one for
each output). Names of subset2evaluate such as precomet_var stand for `pretrained` with their model and sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aliquot.core.evalset import EvalSet
from aliquot.errors import DataError, MissingExtraError, OptionError
from aliquot.sampling.methods import utility
from aliquot.sampling.text_methods import output_texts
from aliquot.stats.arrays import FloatArray

Package = Literal["precomet", "sentinel_metric", "comet_early_exit"]
_INSTALL = {
    "precomet": "pip install git+https://github.com/zouharvi/PreCOMET",
    "sentinel_metric": "pip install git+https://github.com/SapienzaNLP/guardians-mt-eval",
    "comet_early_exit": "pip install 'git+https://github.com/zouharvi/COMET-early-exit#egg=comet-early-exit&"
    "subdirectory=comet_early_exit'",
}
_CONFIDENCE = "comet_early_exit"


@utility(
    "pretrained",
    needs=("source",),
    paper="Zouhar et al. 2025, section 4.1 and appendix A",
    advice="PreCOMET or Sentinel, where their packages and weights are at hand.",
)
def pretrained(
    evalset: EvalSet, *, model: tuple[str, ...] | None = None, package: Package = "precomet", reverse: bool = False
) -> FloatArray:
    """What a pretrained model predicts from the source (comet_early_exit: its confidence in the outputs).

    Args:
        model: a checkpoint, or a name that the package can download; with several joined by | the product counts.
        package: the package that loads it, which must be installed.
        reverse: low predictions first.
    """
    if not model:
        raise OptionError("pretrained: no model is given; write model=FILE, a checkpoint or a name it can be had by")
    values = np.prod([model_scores(load_checkpoint(name, package), evalset, package) for name in model], axis=0)
    return -values if reverse else np.asarray(values, dtype=np.float64)


def load_checkpoint(name: str, package: str) -> Any:
    """Load a checkpoint with its package; download it if the name is not a path."""
    if find_spec(package) is None:
        raise MissingExtraError(
            f"the model '{name}' needs the package {package}, with weights to download: {_INSTALL[package]}; or give "
            "its predictions: source:column=NAME, source:predictor=module:function"
        )
    module = import_module(package)
    try:
        path = name if Path(name).exists() else module.download_model(name)
        return module.load_from_checkpoint(path)
    except Exception as error:  # the package is another's: a network, a file or a version may fail in many ways
        raise OptionError(f"pretrained: {package} cannot load '{name}' ({type(error).__name__}: {error})") from error


def model_scores(model: Any, evalset: EvalSet, package: str) -> FloatArray:
    """Return a number per item: the prediction from its source, or the mean confidence in its outputs."""
    sources = [text or "" for text in evalset.items["source"].to_list()]
    if package != _CONFIDENCE:
        return _predict_samples(model, [{"src": text} for text in sources], "scores")
    pairs = [(row, text) for row, texts in enumerate(output_texts(evalset)) for text in texts if text is not None]
    confidences = _predict_samples(model, [{"src": sources[row], "mt": text} for row, text in pairs], "confidences")
    rows = np.array([row for row, _ in pairs], dtype=np.int64)
    count = np.bincount(rows, minlength=len(sources))
    total = np.bincount(rows, weights=confidences, minlength=len(sources))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _predict_samples(model: Any, samples: Sequence[Mapping[str, str]], field: str) -> FloatArray:
    """Return the predictions; raise DataError unless there is one per sample."""
    result = model.predict(list(samples), progress_bar=False)
    raw = result[field] if isinstance(result, Mapping) else getattr(result, field)
    values = np.asarray(raw, dtype=np.float64)
    if values.shape != (len(samples),):
        raise DataError(f"pretrained: the model gave {field} of shape {values.shape} for {len(samples)} texts")
    return values
