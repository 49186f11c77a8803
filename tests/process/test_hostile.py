"""Bad input against the real daemon: each gets its refusal, and nobody else notices."""

import array
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon, Fault, Line, request, running, user_text

GENEROUS_BYTES = 800 * 1024 * 1024
KINDS: dict[str, Callable[[socket.socket], None]] = {}


def kind(send: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    KINDS[send.__name__] = send
    return send


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("hostile")) as found:
        yield found


@pytest.fixture(scope="module")
def bystander(daemon: Daemon) -> Iterator[Line]:
    """A client that was there before, and stays."""
    with daemon.connect() as line:
        yield line


@kind
def nothing(_: socket.socket) -> None:
    """Connects and says nothing."""


@kind
def one_brace(sock: socket.socket) -> None:
    sock.sendall(b"{")


@kind
def zeros(sock: socket.socket) -> None:
    sock.sendall(b"\0" * 100_000)


@kind
def noise(sock: socket.socket) -> None:
    sock.sendall(bytes(range(256)) * 500)


@kind
def empty_lines(sock: socket.socket) -> None:
    sock.sendall(b"{}\n" + b"\n" * 10_000)


@kind
def broken_json(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": \n' * 200)


@kind
def not_utf8(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"principal.observe","params":{"agent":"\xff\xed\xa0\x80"}}\n')


@kind
def deep(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"principal.observe","params":' + b"[" * 200_000 + b"\n")


@kind
def escaped_quotes(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"' + b'\\"' * 500_000 + b"\n")


@kind
def many_values(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b"[]," * 300_000 + b"NaN]}}\n")


@kind
def huge_number(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc":"2.0","id":' + b"9" * 300_000 + b',"method":"principal.observe","params":{}}\n')


@kind
def batch(sock: socket.socket) -> None:
    sock.sendall(b"{" + b'"jsonrpc":"2.0"}\n[' + request("principal.observe", {}).strip() + b"]\n")


@kind
def unknown_method(sock: socket.socket) -> None:
    sock.sendall(request("conversation.destroy", {}) * 50)


@kind
def wrong_types(sock: socket.socket) -> None:
    for params in ([], 1, None, "x", {"conversation": 5}, {"conversation": "conv_x", "messages": {}}):
        sock.sendall(request("conversation.append", params))


@kind
def line_that_never_ends(sock: socket.socket) -> None:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 3_000_000)


@kind
def http_noise(sock: socket.socket) -> None:
    sock.sendall(b"GET \x00 HTTP/9.9\r\n: :\r\n\r\n")


@kind
def http_headers_that_never_end(sock: socket.socket) -> None:
    sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 50_000)


@kind
def http_two_lengths(sock: socket.socket) -> None:
    sock.sendall(
        b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{}"
    )


@kind
def http_negative_length(sock: socket.socket) -> None:
    sock.sendall(b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{}")


@kind
def http_huge_length(sock: socket.socket) -> None:
    sock.sendall(b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{")


@kind
def http_foreign_host(sock: socket.socket) -> None:
    sock.sendall(b"GET /v1/principal HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n")


@kind
def http_bad_chunks(sock: socket.socket) -> None:
    sock.sendall(
        b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"
    )


@kind
def tls_hello(sock: socket.socket) -> None:
    sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500))


@kind
def passed_descriptors(sock: socket.socket) -> None:
    """Tries to leave descriptors in the daemon."""
    pipe = os.pipe()
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe[0], pipe[1]] * 20))]
        sock.sendmsg([request("principal.observe", {})], rights)
    except PermissionError:
        # a kernel with SO_PASSRIGHTS, and a daemon that took none: nothing of it was sent
        sock.sendall(request("principal.observe", {}))
    finally:
        os.close(pipe[0])
        os.close(pipe[1])


