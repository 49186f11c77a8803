"""Backups are whole and from one moment; what is restored was verified, and comes all or not at all."""

import os
import sqlite3
from pathlib import Path

import pytest
import trio

from safd.model.failures import StoreExists, StoreFailed, StoreLocked
from safd.store import backup as backup_module
from safd.store.backup import backup, restore
from safd.store.check import check
from tests.contracts.world import begun, copied, mode_of, names_in, offer, opened, said, whole


def _quiet(done: int, total: int) -> None:
    pass


@pytest.mark.trio
async def test_a_backup_is_one_moment_of_a_store_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken in many steps while appends go on, it ends, verifies, and is one private file."""
    monkeypatch.setattr(backup_module, "_STEP_PAGES", 16)
    path, target = tmp_path / "s.db", tmp_path / "copy.db"
    told: list[tuple[int, int]] = []
    async with opened(path) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, *[said("x" * 2000)] * 1000))
        finished = trio.Event()

        async def go_on() -> None:
            while not finished.is_set():
                await store.append(offer(conversation, said("y"), said("z")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on)
            await trio.to_thread.run_sync(backup, path, target, lambda done, total: told.append((done, total)))
            finished.set()
        head = (await whole(store, conversation)).head_seq
    report = check(target, _quiet)
    assert report.clean
    assert 1000 <= report.messages <= head
    assert report.messages % 2 == 0
    assert len(told) > 5
    assert told[-1][0] == told[-1][1]
    assert mode_of(target) == 0o600
    assert names_in(tmp_path) == {"copy.db", "s.db", "s.db.lock"}


@pytest.mark.trio
async def test_a_restored_store_is_the_store_of_the_backup(tmp_path: Path) -> None:
    """Every row, head and key of that moment is back; nothing that came later is."""
    path, target = tmp_path / "s.db", tmp_path / "copy.db"
    async with opened(path) as store:
        conversation = await begun(store)
        receipt = await store.append(offer(conversation, said("kept"), idempotency_key="k"))
        backup(path, target, _quiet)
        await store.append(offer(conversation, said("later")))
        with pytest.raises(StoreLocked):
            restore(target, path, _quiet, replace=True)
    with pytest.raises(StoreExists):
        restore(target, path, _quiet)
    for where, replace in ((path, True), (tmp_path / "new" / "s.db", False)):
        assert restore(target, where, _quiet, replace=replace).clean
        assert mode_of(where) == 0o600
        async with opened(where) as store:
            page = await whole(store, conversation)
            assert [row.id for row in page.rows] == list(receipt.ids)
            again = await store.append(offer(conversation, said("kept"), idempotency_key="k"))
            assert (again.ids, again.fresh) == (receipt.ids, False)
            assert (await store.append(offer(conversation, said("goes on")))).last_seq == 2


@pytest.mark.root
@pytest.mark.trio
async def test_what_root_restores_belongs_to_the_folders_owner(tmp_path: Path) -> None:
    """A daemon with an account of its own can open what an administrator put back; a backup stays with its maker."""
    path, target, folder = tmp_path / "s.db", tmp_path / "copy.db", tmp_path / "theirs"
    async with opened(path) as store:
        await begun(store)
    backup(path, target, _quiet)
    folder.mkdir()
    os.chown(folder, 12345, 23456)
    os.chown(tmp_path, 12345, 23456)
    assert restore(target, folder / "s.db", _quiet).clean
    async with opened(folder / "s.db"):
        owners = {file.name: (file.stat().st_uid, file.stat().st_gid) for file in folder.iterdir()}
    assert owners == dict.fromkeys(("s.db", "s.db.lock", "s.db-wal", "s.db-shm"), (12345, 23456))
    assert target.stat().st_uid == 0


@pytest.mark.trio
async def test_a_log_left_by_a_crash_does_not_reach_into_the_restored_store(tmp_path: Path) -> None:
    """The write-ahead log of the replaced store is never taken for that of the new one."""
    path, target, crashed = tmp_path / "s.db", tmp_path / "copy.db", tmp_path / "crashed.db"
    async with opened(path) as store:
        conversation = await begun(store)
        backup(path, target, _quiet)
        await store.append(offer(conversation, *[said("in the log")] * 50))
        for suffix in ("", "-wal"):
            copied(Path(f"{path}{suffix}"), Path(f"{crashed}{suffix}"))
    assert check(crashed, _quiet).messages == 50
    assert restore(target, crashed, _quiet, replace=True).clean
    assert check(crashed, _quiet).messages == 0
    async with opened(crashed) as store:
        assert (await whole(store, conversation)).head_seq == 0


@pytest.mark.trio
async def test_a_damaged_backup_is_not_restored(tmp_path: Path) -> None:
    """The report says what is wrong, and the store that was there stays as it was."""
    path, target = tmp_path / "s.db", tmp_path / "copy.db"
    async with opened(path) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, said("a"), said("b")))
        backup(path, target, _quiet)
    connection = sqlite3.connect(target, isolation_level=None)
    connection.execute("UPDATE messages SET text = x'7b7d' WHERE number & 1")
    connection.close()
    before = path.read_bytes()
    report = restore(target, path, _quiet, replace=True)
    assert not report.clean
    assert path.read_bytes() == before
    assert not restore(target, tmp_path / "new.db", _quiet).clean
    assert not (tmp_path / "new.db").exists()


@pytest.mark.trio
async def test_nothing_is_overwritten_and_nothing_half_made_is_left(tmp_path: Path) -> None:
    """A target that is there is refused; a source that is no store leaves no file behind."""
    path, target = tmp_path / "s.db", tmp_path / "copy.db"
    async with opened(path) as store:
        await begun(store)
    target.write_text("mine")
    with pytest.raises(StoreExists):
        backup(path, target, _quiet)
    assert target.read_text() == "mine"
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    for source in ("noise.db", "none.db"):
        with pytest.raises(StoreFailed):
            backup(tmp_path / source, tmp_path / "out.db", _quiet)
    with pytest.raises(StoreFailed):
        backup(path, tmp_path / "no" / "such" / "folder.db", _quiet)
    left = names_in(tmp_path) - {"s.db-wal", "s.db-shm"}
    assert left == {"copy.db", "noise.db", "s.db", "s.db.lock"}
