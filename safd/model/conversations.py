"""A conversation: who owns it and where its record ends."""

import attrs

from safd.model.blocks import JsonText
from safd.model.ids import ConversationId, Seq, Uid
from safd.model.turns import Turn


@attrs.frozen(kw_only=True)
class Owner:
    """The uid that created the conversation; `account` is its name at that time, for people."""

    uid: Uid
    account: str


@attrs.frozen(kw_only=True)
class Conversation:
    id: ConversationId
    agent: str | None
    owner: Owner
    title: str | None
    metadata: JsonText | None
    head_seq: Seq
    created_at: str
    updated_at: str
    archived_at: str | None
    turn: Turn | None
