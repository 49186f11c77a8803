"""Ids are UUIDv7 with a prefix: valid, ordered by time, and refused in any other form."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.model import ids
from safd.model.errors import IdMalformed

times = st.integers(min_value=0, max_value=2**48 - 1)
randoms = st.binary(min_size=ids.RANDOM_BYTES, max_size=ids.RANDOM_BYTES)


@given(times, randoms)
def test_minted_ids_are_uuid7(unix_ms: int, random: bytes) -> None:
    """Version 7, variant of RFC 9562, the time in the first 48 bits, the rest as random as what was given."""
    text = ids.mint(ids.MESSAGE, unix_ms, random)
    assert ids.parse_message_id(text) == text
    parsed = uuid.UUID(text.removeprefix("msg_"))
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == unix_ms
    mask = (2**80 - 1) & ~(0xF << 76) & ~(0x3 << 62)
    assert parsed.int & mask == int.from_bytes(random, "big") & mask


@given(times, times, randoms, randoms)
def test_ids_order_by_time(first: int, second: int, a: bytes, b: bytes) -> None:
    """As texts, ids of different milliseconds sort as they were minted."""
    if first != second:
        assert (ids.mint("conv", first, a) < ids.mint("conv", second, b)) is (first < second)


@given(times, randoms, randoms)
def test_ids_differ_by_random(unix_ms: int, a: bytes, b: bytes) -> None:
    """Within a millisecond, two ids are equal only if the 74 random bits are."""
    mask = (2**80 - 1) & ~(0xF << 76) & ~(0x3 << 62)
    same = int.from_bytes(a, "big") & mask == int.from_bytes(b, "big") & mask
    assert (ids.mint("conv", unix_ms, a) == ids.mint("conv", unix_ms, b)) is same


@pytest.mark.parametrize("random", [b"", b"\x00" * 9, b"\x00" * 11])
def test_too_little_random_is_a_fault_of_ours(random: bytes) -> None:
    """An id is never minted from fewer or more random bytes than it holds."""
    with pytest.raises(ValueError, match="random bytes"):
        ids.mint("conv", 0, random)


GOOD = "01936f2e-8c00-7abc-8def-0123456789ab"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "conv_",
        GOOD,
        f"msg_{GOOD}",
        f"conv-{GOOD}",
        f"CONV_{GOOD}",
        f"conv_{GOOD.upper()}",
        f"conv_{GOOD}\n",
        f" conv_{GOOD}",
        f"conv_{GOOD.replace('-', '')}",
        f"conv_{GOOD.replace('-7', '-4')}",
        f"conv_{GOOD.replace('-8def', '-cdef')}",
        f"conv_{GOOD}x",
        f"conv_{GOOD[:-1]}\u0660",
        "conv_" + "a" * 1000,
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    """One spelling per id: a prefix of another kind, capitals, other versions and stray space are refused."""
    with pytest.raises(IdMalformed) as caught:
        ids.parse_conversation_id(text, "params.conversation")
    assert caught.value.path == "params.conversation"
    assert len(caught.value.seen) <= 80


def test_each_kind_takes_its_own_prefix() -> None:
    """An id of one kind is not an id of another."""
    parsers = {
        "conv": ids.parse_conversation_id,
        "msg": ids.parse_message_id,
        "mark": ids.parse_mark_id,
        "turn": ids.parse_turn_id,
    }
    for prefix, parse in parsers.items():
        for other in parsers:
            if other == prefix:
                assert parse(f"{other}_{GOOD}") == f"{other}_{GOOD}"
            else:
                with pytest.raises(IdMalformed):
                    parse(f"{other}_{GOOD}")
