"""HTTP/1.1 over bytes, without a socket: what came becomes a request of the method table, an answer becomes bytes.

h11 keeps the rules of RFC 9112. This room adds which path and verb name which method, what a request may not carry
(a browser's headers, another host, a body that is not JSON), and problem documents (RFC 9457).
"""

import re
from collections.abc import Iterable, Sequence
from enum import Enum, StrEnum
from http import HTTPStatus
from typing import TypeAlias, cast
from urllib.parse import unquote_to_bytes

import attrs
import h11

from safd.api import faults, sse
from safd.api.door import Given, Word
from safd.api.methods import METHODS, Method
from safd.model import codec, spans
from safd.model.errors import (
    BodyNotJson,
    BrowserRefused,
    BuffersFull,
    KeyDuplicate,
    MethodMissing,
    RequestMalformed,
    RequestTooLarge,
    SafError,
    VerbNotAllowed,
)
from safd.model.failures import StoreBusy
from safd.principal.facts import Sender
from safd.serve.intake import Trail

HEAD_BYTES = 64 * 1024
EVENTS = 256
"""Parts of one body that are taken in a turn: a body may come in chunks of one byte."""
JSON = b"application/json"
PROBLEM = b"application/problem+json"
TEXT = b"text/plain; charset=utf-8"
METRICS = b"text/plain; version=0.0.4; charset=utf-8"
GUARDING = [
    (b"Cache-Control", b"no-store"),
    (b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"X-Content-Type-Options", b"nosniff"),
]
"""On every answer: a record is in no cache, and is no page."""
PROBLEM_TYPE = "urn:safd:error:"
BROWSER_HEADERS = (b"origin", b"referer", b"sec-fetch-site")
CLAIM = b"x-saf-agent"
CURSOR = b"last-event-id"
_HOST = re.compile(rb"(?:[a-z_-][a-z0-9_-]{0,62}|127\.0\.0\.1|\[::1\])?(?::[0-9]{1,5})?\Z", re.IGNORECASE)
"""This machine, or a name without a dot, which is what people type behind --unix-socket: `localhost`, `safd`, `x`.

A page that has its own name point at a forwarded socket (DNS rebinding) needs a name that can be bought: with a dot.
"""
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_SHOWN = codec.SHOWN
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class Page(StrEnum):
    """Paths that are no method."""

    ROOT = "/"
    HEALTH = "/healthz"
    METRICS = "/metrics"
    DESCRIPTION = "/openapi.json"


class Wanted(Enum):
    """What the face waits for: more bytes, its next turn, or nothing more on this connection."""

    BYTES = "bytes"
    TURN = "turn"
    END = "end"


@attrs.frozen(kw_only=True)
class Asked:
    """A whole request. `body` is still bytes: it is parsed where there is time for it (`given`)."""

    target: Method | Page
    words: tuple[Word, ...]
    body: bytes
    claim: str | None
    cursor: str | None
    senders: frozenset[Sender]


@attrs.frozen
class Refused:
    """`allow`: what the path takes instead of the verb. Unless `whole`, the rest of the request is not awaited."""

    error: SafError
    whole: bool = True


@attrs.frozen
class GoOn:
    """The client waits for this (`100 Continue`) before it sends its body."""

    pieces: list[bytes]


Step: TypeAlias = Asked | Refused | GoOn | Wanted


def given(asked: Asked) -> Given:
    """The parameters of a request: path and query as words, the body as a checked span. Raises Malformed errors."""
    words = asked.words
    if asked.cursor is not None and isinstance(asked.target, Method) and asked.target.streams:
        seq = sse.parse_cursor(asked.cursor)
        words = (*(word for word in words if word.path != "after"), Word(str(seq), "after"))
    if not asked.body:
        return Given(None, words)
    return Given(spans.whole(spans.decode_utf8(asked.body, "")), words)


