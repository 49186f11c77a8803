"""One connection, from its first byte to its end. Whatever a client does ends here, and touches no other."""

import socket

import attrs
import trio

from safd.methods.context import Peer
from safd.serve.http import Face
from safd.serve.intake import Intake
from safd.serve.link import Link, Room
from safd.serve.outgoing import PeerGone
from safd.serve.rpc import LineFace
from safd.serve.web import WebFace

LINES = frozenset(b"{[")
"""First bytes that open JSON-RPC lines. A batch is refused, but in the framing that it was sent in."""


@attrs.define(eq=False)
class Connection:
    """`run` once. `stop` lets it finish the request that it is answering, if it is."""

    room: Room
    link: Link
    peer: Peer
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @classmethod
    def over(cls, sock: socket.socket, room: Room, peer: Peer) -> "Connection":
        """`sock` is non-blocking and delivers credentials; whoever made it closes it."""
        return cls(room, Link.over(sock, room, peer.pin.uid), peer)

    async def run(self) -> None:
        try:
            with self._scope:
                await self._serve()
        except* PeerGone:
            pass  # alone, or out of a nursery together with a follower's
        finally:
            self.link.share.release()
            for subscription in self.peer.subscriptions.values():
                subscription.close()
            self.peer.subscriptions.clear()

    def stop(self) -> None:
        if not self.link.busy:
            self._scope.cancel()

    async def _serve(self) -> None:
        intake = Intake(self.room.limits.request_bytes)
        while (first := intake.skip_space()) is None:
            received = await self.link.receive(0)
            if received is None:
                return
            intake.feed(*received)
        if first in LINES:
            await LineFace(self.room, self.link, self.peer, intake).run()
        else:
            await WebFace(self.room, self.link, self.peer, Face(self.room.limits.request_bytes)).run(intake)
