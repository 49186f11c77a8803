"""The store on SQLite: one writer, many readers, and in memory where each conversation stands."""

import sqlite3
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from safd.model.conversations import Conversation
from safd.model.ids import ConversationId, TurnId, Uid
from safd.model.marks import Mark
from safd.model.messages import Writer as MessageWriter
from safd.model.moments import rfc3339
from safd.model.turns import Turn, TurnState
from safd.settings import Limits
from safd.store import files, reader, schema
from safd.store.ledger import Appended, Ledger, open_ledger
from safd.store.port import AnyRow, Committed, Counts, Draft, MarkDraft, Offer, OpenTurn, Page, Process, Receipt
from safd.store.reader import Pool
from safd.store.rows import Head, Numbered
from safd.store.writer import Writer

T = TypeVar("T")

PAGE_BYTES = 64 * 1024 * 1024
"""A page ends here even if its limit allows more messages; `has_more` says so."""
KNOWN_CONVERSATIONS = 4096
_SMALL_BYTES = 4096


@asynccontextmanager
async def open_store(
    path: Path,
    *,
    limits: Limits,
    clock: Callable[[], int],
    random: Callable[[int], bytes],
    on_committed: Committed,
) -> "AsyncGenerator[SqliteStore, None]":
    """Own the store at `path` for the length of the block; everything that was queued is committed before its end.

    `clock` (Unix milliseconds) and `random` are called in the writer's thread.
    Raises StoreLocked, StoreNewer, StoreFailed, DiskFull.
    """
    files.refuse_odd(path)
    schema.refuse_others(path)
    with files.locked(path):
        files.create(path)
        ledger = await trio.to_thread.run_sync(_open, path, clock, random)
        store = SqliteStore(path, ledger, limits, on_committed)
        store.start()
        try:
            yield store
        finally:
            await store.close()


def _open(path: Path, clock: Callable[[], int], random: Callable[[int], bytes]) -> Ledger:
    with _translated(path):
        ledger = open_ledger(path, clock, random)
        try:
            schema.migrate(ledger.connection, path, rfc3339(clock()))
            files.keep_private(path)
            files.grow_wal(ledger.connection, path)
        except BaseException:
            ledger.connection.close()
            raise
        return ledger


