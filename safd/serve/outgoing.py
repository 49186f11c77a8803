"""Bytes out: the system call first, the event loop only to wait; whole frames in order, whoever sends them.

A frame is queued whole before anything can wait, so that frames of several tasks never mix, and one whose sender was
cancelled is finished by whoever sends next. Large answers leave in the pieces they came in, without being joined.
"""

import socket
from collections import deque
from collections.abc import Sequence

import attrs
import trio

BATCH_BYTES = 256 * 1024
BATCH_PIECES = 512
"""Of one sendmsg call; the kernel takes up to 1024 pieces, and seldom more bytes than these."""
TURNS = 8
"""System calls that succeed at once before others get their turn."""


class PeerGone(Exception):
    """The peer closed its end, or has not read for as long as it may."""


@attrs.define(eq=False)
class Outgoing:
    """Sends on one non-blocking socket. What waits is bounded by its senders: each waits for its own frame."""

    _sock: socket.socket
    _timeout_s: float
    _waiting: deque[bytes | memoryview] = attrs.field(factory=deque["bytes | memoryview"])
    _lock: trio.Lock = attrs.field(factory=trio.Lock)

    async def send(self, pieces: Sequence[bytes]) -> None:
        """Returns when the kernel has all of it. Raises PeerGone."""
        if not self._waiting and len(pieces) == 1:
            piece = pieces[0]
            sent = self._send_nowait([piece])
            if sent == len(piece):
                return
            self._waiting.append(memoryview(piece)[sent:])
        else:
            self._waiting.extend(pieces)
        await self.flush()

    async def flush(self) -> None:
        """Send what earlier senders left. Raises PeerGone."""
        turns = 0
        async with self._lock:
            while self._waiting:
                sent = self._send_nowait(self._batch())
                if sent:
                    self._drop(sent)
                    turns += 1
                    if turns % TURNS == 0:
                        await trio.lowlevel.checkpoint()
                else:
                    await self._wait_writable()

    def _batch(self) -> list[bytes | memoryview]:
        batch: list[bytes | memoryview] = []
        size = 0
        for piece in self._waiting:
            batch.append(piece)
            size += len(piece)
            if size >= BATCH_BYTES or len(batch) >= BATCH_PIECES:
                break
        return batch

    def _drop(self, sent: int) -> None:
        while sent:
            piece = self._waiting.popleft()
            if len(piece) > sent:
                self._waiting.appendleft(memoryview(piece)[sent:])
                return
            sent -= len(piece)

    def _send_nowait(self, pieces: list[bytes | memoryview] | list[bytes]) -> int:
        """How much the kernel took; 0 when it takes nothing now."""
        try:
            return self._sock.send(pieces[0]) if len(pieces) == 1 else self._sock.sendmsg(pieces)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerGone(error.strerror) from error

    async def _wait_writable(self) -> None:
        with trio.move_on_after(self._timeout_s) as patience:
            await trio.lowlevel.wait_writable(self._sock)
        if patience.cancelled_caught:
            raise PeerGone("the peer does not read")
