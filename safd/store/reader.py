"""Reading: pooled connections in threads of their own number, beside the writer and never in its way.

Seqs have no gaps, so what a page must hold is known from the record's head: a row that is absent or cannot be read
leaves a DamagedRow in its place, and the others follow.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar, cast

import attrs
import trio

from safd.model.chain import message_hash
from safd.model.errors import ConversationMissing, Malformed
from safd.model.failures import RowUnreadable, StoreFailed
from safd.model.ids import ConversationId, MessageId, Seq, Uid
from safd.model.marks import Mark
from safd.store import files, marktext, rows
from safd.store.port import AnyRow, Counts, DamagedRow, OpenTurn, Row, StoredText
from safd.store.rows import Column, Head
from safd.store.schema import SEQ_BITS

T = TypeVar("T")

CONNECTIONS = 4
_CHUNK = 256
_ALL = 1 << 31
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR})


@attrs.define(eq=False)
class Pool:
    """Read connections, made when needed, the warmest first."""

    _path: Path
    _idle: list[sqlite3.Connection] = attrs.field(factory=list[sqlite3.Connection])
    _closed: bool = False
    _limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(CONNECTIONS))

    async def run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """`read` in a thread. Raises what it raises; SQLite's errors as StoreFailed."""
        return await trio.to_thread.run_sync(self._run, read, limiter=self._limiter)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = files.connect_reader(self._path)
            try:
                return read(connection)
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error


def head(connection: sqlite3.Connection, conversation: ConversationId) -> Head:
    row = rows.fetch(connection, rows.CONVERSATION_BY_ID, (conversation,))
    if row is None:
        raise ConversationMissing(conversation=conversation)
    return rows.head(row)


def heads(
    connection: sqlite3.Connection,
    *,
    owner: Uid | None,
    agent: str | None,
    archived: bool,
    after: ConversationId | None,
    limit: int,
) -> tuple[Head, ...]:
    below = _ALL if after is None else head(connection, after).number
    found = connection.execute(rows.CONVERSATIONS, (below, archived, owner, rows.kept(agent), limit)).fetchall()
    return tuple(map(rows.head, found))


def messages(
    connection: sqlite3.Connection, number: int, first: int, last: int, *, limit_bytes: int, descending: bool = False
) -> list[AnyRow]:
    """The rows of `first` to `last`, in the order asked for, until `limit_bytes` are met; at least one."""
    try:
        return _scan(connection, number, first, last, limit_bytes, descending=descending)
    except sqlite3.DatabaseError as error:
        if files.primary_code(error) not in _DAMAGE:
            raise
    found: list[AnyRow] = []
    size = 0
    for seq in range(last, first - 1, -1) if descending else range(first, last + 1):
        row = _single(connection, number, seq)
        found.append(row)
        size += len(row.text) if isinstance(row, Row) else 0
        if size >= limit_bytes:
            break
    return found


def _scan(
    connection: sqlite3.Connection, number: int, first: int, last: int, limit_bytes: int, *, descending: bool
) -> list[AnyRow]:
    base = number << SEQ_BITS
    due, end, step, order = (last, first - 1, -1, "DESC") if descending else (first, last + 1, 1, "ASC")
    found: list[AnyRow] = []
    size = 0
    with closing(
        connection.execute(
            f"SELECT number - ?, id, hash, text FROM messages WHERE number BETWEEN ? AND ? ORDER BY number {order}",  # noqa: S608 -- a constant
            (base, base | first, base | last),
        )
    ) as cursor:
        for seq, id_, hash_, text in cursor:
            if seq != due:
                found.extend(map(_absent, range(due, seq, step)))
            due = seq + step
            row = _row(seq, id_, hash_, text)
            found.append(row)
            if type(row) is Row:
                size += len(text)
                if size >= limit_bytes:
                    return found
    found.extend(map(_absent, range(due, end, step)))
    return found


def _single(connection: sqlite3.Connection, number: int, seq: int) -> AnyRow:
    try:
        found = rows.fetch(
            connection, "SELECT id, hash, text FROM messages WHERE number = ?", (number << SEQ_BITS | seq,)
        )
    except sqlite3.DatabaseError as error:
        if files.primary_code(error) not in _DAMAGE:
            raise
        return _damaged(seq, f"SQLite says: {error}")
    return _absent(seq) if found is None else _row(seq, *found)


def _row(seq: int, id_: Column, hash_: Column, text: Column) -> AnyRow:
    """A text that is not the one that was stored goes to nobody: it might not even be JSON."""
    if not (type(text) is bytes and type(id_) is str):
        return _damaged(seq, "its columns do not hold what was written")
    if message_hash(text) != hash_:
        return _damaged(seq, "its text is not the text that was stored")
    return Row(seq=Seq(seq), id=MessageId(id_), text=StoredText(text))


def _absent(seq: int) -> DamagedRow:
    return _damaged(seq, "the row is not there")


def _damaged(seq: int, reason: str) -> DamagedRow:
    return DamagedRow(seq=Seq(seq), code=RowUnreadable.code, reason=reason)


def marks(connection: sqlite3.Connection, path: Path, conversation: ConversationId) -> tuple[Mark, ...]:
    """Raises StoreFailed where one cannot be read: without it nobody knows what the model may see."""
    found = head(connection, conversation)
    base = found.number << SEQ_BITS
    texts = connection.execute(
        "SELECT text FROM marks WHERE number BETWEEN ? AND ? ORDER BY number", (base | 1, base | found.mark_count)
    ).fetchall()
    if len(texts) != found.mark_count:
        raise StoreFailed(path=str(path), reason=f"a mark of {conversation} is not there; run safd check")
    try:
        return tuple(marktext.parse(text) for (text,) in texts)
    except Malformed as error:
        raise StoreFailed(path=str(path), reason=f"a mark of {conversation} cannot be read; run safd check") from error


def open_turns(connection: sqlite3.Connection) -> tuple[OpenTurn, ...]:
    return tuple(map(rows.open_turn, connection.execute(rows.OPEN_TURNS).fetchall()))


def counts(connection: sqlite3.Connection) -> Counts:
    found = rows.fetch(connection, "SELECT conversations, messages FROM totals")
    if found is None:
        return Counts(conversations=0, messages=0)
    return Counts(conversations=cast(int, found[0]), messages=cast(int, found[1]))
