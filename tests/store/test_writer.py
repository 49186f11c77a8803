"""The writer: batches, and what becomes of a batch when something in it fails."""

import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from safd.model.errors import SeqConflict
from safd.model.failures import DiskFull, Stopping, StoreFailed
from safd.store import files
from safd.store.check import check
from safd.store.ledger import Ledger
from safd.store.port import Offer
from safd.store.sqlite import SqliteStore
from tests.contracts.world import Heard, begun, offer, opened, said, size_of, whole


async def _held_back(store: SqliteStore, *appends: Offer) -> list[object]:
    """Run appends that all wait while the writer is busy, so that they make one batch; outcomes in order."""
    gate, entered = threading.Event(), threading.Event()
    outcomes: list[object] = [None] * len(appends)

    def hold(ledger: Ledger) -> bool:
        entered.set()
        return gate.wait(60)

    async def run(index: int, offering: Offer) -> None:
        try:
            outcomes[index] = await store.append(offering)
        except Exception as error:  # noqa: BLE001 -- the outcome is what is looked at
            outcomes[index] = error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store._write, hold)
        await trio.to_thread.run_sync(entered.wait)
        for index, offering in enumerate(appends):
            nursery.start_soon(run, index, offering)
            await trio.testing.wait_all_tasks_blocked()
        gate.set()
    return outcomes


@pytest.mark.trio
async def test_what_waits_is_one_transaction(tmp_path: Path) -> None:
    """Appends of many clients share one commit."""
    async with opened(tmp_path / "s.db") as store:
        conversation, other = await begun(store), await begun(store)
        commits: list[str] = []
        store._ledger.connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
        outcomes = await _held_back(store, *[offer(one, said("x")) for one in (conversation, other) * 20])
        assert [receipt.last_seq for receipt in outcomes] == [1 + index // 2 for index in range(40)]
        assert len(commits) == 2  # the job that held the writer, and the batch


@pytest.mark.trio
async def test_a_refused_offer_harms_no_other_in_its_batch(tmp_path: Path) -> None:
    """The offers before and after one that is refused are stored without a gap."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        one, refused, two = await _held_back(
            store,
            offer(conversation, said("one")),
            offer(conversation, said("no"), expected_seq=0),
            offer(conversation, said("two")),
        )
        assert isinstance(refused, SeqConflict)
        assert (one.last_seq, refused.head_seq, two.last_seq) == (1, 1, 2)


@pytest.mark.trio
async def test_an_offer_that_breaks_its_transaction_harms_no_other(tmp_path: Path) -> None:
    """A fault of one offer is its own: the rest of the batch is committed, told in order, and the chain holds."""
    heard = Heard()
    async with opened(tmp_path / "s.db", heard=heard) as store:
        conversation, broken = await begun(store), await begun(store)
        store._ledger.connection.execute(
            "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.messages WHEN new.number >> 32 = 2"
            " BEGIN SELECT raise(ABORT, 'this one cannot be stored'); END"
        )
        outcomes = await _held_back(
            store,
            offer(conversation, said("one"), said("and")),
            offer(broken, said("sql")),
            offer(conversation, said("two"), expected_seq=2),
            offer(conversation, "{\ud800: is not what a door lets through}"),
            offer(conversation, said("three")),
        )
        assert [getattr(one, "last_seq", type(one)) for one in outcomes] == [2, StoreFailed, 3, UnicodeEncodeError, 4]
        assert "this one cannot be stored" in str(outcomes[1])
        assert [row.seq for _, rows in heard.appends for row in rows] == [1, 2, 3, 4]
        assert (await store.counts()).messages == 4
        assert store.known(broken).head_seq == 0
    assert check(tmp_path / "s.db", lambda done, total: None).clean


class _Failing:
    """A connection whose COMMIT fails as SQLite's does when a disk refuses the sync."""

    def __init__(self, connection: sqlite3.Connection, code: int) -> None:
        self._connection = connection
        self._code = code
        self.commits = 0
        self.failing_from = 2  # the first is that of the job which holds the writer

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        self.commits += sql == "COMMIT"
        if sql == "COMMIT" and self.commits >= self.failing_from:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = self._code, "SQLITE_IOERR_FSYNC"
            raise error
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@pytest.mark.trio
async def test_a_failed_commit_acknowledges_nothing_and_moves_no_head(tmp_path: Path) -> None:
    """Every waiter of the batch gets the typed error, nobody is told anything, and the next append follows the disk."""
    heard = Heard()
    async with opened(tmp_path / "s.db", heard=heard) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, said("before")))
        failing = store._ledger.connection = _Failing(store._ledger.connection, sqlite3.SQLITE_IOERR_FSYNC)
        outcomes = await _held_back(
            store,
            offer(conversation, said("a"), idempotency_key="k"),
            offer(conversation, said("b"), expected_seq=0),
        )
        assert [type(one) for one in outcomes] == [StoreFailed, StoreFailed]
        assert outcomes[0] is not outcomes[1]
        assert store.known(conversation).head_seq == 1
        assert len(heard.appends) == 1
        failing.failing_from = 99
        receipt = await store.append(offer(conversation, said("a"), idempotency_key="k"))
        assert (receipt.last_seq, receipt.fresh) == (2, True)
    assert check(tmp_path / "s.db", lambda done, total: None).clean


