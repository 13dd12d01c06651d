"""Selection methods: how one is registered, found by name, chosen by `auto`, and given its parameters.

A method is a function with a name, needs, a paper and a line of advice. A utility takes the data and gives a number
per item, higher first, NaN where it is unknown; a subset method takes also `n` and gives the chosen rows; a design
takes `n` and `rng` and gives a `DesignDraw` with exact inclusion probabilities. Keyword-only arguments are the user's
parameters, except those that the library fills in (`INJECTED`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any, ClassVar, Literal

from aliquot.core.conventions import usable_metrics
from aliquot.core.evalset import EvalSet
from aliquot.core.registry import Parameter, RegistryEntry, Spec, SpecText, parse_spec, require_known_parameters
from aliquot.core.selection import Design
from aliquot.core.view import Column, View
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray

_PACKAGE = "aliquot.sampling"
FAMILIES = ("utilities", "text_methods", "sources", "pretrained", "designs", "active")
"""The modules of this package that register methods."""

Kind = Literal["utility", "subset", "design"]
INJECTED = ("n", "rng", "cost", "amount", "mass")


@dataclass(frozen=True, eq=False)
class DesignDraw:
    """A draw of a design."""

    rows: IntArray  # the drawn rows in the order of drawing
    probability: FloatArray | None  # every item's inclusion probability (N), or None when it has none
    stratum: IntArray | None = None  # every item's bin (N) as an integer code, or None
    design: Design = field(default_factory=Design)  # how the variance of an estimate follows from the draw
    details: Mapping[str, Any] = field(default_factory=dict)  # what else a reader should know


@dataclass(frozen=True, eq=False)
class Subset:
    """Rows chosen by a subset method, best first, and optionally weights."""

    rows: IntArray
    weight: FloatArray | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method(RegistryEntry):
    """A selection method."""

    kind: Kind
    needs: tuple[str, ...]
    paper: str
    advice: str
    differs: str = ""  # where our defaults are not the paper's, and how to get those

    INJECTED: ClassVar[tuple[str, ...]] = INJECTED

    @property
    def gives(self) -> str:
        """The kind of result, in words."""
        words = {"utility": "order", "subset": "subset", "design": "probabilities"}
        return words[self.kind] if self.name != "guided" else "random subset"

    def document(self) -> dict[str, Any]:
        """Return the method as plain values: the JSON document of `methods NAME`."""
        fields = ("name", "kind", "needs", "gives", "paper", "advice", "differs", "summary")
        parameters = {
            parameter.name: {"kind": parameter.kind, "default": _get_default(parameter), "about": parameter.about}
            for parameter in self.parameters.values()
        }
        return {name: getattr(self, name) for name in fields} | {"needs": list(self.needs), "parameters": parameters}

    def views(self, implied: Mapping[str, str]) -> tuple[View, ...]:
        """Return the views `method` and `parameters`.

        `implied` are the parameters that an old name of the method stands for.
        """
        old_names = [old for old, (new, _) in ALIASES.items() if new == self.name]
        facts = (
            ("needs", ", ".join(self.needs) or "nothing beyond items"),
            ("gives", self.gives),
            ("paper", self.paper),
            ("advice", self.advice),
            ("differs", self.differs),
            ("also called", ", ".join(old_names)),
            ("stands for", ", ".join(f"{key}={value}" for key, value in implied.items())),
        )
        columns = (
            Column("name", kind="name"),
            Column("what", "kind", "text"),
            Column("default", _default_text, "text"),
        )
        return (
            View(
                "method",
                [fact for fact in facts if fact[1]],
                (Column("", lambda fact: fact[0], "name"), Column("", lambda fact: fact[1], "text")),
                intro=[f"{self.name}: {self.summary}"],
            ),
            View("parameters", list(self.parameters.values()), (*columns, Column("", "about", "text")), "parameters"),
        )

    def run(self, evalset: EvalSet, parameters: Mapping[str, Any], **injected: Any) -> Any:
        """Call the function with the user's parameters and those of `INJECTED` that it takes."""
        check_needs(evalset, self)
        accepted = inspect.signature(self.function).parameters
        filled = {name: value for name, value in injected.items() if name in accepted}
        return self.function(evalset, **self.bind(parameters), **filled)


def _get_default(parameter: Parameter) -> Any:
    return None if parameter.default is inspect.Parameter.empty else parameter.default


def _default_text(parameter: Parameter) -> str:
    default = _get_default(parameter)
    return "-" if default is None else "|".join(map(str, default)) if isinstance(default, tuple) else str(default)


