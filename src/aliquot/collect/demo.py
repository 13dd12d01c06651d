"""`make page`: a small campaign with invented texts, ready to be judged in a minute.

python -m aliquot.collect.demo [PROTOCOL] [--locale de] [--port 8000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aliquot.collect.assets import list_locales
from aliquot.collect.campaign import Campaign
from aliquot.collect.protocols import list_protocols
from aliquot.collect.server import serve
from aliquot.errors import AliquotError

# One line an item: document, source, then the outputs of three invented systems, from good to poor.
_TEXTS = (
    (
        "market",
        "The weekly market moves to the old station square on Saturday.",
        "Der Wochenmarkt zieht am Samstag auf den alten Bahnhofsplatz um.",
        "Der Wochenmarkt bewegt sich am Samstag zum alten Bahnhofplatz.",
        "Der wöchentliche Markt geht Sonntag in die alte Station.",
    ),
    (
        "market",
        "Stalls open at seven; parking is free until noon.",
        "Die Stände öffnen um sieben Uhr, Parken ist bis mittags kostenlos.",
        "Stände öffnen um sieben; Parken ist bis Mittag frei.",
        "Ställe öffnen um sieben, der Park ist frei bis Mittag.",
    ),
    (
        "market",
        "If it rains, the town hall lends out umbrellas.",
        "Bei Regen verleiht das Rathaus Schirme.",
        "Wenn es regnet, verleiht die Stadthalle Regenschirme.",
        "Wenn es regnet, leiht sich das Rathaus Regenschirme aus.",
    ),
    (
        "market",
        "Nobody remembers who had that idea, but everyone likes it.",
        "Niemand weiß mehr, wer auf diese Idee kam, aber alle mögen sie.",
        "Niemand erinnert sich, wer diese Idee hatte, aber jeder mag es.",
        "Niemand erinnert sich.",
    ),
    (
        "garden",
        "Water the tomatoes in the evening, never at midday.",
        "Gießen Sie die Tomaten abends, nie in der Mittagshitze.",
        "Wasser die Tomaten am Abend, nie am Mittag.",
        "Gießen Sie die Tomaten am Abend und am Mittag.",
    ),
    (
        "garden",
        "Yellow leaves usually mean too much love, not too little.",
        "Gelbe Blätter bedeuten meist zu viel Fürsorge, nicht zu wenig.",
        "Gelbe Blätter bedeuten normalerweise zu viel Liebe, nicht zu wenig.",
        "Gelbe Blätter bedeuten gewöhnlich zu viel Liebe, nicht zu klein.",
    ),
    (
        "garden",
        "A handful of compost in spring is enough for the whole bed.",
        "Im Frühjahr genügt eine Handvoll Kompost für das ganze Beet.",
        "Eine Handvoll Kompost im Frühling ist genug für das ganze Bett.",
        "Eine Hand Kompost im Frühling ist genug für das ganze Beet.",
    ),
    (
        "delay",
        "Your train is running about twenty minutes late.",
        "Ihr Zug hat etwa zwanzig Minuten Verspätung.",
        "Ihr Zug läuft etwa zwanzig Minuten zu spät.",
        "Ihr Zug fährt in etwa zwanzig Minuten.",
    ),
    (
        "delay",
        "Connecting services will wait at platform nine.",
        "Die Anschlusszüge warten auf Gleis neun.",
        "Verbindungsdienste werden auf Plattform neun warten.",
        "Anschlüsse warten am Gleis neun auf Sie.",
    ),
    (
        "delay",
        "We apologise, and there is coffee in the front coach.",
        "Wir bitten um Entschuldigung; im vorderen Wagen gibt es Kaffee.",
        "Wir entschuldigen uns, und es gibt Kaffee im vorderen Trainer.",
        "Wir entschuldigen uns und es gibt Kaffee.",
    ),
)
_SYSTEMS = ("north", "south", "west")
_GUIDELINES = """# How to judge

Read the whole document first. Judge what is written, not what you would have written.

- Minor errors: clumsy wording, wrong article, a missing comma. The reader is not misled.
- Major errors: the reader gets a wrong idea, or does not understand.
- What was left out is marked in the source.

You can go back and change an answer at any time."""


def demo_items() -> bytes:
    """Return the items of the demo as JSON lines; the spans of `esa-ai` are among them."""
    lines = []
    for number, (document, source, *outputs) in enumerate(_TEXTS):
        texts = dict(zip(_SYSTEMS, outputs, strict=True))
        first_word = {name: len(text.split()[0]) for name, text in texts.items()}
        spans = {name: [{"start": 0, "end": end, "severity": "minor"}] for name, end in first_word.items()}
        lines.append({"i": number, "src": source, "tgt": texts, "doc": document, "langs": "en-de", "spans": spans})
    return b"\n".join(msgspec.json.encode(line) for line in lines) + b"\n"


def make_demo(folder: Path, protocol: str = "esa", locale: str = "en") -> Campaign:
    """Make the demo's campaign in a folder."""
    data = folder / "demo.jsonl"
    data.write_bytes(demo_items())
    return Campaign.create(
        data,
        protocol=protocol,
        annotators=["ann1", "ann2"],
        path=folder / "demo.db",
        locale=locale,
        guidelines=_GUIDELINES,
        title="Town news, English to German",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the demo and serve it."""
    parser = argparse.ArgumentParser(prog="python -m aliquot.collect.demo", description="Serve a demo campaign.")
    parser.add_argument("protocol", nargs="?", default="esa", choices=list_protocols())
    parser.add_argument("--locale", default="en", choices=list_locales())
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--open", action="store_true", help="open the first annotator's page in a browser")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="aliquot-page-") as folder:
        try:
            with make_demo(Path(folder), options.protocol, options.locale) as campaign:
                serve(campaign, port=options.port, open_browser=options.open)
        except AliquotError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
