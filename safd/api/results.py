"""What each method answers.

`RawJson` stands for a part that is already JSON bytes (stored texts, a payload): it is spliced, never decoded.
"""

from typing import NewType, TypeAlias

import attrs

from safd.model.conversations import Conversation
from safd.model.ids import MessageId, Seq
from safd.model.marks import BlockRef, Mark
from safd.model.principals import Drift, Principal
from safd.model.projections import PrefixBreak, Repair, StablePrefix, Target
from safd.model.turns import Turn

RawJson = NewType("RawJson", bytes)


@attrs.frozen
class Spliced:
    """One JSON value in pieces that need no joining on their way out: a payload can be tens of megabytes."""

    pieces: tuple[bytes, ...]

    @property
    def text(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


@attrs.frozen(kw_only=True)
class Hello:
    server: str
    version: str
    agent: str | None


@attrs.frozen(kw_only=True)
class OneConversation:
    conversation: Conversation


@attrs.frozen(kw_only=True)
class Conversations:
    data: tuple[Conversation, ...]
    has_more: bool


@attrs.frozen(kw_only=True)
class Appended:
    first_seq: Seq
    last_seq: Seq
    ids: tuple[MessageId, ...]
    head_seq: Seq


@attrs.frozen(kw_only=True)
class Messages:
    """`data` holds the stored texts; one that cannot be read is `{"seq": n, "damaged": code}` in its place."""

    data: tuple[RawJson, ...]
    first_id: MessageId | None
    last_id: MessageId | None
    has_more: bool
    head_seq: Seq


@attrs.frozen(kw_only=True)
class Attached:
    """The first answer of a subscription; events follow as notifications that name it."""

    subscription: str
    head_seq: Seq


@attrs.frozen(kw_only=True)
class Detached:
    subscription: str


@attrs.frozen(kw_only=True)
class ReplayUsage:
    """Sums of what providers reported in this record; None where none did."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None


@attrs.frozen(kw_only=True)
class Replayed:
    target: Target
    payload: Spliced
    principal: Principal
    repairs: tuple[Repair, ...]
    stable_prefix: StablePrefix
    prefix_break: PrefixBreak | None
    resumed: bool
    head_seq: Seq
    usage: ReplayUsage


@attrs.frozen(kw_only=True)
class Microcompacted:
    """`mark` is None where nothing was left to clear."""

    mark: Mark | None
    cleared: tuple[BlockRef, ...]


@attrs.frozen(kw_only=True)
class CompactedThrough:
    mark: Mark


@attrs.frozen(kw_only=True)
class OneMark:
    mark: Mark


@attrs.frozen(kw_only=True)
class OneTurn:
    turn: Turn


@attrs.frozen(kw_only=True)
class Observed:
    principal: Principal


@attrs.frozen(kw_only=True)
class Connected:
    """One connected process, by what the kernel said of who connected, and what its principal is now.

    `unit`, `command` and `since` (when it began) are for people, and no evidence.
    """

    pid: int
    uid: int
    unit: str | None
    command: str | None
    since: str | None
    connections: int
    principal: Principal


@attrs.frozen(kw_only=True)
class Principals:
    data: tuple[Connected, ...]


@attrs.frozen(kw_only=True)
class AgentDrift:
    """One agent of this node: connected, or admitted and not seen (`connected` false, no posture)."""

    agent: str | None
    uid: int
    account: str | None
    unit: str | None
    mode: str | None
    expected_account: str | None
    posture: str | None
    drift: tuple[Drift, ...]
    connected: bool
    pid: int | None
    command: str | None
    since: str | None


@attrs.frozen(kw_only=True)
class UnreadableAdmission:
    path: str
    reason: str


@attrs.frozen(kw_only=True)
class DriftReport:
    agents: tuple[AgentDrift, ...]
    unreadable: tuple[UnreadableAdmission, ...]


@attrs.frozen(kw_only=True)
class Status:
    """The daemon in numbers; `kernel` names the facts that this kernel gives."""

    version: str
    node_id: str
    node_name: str
    pid: int
    started_at: str
    store: str
    schema: int
    conversations: int
    messages: int
    connections: int
    followers: int
    open_turns: int
    kernel: tuple[str, ...]
    contained: bool


@attrs.frozen(kw_only=True)
class Described:
    """A generated document (OpenRPC or OpenAPI)."""

    document: RawJson


Result: TypeAlias = (
    Hello
    | OneConversation
    | Conversations
    | Appended
    | Messages
    | Attached
    | Detached
    | Replayed
    | Microcompacted
    | CompactedThrough
    | OneMark
    | OneTurn
    | Observed
    | Principals
    | DriftReport
    | Status
    | Described
)
