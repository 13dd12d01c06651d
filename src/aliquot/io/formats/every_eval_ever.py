"""Every Eval Ever, schema 0.3.0: a folder laid out as its data store, with a record for each system.

Only what a result knows is stated: a scale that nobody named is unbounded, an organization or a relationship that
nobody named is "unknown" and "other", as the schema has it.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
import warnings
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from aliquot._version import __version__
from aliquot.core.statements import SystemMean
from aliquot.errors import AliquotWarning, quoted
from aliquot.validation import one_of

SCHEMA_VERSION = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
"""Of the evaluator to the developers of the systems."""
_NOT_PORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f\ud800-\udfff]')
_RESERVED = re.compile(r"(data|con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # by the store and by Windows
_UNKNOWN = "unknown"
_MAX_NAME = 80  # characters: a name of 4-byte characters and the rest of a path component fit into 255 bytes


def build_records(
    means: Sequence[SystemMean],
    *,
    signature: str,
    retrieved: int,
    organization: str = _UNKNOWN,
    relationship: str = "other",
    developer: str | None = None,
) -> dict[PurePosixPath, dict[str, Any]]:
    """Return the records by their path in the data store.

    Args:
        means: The estimates; a record each.
        signature: That of the result; with the system it identifies a record, so that a repeated run gives the same.
        retrieved: When the records are made, in seconds since 1970.
        organization: Who provides the results.
        relationship: Of the evaluator to the developers of the systems.
        developer: Of systems whose names do not say it, as "org/model" does.
    """
    relationship = one_of("relationship", relationship, get_args(Relationship))
    nameless = [mean.system for mean in means if "/" not in mean.system]
    if nameless and developer is None:
        note = f"the data store asks who developed {quoted(nameless, 3)}; say every-eval-ever:developer=NAME"
        warnings.warn(note, AliquotWarning, stacklevel=2)
    source = {
        "source_type": "evaluation_run",
        "source_organization_name": organization,
        "evaluator_relationship": relationship,
        "additional_details": {"signature": signature},
    }
    records = {}
    for mean in means:
        digest = hashlib.blake2b(f"{signature}\n{mean.system}".encode(errors="surrogatepass"), digest_size=16).digest()
        identity = uuid.UUID(bytes=digest, version=4)
        model = _describe_model(mean.system, developer)
        records[_place(mean.dataset, model, identity)] = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": f"{mean.dataset}/{mean.system}/{identity}",
            "retrieved_timestamp": str(retrieved),
            "source_metadata": source,
            "eval_library": {"name": "aliquot", "version": __version__},
            "model_info": model,
            "evaluation_results": [_describe_result(mean)],
        }
    return records


def _place(dataset: str, model: Mapping[str, Any], identity: uuid.UUID) -> PurePosixPath:
    prefix, slash, name = model["id"].partition("/")
    developer, name = (prefix, name) if slash else (model.get("developer", _UNKNOWN), prefix)
    return PurePosixPath("data", *(_make_portable(part) for part in (dataset, developer, name)), f"{identity}.json")


def _make_portable(name: str) -> str:
    """Return a name that every file system and the data store take.

    >>> _make_portable("a/b: c."), _make_portable("aux"), _make_portable("")
    ('a_b_ c_', 'aux_', '_')
    """
    name = re.sub(r"[. ]$", "_", _NOT_PORTABLE.sub("_", name.strip()[:_MAX_NAME]))
    return f"{name}_" if not name or _RESERVED.fullmatch(name) else name


def _describe_model(system: str, developer: str | None) -> dict[str, Any]:
    fields = {} if developer is None else {"developer": developer}
    details = {"deployment_type": _UNKNOWN, "model_availability": _UNKNOWN}
    return {"name": system, "id": system, **fields, "additional_details": details}


def _describe_result(mean: SystemMean) -> dict[str, Any]:
    return {
        "evaluation_name": mean.dataset,
        "source_data": {"dataset_name": mean.dataset, "source_type": "other"},
        "metric_config": _describe_metric(mean),
        "score_details": {"score": mean.value, "uncertainty": _describe_uncertainty(mean)},
    }


def _describe_metric(mean: SystemMean) -> dict[str, Any]:
    low, high = mean.scale or (-math.inf, math.inf)
    is_inside = low <= mean.value <= high  # estimates that use metrics may leave the scale, which the store refuses
    has_scale = mean.scale is not None and is_inside
    return {
        "metric_id": f"{mean.dataset}.{mean.score}",
        "metric_name": mean.score,
        "lower_is_better": False,  # scores are turned round when they are read
        "score_type": "continuous",
        "min_score": _encode_bound(low if is_inside else -math.inf),
        "max_score": _encode_bound(high if is_inside else math.inf),
    } | ({} if has_scale else {"additional_details": {"bounds": "unknown"}})


def _encode_bound(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"  # the schema's spelling


def _describe_uncertainty(mean: SystemMean) -> dict[str, Any]:
    """Return what is finite of the standard error and the interval."""
    uncertainty: dict[str, Any] = {"num_samples": mean.n}
    if math.isfinite(mean.se):
        uncertainty["standard_error"] = {"value": mean.se, "method": f"aliquot estimate {mean.method}"}
    if math.isfinite(mean.low) and math.isfinite(mean.high):
        interval = {"lower": mean.low, "upper": mean.high, "confidence_level": mean.level}
        uncertainty["confidence_interval"] = {**interval, "method": mean.interval}
    return uncertainty
