"""Change one operator or constant in a random function, and see whether the tests of its room notice.

`make mutants` draws mutants by a seed, runs for each the tests of tests/<room>/ that call the changed function, the
fastest first, and lists the survivors. `MUTANTS_ARGS="--seed 7 --count 50 --rooms stats,core"` chooses others. A second
run with the same seed repeats only the survivors (build/mutants). equivalent_mutants.txt names changes that nobody can
notice; they are not counted.

mutmut and cosmic-ray run the whole suite, or tests chosen by line, in a fresh process per mutant; here a process that
has imported numpy, scipy and polars forks, which saves more time than the tests take, and a mutant is drawn rather than
enumerated. Which test calls which function is traced once per test file and kept in build/mutants.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

import pytest

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.txt"
PRELOADED = (
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "polars",
    "msgspec",
    "sacrebleu",
    "sklearn.linear_model",
    "typer",
    "rich.console",
    "joblib",
    "hypothesis.strategies",
)
MAX_SECONDS = 60.0
"""Tests are taken, fastest first, until they took this long without a change."""
SWAPS: dict[type[ast.AST], Callable[[], ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


# -- Mutants -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A part of a source file, and what stands there instead."""

    path: str
    function: str
    node: ast.expr | ast.AugAssign
    changed: ast.AST
    number: int = 1

    @property
    def room(self) -> str:
        return self.path.split("/", 1)[0]

    def __str__(self) -> str:
        before, after = (" ".join(ast.unparse(node).split()) for node in (self.node, self.changed))
        return f"{self.path}:{self.node.lineno} {self.function}: {before} -> {after}" + f" [{self.number}]" * (
            self.number > 1
        )

    @property
    def name(self) -> str:
        """What identifies it whatever the line: file, function, before and after."""
        return str(self).replace(f":{self.node.lineno} ", ":", 1)

    def lies_in(self, place: str) -> bool:
        """Whether it is in a file or function, whose class need not be named."""
        last = self.function.rsplit(".", 1)[-1]
        return any(f"{self.path}:{name}".startswith(place) for name in (self.function, last))

    def applied(self, source: bytes) -> bytes:
        lines, new = source.splitlines(keepends=True), ast.unparse(self.changed)
        first, last = self.node.lineno - 1, (self.node.end_lineno or self.node.lineno) - 1
        start, end = self.node.col_offset, self.node.end_col_offset
        inserted = (new if isinstance(self.node, ast.AugAssign) else f"({new})").encode()
        lines[first : last + 1] = [lines[first][:start] + inserted + lines[last][end:]]
        return b"".join(lines)


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions and methods with their qualified names; what is defined inside a function belongs to it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")


def changeable(node: ast.AST) -> Iterator[Any]:
    """Nodes below, without wording (f-strings, errors, warnings), annotations, decorators, and zip's strict."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            wording = isinstance(child, (ast.JoinedStr, ast.Raise)) or (
                isinstance(child, ast.Call) and ast.unparse(child.func) in {"warnings.warn", "cast"}
            )
            if (
                isinstance(child, ast.AST)
                and not wording
                and not (isinstance(child, ast.keyword) and child.arg == "strict")
            ):
                yield child
                yield from changeable(child)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that may stand in a node's place."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in SWAPS:
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
        if not any(isinstance(side, ast.JoinedStr) or is_text(side) for side in sides):
            yield replaced(node, op=SWAPS[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            yield replaced(node, ops=[*node.ops[:k], SWAPS[type(op)](), *node.ops[k + 1 :]])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 2 or 1.0)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def replaced(node: ast.AST, **fields: object) -> ast.AST:
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def functions(rooms: list[str]) -> list[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Path, qualified name and body of all functions of rooms."""
    source = ROOT / "src" / "aliquot"
    paths = [path for room in rooms for path in sorted((source / room).rglob("*.py"))]
    return [
        (path.relative_to(source).as_posix(), *one)
        for path in paths
        for one in functions_of(ast.parse(path.read_bytes()))
    ]


def mutants_of(path: str, name: str, function: ast.AST) -> list[Mutant]:
    """All mutants of a function; those that look alike are numbered."""
    every = [Mutant(path, name, node, new) for node in changeable(function) for new in changes(node)]
    seen: Counter[str] = Counter()
    for k, mutant in enumerate(every):
        seen[mutant.name] += 1
        every[k] = replace(mutant, number=seen[mutant.name])
    return every


