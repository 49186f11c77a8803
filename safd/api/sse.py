"""Server-sent events, both ends: events to frames, and bytes of any size back to events.

Follows the event stream format of the HTML standard: lines end in LF, CR or CRLF; `data` lines are joined by LF;
a line that begins with a colon is a comment; an event without data is none; an `id` holds on for the events after it.
"""

import re

import attrs

from safd.api.events import LiveEvent
from safd.model.errors import RequestMalformed, ValueNotAllowed

HEARTBEAT = b":\n\n"
ERROR = "error"
CONTENT_TYPE = b"text/event-stream"

_LINE_END = re.compile(rb"\r\n|\r|\n")
_CURSOR = re.compile(r"[0-9]{1,13}\Z")


def render_event(event: LiveEvent) -> bytes:
    """One frame. A line break between two tokens of the data begins a further `data` line."""
    seq = b"" if event.seq is None else b"id: %d\n" % event.seq
    return b"%bevent: %b\ndata: %b\n\n" % (seq, event.name.encode(), _data(event.data))


def render_error(problem: bytes) -> bytes:
    """The last frame of a stream that the daemon ends; its data is a problem document."""
    return b"event: error\ndata: %b\n\n" % _data(problem)


def _data(body: bytes) -> bytes:
    if b"\n" not in body and b"\r" not in body:
        return body
    return b"\ndata: ".join(_LINE_END.split(body))


def parse_cursor(header: str) -> int:
    """The seq in `Last-Event-ID`, from which a stream is resumed."""
    if _CURSOR.match(header) is None:
        raise ValueNotAllowed(path="Last-Event-ID", expected="the id of an event, a seq", seen=repr(header[:80]))
    return int(header)


@attrs.frozen
class ServerEvent:
    """As it was received. `id` is the last one seen on the stream, "" before any."""

    name: str
    data: str
    id: str


@attrs.define
class Parser:
    """The reading end. Raises RequestMalformed when one line is longer than `line_limit` bytes or not UTF-8."""

    line_limit: int
    _rest: bytearray = attrs.field(factory=bytearray)
    _name: str = ""
    _data: list[str] = attrs.field(factory=list[str])
    _id: str = ""
    _first: bool = True
    _skip_feed: bool = False

    def feed(self, received: bytes) -> tuple[ServerEvent, ...]:
        """The events that are complete now."""
        if self._skip_feed and received:
            received = received[1:] if received.startswith(b"\n") else received
            self._skip_feed = False
        self._rest += received
        if _LINE_END.search(received) is None:
            return self._none_yet(self._rest)
        *lines, rest = _LINE_END.split(bytes(self._rest))
        if not rest and self._rest.endswith(b"\r"):
            self._skip_feed = True  # its LF may still come, and is no second line
        self._rest[:] = rest
        self._none_yet(rest)
        found = [self._line(line) for line in lines]
        return tuple(event for event in found if event is not None)

    def _none_yet(self, unfinished: bytes | bytearray) -> tuple[ServerEvent, ...]:
        if len(unfinished) > self.line_limit:
            raise RequestMalformed(reason=f"a line of an event stream is longer than {self.line_limit} bytes")
        return ()

    def _line(self, raw: bytes) -> ServerEvent | None:
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RequestMalformed(reason=f"an event stream is not UTF-8 at byte {error.start} of a line") from None
        if self._first:
            line = line.removeprefix("\ufeff")
            self._first = False
        if not line:
            return self._event()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
            case "event":
                self._name = value
            case "id" if "\0" not in value:
                self._id = value
            case _:
                pass
        return None

    def _event(self) -> ServerEvent | None:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return ServerEvent(name or "message", "\n".join(data), self._id) if data else None
