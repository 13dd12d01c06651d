"""Utilities from the source alone: its length, a learned model, or the user's own predictor.

See docs/methods.md, section 3. They need no output and no system: items are chosen before anything is generated.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.conventions import list_domains, list_language_pairs, source_lengths
from aliquot.core.evalset import EvalSet
from aliquot.errors import AliquotWarning, DataError, OptionError, unknown_name
from aliquot.sampling.methods import utility
from aliquot.sampling.source_model import SourceModel
from aliquot.sampling.text_vectors import DEFAULT_MODEL, embed
from aliquot.stats.arrays import FloatArray

_MAX_UNLIKE_SHARE = 0.25


@utility(
    "source_length",
    needs=("source",),
    paper="docs/methods.md, section 3",
    advice="Long sources first: the baseline of every learned source utility.",
)
def source_length(evalset: EvalSet) -> FloatArray:
    """Long sources: words, or characters in Chinese, Japanese, Korean and Thai."""
    return source_lengths(evalset)


@utility(
    "source",
    needs=("source",),
    paper="Zouhar et al. 2025, section 4.1",
    advice="What past campaigns teach about sources; before any output exists.",
)
def source(
    evalset: EvalSet,
    *,
    model: str | None = None,
    predictor: str | None = None,
    column: str | None = None,
    pair: str | None = None,
    encoder: str | None = None,
) -> FloatArray:
    """Items whose source promises a useful judgment: predicted by a learned model, your own function, or a column.

    Args:
        model: a file that `aliquot learn` wrote.
        predictor: module:function of your own; called with the list of sources, gives a number each (higher first).
        column: a numeric item column that holds the prediction.
        pair: the language pair, such as en-de; by default from the item column pair or langs, or from the data's name.
        encoder: the sentence encoder that the model may load, where it names another than the default one.
    """
    kind, name = find_predictor({"model": model, "predictor": predictor, "column": column})
    if kind == "model":
        learned = SourceModel.load(Path(name))
        return predict_utility(evalset, learned, pair, require_trusted_encoder(learned.embedding, name, encoder))
    if kind == "predictor":
        return call_predictor(name, evalset.items["source"].to_list())
    numeric = [
        column_name
        for column_name in evalset.items.columns
        if evalset.items[column_name].dtype.is_numeric() and column_name != "id"
    ]
    if name not in numeric:
        raise unknown_name("numeric item column", name, numeric, "check column=")
    return evalset.items[name].cast(pl.Float64).fill_null(np.nan).to_numpy()


def find_predictor(parameters: Mapping[str, Any]) -> tuple[str, str]:
    """Return which of model, predictor and column is given, and its value; raise unless exactly one is.

    >>> find_predictor({"model": "utility.model", "column": None})
    ('model', 'utility.model')
    """
    names = [name for name in ("model", "predictor", "column") if parameters.get(name)]
    if len(names) != 1:
        what = f"{' and '.join(names)} are given" if names else "nothing is given"
        raise OptionError(
            f"source: {what}; give one of model=FILE (from `aliquot learn`), predictor=module:function or column=NAME"
        )
    return names[0], str(parameters[names[0]])


def require_trusted_encoder(encoder: str, file: str | Path, trusted: str | None) -> str:
    """Return the encoder if it is trusted; loading one can run code, so a model file must not choose it.

    Allowed are the default encoder, one that the user names, and a folder beside the model or below.

    >>> require_trusted_encoder("someone/else", "utility.model", None)
    Traceback (most recent call last):
        ...
    aliquot.errors.OptionError: utility.model asks for the sentence encoder 'someone/else'; if you trust it, ...
    """
    folder = Path(file).resolve().parent
    if encoder in ("", DEFAULT_MODEL) or encoder == trusted:
        return encoder
    place = (folder / encoder).resolve()
    if place.is_dir() and place.is_relative_to(folder):
        return str(place)
    raise OptionError(f"{file} asks for the sentence encoder '{encoder}'; if you trust it, name it: encoder={encoder}")


def predict_utility(evalset: EvalSet, model: SourceModel, pair: str | None = None, encoder: str = "") -> FloatArray:
    """Apply a learned model to a set's sources, and warn when they look unlike those it learned from."""
    texts = evalset.items["source"].to_list()
    vectors = embed([text or "" for text in texts], encoder) if model.embedding else None
    pairs = pair if pair is not None else list_language_pairs(evalset)
    values, unlike = model.assess(texts, pair=pairs, domain=list_domains(evalset), vectors=vectors)
    warning = build_unlike_warning(unlike)
    if warning:
        warnings.warn(warning, AliquotWarning, 2)
    return values


def build_unlike_warning(unlikeness: FloatArray) -> str | None:
    """Return a warning if many sources are unlike the training sources, else None.

    >>> build_unlike_warning(np.array([0.5, 0.7, 0.9])) is None
    True
    """
    present = unlikeness[np.isfinite(unlikeness)]
    if not len(present):
        return None
    share = float((present > 1).mean())
    if share <= _MAX_UNLIKE_SHARE:
        return None
    return (
        f"{share:.0%} of the sources look unlike those the model learned from (5% would be usual; median unlikeness "
        f"{np.median(present):.2f}, where 1 is the training sources' 95th percentile): its predictions may be worth "
        "little here; compare source_length"
    )


def call_predictor(name: str, texts: Sequence[str | None]) -> FloatArray:
    """Call the user's function on the sources; raise unless it returns a number for each."""
    function = import_function(name)
    try:
        result = function([text or "" for text in texts])
    except (Exception, SystemExit) as error:  # the function is the user's, and may raise or exit as it likes
        raise OptionError(f"source: the predictor {name} failed ({type(error).__name__}: {error})") from error
    try:
        values = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"source: the predictor {name} did not give numbers ({error})") from None
    if values.shape != (len(texts),):
        raise DataError(f"source: the predictor {name} gave an array of shape {values.shape} for {len(texts)} sources")
    return np.where(np.isfinite(values), values, np.nan)


def _forget_namesake(module: str, folder: Path) -> None:
    """Unload a module of this name that was loaded from another folder."""
    file = folder / f"{module}.py"
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is not None and file.exists() and file.resolve() != Path(loaded).resolve():
        del sys.modules[module]


def import_function(name: str) -> Callable[[Sequence[str]], Any]:
    """Import module:function, the working folder included.

    >>> import_function("math:fsum")([1.0, 2.0])
    3.0
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise OptionError(f"source: predictor='{name}'; write module:function, for instance my_models:difficulty")
    folder = str(Path.cwd())
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    invalidate_caches()  # the file may be newer than this process
    _forget_namesake(module, Path(folder))
    try:
        function = getattr(import_module(module), attribute)
    except ImportError as error:
        raise OptionError(f"source: the predictor's module '{module}' cannot be imported ({error})") from None
    except AttributeError:
        raise OptionError(f"source: the module '{module}' has no function '{attribute}'") from None
    except (Exception, SystemExit) as error:  # the module is the user's: whatever it raises
        raise OptionError(
            f"source: the predictor's module '{module}' fails ({type(error).__name__}: {error})"
        ) from error
    finally:
        if added:
            sys.path.remove(folder)
    if not callable(function):
        raise OptionError(f"source: {name} is not a function")
    predictor: Callable[[Sequence[str]], Any] = function
    return predictor
