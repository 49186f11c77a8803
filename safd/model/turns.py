"""One run of an agent over a conversation, and the moves it may make."""

from enum import StrEnum

import attrs

from safd.model.ids import ConversationId, Seq, TurnId, Uid


class TurnState(StrEnum):
    OPEN = "open"
    WAITING = "waiting"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"


MOVES: dict[TurnState, frozenset[TurnState]] = {
    TurnState.OPEN: frozenset({TurnState.WAITING, TurnState.COMPLETED, TurnState.INTERRUPTED}),
    TurnState.WAITING: frozenset({TurnState.OPEN, TurnState.COMPLETED, TurnState.INTERRUPTED}),
    TurnState.COMPLETED: frozenset(),
    TurnState.INTERRUPTED: frozenset(),
}

LIVE = frozenset({TurnState.OPEN, TurnState.WAITING})


@attrs.frozen(kw_only=True)
class Turn:
    """`after_seq` is the record's head when the turn began: what was stored later belongs to the turn."""

    id: TurnId
    conversation: ConversationId
    state: TurnState
    agent: str | None
    uid: Uid
    after_seq: Seq
    opened_at: str
    ended_at: str | None = None
    reason: str | None = None
