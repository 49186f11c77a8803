"""What holds for the SQLite store in particular: its files, its lock, what it remembers."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from safd.model.conversations import Conversation, Owner
from safd.model.failures import StoreFailed, StoreLocked, StoreNewer
from safd.model.ids import ConversationId, Seq, Uid
from safd.store import files, sqlite
from safd.store.sqlite import Known
from tests.contracts.world import begun, mode_of, offer, opened, said, size_of, whole


@pytest.mark.trio
async def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """Whatever the umask and the mode of before: folder 0700, every file in it 0600."""
    path = tmp_path / "state" / "s.db"
    before = os.umask(0)
    try:
        async with opened(path) as store:
            await begun(store)
            assert mode_of(path.parent) == 0o700
            assert {file.name: mode_of(file) for file in path.parent.iterdir()} == dict.fromkeys(
                ("s.db", "s.db-shm", "s.db-wal", "s.db.lock"), 0o600
            )
        path.chmod(0o644)
        async with opened(path):
            assert mode_of(path) == 0o600
    finally:
        os.umask(before)


@pytest.mark.trio
async def test_a_store_has_one_daemon(tmp_path: Path) -> None:
    """A second opening is refused while the first lasts, and disturbs it in nothing; after it the store is free."""
    path = tmp_path / "s.db"
    async with opened(path) as store:
        conversation = await begun(store)
        with pytest.raises(StoreLocked):
            async with opened(path):
                pass
        await store.append(offer(conversation, said("still mine")))
    async with opened(path) as store:
        assert (await whole(store, conversation)).head_seq == 1


@pytest.mark.trio
async def test_the_log_has_its_full_size_from_the_start(tmp_path: Path) -> None:
    """The first commit finds a log that need not grow, in a new store as in an old one; the close empties it."""
    path = tmp_path / "s.db"
    for _ in range(2):
        async with opened(path) as store:
            assert size_of(Path(f"{path}-wal")) >= files.GROWN_WAL_BYTES
            await begun(store)
        assert size_of(Path(f"{path}-wal")) == -1
        assert size_of(path) < files.GROWN_WAL_BYTES


@pytest.mark.trio
async def test_commits_are_synced(tmp_path: Path) -> None:
    """The connection that writes waits for the disk at each commit, and its log is a write-ahead log."""
    async with opened(tmp_path / "s.db") as store:
        connection = store._ledger.connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.trio
async def test_what_is_not_a_store_is_refused_by_name(tmp_path: Path) -> None:
    """Noise, another program's database and a newer schema each have their cause; none is changed by the attempt."""
    noise, foreign, newer = tmp_path / "noise.db", tmp_path / "foreign.db", tmp_path / "newer.db"
    noise.write_bytes(b"not a database, but long enough to look at " * 100)
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    async with opened(newer) as store:
        conversation = await begun(store)
    connection = sqlite3.connect(newer, isolation_level=None)
    connection.execute("INSERT INTO migrations SELECT max(number) + 1, 'tomorrow', '' FROM migrations")
    connection.close()
    for path, cause in ((noise, StoreFailed), (foreign, StoreFailed), (newer, StoreNewer)):
        for _ in range(2):  # the lock is free again after a refusal
            with pytest.raises(cause) as caught:
                async with opened(path):
                    pass
            assert str(path) in str(caught.value)
    assert noise.read_bytes().startswith(b"not a database")
    with closing(sqlite3.connect(foreign)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    assert conversation


@pytest.mark.trio
async def test_a_folder_that_cannot_be_made_is_a_typed_failure(tmp_path: Path) -> None:
    """The operating system's refusal arrives as StoreFailed with the store's path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match=r"file/s\.db"):
        async with opened(tmp_path / "file" / "s.db"):
            pass


@pytest.mark.trio
@pytest.mark.parametrize("kind", ["text", "other database", "device", "folder", "link", "two names"])
async def test_what_is_not_ours_is_not_touched(tmp_path: Path, kind: str) -> None:
    """A path that was mistyped is refused as it is: no mode changed, nothing written, nothing made beside it."""
    path = tmp_path / "x"
    match kind:
        case "text":
            path.write_text("mine")
        case "other database":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE theirs (x)")
        case "device":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            (tmp_path / "real").write_bytes(b"")
            path.symlink_to(tmp_path / "real")
        case _:
            path.write_bytes(b"")
            (tmp_path / "other").hardlink_to(path)
    path.chmod(0o644)
    before = (path.lstat().st_mode, path.lstat().st_size)
    with pytest.raises(StoreFailed, match="x"):
        async with opened(path):
            pass
    assert (path.lstat().st_mode, path.lstat().st_size) == before
    if kind != "other database":
        assert not (tmp_path / "x.lock").exists()


@pytest.mark.trio
@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_store_that_went_away_acknowledges_nothing(tmp_path: Path, how: str) -> None:
    """What would be written into a file without a name is refused, not lost."""
    path = tmp_path / "s.db"
    async with opened(path) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, said("kept")))
        path.rename(tmp_path / "away.db")
        if how == "replaced":
            path.write_bytes(b"")
        with pytest.raises(StoreFailed, match="not there any more"):
            await store.append(offer(conversation, said("lost")))
        path.unlink(missing_ok=True)
        (tmp_path / "away.db").rename(path)
        await store.append(offer(conversation, said("after")))
        assert (await whole(store, conversation)).head_seq == 2


def test_what_is_no_database_is_let_go(tmp_path: Path) -> None:
    """Where a connection cannot be prepared, nothing of it stays open, also while its error is looked at."""
    path = tmp_path / "s.db"
    path.write_bytes(b"no database, " * 1000)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(sqlite3.DatabaseError) as refused:
        files.connect_writer(path)
    assert refused.traceback
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _conversation(number: int, head_seq: int) -> Conversation:
    return Conversation(
        id=ConversationId(f"conv_{number}"),
        agent=None,
        owner=Owner(uid=Uid(0), account="root"),
        title=None,
        metadata=None,
        head_seq=Seq(head_seq),
        created_at="",
        updated_at="",
        archived_at=None,
        turn=None,
    )


def test_a_commit_wins_over_a_load_that_began_before_it() -> None:
    """However many other conversations move meanwhile, the older head of a slow load never covers the newer one."""
    known = Known()
    old, new = _conversation(0, 5), _conversation(0, 6)
    with known.held(old.id), known.held(old.id):
        known.landed(((1, new),))
        known.landed(tuple((number, _conversation(number, 1)) for number in range(2, 2 * sqlite.KNOWN_CONVERSATIONS)))
        assert known.loaded(1, old) == (1, new)
    assert known.get(old.id) == (1, new)


def test_a_load_that_saw_a_later_commit_is_not_set_back_by_an_earlier_one() -> None:
    """A reader may see a commit before it lands; the landing of the commit before that one changes nothing."""
    known = Known()
    later = _conversation(0, 7)
    with known.held(later.id):
        known.loaded(1, later)
    known.landed(((1, _conversation(0, 6)),))
    assert known.get(later.id) == (1, later)
    archived = attrs.evolve(later, archived_at="now")
    known.landed(((1, archived),))
    assert known.get(later.id) == (1, archived)


def test_what_is_remembered_is_bounded() -> None:
    """The least recently used conversations go first."""
    known = Known()
    for number in range(sqlite.KNOWN_CONVERSATIONS):
        known.landed(((number, _conversation(number, 1)),))
    first = ConversationId("conv_0")
    assert known.get(first) is not None
    known.landed(((0, _conversation(-1, 1)),))
    assert known.get(first) is not None
    assert known.get(ConversationId("conv_1")) is None


@pytest.mark.trio
async def test_a_reader_outside_does_not_hold_up_the_start(tmp_path: Path) -> None:
    """A backup or a check that keeps a snapshot open costs an opening no wait: the log simply goes on behind it."""
    path = tmp_path / "s.db"
    async with opened(path) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, said("before")))
        reader = files.connect_reader(path)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        await store.append(offer(conversation, said("after")))
    waits: list[object] = []
    connection = files.connect_writer(path)
    connection.set_trace_callback(waits.append)
    files.grow_wal(connection, path)
    assert waits.index("PRAGMA busy_timeout = 0") < waits.index("PRAGMA wal_checkpoint(RESTART)")
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (10_000,)
    connection.close()
    async with opened(path) as store:
        await store.append(offer(conversation, said("beside")))
        assert reader.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        assert (await whole(store, conversation)).head_seq == 3
    reader.close()
