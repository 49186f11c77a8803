"""Bytes to lines: what is whole is read, what is broken is named by its place, nothing stops at it."""

import pytest

from saf_client.formats.lines import AnyLine, Line, is_true, read_lines, string_of, text_of
from saf_client.formats.transcript import BadLine
from safd.model.spans import DEPTH_LIMIT


def read(content: bytes) -> list[AnyLine]:
    return list(read_lines(content))


def only(content: bytes) -> Line:
    (found,) = read(content)
    assert isinstance(found, Line), found
    return found


def bad(content: bytes) -> list[tuple[int, str]]:
    return [(one.offset, one.reason) for one in read(content) if isinstance(one, BadLine)]


def test_the_text_of_a_line_is_exact() -> None:
    """Numbers, escapes, inner space and order of keys stay; only the space around the object is not of it."""
    exact = r'{"n": 1.10 ,"big":12345678901234567890123, "s":"\u00e9\ud83c\udf3f é 🌿\u0000"}'
    assert only(f"  {exact}\t\n".encode()).text == exact


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n \n\t\r\n", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"])
def test_nothing_is_no_line(content: bytes) -> None:
    """Blank lines are neither lines nor faults."""
    assert read(content) == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"", b" \r\n", b"\t\n"])
def test_ends_belong_to_no_line(end: bytes) -> None:
    """LF, CRLF, no end at all: the same line."""
    assert only(b'{"a":1}' + end).text == '{"a":1}'


def test_a_byte_order_mark_belongs_to_no_line() -> None:
    """Neither at the start of the file nor where two files were put together."""
    found = read(b'\xef\xbb\xbf{"a":1}\r\n\xef\xbb\xbf{"a":2}\r\n')
    assert [one.text for one in found if isinstance(one, Line)] == ['{"a":1}', '{"a":2}']


def test_offsets_are_bytes() -> None:
    """A line is where it begins in the file, however many bytes a character takes."""
    content = '{"é":"🌿"}\n\n{"a":1}\nno\n'.encode()
    assert [one.offset for one in read(content)] == [0, content.index(b'{"a"'), content.index(b"no")]


def test_a_torn_last_line_is_told_from_a_wrong_one() -> None:
    """A copy that was made while the file was written ends in half a line; that is no damage."""
    assert bad(b'{"a":1}\n{"type":"us') == [(8, "torn: the line has no end (unterminated string starting at)")]
    assert bad(b'{"type":"us\n{"a":1}\n') == [(0, "not JSON (unterminated string starting at)")]


def test_a_whole_last_line_without_its_end_is_read() -> None:
    """Whether the line feed was written yet makes no difference."""
    assert [one.offset for one in read(b'{"a":1}\n{"b":2}')] == [0, 8]
    assert bad(b'{"a":1}\n{"b":2}') == []


def test_a_hole_is_named_and_hides_nothing() -> None:
    """NUL bytes of a cut file: what stands before and behind them is read."""
    hole = b"\0" * 5
    content = b'{"a":1}\n' + hole + b'{"b":2}\n{"c":3}' + hole + b'{"d":4}\n' + b'{"torn":"' + hole + b"\n"
    assert [one.text for one in read(content) if isinstance(one, Line)] == ['{"a":1}', '{"b":2}', '{"c":3}', '{"d":4}']
    holes = [(at, why.partition(":")[0]) for at, why in bad(content)]
    assert holes == [(8, "5 NUL bytes"), (28, "5 NUL bytes"), (41, "torn"), (50, "5 NUL bytes")]


def test_single_nul_bytes_are_no_hole() -> None:
    """Text of two bytes a character is one line that cannot be read, not a hundred."""
    assert len(bad('{"a":"hello"}'.encode("utf-16-le") + b"\n")) == 1


def test_a_file_of_nul_bytes_is_one_hole() -> None:
    """Megabytes of nothing are one thing to say."""
    assert bad(b"\0" * 1_000_000) == [(0, "1000000 NUL bytes: the file was cut there and filled up")]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"[1]", "a list where an object is due"),
        (b'"text"', "a string where an object is due"),
        (b"7", "a number where an object is due"),
        (b"null", "null where an object is due"),
        (b"true", "a boolean where an object is due"),
        (b"{}{}", "not JSON (something follows the value)"),
        (b'{"a":1}]', "not JSON (something follows the value)"),
        (b"{'a':1}", "not JSON (expected a key in double quotes)"),
        (b'{"a":NaN}', "a is NaN, which JSON cannot carry"),
        (b'{"a":1e999}', "a is 1e999, which JSON cannot carry"),
        (b'{"a":1,"a":2}', "The object has the key 'a' twice"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", f"nests deeper than {DEPTH_LIMIT} levels"),
        (b"[" * 100_000, f"nests deeper than {DEPTH_LIMIT} levels"),
        (b'{"a":"\xff"}', "not UTF-8 at byte 9"),
        (b'\xef\xbb\xbf{"a":"\xff"}', "not UTF-8 at byte 12"),
        ('{"a":"é'.encode()[:-1] + b'"}', "not UTF-8 at byte 9"),
    ],
)
def test_what_is_no_object_is_named(raw: bytes, reason: str) -> None:
    """Each fault has its reason and its place; the lines around it are read."""
    before, fault, after = read(b"{}\n" + raw + b"\n{}\n")
    assert isinstance(before, Line)
    assert isinstance(after, Line)
    assert isinstance(fault, BadLine)
    assert fault.offset == 3
    assert reason in fault.reason


def test_a_huge_line_is_a_line() -> None:
    """Thirty megabytes in one line are read like any other."""
    text = '{"a":"' + "x" * 30_000_000 + '"}'
    assert only(text.encode() + b"\n").text == text


def test_half_a_surrogate_pair_survives() -> None:
    """An escape that stands for half a character is kept as the escape that it is."""
    found = only(rb'{"a":"\ud83c"}')
    assert found.text == r'{"a":"\ud83c"}'
    assert text_of(found.members, "a") == "\ud83c"


def test_members_of_a_wrong_type_are_none() -> None:
    """A member is read as what was asked for, or not at all."""
    members = only(b'{"n":1,"e":"","t":true,"f":false,"s":"true","z":null,"l":["x"]}').members
    assert [text_of(members, name) for name in ("n", "e", "t", "z", "l", "missing")] == [None] * 6
    assert [string_of(members, name) for name in ("e", "s", "n")] == ["", "true", None]
    assert [is_true(members, name) for name in ("t", "f", "s", "n", "missing")] == [True, False, False, False, False]
