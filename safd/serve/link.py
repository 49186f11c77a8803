"""A socket as both faces use it: bytes in with their sender, bytes out, and what a peer may make us wait for."""

import contextlib
import socket

import attrs
import trio

from safd.model.errors import RequestIncomplete
from safd.model.ids import Uid
from safd.node.peer import ANCILLARY_BYTES, parse_sender
from safd.principal.facts import Credentials, NoCredentials, Sender
from safd.serve.dispatch import Dispatch
from safd.serve.intake import Budget, Share
from safd.serve.outgoing import TURNS, Outgoing, PeerGone
from safd.settings import Limits

RECEIVE_BYTES = 64 * 1024
RECEIVE_MORE_BYTES = 256 * 1024
"""Asked of one read, between requests and within one. Allocated at the read: an idle connection keeps no buffer."""
LINGER_S = 1.0
"""How long a peer that was refused in the middle of a request may go on sending before it has to read why."""
THREAD_FROM_BYTES = 256 * 1024
"""A text this long is parsed in a thread, so that the others are served meanwhile; below, the hop costs more."""


@attrs.define(eq=False)
class Room:
    """What all connections share. Once `stopping`, what was begun is finished and nothing new is."""

    limits: Limits
    dispatch: Dispatch
    budget: Budget
    parses: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(2))
    stopping: bool = False


@attrs.define(eq=False)
class Link:
    """One connection's socket. `busy` while a request is being answered."""

    sock: socket.socket
    room: Room
    outgoing: Outgoing
    share: Share
    busy: bool = False
    _turns: int = 0
    _half_until: float | None = None
    _credentials: tuple[object, int] | None = None
    _sender: Sender = attrs.field(factory=NoCredentials)
    _alone: frozenset[Sender] = frozenset()

    @classmethod
    def over(cls, sock: socket.socket, room: Room, uid: Uid) -> "Link":
        """`uid`: whose budget the connection draws on, its opener's."""
        return cls(sock, room, Outgoing(sock, room.limits.send_timeout_s), Share(room.budget, uid))

    async def receive(self, half: int) -> tuple[bytes, Sender] | None:
        """The next chunk and who wrote it; None when the peer sends no more.

        `half`: how many bytes of an incomplete request are kept. Raises RequestIncomplete, BuffersFull, PeerGone.
        """
        if half:
            self.share.hold(half)
        while True:
            try:
                data, ancillary, flags, _ = self.sock.recvmsg(
                    RECEIVE_MORE_BYTES if half else RECEIVE_BYTES, ANCILLARY_BYTES
                )
            except BlockingIOError:
                await self._wait_readable(bool(half))
                continue
            except OSError as error:
                raise PeerGone(error.strerror) from error
            if not data:
                return None  # what the kernel tells of its sender is nobody, who reads as root
            if (ancillary, flags) == self._credentials:
                return data, self._sender
            return data, self._parse_sender(ancillary, flags)

    def _parse_sender(self, ancillary: list[tuple[int, int, bytes]], flags: int) -> Sender:
        """What the kernel said of this chunk; credentials that are byte for byte those of the last need no parsing."""
        sender = parse_sender(ancillary, flags)
        if isinstance(sender, Credentials) and len(ancillary) == 1:
            self._credentials, self._sender, self._alone = (ancillary, flags), sender, frozenset((sender,))
        return sender

    def alone(self, sender: Sender) -> frozenset[Sender]:
        return self._alone if sender is self._sender and self._alone else frozenset((sender,))

    async def _wait_readable(self, half: bool) -> None:
        self._turns = 0
        if not half:
            await trio.lowlevel.wait_readable(self.sock)
            return
        patience_s = self.room.limits.idle_request_s
        if self._half_until is None:
            self._half_until = trio.current_time() + patience_s
        with trio.move_on_at(self._half_until) as patience:
            await trio.lowlevel.wait_readable(self.sock)
        if patience.cancelled_caught:
            raise RequestIncomplete(waited_s=patience_s)

    async def next_turn(self) -> None:
        """After each chunk or request: one that never has to wait lets the others have their turn."""
        self._turns += 1
        if self._turns >= TURNS:
            self._turns = 0
            await trio.lowlevel.checkpoint()

    def begin(self) -> None:
        """A whole request is here."""
        self.busy = True
        self._half_until = None

    def finish(self) -> None:
        """It is answered."""
        self.busy = False
        self.share.release()

    async def linger(self) -> None:
        """Let a peer that is still sending read what it was answered, before its connection goes.

        To close at once would break its sending, and many programs look for an answer only after that.
        """
        with contextlib.suppress(OSError), trio.move_on_after(LINGER_S):
            self.sock.shutdown(socket.SHUT_WR)
            while True:
                try:
                    if not self.sock.recv(RECEIVE_BYTES):
                        return
                    await self.next_turn()
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(self.sock)