def methods_views() -> tuple[View, ...]:
    """Return the views `methods` and `differences` (defaults that are not the paper's)."""
    methods = list(all_methods().values())
    columns = (
        Column("method", "name", "name"),
        Column("needs", lambda method: ", ".join(method.needs) or "-", "text"),
        Column("gives", kind="text", rank=1),
        Column("paper", kind="text", rank=2),
        Column("advice", kind="text"),
    )
    differences = [f"{method.name}: {method.differs}" for method in methods if method.differs]
    text = "\n".join(["Defaults that are not the paper's:", *differences])
    return View("methods", methods, columns), View("differences", intro=[text])


_METHODS: dict[str, Method] = {}

ALIASES: dict[str, tuple[str, dict[str, str]]] = {
    "pyirt_diffdisc": ("irt_diffdisc", {}),
    "pyirt_diff": ("irt_diff", {}),
    "pyirt_disc": ("irt_disc", {}),
    "pyirt_feas": ("irt_feas", {}),
    "pyirt_fic": ("irt_info", {}),
    "combinator": ("mixture", {}),
    "bruteforce_greedy": ("greedy", {}),
    "metric_consistency": ("metric_cons", {}),
    "diversity_bleu": ("diversity", {"similarity": "bleu", "tokenizer": "13a"}),
    "diversity_chrf": ("diversity", {"similarity": "chrf"}),
    "diversity_unigram": ("diversity", {"similarity": "unigram", "tokenizer": "whitespace"}),
    "diversity_lm": ("diversity", {"similarity": "embedding"}),
    "precomet": ("pretrained", {"package": "precomet"}),
    **{
        f"precomet_{name}": ("pretrained", {"package": "precomet", "model": model, "reverse": reverse})
        for name, model, reverse in (
            ("var", "zouharvi/PreCOMET-var", "yes"),
            ("avg", "zouharvi/PreCOMET-avg", "yes"),
            ("diversity", "zouharvi/PreCOMET-diversity", "yes"),
            ("diff", "zouharvi/PreCOMET-diff", "no"),
            ("disc", "zouharvi/PreCOMET-disc", "yes"),
            ("diffdisc_direct", "zouharvi/PreCOMET-diffdisc_direct", "no"),
            ("diffdisc", "zouharvi/PreCOMET-diff|zouharvi/PreCOMET-disc", "no"),
            ("cons", "zouharvi/PreCOMET-cons", "no"),
        )
    },
    "comet_instant_confidence": (
        "pretrained",
        {"package": "comet_early_exit", "model": "zouharvi/comet-instant-confidence", "reverse": "no"},
    ),
    **{
        f"sentinel_src_{name}": (
            "pretrained",
            {"package": "sentinel_metric", "model": f"sapienzanlp/sentinel-src-{name}", "reverse": "yes"},
        )
        for name in ("da", "mqm")
    },
}
"""Names of subset2evaluate (1.0.27) -> ours and the parameters they stand for."""

UNSUPPORTED = {
    "pyirt_experiment": "it has no utility in subset2evaluate either (its function returns nothing, and sorting "
    "fails); use irt_diffdisc or irt_info"
}
"""Names of subset2evaluate that cannot work, and why."""


def _register_method(
    kind: Kind, name: str, *, needs: tuple[str, ...] = (), paper: str = "", advice: str = "", differs: str = ""
) -> Callable[..., Any]:
    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        _METHODS[name] = Method(name, function, kind, needs, paper, advice, differs)
        return function

    return decorator


utility = partial(_register_method, "utility")
subset = partial(_register_method, "subset")
design = partial(_register_method, "design")


def all_methods() -> dict[str, Method]:
    """Return every method by name, family after family, utilities first."""
    _load_families()
    places = {f"{_PACKAGE}.{family}": place for place, family in enumerate(FAMILIES)}
    methods = sorted(_METHODS.values(), key=lambda method: places[method.function.__module__])
    return {method.name: method for method in methods}


@cache
def _load_families() -> None:
    """Import every module that registers methods; not at the top, because they import this one."""
    for family in FAMILIES:
        import_module(f"{_PACKAGE}.{family}")


def find_method(name: str) -> tuple[Method, dict[str, str]]:
    """Return a method by its name or an old name, with the parameters an old name stands for."""
    _load_families()
    if name in UNSUPPORTED:
        raise OptionError(f"method '{name}': {UNSUPPORTED[name]}")
    name, implied = ALIASES.get(name, (name, {}))
    if name not in _METHODS:
        raise unknown_name("method", name, _METHODS, "see `aliquot methods`")
    return _METHODS[name], dict(implied)


