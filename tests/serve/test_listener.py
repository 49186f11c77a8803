"""The listening socket: what may stand in its way, who is turned away, what it survives, how it stops."""

import errno
import json
import os
import resource
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from safd.serve import listener
from safd.serve.metrics import Metrics
from safd.settings import Limits
from tests.fakes import KERNEL, FakeApp

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"session.hello","params":{}}\n'
DRIFT = b'{"jsonrpc":"2.0","id":1,"method":"node.drift","params":{}}\n'


@attrs.frozen
class Served:
    path: Path
    app: FakeApp
    metrics: Metrics
    nursery: trio.Nursery

    async def connect(self) -> trio.SocketStream:
        return await trio.open_unix_socket(str(self.path))


@asynccontextmanager
async def serving(folder: Path, limits: Limits | None = None, app: FakeApp | None = None) -> AsyncIterator[Served]:
    app = app or FakeApp()
    metrics = Metrics()
    with listener.bind(folder / "s.sock", shared=True, kernel=KERNEL) as sock:
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(listener.serve, limits or Limits(), sock, KERNEL, app, metrics))
            yield Served(folder / "s.sock", app, metrics, nursery)
            nursery.cancel_scope.cancel()
    assert app.peers == set()
    assert (metrics.connections, metrics.followers) == (0, 0)


async def read_all(stream: trio.SocketStream) -> bytes:
    return b"".join([part async for part in stream])


async def line(stream: trio.SocketStream) -> dict[str, object]:
    found = b""
    while not found.endswith(b"\n"):
        part = await stream.receive_some()
        if not part:
            raise EOFError(found)
        found += part
    answer: dict[str, object] = json.loads(found)
    return answer


# --- binding


@pytest.mark.parametrize(("shared", "mode", "folder_mode"), [(True, 0o666, 0o755), (False, 0o600, 0o700)])
def test_modes(tmp_path: Path, shared: bool, mode: int, folder_mode: int) -> None:
    """A shared socket is for everybody, a private one for its owner; at the end it is gone."""
    path = tmp_path / "deep" / "s.sock"
    with listener.bind(path, shared=shared, kernel=KERNEL) as sock:
        assert stat.S_IMODE(path.lstat().st_mode) == mode
        assert stat.S_IMODE(path.parent.stat().st_mode) == folder_mode
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    assert not path.exists()


def test_what_a_dead_daemon_left(tmp_path: Path) -> None:
    """A socket that nobody answers is replaced."""
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    assert path.exists()
    with listener.bind(path, shared=False, kernel=KERNEL):
        assert path.exists()


def test_a_living_daemon(tmp_path: Path) -> None:
    """A socket that somebody answers, or is too busy to, is left alone, and so is what it is bound to."""
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as alive:
        alive.bind(str(path))
        alive.listen(0)
        for _ in range(3):
            with (
                pytest.raises(OSError, match="listens here already") as caught,
                listener.bind(path, shared=False, kernel=KERNEL),
            ):
                pass
            assert caught.value.errno == errno.EADDRINUSE
        assert path.exists()


def test_something_else_in_the_way(tmp_path: Path) -> None:
    """A file is never removed, nor is a link followed."""
    path = tmp_path / "s.sock"
    path.write_text("mine")
    with pytest.raises(FileExistsError), listener.bind(path, shared=False, kernel=KERNEL):
        pass
    assert path.read_text() == "mine"
    path.unlink()
    path.symlink_to(tmp_path / "other")
    with pytest.raises(FileExistsError), listener.bind(path, shared=False, kernel=KERNEL):
        pass
    assert path.is_symlink()


@pytest.mark.root
def test_somebody_elses_socket(tmp_path: Path) -> None:
    """A dead socket of another account is not ours to remove."""
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    os.chown(path, 12345, 12345)
    with pytest.raises(PermissionError), listener.bind(path, shared=False, kernel=KERNEL):
        pass
    assert path.exists()


def test_a_successors_socket_is_left(tmp_path: Path) -> None:
    """At the end only the socket that was made here is removed, not one that took its place."""
    path = tmp_path / "s.sock"
    with listener.bind(path, shared=False, kernel=KERNEL):
        path.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as successor:
            successor.bind(str(path))
    assert path.exists()


# --- serving


@pytest.mark.trio
async def test_many_connections(tmp_path: Path) -> None:
    """Each connection is answered, counted while it lasts, and forgotten after."""
    async with serving(tmp_path) as served:
        streams = [await served.connect() for _ in range(50)]
        for stream in streams:
            await stream.send_all(HELLO)
        for stream in streams:
            assert (await line(stream))["id"] == 1
        assert len(served.app.peers) == served.metrics.connections == 50
        for stream in streams:
            await stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (len(served.app.peers), served.metrics.connections, served.metrics.accepted) == (0, 0, 50)


