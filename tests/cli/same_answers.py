"""Run all verbs on one file and gather every quantity that more than one of them says."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.cli.conftest import Call

Answers = dict[str, dict[str, Any]]  # quantity -> verb -> what it says


def gather_answers(call: Call, data: Path, selection: Path | None = None, judgments: Path | None = None) -> Answers:
    """What the verbs say of one file, with their defaults and the same seed."""
    files = [*(("-s", selection) if selection else ()), *(("-j", judgments) if judgments else ())]
    told = {verb: _document(call, verb, data, *files) for verb in ("estimate", "plan", "report")}
    told["datasheet"] = _document(call, "datasheet", "new", data, *files)
    told["inspect"] = _document(call, "inspect", data)
    report = told["report"]["sets"][0]
    verdicts = {section["id"]: section["verdict"] for section in report["sections"]}
    found: Answers = defaultdict(dict)
    _add_whole_results(found, call, report, told, data, judgments, verdicts)
    _add_counts(found, told, verdicts)
    if report["results"].get("plan"):
        _add_present(found, told)
    for share in ("15%", "63%"):
        planned = _document(call, "plan", data, *files, "--budget", share, "--replays", "2", or_none=True)
        if planned is not None:
            found[f"items for {share}"] |= {
                "plan": planned["recommendation"]["point"]["items"],
                "select": len(_document(call, "select", data, "--budget", share)["items"]),
            }
    return found


def differing(answers: Answers) -> list[str]:
    """Quantities, with the place inside them, of which two verbs say different things."""
    lines = []
    for name, said in answers.items():
        (first, value), *others = said.items()
        lines += [
            f"{name}{where}: {first} {one}, {verb} {other}"
            for verb, told in others
            for where, one, other in _differences(value, told)
        ]
    return lines


def _differences(one: Any, other: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places in which two documents differ; numbers count to nine digits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*one, *other]):
            yield from _differences(one.get(name), other.get(name), f"{where}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{where}[{place}]")
    elif isinstance(one, float) and isinstance(other, (int, float)):
        if not math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12):
            yield where, one, other
    elif _spelling(one) != _spelling(other):
        yield where, one, other


def _spelling(value: Any) -> Any:
    """A text without the marks of parameters (`target=given`) and options (--target given)."""
    return re.sub(r"`|--", "", value).translate(str.maketrans("-=", "_ ")) if isinstance(value, str) else value


def _document(call: Call, *arguments: object, or_none: bool = False) -> Any:
    said = call(*arguments, "--json")
    if or_none and said.code != 0:
        return None
    assert said.code == 0, (arguments, said.err)
    return said.json


def _add_whole_results(
    found: Answers, call: Call, report: Any, told: Any, data: Path, judgments: Path | None, verdicts: Mapping[str, str]
) -> None:
    """The results inside a report are those of the verbs, or the verdict says that they are about less."""
    results = report["results"]
    for verb in ("estimate", "plan"):
        if verb in results:
            found[f"result of {verb}"] |= {"report": results[verb], verb: told[verb]}
    if "agreement" in results and "aliquot agreement takes all" not in verdicts["trust"]:
        alone = _document(call, "agreement", data, *(("-j", judgments) if judgments else ()))
        found["coefficients"] |= {"report": results["agreement"]["coefficients"], "agreement": alone["coefficients"]}
        found["verdict on agreement"] |= {"report": verdicts["trust"], "agreement": alone["verdict"]}
    if "metrics" in results and judgments is None and "aliquot metrics takes all" not in verdicts["metrics"]:
        alone = _document(call, "metrics", data, "--parts", "decomposition,breakeven,value")
        for table in ("decomposition", "breakeven", "value", "suggested"):
            found[f"metrics: {table}"] |= {"report": results["metrics"][table], "metrics": alone[table]}
        found["what metrics replace"] |= {"report": verdicts["metrics"], "metrics": alone["verdict"]}


def _add_counts(found: Answers, told: Mapping[str, Any], verdicts: Mapping[str, str]) -> None:
    """Items, systems, judged items, judgments and annotators."""
    estimate, plan, inspect = told["estimate"], told["plan"], told["inspect"]
    found["items"] |= {
        "inspect": inspect["items"],
        "estimate": estimate["population"],
        "plan": round(plan["population"]),
    }
    found["systems"] |= {"inspect": len(inspect["systems"]), "estimate": len(estimate["systems"])}
    if not any("left out" in note for note in plan["notes"]):
        found["systems"] |= {"plan": len(plan["systems"])}
    found["judged items"] |= {"estimate": estimate["judged"], "report": int(_word_after(verdicts["judged"], "judged"))}
    used = not any("items judged for some systems only" in note for note in plan["notes"])
    found["judged items"] |= {"plan": plan["judged"]} if used else {}
    if "aliquot agreement takes all" in verdicts.get("trust", ""):  # inspect and datasheet count all of them, too
        return
    experiment = told["datasheet"]["experiment"]
    if "annotators" in verdicts["judged"]:
        found["annotators"] |= {"report": int(_word_before(verdicts["judged"], "annotators"))}
        found["annotators"] |= {"datasheet": int(experiment["3.2.1"])}
        if inspect["judgments"]:
            found["annotators"] |= {"inspect": inspect["judgments"]["annotators"]}
    if "3.1.1" in experiment and used:
        found["judged items"] |= {"datasheet": int(experiment["3.1.1"])}


def _add_present(found: Answers, told: Mapping[str, Any]) -> None:
    """What a plan says of the items judged so far: the leader's chance, and the widths of intervals."""
    estimate, plan = told["estimate"], told["plan"]
    now, systems = plan["curve"][0], estimate["systems"]
    if plan["basis"] != "pilot" or plan["judged"] != estimate["judged"] or len(systems) != len(plan["systems"]):
        return
    found["P(best)"] |= {"plan": now["best"], "estimate": systems[0]["p_best"]}
    width = sum(row["high"] - row["low"] for row in systems) / len(systems)
    found["width"] |= {"plan": now["width"], "estimate": width}


def _word_after(text: str, word: str) -> str:
    return text.partition(f"{word} ")[2].split()[0].replace(",", "")


def _word_before(text: str, word: str) -> str:
    return text.partition(f" {word}")[0].split()[-1].replace(",", "")
