"""One process, read through its pinned /proc directory: typed facts, or a typed failure, never a default.

The process is asked whether it lives before the reads and after them, so that nothing read can be another's. Every file
read here is open to an unprivileged daemon; exe, cwd and the namespace links are not, and would prove nothing.
"""

import errno
import functools
import os
import re
import select
import struct
import time

import attrs

from safd.model.ids import Pid
from safd.node.kernel import INFO_CGROUPID, INFO_CREDS, ask_info
from safd.principal.facts import (
    EvidenceDenied,
    Exited,
    Login,
    LoginNotKept,
    LoginSet,
    LoginUnset,
    PidfdInfo,
    Process,
    ProcessFacts,
    Status,
)
from safd.principal.unit import Cgroup, Layout, cgroup_of, layout_of

_LOGIN_UNSET = 4294967295
_WHOLE_MAP = ["0", "0", "4294967295"]
_START_FIELD = 19  # of /proc/PID/stat, counted behind the closing bracket of the name: field 22
_DEAD_STATES = (b"Z", b"X", b"x")
_CHUNK = 8192
_SURELY_WHOLE = 2048  # the kernel stops short of the end only when the next record does not fit into a page

_PARTS_KEPT = 512

_IDS = re.compile(
    rb"\nTracerPid:\t(\d+)\n"
    rb"(?:.*\n)*?Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)\n"
    rb"(?:.*\n)*?Gid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)\n"
    rb"(?:.*\n)*?Groups:\t([\d ]*)\n"
)
_CAPABILITIES = re.compile(rb"\nCapPrm:\t([0-9a-f]+)\n(?:.*\n)*?CapEff:\t([0-9a-f]+)\n(?:.*\n)*?CapAmb:\t([0-9a-f]+)\n")


@attrs.frozen(kw_only=True)
class Here:
    """The daemon's own place, against which a peer's is held; read once, as a process cannot change these."""

    layout: Layout
    uid_map: str
    audit: bool
    contained: bool

    @classmethod
    def read(cls) -> "Here":
        own = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            uid_map = read_file(own, "uid_map").decode("ascii")
            depth = len(_words(read_file(own, "status"), b"NSpid") or [b"1"])
            return cls(
                layout=layout_of(os.fsdecode(read_file(own, "cgroup"))),
                uid_map=uid_map,
                audit=_has_audit(own),
                contained=uid_map.split() != _WHOLE_MAP or depth > 1,
            )
        finally:
            os.close(own)


@functools.cache
def own_place() -> Here:
    return Here.read()


def read_file(directory: int, name: str) -> bytes:
    """The whole of a /proc file. Raises OSError: ESRCH where the process is gone."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        text = os.read(descriptor, _CHUNK)
        if len(text) > _SURELY_WHOLE:
            while more := os.read(descriptor, _CHUNK):
                text += more
        return text
    finally:
        os.close(descriptor)


def is_alive(pidfd: int | None, directory: int) -> bool:
    """A pidfd becomes readable when its process is a zombie or gone; without one, the process' own state is asked."""
    if pidfd is not None:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return not poll.poll(0)
    try:
        state = _words(read_file(directory, "status"), b"State") or []
    except OSError:
        return False
    return bool(state) and state[0] not in _DEAD_STATES


def read_process(pidfd: int | None, directory: int, here: Here, *, with_info: bool) -> ProcessFacts:
    """Alive, then ids, status, cgroup, login and uid_map. The caller asks once more whether it lives when done."""
    if not is_alive(pidfd, directory):
        return Exited(noticed="it had ended before it was examined")
    source = "pidfd"
    try:
        info = read_info(pidfd) if with_info and pidfd is not None else None
        source = "status"
        status = parse_status(read_file(directory, source))
        source = "cgroup"
        cgroup = read_cgroup(directory, here)
        source = "loginuid"
        login = _login(read_file(directory, source)) if here.audit else LoginNotKept()
        source = "uid_map"
        uid_map = read_file(directory, source).decode("ascii")
    except OSError as error:
        if error.errno == errno.ESRCH or not is_alive(pidfd, directory):
            return Exited(noticed=f"it ended while {source} was read")
        return EvidenceDenied(source=source, reason=errno.errorcode.get(error.errno or 0, str(error)))
    except ValueError as error:
        return EvidenceDenied(source=source, reason=f"it has an unknown form ({error})")
    return Process(status=status, info=info, cgroup=cgroup, login=login, uid_map=uid_map, own_uid_map=here.uid_map)


