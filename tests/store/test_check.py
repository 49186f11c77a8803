"""What check finds, what a reader sees of it, and that one damage hides nothing else."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from safd.model import chain
from safd.model.blocks import Text
from safd.model.failures import StoreFailed, StoreNewer
from safd.model.ids import ConversationId, Seq
from safd.store.backup import backup, restore
from safd.store.check import ConversationReport, Report, check
from safd.store.files import PAGE_BYTES
from safd.store.port import ClearedDraft, CompactedDraft, DamagedRow, Row
from tests.contracts.world import WRITER, begun, offer, opened, said, whole

COUNT = 12
BASE = 2 << 32  # the second conversation is the one that is harmed

Tampering = Callable[[sqlite3.Connection], object]


def _checked(path: Path) -> Report:
    return check(path, lambda done, total: None)


async def _made(path: Path) -> list[ConversationId]:
    """Three conversations of twelve messages and three marks each."""
    async with opened(path) as store:
        made = [await begun(store) for _ in range(3)]
        for conversation in made:
            for number in range(COUNT):
                await store.append(offer(conversation, said(f"{number} {'x' * 3000}")))
            for number in range(3):
                await store.mark(conversation, WRITER, CompactedDraft(through_seq=Seq(number), summary=()))
    return made


def _tamper(path: Path, tampering: Tampering) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    tampering(connection)
    connection.close()


def _text(connection: sqlite3.Connection, seq: int) -> bytes:
    return connection.execute("SELECT text FROM messages WHERE number = ?", (BASE | seq,)).fetchone()[0]


def _change(connection: sqlite3.Connection, seq: int, text: bytes, *, also_hash: bool) -> None:
    connection.execute("UPDATE messages SET text = ? WHERE number = ?", (text, BASE | seq))
    if also_hash:
        connection.execute("UPDATE messages SET hash = ? WHERE number = ?", (chain.message_hash(text), BASE | seq))


def _swap(connection: sqlite3.Connection) -> None:
    for before, after in ((BASE | 3, BASE | 900), (BASE | 4, BASE | 3), (BASE | 900, BASE | 4)):
        connection.execute("UPDATE messages SET number = ? WHERE number = ?", (after, before))


def _forge_all(connection: sqlite3.Connection) -> None:
    """Change message 5 and make the chain after it agree: only the head still knows."""
    connection.execute("UPDATE messages SET text = replace(text, '4 xx', '4 yy') WHERE number = ?", (BASE | 5,))
    for seq in range(5, COUNT + 1):
        text = _text(connection, seq)
        text = text if isinstance(text, bytes) else text.encode()
        if seq > 5:
            start = text.index(b'"prev_hash":"') + 13
            before = chain.message_hash(_text(connection, seq - 1)).encode()
            text = text[:start] + before + text[start + 64 :]
        _change(connection, seq, text, also_hash=True)


def _found(one: ConversationReport) -> tuple[list[int], list[int], list[int], list[int]]:
    return (
        [damage.seq for damage in one.damaged],
        list(one.gaps),
        list(one.chain_breaks),
        [damage.seq for damage in one.marks_damaged],
    )


TAMPERINGS: dict[str, tuple[Tampering, tuple[list[int], list[int], list[int], list[int]]]] = {
    "changed text": (
        lambda c: _change(c, 5, _text(c, 5).replace(b"4 xx", b"4 yy"), also_hash=False),
        ([5], [], [], []),
    ),
    "changed text and hash": (
        lambda c: _change(c, 5, _text(c, 5).replace(b"4 xx", b"4 yy"), also_hash=True),
        ([], [], [6], []),
    ),
    "changed last message and hash": (
        lambda c: _change(c, COUNT, _text(c, COUNT).replace(b"11 xx", b"11 yy"), also_hash=True),
        ([COUNT], [], [], []),
    ),
    "the whole tail forged": (_forge_all, ([COUNT], [], [], [])),
    "text that is no JSON": (lambda c: _change(c, 5, b"{", also_hash=True), ([5], [], [6], [])),
    "swapped rows": (_swap, ([3, 4], [], [], [])),
    "deleted middle row": (lambda c: c.execute(f"DELETE FROM messages WHERE number = {BASE | 7}"), ([], [7], [], [])),
    "deleted first row": (lambda c: c.execute(f"DELETE FROM messages WHERE number = {BASE | 1}"), ([], [1], [], [])),
    "truncated tail": (
        lambda c: c.execute(f"DELETE FROM messages WHERE number > {BASE | 10} AND number < {3 << 32}"),
        ([], [11, 12], [], []),
    ),
    "a row of the wrong type": (
        lambda c: c.execute(f"UPDATE messages SET text = 'text, not bytes' WHERE number = {BASE | 2}"),
        ([2], [], [], []),
    ),
    "a row behind the head": (
        lambda c: c.execute(f"INSERT INTO messages VALUES ({BASE | 40}, 'msg', 'hash', x'00')"),
        ([40], [], [], []),
    ),
    "changed id": (
        lambda c: c.execute(f"UPDATE messages SET id = 'msg_other' WHERE number = {BASE | 2}"),
        ([2], [], [], []),
    ),
    "changed mark": (
        lambda c: c.execute(
            f"UPDATE marks SET text = CAST(replace(CAST(text AS TEXT), '\"through_seq\":1', '\"through_seq\":9')"
            f" AS BLOB) WHERE number = {BASE | 2}"
        ),
        ([], [], [], [2]),
    ),
    "deleted last mark": (lambda c: c.execute(f"DELETE FROM marks WHERE number = {BASE | 3}"), ([], [], [], [3])),
    "forgotten last mark": (
        lambda c: c.execute("UPDATE heads SET mark_count = 2 WHERE conversation = 2"),
        ([], [], [], [2]),
    ),
}


@pytest.mark.trio
@pytest.mark.parametrize("name", TAMPERINGS)
async def test_each_kind_of_tampering_is_found_where_it_is(tmp_path: Path, name: str) -> None:
    """The right seqs under the right heading; the other conversations verify to the last message."""
    tampering, due = TAMPERINGS[name]
    await _made(tmp_path / "s.db")
    assert _checked(tmp_path / "s.db").clean
    _tamper(tmp_path / "s.db", tampering)
    report = _checked(tmp_path / "s.db")
    assert not report.clean
    assert _found(report.conversations[1]) == due
    for other in (report.conversations[0], report.conversations[2]):
        assert other.clean
        assert (other.messages, other.verified, other.marks) == (COUNT, COUNT, 3)
    assert sum(map(len, due)) == len(report.lines()) - 1 - len(report.problems)
    assert report.as_json()["clean"] is False


@pytest.mark.trio
@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("DELETE FROM conversations WHERE number = 2", "number 2 is not there"),
        ("DELETE FROM conversations WHERE number = 3", "number 3 is not there"),
        ("UPDATE heads SET seq = 3 WHERE conversation = 2", "add up to"),
    ],
)
async def test_whole_conversations_do_not_vanish_unseen(tmp_path: Path, statement: str, word: str) -> None:
    """A conversation that is gone, or whose head was set back, is a problem of the store."""
    await _made(tmp_path / "s.db")
    _tamper(tmp_path / "s.db", lambda connection: connection.execute(statement))
    report = _checked(tmp_path / "s.db")
    assert any(word in problem for problem in report.problems), report.problems


@pytest.mark.trio
async def test_a_row_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """A reader gets the others around it, in both directions, with a DamagedRow in its place."""
    made = await _made(tmp_path / "s.db")
    _tamper(tmp_path / "s.db", lambda c: c.execute(f"UPDATE messages SET text = 'no bytes' WHERE number = {BASE | 3}"))
    _tamper(tmp_path / "s.db", lambda c: c.execute(f"DELETE FROM messages WHERE number = {BASE | 8}"))
    _tamper(tmp_path / "s.db", lambda c: c.execute(f"DELETE FROM messages WHERE number = {BASE | COUNT}"))
    async with opened(tmp_path / "s.db") as store:
        for descending in (False, True):
            page = await store.page(made[1], after=None, before=None, limit=100, descending=descending)
            seqs = [row.seq for row in page.rows]
            assert seqs == (list(range(COUNT, 0, -1)) if descending else list(range(1, COUNT + 1)))
            assert {row.seq for row in page.rows if isinstance(row, DamagedRow)} == {3, 8, COUNT}
        rest = await store.read_after(made[1], 7, limit_bytes=10**9)
        assert [row.seq for row in rest] == list(range(8, COUNT + 1))
        assert (await store.append(offer(made[1], said("goes on")))).last_seq == COUNT + 1


@pytest.mark.trio
async def test_a_torn_page_costs_its_own_rows_alone(tmp_path: Path) -> None:
    """Noise over one page of the file: its rows are reported as damaged, everything else is read and verified."""
    path = tmp_path / "s.db"
    made = await _made(path)
    page = path.read_bytes().index(b'"text": "4 xxx') // PAGE_BYTES
    with path.open("r+b") as file:
        file.seek(page * PAGE_BYTES)
        file.write(b"\xa5" * PAGE_BYTES)
    report = _checked(path)
    assert not report.clean
    assert any("SQLite" in problem for problem in report.problems)
    lost = {damage.seq for one in report.conversations for damage in one.damaged}
    assert sum(len(one.damaged) + len(one.gaps) for one in report.conversations) <= 3
    assert report.verified >= 3 * COUNT - 3
    assert lost
    async with opened(path) as store:
        damaged = 0
        for conversation in made:
            rows = (await whole(store, conversation)).rows
            assert [row.seq for row in rows] == list(range(1, COUNT + 1))
            damaged += sum(isinstance(row, DamagedRow) for row in rows)
            assert sum(isinstance(row, Row) for row in rows) >= COUNT - 3
        assert 1 <= damaged <= 3


@pytest.mark.trio
async def test_a_mark_that_cannot_be_read_is_never_left_out(tmp_path: Path) -> None:
    """Without a mark nobody knows what the model may see: reading marks fails by name."""
    made = await _made(tmp_path / "s.db")
    _tamper(tmp_path / "s.db", lambda c: c.execute(f"UPDATE marks SET text = x'7b' WHERE number = {BASE | 2}"))
    _tamper(tmp_path / "s.db", lambda c: c.execute(f"DELETE FROM marks WHERE number = {(3 << 32) | 2}"))
    async with opened(tmp_path / "s.db") as store:
        assert len(await store.marks(made[0])) == 3
        for conversation in made[1:]:
            with pytest.raises(StoreFailed, match="safd check"):
                await store.marks(conversation)


@pytest.mark.trio
async def test_check_runs_beside_the_daemon(tmp_path: Path) -> None:
    """While appends go on, everything that check looks at holds, and progress counts up to the end."""
    path = tmp_path / "s.db"
    async with opened(path) as store:
        conversation = await begun(store)
        await store.mark(conversation, WRITER, ClearedDraft(cleared=()))
        await store.append(offer(conversation, *[said("x")] * 2500))
        done = False

        async def go_on() -> None:
            while not done:
                await store.append(offer(conversation, said("y"), said("z")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on)
            for _ in range(5):
                told: list[tuple[int, int]] = []
                report = await trio.to_thread.run_sync(
                    check, path, lambda done, total, told=told: told.append((done, total))
                )
                assert report.clean, report.lines()
                assert report.messages == report.verified >= 2500
                assert told == sorted(told)
                assert (1000, told[0][1]) in told
                assert told[-1][0] >= told[-1][1]
            done = True


@pytest.mark.trio
async def test_what_is_no_store_is_not_checked(tmp_path: Path) -> None:
    """No file, an empty file, noise, and a newer store: a named cause, never a clean report."""
    path = tmp_path / "s.db"
    await _made(path)
    _tamper(path, lambda c: c.execute("INSERT INTO migrations VALUES (99, 'tomorrow', '')"))
    (tmp_path / "empty.db").touch()
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    for name, cause in (("none", StoreFailed), ("empty", StoreFailed), ("noise", StoreFailed), ("s", StoreNewer)):
        with pytest.raises(cause):
            _checked(tmp_path / f"{name}.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.trio
@pytest.mark.parametrize(
    "odd",
    [
        '{"role":"user","blocks":[{"type":"text","text":"\\ud800"}]}',
        '{"role":"user","blocks":[],"metadata":{"\\udfff":"\\ud800","n":1.10,"z":"\\u0000"}}',
        '{"role":"assistant","blocks":[{"type":"tool_use","id":"\\ud800","name":"x","input":{"k":"\\ud800"}}]}',
    ],
)
async def test_what_a_record_may_hold_is_no_damage(tmp_path: Path, odd: str) -> None:
    """Whatever the door takes verifies: half characters in every place, in messages and in a summary; and restores."""
    path = tmp_path / "s.db"
    async with opened(path) as store:
        conversation = await begun(store)
        await store.append(offer(conversation, odd, said("after")))
        await store.mark(conversation, WRITER, CompactedDraft(through_seq=Seq(1), summary=(Text(text="a\ud800b"),)))
        await store.mark(conversation, WRITER, CompactedDraft(through_seq=Seq(2), summary=(Text(text="b"),)))
    report = _checked(path)
    assert report.lines()[:-1] == []
    assert (report.verified, report.clean) == (2, True)
    backup(path, tmp_path / "saved.db", lambda done, total: None)
    assert restore(tmp_path / "saved.db", tmp_path / "again.db", lambda done, total: None).clean


@pytest.mark.trio
@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\x00", b"\xff\xfe", b"not json", b'{"id":"x"}', b"line\nfeed"],
    ids=["empty", "cut", "NUL", "not UTF-8", "not JSON", "another", "two lines"],
)
async def test_a_text_that_was_changed_goes_to_nobody(tmp_path: Path, text: bytes) -> None:
    """A reader is told that the row is damaged; what lies there is not handed on, and the others come whole."""
    path = tmp_path / "s.db"
    conversations = await _made(path)
    _tamper(path, lambda connection: _change(connection, 5, text, also_hash=False))
    async with opened(path) as store:
        page = await whole(store, conversations[1])
        assert [row.seq for row in page.rows if isinstance(row, DamagedRow)] == [5]
        assert sum(isinstance(row, Row) for row in page.rows) == COUNT - 1
        followed = await store.read_after(conversations[1], 0, limit_bytes=1 << 30)
        assert [row.seq for row in followed if isinstance(row, DamagedRow)] == [5]