@pytest.mark.trio
async def test_too_many_connections(tmp_path: Path) -> None:
    """Above the limit a connection is closed, with the reason in its framing if it has spoken; places free up."""
    async with serving(tmp_path, Limits(connections_per_uid=2)) as served:
        first, second = await served.connect(), await served.connect()
        await trio.testing.wait_all_tasks_blocked()
        for said, word in ((HELLO, b'{"jsonrpc"'), (b"GET / HTTP/1.1\r\n", b"HTTP/1.1 429 "), (b"", b"")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
                raw.connect(str(served.path))
                raw.sendall(said)
                await trio.testing.wait_all_tasks_blocked()
                answer = raw.recv(65536)
                assert answer.startswith(word)
                assert (b"too_many_connections" in answer) is bool(word)
        assert served.metrics.turned_away == 3
        await first.aclose()
        await trio.testing.wait_all_tasks_blocked()
        async with await served.connect() as third:
            await third.send_all(HELLO)
            assert (await line(third))["id"] == 1
        await second.send_all(HELLO)
        assert (await line(second))["id"] == 1
        await second.aclose()


@pytest.mark.trio
async def test_no_descriptors_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the process has no descriptor for a connection it waits, serves those it has, and goes on after."""
    async with serving(tmp_path) as served:
        stream = await served.connect()
        await trio.testing.wait_all_tasks_blocked()
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _, hard = soft_and_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(client.fileno())
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            client.connect(str(served.path))
            client.sendall(HELLO)
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(HELLO)
            assert (await line(stream))["id"] == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, soft_and_hard)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(client)) as late:
            assert (await line(late))["id"] == 1
        await stream.aclose()
    assert "cannot accept connections" in caplog.text


@pytest.mark.trio
async def test_a_passed_socket_is_kept(tmp_path: Path) -> None:
    """A socket that was made elsewhere is used, and neither closed nor removed."""
    path = tmp_path / "passed.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as passed:
        passed.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        passed.bind(str(path))
        passed.listen()
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(listener.serve, Limits(), passed, KERNEL, FakeApp(), Metrics()))
            async with await trio.open_unix_socket(str(path)) as stream:
                await stream.send_all(HELLO)
                assert (await line(stream))["id"] == 1
            nursery.cancel_scope.cancel()
        assert passed.fileno() >= 0
        assert path.exists()


# --- stopping


@pytest.mark.trio
async def test_stopping_finishes_what_was_begun(tmp_path: Path) -> None:
    """A request that is being answered gets its answer; idle connections end at once; nothing new is accepted."""
    app = FakeApp(gate=trio.Event())
    async with serving(tmp_path, app=app) as served:
        idle, busy = await served.connect(), await served.connect()
        await busy.send_all(DRIFT)
        await app.entered.wait()
        served.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await read_all(idle) == b""
            waiting = await served.connect()
            await trio.testing.wait_all_tasks_blocked()
            assert app.gate is not None
            app.gate.set()
            assert json.loads(await read_all(busy))["result"] == {"agents": [], "unreadable": []}
            for stream in (idle, busy, waiting):
                await stream.aclose()
    assert served.metrics.accepted == 2


@pytest.mark.trio
async def test_stopping_has_an_end(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """A request that does not end in time is cut off."""
    app = FakeApp(gate=trio.Event())
    async with serving(tmp_path, app=app) as served:
        busy = await served.connect()
        await busy.send_all(DRIFT)
        await app.entered.wait()
        served.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await read_all(busy) == b""
            assert listener.STOP_S - 1 <= trio.current_time() <= listener.STOP_S + 1
            await busy.aclose()


@pytest.mark.trio
async def test_a_fault_in_a_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even what no room foresaw ends one connection only, and is logged."""
    app = FakeApp()
    async with serving(tmp_path, app=app) as served:
        stream, other = await served.connect(), await served.connect()
        await trio.testing.wait_all_tasks_blocked()
        with monkeypatch.context() as patched:
            patched.setattr("safd.serve.connection.LineFace", None)
            await stream.send_all(HELLO)
            assert await read_all(stream) == b""
        await other.send_all(HELLO)
        assert (await line(other))["id"] == 1
        await stream.aclose()
        await other.aclose()
    assert "a connection failed" in caplog.text
