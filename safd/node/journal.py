"""Lines with fields for the journal: systemd's native protocol, one datagram a line.

https://systemd.io/JOURNAL_NATIVE_PROTOCOL/. A value with a line feed is sent with its length, so that no value can end
its field and begin another.
"""

import logging
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

SOCKET = Path("/run/systemd/journal/socket")
_log = logging.getLogger(__name__)


def tell(message: str, fields: Mapping[str, str], *, priority: int, path: Path = SOCKET) -> None:
    """`priority` as syslog's: 4 warning, 5 notice. Where no journal listens, the message goes to the log alone."""
    every = {"MESSAGE": message, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "safd", **fields}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(b"".join(_spelled(name, value) for name, value in every.items()), str(path))
        except OSError:
            _log.warning("%s", message)


def _spelled(name: str, value: str) -> bytes:
    raw = value.encode("utf-8", "replace")
    if b"\n" not in raw:
        return name.encode() + b"=" + raw + b"\n"
    return name.encode() + b"\n" + struct.pack("<Q", len(raw)) + raw + b"\n"