@attrs.define(eq=False)
class Face:
    """One connection's requests, one after the other, and its answers."""

    request_bytes: int
    _h11: h11.Connection = attrs.field(factory=lambda: h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES))
    _trail: Trail = attrs.field(factory=Trail)
    _received: int = 0
    _consumed: int = 0
    _asked: Asked | None = None
    _refused: SafError | None = None
    _body: list[bytes] = attrs.field(factory=list[bytes])
    _size: int = 0
    _head_only: bool = False

    @property
    def half(self) -> int:
        """Bytes of a request that is not complete; 0 between requests."""
        return self._received - self._consumed

    def receive(self, data: bytes, sender: Sender) -> None:
        self._received += len(data)
        self._trail.add(len(data), sender)
        self._h11.receive_data(data)

    def receive_end(self) -> None:
        self._h11.receive_data(b"")

    def next(self) -> Step:
        """The next step of the exchange; to be asked again after each, until bytes are wanted."""
        for _ in range(EVENTS):
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                return Refused(self._protocol_error(error), whole=False)
            if event is h11.NEED_DATA:
                if self._h11.they_are_waiting_for_100_continue:
                    return GoOn(self._sent(h11.InformationalResponse(status_code=100, headers=[])))
                return Wanted.BYTES
            step = self._step(cast("h11.Event | type[h11.PAUSED]", event))
            if step is not None:
                return step
        return Wanted.TURN

    def _step(self, event: "h11.Event | type[h11.PAUSED]") -> Step | None:
        match event:
            case h11.Request():
                return self._begun(event)
            case h11.Data():
                return self._more(event)
            case h11.EndOfMessage():
                return self._ended()
            case _:
                return Wanted.END

    def _begun(self, request: h11.Request) -> Step | None:
        self._asked, self._refused, self._body, self._size = None, None, [], 0
        self._head_only = request.method == b"HEAD"
        try:
            self._asked = _asked(request, self.request_bytes)
        except SafError as error:
            self._refused = error
            if _has_body(request):
                return Refused(error, whole=False)
        return None

    def _more(self, event: h11.Data) -> Step | None:
        self._size += len(event.data)
        if self._size > self.request_bytes:
            return Refused(RequestTooLarge(limit_bytes=self.request_bytes), whole=False)
        self._body.append(bytes(event.data))
        return None

    def _ended(self) -> Step:
        left, _ = self._h11.trailing_data
        senders = self._trail.consume(self._received - len(left) - self._consumed)
        self._consumed = self._received - len(left)
        asked, refused = self._asked, self._refused
        body = b"".join(self._body)
        self._asked, self._refused, self._body, self._size = None, None, [], 0
        if asked is None:
            return Refused(refused or RequestMalformed(reason="it has no beginning"))
        if body and isinstance(asked.target, Method) and asked.target.route and asked.target.route.verb == "GET":
            return Refused(RequestMalformed(reason="a GET carries no body; its parameters stand in the query"))
        return attrs.evolve(asked, body=body, senders=senders)

    def _protocol_error(self, error: h11.RemoteProtocolError) -> SafError:
        if error.error_status_hint == 431:  # noqa: PLR2004  a head that is too large
            return RequestTooLarge(limit_bytes=HEAD_BYTES)
        return RequestMalformed(reason=f"not HTTP/1.1 ({str(error).partition(': ')[0]})")

    # --- answers

    def answer(self, status: int, kind: bytes, body: Sequence[bytes], more: Headers = ()) -> list[bytes]:
        """A whole answer. To HEAD it says how long the body would be and holds none."""
        length = sum(map(len, body))
        headers = [(b"Content-Type", kind), (b"Content-Length", b"%d" % length), *GUARDING, *more]
        pieces = self._sent(h11.Response(status_code=status, headers=headers, reason=_REASONS[status]))
        if length and not self._head_only:
            # h11 counts what it is given and passes it on: it need not know that it is many pieces
            self._sent(h11.Data(data=cast(bytes, range(length))))
            pieces += body
        return pieces + self._sent(h11.EndOfMessage())

    def refuse(self, refused: Refused, more: Headers = ()) -> list[bytes]:
        """A problem document, with the headers that its cause asks for."""
        error = refused.error
        extra = list(more)
        match error:
            case VerbNotAllowed():
                extra.append((b"Allow", ", ".join(error.allowed).encode()))
            case StoreBusy() | BuffersFull():
                extra.append((b"Retry-After", b"%d" % error.retry_after_s))
            case _:
                pass
        if not refused.whole:
            extra.append((b"Connection", b"close"))
        return self.answer(faults.FAULTS[type(error)].status, PROBLEM, [problem(error)], extra)

    def begin_stream(self, more: Headers = ()) -> list[bytes]:
        """The head of an answer that has no end of its own."""
        headers = [(b"Content-Type", sse.CONTENT_TYPE), *GUARDING, *more]
        return self._sent(h11.Response(status_code=200, headers=headers, reason=_REASONS[200]))

    def stream(self, frame: bytes) -> bytes:
        """A part of such an answer: a chunk, or for HTTP/1.0 as it is."""
        return b"%x\r\n%b\r\n" % (len(frame), frame) if self._h11.their_http_version == b"1.1" else frame

    def end_stream(self) -> list[bytes]:
        return self._sent(h11.EndOfMessage())

    def start_next(self) -> bool:
        """After an answer: whether another request may follow on this connection."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            return True
        return False

    def _sent(self, event: "h11.Event") -> list[bytes]:
        return self._h11.send_with_data_passthrough(event) or []


def problem(error: SafError) -> bytes:
    """A problem document: the members of RFC 9457, the stable `code`, and what the cause carries."""
    fault = faults.FAULTS[type(error)]
    return codec.dump(
        {
            "type": PROBLEM_TYPE + error.code,
            "title": fault.title,
            "status": fault.status,
            **faults.detail_of(error),
        }
    )


# --- what a request names


@attrs.frozen
class _Place:
    """A path of the table: its segments, where `{name}` is a parameter, and what each verb does there."""

    segments: tuple[str, ...]
    verbs: dict[str, Method | Page]

    def words(self, segments: Sequence[str]) -> tuple[Word, ...] | None:
        """The parameters in a path of this form; None when it is of another."""
        if len(segments) != len(self.segments):
            return None
        found: list[Word] = []
        for ours, theirs in zip(self.segments, segments, strict=True):
            if ours.startswith("{"):
                found.append(Word(theirs, ours[1:-1]))
            elif ours != theirs:
                return None
        return tuple(found)


def _make_places() -> tuple[_Place, ...]:
    verbs: dict[str, dict[str, Method | Page]] = {}
    for method in METHODS:
        if method.route is not None:
            verbs.setdefault(method.route.path, {})[method.route.verb] = method
    for page in Page:
        verbs[page.value] = {"GET": page}
    return tuple(_Place(tuple(path.split("/")[1:]), found) for path, found in verbs.items())


_PLACES = _make_places()


def _asked(request: h11.Request, request_bytes: int) -> Asked:
    headers = dict(request.headers)
    _refuse_browsers(headers)
    _refuse_long_head(request)
    _refuse_ambiguity(request, headers)
    path, query = _split_target(bytes(request.target))
    target, words = _find(bytes(request.method).decode("ascii", "replace"), path)
    announced = headers.get(b"content-length", b"0")
    if int(announced) > request_bytes:
        raise RequestTooLarge(limit_bytes=request_bytes)
    if _has_body(request):
        _refuse_other_types(headers.get(b"content-type"))
    return Asked(
        target=target,
        words=words + _query_words(query),
        body=b"",
        claim=_header(headers, CLAIM),
        cursor=_header(headers, CURSOR),
        senders=frozenset(),
    )


def _has_body(request: h11.Request) -> bool:
    headers = dict(request.headers)
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""


def _refuse_browsers(headers: dict[bytes, bytes]) -> None:
    for name in BROWSER_HEADERS:
        if name in headers:
            raise BrowserRefused(header=name.decode().title(), seen=_shown(headers[name]))
    host = headers.get(b"host", b"")
    if _HOST.match(host) is None:
        raise BrowserRefused(header="Host", seen=_shown(host))


def _refuse_long_head(request: h11.Request) -> None:
    """What came in one read is not bounded by what h11 keeps of a head that is not complete."""
    size = len(request.method) + len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
    if size > HEAD_BYTES:
        raise RequestTooLarge(limit_bytes=HEAD_BYTES)


def _refuse_ambiguity(request: h11.Request, headers: dict[bytes, bytes]) -> None:
    """Two ways to find the end (RFC 9112, section 6.3), two agents, two cursors: whoever is right, it is not for us."""
    if b"content-length" in headers and b"transfer-encoding" in headers:
        raise RequestMalformed(reason="it has both Content-Length and Transfer-Encoding")
    for name in (CLAIM, CURSOR):
        if sum(found == name for found, _ in request.headers) > 1:
            raise RequestMalformed(reason=f"it has {name.decode().title()} twice")


def _refuse_other_types(content_type: bytes | None) -> None:
    kind, _, _ = (content_type or b"").partition(b";")
    if kind.strip().lower() != JSON:
        raise BodyNotJson(content_type=_shown(content_type or b""))


def _split_target(target: bytes) -> tuple[str, str]:
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        if _HOST.match(absolute[1]) is None:
            raise BrowserRefused(header="Host", seen=_shown(absolute[1]))
        target = target[absolute.end() :] or b"/"
    path, _, query = target.decode("ascii", "replace").partition("?")
    return path, query


def _find(verb: str, path: str) -> tuple[Method | Page, tuple[Word, ...]]:
    segments = [_unquoted(segment, "The path") for segment in path.split("/")[1:]]
    for place in _PLACES:
        words = place.words(segments)
        if words is None:
            continue
        found = place.verbs.get("GET" if verb == "HEAD" else verb)
        if found is None or (verb == "HEAD" and isinstance(found, Method) and found.streams):
            raise VerbNotAllowed(verb=verb[:_SHOWN], path=path[:_SHOWN], allowed=_allowed(place))
        return found, words
    raise MethodMissing(method=f"{verb[:_SHOWN]} {path[:_SHOWN]}")


def _allowed(place: _Place) -> tuple[str, ...]:
    got = place.verbs.get("GET")
    head = () if got is None or (isinstance(got, Method) and got.streams) else ("HEAD",)
    return (*place.verbs, *head)


def _query_words(query: str) -> tuple[Word, ...]:
    found: dict[str, Word] = {}
    for part in query.split("&"):
        if not part:
            continue
        name, _, text = part.replace("+", " ").partition("=")
        key = _unquoted(name, "The query")
        if key in found:
            raise KeyDuplicate(path="The query", key=key[:_SHOWN])
        found[key] = Word(_unquoted(text, key[:_SHOWN]), key)
    return tuple(found.values())


def _unquoted(text: str, path: str) -> str:
    return spans.decode_utf8(unquote_to_bytes(text), path)


def _header(headers: dict[bytes, bytes], name: bytes) -> str | None:
    found = headers.get(name)
    return None if found is None else spans.decode_utf8(found, name.decode().title())


def _shown(value: bytes) -> str:
    return value[:_SHOWN].decode("utf-8", "replace")
