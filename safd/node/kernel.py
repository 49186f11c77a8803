"""What this kernel can tell about a peer, asked once at start. What it cannot, a weaker fact replaces, and says so.

The numbers are those of the asm-generic ABI (x86-64, arm64, riscv and others), as Python up to 3.13 does not name them.
On an ABI that numbers its socket options or ioctls otherwise the same numbers mean something else, so there the
features count as absent.
"""

import fcntl
import os
import socket
import struct

import attrs

SO_PEERGROUPS = 59
SO_PASSPIDFD = 76
SO_PEERPIDFD = 77
SO_PASSRIGHTS = 83

_INFO_BYTES = 64
PIDFD_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
"""_IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info) of the structure's first published size."""

INFO_PID = 1
INFO_CREDS = 2
INFO_CGROUPID = 4
_INFO_ASKED = struct.pack("Q", INFO_PID | INFO_CREDS | INFO_CGROUPID).ljust(_INFO_BYTES, b"\0")

_OTHER_ABIS = ("alpha", "mips", "parisc", "ppc", "powerpc", "sparc")


@attrs.frozen(kw_only=True)
class Kernel:
    """Built by `probe`; built by hand where a test wants an older kernel."""

    peer_pidfd: bool
    """SO_PEERPIDFD, Linux 6.5: a pidfd of whoever connected. Without it a pidfd is opened late, by number."""
    pidfd: bool
    """pidfd_open, Linux 5.3. Without it the /proc directory alone holds the process."""
    pidfd_info: bool
    """PIDFD_GET_INFO, Linux 6.13: ids from the pinned process. Without it /proc/PID/status says the same."""
    pass_rights: bool
    """SO_PASSRIGHTS, Linux 6.16: senders of descriptors are refused. Without it they are cut off and noticed."""
    peer_groups: bool
    """SO_PEERGROUPS, Linux 4.13: groups at connect."""

    @classmethod
    def probe(cls) -> "Kernel":
        if os.uname().machine.startswith(_OTHER_ABIS):
            return cls(peer_pidfd=False, pidfd=_has_pidfd(), pidfd_info=False, pass_rights=False, peer_groups=False)
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with left, right:
            return cls(
                peer_pidfd=_has_peer_pidfd(left),
                pidfd=_has_pidfd(),
                pidfd_info=_has_info(),
                pass_rights=_has_pass_rights(left),
                peer_groups=_has_peer_groups(left),
            )

    def features(self) -> tuple[str, ...]:
        """The names of what is there, for the daemon's status."""
        named = {
            "SO_PEERPIDFD": self.peer_pidfd,
            "pidfd_open": self.pidfd,
            "PIDFD_GET_INFO": self.pidfd_info,
            "SO_PASSRIGHTS": self.pass_rights,
            "SO_PEERGROUPS": self.peer_groups,
        }
        return tuple(name for name, there in named.items() if there)


def ask_info(pidfd: int) -> bytes:
    """The answer of PIDFD_GET_INFO. Raises OSError; the returned mask says which fields the kernel filled in."""
    return fcntl.ioctl(pidfd, PIDFD_GET_INFO, _INFO_ASKED)


def _has_peer_pidfd(sock: socket.socket) -> bool:
    try:
        pidfd = sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return False
    os.close(pidfd)
    return True


def _has_pidfd() -> bool:
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError:
        return False
    os.close(pidfd)
    return True


def _has_info() -> bool:
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        answer = ask_info(pidfd)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return bool(struct.unpack_from("Q", answer)[0] & INFO_CREDS)


def _has_pass_rights(sock: socket.socket) -> bool:
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
    except OSError:
        return False
    return True


def _has_peer_groups(sock: socket.socket) -> bool:
    try:
        sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 1024)
    except OSError:
        return False
    return True
