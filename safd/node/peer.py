"""The other end of an accepted Unix socket: who connected, pinned for as long as the connection lasts.

`SO_PEERCRED` tells who called connect(), by effective uid, and never changes; the credentials of each chunk tell who
wrote it, by real uid. Neither is enough alone: a socket can be inherited, passed on or stolen, and a setuid program may
be writing on somebody else's. A process number is good only while its process lives, so the process is held by a pidfd
and by its /proc directory, both of which die with it and cannot be reused.
"""

import array
import errno
import os
import socket
import struct
from collections.abc import Sequence

import attrs

from safd.model.ids import Gid, Pid, Uid
from safd.model.principals import Pin
from safd.node.kernel import SO_PASSRIGHTS, SO_PEERGROUPS, SO_PEERPIDFD, Kernel
from safd.node.process import is_alive, own_place, read_cgroup, read_info, read_process, read_started_ms
from safd.principal.facts import (
    Credentials,
    EvidenceDenied,
    Exited,
    NoCredentials,
    Opener,
    ProcessFacts,
    Sender,
    Truncated,
)
from safd.principal.unit import Cgroup

__all__ = [
    "ANCILLARY_BYTES",
    "Credentials",
    "Kernel",
    "NoCredentials",
    "PeerPin",
    "Sender",
    "Truncated",
    "parse_sender",
    "pin_peer",
    "prepare_listener",
]

_UCRED = struct.Struct("iII")  # pid, uid, gid: a uid fills all 32 bits
_GROUPS_BYTES = 1024  # what getsockopt of Python takes at most: 256 groups

ANCILLARY_BYTES = socket.CMSG_SPACE(_UCRED.size)
"""Room for one sender's credentials and nothing else. The kernel writes them first: whatever a hostile sender attaches
finds no room, is never installed, and shows as a truncation."""


