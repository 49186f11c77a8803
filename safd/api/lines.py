"""JSON-RPC 2.0, one object a line, for both ends: bytes to a request, an answer or a refusal, and back.

Strict: `jsonrpc` must be "2.0", `params` an object, no member stands twice or is unknown. Batches (arrays) are
refused: requests on one connection are answered in order, so that sending several lines at once does the same.
A line is everything up to a line feed; empty ones are nobody's business. The framing knows no method.
"""

import json
import re
from collections.abc import Iterator, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TypeAlias, cast

import attrs

from safd.api import faults
from safd.api.blocks import blocks
from safd.api.events import LiveEvent
from safd.model import codec, spans
from safd.model.errors import FieldType, JsonInvalid, KeyDuplicate, RequestMalformed, SafError
from safd.model.spans import Span

ID_LIMIT = 256
"""Characters of a request's id, which is echoed as it came."""
NO_ID = "null"
SPACE = b" \t\r\n"

_REQUEST = ("jsonrpc", "id", "method", "params")
_ANSWER = ("jsonrpc", "id", "result", "error")
_BLANK = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(
    r'\{ ?"jsonrpc": ?"2\.0", ?"id": ?(?P<id>[0-9]{1,15}|"[\w.:-]{1,64}"), ?"method": ?"(?P<method>[a-z_.]{1,64})"'
    r'(?:, ?"params": ?(?=\{)|\}(?P<end>[ \t\r\n]*\Z))'
)
"""How nearly every request begins; whatever does not is read member by member."""


@attrs.frozen
class Request:
    """`id` is its exact JSON text; None is a notification, which gets no answer. `params` None: none were given."""

    id: str | None
    method: str
    params: Span | None


@attrs.frozen
class Answer:
    """Exactly one of `result` and `error` is there."""

    id: str
    result: Span | None
    error: Span | None


@attrs.frozen
class Bad:
    """What is no message. `id` is that of the request where it could be read."""

    error: SafError
    id: str = NO_ID


Line: TypeAlias = Request | Answer | Bad


def parse(raw: bytes) -> Line:
    """One line, without or with its line feed; it holds more than space."""
    try:
        text = spans.decode_utf8(raw, "")
        return _plain_request(text) or _parsed(text)
    except SafError as error:
        return Bad(error)


def _plain_request(text: str) -> Request | Bad | None:
    """The usual form, found without looking at anything twice; None where it is another."""
    found = _PLAIN.match(text)
    if found is None:
        return None
    if found["end"] is not None:
        return Request(found["id"], found["method"], None)
    try:
        end = spans.check(text, found.end(), "")
    except SafError as error:
        return Bad(error, found["id"])
    if text[end : end + 1] != "}" or _blank(text, end + 1) != len(text):
        return None
    return Request(found["id"], found["method"], Span(text, found.end(), end, ""))


def _parsed(text: str) -> Line:
    at = _blank(text, 0)
    if text[at : at + 1] == "[":
        raise RequestMalformed(reason="a batch; send its requests as lines of their own, they are answered in order")
    members = _members(text, at)
    id_ = members.get("id")
    known = NO_ID if id_ is None else _id(id_)
    try:
        return _message(members, None if id_ is None else known)
    except SafError as error:
        return Bad(error, known)


def _message(members: dict[str, Span], id_: str | None) -> Request | Answer:
    version = members.get("jsonrpc")
    if version is None or spans.value(version) != "2.0":
        raise RequestMalformed(reason='"jsonrpc" is not "2.0"')
    if "method" not in members and ("result" in members or "error" in members):
        return _answer(members, id_)
    _only(members, _REQUEST)
    method = members.get("method")
    if method is None or method.first != '"':
        raise RequestMalformed(reason='"method" is not there as a string')
    params = members.get("params")
    if params is not None and params.first != "{":
        raise FieldType(path="params", expected="an object", seen=spans.kind_of(params))
    return Request(id_, cast(str, spans.value(method)), params)


def _answer(members: dict[str, Span], id_: str | None) -> Answer:
    _only(members, _ANSWER)
    if id_ is None or ("result" in members) is ("error" in members):
        raise RequestMalformed(reason="an answer has an id, and either a result or an error")
    return Answer(id_, members.get("result"), members.get("error"))


