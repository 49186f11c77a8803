"""What stands behind the socket, made up: an application that shows what reached it, and a talk over a real socketpair.

Memory streams cannot carry credentials, so every byte goes through the kernel here too.
"""

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from safd.api import params, results
from safd.api.door import Given, structure
from safd.api.events import LiveEvent
from safd.api.methods import Method
from safd.live.feed import Feed
from safd.methods.context import Peer
from safd.methods.subscription import Subscription
from safd.model.errors import NotAdministrator, NotReader, SafError
from safd.model.ids import ConversationId, Seq, Uid
from safd.model.principals import Drift, DriftKind, Node, Pin, Posture, Principal, Strength
from safd.node.peer import Kernel, PeerPin, pin_peer, prepare_listener
from safd.principal.facts import Sender
from safd.serve.connection import Connection
from safd.serve.dispatch import Dispatch
from safd.serve.intake import Budget
from safd.serve.link import Room
from safd.serve.metrics import Metrics
from safd.settings import Limits

HERE = ConversationId("conv_01890000-0000-7000-8000-000000000000")
KERNEL = Kernel.probe()


@attrs.frozen
class Seen:
    """One request as the application saw it."""

    method: str
    senders: frozenset[Sender]
    claim: str | None
    asked: params.Params


class _NothingStored:
    """The one thing that a subscription asks of a store."""

    async def read_after(self, *_: object, limit_bytes: int) -> tuple[()]:
        assert limit_bytes > 0
        await trio.lowlevel.checkpoint()
        return ()


@attrs.define(eq=False)
class FakeApp:
    """`page`: what hydration answers. `gate`, once set, holds node.drift. `fit` False: a caller lost its right."""

    page: tuple[bytes, ...] = ()
    gate: trio.Event | None = None
    entered: trio.Event = attrs.field(factory=trio.Event)
    fit: bool = True
    administers: bool = True
    peers: set[Peer] = attrs.field(factory=set[Peer])
    seen: list[Seen] = attrs.field(factory=list[Seen])
    feed: Feed = attrs.field(factory=lambda: Feed(64, 100))
    closed: list[str] = attrs.field(factory=list[str])
    _subscriptions: int = 0

    def connected(self, pin: PeerPin) -> Peer:
        peer = Peer(pin=pin)
        self.peers.add(peer)
        return peer

    def disconnected(self, peer: Peer) -> None:
        assert not peer.subscriptions
        self.peers.discard(peer)

    async def may_administer(self, peer: Peer, senders: frozenset[Sender]) -> None:
        assert senders
        await trio.lowlevel.checkpoint()
        if not self.administers:
            raise NotAdministrator(uid=peer.pin.uid)

    async def answer(
        self, peer: Peer, method: Method, given: Given, senders: frozenset[Sender], claim: str | None
    ) -> results.Result | Subscription:
        asked = structure(method.params, given)
        self.seen.append(Seen(method.name, senders, claim, asked))
        match asked:
            case params.Hello():
                return results.Hello(server="fake", version="0", agent=asked.agent)
            case params.Messages():
                return results.Messages(
                    data=tuple(map(results.RawJson, self.page)),
                    first_id=None,
                    last_id=None,
                    has_more=False,
                    head_seq=Seq(len(self.page)),
                )
            case params.Append():
                return results.Appended(first_seq=Seq(1), last_seq=Seq(len(asked.messages)), ids=(), head_seq=Seq(1))
            case params.Attach():
                return self._attached(asked)
            case params.Detach():
                peer.subscriptions.pop(asked.subscription).close()
                return results.Detached(subscription=asked.subscription)
            case params.Drift():
                self.entered.set()
                if self.gate is not None:
                    await self.gate.wait()
                return results.DriftReport(agents=(), unreadable=())
            case params.Status():
                raise ZeroDivisionError("a fault of the fake's own")
            case _:
                return results.Described(document=results.RawJson(json.dumps(type(asked).__name__).encode()))

    def _attached(self, asked: params.Attach) -> Subscription:
        self._subscriptions += 1

        async def recheck() -> None:
            await trio.lowlevel.checkpoint()
            if not self.fit:
                raise NotReader(conversation=asked.conversation, uid=0)

        return Subscription(
            attached=results.Attached(subscription=f"sub_{self._subscriptions}", head_seq=Seq(0)),
            conversation=asked.conversation,
            store=_NothingStored(),  # type: ignore[arg-type]
            follower=self.feed.follow(asked.conversation),
            recheck=recheck,
            cursor=asked.after or 0,
        )

    def publish(self, seq: int | None, data: bytes = b"{}", name: str = "user_message") -> None:
        self.feed.publish(HERE, LiveEvent(name, seq, data))


