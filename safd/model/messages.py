"""A message as it is offered, and as it is stored."""

from enum import StrEnum

import attrs

from safd.model.blocks import Block, JsonText
from safd.model.ids import MessageId, Seq, Uid
from safd.model.principals import Posture


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens as the provider reported them; None where it did not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


@attrs.frozen(kw_only=True)
class Message:
    """What a writer said; `timestamp` is the writer's own clock and orders nothing."""

    role: Role
    blocks: tuple[Block, ...]
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    timestamp: str | int | float | None = None
    metadata: JsonText | None = None


@attrs.frozen(kw_only=True)
class Writer:
    """Who appended, as it was seen at that moment: a fact of the past, no authority."""

    uid: Uid
    agent: str | None
    posture: Posture


@attrs.frozen(kw_only=True)
class StoredMessage:
    """A message of the record. `prev_hash` is the hex SHA-256 of the stored text before it."""

    id: MessageId
    seq: Seq
    recorded_at: str
    writer: Writer
    prev_hash: str
    message: Message
