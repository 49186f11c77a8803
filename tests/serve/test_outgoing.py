"""Bytes out: whole, in order, never mixed, however little the kernel takes and whoever is cancelled."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from safd.serve.outgoing import Outgoing, PeerGone


@asynccontextmanager
async def pair(timeout_s: float = 60) -> AsyncIterator[tuple[Outgoing, trio.SocketStream]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(theirs)) as stream:
            yield Outgoing(ours, timeout_s), stream


async def read(stream: trio.SocketStream, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += await stream.receive_some()
    return found


@pytest.mark.trio
async def test_many_senders_many_pieces() -> None:
    """Frames of several tasks through a narrow socket: each whole, each task's own in order."""
    frames = [[b"<%d:" % task, b"x" * (task * 700), b"", b">"] for task in range(20)]
    async with pair() as (outgoing, stream), trio.open_nursery() as nursery:
        for frame in frames:
            nursery.start_soon(outgoing.send_blocks, frame)
        found = await read(stream, sum(len(piece) for frame in frames for piece in frame))
    for frame in frames:
        assert b"".join(frame) in found


@pytest.mark.trio
async def test_a_cancelled_sender_tears_nothing() -> None:
    """What it had begun is finished by whoever sends next."""
    async with pair() as (outgoing, stream):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(outgoing.send, b"<" + b"a" * 100_000 + b">")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(outgoing.send_blocks, [b"<", b"b" * 100, b">"])
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outgoing.send, b"<c>")
            found = await read(stream, 100_002 + 102 + 3)
    assert found == b"<" + b"a" * 100_000 + b"><" + b"b" * 100 + b"><c>"


@pytest.mark.trio
async def test_many_small_blocks() -> None:
    """Ten thousand blocks arrive in order, each made only when those before it have left."""
    pieces = [b"%d," % n for n in range(10_000)]
    made = 0

    def make() -> Iterator[bytes]:
        nonlocal made
        for piece in pieces:
            made += 1
            yield piece

    async with pair() as (outgoing, stream), trio.open_nursery() as nursery:
        nursery.start_soon(outgoing.send_blocks, make())
        await trio.testing.wait_all_tasks_blocked()
        assert 0 < made < len(pieces)
        assert await read(stream, len(b"".join(pieces))) == b"".join(pieces)


@pytest.mark.trio
async def test_one_who_does_not_read(autojump_clock: trio.testing.MockClock) -> None:
    """The wait for one piece has an end; reading a little in time starts it anew."""
    async with pair(timeout_s=10) as (outgoing, stream):
        gone: list[float] = []

        async def send() -> None:
            with pytest.raises(PeerGone):
                await outgoing.send(b"x" * 1_000_000)
            gone.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            for _ in range(5):
                await trio.sleep(8)
                await stream.receive_some(65536)
                assert not gone
    assert 48 <= gone[0] <= 52


@pytest.mark.trio
async def test_one_who_has_gone() -> None:
    """A closed peer is PeerGone, not an error of ours."""
    async with pair() as (outgoing, stream):
        await stream.aclose()
        with pytest.raises(PeerGone):
            await outgoing.send(b"x")
