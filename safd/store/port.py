"""What the rest of safd asks of a store. One contract suite runs against every implementation.

A store hands out seqs and committed rows; callers never compute them. All texts are exact.
"""

from collections.abc import Callable
from typing import NewType, Protocol, TypeAlias

import attrs

from safd.model.blocks import Block, JsonText
from safd.model.conversations import Conversation, Owner
from safd.model.ids import ConversationId, MarkId, MessageId, Seq, TurnId, Uid
from safd.model.marks import BlockRef, Mark
from safd.model.messages import Writer
from safd.model.turns import Turn, TurnState

StoredText = NewType("StoredText", bytes)
"""One message's stored text: what hydration returns, what the chain hashes."""


@attrs.frozen(kw_only=True)
class Draft:
    """A conversation to create. The same owner and idempotency key give the conversation made first."""

    agent: str | None
    owner: Owner
    title: str | None
    metadata: JsonText | None
    idempotency_key: str | None = None


@attrs.frozen(kw_only=True)
class Offer:
    """Messages to append, all or none: their exact texts, already checked."""

    conversation: ConversationId
    texts: tuple[str, ...]
    writer: Writer
    idempotency_key: str | None = None
    expected_seq: int | None = None


@attrs.frozen(kw_only=True)
class Row:
    """A stored message."""

    seq: Seq
    id: MessageId
    text: StoredText


@attrs.frozen(kw_only=True)
class DamagedRow:
    """A row that is there and cannot be read; the others are not hidden by it."""

    seq: Seq
    code: str
    reason: str


AnyRow: TypeAlias = Row | DamagedRow


@attrs.frozen(kw_only=True)
class Receipt:
    """What an append made. `fresh` is False where an idempotency key gave an earlier answer."""

    first_seq: Seq
    last_seq: Seq
    ids: tuple[MessageId, ...]
    head_seq: Seq
    fresh: bool


@attrs.frozen(kw_only=True)
class Page:
    """Rows in the order asked for; `has_more` is known from reading one more than the limit."""

    rows: tuple[AnyRow, ...]
    has_more: bool
    head_seq: Seq


@attrs.frozen(kw_only=True)
class ClearedDraft:
    cleared: tuple[BlockRef, ...]


@attrs.frozen(kw_only=True)
class RestoredDraft:
    mark: MarkId


@attrs.frozen(kw_only=True)
class CompactedDraft:
    through_seq: Seq
    summary: tuple[Block, ...]


MarkDraft: TypeAlias = ClearedDraft | RestoredDraft | CompactedDraft


@attrs.frozen(kw_only=True)
class Process:
    """Which process a turn depends on, so that it is found again after a restart of the daemon."""

    pid: int
    start_ticks: int
    boot_id: str


@attrs.frozen(kw_only=True)
class OpenTurn:
    turn: Turn
    process: Process | None


@attrs.frozen(kw_only=True)
class Counts:
    conversations: int
    messages: int


Committed: TypeAlias = "Callable[[ConversationId, tuple[Row, ...]], None]"
"""Called in the event loop once per committed append, in commit order, before the waiter is answered."""


class Store(Protocol):
    """Coroutines may hop to a thread, once; `known` never does."""

    def known(self, conversation: ConversationId) -> Conversation | None:
        """From memory, without waiting; None says nothing about whether it exists."""
        ...

    async def conversation(self, conversation: ConversationId) -> Conversation:
        """Raises ConversationMissing."""
        ...

    async def conversations(
        self, *, owner: Uid | None, agent: str | None, archived: bool, after: ConversationId | None, limit: int
    ) -> tuple[Conversation, ...]:
        """Newest first. `owner` None: of all owners; the caller filters by access."""
        ...

    async def create(self, draft: Draft) -> Conversation: ...

    async def archive(self, conversation: ConversationId, *, archived: bool) -> Conversation: ...

    async def append(self, offer: Offer) -> Receipt:
        """Returns after fsync. Once queued the offer is committed even if the waiter is cancelled.

        Raises ConversationMissing, ConversationArchived, IdempotencyKeyReused, SeqConflict, StoreBusy, DiskFull,
        StoreFailed.
        """
        ...

    async def page(
        self, conversation: ConversationId, *, after: int | None, before: int | None, limit: int, descending: bool
    ) -> Page:
        """`after` and `before` are exclusive seqs. Ascending without `after` starts at the first message."""
        ...

    async def read_after(self, conversation: ConversationId, seq: int, *, limit_bytes: int) -> tuple[AnyRow, ...]:
        """Rows with a larger seq, ascending, at least one if there is one, about `limit_bytes` at most."""
        ...

    async def mark(self, conversation: ConversationId, writer: Writer, draft: MarkDraft) -> Mark:
        """Raises ConversationMissing, MarkMissing."""
        ...

    async def marks(self, conversation: ConversationId) -> tuple[Mark, ...]: ...

    async def open_turn(self, turn: Turn, process: Process | None) -> Turn:
        """Raises TurnAlreadyOpen. `after_seq` of the answer is the head at the commit."""
        ...

    async def move_turn(
        self, conversation: ConversationId, turn: TurnId, state: TurnState, *, reason: str | None
    ) -> Turn:
        """Raises TurnMissing, TurnMoveRefused."""
        ...

    async def open_turns(self) -> tuple[OpenTurn, ...]: ...

    async def counts(self) -> Counts: ...
