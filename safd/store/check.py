"""Verify a store: every message against its hash and the one before it, every record against its head.

Reads only, also beside a running daemon: a record's rows up to its head never change, so no long snapshot is held.
What cannot be read is reported, and the rest is read on.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import cast

import attrs
import msgspec

from safd.model import chain, spans
from safd.model.errors import FieldMissing, Malformed
from safd.model.ids import ConversationId
from safd.model.spans import JsonObject
from safd.store import files, marktext, rows, schema
from safd.store.rows import Columns, Head
from safd.store.schema import SEQ_BITS

Progress = Callable[[int, int], None]

_CHUNK = 1000
_PROBLEMS = 100
_ABSENT = "the row is not there"


@attrs.frozen(kw_only=True)
class Damage:
    """`seq` of the message, or the number of the mark, from 1."""

    seq: int
    reason: str


@attrs.frozen(kw_only=True)
class ConversationReport:
    """`verified` of `messages` hold; `gaps` are rows that are gone; `chain_breaks` do not follow the one before."""

    id: ConversationId
    messages: int
    verified: int
    damaged: tuple[Damage, ...]
    gaps: tuple[int, ...]
    chain_breaks: tuple[int, ...]
    marks: int
    marks_damaged: tuple[Damage, ...]

    @property
    def clean(self) -> bool:
        return not (self.damaged or self.gaps or self.chain_breaks or self.marks_damaged)

    def lines(self) -> list[str]:
        """One line per finding."""
        found = [f"message {one.seq}: {one.reason}" for one in self.damaged]
        found += [f"message {seq}: {_ABSENT}" for seq in self.gaps]
        found += [f"message {seq}: does not follow the message before it" for seq in self.chain_breaks]
        found += [f"mark {one.seq}: {one.reason}" for one in self.marks_damaged]
        return [f"{self.id} {line}" for line in found]


@attrs.frozen(kw_only=True)
class Report:
    """`problems` concern the store as a whole."""

    path: str
    schema: int
    conversations: tuple[ConversationReport, ...]
    problems: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.problems and all(one.clean for one in self.conversations)

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.conversations)

    @property
    def verified(self) -> int:
        return sum(one.verified for one in self.conversations)

    def lines(self) -> list[str]:
        """For people: every finding, then the sum."""
        found = list(self.problems)
        for one in self.conversations:
            found += one.lines()
        verdict = "everything holds" if self.clean else "NOT everything holds"
        total = f"{self.verified} of {self.messages} messages in {len(self.conversations)} conversations verified"
        return [*found, f"{self.path}: {total}; {verdict}."]

    def as_json(self) -> JsonObject:
        found = cast(JsonObject, attrs.asdict(self))
        return found | {"messages": self.messages, "verified": self.verified, "clean": self.clean}


class _StoredHead(msgspec.Struct):
    id: str
    seq: int
    prev_hash: str


_decode_head = msgspec.json.Decoder(_StoredHead).decode


def check(path: Path, progress: Progress) -> Report:
    """`progress(done, total)` counts messages. Raises StoreFailed, StoreNewer where there is no store to check."""
    with files.reading(path) as connection:
        found = schema.known_version(connection, path)
        problems = _structure(connection)
        conversations, messages = _totals(connection, problems)
        reports: list[ConversationReport] = []
        done = 0
        for number in range(1, conversations + 1):
            head = _head(connection, number, problems)
            if head is None:
                continue
            reports.append(_conversation(connection, head, partial(_told, progress, done, messages)))
            done += head.seq
            progress(done, messages)
        return Report(path=str(path), schema=found, conversations=tuple(reports), problems=tuple(problems))


def _told(progress: Progress, done: int, total: int, seq: int) -> None:
    progress(done + seq, total)


def _structure(connection: sqlite3.Connection) -> list[str]:
    """What SQLite itself finds wrong with its pages."""
    try:
        found = connection.execute(f"PRAGMA quick_check({_PROBLEMS})").fetchall()
    except sqlite3.DatabaseError as error:
        return [f"SQLite cannot walk the file: {error}"]
    return [f"SQLite: {line}" for (line,) in found if line != "ok"]


def _totals(connection: sqlite3.Connection, problems: list[str]) -> tuple[int, int]:
    """How many conversations and messages there must be; the larger number where two sources disagree."""
    try:
        row = rows.fetch(
            connection,
            "SELECT totals.conversations, totals.messages, (SELECT count(*) FROM conversations),"
            " (SELECT coalesce(sum(seq), 0) FROM heads), (SELECT coalesce(max(number), 0) FROM conversations)"
            " FROM totals",
        )
    except sqlite3.DatabaseError as error:
        problems.append(f"the totals cannot be read: {error}")
        row = None
    if row is None:
        (highest,) = connection.execute("SELECT coalesce(max(number), 0) FROM conversations").fetchone()
        return highest, 0
    conversations, messages, counted, summed, highest = cast("tuple[int, int, int, int, int]", row)
    if counted != conversations:
        problems.append(f"the store counts {conversations} conversations, but {counted} are there")
    if summed != messages:
        problems.append(f"the store counts {messages} messages, but the records' heads add up to {summed}")
    return max(conversations, highest), max(messages, summed)


def _head(connection: sqlite3.Connection, number: int, problems: list[str]) -> Head | None:
    try:
        row = rows.fetch(connection, rows.CONVERSATION_BY_NUMBER, (number,))
    except sqlite3.DatabaseError as error:
        problems.append(f"conversation number {number} cannot be read: {error}")
        return None
    if row is None:
        problems.append(f"conversation number {number} is not there")
        return None
    return rows.head(row)


def _conversation(connection: sqlite3.Connection, head: Head, progress: Callable[[int], None]) -> ConversationReport:
    damaged: list[Damage] = []
    gaps: list[int] = []
    breaks: list[int] = []
    verified = 0
    before: str | None = chain.genesis(head.id)
    for seq, row in _rows(connection, "messages", head.number, head.seq):
        if row is None:
            gaps.append(seq)
            before = None
            continue
        reason, before_it, before = _message(seq, row, before)
        if reason is not None:
            damaged.append(Damage(seq=seq, reason=reason))
        elif not before_it:
            breaks.append(seq)
        else:
            verified += 1
        if seq % _CHUNK == 0:
            progress(seq)
    if before is not None and before != head.hash:
        damaged.append(Damage(seq=head.seq, reason="the head of the record names another last message"))
    damaged += _beyond(connection, head)
    return ConversationReport(
        id=head.id,
        messages=head.seq,
        verified=verified,
        damaged=tuple(damaged),
        gaps=tuple(gaps),
        chain_breaks=tuple(breaks),
        marks=head.mark_count,
        marks_damaged=tuple(_marks(connection, head)),
    )


def _message(seq: int, row: Columns | str, before: str | None) -> tuple[str | None, bool, str | None]:
    """What is wrong with a row itself, whether it follows the one before, and what the next one must name.

    `before` None: the one before could not be read, so nothing is held against this one.
    """
    if isinstance(row, str):
        return row, True, None
    _, id_, hash_, text = row
    if not (isinstance(id_, str) and isinstance(hash_, str) and isinstance(text, bytes)):
        return "its columns do not hold what was written", True, None
    if chain.message_hash(text) != hash_:
        return "its text is not the text that was stored", True, hash_
    try:
        named, number, link = _named(text)
    except Malformed as error:
        return f"its text is not a stored message: {error}", True, hash_
    if (number, named) != (seq, id_):
        return f"here stands message {number}, {named}", True, None
    return None, before is None or link == before, hash_


def _named(text: bytes) -> tuple[object, object, object]:
    """What a stored message says of itself: its id, seq and the hash before it. Raises Malformed."""
    try:
        found = _decode_head(text)
    except msgspec.MsgspecError:  # also an escaped lone surrogate, which that decoder does not pass over
        members = spans.members(spans.whole(spans.decode_utf8(text, "")))
        id_, seq, link = (spans.value(_needed(members, name)) for name in ("id", "seq", "prev_hash"))
        return id_, seq, link
    return found.id, found.seq, found.prev_hash


def _needed(members: dict[str, spans.Span], name: str) -> spans.Span:
    if name not in members:
        raise FieldMissing(path=name)
    return members[name]


def _beyond(connection: sqlite3.Connection, head: Head) -> list[Damage]:
    """Rows behind the head, as it is when they are looked for."""
    base = head.number << SEQ_BITS
    try:
        found = connection.execute(
            "SELECT number - ? FROM messages, heads WHERE conversation = ? AND number > ? + seq AND number < ? LIMIT ?",
            (base, head.number, base, base + (1 << SEQ_BITS), _PROBLEMS),
        ).fetchall()
    except sqlite3.DatabaseError as error:
        return [Damage(seq=head.seq, reason=f"what follows the head cannot be read: {error}")]
    return [Damage(seq=seq, reason="it stands behind the head of the record") for (seq,) in found]


def _marks(connection: sqlite3.Connection, head: Head) -> Generator[Damage, None, None]:
    before: str | None = marktext.genesis(head.id)
    for number, row in _rows(connection, "marks", head.number, head.mark_count):
        reason, before = _mark(row, before)
        if reason is not None:
            yield Damage(seq=number, reason=reason)
    if before is not None and before != head.mark_hash:
        yield Damage(seq=head.mark_count, reason="the conversation names another last mark")


def _mark(row: Columns | str | None, before: str | None) -> tuple[str | None, str | None]:
    if row is None or isinstance(row, str):
        return row or _ABSENT, None
    _, id_, hash_, text = row
    if not (isinstance(hash_, str) and isinstance(text, bytes)):
        return "its columns do not hold what was written", None
    if chain.message_hash(text) != hash_:
        return "its text is not the text that was stored", hash_
    try:
        mark, link = marktext.parse(text), marktext.prev_hash(text)
    except Malformed as error:
        return f"its text is not a stored mark: {error}", hash_
    if mark.id != id_:
        return f"here stands {mark.id}", None
    if before is not None and link != before:
        return "does not follow the mark before it", hash_
    return None, hash_


def _rows(
    connection: sqlite3.Connection, table: str, number: int, last: int
) -> Generator[tuple[int, Columns | str | None], None, None]:
    """Each seq from 1 with its row, with None where it is not there, with SQLite's complaint where there is one."""
    base = number << SEQ_BITS
    select = f"SELECT number - {base}, id, hash, text FROM {table} WHERE number"  # noqa: S608 -- our own names
    seq = 1
    while seq <= last:
        until = min(seq + _CHUNK - 1, last)
        try:
            with closing(
                connection.execute(f"{select} BETWEEN ? AND ? ORDER BY number", (base | seq, base | until))
            ) as cursor:
                for row in cursor:
                    while seq < row[0]:
                        yield seq, None
                        seq += 1
                    yield seq, row
                    seq += 1
            while seq <= until:
                yield seq, None
                seq += 1
        except sqlite3.DatabaseError:
            yield seq, _single(connection, f"{select} = ?", base | seq)
            seq += 1


def _single(connection: sqlite3.Connection, select: str, number: int) -> Columns | str | None:
    try:
        return rows.fetch(connection, select, (number,))
    except sqlite3.DatabaseError as error:
        return f"SQLite cannot read it: {error}"
