"""Blocks: the same bytes in fewer pieces, none copied that is large."""

from hypothesis import given
from hypothesis import strategies as st

from safd.api.blocks import BLOCK_BYTES, PIECES, blocks

LARGE = b"x" * (BLOCK_BYTES + 1)


@given(st.lists(st.binary(max_size=3) | st.just(LARGE) | st.just(LARGE[:1000]), max_size=400))
def test_same_bytes(pieces: list[bytes]) -> None:
    """Joined, the blocks are the pieces joined; no block is larger than it may be, except a piece that is."""
    found = list(blocks(pieces))
    assert b"".join(found) == b"".join(pieces)
    assert all(len(block) <= BLOCK_BYTES or block is LARGE for block in found)


def test_few_blocks() -> None:
    """Small pieces are not sent one by one."""
    assert len(list(blocks([b"x"] * 10_000))) <= 10_000 / PIECES + 1
