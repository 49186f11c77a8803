"""Attacks that need more than a socket: stolen descriptors, setuid programs, threads, numbers given again."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from safd.model.principals import Posture
from tests.node.callers import ANNIE, CASEY, RESIDENT, World, gone, kinds, world

__all__ = ["world"]

pytestmark = [pytest.mark.root, pytest.mark.trio]
PIDFD_GETFD = 438
SETRESUID = 117 if os.uname().machine == "x86_64" else 147
"""System call numbers: for the calling thread alone, which libc does not offer."""
DUMPABLE = "ctypes.CDLL(None).prctl(4, {}, 0, 0, 0)"


def setuid_copy(world: World, program: str) -> Path:
    """A program that runs as root, whoever starts it."""
    path = world.folder / f"suid-{program}"
    shutil.copy(shutil.which(program) or program, path)
    os.chown(path, 0, 0)
    path.chmod(0o4755)
    return path


async def test_stolen_by_another_process_of_the_user(world: World) -> None:
    """Who takes a connected socket out of another process is another process, and is told so."""
    world.admit(RESIDENT)
    victim, thief = world.caller(ANNIE), world.caller(ANNIE)
    victim.run(DUMPABLE.format(1))
    victim.connect()
    number = victim.run("out = connection.fileno()")
    thief.run(
        f"""
held = os.pidfd_open({victim.pid})
stolen = ctypes.CDLL(None, use_errno=True).syscall({PIDFD_GETFD}, held, {number}, 0)
if stolen < 0: raise OSError(ctypes.get_errno(), "pidfd_getfd")
connection = socket.socket(fileno=stolen)
"""
    )
    thief.send()
    principal = await world.verdict(world.accept())
    assert (principal.posture, kinds(principal)) == (Posture.INCONSISTENT, ("sender_process",))


async def test_nothing_is_stolen_from_who_cannot_be_read(world: World) -> None:
    """A process that is not dumpable keeps its socket: hardening for agents, no proof for the daemon."""
    victim, thief = world.caller(ANNIE), world.caller(ANNIE)
    victim.run(DUMPABLE.format(0))
    victim.connect()
    number = victim.run("out = connection.fileno()")
    stolen = thief.run(
        f"held = os.pidfd_open({victim.pid}); out = ctypes.CDLL(None).syscall({PIDFD_GETFD}, held, {number}, 0)"
    )
    assert stolen == -1


async def test_a_setuid_program_writes_on_a_persons_socket(world: World) -> None:
    """Root's program with the socket for its errors speaks for the person who started it, and never for root."""
    program = setuid_copy(world, "sleep")
    caller = world.caller(CASEY)
    caller.connect()
    caller.run(
        f"""
if os.fork() == 0:
    os.dup2(connection.fileno(), 2)
    os.execv({str(program)!r}, ["sleep", "not-a-time"])
os.wait()
"""
    )
    accepted = world.accept()
    principal = await world.verdict(accepted)
    assert principal.posture is Posture.INCONSISTENT
    assert "sender_process" in kinds(principal)


async def test_becoming_a_setuid_program_after_sending(world: World) -> None:
    """The request is there, its process runs root's program now: its ids changed, and nobody is privileged."""
    program = setuid_copy(world, "sleep")
    caller = world.caller(CASEY)
    caller.connect()
    caller.run("connection.set_inheritable(True)")
    caller.send()
    accepted = world.accept()
    senders = accepted.senders()
    caller.execute(program, "sleep", "60")
    principal = await world.verdict(accepted, senders=senders)
    assert principal.posture is Posture.INCONSISTENT
    assert "ids_changed" in kinds(principal)


async def test_one_thread_becomes_another_user(world: World) -> None:
    """A thread alone may change its ids; what it writes bears them, and the process does not."""
    caller = world.caller()
    caller.run("import threading")
    caller.run(f"os.setgroups([]); os.setresgid(*[{ANNIE}] * 3); os.setresuid({ANNIE}, {ANNIE}, {CASEY})")
    caller.connect()
    caller.run(
        f"""
def write():
    if ctypes.CDLL(None).syscall({SETRESUID}, {CASEY}, {CASEY}, {CASEY}) == 0:
        connection.sendall(b"x")
one = threading.Thread(target=write); one.start(); one.join()
"""
    )
    principal = await world.verdict(world.accept())
    assert (principal.posture, kinds(principal)[0]) == (Posture.INCONSISTENT, "sender_user")


async def test_another_program_under_the_same_ids(world: World) -> None:
    """What a process runs is no evidence: neither a trusted name nor another program changes what it is."""
    world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    caller.connect()
    caller.run("connection.set_inheritable(True)")
    caller.send()
    accepted = world.accept()
    senders = accepted.senders()
    caller.execute(Path("/bin/sleep"), "trusted-agent", "60")
    principal = await world.verdict(accepted, senders=senders)
    assert (principal.posture, kinds(principal)) == (Posture.RESIDENT, ())
    assert "trusted" not in principal.text


@contextlib.contextmanager
def given_again(pid: int, uid: int) -> Iterator[None]:
    """With a process of this uid under this very number, which has just become free."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(200):
        last.write_text(str(pid - 1), encoding="ascii")
        with subprocess.Popen(["setpriv", f"--reuid={uid}", "--clear-groups", "sleep", "60"]) as made:
            try:
                if made.pid == pid:
                    yield
                    return
            finally:
                made.kill()
    pytest.skip("the number was not given again")


@pytest.mark.parametrize("successor", [0, ANNIE], ids=["root", "the same user"])
async def test_a_number_given_again(world: World, successor: int) -> None:
    """The caller's pid belongs to somebody else by now: gone is gone, and nothing of the successor is read."""
    world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    caller.connect()
    caller.send()
    pid = caller.pid
    caller.end()
    with given_again(pid, successor):
        principal = await world.verdict(world.accept())
    assert principal.posture is Posture.UNRESOLVABLE
    assert kinds(principal) == ("peer_exited",)
    assert principal.account != "root"


async def test_a_number_given_again_after_it_was_accepted(world: World) -> None:
    """The pin is of the process, not of its number."""
    world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    caller.connect()
    caller.send()
    accepted = world.accept()
    senders = accepted.senders()
    pid = caller.pid
    caller.end()
    assert accepted.pin.pidfd is not None
    await gone(accepted.pin.pidfd)
    with given_again(pid, ANNIE):
        principal = await world.verdict(accepted, senders=senders)
    assert (principal.posture, kinds(principal)) == (Posture.UNRESOLVABLE, ("peer_exited",))
