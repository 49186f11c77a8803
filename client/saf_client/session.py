"""One client's conversation with the daemon, without a socket: bytes in, outcomes out.

Here alone is decided what is sent when, which answer belongs to which call, and what may be asked again after a
connection broke. The shells (`aio`, `sync`) move bytes, wait, and know no rule. Framing: JSON-RPC 2.0, one object
a line.
"""

import json
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar, assert_never

import attrs
import msgspec

from saf_client import wire
from saf_client.errors import AnswerMalformed, ConnectionLost, SafdError, from_fault
from safd.api import lines
from safd.model.spans import Span

T_co = TypeVar("T_co", covariant=True)

ANSWER_BYTES = 1024 * 1024 * 1024
"""The longest line that is taken from the daemon; a page of messages is one line."""
AGAIN_LIMIT = 5
RECONNECT_LIMIT = 8
_BACKOFF_FIRST_S = 0.05
_BACKOFF_LAST_S = 2.0

NOTHING_WAS_DONE = frozenset({"store_busy", "stopping", "buffers_full"})
"""Codes that promise that nothing of the request was done: any method may be asked again after a pause."""


class Repeat(StrEnum):
    """What asking twice does: nothing more (SAFE), nothing more because of its key (KEYED), perhaps harm (UNSURE)."""

    SAFE = "safe"
    KEYED = "keyed"
    UNSURE = "unsure"


REPEAT: dict[str, Repeat] = {
    "session.hello": Repeat.SAFE,
    "conversation.create": Repeat.KEYED,
    "conversation.list": Repeat.SAFE,
    "conversation.get": Repeat.SAFE,
    "conversation.archive": Repeat.SAFE,  # says a state, not a step
    "conversation.append": Repeat.KEYED,
    "conversation.messages": Repeat.SAFE,
    "conversation.attach": Repeat.SAFE,
    "conversation.detach": Repeat.SAFE,
    "conversation.replay": Repeat.SAFE,
    "conversation.microcompact": Repeat.UNSURE,  # the second time clears nothing and answers no mark
    "conversation.compact": Repeat.UNSURE,  # two marks
    "turn.open": Repeat.UNSURE,  # the second time is refused: one is open
    "turn.wait": Repeat.UNSURE,  # a move that was made is refused when made again
    "turn.close": Repeat.UNSURE,
    "principal.observe": Repeat.SAFE,
    "node.principals": Repeat.SAFE,
    "node.drift": Repeat.SAFE,
    "node.status": Repeat.SAFE,
    "rpc.discover": Repeat.SAFE,
}

_ADVICE = {
    "conversation.microcompact": "Replay the conversation to see what is cleared before you ask again.",
    "conversation.compact": "Replay the conversation to see whether the summary stands before you ask again.",
    "turn.open": "Get the conversation: its turn says whether one was opened.",
    "turn.wait": "Get the conversation: its turn says what state it is in.",
    "turn.close": "Get the conversation: its turn says whether it was closed.",
}


def mint_key(random: bytes) -> str:
    """An idempotency key for a call that was given none, so that asking again after a loss does it once."""
    return f"saf-client:{random.hex()}"


def backoff_s(attempt: int, jitter: float) -> float:
    """Doubling pauses with an upper bound; `jitter` from 0 to 1 keeps many clients from coming back at once."""
    full: float = min(_BACKOFF_LAST_S, _BACKOFF_FIRST_S * 2 ** min(attempt, 16))
    return full * (0.5 + 0.5 * jitter)


@attrs.define
class Patience:
    """How long to go on connecting: some ten seconds without one answer, which covers a daemon's restart."""

    _broken: int = 0

    def broke(self) -> None:
        self._broken += 1

    def answered(self) -> None:
        self._broken = 0

    def pause_s(self, jitter: float) -> float | None:
        """Seconds before the next connection, the first at once; None: enough, and the count begins anew."""
        if self._broken > RECONNECT_LIMIT:
            self._broken = 0
            return None
        return 0.0 if self._broken <= 1 else backoff_s(self._broken - 1, jitter)


