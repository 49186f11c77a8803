"""One attached reader: what is stored after its cursor, then what happens, as one seamless stream.

The follower is taken before the store is read. Whatever is committed from then on is in the ring, or the ring
says that it went on; whatever was committed before is in the store. Events that both give are known by their seq.
"""

from collections.abc import Awaitable, Callable
from typing import assert_never

import attrs

from safd.api.events import GAP, LiveEvent, message_event_name
from safd.api.results import Attached
from safd.live.feed import FellBehind, Follower
from safd.model.codec import dump
from safd.model.ids import ConversationId
from safd.store.port import AnyRow, DamagedRow, Row, Store

CATCH_UP_BYTES = 1024 * 1024


@attrs.define(eq=False, kw_only=True)
class Subscription:
    """`next` is called by one task at a time; `close` when the reader is gone."""

    attached: Attached
    _conversation: ConversationId = attrs.field(alias="conversation")
    _store: Store = attrs.field(alias="store")
    _follower: Follower = attrs.field(alias="follower")
    _recheck: Callable[[], Awaitable[None]] = attrs.field(alias="recheck")
    _cursor: int = attrs.field(alias="cursor")
    _opening: tuple[LiveEvent, ...] = attrs.field(alias="opening", default=())
    _behind: bool = attrs.field(alias="behind", default=True)

    async def next(self) -> tuple[LiveEvent, ...]:
        """At least one event, in order; waits until there is one."""
        if self._opening:
            opening, self._opening = self._opening, ()
            return opening
        while True:
            if self._behind:
                rows = await self._store.read_after(self._conversation, self._cursor, limit_bytes=CATCH_UP_BYTES)
                if rows:
                    self._cursor = rows[-1].seq
                    return tuple(row_event(row) for row in rows)
                self._behind = False
            taken = self._follower.take_nowait()
            if isinstance(taken, FellBehind):
                self._behind = True
                return (LiveEvent(GAP, None, dump({"after": self._cursor})),)
            events = tuple(event for event in taken if event.seq is None or event.seq > self._cursor)
            if events:
                self._cursor = max((event.seq for event in events if event.seq is not None), default=self._cursor)
                return events
            await self._follower.wait_for_more()

    async def still_allowed(self) -> None:
        """Observe the reader again; raises what a request of its would be refused with now."""
        await self._recheck()

    def close(self) -> None:
        self._follower.close()


def row_event(row: AnyRow) -> LiveEvent:
    """The event of a stored message; a damaged one is told as damaged, so that the reader's cursor moves on."""
    match row:
        case Row():
            return LiveEvent(message_event_name(row.text), row.seq, row.text)
        case DamagedRow():
            return LiveEvent("damaged_message", row.seq, dump({"seq": row.seq, "damaged": row.code}))
        case _ as never:
            assert_never(never)
