"""A daemon of one's own for a moment: on a temporary store, gone with everything it wrote when the block is left."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs

from saf_client.errors import NoDaemon

START_S = 20.0
STOP_S = 5.0
SOCKET_PATH_BYTES = 100
"""A socket's path holds 107 bytes at most (unix(7)); a deeper temporary folder is not used."""
_NOT_INHERITED = ("NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID")


@attrs.frozen(kw_only=True)
class PrivateDaemon:
    socket: Path
    admissions: Path
    process: "subprocess.Popen[bytes]"


@contextmanager
def private_daemon() -> Generator[PrivateDaemon]:
    """Started and answering. Raises NoDaemon, with what it said, where it does not start."""
    with tempfile.TemporaryDirectory(prefix="saf-demo-", dir=_folder()) as name:
        home = Path(name)
        admissions = home / "admissions.d"
        admissions.mkdir(mode=0o755)
        log = home / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603  our own interpreter
                [
                    *(sys.executable, "-P", "-m", "safd", "serve"),
                    *("--socket", str(home / "safd.sock")),
                    *("--store", str(home / "record.db")),
                    *("--admissions", str(admissions)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={key: value for key, value in os.environ.items() if key not in _NOT_INHERITED},
                start_new_session=True,  # Ctrl-C is ours; we end it in order
            )
        try:
            _wait_until_it_listens(process, home / "safd.sock", log)
            yield PrivateDaemon(socket=home / "safd.sock", admissions=admissions, process=process)
        finally:
            _end(process)


def _folder() -> str | None:
    deep = len(os.fsencode(tempfile.gettempdir())) + len("/saf-demo-12345678/safd.sock") > SOCKET_PATH_BYTES
    return "/tmp" if deep else None  # noqa: S108  the folder made in it is private


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", path: Path, log: Path) -> None:
    end = time.monotonic() + START_S
    while not _listens(path):
        if process.poll() is not None or time.monotonic() > end:
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise NoDaemon(f"The private daemon did not start: {said[-1] if said else 'it said nothing'}")
        time.sleep(0.01)


def _listens(path: Path) -> bool:
    """A socket is there before anybody listens on it."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing interrupts this: a second Ctrl-C would leave a daemon behind."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
