"""The client for asyncio and trio programs (through anyio): `async with await connect() as client`.

A shell: one task moves bytes between the socket and `session.Session`, callers wait for their outcome. A follower
(`attach`) has a connection of its own, so that a slow reader holds up its own events and nobody's answers.
"""

import os
import random
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import attrs
from anyio.abc import TaskGroup, UNIXSocketStream

from saf_client import calls, discovery, session, wire
from saf_client.discovery import Attempt, Candidate
from saf_client.errors import ConnectionLost, DeadlinePassed, NoDaemon, SafdError
from saf_client.session import Answered, Call, Cursor, Ended, Failed, Later, Notified, Outcome, Patience, Session
from saf_client.wire import Offered
from safd.api import params, results
from safd.model.blocks import Block
from safd.model.projections import Capabilities, StablePrefix, Target

T = TypeVar("T")

DEADLINE_S = 30.0
PAGE = 1000
_CHUNK = 256 * 1024
_BROKEN = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


async def connect(socket: str | None = None, *, agent: str | None = None, deadline_s: float = DEADLINE_S) -> "Client":
    """A client on the first socket that answers (see `discovery`). Enter it before use.

    `agent` is the claim of this connection: it chooses among the agents admitted to the caller's account, no more.
    Raises NoDaemon.
    """
    stream, used = await _dial(discovery.candidates(socket, os.environ))
    greeting = None if agent is None else calls.hello(agent=agent, client="saf-client")
    return Client(used=used, stream=stream, session=Session(greeting), deadline_s=deadline_s)


async def _dial(candidates: Sequence[Candidate]) -> tuple[UNIXSocketStream, Candidate]:
    attempts: list[Attempt] = []
    for candidate in candidates:
        try:
            return await anyio.connect_unix(candidate.path), candidate
        except OSError as error:
            attempts.append(Attempt(candidate=candidate, reason=discovery.reason(error)))
    raise NoDaemon(discovery.none_answered(attempts, os.environ))