@attrs.define
class Cursor:
    """How far a follower has read. A durable event that a new connection gives again is known by its seq."""

    after: int | None

    def is_new(self, event: "Notified") -> bool:
        if event.seq is None:
            return True
        if self.after is not None and event.seq <= self.after:
            return False
        self.after = event.seq
        return True


@attrs.frozen(kw_only=True)
class Call(Generic[T_co]):
    """One method to ask: its parameters as JSON, and how its answer is read."""

    method: str
    params: bytes
    read: Callable[[bytes], T_co]


@attrs.frozen
class Answered:
    id: int
    result: bytes


@attrs.frozen
class Failed:
    id: int
    error: SafdError


@attrs.frozen
class Later:
    """Nothing was done; ask again (`Session.again`) after the pause."""

    id: int
    after_s: float


@attrs.frozen
class Notified:
    """A live event of a subscription. `seq` is None for what is not durable."""

    subscription: str
    name: str
    seq: int | None
    data: bytes


@attrs.frozen
class Ended:
    """The daemon ended a subscription, and why."""

    subscription: str
    error: SafdError


Outcome: TypeAlias = Answered | Failed | Later | Notified | Ended


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()


@attrs.define
class _Pending:
    call: Call[object]
    handed: bool = False
    """Its bytes may have reached the daemon."""
    tries: int = 0


@attrs.define
class Session:
    """`greeting`, where given, is asked first on each new connection; nothing else is sent before its answer."""

    greeting: Call[object] | None = None
    _next: int = 1
    _pending: dict[int, _Pending] = attrs.field(factory=dict[int, _Pending])
    _queue: deque[int] = attrs.field(factory=deque[int])
    _connected: bool = False
    _greeting_id: int | None = None
    _received: bytearray = attrs.field(factory=bytearray)
    _searched: int = 0
    _greeted: bool = False
    patience: Patience = attrs.field(factory=Patience)

    @property
    def waiting(self) -> bool:
        """Whether any call is unanswered."""
        return bool(self._pending)

    def submit(self, call: Call[object]) -> int:
        """Take a call in; its bytes leave with the next `take_outgoing`."""
        id_ = self._next
        self._next += 1
        self._pending[id_] = _Pending(call)
        self._queue.append(id_)
        return id_

    def again(self, id_: int) -> None:
        """Ask once more, after `Later`; nothing where a new connection has asked already."""
        pending = self._pending.get(id_)
        if pending is not None and not pending.handed and id_ not in self._queue:
            self._queue.append(id_)

    def withdraw(self, id_: int) -> None:
        """Nobody waits for this call any more; an answer that comes is dropped."""
        self._pending.pop(id_, None)
        if id_ in self._queue:
            self._queue.remove(id_)

    def connected(self) -> None:
        """A new connection stands."""
        self._connected = True
        self._greeted = False
        self._received.clear()
        self._searched = 0
        if self.greeting is not None:
            self._greeting_id = self._next
            self._next += 1

    def take_outgoing(self) -> bytes:
        """Bytes to send now; empty when there are none or the greeting is not answered yet."""
        if not self._connected:
            return b""
        if self._greeting_id is not None:
            if self._greeted or self.greeting is None:
                return b""
            self._greeted = True
            return _line(self._greeting_id, self.greeting)
        sending: list[bytes] = []
        while self._queue:
            id_ = self._queue.popleft()
            pending = self._pending[id_]
            pending.handed = True
            sending.append(_line(id_, pending.call))
        return b"".join(sending)

    def receive(self, data: bytes) -> tuple[Outcome, ...]:
        """Bytes from the daemon. Raises AnswerMalformed, after which the connection is of no use."""
        self._received += data
        outcomes: list[Outcome] = []
        while (end := self._received.find(b"\n", self._searched)) >= 0:
            line = bytes(memoryview(self._received)[:end])
            del self._received[: end + 1]
            self._searched = 0
            if line.strip():
                outcomes.extend(self._line_received(line))
        self._searched = len(self._received)
        if self._searched > ANSWER_BYTES:
            raise AnswerMalformed(f"a line is longer than {ANSWER_BYTES} bytes")
        return tuple(outcomes)

    def lost(self, reason: str) -> tuple[Failed, ...]:
        """The connection broke. What may be asked again is queued, in order; the rest fails."""
        self._connected = False
        self._greeting_id = None
        self.patience.broke()
        failed: list[Failed] = []
        for id_, pending in list(self._pending.items()):
            method = pending.call.method
            if pending.handed and REPEAT.get(method, Repeat.UNSURE) is Repeat.UNSURE:
                del self._pending[id_]
                failed.append(Failed(id_, ConnectionLost(method, reason, _ADVICE.get(method, ""))))
        for pending in self._pending.values():
            pending.handed = False
        self._queue = deque(sorted(self._pending))
        return tuple(failed)

    def give_up(self, error: SafdError) -> tuple[Failed, ...]:
        """No connection can be had: everything that waits fails with this."""
        failed = tuple(Failed(id_, error) for id_ in self._pending)
        self._pending.clear()
        self._queue.clear()
        return failed

    def _line_received(self, line: bytes) -> tuple[Outcome, ...]:
        found = _envelope(line)
        if found.method is not None:
            return _notified(found)
        if found.id is None:
            error = from_fault(bytes(found.error)) if found.error else AnswerMalformed("a line answers nothing")
            raise error
        if not isinstance(found.id, int):
            raise AnswerMalformed(f"it answers the request {found.id!r}, which was not sent")
        if bool(found.result) is bool(found.error):
            raise AnswerMalformed("an answer has either a result or an error")
        self.patience.answered()
        if found.id == self._greeting_id:
            self._greeting_id = None
            return self.give_up(from_fault(bytes(found.error))) if found.error else ()
        pending = self._pending.get(found.id)
        if pending is None:
            return ()
        if found.error:
            return (self._failed(found.id, pending, from_fault(bytes(found.error))),)
        del self._pending[found.id]
        return (Answered(found.id, bytes(found.result)),)

    def _failed(self, id_: int, pending: _Pending, error: SafdError) -> Later | Failed:
        if error.code in NOTHING_WAS_DONE and pending.tries < AGAIN_LIMIT:
            pending.tries += 1
            pending.handed = False
            wanted = error.fields.get("retry_after_s")
            least = float(wanted) if isinstance(wanted, int | float) else 0.0
            return Later(id_, max(least, backoff_s(pending.tries, 0.5)))
        del self._pending[id_]
        return Failed(id_, error)


