"""The listening socket: bound or inherited, surviving what a node throws at it, stopping without a torn answer."""

import contextlib
import errno
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import attrs
import trio

from safd.api import lines
from safd.methods.context import Peer
from safd.model.errors import TooManyConnections
from safd.node.kernel import Kernel
from safd.node.peer import PeerPin, pin_peer, prepare_listener
from safd.serve.connection import LINES, Connection
from safd.serve.dispatch import Application, Dispatch
from safd.serve.http import Face, Refused
from safd.serve.intake import SPACE, Budget
from safd.serve.link import Room
from safd.serve.metrics import Metrics
from safd.settings import Limits

BACKLOG = 1024
ACCEPTS = 16
"""Connections taken in one go before the others get their turn."""
PAUSE_S = 0.1
"""Before another attempt when the system has no descriptor or memory for a connection."""
STOP_S = 5.0
"""How long requests that are being answered may take when the daemon stops."""
SHARED_SOCKET_MODE = 0o666
PRIVATE_SOCKET_MODE = 0o600
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def bind(path: Path, *, shared: bool, kernel: Kernel) -> Generator[socket.socket]:
    """A listening socket of our own, removed at the end. Raises OSError when another daemon answers there.

    A shared socket is for everybody on the node, who is then told apart by the kernel; one that is not shared lies in a
    folder that only its owner can enter.
    """
    path.parent.mkdir(mode=0o755 if shared else 0o700, parents=True, exist_ok=True)
    _remove_stale(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        prepare_listener(sock, kernel)
        mask = os.umask(0o177)  # nobody connects before the mode is right
        try:
            sock.bind(os.fspath(path))
        finally:
            os.umask(mask)
        made = path.lstat()
        try:
            path.chmod(SHARED_SOCKET_MODE if shared else PRIVATE_SOCKET_MODE)
            sock.listen(BACKLOG)
            yield sock
        finally:
            _remove_own(path, made)


def _remove_stale(path: Path) -> None:
    """What a daemon left that did not end by itself: a socket, ours, that nobody answers."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "something that is no socket stands in the way", os.fspath(path))
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "somebody else's socket stands in the way", os.fspath(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            _remove_own(path, found)
        except BlockingIOError:
            raise OSError(errno.EADDRINUSE, "a daemon listens here already", os.fspath(path)) from None
        else:
            raise OSError(errno.EADDRINUSE, "a daemon listens here already", os.fspath(path))


def _remove_own(path: Path, made: os.stat_result) -> None:
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino):
            path.unlink()


async def serve(
    limits: Limits,
    sock: socket.socket,
    kernel: Kernel,
    app: Application,
    metrics: Metrics,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accept until cancelled; then nothing new, and up to STOP_S for the requests that are being answered.

    `sock` listens already and was prepared (`prepare_listener`); it is not closed here.
    """
    sock.setblocking(False)
    house = _House(kernel, app, metrics, Room(limits, Dispatch(app, metrics), Budget(limits.buffered_bytes_per_uid)))
    async with trio.open_nursery() as nursery:
        await nursery.start(house.keep)
        task_status.started()
        try:
            await house.accept(sock)
        finally:
            house.stop()


@attrs.define(eq=False)
class _House:
    """All connections, in a nursery that the daemon's own cancellation does not reach at once."""

    kernel: Kernel
    app: Application
    metrics: Metrics
    room: Room
    _connections: set[Connection] = attrs.field(factory=set[Connection])
    _per_uid: Counter[int] = attrs.field(factory=Counter[int])
    _nursery: trio.Nursery | None = None
    _scope: trio.CancelScope = attrs.field(factory=lambda: trio.CancelScope(shield=True))
    _stopped: trio.Event = attrs.field(factory=trio.Event)

    async def keep(self, task_status: trio.TaskStatus[None]) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await self._stopped.wait()

    def stop(self) -> None:
        self.room.stopping = True
        self._scope.deadline = trio.current_time() + STOP_S
        self._stopped.set()
        for connection in self._connections:
            connection.stop()

    async def accept(self, sock: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(sock)
            for _ in range(ACCEPTS):
                try:
                    accepted, _ = sock.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    await self._refused_by_system(error)
                    break
                self._begin(accepted)

    async def _refused_by_system(self, error: OSError) -> None:
        """One connection went away before it was taken, or nothing can be taken now; neither ends the daemon."""
        if error.errno in _EXHAUSTED:
            _log.error("cannot accept connections: %s", error.strerror)
            await trio.sleep(PAUSE_S)
        elif error.errno in {errno.EBADF, errno.EINVAL, errno.ENOTSOCK}:
            raise error

    def _begin(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            pin = pin_peer(accepted, self.kernel)
        except OSError as error:
            _log.error("a connection could not be pinned: %s", error.strerror)
            accepted.close()
            return
        limit = self.room.limits.connections_per_uid
        if self._per_uid[pin.uid] >= limit:
            self.metrics.turned_away += 1
            _turn_away(accepted, TooManyConnections(uid=pin.uid, limit=limit))
            accepted.close()
            pin.close()
            return
        if self._nursery is None:
            raise AssertionError("connections are kept before any is accepted")
        self._per_uid[pin.uid] += 1
        self.metrics.accepted += 1
        self.metrics.connections += 1
        self._nursery.start_soon(self._run, accepted, pin, self.app.connected(pin))

    async def _run(self, accepted: socket.socket, pin: PeerPin, peer: Peer) -> None:
        connection = Connection.over(accepted, self.room, peer)
        self._connections.add(connection)
        try:
            await connection.run()
        except Exception:  # noqa: BLE001  the daemon outlives a fault in one connection
            _log.exception("a connection failed")
        finally:
            self._connections.discard(connection)
            accepted.close()
            self.app.disconnected(peer)
            self._per_uid[pin.uid] -= 1
            if not self._per_uid[pin.uid]:
                del self._per_uid[pin.uid]
            self.metrics.connections -= 1
            pin.close()


def _turn_away(accepted: socket.socket, error: TooManyConnections) -> None:
    """Say why in the framing that the client speaks, where it has spoken already and the kernel takes it at once."""
    with contextlib.suppress(OSError):
        first = accepted.recv(64, socket.MSG_PEEK).lstrip(SPACE)
        if first[:1] and first[0] in LINES:
            answer = [lines.render_error(lines.NO_ID, error)]
        else:
            answer = Face(0).refuse(Refused(error, whole=False))
        accepted.sendmsg(answer)
