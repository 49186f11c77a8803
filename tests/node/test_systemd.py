"""The protocols of systemd: sockets passed to this process only, notifications to any kind of address, the watchdog."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from safd.node.systemd import notify, passed_sockets, watchdog_interval_s

_RECEIVER = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid()) if sys.argv[1] == "own" else sys.argv[1]
from safd.node.systemd import passed_sockets
sockets = passed_sockets()
left = [key for key in os.environ if key.startswith("LISTEN_")]
print(sorted((name, sock.family.name, os.get_inheritable(sock.fileno())) for name, sock in sockets.items()), left)
"""


def _receive(pid: str, count: str, names: str | None) -> str:
    first, second = socket.socketpair()
    with first, second:
        # a shell moves the two sockets to where systemd would have put them
        moved = f'exec 3<&{first.fileno()} 4<&{second.fileno()}; exec "$0" -c "$1" {pid}'
        environment = {**os.environ, "LISTEN_FDS": count}
        if names is not None:
            environment["LISTEN_FDNAMES"] = names
        return subprocess.run(
            ["bash", "-c", moved, sys.executable, _RECEIVER],
            env=environment,
            pass_fds=(first.fileno(), second.fileno()),
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


@pytest.mark.parametrize(
    ("pid", "count", "names", "expected"),
    [
        ("own", "2", "safd:metrics", "[('metrics', 'AF_UNIX', False), ('safd', 'AF_UNIX', False)] []"),
        ("own", "2", "safd:safd", "[('safd', 'AF_UNIX', False), ('safd#2', 'AF_UNIX', False)] []"),
        ("own", "1", None, "[('unknown', 'AF_UNIX', False)] []"),
        ("own", "2", "safd", "[('safd', 'AF_UNIX', False), ('unknown', 'AF_UNIX', False)] []"),
        ("1", "2", "safd:metrics", "[] []"),
        ("own", "nonsense", "safd", "[] []"),
        ("own", "0", "", "[] []"),
    ],
)
def test_passed_sockets(pid: str, count: str, names: str | None, expected: str) -> None:
    """Sockets come by name, closed on exec, to the named process only, and the environment is cleared in any case."""
    assert _receive(pid, count, names) == expected


def test_nothing_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without systemd there are no sockets, and that is no error."""
    for key in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        monkeypatch.delenv(key, raising=False)
    assert passed_sockets() == {}


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_notify(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """One datagram with all lines, to a path and to an abstract address alike."""
    address = f"{tmp_path}/notify" if kind == "path" else f"@safd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        assert notify("READY=1", "STATUS=serving")
        assert manager.recv(100) == b"READY=1\nSTATUS=serving"


@pytest.mark.parametrize("address", [None, "", "/nonexistent/notify", "vsock:2:1", "relative"])
def test_nobody_to_notify(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    """No manager, one that has gone, and an address of another kind: told, and no error."""
    if address is None:
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    else:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not notify("READY=1")


def test_a_manager_that_does_not_read_blocks_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When the manager's queue is full the notification is dropped."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{tmp_path}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        assert any(not notify("WATCHDOG=1") for _ in range(100_000))


@pytest.mark.parametrize(
    ("period", "pid", "expected"),
    [
        ("3000000", None, 1.0),
        ("3000000", "own", 1.0),
        ("3000000", "1", None),
        ("0", None, None),
        (None, None, None),
        ("x", None, None),
    ],
)
def test_watchdog(monkeypatch: pytest.MonkeyPatch, period: str | None, pid: str | None, expected: float | None) -> None:
    """A third of the period, for the watched process only."""
    for key, value in (("WATCHDOG_USEC", period), ("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)):
        if value is None:
            monkeypatch.delenv(key, raising=False)
        else:
            monkeypatch.setenv(key, value)
    assert watchdog_interval_s() == expected
