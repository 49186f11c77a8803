"""The one thread that writes: it takes everything that waits, commits it as one transaction, then wakes the waiters.

A wake-up of another thread costs about as much as the fsync, so there is one in each direction per batch. The queue
is bounded in the event loop, which alone counts what is under way. A job that was queued is carried out whether or
not somebody still waits for it.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import attrs
import trio

from safd.model.errors import SafError
from safd.model.failures import Stopping, StoreBusy, StoreFailed
from safd.store import files
from safd.store.ledger import Ledger
from safd.store.rows import Numbered

T = TypeVar("T")

BATCH_JOBS = 512
BATCH_BYTES = 16 * 1024 * 1024

_SHARED_CAUSES = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""What one job meets, all meet; any other failure may be one job's own."""


@attrs.define(eq=False)
class Job(Generic[T]):
    """Something to write, and who waits for it."""

    perform: Callable[[Ledger], T]
    landed: Callable[[T], None]
    size: int
    task: trio.lowlevel.Task | None
    done: T | None = None
    error: Exception | None = None

    def run(self, ledger: Ledger) -> None:
        """In the writer's thread. A refusal is this job's answer; any other error concerns the transaction."""
        self.error = None
        try:
            self.done = self.perform(ledger)
        except SafError as error:
            self.error = error

    def land(self) -> None:
        """In the event loop: tell what was committed, then wake the waiter."""
        if self.error is None and self.done is not None:
            self.landed(self.done)
        self.wake()

    def wake(self) -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)


class Pending(Protocol):
    """A job of any kind, as the queue sees it."""

    size: int
    error: Exception | None

    def run(self, ledger: Ledger) -> None: ...
    def land(self) -> None: ...
    def wake(self) -> None: ...


@attrs.define(eq=False)
class Writer:
    _ledger: Ledger
    _jobs_limit: int
    _bytes_limit: int
    _moved: Callable[[tuple[Numbered, ...]], None]
    _token: trio.lowlevel.TrioToken = attrs.field(factory=trio.lowlevel.current_trio_token)
    _queue: "queue.SimpleQueue[Pending | None]" = attrs.field(factory=queue.SimpleQueue["Pending | None"])
    _under_way: dict[Pending, None] = attrs.field(factory=dict[Pending, None])
    _bytes_under_way: int = 0
    _refusal: Callable[[], SafError] | None = None
    _ended: trio.Event = attrs.field(factory=trio.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._main, name="safd-writer", daemon=True)
        self._thread.start()

    async def submit(self, perform: Callable[[Ledger], T], landed: Callable[[T], None], size: int) -> T:
        """Queue a job and wait until it is on disk. Raises StoreBusy, Stopping, or what became of the job."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._refusal is not None:
            raise self._refusal()
        if len(self._under_way) >= self._jobs_limit:
            raise StoreBusy
        if self._under_way and self._bytes_under_way + size > self._bytes_limit:
            raise StoreBusy
        job = Job(perform, landed, size, trio.lowlevel.current_task())
        self._under_way[job] = None
        self._bytes_under_way += size
        self._queue.put(job)

        def abort(_: Callable[[], None]) -> trio.lowlevel.Abort:
            job.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if job.error is not None:
            raise job.error
        assert job.done is not None  # noqa: S101 -- a job that landed without an error has its answer
        return job.done

    async def close(self) -> None:
        """Take nothing new, commit what waits, end the thread and its connection."""
        if self._refusal is None:
            self._refusal = Stopping
            self._queue.put(None)
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        if self._thread is not None:
            self._thread.join()

    # --- in the writer's thread

    def _main(self) -> None:
        orderly = False
        try:
            while self._serve():
                pass
            orderly = True
        finally:
            self._ledger.connection.close()
            # what is not orderly goes on to threading.excepthook: it is a fault of safd's own
            self._token.run_sync_soon(self._end, orderly)

    def _serve(self) -> bool:
        """One batch; False once the end was asked for."""
        batch: list[Pending] = []
        size = 0
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            size += job.size
            if len(batch) >= BATCH_JOBS or size >= BATCH_BYTES or self._queue.empty():
                break
            job = self._queue.get()
        if batch:
            moved = self._commit(batch)
            self._token.run_sync_soon(self._land, batch, moved)
        return job is not None

    def _commit(self, batch: list[Pending]) -> tuple[Numbered, ...]:
        """One transaction. If it fails for what may be one job's own cause, each job gets one for itself."""
        ledger = self._ledger
        try:
            ledger.begin()
            for job in batch:
                job.run(ledger)
            return ledger.settle()
        except Exception as error:  # noqa: BLE001 -- crosses the thread border to whoever waits, as a result does
            ledger.forget()
            if len(batch) == 1 or (isinstance(error, sqlite3.Error) and files.primary_code(error) in _SHARED_CAUSES):
                for job in batch:
                    job.error = self._translated(error)
                return ()
        return tuple(one for job in batch for one in self._commit([job]))

    def _translated(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        translated = files.translate(error, self._ledger.path)
        translated.__cause__ = error
        return translated

    # --- back in the event loop

    def _land(self, batch: list[Pending], moved: tuple[Numbered, ...]) -> None:
        self._moved(moved)
        for job in batch:
            del self._under_way[job]
            self._bytes_under_way -= job.size
            job.land()

    def _end(self, orderly: bool) -> None:
        if not orderly:
            self._refusal = self._broken
            for job in self._under_way:
                job.error = self._broken()
                job.wake()
        self._under_way.clear()
        self._ended.set()

    def _broken(self) -> SafError:
        return StoreFailed(path=str(self._ledger.path), reason="its writer ended; restart safd")