def drawn(seed: int, rooms: list[str]) -> Iterator[Mutant]:
    """Different mutants in random order: a function with chances by its lines, then a change in it."""
    rng, every, seen = random.Random(seed), functions(rooms), set[str]()
    weights = [(function.end_lineno or function.lineno) - function.lineno + 1 for _, _, function in every]
    for path, name, function in (rng.choices(every, weights)[0] for _ in range(100 * len(every))):
        mutants = mutants_of(path, name, function)
        mutant = rng.choice(mutants) if mutants else None
        if mutant and mutant.name not in seen:
            seen.add(mutant.name)
            yield mutant


# -- Tests ---------------------------------------------------------------------------------------------------------


class Tracer:
    """A pytest plugin that notes the functions each test calls, and its seconds; tests that fail notice nothing.

    What runs while a test is set up may be a fixture that the tests of its file share, and counts for all of them.
    """

    def __init__(self, tree: Path) -> None:
        self.source, self.calls = f"{tree}/src/aliquot/", set[str]()
        self.tests: dict[str, dict[str, tuple[float, list[str]]]] = defaultdict(dict)
        self.shared: dict[str, set[str]] = defaultdict(set)
        self.names: dict[CodeType, str | None] = {}
        self.failing: set[str] = set()

    def note(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code not in self.names:
            inside = code.co_filename.startswith(self.source)
            function = code.co_qualname.split(".<locals>")[0]
            self.names[code] = f"{code.co_filename.removeprefix(self.source)}:{function}" if inside else None
        if name := self.names[code]:
            self.calls.add(name)

    def pytest_collection(self) -> None:
        """Also what runs while tests are collected is noted, for the first test."""
        sys.settrace(self.note)
        threading.settrace(self.note)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        self.shared[_file(item.nodeid)] |= self.calls
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        forget()
        start = time.perf_counter()
        result = yield
        if item.nodeid not in self.failing:
            self.tests[_file(item.nodeid)][item.nodeid] = (time.perf_counter() - start, sorted(self.calls))
        self.calls.clear()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failing.add(report.nodeid)

    def write(self, caches: dict[str, Path]) -> None:
        for file, cache in caches.items():
            failing = sorted(test for test in self.failing if _file(test) == file)
            traced = {"shared": sorted(self.shared[file]), "tests": self.tests[file], "failing": failing}
            cache.write_text(json.dumps(traced))


def forget() -> None:
    """Empty the caches of functions: else only the first test that needs one would be seen to call it."""
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith("aliquot.") else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _file(test: str) -> str:
    return test.split("::", 1)[0]


class Chosen:
    """A pytest plugin that runs these tests only, in this order, and keeps the first that fails."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: k for k, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid]
        )


def run_tests(tree: Path, arguments: list[str], plugin: object, cpu_seconds: float, after: Callable[[], object]) -> str:
    """Run pytest in a fork, with the tree's code: passed, failed or time."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 2))
            os.chdir(tree)
            sys.path[:0] = [str(tree / "src"), str(tree)]  # the tree as for python -m pytest
            os.environ["PYTHONPATH"] = str(tree / "src")
            output = os.open(tree / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            options = ["-q", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist"]
            code = pytest.main([*options, *arguments], plugins=[plugin])
            if code in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
                after()
        finally:
            os._exit(code)
    # Processor time counts, for the machine may be busy; one that waits for something gets ten times as long.
    end, status = time.monotonic() + 10 * cpu_seconds, None
    while status is None and time.monotonic() < end:
        time.sleep(0.02)
        ended, code = os.waitpid(child, os.WNOHANG)
        status = code if ended else None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and the processes that tests started
    if status is None:
        os.waitpid(child, 0)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL}):
        return "time"
    # A change in what tests are made for may leave none of them: none has failed.
    none_ran = os.waitstatus_to_exitcode(status) == pytest.ExitCode.NO_TESTS_COLLECTED
    return "passed" if status == 0 or none_ran else "failed"


def digest(*paths: Path) -> str:
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


class Room:
    """The tests of a room: which function each calls, and how long it takes."""

    def __init__(self, name: str, tree: Path) -> None:
        self.tree, folder = tree, tree / "tests" / name
        shared = [
            tree / "src",
            tree / "benchmarks" / "mutants.py",
            *folder.glob("conftest.py"),
            tree / "tests" / "conftest.py",
        ]
        kept = {file: CACHE / f"{digest(file, *shared)}.json" for file in sorted(folder.rglob("test_*.py"))}
        missing = [file.relative_to(tree).as_posix() for file, cache in kept.items() if not cache.exists()]
        if missing:
            print(f"{name}: tracing {len(missing)} files of tests", flush=True)
            tracer = Tracer(tree)
            caches = {file: kept[tree / file] for file in missing}
            run_tests(tree, missing, tracer, 3600, lambda: tracer.write(caches))
            if not all(cache.exists() for cache in caches.values()):
                sys.exit(f"{name}: the tests cannot be run:\n" + (tree / "output.txt").read_text()[-2000:])
        self.files = {file.relative_to(tree).as_posix(): json.loads(kept[file].read_text()) for file in kept}
        for test in sorted(test for traced in self.files.values() for test in traced["failing"]):
            print(f"left out, fails without a change: {test}", flush=True)

    def tests_of(self, function: str) -> list[tuple[float, str]]:
        """Seconds and names of the tests that call a function, the fastest first."""
        chosen = [
            (seconds, test)
            for traced in self.files.values()
            for test, (seconds, calls) in traced["tests"].items()
            if function in calls or function in traced["shared"]
        ]
        return sorted(chosen)

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """Killed, time or survived, and the test that failed or how many passed."""
        budget, tests = MAX_SECONDS, list[str]()
        for seconds, test in self.tests_of(f"{mutant.path}:{mutant.function}"):
            if tests and seconds > budget:
                break
            budget -= seconds
            tests.append(test)
        if not tests:
            return "survived", "no test of the room calls it"
        path = self.tree / "src" / "aliquot" / mutant.path
        original, times = path.read_bytes(), path.stat()
        path.write_bytes(mutant.applied(original))
        os.utime(path, (times.st_mtime + 10, times.st_mtime + 10))  # compiled files are told apart by whole seconds
        files = list(dict.fromkeys(_file(test) for test in tests))
        try:
            end = run_tests(self.tree, ["-x", *files], Chosen(tests), 10 + 3 * (MAX_SECONDS - budget), lambda: None)
        finally:
            path.write_bytes(original)
            os.utime(path, (times.st_mtime, times.st_mtime))
        return (
            ("survived", f"{len(tests)} tests") if end == "passed" else ("killed", "by time" if end == "time" else "")
        )


# -- The command ---------------------------------------------------------------------------------------------------


def main() -> None:
    # cli words and prints what the others compute, and its tests start processes, which the tracer does not see.
    source, tested = ROOT / "src" / "aliquot", {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    rooms = sorted(path.name for path in source.iterdir() if path.name in tested - {"cli"})
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rooms", default=",".join(rooms), help="default: %(default)s")
    parser.add_argument("--only", help="all mutants of a file or function instead: stats/choices.py:tally")
    options = parser.parse_args()
    rooms = options.rooms.split(",")
    print(
        f'make mutants MUTANTS_ARGS="--seed {options.seed} --count {options.count} --rooms {options.rooms}"', flush=True
    )
    equivalent = {line.split("  #")[0] for line in EQUIVALENT.read_text().splitlines()}
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"seed-{options.seed}.txt"
    killed = set(log.read_text().splitlines()) if log.exists() else set()
    mutants = list(itertools.islice(drawn(options.seed, rooms), options.count))
    if options.only:
        mutants = [mutant for one in functions(rooms) for mutant in mutants_of(*one) if mutant.lies_in(options.only)]
        killed = set()
        if not mutants:
            sys.exit(f"--only {options.only}: {options.rooms} have no such file or function that can be changed")
    counts: dict[str, Counter[str]] = {room: Counter() for room in rooms}
    survivors = []
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "aliquot"
        left_out = shutil.ignore_patterns(".*", "build", "site", "real", "__pycache__", "aliquot-demo")
        shutil.copytree(ROOT, tree, ignore=left_out)
        compileall.compile_dir(tree / "src", quiet=1)
        for room in rooms:
            tests = None
            for mutant in (mutant for mutant in mutants if mutant.room == room):
                if mutant.name in equivalent or mutant.name in killed:
                    counts[room]["equivalent" if mutant.name in equivalent else "killed"] += 1
                    continue
                tests = tests or Room(room, tree)
                start = time.monotonic()
                outcome, why = tests.outcome(mutant)
                counts[room][outcome] += 1
                print(f"{outcome:8} {time.monotonic() - start:5.1f} s  {mutant}  {why}", flush=True)
                if outcome == "killed":
                    with log.open("a") as file:
                        file.write(f"{mutant.name}\n")
                else:
                    survivors.append(f"{mutant}  ({why})")
    print("\nsurvivors", *survivors, sep="\n  ")
    for room, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        tried = count["killed"] + count["survived"]
        if tried:
            killed_share = f"{count['killed']:4} killed {count['killed'] / tried:4.0%}"
            print(f"{room:12} {tried:4} mutants {killed_share} {count['equivalent']:3} equivalent")


if __name__ == "__main__":
    main()
