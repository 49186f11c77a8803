"""Pins and senders on real sockets, without any privilege."""

import os
import socket
import struct

import attrs
import pytest

from safd.model.principals import DriftKind, Pin, Posture
from safd.node.peer import (
    ANCILLARY_BYTES,
    Credentials,
    Kernel,
    NoCredentials,
    Truncated,
    parse_sender,
    pin_peer,
    prepare_listener,
)
from safd.principal.facts import EvidenceDenied, Exited
from tests.node.callers import World, descriptors, gone, kinds, world

__all__ = ["world"]


def _credentials(pid: int, uid: int, gid: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iII", pid, uid, gid))]


def test_sender_of_a_chunk() -> None:
    """The kernel's three numbers come out as they are, up to the largest uid."""
    assert parse_sender(_credentials(7, 4294967294, 9), 0) == Credentials(pid=7, uid=4294967294, gid=9)


@pytest.mark.parametrize(
    "ancillary",
    [[], _credentials(0, 0, 0), _credentials(-1, 0, 0), [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, b"\0" * 4)]],
)
def test_nobody_is_not_root(ancillary: list[tuple[int, int, bytes]]) -> None:
    """No credentials, process 0 and half a structure are nobody; zeros are never uid 0."""
    assert parse_sender(ancillary, 0) == NoCredentials()


def test_a_truncation_outweighs_credentials() -> None:
    """Credentials beside a cut are not believed, as what was cut is unknown."""
    assert parse_sender(_credentials(7, 8, 9), socket.MSG_CTRUNC) == Truncated()


def test_descriptors_that_came_are_closed() -> None:
    """On a socket that was never prepared descriptors can come; they are closed at once and noticed."""
    left, right = socket.socketpair()
    with left, right:
        socket.send_fds(left, [b"x"], [0, 1])
        before = descriptors()
        _, ancillary, flags, _ = right.recvmsg(1, ANCILLARY_BYTES)
        assert parse_sender(ancillary, flags) == Truncated()
        assert descriptors() == before


def test_end_of_file_looks_like_root() -> None:
    """The trap that callers of parse_sender must step around: at end of file the kernel reports process 0, uid 0."""
    left, right = socket.socketpair()
    with right:
        prepare_listener(right, Kernel.probe())
        left.close()
        data, ancillary, flags, _ = right.recvmsg(10, ANCILLARY_BYTES)
        assert data == b""
        assert ancillary in ([], _credentials(0, 0, 0))
        assert parse_sender(ancillary, flags) == NoCredentials()


def test_probe_tells_what_works() -> None:
    """A feature that is said to be there works; its names are told for the status."""
    kernel = Kernel.probe()
    assert len(kernel.features()) == sum(attrs.asdict(kernel).values())
    left, right = socket.socketpair()
    with left, right:
        pin = pin_peer(left, kernel)
        assert pin.pin is (Pin.PEERPIDFD if kernel.peer_pidfd else Pin.LATE)
        assert (pin.pid, pin.uid, pin.gid) == (os.getpid(), os.geteuid(), os.getegid())
        assert not any(os.get_inheritable(fd) for fd in (pin.pidfd, pin.directory) if fd is not None)
        assert pin.is_alive()
        pin.close()
        assert not pin.is_alive()
        assert isinstance(pin.read(kernel), EvidenceDenied)


@pytest.mark.trio
async def test_own_child_writes_on_its_parents_socket(world: World) -> None:
    """The same user and another process: the connection is not the child's."""
    caller = world.caller()
    caller.connect()
    caller.run("child = os.fork()\nif child == 0:\n    connection.sendall(b'x')\n    os._exit(0)\nos.waitpid(child, 0)")
    principal = await world.verdict(world.accept())
    assert (principal.posture, kinds(principal)) == (Posture.INCONSISTENT, (DriftKind.SENDER_PROCESS,))