def prepare_listener(sock: socket.socket, kernel: Kernel) -> None:
    """Make the kernel name the sender of each chunk; accepted sockets inherit it. Before listen() or accept()."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    if kernel.pass_rights:
        sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)


def parse_sender(ancdata: Sequence[tuple[int, int, bytes]], flags: int) -> Sender:
    """Who wrote the chunk that `recvmsg(n, ANCILLARY_BYTES)` returned.

    Not to be asked about an empty read: at end of file the kernel reports process 0 of uid 0, who sent nothing.
    Descriptors that came nevertheless, for want of SO_PASSCRED on the socket, are closed and count as a truncation.
    """
    sender: Sender = NoCredentials()
    cut = bool(flags & socket.MSG_CTRUNC)
    for level, kind, body in ancdata:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_CREDENTIALS and len(body) == _UCRED.size:
            pid, uid, gid = _UCRED.unpack(body)
            sender = Credentials(pid=Pid(pid), uid=Uid(uid), gid=Gid(gid)) if pid > 0 else NoCredentials()
        elif kind == socket.SCM_RIGHTS:
            cut = True
            _close_all(body)
    return Truncated() if cut else sender


def _close_all(body: bytes) -> None:
    descriptors = array.array("i")
    descriptors.frombytes(body[: len(body) - len(body) % descriptors.itemsize])
    for descriptor in descriptors:
        os.close(descriptor)


@attrs.define(kw_only=True, eq=False)
class PeerPin:
    """One connection's opener, held by descriptors until `close`.

    `failure` says why the process could not be pinned; then nothing about it can be known at any later request.
    `pidfd` None: not pinned, or a kernel without pidfds.
    """

    opener: Opener
    pin: Pin
    pidfd: int | None
    directory: int | None
    failure: Exited | EvidenceDenied | None

    @property
    def pid(self) -> Pid:
        return self.opener.pid

    @property
    def uid(self) -> Uid:
        return self.opener.uid

    @property
    def gid(self) -> Gid:
        return self.opener.gid

    @property
    def groups(self) -> tuple[int, ...] | None:
        return self.opener.groups

    @property
    def sender(self) -> Sender:
        """The opener as its own sender: what a look at a connection goes by when no request is being answered."""
        return Credentials(pid=self.pid, uid=self.uid, gid=self.gid) if self.pid > 0 else NoCredentials()

    def read(self, kernel: Kernel) -> ProcessFacts:
        """The process as it is now, or why that cannot be said."""
        if self.failure is not None:
            return self.failure
        if self.directory is None:
            return EvidenceDenied(source="/proc directory", reason="the connection was closed")
        return read_process(self.pidfd, self.directory, own_place(), with_info=kernel.pidfd_info)

    def is_alive(self) -> bool:
        return self.failure is None and self.directory is not None and is_alive(self.pidfd, self.directory)

    def close(self) -> None:
        for descriptor in (self.pidfd, self.directory):
            if descriptor is not None:
                os.close(descriptor)
        self.pidfd = self.directory = None


def pin_peer(sock: socket.socket, kernel: Kernel) -> PeerPin:
    """Pin whoever connected. A dead or hidden peer gives a pin that says so; only a fault of `sock` itself raises."""
    pid, uid, gid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    groups = _groups(sock, kernel)
    pidfd: int | None = None
    directory: int | None = None
    pin = Pin.NONE
    failure: Exited | EvidenceDenied | None = None
    if pid <= 0:
        failure = EvidenceDenied(source="SO_PEERCRED", reason="the kernel names no process")
    else:
        try:
            pin, pidfd = _pidfd(sock, pid, kernel)
            directory = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            if not is_alive(pidfd, directory):
                failure = Exited(noticed="it had ended before its connection was accepted")
        except OSError as error:
            failure = _why(error, pidfd)
    live = directory if failure is None else None
    opener = Opener(
        pid=Pid(pid),
        uid=Uid(uid),
        gid=Gid(gid),
        groups=groups,
        cgroup=None if live is None else _cgroup(live),
        cgroup_id=_cgroup_id(pidfd, kernel) if live is not None else None,
        started_ms=None if live is None else _started(live),
    )
    return PeerPin(opener=opener, pin=pin, pidfd=pidfd, directory=directory, failure=failure)


def _pidfd(sock: socket.socket, pid: int, kernel: Kernel) -> tuple[Pin, int | None]:
    if kernel.peer_pidfd:
        pidfd = sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
        return Pin.PEERPIDFD, pidfd
    if kernel.pidfd:
        return Pin.LATE, os.pidfd_open(pid)
    return Pin.PROCDIR, None


def _why(error: OSError, pidfd: int | None) -> Exited | EvidenceDenied:
    """Older kernels refuse a pidfd of a reaped peer with EINVAL, ENODATA or ESRCH: all of them mean that it is gone."""
    gone = (errno.ESRCH, errno.EINVAL, errno.ENODATA)
    if error.errno in gone or (pidfd is not None and not is_alive(pidfd, -1)):
        return Exited(noticed="it had ended before its connection was accepted")
    if pidfd is None and error.errno == errno.ENOENT:
        return Exited(noticed="it has no entry in /proc")
    return EvidenceDenied(source="/proc directory", reason=errno.errorcode.get(error.errno or 0, str(error)))


def _groups(sock: socket.socket, kernel: Kernel) -> tuple[int, ...] | None:
    """Supplementary groups at connect; None where the kernel does not keep them, or the peer has more than fit."""
    if not kernel.peer_groups:
        return None
    try:
        body = sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError:
        return None
    return struct.unpack(f"{len(body) // 4}I", body[: len(body) // 4 * 4])


def _cgroup(directory: int) -> Cgroup | None:
    try:
        return read_cgroup(directory, own_place())
    except OSError:
        return None


def _cgroup_id(pidfd: int | None, kernel: Kernel) -> int | None:
    if pidfd is None or not kernel.pidfd_info:
        return None
    try:
        return read_info(pidfd).cgroup_id
    except OSError:
        return None


def _started(directory: int) -> int | None:
    try:
        return read_started_ms(directory)
    except (OSError, ValueError):
        return None
