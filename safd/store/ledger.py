"""What each kind of writing does inside the open transaction: check first, then write.

A refusal is raised before anything was written, so it never harms the others in the batch. Heads that move are
staged copies until the commit: `settle` writes them, `keep` makes them the truth, `forget` drops everything that is
remembered, so that after a failure only the disk is believed. Used by the writer's thread alone.
"""

import copy
import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import assert_never, cast

import attrs

from safd.model import chain, codec, ids
from safd.model.conversations import Conversation
from safd.model.errors import (
    ConversationArchived,
    ConversationMissing,
    IdempotencyKeyReused,
    MarkMissing,
    SeqConflict,
    TurnAlreadyOpen,
    TurnMissing,
    TurnMoveRefused,
)
from safd.model.failures import RowUnreadable, StoreFailed
from safd.model.ids import ConversationId, MarkId, MessageId, Seq, TurnId
from safd.model.marks import Cleared, Compacted, Mark, Restored
from safd.model.messages import Writer
from safd.model.moments import rfc3339
from safd.model.turns import LIVE, MOVES, Turn, TurnState
from safd.store import files, marktext, rows
from safd.store.port import (
    ClearedDraft,
    CompactedDraft,
    Draft,
    MarkDraft,
    Offer,
    Process,
    Receipt,
    RestoredDraft,
    Row,
    StoredText,
)
from safd.store.rows import Head, Numbered
from safd.store.schema import SEQ_BITS

HEADS_REMEMBERED = 4096


@attrs.frozen(kw_only=True)
class Appended:
    """A receipt, and the rows that are new with it."""

    receipt: Receipt
    rows: tuple[Row, ...]


