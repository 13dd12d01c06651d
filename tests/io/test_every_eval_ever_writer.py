"""Every Eval Ever records say what a result knows; the schema's own package takes them, whatever systems are called."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import uuid
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.core.statements import SystemMean
from aliquot.errors import AliquotError, AliquotWarning
from aliquot.io.formats.every_eval_ever import build_records

VERSION = "0.3.0"
BUILD = Path(__file__).parents[2] / "build"
VALIDATE = """
import json, sys
from pathlib import Path
from every_eval_ever.validator.validation_core import validate_aggregate
reports = {}
for path in map(str, sorted(Path("data").rglob("*.json"))):
    report = validate_aggregate(Path(path), repo_path=path, run_semantic_checks=True)
    reports[path] = [[error["msg"] for error in report.errors], [warning["msg"] for warning in report.warnings]]
print(json.dumps(reports))
"""
MEAN = SystemMean("org/sys", "human", "news", 0.75, 0.1, 0.55, 0.95, 0.95, 40, "mean", "t", (0.0, 1.0))
ODD = ("日本", "a|b", "..", "con", "data", "a:b", 'say "hi"', "org/a/b", "org//b", " ", "x" * 300, "a\tb", "🙂.", "/")


def build_one(mean: SystemMean, **options: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        ((path, record),) = build_records([mean], signature="aliquot:1|estimate:mean", retrieved=1, **options).items()
    return path, record


def test_a_record_in_full():
    path, record = build_one(MEAN, organization="ACME", relationship="third_party")
    identity = path.stem
    assert uuid.UUID(identity).version == 4
    assert path.as_posix() == f"data/news/org/sys/{identity}.json"
    assert record == {
        "schema_version": VERSION,
        "evaluation_id": f"news/org/sys/{identity}",
        "retrieved_timestamp": "1",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "ACME",
            "evaluator_relationship": "third_party",
            "additional_details": {"signature": "aliquot:1|estimate:mean"},
        },
        "eval_library": {"name": "aliquot", "version": aliquot.__version__},
        "model_info": {
            "name": "org/sys",
            "id": "org/sys",
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [
            {
                "evaluation_name": "news",
                "source_data": {"dataset_name": "news", "source_type": "other"},
                "metric_config": {
                    "metric_id": "news.human",
                    "metric_name": "human",
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": 0.0,
                    "max_score": 1.0,
                },
                "score_details": {
                    "score": 0.75,
                    "uncertainty": {
                        "num_samples": 40,
                        "standard_error": {"value": 0.1, "method": "aliquot estimate mean"},
                        "confidence_interval": {"lower": 0.55, "upper": 0.95, "confidence_level": 0.95, "method": "t"},
                    },
                },
            }
        ],
    }


def test_the_same_result_gives_the_same_record_and_others_others():
    paths = {build_one(mean)[0] for mean in (MEAN, MEAN, replace(MEAN, value=0.5))}
    assert len(paths) == 1
    assert build_one(replace(MEAN, system="org/other"))[0] not in paths


@pytest.mark.parametrize(
    ("changes", "bounds"),
    [
        ({}, (0.0, 1.0)),
        ({"scale": None}, ("-Infinity", "Infinity")),
        ({"scale": (0.0, math.inf)}, (0.0, "Infinity")),
        ({"value": 1.01}, ("-Infinity", "Infinity")),  # a metric's help may lead out of the scale
        ({"value": -0.01}, ("-Infinity", "Infinity")),
        ({"value": 1.0}, (0.0, 1.0)),
    ],
)
def test_bounds_hold_the_score(changes, bounds):
    metric = build_one(replace(MEAN, **changes))[1]["evaluation_results"][0]["metric_config"]
    assert (metric["min_score"], metric["max_score"]) == bounds
    is_known = bounds[0] == 0
    assert metric.get("additional_details") == (None if is_known else {"bounds": "unknown"})


@pytest.mark.parametrize(
    ("changes", "stated"),
    [
        ({}, {"num_samples", "standard_error", "confidence_interval"}),
        ({"se": math.nan}, {"num_samples", "confidence_interval"}),
        ({"low": math.nan}, {"num_samples", "standard_error"}),
        ({"high": math.inf}, {"num_samples", "standard_error"}),
        ({"se": math.nan, "low": math.nan}, {"num_samples"}),
    ],
)
def test_what_is_unknown_is_left_out(changes, stated):
    details = build_one(replace(MEAN, **changes))[1]["evaluation_results"][0]["score_details"]
    assert set(details["uncertainty"]) == stated


def test_developers():
    flat = replace(MEAN, system="sys")
    path, record = build_one(flat, developer="ACME")
    assert path.parts[:4] == ("data", "news", "ACME", "sys")
    assert record["model_info"]["developer"] == "ACME"
    with pytest.warns(AliquotWarning, match=r"who developed 'sys'; say every-eval-ever:developer=NAME"):
        (path,) = build_records([flat, MEAN][:1], signature="s", retrieved=1)
    assert path.parts[:4] == ("data", "news", "unknown", "sys")
    assert build_one(MEAN, developer="ACME")[0].parts[2] == "org"


def test_odd_names_are_paths_of_five_parts():
    for system in ODD:
        for dataset in ("news", *ODD):
            path = build_one(replace(MEAN, system=system, dataset=dataset))[0]
            assert len(path.parts) == 5
            assert all(re.fullmatch(r'[^<>:"/\\|?*\x00-\x1f]*[^<>:"/\\|?*\x00-\x1f. ]', part) for part in path.parts)
            assert all(len(part.encode()) <= 255 for part in path.parts)


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("every-eval-ever:relationship=friend", "`relationship` is 'friend'"),
        ("every-eval-ever:organisation=x", "did you mean 'organization'"),
    ],
)
def test_wrong_options_are_refused(tmp_path, to, says):
    result = aliquot.estimate(aliquot.synthetic(items=10, systems=2, seed=3))
    with pytest.raises(AliquotError, match=says):
        result.save(tmp_path / "x", to=to)
    assert not list(tmp_path.iterdir())


def call(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=False, timeout=25, **options)


def find_python() -> str:
    """A Python that the package runs on; skips where there is none."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python"))
    for name in [*map(str, pyenv), *(f"python3.{minor}" for minor in range(12, 20))]:
        command = shutil.which(name)
        if command and call([command, "-m", "pip", "--version"]).returncode == 0:  # pyenv's names may lead nowhere
            return command
    pytest.skip("every-eval-ever needs Python 3.12 or newer, with pip")