def _only(members: dict[str, Span], allowed: tuple[str, ...]) -> None:
    for name in members:
        if name not in allowed:
            raise RequestMalformed(reason=f"it has a member {name[: codec.SHOWN]!r} beside {', '.join(allowed)}")


def _id(span: Span) -> str:
    if span.first in "{[tf":
        raise RequestMalformed(reason="its id is neither a string nor a number nor null")
    text = str(span)
    if len(text) > ID_LIMIT:
        raise RequestMalformed(reason=f"its id is longer than {ID_LIMIT} characters")
    return text


def _members(text: str, at: int) -> dict[str, Span]:
    """The members of the one object that the line is, each checked to its leaves once.

    The path of a parameter does not begin with `params`: it names the parameter, as it does over HTTP.
    """
    found: dict[str, Span] = {}
    at = _expect(text, at, "{")
    while True:
        if text[at : at + 1] == "}" and not found:
            break
        if text[at : at + 1] != '"':
            raise JsonInvalid(path="", reason="expected a key in double quotes", offset=at)
        key, at = _key(text, at)
        if key in found:
            raise KeyDuplicate(path="", key=key[: codec.SHOWN])
        start = _expect(text, _blank(text, at), ":")
        path = "" if key == "params" else key[: codec.SHOWN]
        end = spans.check(text, start, path)
        found[key] = Span(text, start, end, path)
        at = _blank(text, end)
        if text[at : at + 1] == "}":
            break
        at = _expect(text, at, ",")
    if _blank(text, at + 1) != len(text):
        raise JsonInvalid(path="", reason="something follows the object", offset=at + 1)
    return found


def _key(text: str, at: int) -> tuple[str, int]:
    try:
        return cast("tuple[str, int]", scanstring(text, at + 1, True))
    except json.JSONDecodeError as error:
        raise JsonInvalid(path="", reason=error.msg.lower(), offset=error.pos) from None


def _expect(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise JsonInvalid(path="", reason=f"expected {character!r}", offset=at)
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


# --- back to bytes


def render_request(id_: str | None, method: str, params: bytes) -> bytes:
    """`id_` is JSON text; None makes a notification."""
    if id_ is None:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (codec.dump(method), params)
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n' % (id_.encode(), codec.dump(method), params)


def render_answer(id_: str, result: Sequence[bytes]) -> bytes:
    """The answer's line, around a result in a few pieces."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id_.encode(), _one_line(b"".join(result)))


def render_large_answer(id_: str, result: Sequence[bytes]) -> Iterator[bytes]:
    """The same line in blocks, each made when it is asked for; the pieces must not change until then."""
    yield b'{"jsonrpc":"2.0","id":%b,"result":' % id_.encode()
    yield from map(_one_line, blocks(result))
    yield b"}\n"


def render_error(id_: str, error: SafError) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (id_.encode(), error_object(error))


def render_event(subscription: str, event: LiveEvent) -> bytes:
    """A live event; `id` is there where it is durable, and is its seq."""
    seq = b"" if event.seq is None else b'"id":%d,' % event.seq
    return b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"%b","event":"%b",%b"data":%b}}\n' % (
        subscription.encode(),
        event.name.encode(),
        seq,
        _one_line(event.data),
    )


def render_end(subscription: str, error: SafError) -> bytes:
    """The last word on a subscription that the daemon ends."""
    return b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"%b","error":%b}}\n' % (
        subscription.encode(),
        error_object(error),
    )


def error_object(error: SafError) -> bytes:
    """`{code, message, data}` of JSON-RPC; `data` holds the stable code, the sentence and the cause's fields."""
    fault = faults.FAULTS[type(error)]
    return codec.dump({"code": fault.number, "message": fault.title, "data": faults.detail_of(error)})


def _one_line(piece: bytes) -> bytes:
    # inside a JSON string a line feed is always escaped: a bare one stands between tokens, where a space means the same
    return piece.replace(b"\n", b" ") if b"\n" in piece else piece
