"""Run tasks in this process, on processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from aliquot.errors import MissingExtraError, WorkerError
from aliquot.validation import between, invalid

Task = TypeVar("Task")
Done = TypeVar("Done")
_DASK_PREFIX = "dask://"
_MIN_AHEAD = 16
_MAX_JOBS = 64
_START_SECONDS = 2.0  # starting processes takes about as long
_WATCH_SECONDS = 0.5  # seconds between two looks of a worker at its parent


def run_tasks(
    work: Callable[[Task], Done], tasks: Sequence[Task], *, jobs: int | None = None, engine: str | None = None
) -> Iterator[Done]:
    """Yield results as they complete, in any order.

    `work` travels to other processes. `jobs` are all cores by default (this process for small work), 1 for this process
    only; `engine` is dask://host:port for a cluster.

    >>> sorted(run_tasks(abs, [-1, 2, -3], jobs=1))
    [1, 2, 3]
    """
    if jobs is not None:
        limit = max(_MAX_JOBS, 4 * (os.cpu_count() or 1))
        between("jobs", jobs, 1, limit, remedy=f"give 1 to {limit}; this machine has {os.cpu_count()} cores")
    if engine is None and (jobs == 1 or len(tasks) < 2):
        yield from map(work, tasks)
        return
    if engine is None and jobs is None:
        finished = 0
        for result in _run_while_small(work, tasks):
            yield result
            finished += 1
        tasks = tasks[finished:]
        if not tasks:
            return
    import joblib  # noqa: PLC0415  (slow to import, and many runs are too small to need it)

    count = joblib.cpu_count() if jobs is None else jobs
    if engine is None and count == 1:
        yield from map(work, tasks)
        return
    with _explain_killed_workers():
        if engine is not None:
            yield from _run_on_cluster(work, tasks, engine)
            return
        parallel = joblib.Parallel(
            n_jobs=count,
            return_as="generator_unordered",
            batch_size=1,
            initializer=_exit_with_parent,
            initargs=(os.getpid(),),
        )
        work_here = partial(_run_in_folder, _get_working_folder(), work)
        yield from parallel(joblib.delayed(work_here)(task) for task in tasks)


def _run_while_small(work: Callable[[Task], Done], tasks: Sequence[Task]) -> Iterator[Done]:
    """Give results in this process while the tasks left take less time of a processor than starting processes."""
    seconds = 0.0
    for place, task in enumerate(tasks, start=1):
        start = time.process_time()
        result = work(task)
        seconds += time.process_time() - start
        yield result
        if seconds / place * (len(tasks) - place) > _START_SECONDS:
            return


def run_in_order(
    work: Callable[[Task], Done],
    tasks: Sequence[Task],
    *,
    jobs: int | None = None,
    engine: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Done]:
    """Return results in the order of the tasks, so that floating-point sums do not depend on timing.

    >>> run_in_order(abs, [-1, 2, -3], jobs=1)
    [1, 2, 3]
    """
    results: dict[int, Done] = {}
    for number, result in run_tasks(partial(_run_numbered, work), list(enumerate(tasks)), jobs=jobs, engine=engine):
        results[number] = result
        if progress is not None:
            progress(len(results), len(tasks))
    return [results[number] for number in range(len(tasks))]


def _run_numbered(work: Callable[[Task], Done], task: tuple[int, Task]) -> tuple[int, Done]:
    return task[0], work(task[1])


def _get_working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # the system's error names no file
        raise _build_folder_error("the working folder") from None


def _build_folder_error(folder: str) -> WorkerError:
    return WorkerError(
        f"{folder}: was deleted, so that no other process can work there; go to another folder (cd) "
        "and give the command again with whole paths, or with `jobs=1`"
    )


def _run_in_folder(folder: str, work: Callable[[Task], Done], task: Task) -> Done:
    """Run a task in the caller's working folder: joblib reuses processes, which may have another one."""
    try:
        os.chdir(folder)
    except FileNotFoundError:
        raise _build_folder_error(folder) from None
    return work(task)


def _exit_with_parent(parent: int) -> None:
    """Exit the worker when its parent process is gone.

    By a thread and not by Linux's signal at a parent's death: that one comes when the thread that started the worker
    ends, and joblib starts workers from threads that end before the work does.
    """
    if os.getpid() == parent:  # a backend of threads
        return
    above = os.getppid()  # another where a server starts the workers, or where the parent is gone already

    def watch_parent() -> None:
        while os.getppid() == above and (above == parent or _is_running(parent)):
            time.sleep(_WATCH_SECONDS)
        os._exit(1)  # whatever the other threads do

    threading.Thread(target=watch_parent, name="aliquot-parent-watch", daemon=True).start()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


@contextmanager
def _explain_killed_workers() -> Iterator[None]:
    """Raise WorkerError when a worker was killed; Dask has retried three times by then."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415  (likewise)

    try:
        yield
    except TerminatedWorkerError as error:
        _get_working_folder()  # a worker cannot start in a folder that is gone
        raise WorkerError(
            "a worker process was killed, most often because memory ran out; use fewer `jobs` or a bigger machine, and "
            "give the same command again"
        ) from error
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # distributed is an extra: its errors are known by name only
            raise
        raise WorkerError(
            f"the workers of the cluster died again and again at the same piece of work ({str(error)[:200]}); look at "
            "their logs and memory, and give the same command again"
        ) from error


def _run_on_cluster(work: Callable[[Task], Done], tasks: Sequence[Task], engine: str) -> Iterator[Done]:
    """Run tasks on a Dask cluster: a few ahead of the workers, and one more for each result.

    Not by joblib: it ignores a cluster of one core, and waits for ever for a task that kills its workers.
    """
    if not engine.startswith(_DASK_PREFIX) or not engine.rpartition(":")[2].isdigit():
        raise invalid("engine", engine, "give dask://host:port, the address of a Dask scheduler")
    with _connect_client(engine.removeprefix(_DASK_PREFIX)) as client:
        from distributed import as_completed  # noqa: PLC0415  (an extra; it is there, or there were no client)

        waiting = iter(tasks)
        ahead = max(_MIN_AHEAD, 4 * sum(client.ncores().values()))
        first = [client.submit(work, task, pure=False) for task in islice(waiting, ahead)]
        ready: Any = as_completed(  # type: ignore[no-untyped-call,unused-ignore]
            first, loop=client.loop, with_results=True
        )
        del first  # a result that was given is forgotten by the workers
        for future, result in ready:
            if future.cancelled():  # nobody here cancels: the client lost the scheduler, and gives this as the result
                raise WorkerError(
                    f"the scheduler {engine} went away in the middle; start it anew, and give the same command again"
                )
            for task in islice(waiting, 1):
                ready.add(client.submit(work, task, pure=False))
            yield result


@contextmanager
def _connect_client(address: str) -> Iterator[Any]:
    try:
        from distributed import Client  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("a Dask engine needs dask; install it with: pip install 'aliquot[cluster]'") from None
    try:
        client = Client(  # type: ignore[no-untyped-call,unused-ignore]
            f"tcp://{address}", timeout="10s", set_as_default=False
        )
    except (OSError, TimeoutError, ValueError) as error:
        raise invalid("engine", f"dask://{address}", f"no scheduler answers there ({error})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=60)
        except TimeoutError:
            raise invalid("engine", f"dask://{address}", "the scheduler has no worker; start some") from None
        yield client
