"""A file's bytes as lines of JSON objects; what cannot be read is named by its byte offset and skipped."""

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from saf_client.formats.transcript import BadLine
from safd.model import spans
from safd.model.errors import JsonInvalid, SafError, TextNotUtf8
from safd.model.spans import Span

_BOM = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True)
class Line:
    """A JSON object; `text` is the line without its end and the space around it, exactly."""

    number: int
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
    number = 0
    while offset < len(content):
        end = content.find(b"\n", offset)
        whole = end >= 0
        raw = content[offset:end] if whole else content[offset:]
        number += 1
        begins = offset
        offset = end + 1 if whole else len(content)
        bare = raw.removeprefix(_BOM).rstrip(b"\r")
        if bare.strip(b" \t\r"):
            yield _read_line(bare, number, begins, torn=not whole)


def _read_line(raw: bytes, number: int, offset: int, *, torn: bool) -> AnyLine:
    if not raw.strip(b"\0"):
        return BadLine(offset=offset, reason=f"{len(raw)} NUL bytes: the file was cut and filled up")
    try:
        text = spans.decode_utf8(raw, "the line")
        span = spans.whole(text)
        if span.first != "{":
            return BadLine(offset=offset, reason=f"{spans.kind_of(span)} where an object is due")
        return Line(
            number=number,
            offset=offset,
            span=Span(text, span.start, span.end, ""),
            members=spans.members_in_place(span),
        )
    except TextNotUtf8 as error:
        return BadLine(offset=offset, reason=f"not UTF-8 at byte {offset + error.offset}")
    except JsonInvalid as error:
        what = "torn: the file ends in the middle of the line" if torn else "not JSON"
        return BadLine(offset=offset, reason=f"{what} ({error.reason})")
    except SafError as error:
        return BadLine(offset=offset, reason=str(error))


def text_of(members: dict[str, Span], name: str) -> str | None:
    """A member that is a string and not empty, or None."""
    span = members.get(name)
    if span is None or span.first != '"':
        return None
    found = spans.value(span)
    return found if isinstance(found, str) and found else None


def is_true(members: dict[str, Span], name: str) -> bool:
    span = members.get(name)
    return span is not None and span.first == "t"
