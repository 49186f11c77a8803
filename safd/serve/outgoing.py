"""Bytes out: the system call first, the event loop only to wait; whole frames in order, whoever sends them.

A frame is queued whole before anything can wait, so that frames of several tasks never mix, and one whose sender was
cancelled is finished by whoever sends next. A large frame makes its bytes while it is sent.
"""

import socket
from collections import deque
from collections.abc import Iterable, Iterator

import attrs
import trio

TURNS = 8
"""System calls that succeed at once before others get their turn."""


class PeerGone(Exception):
    """The peer closed its end, or has not read for as long as it may."""


@attrs.define(eq=False)
class Outgoing:
    """Sends on one non-blocking socket. What waits is bounded by its senders: each waits for its own frame."""

    _sock: socket.socket
    _timeout_s: float
    _frames: deque[Iterator[bytes]] = attrs.field(factory=deque[Iterator[bytes]])
    _rest: bytes | memoryview = b""
    _lock: trio.Lock = attrs.field(factory=trio.Lock)

    async def send(self, frame: bytes) -> None:
        """Returns when the kernel has all of it. Raises PeerGone."""
        if self._rest or self._frames:
            await self.send_blocks((frame,))
            return
        sent = self._send_nowait(frame)
        if sent < len(frame):
            self._rest = memoryview(frame)[sent:]
            await self.flush()

    async def send_blocks(self, frame: Iterable[bytes]) -> None:
        """The same for a frame in blocks, which are made one by one as the peer reads."""
        self._frames.append(iter(frame))
        await self.flush()

    async def flush(self) -> None:
        """Send what earlier senders left. Raises PeerGone."""
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            await self._flush()
        finally:
            self._lock.release()

    async def _flush(self) -> None:
        turns = 0
        while self._rest or self._begin_next():
            sent = self._send_nowait(self._rest)
            if not sent:
                await self._wait_writable()
                continue
            self._rest = memoryview(self._rest)[sent:]
            turns += 1
            if turns % TURNS == 0:
                await trio.lowlevel.checkpoint()

    def _begin_next(self) -> bool:
        """Whether there is another block; it is the rest now."""
        while self._frames:
            for block in self._frames[0]:
                if block:
                    self._rest = block
                    return True
            self._frames.popleft()
        return False

    def _send_nowait(self, block: bytes | memoryview) -> int:
        """How much the kernel took; 0 when it takes nothing now."""
        try:
            return self._sock.send(block)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerGone(error.strerror) from error

    async def _wait_writable(self) -> None:
        with trio.move_on_after(self._timeout_s) as patience:
            await trio.lowlevel.wait_writable(self._sock)
        if patience.cancelled_caught:
            raise PeerGone("the peer does not read")
