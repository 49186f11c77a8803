"""The client for plain programs: a blocking socket, no event loop, no thread. One thread at a time may use it.

A shell over `session.Session`, with the same methods and rules as `aio`.
"""

import os
import random
import secrets
import socket as sockets
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs

from saf_client import calls, discovery, session, wire
from saf_client.discovery import Attempt, Candidate
from saf_client.errors import ConnectionLost, DeadlinePassed, NoDaemon
from saf_client.session import Answered, Call, Cursor, Ended, Failed, Later, Notified, Outcome, Patience, Session
from saf_client.wire import Offered
from safd.api import params, results
from safd.model.blocks import Block
from safd.model.projections import Capabilities, StablePrefix, Target

T = TypeVar("T")

DEADLINE_S = 30.0
PAGE = 1000
_CHUNK = 256 * 1024


def connect(socket: str | None = None, *, agent: str | None = None, deadline_s: float = DEADLINE_S) -> "Client":
    """A client on the first socket that answers (see `discovery`); a context manager.

    `agent` is the claim of this connection: it chooses among the agents admitted to the caller's account, no more.
    Raises NoDaemon.
    """
    found, used = dial(discovery.candidates(socket, os.environ), deadline_s)
    greeting = None if agent is None else calls.hello(agent=agent, client="saf-client")
    client = Client(used=used, deadline_s=deadline_s, session=Session(greeting))
    client.adopt(found)
    return client


def dial(candidates: Sequence[Candidate], timeout_s: float) -> tuple[sockets.socket, Candidate]:
    """The first that answers. Raises NoDaemon, which says what was tried."""
    attempts: list[Attempt] = []
    for candidate in candidates:
        found = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            found.settimeout(timeout_s)
            found.connect(candidate.path)
        except OSError as error:
            found.close()
            attempts.append(Attempt(candidate=candidate, reason=discovery.reason(error)))
        else:
            return found, candidate
    raise NoDaemon(discovery.none_answered(attempts, os.environ))


@attrs.define(eq=False, kw_only=True)
class Client:
    """Typed methods, one per row of the method table; what holds for `aio.Client` holds here."""

    used: Candidate
    deadline_s: float
    _session: Session = attrs.field(alias="session")
    _socket: sockets.socket | None = None

    def adopt(self, connection: sockets.socket) -> None:
        """Use this connection, which was just made."""
        self._socket = connection
        self._session.connected()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- conversations

    def create(
        self,
        *,
        agent: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | str | None = None,
        idempotency_key: str | None = None,
    ) -> results.OneConversation:
        """A key is minted where none is given, so that a broken connection does not make two."""
        key = idempotency_key or session.mint_key(secrets.token_bytes(16))
        return self.ask(calls.create(agent=agent, title=title, metadata=metadata, idempotency_key=key))

    def list(
        self, *, agent: str | None = None, archived: bool = False, after: str | None = None, limit: int = 50
    ) -> results.Conversations:
        return self.ask(calls.list_conversations(agent=agent, archived=archived, after=after, limit=limit))

    def get(self, conversation: str) -> results.OneConversation:
        return self.ask(calls.get(conversation))

    def archive(self, conversation: str, *, archived: bool = True) -> results.OneConversation:
        return self.ask(calls.archive(conversation, archived=archived))

    def append(
        self,
        conversation: str,
        *messages: Offered,
        idempotency_key: str | None = None,
        expected_seq: int | None = None,
    ) -> results.Appended:
        """Append all or none; returns when they are on disk. A minted key makes a repeat after a loss harmless."""
        key = idempotency_key or session.mint_key(secrets.token_bytes(16))
        return self.ask(calls.append(conversation, messages, idempotency_key=key, expected_seq=expected_seq))

    def messages(
        self,
        conversation: str,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
        order: params.Order = params.Order.ASC,
    ) -> results.Messages:
        """One page of the record; each entry of `data` is a message's stored text, byte for byte."""
        return self.ask(calls.messages(conversation, after=after, before=before, limit=limit, order=order))

    def record(self, conversation: str, *, after: int | None = None) -> Iterator[results.RawJson]:
        """The stored texts from `after` on, page by page."""
        while True:
            page = self.messages(conversation, after=after, limit=PAGE)
            yield from page.data
            if not page.has_more:
                return
            after = wire.seq_of(page.data[-1])

    def attach(self, conversation: str, *, after: int | None = None) -> "Following":
        """`with client.attach(...) as events: for event in events`: the record after a cursor, then live."""
        return Following(self.used, self.deadline_s, self._session.greeting, conversation, Cursor(after))

    def replay(
        self,
        conversation: str,
        target: Target | str,
        *,
        agent: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        capabilities: Capabilities | None = None,
        system: str | Sequence[str] | None = None,
        since: StablePrefix | None = None,
    ) -> results.Replayed:
        """`payload` stays bytes; `wire.decoded` reads it where plain values are wanted."""
        return self.ask(
            calls.replay(
                conversation,
                target,
                agent=agent,
                provider=provider,
                model=model,
                capabilities=capabilities,
                system=system,
                since=since,
            )
        )

    def microcompact(self, conversation: str, *, keep_recent: int = 5) -> results.Microcompacted:
        return self.ask(calls.microcompact(conversation, keep_recent=keep_recent, restore=None))

    def restore(self, conversation: str, mark: str) -> results.Microcompacted:
        """Take an earlier microcompact back."""
        return self.ask(calls.microcompact(conversation, keep_recent=5, restore=mark))

    def compact(
        self, conversation: str, *, through_seq: int, summary: str | Sequence[Block]
    ) -> results.CompactedThrough:
        return self.ask(calls.compact(conversation, through_seq=through_seq, summary=summary))

    # --- turns

    def turn_open(self, conversation: str, *, agent: str | None = None) -> results.OneTurn:
        return self.ask(calls.turn_open(conversation, agent=agent))

    def turn_wait(self, conversation: str, turn: str, *, waiting: bool = True) -> results.OneTurn:
        return self.ask(calls.turn_wait(conversation, turn, waiting=waiting))

    def turn_close(
        self,
        conversation: str,
        turn: str,
        *,
        outcome: params.Outcome = params.Outcome.COMPLETED,
        reason: str | None = None,
    ) -> results.OneTurn:
        return self.ask(calls.turn_close(conversation, turn, outcome=outcome, reason=reason))

    # --- who, and the node

    def hello(self, *, agent: str | None = None, client: str | None = None) -> results.Hello:
        """The claim of this connection and of those that replace it."""
        call = calls.hello(agent=agent, client=client)
        answer = self.ask(call)
        self._session.greeting = call
        return answer

    def observe(self, *, agent: str | None = None) -> results.Observed:
        return self.ask(calls.observe(agent=agent))

    def principals(self) -> results.Principals:
        return self.ask(calls.principals())

    def drift(self) -> results.DriftReport:
        return self.ask(calls.drift())

    def status(self) -> results.Status:
        return self.ask(calls.status())

    def discover(self) -> results.Described:
        return self.ask(calls.discover())

    # --- asking

    def ask(self, call: Call[T], *, deadline_s: float | None = None) -> T:
        """Any `Call`, answered or raised."""
        limit = self.deadline_s if deadline_s is None else deadline_s
        end = time.monotonic() + limit
        id_ = self._session.submit(call)
        try:
            while True:
                for outcome in self._exchange(call.method, limit, end):
                    match outcome:
                        case Answered(id=found, result=result) if found == id_:
                            return call.read(result)
                        case Failed(id=found, error=error) if found == id_:
                            raise error
                        case Later(id=found, after_s=pause) if found == id_:
                            time.sleep(min(pause, _left(call.method, limit, end)))
                            self._session.again(id_)
                        case _:
                            continue  # of a call that was given up
        finally:
            self._session.withdraw(id_)

    def _exchange(self, method: str, limit: float, end: float) -> Sequence[Outcome]:
        """One send and one read, on a new connection where the last one broke."""
        if self._socket is None:
            return self._again(method, limit, end)
        try:
            self._socket.settimeout(_left(method, limit, end))
            if data := self._session.take_outgoing():
                self._socket.sendall(data)
            if received := self._socket.recv(_CHUNK):
                return self._session.receive(received)
        except TimeoutError:
            self.close()  # half a line may be under way
            self._session.lost("the deadline passed")
            raise DeadlinePassed(method, limit) from None
        except OSError as error:
            self.close()
            return self._session.lost(discovery.reason(error))
        self.close()
        return self._session.lost("the daemon closed it")

    def _again(self, method: str, limit: float, end: float) -> Sequence[Outcome]:
        pause = self._session.patience.pause_s(random.random())  # noqa: S311  jitter, no secret
        if pause is None:
            dial((self.used,), _left(method, limit, end))[0].close()
            raise _too_often(method)
        time.sleep(min(pause, _left(method, limit, end)))
        try:
            self.adopt(dial((self.used,), _left(method, limit, end))[0])
        except NoDaemon:
            self._session.patience.broke()
        return ()


