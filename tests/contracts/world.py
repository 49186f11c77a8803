"""What the store's tests share: one way to open it, and short names for what is offered."""

import itertools
import json
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from safd.model.conversations import Conversation, Owner
from safd.model.ids import ConversationId, Seq, TurnId, Uid
from safd.model.messages import Writer
from safd.model.principals import Posture
from safd.model.turns import Turn, TurnState
from safd.settings import Limits
from safd.store.port import Draft, Offer, Page, Receipt, Row, Store
from safd.store.sqlite import SqliteStore, open_store

WRITER = Writer(uid=Uid(1000), agent="scout", posture=Posture.RESIDENT)
START_MS = 1_764_583_200_123


@attrs.define
class Heard:
    """What a store told: every committed append, in the order of the telling."""

    appends: list[tuple[ConversationId, tuple[Row, ...]]] = attrs.field(factory=list)

    def tell(self, conversation: ConversationId, rows: tuple[Row, ...]) -> None:
        self.appends.append((conversation, rows))


@asynccontextmanager
async def opened(
    path: Path, *, limits: Limits | None = None, heard: Heard | None = None
) -> AsyncGenerator[SqliteStore, None]:
    """A store whose clock ticks one millisecond at each look."""
    ticks = itertools.count(START_MS)
    async with open_store(
        path,
        limits=limits or Limits(),
        clock=lambda: next(ticks),
        random=os.urandom,
        on_committed=(heard or Heard()).tell,
    ) as store:
        yield store


def draft(**changes: object) -> Draft:
    plain = Draft(agent="scout", owner=Owner(uid=Uid(1000), account="casey"), title=None, metadata=None)
    return attrs.evolve(plain, **changes)


def said(text: str) -> str:
    """An offered message."""
    return json.dumps({"role": "user", "blocks": [{"type": "text", "text": text}]})


def offer(conversation: Conversation | ConversationId, *texts: str, **more: object) -> Offer:
    id_ = conversation.id if isinstance(conversation, Conversation) else conversation
    return attrs.evolve(Offer(conversation=id_, texts=texts, writer=WRITER), **more)


async def begun(store: Store) -> ConversationId:
    return (await store.create(draft())).id


async def whole(store: Store, conversation: ConversationId) -> Page:
    return await store.page(conversation, after=None, before=None, limit=100_000, descending=False)


def offered_part(row: Row) -> bytes:
    """The part of a stored text that was offered, with its brace again."""
    prev_hash = b'"prev_hash":"'
    start = row.text.index(prev_hash) + len(prev_hash) + 64 + 2
    return b"{" + row.text[start:]


def turn(conversation: ConversationId, number: int = 1) -> Turn:
    return Turn(
        id=TurnId(f"turn_01890000-0000-7000-8000-{number:012d}"),
        conversation=conversation,
        state=TurnState.OPEN,
        agent="scout",
        uid=Uid(1000),
        after_seq=Seq(0),
        opened_at="2026-12-01T10:00:00.000Z",
    )


def size_of(path: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    return path.stat().st_size if path.exists() else -1


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def copied(path: Path, target: Path) -> None:
    target.write_bytes(path.read_bytes())


def seqs(receipt: Receipt) -> range:
    return range(receipt.first_seq, receipt.last_seq + 1)
