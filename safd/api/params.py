"""What each method takes. A field without a default is required; an unknown field is refused."""

from enum import StrEnum
from typing import NewType, TypeAlias

import attrs

from safd.model.blocks import Block, JsonText
from safd.model.ids import ConversationId, MarkId, Seq, TurnId
from safd.model.projections import Capabilities, StablePrefix, Target

OfferedText = NewType("OfferedText", str)
"""The exact text of one offered message, as it stood in the request; checked when it is appended."""


class Order(StrEnum):
    """Directions of a page."""

    ASC = "asc"
    DESC = "desc"


class Outcome(StrEnum):
    """How a turn is closed."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


@attrs.frozen(kw_only=True)
class Hello:
    agent: str | None = None
    client: str | None = None


@attrs.frozen(kw_only=True)
class Create:
    agent: str | None = None
    title: str | None = None
    metadata: JsonText | None = None
    idempotency_key: str | None = None


@attrs.frozen(kw_only=True)
class ListConversations:
    agent: str | None = None
    archived: bool = False
    after: ConversationId | None = None
    limit: int = 50


@attrs.frozen(kw_only=True)
class OneConversation:
    conversation: ConversationId


@attrs.frozen(kw_only=True)
class Archive:
    conversation: ConversationId
    archived: bool = True


@attrs.frozen(kw_only=True)
class Append:
    conversation: ConversationId
    messages: tuple[OfferedText, ...]
    idempotency_key: str | None = None
    expected_seq: int | None = None


@attrs.frozen(kw_only=True)
class Messages:
    conversation: ConversationId
    after: int | None = None
    before: int | None = None
    limit: int = 100
    order: Order = Order.ASC


@attrs.frozen(kw_only=True)
class Attach:
    """`after` is a durable seq: what is stored beyond it comes first, then what happens. None: from the start."""

    conversation: ConversationId
    after: int | None = None


@attrs.frozen(kw_only=True)
class Detach:
    subscription: str


@attrs.frozen(kw_only=True)
class Replay:
    conversation: ConversationId
    target: Target
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    capabilities: Capabilities = attrs.field(factory=Capabilities)
    system: "str | tuple[str, ...] | None" = None
    since: StablePrefix | None = None


@attrs.frozen(kw_only=True)
class Microcompact:
    """Clear all tool results but the `keep_recent` newest, or undo an earlier mark with `restore`."""

    conversation: ConversationId
    keep_recent: int = 5
    restore: MarkId | None = None


@attrs.frozen(kw_only=True)
class Compact:
    conversation: ConversationId
    through_seq: Seq
    summary: tuple[Block, ...]


@attrs.frozen(kw_only=True)
class TurnOpen:
    conversation: ConversationId
    agent: str | None = None


@attrs.frozen(kw_only=True)
class TurnWait:
    conversation: ConversationId
    turn: TurnId
    waiting: bool = True


@attrs.frozen(kw_only=True)
class TurnClose:
    conversation: ConversationId
    turn: TurnId
    outcome: Outcome = Outcome.COMPLETED
    reason: str | None = None


@attrs.frozen(kw_only=True)
class Observe:
    agent: str | None = None


@attrs.frozen(kw_only=True)
class Principals:
    pass


@attrs.frozen(kw_only=True)
class Drift:
    pass


@attrs.frozen(kw_only=True)
class Status:
    pass


@attrs.frozen(kw_only=True)
class Discover:
    pass


Params: TypeAlias = (
    Hello
    | Create
    | ListConversations
    | OneConversation
    | Archive
    | Append
    | Messages
    | Attach
    | Detach
    | Replay
    | Microcompact
    | Compact
    | TurnOpen
    | TurnWait
    | TurnClose
    | Observe
    | Principals
    | Drift
    | Status
    | Discover
)
"""One class per method, so that what a method does is one exhaustive match."""
