"""MLflow: estimates as a run with a nested run for each system, human judgments as feedback on traces."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from aliquot.core.evalset import EvalSet
from aliquot.core.statements import SystemMean
from aliquot.errors import AliquotWarning, MissingExtraError, OptionError, OutputError, import_extra
from aliquot.io.formats.trace_ids import TRACES, list_answers, read_cell_ids

_SERVER = re.compile(r"(https?):/+")  # a path has one slash of "//"
_NOT_ALLOWED = re.compile(r"[^\w\-. ]|^\.{0,2}$")  # and "/": in a folder "org" and "org/model" would be one path
_MAX_NAME = 100  # characters; MLflow takes 250 of a metric: a score, a system and a suffix
_MAX_METRICS = 1000  # in a request
_MAX_TAG = 5000  # characters that every store takes
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # counts only before the first import
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",  # 14 seconds; by default a server that is down takes four minutes
}
_STATISTICS = {"": "value", ".low": "low", ".high": "high", ".se": "se", ".n": "n"}


# -- results -------------------------------------------------------------------------------------------------------


def log_means(
    means: Sequence[SystemMean],
    path: str | Path | None,
    *,
    signature: str,
    verdict: str,
    files: Mapping[str, str],
    experiment: str | None = None,
    run_name: str | None = None,
) -> None:
    """Log means as metrics of one run, and those of each system as metrics of a run nested in it.

    Args:
        means: The estimates.
        path: The tracking store; None is that of MLflow's settings.
        signature: That of the result; its parts become parameters.
        verdict: The description of the run.
        files: Artifacts by name.
        experiment: The name of the experiment, which is made if it is new.
        run_name: The name of the run; by default the dataset's.
    """
    tags = {"aliquot.signature": signature[:_MAX_TAG], "aliquot.verdict": verdict[:_MAX_TAG]}
    with _open_store(path) as mlflow:
        place = {} if experiment is None else {"experiment_id": _find_experiment(mlflow, experiment)}
        nested = mlflow.active_run() is not None
        about = tags | {"mlflow.note.content": tags["aliquot.verdict"]}
        with mlflow.start_run(run_name=run_name or means[0].dataset, nested=nested, tags=about, **place):
            mlflow.log_params(_split_signature(signature))
            _log_metrics(mlflow, name_metrics(means, with_system=True))
            for name, content in files.items():
                mlflow.log_text(content, name)
            for mean in means:
                with mlflow.start_run(run_name=mean.system, nested=True, tags=tags, **place):
                    mlflow.log_param("system", mean.system)
                    _log_metrics(mlflow, name_metrics([mean]))


def name_metrics(means: Sequence[SystemMean], *, with_system: bool = False) -> dict[str, float]:
    """Return the numbers of means by names that MLflow takes; unknown ones are left out.

    >>> mean = SystemMean("a:b", "human", "data", 4.0, 0.5, 3.0, math.nan, 0.95, 9, "mean", "t")
    >>> name_metrics([mean], with_system=True)
    {'human/a_b': 4.0, 'human/a_b.low': 3.0, 'human/a_b.se': 0.5, 'human/a_b.n': 9.0}
    """
    metrics: dict[str, float] = {}
    for suffix, field in _STATISTICS.items():
        for mean in means:
            stem = _clean_name(mean.score) + (f"/{_clean_name(mean.system)}" if with_system else "")
            name, number = f"{stem}{suffix}", 1
            while name in metrics:  # "a:b" and "a_b" become the same
                number += 1
                name = f"{stem}_{number}{suffix}"
            metrics[name] = float(getattr(mean, field))
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _clean_name(name: str) -> str:
    """Return a name without characters that MLflow or a file system refuses.

    >>> _clean_name("org/a:b"), _clean_name("..")
    ('org_a_b', '_')
    """
    return _NOT_ALLOWED.sub("_", name[:_MAX_NAME])


def _split_signature(signature: str) -> dict[str, str]:
    parts = (part.partition(":") for part in signature.split("|"))
    return {_clean_name(name): value for name, _, value in parts if name and value}


def _log_metrics(mlflow: Any, metrics: Mapping[str, float]) -> None:
    pairs = list(metrics.items())
    for start in range(0, len(pairs), _MAX_METRICS):
        mlflow.log_metrics(dict(pairs[start : start + _MAX_METRICS]))


def _find_experiment(mlflow: Any, name: str) -> str:
    experiment = mlflow.get_experiment_by_name(name)
    return str(mlflow.create_experiment(name) if experiment is None else experiment.experiment_id)


# -- judgments -----------------------------------------------------------------------------------------------------


def log_feedback(evalset: EvalSet, path: str | Path | None) -> None:
    """Log each judgment as feedback on the trace of its output, which the item column `trace_ids` names."""
    if evalset.judgments is None:
        raise OptionError(f"{evalset.name}: there are no judgments to log as feedback")
    if TRACES not in evalset.items.columns:
        raise OptionError(
            f"{evalset.name}: there is no item column '{TRACES}'; feedback needs the trace of each output: add "
            f'a field to each item, e.g. "{TRACES}": {{"{evalset.systems[0]}": "tr-1f0c"}}'
        )
    answers, traces, absent, empty = list(list_answers(evalset)), read_cell_ids(evalset, TRACES), 0, 0
    with _open_store(path) as mlflow:
        for row in answers:
            trace = traces.get((row["item"], row["system"]))
            value = row.get("label") if row["value"] is None else row["value"]
            absent += trace is None
            empty += trace is not None and value is None
            if trace is not None and value is not None:
                mlflow.log_feedback(
                    trace_id=trace,
                    name=row["name"],
                    value=value,
                    source=mlflow.entities.AssessmentSource(
                        source_type="HUMAN", source_id=row["annotator"] or "default"
                    ),
                    rationale=row.get("comment"),
                )
    for count, reason in ((absent, "their outputs have no trace"), (empty, "they have neither a value nor a label")):
        if count:
            note = f"{evalset.name}: {count} of {len(answers)} judgments were not logged: {reason}"
            warnings.warn(note, AliquotWarning, stacklevel=2)


# -- the store -----------------------------------------------------------------------------------------------------


@contextmanager
def _open_store(path: str | Path | None) -> Iterator[Any]:
    """Yield MLflow with the tracking store at a path, or with that of its settings; what it prints goes to stderr."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    mlflow = import_extra("mlflow", "mlflow", "writing to MLflow")
    earlier = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
    try:
        if path is not None:
            mlflow.set_tracking_uri(_locate_store(path))
        with redirect_stdout(sys.stderr):
            yield mlflow
    except ImportError as error:  # of a store in a database
        raise MissingExtraError(f"{path or 'this MLflow store'} needs {error.name}: pip install mlflow") from None
    except mlflow.exceptions.MlflowException as error:
        raise OutputError(f"MLflow: {str(error).splitlines()[0]}") from None
    finally:
        if path is not None:
            mlflow.set_tracking_uri(earlier)


def _locate_store(path: str | Path) -> str:
    """Return the address of a tracking store: a server, an SQLite database (.db) or a folder.

    >>> _locate_store(Path("http://localhost:5000")), _locate_store("postgresql://host/runs")
    ('http://localhost:5000', 'postgresql://host/runs')
    >>> _locate_store("/runs/mlflow.db"), _locate_store("/runs/mlruns")
    ('sqlite:////runs/mlflow.db', 'file:///runs/mlruns')
    """
    address = _SERVER.sub(r"\1://", str(path))
    if "://" in address:
        return address
    if address.startswith("sqlite:"):
        raise OptionError(f"{path}: name the database file itself, as in: -o mlflow.db", "output")
    place = Path(path).absolute()
    if place.suffix == ".db":
        return f"sqlite:///{place}"
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow asks whether a folder is meant; it was named
    return place.as_uri()
