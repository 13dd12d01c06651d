"""`aliquot methods`: what can choose items, what each needs and gives."""

from __future__ import annotations

from typing import Annotated

import typer

from aliquot.cli import common, options, render
from aliquot.sampling.methods import all_methods, find_method, methods_views


def run(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Explain this one with its parameters.")] = None,
    json: options.JsonOption = False,
) -> None:
    """What can choose items, what each method needs and gives, and when to use it.

    Example: aliquot methods pps
    """
    console = render.make_console()
    if name == "auto":
        console.print(_AUTO, markup=False)
        return
    if name is not None:
        method, implied = find_method(name)
        document, views = method.document(), method.views(implied)
        spec = next((f"{method.name}:{parameter}=..." for parameter in method.parameters), method.name)
        example = f"aliquot select data.jsonl --method {spec} --budget 100"
    else:
        document, views = {"methods": [method.document() for method in all_methods().values()]}, methods_views()
        example = _HINT
    if json:
        common.print_json(document)
        return
    for view in views:
        render.print_view(view, console)
    console.print(example, style="" if name is None else "dim", markup=False)


_HINT = """'auto' chooses by what the data have; its goal=ranking is for `aliquot estimate`, too.
Explain one: aliquot methods NAME. Parameters: --method NAME:key=value,key=value."""


_AUTO = """auto: chooses a method by what the data have, and reports what it chose and why.

goal=means (default)  an unbiased design: pps where metrics, documents or sources guide it, else segments
goal=ranking          the same design; then `aliquot estimate --method auto:goal=ranking` gives up unbiased means

aliquot select data.jsonl --method auto:goal=ranking --budget 100"""
