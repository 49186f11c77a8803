"""The face for programs: JSON-RPC lines. Requests are answered in order; live events come between the answers."""

from typing import assert_never

import attrs
import trio

from safd.api import door, lines
from safd.api.blocks import BLOCK_BYTES
from safd.api.door import Given
from safd.api.events import LiveEvent
from safd.api.lines import Answer, Bad, Line, Request
from safd.api.weight import refuse_too_many
from safd.methods.context import Peer
from safd.methods.subscription import Subscription
from safd.model.errors import BuffersFull, RequestMalformed, SafError, TooManySubscriptions, TooManyValues
from safd.model.failures import Stopping
from safd.principal.facts import Sender
from safd.serve.dispatch import Failed, Outcome
from safd.serve.following import follow
from safd.serve.intake import Intake, Share
from safd.serve.link import THREAD_FROM_BYTES, Link, Room
from safd.serve.outgoing import PeerGone

FEW_PIECES = 64
"""A result in no more pieces than these, and of no more bytes than a block, leaves at once."""


def _parse_large(raw: bytes, values: int) -> Line:
    try:
        refuse_too_many(raw, values)
    except TooManyValues as error:
        return Bad(error, lines.NO_ID)
    return lines.parse(raw)


@attrs.define(eq=False)
class LineFace:
    """Runs until the peer sends no more. There is no nursery, and no task beside it, until something is followed."""

    room: Room
    link: Link
    peer: Peer
    intake: Intake
    _scopes: dict[str, trio.CancelScope] = attrs.field(factory=dict[str, trio.CancelScope])
    _first: Subscription | None = None
    _nursery: trio.Nursery | None = None
    _ended: bool = False

    async def run(self) -> None:
        await self._requests()
        if self._ended:
            return
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            if self._first is not None:
                self._start(self._first)
            await self._requests()
            nursery.cancel_scope.cancel()

    async def _requests(self) -> None:
        """Until the end, or until the first subscription, which needs a task."""
        try:
            while not self._ended and (self._nursery is not None or self._first is None):
                taken = self.intake.take_line()
                if taken is not None:
                    await self._line(*taken)
                    await self.link.next_turn()
                elif self.room.stopping or not await self._receive():
                    self._ended = True
        except SafError as error:
            self._ended = True
            await self._refuse(lines.NO_ID, error)
            await self.link.linger()

    async def _receive(self) -> bool:
        received = await self.link.receive(len(self.intake))
        if received is not None:
            data, sender = received
            if not self.intake and data.find(b"\n") == len(data) - 1 <= self.intake.request_bytes:
                await self._line(data, self.link.alone(sender))  # one whole line, as nearly always
            else:
                self.intake.feed(data, sender)
            await self.link.next_turn()
            return True
        rest, senders = self.intake.take_rest()
        await self._line(rest, senders)  # a last line may lack its line feed
        return False

    async def _line(self, raw: bytes, senders: frozenset[Sender]) -> None:
        if not raw.strip(lines.SPACE):
            return
        self.link.begin()
        match await self._parsed(raw):
            case Request() as request:
                await self._request(request, senders)
            case Bad(error=error, id=id_):
                await self._refuse(id_, error)
            case Answer(id=id_):
                await self._refuse(id_, RequestMalformed(reason="it is an answer, and nothing was asked"))
            case _ as never:
                assert_never(never)
        self.link.finish()

    async def _parsed(self, raw: bytes) -> Line:
        if len(raw) < THREAD_FROM_BYTES:
            return lines.parse(raw)
        limit = self.room.limits.request_values
        return await trio.to_thread.run_sync(_parse_large, raw, limit, limiter=self.room.parses)

    async def _request(self, request: Request, senders: frozenset[Sender]) -> None:
        if self.room.stopping:
            outcome: Outcome = Failed(Stopping())
        else:
            given = Given(request.params)
            outcome = await self.room.dispatch.answer(self.peer, request.method, given, senders, None)
        match outcome:
            case list():
                if request.id is not None:
                    await self._answer(request.id, outcome)
            case Failed(error=error, fatal=fatal):
                if request.id is not None:
                    await self.link.outgoing.send(lines.render_error(request.id, error))
                self._ended = self._ended or fatal
            case Subscription():
                await self._subscribed(request.id, outcome)
            case _ as never:
                assert_never(never)
        if self._scopes:
            for detached in self._scopes.keys() - self.peer.subscriptions.keys():
                self._scopes[detached].cancel()

    async def _answer(self, id_: str, result: list[bytes]) -> None:
        size = sum(map(len, result))
        if len(result) <= FEW_PIECES and size <= BLOCK_BYTES:
            await self.link.outgoing.send(lines.render_answer(id_, result))
            return
        try:
            self.link.share.hold(size)
        except BuffersFull as error:
            await self._refuse(id_, error)
        else:
            await self.link.outgoing.send_blocks(lines.render_large_answer(id_, result))

    async def _subscribed(self, id_: str | None, subscription: Subscription) -> None:
        if id_ is None:
            subscription.close()  # nobody would know its name
            return
        limit = self.room.limits.subscriptions_per_connection
        if len(self.peer.subscriptions) >= limit:
            subscription.close()
            await self._refuse(id_, TooManySubscriptions(limit=limit))
            return
        self.peer.subscriptions[subscription.attached.subscription] = subscription
        await self.link.outgoing.send(lines.render_answer(id_, door.render_pieces(subscription.attached)))
        if self._nursery is None:
            self._first = subscription
        else:
            self._start(subscription)

    def _start(self, subscription: Subscription) -> None:
        if self._nursery is None:
            raise AssertionError("a subscription is followed in the connection's nursery")
        scope = trio.CancelScope()
        self._scopes[subscription.attached.subscription] = scope
        self._nursery.start_soon(self._follow, self._nursery, subscription, scope)

    async def _follow(self, nursery: trio.Nursery, subscription: Subscription, scope: trio.CancelScope) -> None:
        name = subscription.attached.subscription

        def frame(event: LiveEvent) -> bytes:
            return lines.render_event(name, event)

        metrics = self.room.dispatch.metrics
        metrics.followers += 1
        share = Share(self.room.budget, self.peer.pin.uid)
        try:
            with scope:
                outgoing, heartbeat_s = self.link.outgoing, self.room.limits.heartbeat_s
                failed = await self.room.dispatch.watched(
                    "a subscription", follow(subscription, outgoing, share, heartbeat_s, frame, None)
                )
                if failed is not None:
                    await outgoing.send(lines.render_end(name, failed.error))
        except PeerGone:
            nursery.cancel_scope.cancel()
        finally:
            metrics.followers -= 1
            share.release()
            subscription.close()
            del self._scopes[name]
            self.peer.subscriptions.pop(name, None)

    async def _refuse(self, id_: str, error: SafError) -> None:
        """What is refused before a method was found."""
        self.room.dispatch.refused(error)
        await self.link.outgoing.send(lines.render_error(id_, error))