def _line(id_: int, call: Call[object]) -> bytes:
    return lines.render_request(str(id_), call.method, call.params)


def _envelope(line: bytes) -> _Envelope:
    try:
        return msgspec.json.decode(line, type=_Envelope)
    except msgspec.DecodeError:
        return _slow_envelope(line)


def _slow_envelope(line: bytes) -> _Envelope:
    """For what msgspec does not take: the escape of a lone surrogate, which a record may hold."""
    match lines.parse(line):
        case lines.Answer(id=id_, result=result, error=error):
            return _Envelope(id=json.loads(id_), result=_raw(result), error=_raw(error))
        case lines.Request(method=method, params=params):
            return _Envelope(method=method, params=_raw(params))
        case lines.Bad(error=cause):
            raise AnswerMalformed(f"a line is not JSON-RPC ({cause})")
        case _ as never:
            assert_never(never)


def _raw(span: Span | None) -> msgspec.Raw:
    return msgspec.Raw(b"" if span is None else str(span).encode())


def _notified(found: _Envelope) -> tuple[Outcome, ...]:
    """An event, or the end of a subscription. A notification of another kind is a newer daemon's: overlooked."""
    if found.method != "event":
        return ()
    parts = wire.members(bytes(found.params))
    subscription = str(json.loads(parts.get("subscription", b'""')))
    if "error" in parts:
        return (Ended(subscription, from_fault(parts["error"])),)
    seq = json.loads(parts.get("id", b"null"))
    return (
        Notified(
            subscription,
            str(json.loads(parts.get("event", b'""'))),
            seq if isinstance(seq, int) else None,
            parts.get("data", b"null"),
        ),
    )
