"""JSON-RPC lines: what a line is, for both ends, and that nothing but typed refusals comes of bad bytes."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safd.api import lines
from safd.api.events import LiveEvent
from safd.api.lines import Answer, Bad, Request
from safd.model import errors, failures

PLAIN = b'{"jsonrpc":"2.0","id":7,"method":"principal.observe","params":{"agent":"a"}}'


def shown(found: object) -> object:
    """A request as its three parts, whichever way it was read."""
    assert isinstance(found, Request)
    return found.id, found.method, None if found.params is None else str(found.params)


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN,
        PLAIN + b"\r",
        b"  " + PLAIN + b"  ",
        b'{"params":{"agent":"a"},"method":"principal.observe","jsonrpc":"2.0","id":7}',
        b'{ "jsonrpc" : "2.0", "id" : 7, "method" : "principal.observe", "params" : {"agent":"a"} }',
        b'{"jsonrpc":"2.0","id":7,"method":"principal\\u002eobserve","params":{"agent":"a"}}',
    ],
)
def test_a_request_in_any_spelling(raw: bytes) -> None:
    """Order, space and escapes do not change what a request is."""
    assert shown(lines.parse(raw)) == ("7", "principal.observe", '{"agent":"a"}')


@pytest.mark.parametrize("id_", ["7", "-1", "1.10", '"x"', '"\\u0041"', "null", "12345678901234567890123", '"a b"'])
def test_the_id_is_echoed_exactly(id_: str) -> None:
    """An id is text to us: it returns as it was spelled, in answers and refusals."""
    request = lines.parse(b'{"jsonrpc":"2.0","id":%b,"method":"x","params":{}}' % id_.encode())
    assert isinstance(request, Request)
    assert request.id == id_
    assert f'"id":{id_},'.encode() in lines.render_answer(id_, [b"{}"])
    bad = lines.parse(b'{"jsonrpc":"2.0","id":%b,"method":4}' % id_.encode())
    assert isinstance(bad, Bad)
    assert bad.id == id_


def test_a_notification_has_no_id() -> None:
    """Without an id there is nothing to answer; null is an id."""
    assert shown(lines.parse(b'{"jsonrpc":"2.0","method":"x"}')) == (None, "x", None)


@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        (b"[]", errors.RequestMalformed),
        (b"[" + PLAIN + b"]", errors.RequestMalformed),
        (b"{}", errors.RequestMalformed),
        (b"7", errors.JsonInvalid),
        (b'{"jsonrpc":"1.0","id":1,"method":"x"}', errors.RequestMalformed),
        (b'{"id":1,"method":"x"}', errors.RequestMalformed),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', errors.RequestMalformed),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', errors.RequestMalformed),
        (b'{"jsonrpc":"2.0","id":"%b","method":"x"}' % (b"i" * 300), errors.RequestMalformed),
        (b'{"jsonrpc":"2.0","id":1}', errors.RequestMalformed),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[]}', errors.FieldType),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":null}', errors.FieldType),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","more":1}', errors.RequestMalformed),
        (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"x"}', errors.KeyDuplicate),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}', errors.KeyDuplicate),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}', errors.NumberNotFinite),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1e999}}', errors.NumberNotFinite),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%b}}' % (b"[" * 500 + b"]" * 500), errors.NestingTooDeep),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%b' % (b"[" * 100_000), errors.NestingTooDeep),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a"}}', errors.JsonInvalid),
        (PLAIN + b"}", errors.JsonInvalid),
        (PLAIN + PLAIN, errors.JsonInvalid),
        (PLAIN[:-1], errors.JsonInvalid),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', errors.TextNotUtf8),
        (b"{" + b'"a":1,' * 3 + b"}", errors.KeyDuplicate),
        (b'{"a":1,}', errors.JsonInvalid),
        (b'{"\x01":1}', errors.JsonInvalid),
    ],
)
def test_what_is_no_request(raw: bytes, cause: type[errors.SafError]) -> None:
    """Each kind of bad line has its own cause; a batch is told what to do instead."""
    found = lines.parse(raw)
    assert isinstance(found, Bad)
    assert type(found.error) is cause


def test_paths_begin_at_the_parameter() -> None:
    """A value at fault is named as over HTTP, whichever way the line was read; the id is known where it was read."""
    for raw in (
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"messages":[{},{"a":NaN}]}}',
        b'{ "jsonrpc":"2.0","id":1,"method":"x","params":{"messages":[{},{"a":NaN}]}}',
    ):
        found = lines.parse(raw)
        assert isinstance(found, Bad)
        assert getattr(found.error, "path", None) == "messages[1].a"


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
@example(b"\xef\xbb\xbf{}")
@example(b"")
def test_any_bytes_make_a_line(raw: bytes) -> None:
    """Whatever bytes come, they are a request, an answer or a typed refusal; nothing is raised."""
    assert isinstance(lines.parse(raw), Request | Answer | Bad)


@given(st.data())
def test_a_damaged_request_is_a_refusal_or_another_request(data: st.DataObject) -> None:
    """One byte changed, cut or added anywhere never raises."""
    at = data.draw(st.integers(0, len(PLAIN) - 1))
    inserted = data.draw(st.binary(max_size=2))
    cut = data.draw(st.integers(0, 3))
    found = lines.parse(PLAIN[:at] + inserted + PLAIN[at + cut :])
    assert isinstance(found, Request | Answer | Bad)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.integers(0, 10**15 - 1) | st.text(max_size=20),
    st.text(min_size=1, max_size=20),
    st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    st.booleans(),
)
def test_requests_cross(id_: int | str, method: str, params: dict[str, object], compact: bool) -> None:
    """What one end writes as a request the other end reads as the same."""
    text = json.dumps(params, separators=(",", ":") if compact else None)
    written = lines.render_request(json.dumps(id_), method, text.encode())
    assert written.endswith(b"\n")
    assert b"\n" not in written[:-1]
    found = lines.parse(written)
    assert shown(found) == (json.dumps(id_), method, text)


@given(st.lists(JSON.map(lambda value: json.dumps(value, indent=1).encode()), max_size=3), st.booleans())
def test_answers_cross_on_one_line(parts: list[bytes], joined: bool) -> None:
    """However a stored text was broken into lines, its answer is one line with the same value."""
    pieces = [b"[", b",".join(parts), b"]"]
    if joined:
        pieces = [b"".join(pieces)]
    written = lines.render_answer("1", pieces)
    assert written == b"".join(lines.render_large_answer("1", pieces))
    assert written.count(b"\n") == 1
    found = lines.parse(written)
    assert isinstance(found, Answer)
    assert json.loads(str(found.result)) == [json.loads(part) for part in parts]


def test_errors_cross() -> None:
    """An error carries number, title, stable code, sentence, and what the cause knows."""
    written = lines.render_error('"a"', errors.SeqConflict(expected_seq=3, head_seq=5))
    found = lines.parse(written)
    assert isinstance(found, Answer)
    assert found.id == '"a"'
    error = json.loads(str(found.error))
    assert error["code"] == -32015
    assert error["data"]["code"] == "seq_conflict"
    assert (error["data"]["expected_seq"], error["data"]["head_seq"]) == (3, 5)
    assert "5" in error["data"]["detail"]


def test_events_are_notifications() -> None:
    """A durable event carries its seq as id, a passing one none; the end of a subscription carries the error."""
    durable = json.loads(lines.render_event("sub_1", LiveEvent("user_message", 4, b'{"a":\n1.10}')))
    assert durable == {
        "jsonrpc": "2.0",
        "method": "event",
        "params": {"subscription": "sub_1", "event": "user_message", "id": 4, "data": {"a": 1.1}},
    }
    assert "id" not in json.loads(lines.render_event("sub_1", LiveEvent("turn", None, b"{}")))["params"]
    ended = json.loads(lines.render_end("sub_1", failures.Internal()))
    assert ended["params"]["error"]["data"]["code"] == "internal"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}',
        b'{"jsonrpc":"2.0","result":1}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"more":1}',
    ],
)
def test_what_is_no_answer(raw: bytes) -> None:
    """An answer has an id and one outcome."""
    assert isinstance(lines.parse(raw), Bad)
