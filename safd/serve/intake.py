"""Received bytes, each remembered with who wrote it, and what one account's connections together may make us keep.

The kernel never puts bytes of two senders into one read. A request's senders are those of every chunk that carried a
part of it, so what is left over after a request keeps the sender of its chunk.
"""

from collections import Counter
from collections.abc import Iterator

import attrs

from safd.model.errors import BuffersFull, RequestTooLarge
from safd.principal.facts import Sender

SPACE = b" \t\r\n"


@attrs.define
class Budget:
    """Bytes kept for each account: requests that are not complete yet, and large answers that were not read yet.

    Each account has the whole limit for itself, so that a crowd under one cannot starve another.
    """

    limit_bytes: int
    _used: Counter[int] = attrs.field(factory=Counter[int])

    @property
    def used(self) -> int:
        """Of all accounts."""
        return self._used.total()

    def take(self, uid: int, size: int) -> None:
        if self._used[uid] + size > self.limit_bytes:
            raise BuffersFull(uid=uid, limit_bytes=self.limit_bytes)
        self._used[uid] += size

    def give(self, uid: int, size: int) -> None:
        self._used[uid] -= size
        if not self._used[uid]:
            del self._used[uid]


@attrs.define
class Share:
    """One connection's part of its account's budget: as much as its present request and answer needed at most."""

    _budget: Budget
    _uid: int
    _held: int = 0

    def hold(self, size: int) -> None:
        """Raises BuffersFull when the account's other connections leave too little."""
        if size > self._held:
            self._budget.take(self._uid, size - self._held)
            self._held = size

    def release(self) -> None:
        if self._held:
            self._budget.give(self._uid, self._held)
            self._held = 0


@attrs.define
class Trail:
    """Who wrote which stretch of a stream of bytes that is consumed from its beginning."""

    _begin: int = 0
    _ends: list[int] = attrs.field(factory=list[int])
    _senders: list[Sender] = attrs.field(factory=list[Sender])

    def add(self, size: int, sender: Sender) -> None:
        end = self._ends[-1] if self._ends else self._begin
        if self._senders and self._senders[-1] == sender:
            self._ends[-1] = end + size
        else:
            self._ends.append(end + size)
            self._senders.append(sender)

    def next_stretch(self) -> int:
        """How many bytes come next that one sender wrote."""
        return self._ends[0] - self._begin

    def consume(self, size: int) -> frozenset[Sender]:
        """Who wrote the next `size` bytes."""
        start = self._begin
        self._begin += size
        found: set[Sender] = set()
        whole = 0
        for end, sender in zip(self._ends, self._senders, strict=True):
            if start >= self._begin:
                break
            found.add(sender)
            whole += end <= self._begin
            start = end
        del self._ends[:whole], self._senders[:whole]
        return frozenset(found)


@attrs.define
class Intake:
    """The bytes of one connection that no request has taken yet."""

    request_bytes: int
    _bytes: bytearray = attrs.field(factory=bytearray)
    _searched: int = 0
    _trail: Trail = attrs.field(factory=Trail)

    def __len__(self) -> int:
        return len(self._bytes)

    def feed(self, received: bytes, sender: Sender) -> None:
        self._bytes += received
        self._trail.add(len(received), sender)

    def skip_space(self) -> int | None:
        """Drop space before the first request; its first byte, or None while there is none."""
        kept = self._bytes.lstrip(SPACE)
        self._take(len(self._bytes) - len(kept))
        return self._bytes[0] if self._bytes else None

    def take_line(self) -> tuple[bytes, frozenset[Sender]] | None:
        """The next line without its line feed, and who wrote it. Raises RequestTooLarge."""
        end = self._bytes.find(b"\n", self._searched)
        if (len(self._bytes) if end < 0 else end) > self.request_bytes:
            raise RequestTooLarge(limit_bytes=self.request_bytes)
        if end < 0:
            self._searched = len(self._bytes)
            return None
        line, senders = self._take(end + 1)
        return line[:-1], senders

    def take_rest(self) -> tuple[bytes, frozenset[Sender]]:
        """What stands after the last line feed, when no more will come."""
        return self._take(len(self._bytes))

    def _take(self, size: int) -> tuple[bytes, frozenset[Sender]]:
        with memoryview(self._bytes) as view:
            taken = bytes(view[:size])
        del self._bytes[:size]
        self._searched = 0
        return taken, self._trail.consume(size) if size else frozenset()

    def hand_over(self) -> Iterator[tuple[bytes, Sender]]:
        """Everything, chunk by chunk, for a face that keeps bytes itself."""
        while self._bytes:
            taken, senders = self._take(self._trail.next_stretch())
            (sender,) = senders
            yield taken, sender
