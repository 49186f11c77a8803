"""The client side of every row, in a process of its own: one JSON command a line on stdin, one answer on stdout.

Plain sockets and epoll: a client library would measure itself. Latencies in microseconds, times in seconds.
"""

import json
import select
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import orjson

READ = 1 << 20
GROWN_WAL_BYTES = 5 * 1024 * 1024


def connected(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def read_line(sock: socket.socket, buffer: bytearray, view: memoryview) -> int:
    """The length of one answer line, read into `buffer`, which is large enough and never copied."""
    length = 0
    while True:
        count = sock.recv_into(view[length:])
        if count == 0:
            raise EOFError(f"the server closed the connection after {length} bytes")
        length += count
        if buffer[length - 1] == 0x0A:
            return length


def checked(answer: bytes | bytearray) -> None:
    if b'"error":{' in answer[:400] or b'"error":{' in answer[-400:]:
        raise RuntimeError(bytes(answer[:2000]).decode())


def one_by_one(path: str, lines: list[bytes], count: int, largest: int) -> dict[str, float]:
    """One client, one request at a time."""
    buffer = bytearray(largest)
    view = memoryview(buffer)
    took: list[float] = []
    with connected(path) as sock:
        for turn in range(count):
            line = lines[turn % len(lines)]
            start = time.perf_counter()
            sock.sendall(line)
            length = read_line(sock, buffer, view)
            took.append((time.perf_counter() - start) * 1e6)
            if turn == 0:
                checked(buffer[:length])
    return {"p50": median(took), "p99": quantiles(took, n=100)[98] if len(took) > 1 else took[0]}


def side_by_side(path: str, lines: list[list[bytes]], count: int) -> dict[str, float]:
    """Many clients, each with one request in flight; `lines[i]` is what client i sends, in turn."""
    clients = {sock.fileno(): (sock, mine) for sock, mine in ((connected(path), each) for each in lines)}
    sent = dict.fromkeys(clients, 0)
    half = dict.fromkeys(clients, b"")
    poll = select.epoll()
    for number in clients:
        poll.register(number, select.EPOLLIN)
    start = time.perf_counter()
    for number, (sock, mine) in clients.items():
        sock.sendall(mine[0])
        sent[number] = 1
    done, begun = 0, len(clients)
    while done < count:
        for number, _ in poll.poll():
            sock, mine = clients[number]
            half[number] += sock.recv(READ)
            if not half[number].endswith(b"\n"):
                continue
            checked(half[number])
            half[number] = b""
            done += 1
            if begun < count:
                sock.sendall(mine[sent[number] % len(mine)])
                sent[number] += 1
                begun += 1
    seconds = time.perf_counter() - start
    for sock, _ in clients.values():
        sock.close()
    return {"per_second": done / seconds}


def turns(path: str, append: list[bytes], replay: bytes, rounds: int) -> dict[str, float]:
    """An agent's turn: append one message, then replay what follows the stable prefix that is known already."""
    took: list[float] = []
    with connected(path) as sock, sock.makefile("rb", READ) as lines:

        def asked(line: bytes) -> bytes:
            sock.sendall(line)
            answer = lines.readline()
            checked(answer)
            return answer

        answer = asked(replay.replace(b'"SINCE"', b"null"))
        for turn in range(rounds):
            since = json.dumps(json.loads(answer)["result"]["stable_prefix"]).encode()
            line = replay.replace(b'"SINCE"', since)
            start = time.perf_counter()
            asked(append[turn % len(append)])
            answer = asked(line)
            took.append((time.perf_counter() - start) * 1e6)
    return {"p50": median(took), "answer_bytes": len(answer)}


def followers(path: str, attach: bytes, append: list[bytes], count: int, rounds: int) -> dict[str, float]:
    """`count` readers of one stream; from the writer's send to the last reader's read, for each of `rounds` appends."""
    readers = [connected(path) for _ in range(count)]
    poll = select.epoll()
    for sock in readers:
        sock.sendall(attach)
        poll.register(sock.fileno(), select.EPOLLIN)
    by_number = {sock.fileno(): sock for sock in readers}
    ready: set[int] = set()
    while len(ready) < count:
        for number, _ in poll.poll():
            checked(by_number[number].recv(READ))
            ready.add(number)
    took: list[float] = []
    with connected(path) as writer:
        for turn in range(rounds):
            start = time.perf_counter()
            writer.sendall(append[turn % len(append)])
            left = set(by_number)
            while left:
                for number, _ in poll.poll():
                    if by_number[number].recv(READ).endswith(b"\n"):
                        left.discard(number)
            took.append((time.perf_counter() - start) * 1e6)
            checked(writer.recv(READ))
    for sock in readers:
        sock.close()
    return {"p50": median(took)}


def bare_sends(size: int, count: int, rounds: int) -> dict[str, float]:
    """The floor of a fan-out: `count` sends of `size` bytes to sockets that one process reads."""
    pairs = [socket.socketpair() for _ in range(count)]
    body = b"x" * size
    took: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for ours, _ in pairs:
            ours.send(body)
        for _, theirs in pairs:
            theirs.recv(READ)
        took.append((time.perf_counter() - start) * 1e6)
    for ours, theirs in pairs:
        ours.close()
        theirs.close()
    return {"p50": median(took)}


def commits(path: str, rows: list[bytes], count: int) -> dict[str, float]:
    """Single SQLite commits with fsync, one row each, on a WAL that has its size already."""
    log = Path(f"{path}-wal")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS messages (number INTEGER PRIMARY KEY, id TEXT, hash TEXT, text BLOB)"
    )
    if not log.exists() or log.stat().st_size < GROWN_WAL_BYTES:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO messages (text) VALUES (?)", [(b"\0" * 100_000,)] * 60)
        connection.execute("COMMIT")
        connection.execute("DELETE FROM messages")
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    before = log.stat().st_size
    took: list[float] = []
    began = time.perf_counter()
    for turn in range(count):
        row = rows[turn % len(rows)]
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO messages (id, hash, text) VALUES (?, ?, ?)", ("i" * 40, "h" * 64, row))
        connection.execute("COMMIT")
        took.append((time.perf_counter() - start) * 1e6)
    seconds = time.perf_counter() - began
    after = log.stat().st_size
    connection.close()
    return {"p50": median(took), "per_second": count / seconds, "wal_before": before, "wal_after": after}


def load_and_dump(rows: list[bytes]) -> dict[str, float]:
    """Every message of a record through a fast JSON library and back, one after the other."""
    start = time.perf_counter()
    for row in rows:
        orjson.dumps(orjson.loads(row))
    return {"p50": (time.perf_counter() - start) * 1e6}


COMMANDS: dict[str, Callable[..., dict[str, float]]] = {
    "one_by_one": one_by_one,
    "side_by_side": side_by_side,
    "turns": turns,
    "followers": followers,
    "bare_sends": bare_sends,
    "commits": commits,
    "load_and_dump": load_and_dump,
}


def as_bytes(value: object) -> object:
    match value:
        case str() if value.startswith(("{", "[")):
            return value.encode()
        case list():
            return [as_bytes(item) for item in value]
        case _:
            return value


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        arguments = {name: as_bytes(value) for name, value in command["arguments"].items()}
        print(json.dumps(COMMANDS[command["do"]](**arguments)), flush=True)


if __name__ == "__main__":
    main()
