"""Warm replays: projections of records, kept between requests so that a turn costs what is new.

What is kept is the projection of the *record*. The principal is rendered into each answer and never enters here.
A mark makes a projection start again. Bounded by bytes, least recently used out; one build at a time per
projection, others wait for the same one.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_never

import attrs
import trio

from safd.api.results import ReplayUsage
from safd.model import codec, fastparse, spans
from safd.model.errors import Malformed
from safd.model.failures import RowUnreadable
from safd.model.ids import ConversationId, Seq
from safd.model.marks import Mark
from safd.model.messages import StoredMessage, Usage
from safd.model.projections import Capabilities, Target
from safd.replay.project import Projection
from safd.store.port import AnyRow, DamagedRow, Row, Store

PAGE_BYTES = 8 * 1024 * 1024
INLINE_BYTES = 128 * 1024
"""New rows up to this size are parsed in the event loop; more goes to a thread."""

NOTHING_USED = ReplayUsage(input_tokens=None, output_tokens=None, cache_read_tokens=None, cache_write_tokens=None)


@attrs.frozen(kw_only=True)
class Key:
    conversation: ConversationId
    target: Target
    capabilities: Capabilities
    provider: str | None
    model: str | None


@attrs.define(eq=False, kw_only=True)
class Warm:
    """A projection and how far it has read. Touched only while its lock is held."""

    key: Key
    projection: Projection
    seq: int = 0
    stored_bytes: int = 0
    usage: ReplayUsage = NOTHING_USED
    damaged: tuple[DamagedRow, ...] = ()
    lock: trio.Lock = attrs.field(factory=trio.Lock)

    @property
    def head_seq(self) -> Seq:
        return Seq(self.seq)


@attrs.define(eq=False, kw_only=True)
class Projections:
    _store: Store = attrs.field(alias="store")
    _limit_bytes: int = attrs.field(alias="limit_bytes")
    _warm: OrderedDict[Key, Warm] = attrs.field(factory=OrderedDict[Key, Warm])
    _marks: dict[ConversationId, tuple[Mark, ...]] = attrs.field(factory=dict[ConversationId, tuple[Mark, ...]])
    _generation: int = 0
    _threads: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(2))

    def marked(self, conversation: ConversationId) -> None:
        """A mark was added: what the model may see has changed."""
        self._generation += 1
        self._marks.pop(conversation, None)
        for key in [key for key in self._warm if key.conversation == conversation]:
            del self._warm[key]

    @asynccontextmanager
    async def at_head(self, key: Key, head: Seq) -> AsyncGenerator[Warm]:
        """The projection of everything stored up to `head`, or further; nobody else extends it meanwhile."""
        warm = self._warm.get(key)
        if warm is None:
            warm = await self._start(key)
        self._warm.move_to_end(key)
        async with warm.lock:
            while warm.seq < head:
                await self._extend(warm)
            self._shrink()
            yield warm

    async def messages(self, conversation: ConversationId, head: Seq) -> tuple[StoredMessage, ...]:
        """Every readable message up to `head`, as types."""
        found: list[StoredMessage] = []
        seq = 0
        while seq < head:
            rows = await self._store.read_after(conversation, seq, limit_bytes=PAGE_BYTES)
            if not rows:
                break
            parsed = await trio.to_thread.run_sync(_parse, rows, limiter=self._threads)
            found.extend(one for one in parsed if isinstance(one, StoredMessage))
            seq = rows[-1].seq
        return tuple(found)

    async def marks_of(self, conversation: ConversationId) -> tuple[Mark, ...]:
        while True:
            marks = self._marks.get(conversation)
            if marks is not None:
                return marks
            generation = self._generation
            marks = await self._store.marks(conversation)
            if generation == self._generation:
                self._marks[conversation] = marks

    async def _start(self, key: Key) -> Warm:
        marks = await self.marks_of(key.conversation)
        warm = self._warm.get(key)
        if warm is None:
            projection = Projection.start(
                target=key.target, capabilities=key.capabilities, provider=key.provider, model=key.model, marks=marks
            )
            warm = self._warm[key] = Warm(key=key, projection=projection)
        return warm

    async def _extend(self, warm: Warm) -> None:
        rows = await self._store.read_after(warm.key.conversation, warm.seq, limit_bytes=PAGE_BYTES)
        if not rows:
            raise RowUnreadable(
                conversation=warm.key.conversation, seq=warm.seq + 1, reason="the store ends before its own head"
            )
        size = sum(len(row.text) for row in rows if isinstance(row, Row))
        whole = False
        try:
            if size <= INLINE_BYTES:
                _feed(warm, rows)
            else:
                await trio.to_thread.run_sync(_feed, warm, rows, limiter=self._threads)
            whole = True
        finally:
            if not whole:  # half extended is worse than not at all: the next request starts again
                self._warm.pop(warm.key, None)
        warm.stored_bytes += size

    def _shrink(self) -> None:
        total = sum(warm.stored_bytes for warm in self._warm.values())
        while total > self._limit_bytes and self._warm:  # the only one too: a record above the limit is not kept warm
            _, oldest = self._warm.popitem(last=False)
            total -= oldest.stored_bytes


def _feed(warm: Warm, rows: tuple[AnyRow, ...]) -> None:
    messages: list[StoredMessage] = []
    for parsed in _parse(rows):
        match parsed:
            case StoredMessage():
                messages.append(parsed)
            case DamagedRow():
                warm.damaged += (parsed,)
            case _ as never:
                assert_never(never)
    warm.projection.extend(messages)
    for message in messages:
        if message.message.usage is not None:
            warm.usage = _sum(warm.usage, message.message.usage)
    warm.seq = rows[-1].seq


def _parse(rows: tuple[AnyRow, ...]) -> list[StoredMessage | DamagedRow]:
    return [parse_row(row) for row in rows]


def parse_row(row: AnyRow) -> StoredMessage | DamagedRow:
    """A stored text as types; one that no longer parses is damaged, and hides no other."""
    match row:
        case Row():
            try:
                return fastparse.parse_stored(row.text) or codec.parse_stored(spans.trusted(row.text.decode("utf-8")))
            except (Malformed, UnicodeDecodeError, ValueError) as error:
                return DamagedRow(seq=row.seq, code=RowUnreadable.code, reason=str(error))
        case DamagedRow():
            return row
        case _ as never:
            assert_never(never)


def _sum(total: ReplayUsage, usage: Usage) -> ReplayUsage:
    return ReplayUsage(
        input_tokens=_plus(total.input_tokens, usage.input_tokens),
        output_tokens=_plus(total.output_tokens, usage.output_tokens),
        cache_read_tokens=_plus(total.cache_read_tokens, usage.cache_read_tokens),
        cache_write_tokens=_plus(total.cache_write_tokens, usage.cache_write_tokens),
    )


def _plus(total: int | None, more: int | None) -> int | None:
    if total is None:
        return more
    return total if more is None else total + more
