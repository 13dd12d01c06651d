"""Every command in the table of docs/formats.md runs.

To add a row: write it in the table (first cell: the format; then the command that reads it, the command that writes
it, or both), and add the first cell to `MAKERS` with a function that writes, into the folder it is given, the files
that the reading command names. Use `texts` for files whose content is a text. `data.jsonl`, items with texts, three
systems, scores and judgments, and `selection.jsonl`, a selection of them, are in every folder; commands that write
start from these, and rows that only write have `texts()`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.fuzz import test_fuzz_readers as fuzz
from tests.io import exports, inspect_files, observability, promptfoo_results, test_lm_eval
from tests.io.test_formats import MQM, WMT

import aliquot
from aliquot.cli.main import run
from aliquot.io import hub

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
Maker = Callable[[Path], object]
SYNTHETIC = aliquot.synthetic(items=30, systems=3, seed=5, judgments_per_output=2)
JUDGED = "item,system,annotator,value\n" + "".join(
    f"{i},{s},{a},{i + len(a)}\n" for i in range(4) for s in "AB" for a in ("ann", "robert")
)


def texts(**files: str) -> Maker:
    """Write texts: `_` in a name stands for the dot before the ending."""

    def write(folder: Path) -> None:
        for name, content in files.items():
            (folder / ".".join(name.rsplit("_", 1))).write_text(content)

    return write


def tree(root: str, files: dict[str, str]) -> Maker:
    def write(folder: Path) -> None:
        for name, content in files.items():
            path = folder / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    return write


def excel(folder: Path) -> None:
    (folder / "judgments.xlsx").write_bytes(fuzz.sheet(folder)[0])


def sheets(folder: Path) -> None:
    assert (
        run(shlex.split("collect sheets data.jsonl -s selection.jsonl --protocol da --annotators ann -o sheets")) == 0
    )
    path = folder / "sheets" / "ann.csv"
    filled = pl.read_csv(path, infer_schema=False).with_columns(pl.lit("80").alias("score"))
    filled.write_csv(path)


def inspect_logs(folder: Path) -> None:
    (folder / "logs").mkdir()
    (folder / "logs" / "a.eval").write_bytes(inspect_files.archive(inspect_files.log()))
    (folder / "logs" / "b.json").write_bytes(inspect_files.encode(inspect_files.log(model="org/big", task_id="u")))


def campaign(folder: Path) -> None:
    (folder / "campaign.db").write_bytes(fuzz.campaigns(folder)[0])


MAKERS: dict[str, Maker] = {
    "item JSON lines, plain or gzip; or a JSON array": texts(),
    "items in Parquet": lambda folder: aliquot.save(SYNTHETIC, folder / "items.parquet"),
    "long table of scores (CSV, TSV, Parquet, Excel, flat JSON lines)": texts(
        scores_csv="item,system,metric,value\n1,A,BLEU,3\n1,B,BLEU,5\n"
    ),
    "wide table, a column for each system": texts(wide_csv="id,A,B\n1,0.3,0.5\n2,0.1,0.2\n"),
    "wide table, a column for each score": texts(metrics_tsv="item\tsystem\tBLEU\tCOMET\n1\tA\t3\t0.5\n1\tB\t4\t0.6\n"),
    "wide table of texts": texts(outputs_csv="source,output_A,output_B\neins,one,uno\nzwei,two,due\n"),
    "table of judgments": texts(judgments_csv=JUDGED),
    "Excel, the first sheet": excel,
    "folder of texts, a file for each system": tree("texts", {"source.txt": "a\nb\n", "A.txt": "c\nd\n"}),
    "folder for the Hugging Face Hub": lambda folder: aliquot.save(SYNTHETIC, folder / "dataset", to="huggingface"),
    "WMT folder (mt-metrics-eval v2)": tree("wmt", WMT),
    "human evaluation of WMT25 (JSON lines)": texts(humeval_jsonl=exports.lines(exports.wmt25())),
    "MQM (Google's TSV)": texts(mqm_tsv=MQM),
    "SummEval": lambda folder: texts(summeval_jsonl=fuzz.summeval(folder)[0].decode())(folder),
    "selection": texts(),
    "campaign of `aliquot collect`": campaign,
    "filled-in sheets": sheets,
    "Pearmut": texts(pearmut_jsonl=exports.lines(exports.pearmut())),
    "Appraise": texts(appraise_csv=exports.appraise()),
    "Label Studio": texts(labels_json=json.dumps(exports.label_studio()), key_csv=exports.key()),
    "Potato": texts(potato_jsonl=exports.lines(exports.potato()), key_csv=exports.key()),
    "Prodigy": texts(prodigy_jsonl=exports.lines(exports.prodigy())),
    "Argilla": texts(argilla_json=json.dumps(exports.argilla()), key_csv=exports.key()),
    "samples of lm-evaluation-harness": lambda folder: test_lm_eval.write_two(folder / "lm-eval"),
    "Inspect: logs (`.eval`, `.json`, a folder of them); datasets": inspect_logs,
    "Langfuse, an export folder or a file of scores": tree(
        "langfuse",
        {
            "scores/1.jsonl": observability.to_lines(observability.langfuse_scores()),
            "observations_v2/1.csv": observability.to_csv(observability.langfuse_observations()),
        },
    ),
    "LangSmith, runs and feedback": tree(
        "langsmith",
        {
            "runs.jsonl": observability.to_lines(observability.langsmith_runs()),
            "feedback.csv": observability.to_csv(observability.langsmith_feedback()),
        },
    ),
    "promptfoo's results (JSON, JSON lines, CSV), or a folder of them": texts(
        promptfoo_json=promptfoo_results.document(promptfoo_results.results())
    ),
    "choices between outputs": texts(choices_csv="item,a,b,choice\n1,A,B,a\n2,A,B,b\n3,A,B,tie\n"),
    "battles of an arena (Parquet, JSON lines, CSV)": texts(arena_jsonl=exports.lines(exports.arena())),
    "file of the Hugging Face Hub": lambda folder: aliquot.save(SYNTHETIC, folder / "hub.parquet"),
    "results: JSON, CSV, TSV, Parquet, Markdown, LaTeX": texts(),
    "results: JUnit XML": texts(),
    "results: step summary of a GitHub workflow": texts(),
    "results: Every Eval Ever 0.3.0": texts(),
    "results: MLflow runs": texts(),
    "report page": texts(),
    "figures (SVG, PNG, PDF)": texts(),
}


def read_rows() -> dict[str, tuple[str, str]]:
    """The table of the page: format -> the commands that read and write it, empty where there is none."""
    table = PAGE.read_text().partition("| what | to read it | to write it |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = {}
    for line in table.splitlines():
        name, reading, writing = (cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        rows[name] = (reading.strip("`"), writing.strip("`"))
    return rows


ROWS = read_rows()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    aliquot.save(SYNTHETIC, tmp_path / "data.jsonl")
    assert run(["select", "data.jsonl", "--method", "random", "--budget", "6", "-o", "selection.jsonl"]) == 0
    return tmp_path


def test_the_table_and_the_makers_have_the_same_rows() -> None:
    assert list(ROWS) == list(MAKERS)
    assert all(reading or writing for reading, writing in ROWS.values())


@pytest.mark.parametrize("name", [name for name, (reading, _) in ROWS.items() if reading])
def test_what_is_read(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "locate_source", lambda _: str(folder / "hub.parquet"))
    MAKERS[name](folder)
    capsys.readouterr()
    status = run(shlex.split(ROWS[name][0])[1:])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.out.strip()


@pytest.mark.parametrize("name", [name for name, (_, writing) in ROWS.items() if writing])
def test_what_is_written(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(folder.rglob("*"))
    status = run(shlex.split(ROWS[name][1])[1:])
    assert status == 0, capsys.readouterr().err
    written = [path for path in folder.rglob("*") if path not in before and path.is_file()]
    assert written
    assert all(path.stat().st_size for path in written)
