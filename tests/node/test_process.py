"""What is read of a process: the kernel's forms, and a typed failure for each source that fails."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.node import process
from safd.node.process import own_place, parse_status, read_file, read_process
from safd.principal.facts import EvidenceDenied, Exited, LoginNotKept, Process

STATUS = (
    b"Name:\tannie\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nNgid:\t0\nPid:\t7\nPPid:\t1\nTracerPid:\t0\n"
    b"Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nFDSize:\t64\nGroups:\t9 10 \nNStgid:\t7\nNSpid:\t7\t1\nVmPeak:\t1 kB\n"
    b"CapInh:\t0000000000000000\nCapPrm:\t0000000000000001\nCapEff:\t0000000000000002\nCapBnd:\t000001ffffffffff\n"
    b"CapAmb:\t0000000000000004\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
)


def test_status() -> None:
    """Each number lands in the field that it belongs to."""
    status = parse_status(STATUS)
    assert (status.uids, status.gids, status.groups) == ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10))
    assert (status.permitted, status.effective, status.ambient) == (1, 2, 4)
    assert (status.no_new_privs, status.seccomp, status.tracer, status.pid_namespaces) == (True, 2, 0, 2)


def test_lines_that_a_kernel_may_leave_out() -> None:
    """A kernel without seccomp or NoNewPrivs is said not to say; one without process namespaces has one."""
    text = b"".join(
        line for line in STATUS.splitlines(keepends=True) if not line.startswith((b"NoNewPrivs", b"Seccomp", b"NSpid"))
    )
    status = parse_status(text)
    assert (status.no_new_privs, status.seccomp, status.pid_namespaces) == (None, None, 1)


def test_a_line_more_changes_nothing() -> None:
    """Lines of newer kernels between the known ones are stepped over."""
    lines = STATUS.splitlines(keepends=True)
    text = b"".join(line + b"Newer:\t1\n" for line in lines)
    assert parse_status(text) == parse_status(STATUS)


@pytest.mark.parametrize("missing", [b"TracerPid", b"Uid", b"Gid", b"Groups", b"CapPrm", b"CapEff", b"CapAmb"])
def test_a_line_less_is_a_failure(missing: bytes) -> None:
    """No line of the evidence has a default."""
    text = b"".join(line for line in STATUS.splitlines(keepends=True) if not line.startswith(missing))
    with pytest.raises(ValueError, match="not where they belong"):
        parse_status(text)


@given(cut=st.integers(0, len(STATUS)))
def test_a_cut_status_is_never_read_wrongly(cut: int) -> None:
    """A text that ends early gives the true numbers or none."""
    try:
        status = parse_status(STATUS[:cut])
    except ValueError:
        return
    assert (status.uids, status.permitted, status.effective, status.ambient) == ((1, 2, 3, 4), 1, 2, 4)


def test_own_process_is_read_whole() -> None:
    """A live process gives all of its facts, with and without the pidfd's information."""
    pidfd, directory = os.pidfd_open(os.getpid()), os.open(f"/proc/{os.getpid()}", os.O_PATH)
    try:
        for with_info in (True, False):
            facts = read_process(pidfd, directory, own_place(), with_info=with_info)
            assert isinstance(facts, Process)
            assert facts.status.uids == (*os.getresuid(), os.geteuid())
            assert set(facts.status.groups) == set(os.getgroups())
            assert facts.uid_map == facts.own_uid_map
    finally:
        os.close(pidfd)
        os.close(directory)


SOURCES = ("status", "cgroup", "loginuid", "uid_map")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("error", [PermissionError(13, "x"), FileNotFoundError(2, "x"), OSError(5, "x")])
def test_each_source_denied(monkeypatch: pytest.MonkeyPatch, source: str, error: OSError) -> None:
    """A live process whose evidence cannot be read is denied evidence, by that name; nothing is filled in."""
    _failing(monkeypatch, source, error)
    facts = _own()
    assert isinstance(facts, EvidenceDenied)
    assert facts.source == source


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_gone(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """ESRCH means that the process went while it was read."""
    _failing(monkeypatch, source, ProcessLookupError(3, "x"))
    assert isinstance(_own(), Exited)


@pytest.mark.parametrize("source", ["status", "loginuid", "uid_map"])
@pytest.mark.parametrize("text", [b"", b"nonsense\n", b"\xff\xff"])
def test_each_source_of_an_unknown_form(monkeypatch: pytest.MonkeyPatch, source: str, text: bytes) -> None:
    """A text that is not the kernel's known form is no evidence. An empty uid_map is one: an unmapped namespace."""
    genuine = read_file
    monkeypatch.setattr(process, "read_file", lambda fd, name: text if name == source else genuine(fd, name))
    facts = _own()
    if source == "uid_map" and text != b"\xff\xff":
        assert isinstance(facts, Process)
        assert facts.uid_map != facts.own_uid_map
    else:
        assert isinstance(facts, EvidenceDenied)


def test_information_without_credentials_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a process that is reaped the kernel may answer zeros: without the mask's bit they are not ids."""
    monkeypatch.setattr(process, "ask_info", lambda _: struct.pack("Q", 12).ljust(64, b"\0"))
    assert isinstance(_own(), Exited)


def test_no_audit_is_told_from_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without audit nobody has a login; that is another fact than an unset one."""
    here = attrs.evolve(own_place(), audit=False)
    monkeypatch.setattr(process, "own_place", lambda: here)
    facts = _own(here=here)
    assert isinstance(facts, Process)
    assert facts.login == LoginNotKept()


@pytest.mark.parametrize("pidfds", [True, False])
def test_zombie_and_reaped(pidfds: bool) -> None:
    """Ended is ended before it is reaped and after, by pidfd or by the process' own state."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pidfd, directory = os.pidfd_open(child.pid), os.open(f"/proc/{child.pid}", os.O_PATH)
    assert child.stdin is not None
    try:
        held = pidfd if pidfds else None
        assert process.is_alive(held, directory)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert isinstance(read_process(held, directory, own_place(), with_info=False), Exited)
        child.wait()
        assert isinstance(read_process(held, directory, own_place(), with_info=False), Exited)
    finally:
        child.stdin.close()
        child.wait()
        os.close(pidfd)
        os.close(directory)


def test_long_files_are_read_to_their_end(tmp_path: Path) -> None:
    """A file longer than one read comes whole."""
    for length in (0, 1, 2048, 2049, 8192, 100_000):
        (tmp_path / "long").write_bytes(b"x" * length)
        directory = os.open(tmp_path, os.O_PATH)
        try:
            assert len(read_file(directory, "long")) == length
        finally:
            os.close(directory)


def _own(here: process.Here | None = None) -> object:
    pidfd, directory = os.pidfd_open(os.getpid()), os.open(f"/proc/{os.getpid()}", os.O_PATH)
    try:
        return read_process(pidfd, directory, here or attrs.evolve(own_place(), audit=True), with_info=True)
    finally:
        os.close(pidfd)
        os.close(directory)


def _failing(monkeypatch: pytest.MonkeyPatch, source: str, error: OSError) -> None:
    genuine: Callable[[int, str], bytes] = read_file

    def read(directory: int, name: str) -> bytes:
        if name == source:
            raise error
        return genuine(directory, name)

    own_place()
    monkeypatch.setattr(process, "read_file", read)