_SIMILARITY = {"bleu": "bleu", "chrf": "chrf", "unigram": "unigram", "lm": "embedding"}
_TOKENIZER = {"bleu": "13a", "unigram": "whitespace"}


def translate_similarity(method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with subset2evaluate's `metric` of diversity as `similarity` and `tokenizer`."""
    parameters = dict(parameters)
    if method == "diversity" and "metric" in parameters:
        old = str(parameters.pop("metric"))
        parameters.setdefault("similarity", _SIMILARITY.get(old.casefold(), old))
        if parameters["similarity"] in _TOKENIZER:
            parameters.setdefault("tokenizer", _TOKENIZER[parameters["similarity"]])
    return parameters


def check_needs(evalset: EvalSet, method: Method) -> None:
    """Raise DataError if the data lack what the method needs."""
    lacking = {
        "metric": not evalset.scores,
        "outputs": evalset.outputs is None,
        "documents": evalset.documents is None,
        "source": not evalset.has_sources,
        "systems": evalset.n_systems < 2,
    }
    remedy = {
        "metric": "add automatic scores, or use a method without them (random, segments, source_length)",
        "outputs": "load data with outputs (field 'tgt')",
        "documents": "load data with documents (field 'doc'), or use a design over items",
        "source": "load data with sources (field 'src')",
        "systems": "it compares systems, and there is only one; use random or a design",
    }
    for need in method.needs:
        if lacking[need]:
            what = "two systems" if need == "systems" else need
            raise DataError(f"{evalset.name}: the method '{method.name}' needs {what}; {remedy[need]}")


# -- which method and parameters are meant ----------------------------------------------------------------------------


Goal = Literal["means", "ranking"]

DEFAULT_DESIGN = "pps:size=error,tau=0.1"


@dataclass(frozen=True)
class MethodChoice:
    """A method spec and the reason for it."""

    spec: str
    reason: str


def choose_method(evalset: EvalSet, goal: Goal = "means") -> MethodChoice:
    """Choose a method for the data.

    One unbiased design serves both goals: for rankings too, items drawn by expected error and spread over documents
    gave more than any selector, whose gains on one campaign are losses on another (docs/evidence.md). The goals
    differ in the estimator: `estimate` with auto:goal=ranking gives up unbiased means.

    >>> import aliquot
    >>> choose_method(aliquot.synthetic(items=30, systems=3)).spec
    'pps:size=error,tau=0.1'
    """
    metrics = usable_metrics(evalset)
    after = "estimate with auto:goal=ranking" if goal == "ranking" else "means stay unbiased"
    if metrics or evalset.documents is not None or evalset.has_sources:
        reasons = [f"{len(metrics)} metrics show which items are hard"] if metrics else []
        reasons += ["drawn along documents"] if evalset.documents is not None else []
        return MethodChoice(DEFAULT_DESIGN, ", ".join([*reasons, after]))
    return MethodChoice("segments", f"neither metrics, documents nor sources: a simple random sample; {after}")


# -- Which method and parameters are meant: old names, `auto`, and parameters given beside the spec ------------------


def resolve_spec(data: EvalSet, spec: Spec, parameters: Mapping[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """Return the spec with its present method name and all parameters, and how `auto` chose."""
    arguments: dict[str, Any] = dict(spec.parameters) | {k: v for k, v in parameters.items() if v is not None}
    details: dict[str, Any] = {}
    name = spec.name
    if name == "auto":
        goal = arguments.pop("goal", "means")
        if goal not in ("means", "ranking"):
            raise unknown_name("goal", goal, ["means", "ranking"])
        choice = choose_method(data, goal)
        chosen = parse_spec(choice.spec)
        require_known_parameters("auto", ["goal", "metric", *find_method(chosen.name)[0].parameters], arguments)
        details["auto"] = f"{choice.spec}: {choice.reason}"
        arguments = dict(chosen.parameters) | _adapt_metric(find_method(chosen.name)[0], arguments)
        name = chosen.name
    method, implied = find_method(name)
    arguments = translate_similarity(method.name, implied | arguments)
    lists = {name for name, parameter in method.parameters.items() if parameter.is_list}
    values = {k: SpecText(v) if k in lists and isinstance(v, str) else v for k, v in arguments.items()}
    return Spec(method.name, values), details


def _adapt_metric(method: Method, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Rename `metric` to `metrics` if the method that `auto` chose takes that."""
    adapted = dict(arguments)
    if "metric" in adapted and "metric" not in method.parameters:
        metric = adapted.pop("metric")
        if "metrics" in method.parameters:
            adapted["metrics"] = metric
    return adapted
