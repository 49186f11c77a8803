"""The processes of a benchmark: the real daemon, a floor server, a load process; all children, all ended."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "client")])}


@contextmanager
def child(*command: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=ENVIRONMENT, text=True, cwd=ROOT, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def wait_listening(path: Path, process: subprocess.Popen[str]) -> None:
    """Until a connection is accepted; a child that ends first is an error."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.002)
            else:
                return
    raise RuntimeError(f"{process.args} does not listen")


@contextmanager
def floor_server(folder: Path, answer: bytes) -> Iterator[Path]:
    folder.mkdir(parents=True)
    (folder / "answer").write_bytes(answer)
    path = folder / "floor.sock"
    with child(sys.executable, str(HERE / "floor.py"), str(path), str(folder / "answer")) as process:
        wait_listening(path, process)
        yield path
    shutil.rmtree(folder)


class Daemon:
    """A running `safd serve` with a store and admissions of its own."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.socket = folder / "safd.sock"
        self.store = folder / "record.db"

    def call(self, method: str, params: object) -> dict[str, object]:
        """One call on a connection of its own. For setting up, not for measuring."""
        return json.loads(self.line(method, params))["result"]

    def line(self, method: str, params: object) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(self.socket))
            sock.sendall(request(method, params))
            pieces: list[bytes] = []
            while not pieces or not pieces[-1].endswith(b"\n"):
                piece = sock.recv(1 << 20)
                if not piece:
                    raise RuntimeError(f"safd closed the connection: {b''.join(pieces)[:500]!r}")
                pieces.append(piece)
        answer = b"".join(pieces)
        if b'"error":{' in answer[:200] and b'"result"' not in answer[:60]:
            raise RuntimeError(answer[:2000].decode())
        return answer

    def conversation(self, messages: list[bytes] | None = None, batch: int = 500) -> str:
        made = self.call("conversation.create", {})["conversation"]["id"]  # type: ignore[index]
        for start in range(0, len(messages or []), batch):
            self.line("conversation.append", append_params(made, (messages or [])[start : start + batch]))
        return made

    def wal_bytes(self) -> int:
        return Path(f"{self.store}-wal").stat().st_size


def request(method: str, params: object, number: int = 1) -> bytes:
    """A JSON-RPC line; `params` are a value, or JSON text as bytes."""
    text = params if isinstance(params, bytes) else json.dumps(params, separators=(",", ":")).encode()
    return b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}\n' % (number, method.encode(), text)


def append_params(conversation: str, messages: list[bytes]) -> bytes:
    return b'{"conversation":"%b","messages":[%b]}' % (conversation.encode(), b",".join(messages))


@contextmanager
def daemon(folder: Path) -> Iterator[Daemon]:
    (folder / "admissions.d").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "safd", "serve", "--socket", str(folder / "safd.sock")]
    command += ["--store", str(folder / "record.db"), "--admissions", str(folder / "admissions.d")]
    with child(*command) as process:
        wait_listening(folder / "safd.sock", process)
        yield Daemon(folder, process)


class Load:
    """The load process: commands in, medians out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, do: str, **arguments: object) -> dict[str, float]:
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        sent.write(json.dumps({"do": do, "arguments": arguments}, default=spelled) + "\n")
        sent.flush()
        answer = received.readline()
        if not answer:
            raise RuntimeError(f"the load process failed in {do}")
        return json.loads(answer)


def spelled(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


@contextmanager
def load() -> Iterator[Load]:
    with child(sys.executable, str(HERE / "load.py"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Load(process)
