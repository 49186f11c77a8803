"""The face for people and surfaces: HTTP/1.1, with live events as an event stream."""

import time
from email.utils import formatdate
from typing import assert_never

import attrs
import trio

from safd.api import describe, sse
from safd.api.blocks import BLOCK_BYTES, blocks
from safd.api.door import Given
from safd.api.events import LiveEvent
from safd.api.methods import Method
from safd.api.weight import refuse_too_many
from safd.methods.context import Peer
from safd.methods.subscription import Subscription
from safd.model.errors import BuffersFull, SafError
from safd.model.failures import Stopping
from safd.serve import http
from safd.serve.dispatch import Failed, Outcome
from safd.serve.following import follow
from safd.serve.http import Asked, Face, GoOn, Page, Refused, Wanted
from safd.serve.intake import Intake, Share
from safd.serve.link import RECEIVE_BYTES, THREAD_FROM_BYTES, Link, Room
from safd.serve.outgoing import PeerGone

OK = 200
WELCOME = b"""safd keeps the conversation record of the agents on this node, and tells each request who the caller is.

GET  /openapi.json                       every method, with its parameters and answers
GET  /v1/principal                       who you are, as the kernel sees it
GET  /v1/conversations                   the conversations that you may read
GET  /v1/conversations/ID/messages       the stored messages, verbatim
GET  /v1/conversations/ID/events         what is stored, then what happens, as an event stream
POST /v1/conversations/ID/messages       append
POST /v1/conversations/ID/replay         the record as a payload for a provider
"""


