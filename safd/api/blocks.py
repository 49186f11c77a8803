"""Many small pieces of bytes as fewer blocks, each joined only when it is about to leave.

Ten thousand stored texts are twenty megabytes: joined at once they cost more memory traffic than the sending, handed to
the kernel one by one more calls and bookkeeping. A block is small enough to be built in memory that is warm.
"""

from collections.abc import Iterator, Sequence

PIECES = 128
BLOCK_BYTES = 512 * 1024
"""A block is no larger, unless it is one piece that is."""


def blocks(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """The same bytes; a large piece stands for itself and is not copied."""
    for at in range(0, len(pieces), PIECES):
        yield from _blocks(pieces[at : at + PIECES])


def _blocks(pieces: Sequence[bytes]) -> Iterator[bytes]:
    if len(pieces) == 1 or sum(map(len, pieces)) <= BLOCK_BYTES:
        yield b"".join(pieces)
        return
    middle = len(pieces) // 2
    yield from _blocks(pieces[:middle])
    yield from _blocks(pieces[middle:])