@pytest.mark.trio
async def test_two_processes_write_one_request(world: World) -> None:
    """The kernel keeps the parts of two senders apart; a request of both is nobody's, the one before stands."""
    caller = world.caller()
    caller.connect()
    caller.send("aab")
    caller.run("child = os.fork()\nif child == 0:\n    connection.sendall(b'b')\n    os._exit(0)\nos.waitpid(child, 0)")
    accepted = world.accept()
    first = await world.verdict(accepted, senders=accepted.senders(2))
    assert first.posture not in (Posture.UNRESOLVABLE, Posture.INCONSISTENT)
    second = await world.verdict(accepted, senders=accepted.senders(2))
    assert (second.posture, kinds(second)) == (Posture.UNRESOLVABLE, (DriftKind.MIXED_SENDERS,))


@pytest.mark.trio
async def test_peer_that_ended_after_it_wrote(world: World) -> None:
    """Its bytes are there and its process is not: nobody is asking any more."""
    caller = world.caller()
    caller.connect()
    caller.send()
    accepted = world.accept()
    senders = accepted.senders()
    caller.end()
    assert accepted.pin.pidfd is not None
    await gone(accepted.pin.pidfd)
    principal = await world.verdict(accepted, senders=senders)
    assert (principal.posture, kinds(principal)) == (Posture.UNRESOLVABLE, (DriftKind.PEER_EXITED,))
    assert accepted.chunk() == (b"", None)


@pytest.mark.trio
@pytest.mark.parametrize("without", [{}, {"peer_pidfd": False}, {"peer_pidfd": False, "pidfd": False}])
async def test_peer_that_ended_before_it_was_accepted(world: World, without: dict[str, bool]) -> None:
    """A connection of a dead process pins nobody, on no kernel, and is not given to whoever has its number next."""
    caller = world.caller()
    caller.connect()
    caller.send()
    caller.end()
    accepted = world.accept(attrs.evolve(world.kernel, **without))
    assert isinstance(accepted.pin.failure, Exited)
    principal = await world.verdict(accepted)
    assert (principal.posture, kinds(principal)) == (Posture.UNRESOLVABLE, (DriftKind.PEER_EXITED,))


@pytest.mark.trio
async def test_zombie_is_gone(world: World) -> None:
    """A process that ended and was not reaped can still be read, and must not be."""
    caller = world.caller()
    caller.run(
        "ready, done = os.pipe()\nchild = os.fork()\nif child == 0:\n"
        "    connection = socket.socket(socket.AF_UNIX); connection.connect(path); connection.sendall(b'x')\n"
        "    os.write(done, b'x'); signal.pause()\nos.read(ready, 1)"
    )
    accepted = world.accept()
    senders = accepted.senders()
    caller.run("os.kill(child, 9); os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)")
    principal = await world.verdict(accepted, senders=senders)
    assert (principal.posture, kinds(principal)) == (Posture.UNRESOLVABLE, (DriftKind.PEER_EXITED,))


@pytest.mark.trio
async def test_socket_without_passcred(world: World) -> None:
    """Where the kernel was not asked for credentials none come, and none is made up."""
    world.listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    caller = world.caller()
    caller.connect()
    caller.send()
    principal = await world.verdict(world.accept())
    assert (principal.posture, kinds(principal)) == (Posture.UNRESOLVABLE, (DriftKind.CREDENTIALS_MISSING,))


@pytest.mark.trio
async def test_clients_bound_name_is_nothing(world: World) -> None:
    """A client may bind its socket to any name, such as one that looks like credentials; nobody reads it."""
    caller = world.caller()
    caller.run("connection = socket.socket(socket.AF_UNIX); connection.bind('\\0x;uid=0;'); connection.connect(path)")
    caller.send()
    accepted = world.accept()
    assert accepted.pin.uid == os.getuid()
    assert accepted.senders() == {Credentials(pid=caller.pid, uid=os.getuid(), gid=os.getgid())}


def test_pins_leak_no_descriptor(world: World) -> None:
    """A connection costs its socket, a pidfd and a folder; closing gives all back, also for the dead."""
    before = len(descriptors())
    for dead in (False, True):
        caller = world.caller()
        caller.connect()
        if dead:
            caller.end()
        sock, _ = world.listener.accept()
        with sock:
            pin = pin_peer(sock, world.kernel)
            assert len([fd for fd in (pin.pidfd, pin.directory) if fd is not None]) <= 2
            pin.close()
        caller.end()
    # the callers' pipes are closed with them
    assert len(descriptors()) == before
