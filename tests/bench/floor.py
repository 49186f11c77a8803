"""The floor under a socket row, `floor.py SOCKET FILE`: a bare trio server that answers each line with that file."""

import sys
from pathlib import Path

import trio

SMALL = 64 * 1024


async def answer_lines(sock: trio.socket.SocketType, answer: bytes) -> None:
    with sock:
        while True:
            data = await sock.recv(SMALL)
            if not data:
                return
            if not data.endswith(b"\n"):
                continue
            left = memoryview(answer)
            while left:
                left = left[await sock.send(left) :]


async def main(path: str, answer: bytes) -> None:
    listener = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await listener.bind(path)
    listener.listen(1024)
    async with trio.open_nursery() as nursery:
        while True:
            sock, _ = await listener.accept()
            nursery.start_soon(answer_lines, sock, answer)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]).read_bytes())
