"""Live events. Durable ones carry the seq of their message as id; the others carry none."""

from typing import TypeAlias

import attrs

from safd.api.results import RawJson
from safd.model.ids import ConversationId, Seq
from safd.model.marks import Mark
from safd.model.turns import Turn

MESSAGE_EVENTS = (
    "user_message",
    "assistant_message",
    "reasoning_message",
    "tool_call_message",
    "tool_return_message",
    "system_message",
)


@attrs.frozen(kw_only=True)
class MessageStored:
    """A message of the record; one SSE frame (or notification) per kind of content follows from it.

    `message` is the stored text. The event's name is that of the message's main content.
    """

    conversation: ConversationId
    seq: Seq
    name: str
    message: RawJson


@attrs.frozen(kw_only=True)
class TurnChanged:
    conversation: ConversationId
    turn: Turn


@attrs.frozen(kw_only=True)
class MarkAdded:
    conversation: ConversationId
    mark: Mark


@attrs.frozen(kw_only=True)
class Gap:
    """The reader was too slow for what has no id; durable events continue after `after`."""

    conversation: ConversationId
    after: Seq


Event: TypeAlias = MessageStored | TurnChanged | MarkAdded | Gap
