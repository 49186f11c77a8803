"""The three things that a service shares with systemd: passed sockets, notifications, the watchdog.

The protocols of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3); without systemd each of them says "nothing"
and is no error. A passed socket stays systemd's: it is never bound, chmodded or unlinked here.
"""

import os
import socket

_FIRST = 3  # SD_LISTEN_FDS_START
_UNNAMED = "unknown"
_MICROSECONDS = 1_000_000


def passed_sockets() -> dict[str, socket.socket]:
    """The sockets that systemd passed to this very process, by `FileDescriptorName=`.

    Where several bear one name, the second is `name#2` and so on. The environment is cleared and the descriptors
    closed on exec, so that no child takes them for its own.
    """
    pid, count, names = (os.environ.pop(key, "") for key in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if not _is_number(pid) or not _is_number(count) or int(pid) != os.getpid():
        return {}
    given = names.split(":") if names else []
    passed: dict[str, socket.socket] = {}
    for index in range(int(count)):
        descriptor = _FIRST + index
        os.set_inheritable(descriptor, False)
        name = given[index] if index < len(given) and given[index] else _UNNAMED
        same = sum(1 for known in passed if known.partition("#")[0] == name)
        passed[name if not same else f"{name}#{same + 1}"] = socket.socket(fileno=descriptor)
    return passed


def notify(*lines: str) -> bool:
    """Tell the service manager, in one datagram: `READY=1`, `STATUS=...`, `WATCHDOG=1`, `STOPPING=1`.

    False where nobody listens: no NOTIFY_SOCKET, or one that has gone. Never blocks.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        try:
            sender.sendto("\n".join(lines).encode(), target)
        except OSError:
            return False
    return True


def watchdog_interval_s() -> float | None:
    """How often to say `WATCHDOG=1`: a third of what systemd allows; None where it does not watch this process."""
    period, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not _is_number(period) or int(period) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(period) / _MICROSECONDS / 3


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