@attrs.define(eq=False)
class WebFace:
    """Runs until the peer or an answer ends the connection."""

    room: Room
    link: Link
    peer: Peer
    face: Face

    async def run(self, intake: Intake) -> None:
        for data, sender in intake.hand_over():
            self.face.receive(data, sender)
        try:
            while await self._step():
                pass
        except SafError as error:
            await self._refuse(Refused(error, whole=False))

    async def _step(self) -> bool:
        """Whether the connection goes on."""
        match self.face.next():
            case Wanted.BYTES:
                return await self._receive()
            case Wanted.END:
                return False
            case GoOn(pieces=pieces):
                await self.link.outgoing.send(b"".join(pieces))
                return True
            case Wanted.TURN:
                await trio.lowlevel.checkpoint()
                return True
            case Refused() as refused:
                self.link.begin()
                goes_on = await self._refuse(refused)
                self.link.finish()
                return goes_on
            case Asked() as asked:
                self.link.begin()
                goes_on = await self._answer(asked)
                self.link.finish()
                await self.link.next_turn()
                return goes_on and self.face.start_next()
            case _ as never:
                assert_never(never)

    async def _receive(self) -> bool:
        half = self.face.half
        if self.room.stopping and not half:
            return False
        received = await self.link.receive(half)
        if received is None:
            self.face.receive_end()
        else:
            self.face.receive(*received)
            if half:
                await self.link.next_turn()
        return True

    async def _refuse(self, refused: Refused) -> bool:
        self.room.dispatch.refused(refused.error)
        await self.link.outgoing.send(b"".join(self.face.refuse(refused, _date())))
        if refused.whole:
            return self.face.start_next()
        await self.link.linger()
        return False

    async def _answer(self, asked: Asked) -> bool:
        """Whether the connection goes on, as far as this answer is concerned."""
        if self.room.stopping:
            return await self._fail(Failed(Stopping(), fatal=True))
        if isinstance(asked.target, Page):
            return await self._page(asked.target, asked)
        outcome = await self._outcome(asked.target, asked)
        match outcome:
            case list():
                return await self._send(http.JSON, outcome)
            case Failed():
                return await self._fail(outcome)
            case Subscription():
                await self._stream(outcome)
                return False
            case _ as never:
                assert_never(never)

    async def _outcome(self, method: Method, asked: Asked) -> Outcome:
        try:
            given = await self._given(asked)
        except SafError as error:
            self.room.dispatch.refused(error)
            return Failed(error)
        return await self.room.dispatch.answer(self.peer, method.name, given, asked.senders, asked.claim)

    async def _given(self, asked: Asked) -> Given:
        if len(asked.body) < THREAD_FROM_BYTES:
            return http.given(asked)
        limit = self.room.limits.request_values
        return await trio.to_thread.run_sync(_given_large, asked, limit, limiter=self.room.parses)

    async def _page(self, page: Page, asked: Asked) -> bool:
        match page:
            case Page.ROOT:
                return await self._send(http.TEXT, [WELCOME])
            case Page.HEALTH:
                return await self._send(http.TEXT, [b"ok\n"])
            case Page.DESCRIPTION:
                return await self._send(http.JSON, [describe.openapi()])
            case Page.METRICS:
                refused = await self.room.dispatch.administers(self.peer, asked.senders)
                if refused is not None:
                    return await self._fail(refused)
                return await self._send(http.METRICS, [self.room.dispatch.metrics.text()])
            case _ as never:
                assert_never(never)

    async def _send(self, kind: bytes, body: list[bytes]) -> bool:
        size = sum(map(len, body))
        if size > BLOCK_BYTES:
            try:
                self.link.share.hold(size)
            except BuffersFull as error:
                return await self._fail(Failed(error))
        await self.link.outgoing.send_blocks(blocks(self.face.answer(OK, kind, body, _date())))
        return True

    async def _fail(self, failed: Failed) -> bool:
        refused = Refused(failed.error, whole=not failed.fatal)
        await self.link.outgoing.send(b"".join(self.face.refuse(refused, _date())))
        return not failed.fatal

    async def _stream(self, subscription: Subscription) -> None:
        """An event stream, until the reader goes, loses its right, or the daemon stops."""
        name = subscription.attached.subscription
        self.peer.subscriptions[name] = subscription
        metrics = self.room.dispatch.metrics
        metrics.followers += 1
        try:
            self.link.busy = False  # it never ends by itself: a stopping daemon does not wait for it
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_for_end, nursery.cancel_scope)
                await self._tell(subscription)
                nursery.cancel_scope.cancel()
        finally:
            metrics.followers -= 1
            subscription.close()
            self.peer.subscriptions.pop(name, None)

    async def _tell(self, subscription: Subscription) -> None:
        outgoing = self.link.outgoing
        share = Share(self.room.budget, self.peer.pin.uid)

        def frame(event: LiveEvent) -> bytes:
            return self.face.stream(sse.render_event(event))

        try:
            await outgoing.send(b"".join(self.face.begin_stream(_date())))
            beat = self.face.stream(sse.HEARTBEAT)
            heartbeat_s = self.room.limits.heartbeat_s
            failed = await self.room.dispatch.watched(
                "an event stream", follow(subscription, outgoing, share, heartbeat_s, frame, beat)
            )
            if failed is not None:
                last = self.face.stream(sse.render_error(http.problem(failed.error)))
                await outgoing.send(b"".join((last, *self.face.end_stream())))
        except PeerGone:
            return
        finally:
            share.release()

    async def _wait_for_end(self, scope: trio.CancelScope) -> None:
        """The reader of a stream has nothing more to say; when it hangs up, the stream ends."""
        while True:
            await trio.lowlevel.wait_readable(self.link.sock)
            try:
                if not self.link.sock.recv(RECEIVE_BYTES):
                    break
            except BlockingIOError:
                continue
            except OSError:
                break
        scope.cancel()


def _given_large(asked: Asked, values: int) -> Given:
    refuse_too_many(asked.body, values)
    return http.given(asked)


_dates: dict[int, list[tuple[bytes, bytes]]] = {}


def _date() -> list[tuple[bytes, bytes]]:
    """The header that RFC 9110 asks of a server with a clock; written once a second."""
    now = int(time.time())
    found = _dates.get(now)
    if found is None:
        _dates.clear()
        found = _dates[now] = [(b"Date", formatdate(now, usegmt=True).encode())]
    return found
