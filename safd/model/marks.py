"""Appended statements about the record. A mark never edits a message; it says how to see it."""

from typing import TypeAlias

import attrs

from safd.model.blocks import Block
from safd.model.ids import MarkId, MessageId, Seq
from safd.model.messages import Writer


@attrs.frozen(kw_only=True)
class BlockRef:
    """One block: its message, and its index there, from 0."""

    message_id: MessageId
    block: int


@attrs.frozen(kw_only=True)
class Cleared:
    """The bodies of these tool results are no longer shown to the model."""

    id: MarkId
    at_seq: Seq
    recorded_at: str
    writer: Writer
    cleared: tuple[BlockRef, ...]


@attrs.frozen(kw_only=True)
class Restored:
    """An earlier `Cleared` no longer holds."""

    id: MarkId
    at_seq: Seq
    recorded_at: str
    writer: Writer
    mark: MarkId


@attrs.frozen(kw_only=True)
class Compacted:
    """For the model, this summary stands in place of everything up to and including `through_seq`."""

    id: MarkId
    at_seq: Seq
    recorded_at: str
    writer: Writer
    through_seq: Seq
    summary: tuple[Block, ...]


Mark: TypeAlias = Cleared | Restored | Compacted