def install_package(python: str) -> Path:
    """Install the package with what its validator needs, once for all runs; skips without network."""
    place = BUILD / f"every-eval-ever-{VERSION}{re.sub('[^0-9a-z]+', '-', python)}"  # it has compiled modules
    if place.exists():
        return place
    BUILD.mkdir(exist_ok=True)
    temporary = BUILD / f"every-eval-ever-{uuid.uuid4().hex}"
    options = ["--quiet", "--retries", "0", "--timeout", "10", "--only-binary", ":all:", "--target", str(temporary)]
    for packages in (["--no-deps", f"every-eval-ever=={VERSION}"], ["pydantic>=2.11", "requests", "rich"]):
        try:
            is_installed = call([python, "-m", "pip", "install", *options, *packages]).returncode == 0
        except subprocess.TimeoutExpired:
            is_installed = False
        if not is_installed:
            shutil.rmtree(temporary, ignore_errors=True)
            pytest.skip(f"every-eval-ever {VERSION} cannot be installed here (no network?)")
    temporary.rename(place)
    return place


def test_the_package_of_the_schema_takes_every_record(tmp_path):
    python = find_python()
    package = install_package(python)
    data = aliquot.synthetic(items=30, systems=len(ODD) + 1, seed=3)
    data = data.rename(dict(zip(data.systems, ("org/model-7b", *ODD), strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliquotWarning)
        aliquot.estimate(data).save(tmp_path / "odd", to="every-eval-ever")
        plain = aliquot.estimate(aliquot.synthetic(items=30, systems=3, seed=3))
        plain.save(tmp_path / "plain", to="every-eval-ever:organization=ACME,developer=ACME,relationship=first_party")
    for folder, count in (("odd", len(ODD) + 1), ("plain", 3)):
        done = call([python, "-c", VALIDATE], cwd=tmp_path / folder, env={"PYTHONPATH": str(package)})
        assert done.returncode == 0, done.stderr.decode()
        reports = json.loads(done.stdout)
        assert len(reports) == count
        assert not any(errors for errors, _ in reports.values()), reports
        if folder == "plain":
            assert not any(notes for _, notes in reports.values()), reports
