"""`aliquot inspect`: what is in my data, and what can I do with it?"""

from __future__ import annotations

from aliquot.cli import common, options, render


def run(
    data: options.DataArgument,
    reading: options.Reading,
    output: options.ResultOutput,
    seed: options.SeedOption = 0,
) -> None:
    """What is in my data, and what can I do with it?

    Shows items, systems, documents, domains, texts, judgments, every score with its coverage, range and correlation
    with the human score, and which later steps are possible.

    Example: aliquot inspect data.jsonl --human mqm
    """
    del seed  # nothing is drawn; accepted because all data verbs take it
    common.require_output(output)
    evalset = common.load_data(data, reading)
    description = evalset.describe()
    common.save_result(description, output)
    if output.json:
        common.print_json(description.to_dict())
    else:
        render.print_result(description, render.make_console())