@attrs.define(eq=False)
class Ledger:
    connection: sqlite3.Connection
    path: Path
    clock: Callable[[], int]
    random: Callable[[int], bytes]
    identity: tuple[int, int]
    _now_ms: int = 0
    _now: str = ""
    _kept: OrderedDict[ConversationId, Head] = attrs.field(factory=OrderedDict[ConversationId, Head])
    _staged: dict[ConversationId, Head] = attrs.field(factory=dict[ConversationId, Head])
    _messages: int = 0
    _conversations: int = 0

    # --- the transaction

    def begin(self) -> None:
        """One moment holds for the whole transaction. Raises StoreFailed where nobody would find what is written."""
        self._must_be_there()
        self._now_ms = self.clock()
        self._now = rfc3339(self._now_ms)
        self.connection.execute("BEGIN IMMEDIATE")

    def _must_be_there(self) -> None:
        """A file that was removed or replaced goes on taking commits, which end with the process."""
        try:
            there = files.identity(self.path) == self.identity
        except OSError:
            there = False
        if not there:
            reason = "the file that was opened is not there any more; restart safd on the one that is"
            raise StoreFailed(path=str(self.path), reason=reason)

    def settle(self) -> tuple[Numbered, ...]:
        """Write the heads that moved, and commit: after this the batch is on disk. Gives what moved."""
        moved = [head for head in self._staged.values() if head.moved]
        if moved:
            self.connection.executemany(
                "UPDATE heads SET seq = ?, hash = ?, updated_at = ?, archived_at = ?, mark_count = ?, mark_hash = ?,"
                " turn = ? WHERE conversation = ?",
                [
                    (
                        head.seq,
                        head.hash,
                        head.updated_at,
                        head.archived_at,
                        head.mark_count,
                        head.mark_hash,
                        head.turn_number,
                        head.number,
                    )
                    for head in moved
                ],
            )
        if self._messages or self._conversations:
            self.connection.execute(
                "UPDATE totals SET conversations = conversations + ?, messages = messages + ?",
                (self._conversations, self._messages),
            )
        self.connection.execute("COMMIT")
        for head in self._staged.values():
            head.moved = False
            self._kept[head.id] = head
            self._kept.move_to_end(head.id)
        while len(self._kept) > HEADS_REMEMBERED:
            self._kept.popitem(last=False)
        self._unstage()
        return tuple(head.numbered() for head in moved)

    def forget(self) -> None:
        """The transaction failed: undo it, and believe nothing but the disk."""
        self._unstage()
        self._kept.clear()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _unstage(self) -> None:
        self._staged = {}
        self._messages = self._conversations = 0

    # --- messages

    def append(self, offer: Offer) -> Appended:
        head = self._head(offer.conversation)
        body = None
        if offer.idempotency_key is not None:
            body = _digest(offer.texts)
            earlier = self._repeated(head, offer.idempotency_key, body)
            if earlier is not None:
                return Appended(receipt=earlier, rows=())
        if head.archived_at is not None:
            raise ConversationArchived(conversation=head.id)
        if offer.expected_seq is not None and offer.expected_seq != head.seq:
            raise SeqConflict(expected_seq=offer.expected_seq, head_seq=head.seq)
        made, inserts, last_hash = self._chained(head, offer)
        self.connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", inserts)
        first, last = head.seq + 1, head.seq + len(made)
        if body is not None:
            self.connection.execute(
                "INSERT INTO append_keys VALUES (?, ?, ?, ?, ?)",
                (head.number, rows.kept(offer.idempotency_key), body, first, last),
            )
        head.seq, head.hash = last, last_hash
        self._move(head)
        self._messages += len(made)
        return Appended(receipt=_receipt(first, last, tuple(row.id for row in made), fresh=True), rows=tuple(made))

    def _chained(self, head: Head, offer: Offer) -> tuple[list[Row], list[tuple[int, str, str, bytes]], str]:
        count = len(offer.texts)
        noise = self.random(ids.RANDOM_BYTES * count)
        number, prev_hash = head.number << SEQ_BITS, head.hash
        made: list[Row] = []
        inserts: list[tuple[int, str, str, bytes]] = []
        for index, offered in enumerate(offer.texts):
            seq = Seq(head.seq + 1 + index)
            id_ = MessageId(ids.mint(ids.MESSAGE, self._now_ms, noise[index * ids.RANDOM_BYTES :][: ids.RANDOM_BYTES]))
            text = codec.render_stored(
                id_=id_, seq=seq, recorded_at=self._now, writer=offer.writer, prev_hash=prev_hash, offered=offered
            )
            prev_hash = chain.message_hash(text)
            made.append(Row(seq=seq, id=id_, text=StoredText(text)))
            inserts.append((number | seq, id_, prev_hash, text))
        return made, inserts, prev_hash

    def _repeated(self, head: Head, key: str, body: bytes) -> Receipt | None:
        """The first answer of a key, if it was used before."""
        found = rows.fetch(
            self.connection,
            "SELECT body, first_seq, last_seq FROM append_keys WHERE conversation = ? AND key = ?",
            (head.number, rows.kept(key)),
        )
        if found is None:
            return None
        if found[0] != body:
            raise IdempotencyKeyReused(key=key)
        first, last = cast(int, found[1]), cast(int, found[2])
        number = head.number << SEQ_BITS
        made = self.connection.execute(
            "SELECT id FROM messages WHERE number BETWEEN ? AND ? ORDER BY number", (number | first, number | last)
        ).fetchall()
        if len(made) != last - first + 1:
            raise RowUnreadable(
                conversation=head.id, seq=first, reason="not every message of the first append is there"
            )
        return _receipt(first, last, tuple(MessageId(id_) for (id_,) in made), fresh=False)

    # --- conversations

    def create(self, draft: Draft) -> Conversation:
        body = _digest("-" if part is None else f"+{part}" for part in (draft.agent, draft.title, draft.metadata))
        if draft.idempotency_key is not None:
            found = rows.fetch(
                self.connection,
                "SELECT body, id FROM create_keys JOIN conversations ON number = conversation"
                " WHERE create_keys.owner_uid = ? AND key = ?",
                (draft.owner.uid, rows.kept(draft.idempotency_key)),
            )
            if found is not None:
                if found[0] != body:
                    raise IdempotencyKeyReused(key=draft.idempotency_key)
                return self._head(ConversationId(cast(str, found[1]))).conversation()
        (number,) = self.connection.execute("SELECT coalesce(max(number), 0) + 1 FROM conversations").fetchone()
        id_ = ConversationId(ids.mint(ids.CONVERSATION, self._now_ms, self.random(ids.RANDOM_BYTES)))
        head = Head(
            number=number,
            id=id_,
            agent=draft.agent,
            owner=draft.owner,
            title=draft.title,
            metadata=draft.metadata,
            created_at=self._now,
            seq=0,
            hash=chain.genesis(id_),
            updated_at=self._now,
            archived_at=None,
            mark_count=0,
            mark_hash=marktext.genesis(id_),
            turn_number=None,
            turn=None,
        )
        self._insert(head)
        if draft.idempotency_key is not None:
            self.connection.execute(
                "INSERT INTO create_keys VALUES (?, ?, ?, ?)",
                (draft.owner.uid, rows.kept(draft.idempotency_key), body, number),
            )
        self._staged[id_] = head
        self._move(head)
        self._conversations += 1
        return head.conversation()

    def _insert(self, head: Head) -> None:
        self.connection.execute(
            "INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                head.number,
                head.id,
                rows.kept(head.agent),
                head.owner.uid,
                rows.kept(head.owner.account),
                rows.kept(head.title),
                rows.kept(head.metadata),
                head.created_at,
            ),
        )
        self.connection.execute(
            "INSERT INTO heads VALUES (?, ?, ?, ?, NULL, ?, ?, NULL)",
            (head.number, head.seq, head.hash, head.updated_at, head.mark_count, head.mark_hash),
        )

    def archive(self, conversation: ConversationId, *, archived: bool) -> Conversation:
        """Archiving what is archived keeps the first moment."""
        head = self._head(conversation)
        if archived != (head.archived_at is not None):
            head.archived_at = self._now if archived else None
            self._move(head)
        return head.conversation()

    # --- marks

    def mark(self, conversation: ConversationId, writer: Writer, draft: MarkDraft) -> Mark:
        head = self._head(conversation)
        if head.archived_at is not None:
            raise ConversationArchived(conversation=head.id)
        made = self._drafted(head, writer, draft)
        text = marktext.render(made, head.mark_hash)
        hash_ = chain.message_hash(text)
        self.connection.execute(
            "INSERT INTO marks VALUES (?, ?, ?, ?)",
            (head.number << SEQ_BITS | head.mark_count + 1, made.id, hash_, text),
        )
        head.mark_count, head.mark_hash = head.mark_count + 1, hash_
        self._move(head)
        return made

    def _drafted(self, head: Head, writer: Writer, draft: MarkDraft) -> Mark:
        id_ = MarkId(ids.mint(ids.MARK, self._now_ms, self.random(ids.RANDOM_BYTES)))
        at_seq, now = Seq(head.seq), self._now
        match draft:
            case ClearedDraft():
                return Cleared(id=id_, at_seq=at_seq, recorded_at=now, writer=writer, cleared=draft.cleared)
            case RestoredDraft():
                self._require_cleared(head, draft.mark)
                return Restored(id=id_, at_seq=at_seq, recorded_at=now, writer=writer, mark=draft.mark)
            case CompactedDraft():
                return Compacted(
                    id=id_,
                    at_seq=at_seq,
                    recorded_at=now,
                    writer=writer,
                    through_seq=draft.through_seq,
                    summary=draft.summary,
                )
            case _ as never:
                assert_never(never)

    def _require_cleared(self, head: Head, mark: MarkId) -> None:
        found = rows.fetch(
            self.connection, "SELECT text FROM marks WHERE id = ? AND number >> ? = ?", (mark, SEQ_BITS, head.number)
        )
        if found is None or not isinstance(marktext.parse(cast(bytes, found[0])), Cleared):
            raise MarkMissing(mark=mark)

    # --- turns

    def open_turn(self, turn: Turn, process: Process | None) -> Turn:
        head = self._head(turn.conversation)
        if head.archived_at is not None:
            raise ConversationArchived(conversation=head.id)
        if head.turn is not None and head.turn.state in LIVE:
            raise TurnAlreadyOpen(turn=head.turn.id)
        opened = attrs.evolve(turn, after_seq=Seq(head.seq))
        cursor = self.connection.execute(
            "INSERT INTO turns VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                opened.id,
                head.number,
                opened.state.value,
                rows.kept(opened.agent),
                opened.uid,
                opened.after_seq,
                opened.opened_at,
                opened.ended_at,
                rows.kept(opened.reason),
                None if process is None else process.pid,
                None if process is None else process.start_ticks,
                None if process is None else process.boot_id,
            ),
        )
        head.turn_number, head.turn = cursor.lastrowid, opened
        self._move(head)
        return opened

    def move_turn(self, conversation: ConversationId, turn: TurnId, state: TurnState, *, reason: str | None) -> Turn:
        head = self._head(conversation)
        found = rows.fetch(
            self.connection,
            f"SELECT number, {rows.TURN_COLUMNS} FROM turns WHERE id = ? AND conversation = ?",  # noqa: S608 -- a constant
            (turn, head.number),
        )
        if found is None:
            raise TurnMissing(turn=turn)
        before = rows.turn(head.id, found[1:])
        if state not in MOVES[before.state]:
            raise TurnMoveRefused(turn=turn, state=before.state.value, wanted=state.value)
        moved = attrs.evolve(before, state=state, reason=reason, ended_at=None if state in LIVE else self._now)
        self.connection.execute(
            "UPDATE turns SET state = ?, reason = ?, ended_at = ? WHERE number = ?",
            (moved.state.value, rows.kept(moved.reason), moved.ended_at, found[0]),
        )
        if found[0] == head.turn_number:
            head.turn = moved
            self._move(head)
        return moved

    # --- heads

    def _head(self, conversation: ConversationId) -> Head:
        """The staged head: what this transaction sees."""
        head = self._staged.get(conversation)
        if head is None:
            before = self._kept.get(conversation)
            head = self._load(conversation) if before is None else copy.copy(before)
            self._staged[conversation] = head
        return head

    def _load(self, conversation: ConversationId) -> Head:
        row = rows.fetch(self.connection, rows.CONVERSATION_BY_ID, (conversation,))
        if row is None:
            raise ConversationMissing(conversation=conversation)
        return rows.head(row)

    def _move(self, head: Head) -> None:
        head.updated_at = self._now
        head.moved = True


def _receipt(first: int, last: int, made: tuple[MessageId, ...], *, fresh: bool) -> Receipt:
    return Receipt(first_seq=Seq(first), last_seq=Seq(last), ids=made, head_seq=Seq(last), fresh=fresh)


def _digest(parts: Iterable[str]) -> bytes:
    """One hash of texts in order, each with its length before it, so that no two lists look alike."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw))
        digest.update(raw)
    return digest.digest()


def open_ledger(path: Path, clock: Callable[[], int], random: Callable[[int], bytes]) -> Ledger:
    """Connect for writing. Raises what SQLite raises."""
    return Ledger(files.connect_writer(path), path, clock, random, files.identity(path))
