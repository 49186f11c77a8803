"""A daemon of a hundred lines for the client's tests: one record in memory, keys, followers, and scripted breaks.

`tests/client/test_commands.py` runs the same commands against the real one.
"""

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from safd.api import lines
from safd.model import chain, codec
from safd.model.ids import ConversationId, MessageId, Seq, Uid, mint
from safd.model.messages import Writer
from safd.model.principals import Posture
from safd.model.spans import elements, members

ME = Writer(uid=Uid(1000), agent=None, posture=Posture.UNADMITTED)
NOW = "2026-12-01T10:00:00.000Z"


class Refusal(Exception):
    def __init__(self, code: str, number: int = -32000, **fields: object) -> None:
        super().__init__(code)
        self.error = {"code": number, "message": code, "data": {"code": code, "detail": f"because of {code}", **fields}}


@attrs.define
class Conversation:
    id: str
    title: str | None
    metadata: str | None
    stored: list[bytes] = attrs.field(factory=list)
    keys: dict[str, tuple[str, int, int]] = attrs.field(factory=dict)
    archived: bool = False


@attrs.define(eq=False)
class FakeDaemon:
    path: Path
    conversations: dict[str, Conversation] = attrs.field(factory=dict)
    created: dict[str, str] = attrs.field(factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    """Every request that was carried out, in order."""
    cut: dict[str, int] = attrs.field(factory=dict)
    """Methods whose next answers are not sent: the request is done, then the connection closed."""
    refuse: dict[str, list[Refusal]] = attrs.field(factory=dict)
    silent: set[str] = attrs.field(factory=set)
    connections: int = 0
    _listener: socket.socket | None = None
    _open: list[socket.socket] = attrs.field(factory=list)
    _threads: list[threading.Thread] = attrs.field(factory=list)
    _lock: threading.RLock = attrs.field(factory=threading.RLock)
    _followers: list[tuple[socket.socket, str, str]] = attrs.field(factory=list)

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(16)
        self._thread(self._accept, self._listener)

    def stop(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(5)
        self._threads.clear()

    def hang_up(self) -> None:
        """Close every connection."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._open.clear()
            self._followers.clear()

    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    def stored(self, conversation: str) -> list[bytes]:
        return self.conversations[conversation].stored

    def _thread(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file, contextlib.suppress(OSError, ValueError):
            for raw in file:
                if not self._answer(connection, raw):
                    connection.shutdown(socket.SHUT_RDWR)
                    return

    def _answer(self, connection: socket.socket, raw: bytes) -> bool:
        request = lines.parse(raw)
        assert isinstance(request, lines.Request), request
        assert request.id is not None
        asked = {} if request.params is None else json.loads(str(request.params))
        with self._lock:
            try:
                waiting = self.refuse.get(request.method)
                if waiting:
                    raise waiting.pop(0)
                self.asked.append((request.method, asked))
                result = self._act(request, asked)
            except Refusal as refusal:
                error = json.dumps(refusal.error)
                connection.sendall(f'{{"jsonrpc":"2.0","id":{request.id},"error":{error}}}\n'.encode())
                return True
            if self.cut.get(request.method):
                self.cut[request.method] -= 1
                return False
            if request.method in self.silent:
                return True
            connection.sendall(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (request.id.encode(), result))
            if request.method == "conversation.attach":
                self._follow(connection, asked)
            return True

    def _act(self, request: lines.Request, asked: dict[str, Any]) -> bytes:
        match request.method:
            case "session.hello":
                return json.dumps({"server": "fake", "version": "0", "agent": asked.get("agent")}).encode()
            case "conversation.create":
                return self._create(request, asked)
            case "conversation.get":
                return self._conversation(self._find(asked))
            case "conversation.append":
                return self._append(request, asked)
            case "conversation.messages":
                return self._messages(asked)
            case "conversation.attach":
                return json.dumps({"subscription": "sub_1", "head_seq": len(self._find(asked).stored)}).encode()
            case "turn.open":
                return (
                    b'{"turn":{"id":"turn_x","conversation":"c","state":"open","agent":null,"uid":1,"after_seq":0,'
                    b'"opened_at":"now","ended_at":null,"reason":null}}'
                )
            case _:
                raise Refusal("method_missing", -32601)

    def _create(self, request: lines.Request, asked: dict[str, Any]) -> bytes:
        key = asked["idempotency_key"]
        if key not in self.created:
            seed = hashlib.sha256(key.encode()).digest()[:10]
            metadata = members(request.params)["metadata"] if request.params and "metadata" in asked else None
            made = Conversation(
                mint("conv", 1_800_000_000_000, seed), asked.get("title"), None if metadata is None else str(metadata)
            )
            self.created[key] = made.id
            self.conversations[made.id] = made
        return self._conversation(self.conversations[self.created[key]])

    def _conversation(self, one: Conversation) -> bytes:
        found = {
            "id": one.id,
            "agent": None,
            "owner": {"uid": 1000, "account": "casey"},
            "title": one.title,
            "metadata": None,
            "head_seq": len(one.stored),
            "created_at": NOW,
            "updated_at": NOW,
            "archived_at": None,
            "turn": None,
            "a_field_of_tomorrow": [1],
        }
        return json.dumps({"conversation": found}).encode()

    def _find(self, asked: dict[str, Any]) -> Conversation:
        found = self.conversations.get(asked["conversation"])
        if found is None:
            raise Refusal("conversation_missing", -32030)
        return found

    def _append(self, request: lines.Request, asked: dict[str, Any]) -> bytes:
        one = self._find(asked)
        if one.archived:
            raise Refusal("conversation_archived", -32013)
        assert request.params is not None
        offered = [str(item) for item in elements(members(request.params)["messages"])]
        body, key = "\n".join(offered), asked["idempotency_key"]
        if key in one.keys:
            held, first, last = one.keys[key]
            if held != body:
                raise Refusal("idempotency_key_reused", -32011)
        else:
            first = len(one.stored) + 1
            for text in offered:
                self._store(one, text)
            last = len(one.stored)
            one.keys[key] = body, first, last
        ids = [str(json.loads(text)["id"]) for text in one.stored[first - 1 : last]]
        answer = {"first_seq": first, "last_seq": last, "ids": ids, "head_seq": len(one.stored)}
        return json.dumps(answer).encode()

    def _store(self, one: Conversation, text: str) -> None:
        seq = len(one.stored) + 1
        before = chain.message_hash(one.stored[-1]) if one.stored else chain.genesis(ConversationId(one.id))
        id_ = MessageId(mint("msg", 1_800_000_000_000 + seq, hashlib.sha256(text.encode()).digest()[:10]))
        stored = codec.render_stored(id_=id_, seq=Seq(seq), recorded_at=NOW, writer=ME, prev_hash=before, offered=text)
        one.stored.append(stored)
        for connection, subscription, conversation in self._followers:
            if conversation == one.id:
                self._send_event(connection, subscription, seq, stored)

    def _messages(self, asked: dict[str, Any]) -> bytes:
        stored = self._find(asked).stored
        start = asked.get("after") or 0
        page = stored[start : start + asked["limit"]]
        has_more = b"true" if start + len(page) < len(stored) else b"false"
        return b'{"data":[%b],"first_id":null,"last_id":null,"has_more":%b,"head_seq":%d}' % (
            b",".join(page),
            has_more,
            len(stored),
        )

    def _follow(self, connection: socket.socket, asked: dict[str, Any]) -> None:
        for seq, stored in enumerate(self._find(asked).stored, 1):
            if seq > (asked.get("after") or 0):
                self._send_event(connection, "sub_1", seq, stored)
        self._followers.append((connection, "sub_1", asked["conversation"]))

    def _send_event(self, connection: socket.socket, subscription: str, seq: int, stored: bytes) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(
                b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"%b","event":"user_message","id":%d,'
                b'"data":%b}}\n' % (subscription.encode(), seq, stored)
            )


@contextlib.contextmanager
def fake_daemon(folder: Path) -> Iterator[FakeDaemon]:
    daemon = FakeDaemon(folder / "safd.sock")
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
