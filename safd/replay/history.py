"""The part of a payload's history that no append can change: frozen bytes, where each message ends, running digests."""

import hashlib
from bisect import bisect_right
from typing import Final, Protocol

import attrs

from safd.replay.wire import Slot

CHUNK: Final = 256 * 1024
"""Bytes: small messages are joined up to about this size, so that an answer has few pieces."""
NOTHING: Final = hashlib.sha256(b"").digest()


class Digesting(Protocol):
    """What hashlib gives."""

    def update(self, data: bytes, /) -> None: ...
    def copy(self) -> "Digesting": ...
    def digest(self) -> bytes: ...


@attrs.define(eq=False)
class Pictured:
    """An image in frozen bytes: in which message, and whether it is a marker by now."""

    message: int
    slot: Slot
    dropped: bool = False


@attrs.define(eq=False)
class History:
    """Messages joined by commas, as they stand in the payload. A digest is of the first n of them."""

    _chunks: list[bytes] = attrs.field(factory=list[bytes])
    _starts: list[int] = attrs.field(factory=list[int])
    _loose: list[bytes] = attrs.field(factory=list[bytes])
    _loose_start: int = 0
    _ends: list[int] = attrs.field(factory=list[int])
    _digests: list[bytes] = attrs.field(factory=list[bytes])
    _digests_before: list[bytes] = attrs.field(factory=list[bytes])
    """As they were before images were dropped."""
    _running: Digesting = attrs.field(factory=hashlib.sha256)
    pictures: list[Pictured] = attrs.field(factory=list[Pictured])

    @property
    def dropped(self) -> bool:
        """Whether any image is a marker by now."""
        return any(picture.dropped for picture in self.pictures)

    def __len__(self) -> int:
        return len(self._ends)

    def append(self, message: bytes, slots: tuple[Slot, ...]) -> None:
        start = self._ends[-1] + 1 if self._ends else 0
        piece = b"," + message if start else message
        for slot in slots:
            self.pictures.append(Pictured(len(self._ends), slot))
        self._running.update(piece)
        self._digests.append(self._running.copy().digest())
        self._ends.append(start + len(message))
        self._loose.append(piece)
        if start + len(message) - self._loose_start > CHUNK:
            self._join()

    def digest(self, messages: int) -> bytes:
        """SHA-256 of the first messages, joined."""
        return self._digests[messages - 1] if messages else NOTHING

    def stands(self, messages: int, sha256: str) -> bool:
        """Whether the first messages have this digest."""
        return 0 <= messages <= len(self) and self.digest(messages).hex() == sha256

    def stood(self, messages: int, sha256: str) -> bool:
        """Whether they had it before images were dropped."""
        before = self._digests_before
        return 0 < messages <= len(before) and before[messages - 1].hex() == sha256

    def pieces(self, after: int) -> list[bytes]:
        """The bytes behind the first `after` messages, without the comma between."""
        if after >= len(self):
            return []
        at = self._ends[after - 1] + 1 if after else 0
        if at >= self._loose_start:
            found = self._loose
            at -= self._loose_start
            return _from(found, at)
        first = bisect_right(self._starts, at) - 1
        return [self._chunks[first][at - self._starts[first] :], *self._chunks[first + 1 :], *self._loose]

    def drop(self, oldest: int, *, large: bool) -> None:
        """Put markers in place of the oldest images, and of all large ones where `large` says so."""
        fresh = [
            index
            for index, picture in enumerate(self.pictures)
            if not picture.dropped and (index < oldest or (large and picture.slot.large))
        ]
        if fresh:
            self._replace(set(fresh))

    def _replace(self, dropped: set[int]) -> None:
        stream = b"".join(self.pieces(0))
        of_message: dict[int, list[tuple[int, Pictured]]] = {}
        for index, picture in enumerate(self.pictures):
            of_message.setdefault(picture.message, []).append((index, picture))
        rebuilt = History()
        start = 0
        for number, end in enumerate(self._ends):
            message = stream[start:end]
            start = end + 1
            kept, slots, gone = marked(
                message, [(p.slot, p.dropped, i in dropped) for i, p in of_message.get(number, ())]
            )
            rebuilt.append(kept, slots)
            for picture, is_gone in zip(rebuilt.pictures[len(rebuilt.pictures) - len(slots) :], gone, strict=True):
                picture.dropped = is_gone
        self._chunks, self._starts = rebuilt._chunks, rebuilt._starts
        self._loose, self._loose_start = rebuilt._loose, rebuilt._loose_start
        self._digests_before = self._digests
        self._ends, self._digests = rebuilt._ends, rebuilt._digests
        self._running, self.pictures = rebuilt._running, rebuilt.pictures

    def _join(self) -> None:
        self._chunks.append(b"".join(self._loose))
        self._starts.append(self._loose_start)
        self._loose_start += len(self._chunks[-1])
        self._loose = []


def marked(message: bytes, found: list[tuple[Slot, bool, bool]]) -> tuple[bytes, tuple[Slot, ...], list[bool]]:
    """A message with markers in some of its slots; each slot comes with what it was and what it becomes."""
    pieces: list[bytes] = []
    slots: list[Slot] = []
    gone: list[bool] = []
    at = shift = 0
    for slot, was_gone, goes in found:
        pieces.append(message[at : slot.start])
        at = slot.end
        kept = slot.marker if goes and not was_gone else message[slot.start : slot.end]
        pieces.append(kept)
        start = slot.start + shift
        shift += len(kept) - (slot.end - slot.start)
        slots.append(Slot(start, start + len(kept), slot.marker, slot.place, slot.large))
        gone.append(was_gone or goes)
    pieces.append(message[at:])
    return b"".join(pieces), tuple(slots), gone


def _from(pieces: list[bytes], at: int) -> list[bytes]:
    """The pieces from an offset on; counted from the end, since what is asked for is new."""
    total = sum(map(len, pieces))
    left = total - at
    found: list[bytes] = []
    for piece in reversed(pieces):
        if left <= 0:
            break
        found.append(piece[-left:] if len(piece) > left else piece)
        left -= len(piece)
    found.reverse()
    return found