@attrs.define(eq=False)
class _Waiter:
    event: anyio.Event = attrs.field(factory=anyio.Event)
    outcome: Outcome | None = None

    async def next(self) -> Outcome:
        """The outcome; a later one is waited for anew."""
        await self.event.wait()
        outcome, self.outcome, self.event = self.outcome, None, anyio.Event()
        assert outcome is not None  # noqa: S101  the event is set together with it
        return outcome

    def give(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.event.set()


@attrs.define(eq=False, kw_only=True)
class Client:
    """Typed methods, one per row of the method table. Calls of several tasks are pipelined on one connection.

    When the connection breaks it is made again, with growing pauses, and what may be asked twice is (see
    `session.REPEAT`): an append or a creation carries a key and happens once. What may not raises ConnectionLost.
    `deadline_s` holds for each call by itself; `ask` takes another. All methods raise SafdError (see `errors`).
    """

    used: Candidate
    _stream: UNIXSocketStream | None = attrs.field(alias="stream")
    _session: Session = attrs.field(alias="session")
    deadline_s: float
    _waiters: dict[int, _Waiter] = attrs.field(factory=dict[int, _Waiter])
    _work: anyio.Event = attrs.field(factory=anyio.Event)
    _group: TaskGroup | None = None
    _refusal: NoDaemon | None = None

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # the body's own exception passes as it is: the group holds only our task and is told of nothing else
        if self._group is not None:
            group, self._group = self._group, None
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)

    # --- conversations

    async def create(
        self,
        *,
        agent: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | str | None = None,
        idempotency_key: str | None = None,
    ) -> results.OneConversation:
        """A key is minted where none is given, so that a broken connection does not make two."""
        key = idempotency_key or session.mint_key(secrets.token_bytes(16))
        return await self.ask(calls.create(agent=agent, title=title, metadata=metadata, idempotency_key=key))

    async def list(
        self, *, agent: str | None = None, archived: bool = False, after: str | None = None, limit: int = 50
    ) -> results.Conversations:
        return await self.ask(calls.list_conversations(agent=agent, archived=archived, after=after, limit=limit))

    async def get(self, conversation: str) -> results.OneConversation:
        return await self.ask(calls.get(conversation))

    async def archive(self, conversation: str, *, archived: bool = True) -> results.OneConversation:
        return await self.ask(calls.archive(conversation, archived=archived))

    async def append(
        self,
        conversation: str,
        *messages: Offered,
        idempotency_key: str | None = None,
        expected_seq: int | None = None,
    ) -> results.Appended:
        """Append all or none; returns when they are on disk. A minted key makes a repeat after a loss harmless."""
        key = idempotency_key or session.mint_key(secrets.token_bytes(16))
        return await self.ask(calls.append(conversation, messages, idempotency_key=key, expected_seq=expected_seq))

    async def messages(
        self,
        conversation: str,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
        order: params.Order = params.Order.ASC,
    ) -> results.Messages:
        """One page of the record; each entry of `data` is a message's stored text, byte for byte."""
        return await self.ask(calls.messages(conversation, after=after, before=before, limit=limit, order=order))

    async def record(self, conversation: str, *, after: int | None = None) -> AsyncIterator[results.RawJson]:
        """The stored texts from `after` on, page by page."""
        while True:
            page = await self.messages(conversation, after=after, limit=PAGE)
            for text in page.data:
                yield text
            if not page.has_more:
                return
            after = wire.seq_of(page.data[-1])

    def attach(self, conversation: str, *, after: int | None = None) -> "Following":
        """`async with client.attach(...) as events: async for event in events`: the record after a cursor, then live.

        Ends only with an error or when it is left; a broken connection is made again from the last seq on.
        """
        return Following(self.used, self._session.greeting, conversation, Cursor(after))

    async def replay(
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
        return await self.ask(
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

    async def microcompact(self, conversation: str, *, keep_recent: int = 5) -> results.Microcompacted:
        return await self.ask(calls.microcompact(conversation, keep_recent=keep_recent, restore=None))

    async def restore(self, conversation: str, mark: str) -> results.Microcompacted:
        """Take an earlier microcompact back."""
        return await self.ask(calls.microcompact(conversation, keep_recent=5, restore=mark))

    async def compact(
        self, conversation: str, *, through_seq: int, summary: str | Sequence[Block]
    ) -> results.CompactedThrough:
        return await self.ask(calls.compact(conversation, through_seq=through_seq, summary=summary))

    # --- turns

    async def turn_open(self, conversation: str, *, agent: str | None = None) -> results.OneTurn:
        return await self.ask(calls.turn_open(conversation, agent=agent))

    async def turn_wait(self, conversation: str, turn: str, *, waiting: bool = True) -> results.OneTurn:
        return await self.ask(calls.turn_wait(conversation, turn, waiting=waiting))

    async def turn_close(
        self,
        conversation: str,
        turn: str,
        *,
        outcome: params.Outcome = params.Outcome.COMPLETED,
        reason: str | None = None,
    ) -> results.OneTurn:
        return await self.ask(calls.turn_close(conversation, turn, outcome=outcome, reason=reason))

    # --- who, and the node

    async def hello(self, *, agent: str | None = None, client: str | None = None) -> results.Hello:
        """The claim of this connection and of those that replace it."""
        call = calls.hello(agent=agent, client=client)
        answer = await self.ask(call)
        self._session.greeting = call
        return answer

    async def observe(self, *, agent: str | None = None) -> results.Observed:
        return await self.ask(calls.observe(agent=agent))

    async def principals(self) -> results.Principals:
        return await self.ask(calls.principals())

    async def drift(self) -> results.DriftReport:
        return await self.ask(calls.drift())

    async def status(self) -> results.Status:
        return await self.ask(calls.status())

    async def discover(self) -> results.Described:
        return await self.ask(calls.discover())

    # --- asking

    async def ask(self, call: Call[T], *, deadline_s: float | None = None) -> T:
        """Any `Call`, answered or raised."""
        if self._group is None:
            raise RuntimeError("enter the client first: async with await connect() as client")
        limit = self.deadline_s if deadline_s is None else deadline_s
        id_ = self._session.submit(call)
        waiter = self._waiters[id_] = _Waiter()
        self._work.set()
        try:
            with anyio.move_on_after(limit):
                return call.read(await self._outcome(id_, waiter))
        finally:
            del self._waiters[id_]
            self._session.withdraw(id_)
        raise DeadlinePassed(call.method, limit)

    async def _outcome(self, id_: int, waiter: _Waiter) -> bytes:
        while True:
            match await waiter.next():
                case Answered(result=result):
                    return result
                case Failed(error=error):
                    raise error
                case Later(after_s=pause):
                    await anyio.sleep(pause)
                    self._session.again(id_)
                    self._work.set()
                case Notified() | Ended():
                    continue

    def _deliver(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Answered | Failed | Later) and outcome.id in self._waiters:
                self._waiters[outcome.id].give(outcome)

    async def _run(self) -> None:
        """Keep one connection while anybody waits for an answer."""
        while True:
            stream, self._stream = self._stream, None
            if stream is None:
                await self._until_wanted()
                stream = await self._again()
            if stream is not None:
                self._deliver(self._session.lost(await self._exchange(stream)))

    async def _until_wanted(self) -> None:
        while not self._session.waiting:
            await self._work.wait()
            self._work = anyio.Event()

    async def _again(self) -> UNIXSocketStream | None:
        pause = self._session.patience.pause_s(random.random())  # noqa: S311  jitter, no secret
        if pause is None:
            self._deliver(self._session.give_up(self._refusal or _too_often()))
            return None
        await anyio.sleep(pause)
        try:
            return (await _dial((self.used,)))[0]
        except NoDaemon as error:
            self._refusal = error
            self._session.patience.broke()
            return None

    async def _exchange(self, stream: UNIXSocketStream) -> str:
        """Move bytes until the connection ends; returns why it did."""
        self._refusal = None
        self._session.connected()
        reason = "the daemon closed it"
        async with stream, anyio.create_task_group() as group:
            group.start_soon(self._write, stream)
            try:
                while True:
                    self._deliver(self._session.receive(await stream.receive(_CHUNK)))
                    self._work.set()  # the greeting may have been answered
            except _BROKEN:
                pass
            except SafdError as error:
                reason = error.detail
                self._deliver(self._session.give_up(error))
            group.cancel_scope.cancel()
        return reason

    async def _write(self, stream: UNIXSocketStream) -> None:
        while True:
            if data := self._session.take_outgoing():
                try:
                    await stream.send(data)
                except _BROKEN:
                    return  # the reader sees the end, after what was still answered
            else:
                await self._work.wait()
                self._work = anyio.Event()


@attrs.define(eq=False)
class Following:
    """A follower's events, in order; each durable one once. `attached` is the present connection's first answer."""

    used: Candidate
    _greeting: Call[object] | None
    _conversation: str
    _cursor: Cursor
    attached: results.Attached | None = None
    _stream: UNIXSocketStream | None = None
    _session: Session = attrs.field(factory=Session)
    _patience: Patience = attrs.field(factory=Patience)
    _events: deque[Notified] = attrs.field(factory=deque[Notified])

    @property
    def after(self) -> int | None:
        """The last durable seq that was given."""
        return self._cursor.after

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notified:
        while True:
            while self._events:
                event = self._events.popleft()
                if self._cursor.is_new(event):
                    return event
            if self._stream is None:
                await self._open()
            else:
                await self._read(self._stream)

    async def _open(self) -> None:
        pause = self._patience.pause_s(random.random())  # noqa: S311  jitter, no secret
        if pause is None:
            raise _too_often()
        await anyio.sleep(pause)
        self._session = Session(self._greeting, patience=self._patience)
        self._session.submit(calls.attach(self._conversation, after=self._cursor.after))
        try:
            self._stream, _ = await _dial((self.used,))
            self._session.connected()
            await self._stream.send(self._session.take_outgoing())
        except (NoDaemon, *_BROKEN):
            await self._lost()

    async def _read(self, stream: UNIXSocketStream) -> None:
        try:
            outcomes = self._session.receive(await stream.receive(_CHUNK))
            if more := self._session.take_outgoing():  # the greeting was answered
                await stream.send(more)
        except _BROKEN:
            await self._lost()
            return
        for outcome in outcomes:
            match outcome:
                case Notified():
                    self._events.append(outcome)
                case Answered(result=result):
                    self.attached = wire.read(results.Attached, result)
                case Failed(error=error) | Ended(error=error):
                    raise error
                case Later():
                    await self._lost()

    async def _lost(self) -> None:
        stream, self._stream = self._stream, None
        self._patience.broke()
        if stream is not None:
            await stream.aclose()


def _too_often() -> ConnectionLost:
    return ConnectionLost("the call", "it broke again and again", "See the daemon's log.")