@kind
def answer_that_nobody_reads(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(request("rpc.discover", {}) * 20)


@kind
def reset_amid_a_request(sock: socket.socket) -> None:
    sock.sendall(request("principal.observe", {})[:-5])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("leaves", ["closes", "shuts", "stays"])
@pytest.mark.parametrize("name", KINDS)
def test_bad_input_troubles_nobody_else(daemon: Daemon, bystander: Line, name: str, leaves: str) -> None:
    """Whatever one client sends, and however it leaves, another's connection answers and the daemon lives."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(60)
        sock.connect(str(daemon.socket))
        try:
            KINDS[name](sock)
            if leaves == "shuts":
                sock.shutdown(socket.SHUT_WR)
                if name != "answer_that_nobody_reads":
                    drain(sock)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it had said all: its right
        if leaves == "stays":
            assert bystander.call("principal.observe", {})["principal"]["uid"] == os.getuid()
    assert bystander.call("principal.observe", {})["principal"]["uid"] == os.getuid()
    with daemon.connect() as fresh:
        assert fresh.call("principal.observe", {})["principal"]["uid"] == os.getuid()
    assert daemon.alive()


def drain(sock: socket.socket) -> bytes:
    """Everything until the daemon closes its side: it must, since nothing more can come."""
    pieces: list[bytes] = []
    while piece := sock.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def test_refusals_have_codes(daemon: Daemon) -> None:
    """On one connection, a bad line gets a coded refusal with its id, and the next line its answer."""
    with daemon.connect() as line:
        for params, code in [
            (b'{"agent": 1}', "field_type"),
            (b'{"agnt": "x"}', "field_unknown"),
            (b'{"agent": "a", "agent": "b"}', "key_duplicate"),
            (b'{"agent": NaN}', "number_not_finite"),
        ]:
            refused = line.exact("principal.observe", params)
            assert f'"code":"{code}"'.encode() in refused.replace(b" ", b"")
            assert f'"id":{line.sent}'.encode() in refused
            assert line.call("principal.observe", {})["principal"]["uid"] == os.getuid()


def test_a_conversation_is_small(daemon: Daemon) -> None:
    """What is listed by the hundred is bounded by the one: a title and metadata that are not are refused by name."""
    with daemon.connect() as line:
        for params, path in (({"title": "x" * 1001}, "title"), ({"metadata": {"a": "x" * 65536}}, "metadata")):
            with pytest.raises(Fault) as caught:
                line.call("conversation.create", params)
            assert caught.value.code == "value_not_allowed"
            assert path in caught.value.detail
        assert line.call("conversation.create", {"title": "x" * 1000, "metadata": {"a": "x" * 65000}})


def test_descriptors_are_not_left_in_the_daemon(daemon: Daemon, bystander: Line) -> None:
    """Descriptors that are passed along stay with whoever passed them."""
    bystander.call("principal.observe", {})
    before = set(Path(f"/proc/{daemon.pid}/fd").iterdir())
    for _ in range(20):
        with daemon.connect() as line:
            passed_descriptors(line.sock)
            line.read()
    for _ in range(200):  # a connection's end is noticed in a later turn of the loop
        bystander.call("principal.observe", {})
        more = set(Path(f"/proc/{daemon.pid}/fd").iterdir()) - before
        if len(more) <= 2:
            break
    assert len(more) <= 2


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    """A crowd that sends endless requests and reads nothing costs a bounded amount; a neighbour is still served.

    Forty senders of 30 MB share what all requests together may take (256 MB); ten readers hold 20 MB each.
    """
    with running(tmp_path) as daemon, daemon.connect() as line:
        made = line.call("conversation.create", {})["conversation"]["id"]
        big = "x" * 1_000_000
        for _ in range(20):
            line.call("conversation.append", {"conversation": made, "messages": [user_text(big)]})
        crowd: list[socket.socket] = []
        try:
            for number in range(50):
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                crowd.append(sock)
                sock.connect(str(daemon.socket))
                sock.settimeout(2)
                try:
                    if number % 5 == 0:
                        sock.sendall(request("conversation.messages", {"conversation": made}) * 10)
                    else:
                        sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"' + b"x" * 30_000_000)
                except (TimeoutError, BrokenPipeError, ConnectionResetError):
                    pass  # the daemon takes no more of it
            assert line.call("principal.observe", {})["principal"]["uid"] == os.getuid()
            status = Path(f"/proc/{daemon.pid}/status").read_text(encoding="ascii")
            peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
            assert peak < GENEROUS_BYTES
        finally:
            for sock in crowd:
                sock.close()
        assert line.call("conversation.get", {"conversation": made})["conversation"]["head_seq"] == 20
        assert daemon.stop() == 0