@attrs.define(eq=False)
class Following:
    """A follower's events, in order; each durable one once. `attached` is the present connection's first answer."""

    used: Candidate
    _timeout_s: float
    _greeting: Call[object] | None
    _conversation: str
    _cursor: Cursor
    attached: results.Attached | None = None
    _socket: sockets.socket | None = None
    _session: Session = attrs.field(factory=Session)
    _patience: Patience = attrs.field(factory=Patience)
    _events: deque[Notified] = attrs.field(factory=deque[Notified])

    @property
    def after(self) -> int | None:
        """The last durable seq that was given."""
        return self._cursor.after

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Notified:
        while True:
            while self._events:
                event = self._events.popleft()
                if self._cursor.is_new(event):
                    return event
            if self._socket is None:
                self._open()
            else:
                self._read(self._socket)

    def _open(self) -> None:
        pause = self._patience.pause_s(random.random())  # noqa: S311  jitter, no secret
        if pause is None:
            dial((self.used,), self._timeout_s)[0].close()
            raise _too_often("conversation.attach")
        time.sleep(pause)
        self._session = Session(self._greeting, patience=self._patience)
        self._session.submit(calls.attach(self._conversation, after=self._cursor.after))
        try:
            self._socket, _ = dial((self.used,), self._timeout_s)
            self._session.connected()
            self._socket.sendall(self._session.take_outgoing())
            self._socket.settimeout(None)
        except (NoDaemon, OSError):
            self._lost()

    def _read(self, connection: sockets.socket) -> None:
        try:
            received = connection.recv(_CHUNK)
            outcomes = self._session.receive(received)
            if more := self._session.take_outgoing():  # the greeting was answered
                connection.sendall(more)
        except OSError:
            received, outcomes = b"", ()
        for outcome in outcomes:
            match outcome:
                case Notified():
                    self._events.append(outcome)
                case Answered(result=result):
                    self.attached = wire.read(results.Attached, result)
                case Failed(error=error) | Ended(error=error):
                    raise error
                case Later():
                    received = b""
        if not received:
            self._lost()

    def _lost(self) -> None:
        self._patience.broke()
        self.close()


def _left(method: str, limit: float, end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise DeadlinePassed(method, limit)
    return left


def _too_often(method: str) -> ConnectionLost:
    return ConnectionLost(method, "it broke again and again", "See the daemon's log.")
