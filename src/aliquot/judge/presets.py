"""All cleaning steps and the presets that put them in order; importing this module registers every step.

Steps are written in the grammar of methods: `burn_in:first=10+outliers:k=1.5`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aliquot.data.parameters import bind
from aliquot.data.spec import Spec, parse_chain, parse_spec, written
from aliquot.errors import OptionError, unknown_name
from aliquot.judge import step_people, steps
from aliquot.judge.step_registry import Step, lookup, registered

FAMILIES = (steps, step_people)


def all_steps() -> dict[str, Step]:
    """Return every step by name."""
    return registered()


@dataclass(frozen=True)
class Preset:
    """Steps that belong together, in order."""

    name: str
    chain: str
    about: str

    @cached_property
    def steps(self) -> list[Spec]:
        """The steps, parsed."""
        return parse_chain(self.chain)


_ALL_PRESETS = (
    Preset(
        "da_wmt",
        "burn_in:first=10+outliers:k=1.5",
        "direct assessment: everybody's first judgments are practice; outliers of annotators' z-scores "
        "(HumEval 2022, paper 1)",
    ),
    Preset(
        "crowd",
        "exam:minimum=0.8+controls:minimum=0.7+fast_pages:seconds=15+skips:pages=5",
        "crowd work: exam, control items, seconds a page, skipped pages (the detoxification pipeline; HumEval 2022, "
        "paper 8)",
    ),
    Preset(
        "semantic_differential",
        "speeders:share=0.4,expected=600+straight_liners+repeats:k=1.5",
        "surveys: total time, one value throughout, inconsistent on repeated questions (HumEval 2022, paper 3)",
    ),
)
PRESETS = {preset.name: preset for preset in _ALL_PRESETS}
"""Preset name -> steps."""

StepsLike = str | Sequence[str] | Mapping[str, Mapping[str, Any] | None]


def chain_of(preset: str | None, steps: StepsLike | None, without: Sequence[str] = ()) -> list[Spec]:
    """Return the steps to run, in order: the preset's, with other thresholds where `steps` names them, then the rest.

    >>> [str(spec) for spec in chain_of("da_wmt", "outliers:k=3+straight_liners", without=["burn_in"])]
    ['outliers:k=3', 'straight_liners']
    """
    if preset is not None and preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    chain = {spec.name: spec for spec in (PRESETS[preset].steps if preset else [])}
    for spec in _parsed(steps):
        before = chain[spec.name].parameters if spec.name in chain else {}
        chain[spec.name] = Spec(spec.name, {**before, **spec.parameters})
    for name in without:
        lookup(name)
        chain.pop(name, None)
    for spec in chain.values():
        bind(spec.name, lookup(spec.name).parameters, spec.parameters)  # an unknown threshold is told at once
    return list(chain.values())


def _parsed(steps: StepsLike | None) -> list[Spec]:
    if steps is None:
        return []
    if isinstance(steps, str):
        found = parse_chain(steps)
    elif isinstance(steps, Mapping):
        found = [Spec(name, {k: written(v) for k, v in (given or {}).items()}) for name, given in steps.items()]
    else:
        found = [parse_spec(text) for text in steps]
    twice = [spec.name for spec in found if [other.name for other in found].count(spec.name) > 1]
    if twice:
        raise OptionError(f"the cleaning step '{twice[0]}' is given twice; each runs once")
    return found
