"""Small simulated campaigns in the shape of well-known tasks, written with the commands to try on them.

Everything is made by `synthetic`, so the truth is known and no data are downloaded; the files say that they are
simulated. A test runs every command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import polars as pl
from scipy.special import expit

from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.core.synthetic import synthetic
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.io.formats import tables
from aliquot.io.overwrite import register_output
from aliquot.io.save import save
from aliquot.io.writing import is_stream, require_parent_folder, write_bytes
from aliquot.sampling.select import select

COMMANDS = "commands.sh"
"""The file with the commands to try."""


@dataclass(frozen=True)
class CampaignExample:
    """A simulated campaign: what it is like, its files, and what to try, each command after what it answers."""

    name: str
    title: str
    about: str
    files: Mapping[str, str]  # name -> what it holds
    steps: tuple[tuple[str, str], ...]  # a question and the command that answers it

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands to try, in order."""
        return tuple(command for _, command in self.steps)

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files that are written, the script with the commands last."""
        return (*self.files, COMMANDS)


def examples(
    name: str | None = None, output: str | Path | None = None, *, seed: int = 0
) -> tuple[CampaignExample, ...]:
    """List small simulated campaigns, or one of them; with `output`, write its files and the commands to try.

    Args:
        name: mqm, summarisation, chat or crowd; all of them when not given.
        output: a folder for the files of the one that is named.
        seed: same seed, same files.

    >>> [example.name for example in examples()]
    ['mqm', 'summarisation', 'chat', 'crowd']
    >>> examples("chat")[0].commands[0]
    'aliquot compare choices.csv'
    """
    if name is None:
        if output is not None:
            raise OptionError(f"name the example to write: {', '.join(EXAMPLES)}")
        return tuple(example for example, _ in EXAMPLES.values())
    if name not in EXAMPLES:
        raise unknown_name("example", name, EXAMPLES)
    example, make = EXAMPLES[name]
    if output is not None:
        folder = _prepare_folder(Path(output), example)
        make(folder, seed)
        write_bytes(folder / COMMANDS, _write_script(example).encode())
    return (example,)


def _prepare_folder(path: Path, example: CampaignExample) -> Path:
    """The folder, made where it is absent; files of an example must not be there already."""
    if is_stream(path):
        raise OptionError(f"{path}: an example has several files; name a folder")
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is a file; name a folder for the example")
    existing = [name for name in example.file_names if (path / name).exists()]
    if existing:
        raise DataError(f"{path} has {', '.join(existing)} already; name a new folder")
    for name in example.file_names:
        register_output(path / name)
    require_parent_folder(path)
    path.mkdir(exist_ok=True)
    return path


def _write_script(example: CampaignExample) -> str:
    contents = [f"#   {name}: {what}" for name, what in example.files.items()]
    lines = [
        f"# {example.title}. {example.about}",
        *contents,
        (f"# Run one command after the other in this folder, or all: sh {COMMANDS}"),
    ]
    for question, command in example.steps:
        lines += ["", f"# {question}", command]
    return "\n".join(lines) + "\n"


# -- Machine translation with MQM ------------------------------------------------------------------------------------

_MT = ("Atlas", "Babel", "Cobalt", "Delta-MT", "Echo", "Fjord")
_MT_METRICS = {"neural": 0.55, "embedding": 0.45, "chrF-like": 0.3}
_BUDGET = 50

_MQM = CampaignExample(
    "mqm",
    "Machine translation, errors marked by experts (MQM)",
    "Six systems, 160 segments in documents of three domains, three metrics; experts can judge 50 segments.",
    {
        "data.jsonl": "this year's segments, outputs and metrics; nobody has judged them",
        "past.jsonl": "last year's campaign, judged completely",
        "selection.jsonl": "50 segments that were chosen for the experts",
        "judgments.csv": "what the experts said about those",
    },
    (
        ("What is in the data, and what can I do with them?", "aliquot inspect data.jsonl"),
        ("How many segments do I need? Last year's campaign knows.", "aliquot plan past.jsonl --replays 20"),
        (
            "Which segments should the experts judge?",
            f"aliquot select data.jsonl --budget {_BUDGET} --protocol mqm --seed 1 -o chosen-again.jsonl",
        ),
        (
            "Who is best, and how sure are we?",
            "aliquot estimate data.jsonl -s selection.jsonl -j judgments.csv --pairs",
        ),
        (
            "Would this have worked last year, and what would it have saved?",
            "aliquot simulate past.jsonl --repeats 10 --budgets 20%,40% --seconds-per-item 300 --hourly 40 --jobs 1",
        ),
        ("Can I trust a metric instead?", "aliquot metrics past.jsonl"),
        (
            "One page to show to somebody",
            "aliquot report data.jsonl -s selection.jsonl -j judgments.csv -o report.html",
        ),
    ),
)


def _make_mqm(folder: Path, seed: int) -> None:
    campaigns = [
        _rename_systems(
            synthetic(160, len(_MT), protocol="mqm", metrics=_MT_METRICS, annotators=4, seed=seed + year), _MT
        )
        for year in (0, 1)
    ]
    past, now = (
        replace(data, name=f"{word} year's MQM (simulated)")
        for data, word in zip(campaigns, ("last", "this"), strict=True)
    )
    open_ = _drop_human_scores(now)
    selection = select(open_, budget=_BUDGET, protocol="mqm", seed=1)
    save(past, folder / "past.jsonl")
    save(open_, folder / "data.jsonl")
    selection.save(folder / "selection.jsonl", open_)
    save(now.keep(items=list(selection.ids)), folder / "judgments.csv", what="judgments")


def _rename_systems(data: EvalSet, systems: Sequence[str]) -> EvalSet:
    return data.rename(systems=dict(zip(data.systems, systems, strict=True)))


def _drop_human_scores(data: EvalSet) -> EvalSet:
    """The campaign as it is before people judge: outputs and metrics only."""
    scores = {name: values for name, values in data.scores.items() if name != data.human}
    return EvalSet(items=data.items, systems=data.systems, scores=scores, outputs=data.outputs, name=data.name)


def _judgment_table(data: EvalSet) -> pl.DataFrame:
    return pl.DataFrame() if data.judgments is None else data.judgments.table


# -- Summarisation with four criteria --------------------------------------------------------------------------------

_SUMMARISERS = ("extract-3", "pointer", "bart-like", "t5-like", "llm-small", "llm-large")
_CRITERIA = {"coherence": (0.0, 0.6), "consistency": (0.5, 0.9), "fluency": (0.6, 0.8), "relevance": (-0.1, 0.5)}
"""Of each criterion: how much higher than the whole impression it is rated, and the spread of what is its own."""

_SUMMARISATION = CampaignExample(
    "summarisation",
    "Summaries rated on four criteria",
    "Six systems summarise 40 articles; three annotators rate each summary from 1 to 5 for coherence, consistency, "
    "fluency and relevance.",
    {"data.jsonl": "articles, summaries, metrics and the ratings"},
    (
        ("What is in the data?", "aliquot inspect data.jsonl"),
        ("Do the annotators agree, on which criterion least?", "aliquot agreement data.jsonl --bootstrap 100"),
        ("Do the four criteria measure different things?", "aliquot survey data.jsonl --kind criteria"),
        ("Who is best in coherence?", "aliquot estimate data.jsonl --criterion coherence"),
        (
            "One score of all four, with weights",
            (
                'aliquot combine data.jsonl --formula "0.3*coherence + 0.4*consistency + 0.1*fluency + 0.2*relevance" '
                "-o combined.jsonl"
            ),
        ),
        ("Who is best in that?", "aliquot estimate combined.jsonl"),
        ("One page to show to somebody", "aliquot report data.jsonl --without plan -o report.html"),
    ),
)


def _make_summarisation(folder: Path, seed: int) -> None:
    data = synthetic(
        40,
        len(_SUMMARISERS),
        protocol="likert",
        metrics={"rouge-like": 0.25, "learned": 0.45},
        document_length=0,
        annotators=5,
        judgments_per_output=3,
        seed=seed,
    )
    rng = np.random.default_rng([seed, 1])
    whole = _judgment_table(data)
    parts = []
    for criterion, (shift, spread) in _CRITERIA.items():
        rated = whole["value"].to_numpy() + shift + spread * rng.normal(size=whole.height)
        values = pl.Series("value", np.clip(np.round(rated), 1, 5))
        parts.append(whole.with_columns(pl.lit(criterion).alias("criterion"), values))
    judged = replace(_drop_human_scores(data), judgments=Judgments(pl.concat(parts)), name="summaries (simulated)")
    save(_rename_systems(judged.aggregate(), _SUMMARISERS), folder / "data.jsonl")


# -- Chat: which of two answers is better? ---------------------------------------------------------------------------

_CHAT = CampaignExample(
    "chat",
    "Answers of chat assistants, compared in pairs",
    "Four assistants answer 60 prompts; twelve annotators choose the better of two answers, or a tie.",
    {"choices.csv": "prompt, the two assistants in the order shown, the choice, the annotator"},
    (
        ("Whom do people prefer?", "aliquot compare choices.csv"),
        ("Every pair, with ties modelled", "aliquot compare choices.csv --ties davidson --pairs"),
        ("Do annotators make the same choices?", "aliquot agreement choices.csv --answer choice --bootstrap 100"),
        ("One page to show to somebody", "aliquot report choices.csv -o report.html"),
    ),
)
_ASSISTANTS = ("aster", "birch", "cedar", "dahlia")
_FIRST_SHOWN_LOGIT = 0.15  # in log-odds: what being shown first is worth
_TIE_SHARE = 0.25  # share of choices that end in a tie where two answers are equally good


def _make_chat(folder: Path, seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    data = synthetic(60, len(_ASSISTANTS), protocol="da", annotators=0, metrics={}, texts=False, seed=seed)
    quality = data.human_score() / 15.0
    rows = []
    for item in range(data.n_items):
        for first, second in ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)):
            a, b = (first, second) if rng.random() < 0.5 else (second, first)
            for annotator in rng.choice(12, 2, replace=False):
                ahead = float(quality[item, a] - quality[item, b]) + _FIRST_SHOWN_LOGIT + rng.normal(0, 0.5)
                tie = rng.random() < _TIE_SHARE * np.exp(-abs(ahead))
                choice = "tie" if tie else "a" if rng.random() < expit(ahead) else "b"
                rows.append((f"p{item + 1:02d}", _ASSISTANTS[a], _ASSISTANTS[b], choice, f"w{annotator + 1:02d}"))
    table = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "choice", "annotator"], orient="row")
    tables.write(table, folder / "choices.csv")


# -- A crowd, some of it careless ------------------------------------------------------------------------------------

_CROWD = CampaignExample(
    "crowd",
    "Direct assessment by a crowd, some of it careless",
    "Five systems, 60 segments, each output rated from 0 to 100 by three of 20 workers; two of the workers rate at "
    "random and in a hurry, and one gives the same rating throughout.",
    {"data.jsonl": "segments, outputs, metrics and the ratings with their times"},
    (
        ("Do the workers agree, and who does not?", "aliquot agreement data.jsonl --bootstrap 100"),
        (
            "Mark those who rate in a hurry or always the same, and practice",
            (
                'aliquot clean data.jsonl --steps "speeders:share=0.4+straight_liners+standardise+burn_in:first=5" '
                "--audit audit.json -o cleaned.jsonl"
            ),
        ),
        ("Do the others agree better?", "aliquot agreement cleaned.jsonl --bootstrap 100"),
        (
            "Scores adjusted for who is strict and who is lenient",
            "aliquot combine cleaned.jsonl --normalise crossed -o combined.jsonl",
        ),
        ("Who is best?", "aliquot estimate combined.jsonl"),
        ("One page to show to somebody", "aliquot report cleaned.jsonl --without plan -o report.html"),
    ),
)
_CARELESS = ("a04", "a11")
_ALWAYS = ("a17", 75.0)


def _make_crowd(folder: Path, seed: int) -> None:
    data = synthetic(60, 5, protocol="da", annotators=20, judgments_per_output=3, document_length=2, seed=seed)
    rng = np.random.default_rng([seed, 3])
    table = _judgment_table(data)
    hurried = pl.col("annotator").is_in(_CARELESS)
    at_random = pl.Series("random", np.round(rng.uniform(0, 100, table.height)))
    table = table.with_columns(
        pl.when(hurried)
        .then(at_random)
        .when(pl.col("annotator") == _ALWAYS[0])
        .then(_ALWAYS[1])
        .otherwise(pl.col("value"))
        .alias("value"),
        pl.when(hurried).then(pl.col("seconds") * 0.1).otherwise(pl.col("seconds")).round(1).alias("seconds"),
    )
    save(
        replace(_drop_human_scores(data), judgments=Judgments(table), name="crowd (simulated)").aggregate(),
        folder / "data.jsonl",
    )


EXAMPLES: Mapping[str, tuple[CampaignExample, Callable[[Path, int], None]]] = MappingProxyType(
    {
        "mqm": (_MQM, _make_mqm),
        "summarisation": (_SUMMARISATION, _make_summarisation),
        "chat": (_CHAT, _make_chat),
        "crowd": (_CROWD, _make_crowd),
    }
)
