"""`aliquot methods`: what can choose items, what each needs and gives."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from rich.console import Console

from aliquot.cli import common, options, render
from aliquot.sampling.methods import ALIASES, Method, all_methods, lookup


def run(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Explain this one with its parameters.")] = None,
    json: options.JsonOption = False,
) -> None:
    """What can choose items, what each method needs and gives, and when to use it.

    Example: aliquot methods pps
    """
    console = render.console()
    if name == "auto":
        console.print(_AUTO, markup=False)
        return
    if name is not None:
        method, implied = lookup(name)
        if json:
            common.print_json(describe(method))
        else:
            _explain(method, implied, console)
        return
    methods = all_methods()
    if json:
        common.print_json({"methods": [describe(method) for method in methods.values()]})
        return
    table = render.table()
    table.whole = True  # a reference, however long
    render.columns(table, left=["method", "needs", "gives", "paper", "advice"])
    for method in methods.values():
        table.add_row(method.name, ", ".join(method.needs) or "-", method.gives, method.paper, method.advice)
    console.print(table)
    console.print("\nDefaults that are not the paper's:")
    for method in methods.values():
        if method.differs:
            console.print(f"{method.name}: {method.differs}", markup=False)
    console.print("\n'auto' chooses by what the data have; its goal=ranking is for `aliquot estimate`, too.")
    console.print("Explain one: aliquot methods NAME. Parameters: --method NAME:key=value,key=value.")


_AUTO = """auto: chooses a method by what the data have, and reports what it chose and why.

goal=means (default)  an unbiased design: pps where metrics, documents or sources guide it, else segments
goal=ranking          the same design; then `aliquot estimate --method auto:goal=ranking` gives up unbiased means

aliquot select data.jsonl --method auto:goal=ranking --budget 100"""


def describe(method: Method) -> dict[str, Any]:
    """Return a method as plain values."""
    return {
        "name": method.name,
        "kind": method.kind,
        "needs": list(method.needs),
        "gives": method.gives,
        "paper": method.paper,
        "advice": method.advice,
        "differs": method.differs,
        "summary": method.summary,
        "parameters": {
            p.name: {"kind": p.kind, "default": _default(p.default), "about": p.about}
            for p in method.parameters.values()
        },
    }


def _default(value: Any) -> Any:
    return None if value is inspect.Parameter.empty else value


def _explain(method: Method, implied: dict[str, str], console: Console) -> None:
    console.print(f"{method.name}: {method.summary}\n", markup=False)
    olds = [old for old, (new, _) in ALIASES.items() if new == method.name]
    for label, text in (
        ("needs", ", ".join(method.needs) or "nothing beyond items"),
        ("gives", method.gives),
        ("paper", method.paper),
        ("advice", method.advice),
        ("differs", method.differs),
        ("also called", ", ".join(olds)),
        ("stands for", ", ".join(f"{key}={value}" for key, value in implied.items())),
    ):
        if text:
            console.print(f"{label:12}{text}", markup=False)
    if method.parameters:
        console.print()
        table = render.columns(render.table("parameters"), left=["name", "what", "default", ""])
        for parameter in method.parameters.values():
            default = _default(parameter.default)
            shown = (
                "|".join(map(str, default)) if isinstance(default, tuple) else "-" if default is None else str(default)
            )
            table.add_row(parameter.name, parameter.kind, shown, parameter.about)
        console.print(table)
    example = next(iter(method.parameters), None)
    spec = method.name if example is None else f"{method.name}:{example}=..."
    console.print(f"\naliquot select data.jsonl --method {spec} --budget 100", style="dim", markup=False)
