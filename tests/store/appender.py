"""A process that appends from eight tasks until it is killed, and says on its output what was acknowledged."""

import os
import sys
import time
from pathlib import Path

import trio

from safd.settings import Limits
from safd.store.sqlite import open_store
from tests.contracts.world import draft, offer, said


async def main(path: Path) -> None:
    async with open_store(
        path,
        limits=Limits(),
        clock=lambda: int(time.time() * 1000),
        random=os.urandom,
        on_committed=lambda conversation, rows: None,
    ) as store:
        shared = await store.create(draft(idempotency_key="shared"))

        async def client(number: int) -> None:
            mine = shared if number % 2 else await store.create(draft(idempotency_key=str(number)))
            while True:
                words = [f"w{os.urandom(8).hex()}" for _ in range(1 + number % 3)]
                receipt = await store.append(offer(mine, *map(said, words)))
                lines = [f"{mine.id} {receipt.first_seq + at} {word}\n" for at, word in enumerate(words)]
                os.write(1, "".join(lines).encode())

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(client, number)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
