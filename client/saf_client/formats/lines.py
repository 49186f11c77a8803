"""A file's bytes as lines of JSON objects; what cannot be read is named by its byte offset and skipped.

A machine that lost its power leaves a hole of NUL bytes where a line was, and the next line begins right behind it.
No JSON text holds a NUL byte, so what stands before, between and behind holes is read by itself.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs

from saf_client.formats.transcript import BadLine
from safd.model import spans
from safd.model.errors import JsonInvalid, SafError, TextNotUtf8
from safd.model.spans import Span

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r"
_HOLE = re.compile(rb"\0{4,}")  # fewer are what UTF-16 text has, and no hole


@attrs.frozen(kw_only=True)
class Line:
    """A JSON object; `text` is the line without its end and the space around it, exactly."""

    offset: int
    span: Span
    members: dict[str, Span]

    @property
    def text(self) -> str:
        return str(self.span)


AnyLine: TypeAlias = Line | BadLine


def read_lines(content: bytes) -> Iterator[AnyLine]:
    """Blank lines are skipped; a byte order mark and the CR of a CRLF belong to no line."""
    offset = 0
    while offset < len(content):
        end = content.find(b"\n", offset)
        whole = end >= 0
        raw = content[offset:end] if whole else content[offset:]
        yield from _read_pieces(raw, offset, torn=not whole)
        offset = end + 1 if whole else len(content)


def _read_pieces(raw: bytes, offset: int, *, torn: bool) -> Iterator[AnyLine]:
    """One line, or what holes have left of it."""
    begin = 0
    for hole in _HOLE.finditer(raw):
        yield from _read_piece(raw[begin : hole.start()], offset + begin, torn=True)
        size = hole.end() - hole.start()
        yield BadLine(offset=offset + hole.start(), reason=f"{size} NUL bytes: the file was cut there and filled up")
        begin = hole.end()
    yield from _read_piece(raw[begin:], offset + begin, torn=torn)


def _read_piece(raw: bytes, offset: int, *, torn: bool) -> Iterator[AnyLine]:
    bare = raw.removeprefix(_BOM)
    if bare.strip(_SPACE):
        yield _read_line(bare.rstrip(b"\r"), offset, offset + len(raw) - len(bare), torn=torn)


def _read_line(raw: bytes, offset: int, begins: int, *, torn: bool) -> AnyLine:
    try:
        text = spans.decode_utf8(raw, "the line")
        span = spans.whole(text)
        if span.first != "{":
            return BadLine(offset=offset, reason=f"{spans.kind_of(span)} where an object is due")
        return Line(offset=offset, span=Span(text, span.start, span.end, ""), members=spans.members(span))
    except TextNotUtf8 as error:
        return BadLine(offset=offset, reason=f"not UTF-8 at byte {begins + error.offset}")
    except JsonInvalid as error:
        what = "torn: the line has no end" if torn else "not JSON"
        return BadLine(offset=offset, reason=f"{what} ({error.reason})")
    except SafError as error:
        return BadLine(offset=offset, reason=str(error))


def text_of(members: dict[str, Span], name: str) -> str | None:
    """A member that is a string and not empty, or None."""
    return string_of(members, name) or None


def string_of(members: dict[str, Span], name: str) -> str | None:
    """A member that is a string, or None."""
    span = members.get(name)
    return str(spans.value(span)) if span is not None and span.first == '"' else None


def is_true(members: dict[str, Span], name: str) -> bool:
    span = members.get(name)
    return span is not None and span.first == "t"