def principal(posture: Posture, *kinds: DriftKind, agent: str | None = "hermes", uid: int = 1000) -> Principal:
    """What might have been decided about somebody."""
    return Principal(
        agent=agent,
        posture=posture,
        mode=None,
        uid=Uid(uid),
        account="annie",
        expected=None,
        node=Node(id="0" * 32, name="n"),
        drift=tuple(Drift(kind=kind, expected="", seen="", strength=Strength.KERNEL, advice="") for kind in kinds),
        pin=Pin.PEERPIDFD,
        text="",
        observed_at="",
    )


def room_of(app: FakeApp, limits: Limits | None = None) -> Room:
    limits = limits or Limits()
    return Room(limits, Dispatch(app, Metrics()), Budget(limits.buffered_bytes_per_uid))


@attrs.define(eq=False)
class Talk:
    """The client's end of a connection that is being served."""

    app: FakeApp
    room: Room
    connection: Connection
    sock: trio.socket.SocketType
    ended: trio.Event
    _rest: bytes = b""

    async def send(self, data: bytes) -> None:
        with memoryview(data) as view:
            sent = 0
            while sent < len(view):
                sent += await self.sock.send(view[sent:])

    async def read_until(self, end: bytes) -> bytes:
        """Everything up to `end`, which must come."""
        while end not in self._rest:
            received = await self.sock.recv(1024 * 1024)
            if not received:
                raise EOFError(self._rest[-2000:])
            self._rest += received
        found, _, self._rest = self._rest.partition(end)
        return found

    async def line(self) -> Any:
        return json.loads(await self.read_until(b"\n"))

    async def read_all(self) -> bytes:
        """Everything until the server closes."""
        found, self._rest = [self._rest], b""
        while received := await self.sock.recv(1024 * 1024):
            found.append(received)
        return b"".join(found)

    async def http(self, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """One answer: status, headers by lower-case name, body."""
        head = (await self.read_until(b"\r\n\r\n")).decode("ascii")
        first, *rest = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        status = int(first.split(" ")[1])
        size = int(headers.get("content-length", "0")) if body else 0
        while len(self._rest) < size:
            received = await self.sock.recv(1024 * 1024)
            if not received:
                raise EOFError(self._rest[-2000:])
            self._rest += received
        found, self._rest = self._rest[:size], self._rest[size:]
        return status, headers, found

    def hang_up(self) -> None:
        self.sock.close()


@asynccontextmanager
async def talking(app: FakeApp, limits: Limits | None = None, *, room: Room | None = None) -> AsyncIterator[Talk]:
    """A served connection; it must end by itself once the client's end is closed."""
    room = room or room_of(app, limits)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        prepare_listener(ours, KERNEL)
        ours.setblocking(False)
        pin = pin_peer(ours, KERNEL)
        peer = app.connected(pin)
        connection = Connection.over(ours, room, peer)
        ended = trio.Event()

        async def run() -> None:
            await connection.run()
            ours.close()
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            talk = Talk(app, room, connection, trio.socket.from_stdlib_socket(theirs), ended)
            yield talk
            talk.hang_up()
            await ended.wait()
        app.disconnected(peer)
        pin.close()
        assert room.budget.used == 0


async def must_end(work: Callable[[], Awaitable[object]], kind: type[SafError]) -> SafError:
    """What the work was refused with."""
    try:
        await work()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
