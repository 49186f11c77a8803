"""The journal's native protocol: fields that nobody can forge from inside a value."""

import logging
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from safd.node import journal


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[Path, socket.socket]]:
    path = tmp_path / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(5)
        yield path, sock


def fields(datagram: bytes) -> dict[str, str]:
    """What journald reads: the protocol's own rules, written down once more."""
    found: dict[str, str] = {}
    while datagram:
        line, _, rest = datagram.partition(b"\n")
        if b"=" in line:
            name, _, value = line.partition(b"=")
            found[name.decode()] = value.decode()
            datagram = rest
        else:
            (size,) = struct.unpack_from("<Q", rest)
            found[line.decode()] = rest[8 : 8 + size].decode()
            datagram = rest[8 + size + 1 :]
    return found


def test_a_line_with_fields(listening: tuple[Path, socket.socket]) -> None:
    """Message, priority and each field arrive as they were given, line feeds and equal signs included."""
    path, sock = listening
    journal.tell("x is y", {"SAFD_AGENT": "a\nPRIORITY=0\n", "SAFD_DRIFT": "a=b"}, priority=4, path=path)
    assert fields(sock.recv(65536)) == {
        "MESSAGE": "x is y",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "safd",
        "SAFD_AGENT": "a\nPRIORITY=0\n",
        "SAFD_DRIFT": "a=b",
    }


def test_without_a_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The message is not lost: it goes where everything else goes."""
    with caplog.at_level(logging.WARNING):
        journal.tell("x is y", {}, priority=4, path=tmp_path / "none")
    assert caplog.messages == ["x is y"]
