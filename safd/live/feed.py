"""What happens in a conversation, encoded once, for everyone who follows it.

A follower is a cursor into a ring of events that all followers of a conversation share: there is no queue per
follower to overflow. One that falls off the ring learns it (`FellBehind`) and reads the durable events from the
store again; only events without a seq can be lost to it. What nobody follows is not kept.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TypeAlias

import attrs
import trio

from safd.api.events import LiveEvent
from safd.model.errors import TooManyFollowers
from safd.model.ids import ConversationId


@attrs.frozen
class FellBehind:
    """The ring went on without this follower; it stands at the ring's newest end again."""


Taken: TypeAlias = tuple[LiveEvent, ...] | FellBehind


@attrs.define(eq=False)
class _Ring:
    size: int
    events: deque[LiveEvent] = attrs.field(init=False)
    begin: int = 0
    followers: int = 0
    lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def __attrs_post_init__(self) -> None:
        self.events = deque()

    @property
    def end(self) -> int:
        return self.begin + len(self.events)

    def add(self, event: LiveEvent) -> None:
        self.events.append(event)
        if len(self.events) > self.size:
            self.events.popleft()
            self.begin += 1


@attrs.define(eq=False)
class Follower:
    """A cursor. Close it when its reader is gone."""

    _ring: _Ring
    _at: int
    _leave: Callable[[], None]
    _open: bool = True

    def take_nowait(self) -> Taken:
        """All that happened since the last take; empty when nothing did."""
        ring = self._ring
        if self._at < ring.begin:
            self._at = ring.end
            return FellBehind()
        events = tuple(islice(ring.events, self._at - ring.begin, None))
        self._at = ring.end
        return events

    async def wait_for_more(self) -> None:
        """Returns when there is something to take."""
        if self._at < self._ring.end:
            await trio.lowlevel.checkpoint()
            return
        await self._ring.lot.park()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._leave()


@attrs.define(eq=False)
class Feed:
    """All followed conversations. Only the event loop's thread may call it."""

    _ring_events: int
    _followers_limit: int
    _rings: dict[ConversationId, _Ring] = attrs.field(factory=dict[ConversationId, _Ring])

    def followed(self, conversation: ConversationId) -> bool:
        return conversation in self._rings

    @property
    def followers(self) -> int:
        return sum(ring.followers for ring in self._rings.values())

    def publish(self, conversation: ConversationId, event: LiveEvent) -> None:
        ring = self._rings.get(conversation)
        if ring is not None:
            ring.add(event)
            ring.lot.unpark_all()

    def follow(self, conversation: ConversationId) -> Follower:
        """A follower that sees what is published from now on."""
        ring = self._rings.get(conversation)
        if ring is None:
            ring = self._rings[conversation] = _Ring(self._ring_events)
        if ring.followers >= self._followers_limit:
            raise TooManyFollowers(conversation=conversation, limit=self._followers_limit)
        ring.followers += 1
        return Follower(ring, ring.end, partial(self._left, conversation))

    def _left(self, conversation: ConversationId) -> None:
        ring = self._rings[conversation]
        ring.followers -= 1
        if not ring.followers:
            del self._rings[conversation]