@contextmanager
def _translated(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except sqlite3.Error as error:
        raise files.translate(error, path) from error


def _nothing_to_tell(_: object) -> None:
    """What landed is told by the conversation that moved."""


@attrs.define(eq=False)
class Known:
    """Conversations as the last commit that landed left them, least recently used out.

    What a reader loads may be older than a commit that lands meanwhile. So while a load is under way its
    conversation is held: a commit finds its place, stays, and wins over the load.
    """

    _found: OrderedDict[ConversationId, Numbered] = attrs.field(factory=OrderedDict[ConversationId, Numbered])
    _held: Counter[ConversationId] = attrs.field(factory=Counter[ConversationId])

    def get(self, conversation: ConversationId) -> Numbered | None:
        """Its number and itself."""
        found = self._found.get(conversation)
        if found is not None:
            self._found.move_to_end(conversation)
        return found

    def landed(self, moved: tuple[Numbered, ...]) -> None:
        for number, conversation in moved:
            found = self._found.get(conversation.id)
            if found is not None and found[1].head_seq > conversation.head_seq:
                continue  # a load saw a later commit, which lands next
            self._found[conversation.id] = number, conversation
            self._found.move_to_end(conversation.id)
        self._shrink()

    @contextmanager
    def held(self, conversation: ConversationId) -> Generator[None, None, None]:
        self._held[conversation] += 1
        try:
            yield
        finally:
            self._held[conversation] -= 1
            if not self._held[conversation]:
                del self._held[conversation]

    def loaded(self, number: int, conversation: Conversation) -> Numbered:
        """Inside `held`."""
        found = self._found.setdefault(conversation.id, (number, conversation))
        self._shrink()
        return found

    def _shrink(self) -> None:
        surplus = len(self._found) - KNOWN_CONVERSATIONS
        if surplus > 0:
            for one in [one for one in self._found if one not in self._held][:surplus]:
                del self._found[one]


@attrs.define(eq=False)
class SqliteStore:
    """Implements `safd.store.port.Store`; made by `open_store`."""

    _path: Path
    _ledger: Ledger
    _limits: Limits
    _on_committed: Committed
    _known: Known = attrs.field(factory=Known)
    _readers: Pool = attrs.field(init=False)
    _writer: Writer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._readers = Pool(self._path)
        self._writer = Writer(
            self._ledger, self._limits.store_queue, self._limits.store_queue_bytes, self._known.landed
        )

    def start(self) -> None:
        self._writer.start()

    async def close(self) -> None:
        self._readers.close()  # first, so that the writer's connection is the last and empties the log
        await self._writer.close()

    def known(self, conversation: ConversationId) -> Conversation | None:
        found = self._known.get(conversation)
        return None if found is None else found[1]

    async def conversation(self, conversation: ConversationId) -> Conversation:
        return (await self._find(conversation))[1]

    async def conversations(
        self, *, owner: Uid | None, agent: str | None, archived: bool, after: ConversationId | None, limit: int
    ) -> tuple[Conversation, ...]:
        found = await self._readers.run(
            partial(reader.heads, owner=owner, agent=agent, archived=archived, after=after, limit=limit)
        )
        return tuple(map(Head.conversation, found))

    async def create(self, draft: Draft) -> Conversation:
        return await self._write(lambda ledger: ledger.create(draft))

    async def archive(self, conversation: ConversationId, *, archived: bool) -> Conversation:
        return await self._write(lambda ledger: ledger.archive(conversation, archived=archived))

    async def append(self, offer: Offer) -> Receipt:
        if not offer.texts:
            raise ValueError("an offer holds at least one message")

        def landed(appended: Appended) -> None:
            if appended.rows:
                self._on_committed(offer.conversation, appended.rows)

        size = sum(text.__sizeof__() for text in offer.texts)
        return (await self._writer.submit(lambda ledger: ledger.append(offer), landed, size)).receipt

    async def page(
        self, conversation: ConversationId, *, after: int | None, before: int | None, limit: int, descending: bool
    ) -> Page:
        number, found = await self._find(conversation)
        lowest = 1 if after is None else max(after + 1, 1)
        highest = found.head_seq if before is None else min(before - 1, found.head_seq)
        if lowest > highest:
            return Page(rows=(), has_more=False, head_seq=found.head_seq)
        first = max(highest - limit + 1, lowest) if descending else lowest
        last = highest if descending else min(lowest + limit - 1, highest)
        rows = await self._messages(number, first, last, limit_bytes=PAGE_BYTES, descending=descending)
        has_more = rows[-1].seq > lowest if descending else rows[-1].seq < highest
        return Page(rows=tuple(rows), has_more=has_more, head_seq=found.head_seq)

    async def read_after(self, conversation: ConversationId, seq: int, *, limit_bytes: int) -> tuple[AnyRow, ...]:
        number, found = await self._find(conversation)
        first = max(seq + 1, 1)
        if first > found.head_seq:
            return ()
        return tuple(await self._messages(number, first, found.head_seq, limit_bytes=limit_bytes, descending=False))

    async def mark(self, conversation: ConversationId, writer: MessageWriter, draft: MarkDraft) -> Mark:
        return await self._write(lambda ledger: ledger.mark(conversation, writer, draft))

    async def marks(self, conversation: ConversationId) -> tuple[Mark, ...]:
        return await self._readers.run(lambda connection: reader.marks(connection, self._path, conversation))

    async def open_turn(self, turn: Turn, process: Process | None) -> Turn:
        return await self._write(lambda ledger: ledger.open_turn(turn, process))

    async def move_turn(
        self, conversation: ConversationId, turn: TurnId, state: TurnState, *, reason: str | None
    ) -> Turn:
        return await self._write(lambda ledger: ledger.move_turn(conversation, turn, state, reason=reason))

    async def open_turns(self) -> tuple[OpenTurn, ...]:
        return await self._readers.run(reader.open_turns)

    async def counts(self) -> Counts:
        return await self._readers.run(reader.counts)

    async def _write(self, perform: Callable[[Ledger], T]) -> T:
        return await self._writer.submit(perform, _nothing_to_tell, _SMALL_BYTES)

    async def _messages(
        self, number: int, first: int, last: int, *, limit_bytes: int, descending: bool
    ) -> list[AnyRow]:
        return await self._readers.run(
            partial(
                reader.messages, number=number, first=first, last=last, limit_bytes=limit_bytes, descending=descending
            )
        )

    async def _find(self, conversation: ConversationId) -> Numbered:
        found = self._known.get(conversation)
        if found is not None:
            return found
        with self._known.held(conversation):
            head = await self._readers.run(lambda connection: reader.head(connection, conversation))
            return self._known.loaded(head.number, head.conversation())
