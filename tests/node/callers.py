"""A listening socket with an observer behind it, and callers that are real processes of real users.

A caller starts as the test's own user and drops to its ids itself, so that the interpreter need not be readable for
everybody. The observing side gives up root while it looks (`unprivileged`), as the daemon has no capability.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import pytest
import trio

from safd.model.admissions import file_name
from safd.model.principals import Node, Principal
from safd.node.accounts import Accounts
from safd.node.observe import Observer
from safd.node.peer import ANCILLARY_BYTES, Kernel, PeerPin, Sender, parse_sender, pin_peer, prepare_listener
from safd.principal.posture import decide
from safd.settings import Limits

SAFD_UID = 990
ANNIE = 61001
CASEY = 61002
NODE = Node(id="0123456789abcdef0123456789abcdef", name="harbour")
NOW_MS = 1_796_119_200_000

RESIDENT = f'uid = {ANNIE}\naccount = "annie"\n[agents.annie]\nmode = "resident"\n'
BORROWER = f'uid = {CASEY}\naccount = "casey"\n[agents.kitty]\nmode = "borrowed"\n'

_PROGRAM = """
import array, ctypes, json, os, signal, socket, struct, sys
space = {name: globals()[name] for name in ("array", "ctypes", "os", "signal", "socket", "struct", "sys")}
for line in sys.stdin:
    space["out"] = None
    try:
        exec(json.loads(line), space)
        answer = {"out": space["out"]}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
"""


class Caller:
    """A process that runs what it is told; `connection` is its socket to the listener once it called `connect`."""

    def __init__(self, path: Path, uid: int | None = None, *, groups: tuple[int, ...] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.run(f"path = {str(path)!r}")
        if uid is not None:
            self.become(uid, groups)

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, code: str) -> object:
        answer = self.attempt(code)
        assert "error" not in answer, answer
        return answer["out"]

    def attempt(self, code: str) -> dict[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(code), file=self._process.stdin, flush=True)
        answer: dict[str, object] = json.loads(self._process.stdout.readline())
        return answer

    def become(self, uid: int, groups: tuple[int, ...] = ()) -> None:
        self.run(f"os.setgroups({list(groups)}); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})")

    def connect(self) -> None:
        self.run("connection = socket.socket(socket.AF_UNIX); connection.connect(path)")

    def send(self, text: str = "x") -> None:
        self.run(f"connection.sendall({text.encode()!r})")

    def execute(self, program: Path, *arguments: str) -> None:
        """Become another program for good; returns when it has."""
        assert self._process.stdin is not None
        call = f"os.execv({str(program)!r}, {list(arguments)!r})"
        print(json.dumps(call), file=self._process.stdin, flush=True)
        while Path(f"/proc/{self.pid}/comm").read_text(encoding="utf-8").strip() != program.resolve().name[:15]:
            os.sched_yield()

    def end(self) -> None:
        """Gone and reaped, with whatever it forked."""
        if self._process.returncode is not None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


@attrs.define(kw_only=True)
class Accepted:
    sock: socket.socket
    pin: PeerPin

    def chunk(self, size: int = 4096) -> tuple[bytes, Sender | None]:
        """One read as the daemon makes it: at end of file the credentials are not looked at."""
        data, ancillary, flags, _ = self.sock.recvmsg(size, ANCILLARY_BYTES)
        return data, parse_sender(ancillary, flags) if data else None

    def senders(self, length: int = 1) -> frozenset[Sender]:
        """The senders of the next `length` bytes."""
        found: set[Sender] = set()
        while length > 0:
            data, sender = self.chunk(length)
            assert sender is not None
            found.add(sender)
            length -= len(data)
        return frozenset(found)


@attrs.define
class World:
    folder: Path
    kernel: Kernel
    listener: socket.socket
    observer: Observer
    _open: contextlib.ExitStack

    @property
    def path(self) -> Path:
        return self.folder / "safd.sock"

    @property
    def admissions(self) -> Path:
        return self.folder / "admissions.d"

    def admit(self, text: str) -> Path:
        uid = int(text.partition("\n")[0].rpartition(" ")[2])
        path = self.admissions / file_name(uid)
        path.write_text(text)
        path.chmod(0o644)
        return path

    def caller(self, uid: int | None = None, *, groups: tuple[int, ...] = ()) -> Caller:
        return self._open.enter_context(Caller(self.path, uid, groups=groups))

    def accept(self, kernel: Kernel | None = None) -> Accepted:
        sock, _ = self.listener.accept()
        self._open.callback(sock.close)
        with unprivileged():
            pin = pin_peer(sock, kernel or self.kernel)
        self._open.callback(pin.close)
        return Accepted(sock=sock, pin=pin)

    async def verdict(
        self, accepted: Accepted, claim: str | None = None, senders: frozenset[Sender] | None = None
    ) -> Principal:
        """The principal of the next request, one byte long unless its senders are given."""
        senders = accepted.senders() if senders is None else senders
        with unprivileged():
            facts = await self.observer.observe(accepted.pin, senders, claim)
        return decide(facts, claim, "2026-12-01T10:00:00.000Z")

    async def asked(self, caller: Caller, claim: str | None = None) -> Principal:
        """What this caller comes out as, by a connection of its own and a request of its own."""
        caller.connect()
        caller.send()
        return await self.verdict(self.accept(), claim)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Without root's capabilities for a while, where the test has them."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(SAFD_UID)
    os.seteuid(SAFD_UID)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextlib.contextmanager
def open_world(kernel: Kernel, node: Node = NODE) -> Iterator[World]:
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="safd-test-")))
        folder.chmod(0o755)
        admissions = folder / "admissions.d"
        admissions.mkdir(mode=0o755)
        passwd = folder / "passwd"
        passwd.write_text(
            f"root:x:0:0::/:/bin/sh\nannie:x:{ANNIE}:{ANNIE}::/:/bin/sh\ncasey:x:{CASEY}:{CASEY}::/:/bin/sh\n"
            f"me:x:{os.getuid() or 1}:1::/:/bin/sh\n"
        )
        group = folder / "group"
        group.write_text(f"root:x:0:\nannie:x:{ANNIE}:\ndocker:x:61999:\nvideo:x:61044:\n")
        nsswitch = folder / "nsswitch.conf"
        nsswitch.write_text("passwd: files\ngroup: files\n")
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        prepare_listener(listener, kernel)
        listener.bind(str(folder / "safd.sock"))
        (folder / "safd.sock").chmod(0o666)
        listener.listen()
        observer = Observer(
            kernel,
            admissions,
            os.geteuid() != 0,
            node,
            Limits(),
            lambda: NOW_MS,
            accounts=Accounts(Limits().name_service_s, passwd=passwd, group=group, nsswitch=nsswitch),
        )
        yield World(folder, kernel, listener, observer, opened)


@pytest.fixture
def world() -> Iterator[World]:
    with open_world(Kernel.probe()) as opened:
        yield opened


def descriptors() -> frozenset[str]:
    """The test's own open descriptors, without the one that lists them."""
    return frozenset(name for name in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{name}").exists())  # noqa: PTH208


def kinds(principal: Principal) -> tuple[str, ...]:
    return tuple(entry.kind for entry in principal.drift)


async def gone(pidfd: int) -> None:
    """Until the process is gone."""
    with trio.fail_after(10):
        await trio.lowlevel.wait_readable(pidfd)