@pytest.mark.trio
async def test_the_death_of_the_writer_is_loud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All who wait, and all who come later, get StoreFailed; the cause reaches the thread's hook; reading goes on."""
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args.exc_value))
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        await store.append(offer(conversation, said("stored")))

        def forget() -> None:
            raise MemoryError("nothing is left")

        monkeypatch.setattr(Ledger, "begin", lambda self: self.connection.execute("not SQL"))
        monkeypatch.setattr(Ledger, "forget", lambda self: forget())
        for _ in range(2):
            with pytest.raises(StoreFailed, match="restart safd"):
                await store.append(offer(conversation, said("x")))
        assert (await whole(store, conversation)).head_seq == 1
    assert [type(one) for one in seen] == [MemoryError]


@pytest.mark.trio
async def test_a_closed_store_takes_nothing(tmp_path: Path) -> None:
    """Who comes after the end is told that safd is stopping."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
    with pytest.raises(Stopping):
        await store.append(offer(conversation, said("x")))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 40 MB of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "safd-test", mount], check=True)
    yield mount
    subprocess.run(["umount", mount], check=True)


@pytest.mark.root
@pytest.mark.trio
async def test_a_full_disk_loses_nothing_and_heals(small_disk: Path) -> None:
    """DiskFull by name; all that was acknowledged stays readable; with space back, the same store takes appends."""
    heard = Heard()
    path = small_disk / "s.db"
    acknowledged: list[int] = []
    async with opened(path, heard=heard) as store:
        conversation = await begun(store)
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * 10_000_000)
        refused: list[Exception] = []

        async def client(size: int) -> None:
            while not refused:
                try:
                    acknowledged.append((await store.append(offer(conversation, said("y" * size)))).last_seq)
                except DiskFull as error:
                    refused.append(error)

        async with trio.open_nursery() as nursery:
            for size in (100, 3000, 50_000, 400_000):
                nursery.start_soon(client, size)
        assert str(path) in str(refused[0])
        head = len(acknowledged)
        assert sorted(acknowledged) == list(range(1, head + 1))
        assert store.known(conversation).head_seq == head
        page = await whole(store, conversation)
        assert [row.seq for row in page.rows] == list(range(1, head + 1))
        assert [row.seq for _, rows in heard.appends for row in rows] == list(range(1, head + 1))
        with pytest.raises(DiskFull):
            await store.append(offer(conversation, *[said("z" * 1_000_000)] * 30))

        ballast.unlink()
        assert (await store.append(offer(conversation, said("again")))).last_seq == head + 1
    report = check(path, lambda done, total: None)
    assert report.clean
    assert report.messages == head + 1


@pytest.mark.root
@pytest.mark.trio
async def test_a_store_on_a_full_disk_can_still_be_read(small_disk: Path) -> None:
    """Opening needs room for a small index of its log, no more: what is stored is served, what is new is refused."""
    path = small_disk / "s.db"
    async with opened(path) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, said("stored")))
    with (small_disk / "ballast").open("wb") as ballast:
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        ballast.write(b"x" * (free - 200_000))
    async with opened(path) as store:
        assert size_of(Path(f"{path}-wal")) < files.GROWN_WAL_BYTES
        assert (await whole(store, conversation)).head_seq == 1
        with pytest.raises(DiskFull):
            await store.append(offer(conversation, said("y" * 1_000_000)))
        (small_disk / "ballast").unlink()
        assert (await store.append(offer(conversation, said("again")))).last_seq == 2
