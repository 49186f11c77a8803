"""Rows of the tables as values of the model; the columns' order stands here once.

SQLite's text is UTF-8, which cannot hold the lone surrogates that a JSON text may name: such a text is kept as
the bytes of its surrogates-passed form, and comes back as it was.
"""

import sqlite3
from typing import TypeAlias, cast

import attrs

from safd.model.blocks import JsonText
from safd.model.conversations import Conversation, Owner
from safd.model.ids import ConversationId, Seq, TurnId, Uid
from safd.model.turns import Turn, TurnState
from safd.store.port import OpenTurn, Process

Column: TypeAlias = str | int | bytes | None
Columns: TypeAlias = tuple[Column, ...]

TURN_COLUMNS = (
    "turns.id, turns.state, turns.agent, turns.uid, turns.after_seq, turns.opened_at, turns.ended_at, turns.reason"
)
_CONVERSATION = f"""
    SELECT conversations.number, conversations.id, conversations.agent, owner_uid, owner_account, title, metadata,
           created_at, seq, hash, updated_at, archived_at, mark_count, mark_hash, turn, {TURN_COLUMNS}
    FROM conversations JOIN heads ON heads.conversation = conversations.number
    LEFT JOIN turns ON turns.number = heads.turn"""  # noqa: S608 -- built from constants
CONVERSATION_BY_ID = f"{_CONVERSATION} WHERE conversations.id = ?"
CONVERSATION_BY_NUMBER = f"{_CONVERSATION} WHERE conversations.number = ?"
CONVERSATIONS = f"""{_CONVERSATION}
    WHERE conversations.number < ? AND (archived_at IS NOT NULL) = ?
      AND (?3 IS NULL OR owner_uid = ?3) AND (?4 IS NULL OR conversations.agent = ?4)
    ORDER BY conversations.number DESC LIMIT ?"""


Numbered: TypeAlias = tuple[int, Conversation]
"""A conversation and its number, which is known to the store alone."""


@attrs.define(kw_only=True, eq=False)
class Head:
    """Where one conversation's record stands: the part of a conversation that moves."""

    number: int
    id: ConversationId
    agent: str | None
    owner: Owner
    title: str | None
    metadata: JsonText | None
    created_at: str
    seq: int
    hash: str
    updated_at: str
    archived_at: str | None
    mark_count: int
    mark_hash: str
    turn_number: int | None
    turn: Turn | None
    moved: bool = False

    def numbered(self) -> Numbered:
        return self.number, self.conversation()

    def conversation(self) -> Conversation:
        return Conversation(
            id=self.id,
            agent=self.agent,
            owner=self.owner,
            title=self.title,
            metadata=self.metadata,
            head_seq=Seq(self.seq),
            created_at=self.created_at,
            updated_at=self.updated_at,
            archived_at=self.archived_at,
            turn=self.turn,
        )


def kept(text: str | None) -> str | bytes | None:
    """A text as its column takes it."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def told(column: Column) -> str | None:
    """A text from its column."""
    if isinstance(column, bytes):
        return column.decode("utf-8", "surrogatepass")
    return cast("str | None", column)


def fetch(connection: sqlite3.Connection, sql: str, parameters: tuple[Column, ...] = ()) -> Columns | None:
    """The first row, with the statement finished: an unfinished one would hold its snapshot."""
    rows = connection.execute(sql, parameters).fetchall()
    return rows[0] if rows else None


def head(row: Columns) -> Head:
    return Head(
        number=cast(int, row[0]),
        id=ConversationId(cast(str, row[1])),
        agent=told(row[2]),
        owner=Owner(uid=Uid(cast(int, row[3])), account=told(row[4]) or ""),
        title=told(row[5]),
        metadata=None if row[6] is None else JsonText(told(row[6]) or ""),
        created_at=cast(str, row[7]),
        seq=cast(int, row[8]),
        hash=cast(str, row[9]),
        updated_at=cast(str, row[10]),
        archived_at=cast("str | None", row[11]),
        mark_count=cast(int, row[12]),
        mark_hash=cast(str, row[13]),
        turn_number=cast("int | None", row[14]),
        turn=None if row[14] is None else turn(ConversationId(cast(str, row[1])), row[15:]),
    )


def turn(conversation: ConversationId, row: Columns) -> Turn:
    """A row of TURN_COLUMNS."""
    return Turn(
        id=TurnId(cast(str, row[0])),
        conversation=conversation,
        state=TurnState(cast(str, row[1])),
        agent=told(row[2]),
        uid=Uid(cast(int, row[3])),
        after_seq=Seq(cast(int, row[4])),
        opened_at=cast(str, row[5]),
        ended_at=cast("str | None", row[6]),
        reason=told(row[7]),
    )


OPEN_TURNS = f"""
    SELECT conversations.id, {TURN_COLUMNS}, pid, start_ticks, boot_id
    FROM turns JOIN conversations ON conversations.number = turns.conversation
    WHERE state IN ('open', 'waiting') ORDER BY turns.number"""  # noqa: S608 -- built from constants


def open_turn(row: Columns) -> OpenTurn:
    """A row of OPEN_TURNS."""
    pid, start_ticks, boot_id = row[9:]
    return OpenTurn(
        turn=turn(ConversationId(cast(str, row[0])), row[1:9]),
        process=None
        if pid is None
        else Process(pid=cast(int, pid), start_ticks=cast(int, start_ticks), boot_id=cast(str, boot_id)),
    )
