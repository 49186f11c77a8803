"""The real daemon as a child process, and plain connections to it: for tests that need the whole thing."""

import array
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from tests.checkout import ROOT

STARTS_WITHIN_S = 30.0
ANSWERS_WITHIN_S = 60.0
LAUNCH = ROOT / "tests" / "process" / "launch.py"


@attrs.define
class Fault(Exception):
    """The daemon's refusal."""

    code: str
    detail: str
    number: int


class Line:
    """One JSON-RPC connection, blocking. An answer that does not come is an error after ANSWERS_WITHIN_S."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWERS_WITHIN_S)
        try:
            self.sock.connect(str(path))
        except OSError:
            self.sock.close()
            raise
        self.lines = self.sock.makefile("rb")
        self.sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.lines.close()
        self.sock.close()

    def send(self, method: str, params: object) -> None:
        self.sent += 1
        self.sock.sendall(request(method, params, self.sent))

    def read(self) -> bytes:
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError(f"the daemon closed the connection after {line[:500]!r}")
        return line

    def call(self, method: str, params: object) -> Any:
        self.send(method, params)
        return answer(self.read())

    def exact(self, method: str, params: object) -> bytes:
        """The answer's line, byte for byte."""
        self.send(method, params)
        return self.read()


def request(method: str, params: object, number: int = 1) -> bytes:
    """A JSON-RPC line; `params` are a value, or JSON text as bytes."""
    text = params if isinstance(params, bytes) else json.dumps(params).encode()
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (number, method.encode(), text)


def answer(line: bytes) -> Any:
    found = json.loads(line)
    if "error" in found:
        error = found["error"]
        raise Fault(error["data"]["code"], error["data"].get("detail", error["message"]), error["code"])
    return found["result"]


def user_text(text: str) -> dict[str, object]:
    return {"role": "user", "blocks": [{"type": "text", "text": text}]}


@attrs.frozen
class Daemon:
    process: "subprocess.Popen[bytes]"
    socket: Path
    store: Path
    admissions: Path
    notified: "socket.socket"

    @property
    def pid(self) -> int:
        return self.process.pid

    def connect(self) -> Line:
        return Line(self.socket)

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(ANSWERS_WITHIN_S)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(ANSWERS_WITHIN_S)

    def memory_bytes(self) -> int:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def serve_command(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "safd", "serve"),
        *("--socket", str(folder / "safd.sock")),
        *("--store", str(folder / "store" / "record.db")),
        *("--admissions", str(folder / "admissions.d")),
    ]


@contextmanager
def running(
    folder: Path,
    *,
    command: Sequence[str] | None = None,
    environment: dict[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[Daemon]:
    """A daemon that has said READY=1; killed at the end if it still runs.

    Its errors go to this process's own stderr, where pytest shows them beside a failure.
    """
    (folder / "admissions.d").mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        notified.settimeout(STARTS_WITHIN_S)
        address = f"\0safd-test-{os.getpid()}-{id(notified)}"
        notified.bind(address)
        process = subprocess.Popen(
            command or serve_command(folder),
            env=os.environ | {"NOTIFY_SOCKET": f"@{address[1:]}"} | (environment or {}),
            pass_fds=pass_fds,
        )
        try:
            wait_ready(notified, process)
            yield Daemon(
                process, folder / "safd.sock", folder / "store" / "record.db", folder / "admissions.d", notified
            )
        finally:
            process.kill()
            process.wait()


def wait_ready(notified: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    notified.settimeout(0.2)
    for _ in range(int(STARTS_WITHIN_S / 0.2)):
        try:
            lines, _ = read_notification(notified)
        except TimeoutError:
            if process.poll() is not None:
                raise RuntimeError(f"the daemon ended with {process.returncode} before it was ready") from None
            continue
        if "READY=1" in lines:
            notified.settimeout(STARTS_WITHIN_S)
            return
    raise RuntimeError("the daemon did not become ready")


def read_notification(notified: socket.socket) -> tuple[list[str], int]:
    """One datagram's lines, and the pid that the kernel says sent it."""
    data, ancillary, _, _ = notified.recvmsg(4096, socket.CMSG_SPACE(12))
    pid = 0
    for level, kind, raw in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid = array.array("i", raw[:4])[0]
    return data.decode().split("\n"), pid