def read_info(pidfd: int) -> PidfdInfo:
    """Ids by PIDFD_GET_INFO. Raises OSError: for a reaped process the kernel may answer with zeros instead of ids."""
    (mask, cgroup_id, pid, _, _, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid) = struct.unpack_from(
        "QQ11I", ask_info(pidfd)
    )
    if not mask & INFO_CREDS:
        raise OSError(errno.ESRCH, "the answer holds no credentials")
    return PidfdInfo(
        pid=Pid(pid),
        uids=(ruid, euid, suid, fsuid),
        gids=(rgid, egid, sgid, fsgid),
        cgroup_id=cgroup_id if mask & INFO_CGROUPID else None,
    )


def read_cgroup(directory: int, here: Here) -> Cgroup:
    return cgroup_of(os.fsdecode(read_file(directory, "cgroup")), here.layout)


def read_started_ms(directory: int) -> int:
    """When the process began, in unix milliseconds, 10 ms fine. Raises OSError, or ValueError on an unknown form."""
    fields = read_file(directory, "stat").rpartition(b")")[2].split()
    if len(fields) <= _START_FIELD:
        raise ValueError("stat has too few fields")
    since_boot_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round((booted_s + since_boot_s) * 1000)


def parse_status(text: bytes) -> Status:
    """The evidence in /proc/PID/status. Raises ValueError where a line is missing that every kernel writes.

    The process chooses its own name, which stands on the first line; the kernel escapes line ends in it. Between ids
    and capabilities stand sizes that change all the time, so the two parts are cut out, and parsed once for all
    requests that read the same bytes.
    """
    begin = text.find(b"\nTracerPid:")
    middle = text.find(b"\nCapInh:", begin)
    if begin < 0 or middle < 0:
        raise ValueError("its lines of ids, groups and capabilities are not where they belong")
    sizes = text.find(b"\nVmPeak:", begin, middle)
    switches = text.find(b"\nvoluntary_ctxt_switches:", middle)
    return _parse_parts(
        text[begin : (middle if sizes < 0 else sizes) + 1],
        text[middle : len(text) if switches < 0 else switches + 1],
    )


@functools.lru_cache(maxsize=_PARTS_KEPT)
def _parse_parts(ids_part: bytes, capabilities_part: bytes) -> Status:
    ids = _IDS.search(ids_part)
    capabilities = _CAPABILITIES.search(capabilities_part)
    if ids is None or capabilities is None:
        raise ValueError("its lines of ids, groups and capabilities are not where they belong")
    tracer, ruid, euid, suid, fsuid, rgid, egid, sgid, fsgid = map(int, ids.groups()[:9])
    permitted, effective, ambient = capabilities.groups()
    no_new_privs = _words(capabilities_part, b"NoNewPrivs")
    seccomp = _words(capabilities_part, b"Seccomp")
    return Status(
        uids=(ruid, euid, suid, fsuid),
        gids=(rgid, egid, sgid, fsgid),
        groups=tuple(map(int, ids.group(10).split())),
        permitted=int(permitted, 16),
        effective=int(effective, 16),
        ambient=int(ambient, 16),
        no_new_privs=None if no_new_privs is None else no_new_privs == [b"1"],
        seccomp=None if seccomp is None else int(seccomp[0]),
        tracer=tracer,
        pid_namespaces=len(_words(ids_part, b"NSpid") or [b"1"]),
    )


def _words(text: bytes, key: bytes) -> list[bytes] | None:
    start = text.find(b"\n%b:\t" % key)
    if start < 0:
        return None
    start += len(key) + 3
    return text[start : text.index(b"\n", start)].split()


def _login(text: bytes) -> Login:
    uid = int(text)
    return LoginUnset() if uid == _LOGIN_UNSET else LoginSet(uid=uid)


def _has_audit(own: int) -> bool:
    """Whether this kernel keeps login uids at all: then a peer's must be readable, else nobody has one."""
    try:
        read_file(own, "loginuid")
    except FileNotFoundError:
        return False
    return True
