"""Event streams: frames and their reading, split anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.api import sse
from safd.api.events import LiveEvent
from safd.api.sse import Parser, ServerEvent
from safd.model.errors import RequestMalformed, ValueNotAllowed


def split(raw: bytes, cuts: list[int]) -> list[ServerEvent]:
    parser = Parser(line_limit=10_000)
    found: list[ServerEvent] = []
    at = 0
    for cut in sorted(cut % (len(raw) + 1) for cut in cuts):
        found += parser.feed(raw[at:cut])
        at = cut
    return [*found, *parser.feed(raw[at:])]


@given(
    st.lists(
        st.tuples(st.sampled_from(["turn", "user_message"]), st.none() | st.integers(1, 10**12), st.text(max_size=20)),
        max_size=5,
    ),
    st.lists(st.integers(0, 1000), max_size=6),
)
def test_events_cross_in_any_pieces(events: list[tuple[str, int | None, str]], cuts: list[int]) -> None:
    """What is written is read, however it was cut; a line break in the data stays one, as LF."""
    raw = sse.HEARTBEAT.join(sse.render_event(LiveEvent(name, seq, data.encode())) for name, seq, data in events)
    last = ""
    expected: list[tuple[str, str, str]] = []
    for name, seq, data in events:
        last = last if seq is None else str(seq)
        expected.append((name, data.replace("\r\n", "\n").replace("\r", "\n"), last))
    assert [(event.name, event.data, event.id) for event in split(raw, cuts)] == expected


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("cut", range(60))
def test_each_kind_of_line_end(end: bytes, cut: int) -> None:
    """LF, CR and CRLF end a line, wherever the bytes are cut."""
    raw = end.join(
        [b"\xef\xbb\xbf: hello", b"event:a", b"data: 1", b"data:2", b"retry: 5", b"id: 9", b"", b"data", b"", b""]
    )
    assert split(raw, [cut]) == [ServerEvent("a", "1\n2", "9"), ServerEvent("message", "", "9")]


def test_what_is_no_event() -> None:
    """Without data there is no event, and an id with a NUL is none."""
    assert split(b"event: a\n\nid: 1\0\ndata: x\n\n", []) == [ServerEvent("message", "x", "")]


def test_a_line_has_a_limit() -> None:
    """A stream that never ends its line does not fill the reader's memory."""
    parser = Parser(line_limit=100)
    assert [parser.feed(b"data: xxxx") for _ in range(10)] == [()] * 10
    with pytest.raises(RequestMalformed):
        parser.feed(b"x")
    with pytest.raises(RequestMalformed):
        Parser(line_limit=100).feed(b"data: 1\n\n" + b"x" * 101)


def test_a_stream_is_utf8() -> None:
    """Other bytes are refused, not replaced."""
    with pytest.raises(RequestMalformed):
        Parser(line_limit=100).feed(b"data: \xff\n\n")


def test_an_error_ends_a_stream() -> None:
    """The last frame is an event named error."""
    (event,) = split(sse.render_error(b'{"code":"not_reader"}'), [])
    assert (event.name, event.data) == ("error", '{"code":"not_reader"}')


def test_the_cursor_is_a_seq() -> None:
    """Last-Event-ID is a seq and nothing else."""
    assert sse.parse_cursor("12") == 12
    for wrong in ("", "-1", "1.0", "x", "٣", "9" * 14, "1\n"):
        with pytest.raises(ValueNotAllowed):
            sse.parse_cursor(wrong)
