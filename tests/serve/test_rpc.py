"""The face for programs over a real socket: framing, order, senders, refusals, subscriptions, and who is left alone."""

import json
import os
import socket
import subprocess
import sys

import pytest
import trio
import trio.testing

from safd.api import params
from safd.principal.facts import Credentials
from safd.settings import Limits
from tests.fakes import HERE, FakeApp, Talk, room_of, talking

SMALL = Limits(request_bytes=100_000, buffered_bytes_per_uid=150_000, subscriptions_per_connection=2)


def request(id_: object, method: str, given: object = None) -> bytes:
    text = json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": given or {}})
    return text.encode() + b"\n"


def hello(id_: object) -> bytes:
    return request(id_, "session.hello", {"agent": "a"})


def code(answer: dict[str, dict[str, dict[str, str]]]) -> str:
    return answer["error"]["data"]["code"]


def written_by_another(sock: socket.socket, data: bytes) -> int:
    """The bytes leave through this socket, but another process writes them; its pid."""
    script = "import os, sys; print(os.getpid()); os.write(int(sys.argv[1]), sys.stdin.buffer.read())"
    done = subprocess.run(
        [sys.executable, "-c", script, str(sock.fileno())],
        input=data,
        pass_fds=[sock.fileno()],
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(done.stdout)


def pids(senders: frozenset[object]) -> set[int]:
    return {sender.pid for sender in senders if isinstance(sender, Credentials)}


# --- framing


STREAMS: dict[str, tuple[bytes, list[object]]] = {
    "one": (hello(1), [1]),
    "glued": (hello(1) + hello("b") + hello(3), [1, "b", 3]),
    "blank lines": (b"\n\r\n  \n" + hello(1) + b"\n\n" + hello(2), [1, 2]),
    "carriage returns": (hello(1).replace(b"\n", b"\r\n") + hello(2), [1, 2]),
    "bad ones between": (hello(1) + b"{nonsense}\n" + hello(2) + b"7\n" + hello(3), [1, None, 2, None, 3]),
    "a batch": (b"[" + hello(1).strip() + b"]\n" + hello(2), [None, 2]),
    "notifications": (b'{"jsonrpc":"2.0","method":"session.hello"}\n' + hello(2), [2]),
    "an answer": (b'{"jsonrpc":"2.0","id":9,"result":1}\n' + hello(2), [9, 2]),
    "no last line feed": (hello(1) + hello(2).strip(), [1, 2]),
    "half a line at the end": (hello(1) + hello(2)[:20], [1, None]),
}


@pytest.mark.trio
@pytest.mark.parametrize("way", ["whole", "byte by byte", "in threes"])
@pytest.mark.parametrize("name", STREAMS)
async def test_framing(name: str, way: str) -> None:
    """The same bytes get the same answers in the same order, however they are cut."""
    data, ids = STREAMS[name]
    step = {"whole": len(data), "byte by byte": 1, "in threes": 3}[way]
    async with talking(FakeApp()) as talk:
        for at in range(0, len(data), step):
            await talk.send(data[at : at + step])
            if step < len(data):
                await trio.testing.wait_all_tasks_blocked()
        talk.sock.shutdown(socket.SHUT_WR)
        answers = (await talk.read_all()).splitlines()
        assert [json.loads(answer)["id"] for answer in answers] == ids
        await talk.ended.wait()


@pytest.mark.trio
async def test_order_of_many() -> None:
    """A hundred requests sent at once are answered one after the other, in their order."""
    async with talking(FakeApp()) as talk:
        await talk.send(b"".join(map(hello, range(100))))
        assert [(await talk.line())["id"] for _ in range(100)] == list(range(100))


@pytest.mark.trio
async def test_a_stored_line_break_does_not_break_the_framing() -> None:
    """A message that was offered over several lines comes back on one."""
    app = FakeApp(page=(b'{"a":\n1.10}', b'{"b":\r\n2}'))
    async with talking(app) as talk:
        await talk.send(request(1, "conversation.messages", {"conversation": HERE}))
        assert (await talk.line())["result"]["data"] == [{"a": 1.1}, {"b": 2}]


# --- senders


@pytest.mark.trio
async def test_every_request_knows_its_senders() -> None:
    """A request is of all who wrote a part of it, and of nobody else: not of those before it or after it."""
    app = FakeApp()
    async with talking(app) as talk:
        client = talk.sock
        with socket.fromfd(client.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as shared:
            await talk.send(hello(1) + hello(2)[:10])
            await talk.line()
            other = await trio.to_thread.run_sync(written_by_another, shared, hello(2)[10:] + hello(3) + hello(4)[:5])
            await talk.line()
            await talk.line()
            await talk.send(hello(4)[5:] + hello(5))
            await talk.line()
            await talk.line()
    us = os.getpid()
    assert [pids(seen.senders) for seen in app.seen] == [{us}, {us, other}, {other}, {other, us}, {us}]


@pytest.mark.trio
async def test_the_end_has_no_sender() -> None:
    """The kernel reports process 0 of uid 0 at the end of a stream; no request is ever of them."""
    app = FakeApp()
    async with talking(app) as talk:
        await talk.send(hello(1).strip())
        talk.sock.shutdown(socket.SHUT_WR)
        await talk.read_all()
    (seen,) = app.seen
    assert pids(seen.senders) == {os.getpid()}
    assert len(seen.senders) == 1


# --- refusals


REFUSALS: list[tuple[bytes, str]] = [
    (b"{\n", "json_invalid"),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n', "text_not_utf8"),
    (b"[]\n", "request_malformed"),
    (request(1, "session.hullo"), "method_missing"),
    (b'{"jsonrpc":"2.0","id":1,"method":"session.hello","params":{"agent":"a","agent":"b"}}\n', "key_duplicate"),
    (b'{"jsonrpc":"2.0","id":1,"method":"session.hello","params":{"agent":NaN}}\n', "number_not_finite"),
    (
        b'{"jsonrpc":"2.0","id":1,"method":"session.hello","params":{"agent":' + b"[" * 50_000 + b"\n",
        "nesting_too_deep",
    ),
    (request(1, "session.hello", {"who": "a"}), "field_unknown"),
    (request(1, "conversation.get"), "field_missing"),
    (request(1, "conversation.get", {"conversation": 7}), "field_type"),
    (request(1, "conversation.get", {"conversation": "x"}), "id_malformed"),
    (request(1, "conversation.replay", {"conversation": HERE, "target": "x"}), "value_not_allowed"),
    (
        request(1, "conversation.compact", {"conversation": HERE, "through_seq": 1, "summary": [{"type": "x"}]}),
        "block_type_unknown",
    ),
]


@pytest.mark.trio
@pytest.mark.parametrize(("data", "expected"), REFUSALS, ids=[name for _, name in REFUSALS])
async def test_refused_and_served_on(data: bytes, expected: str) -> None:
    """A refused request costs its sender the request, and not the connection."""
    async with talking(FakeApp()) as talk:
        await talk.send(data + hello(2))
        assert code(await talk.line()) == expected
        assert (await talk.line())["id"] == 2


@pytest.mark.trio
async def test_a_line_that_is_too_long() -> None:
    """It is refused before it is complete, the sender can read why, and its memory comes back."""
    room = room_of(FakeApp(), SMALL)
    async with talking(FakeApp(), room=room) as talk:
        most = 0

        async def pour() -> None:
            nonlocal most
            for _ in range(100_000):
                await talk.sock.send(b'{"' + b"x" * 10_000)
                most = max(most, room.budget.used)

        async def pour_until_refused() -> None:
            with pytest.raises(OSError, match=r"Broken pipe|reset"):
                await pour()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pour_until_refused)
            assert code(await talk.line()) == "request_too_large"
            assert await talk.read_all() == b""
        assert most <= SMALL.request_bytes
        await talk.ended.wait()
        assert room.budget.used == 0


@pytest.mark.trio
async def test_all_buffers_together() -> None:
    """Who wants more than is left for the account is refused and closed; what others have half sent is served."""
    app = FakeApp()
    room = room_of(app, SMALL)
    async with talking(app, room=room) as first, talking(app, room=room) as second:
        long = request(1, "session.hello", {"agent": "a" * 90_000})
        await first.send(long[:-10])
        await trio.testing.wait_all_tasks_blocked()
        assert room.budget.used > 80_000
        await second.send(long[:-10])
        assert code(await second.line()) == "buffers_full"
        second.hang_up()
        await second.ended.wait()
        await first.send(long[-10:])
        assert (await first.line())["result"]["agent"] == "a" * 90_000


@pytest.mark.trio
async def test_many_values() -> None:
    """Bytes that are millions of values are refused before they are read; the connection goes on."""
    async with talking(FakeApp(), Limits(request_values=100_000)) as talk:
        await talk.send(request(1, "session.hello", {"agent": [[]] * 100_000}))
        assert code(await talk.line()) == "too_many_values"
        await talk.send(request(2, "session.hello", {"agent": "[]," * 100_000}))
        assert (await talk.line())["id"] == 2


@pytest.mark.trio
async def test_answers_that_are_not_read() -> None:
    """An account that does not read what it asked for gets no more of it, and everything again once it has read."""
    app = FakeApp(page=(json.dumps("x" * 900_000).encode(),))
    room = room_of(app, Limits(buffered_bytes_per_uid=1_500_000))
    page = request(1, "conversation.messages", {"conversation": HERE})
    async with talking(app, room=room) as first, talking(app, room=room) as second:
        await first.send(page)
        await trio.testing.wait_all_tasks_blocked()
        assert room.budget.used > 900_000
        await second.send(page + hello(2))
        assert code(await second.line()) == "buffers_full"
        assert (await second.line())["result"]["agent"] == "a"
        assert len((await first.line())["result"]["data"][0]) == 900_000
        await second.send(page)
        assert len((await second.line())["result"]["data"][0]) == 900_000


@pytest.mark.trio
async def test_half_a_request(autojump_clock: trio.testing.MockClock) -> None:
    """Half a request may stay half for so long, and no dripping makes it longer."""
    async with talking(FakeApp(), Limits(idle_request_s=60)) as talk:
        await trio.sleep(10_000)
        started = trio.current_time()
        for byte in hello(1)[:20]:
            await talk.send(bytes([byte]))
            await trio.sleep(2.9)
        assert code(await talk.line()) == "request_incomplete"
        assert trio.current_time() - started <= 61


@pytest.mark.trio
async def test_a_reader_that_never_reads(autojump_clock: trio.testing.MockClock) -> None:
    """It loses its connection after the time that a piece may take; another client is served meanwhile."""
    app = FakeApp(page=(b'"' + b"x" * 100_000 + b'"',) * 100)
    room = room_of(app, Limits(send_timeout_s=60))
    async with talking(app, room=room) as deaf, talking(app, room=room) as other:
        await deaf.send(request(1, "conversation.messages", {"conversation": HERE}) * 2)
        await trio.testing.wait_all_tasks_blocked()
        await other.send(hello(1))
        assert (await other.line())["id"] == 1
        assert not deaf.ended.is_set()
        await deaf.ended.wait()
        assert 59 <= trio.current_time() <= 61


@pytest.mark.trio
async def test_a_client_that_goes_in_the_middle_of_an_answer() -> None:
    """Its connection ends without noise."""
    app = FakeApp(page=(b'"' + b"x" * 100_000 + b'"',) * 100)
    async with talking(app) as talk:
        await talk.send(request(1, "conversation.messages", {"conversation": HERE}))
        await talk.sock.recv(100)
        talk.hang_up()
        await talk.ended.wait()


@pytest.mark.trio
async def test_a_large_answer_is_whole() -> None:
    """Many pieces, more than one system call takes, arrive as one line."""
    page = tuple(b'{"n":%d,"x":"%b"}' % (n, b"y" * (n % 3000)) for n in range(3000))
    async with talking(FakeApp(page=page)) as talk:
        await talk.send(request(1, "conversation.messages", {"conversation": HERE}))
        line = await talk.read_until(b"\n")
        assert b"[" + b",".join(page) + b"]" in line


@pytest.mark.trio
async def test_a_large_request_is_parsed_beside_the_loop() -> None:
    """A request of a megabyte is read like a small one."""
    app = FakeApp()
    async with talking(app) as talk:
        messages = [{"role": "user", "blocks": [{"type": "text", "text": "x" * 1000}]}] * 1000
        await talk.send(request(1, "conversation.append", {"conversation": HERE, "messages": messages}))
        assert (await talk.line())["result"]["last_seq"] == 1000
    (seen,) = app.seen
    assert isinstance(seen.asked, params.Append)
    assert json.loads(seen.asked.messages[999]) == messages[999]


@pytest.mark.trio
async def test_a_fault_of_our_own(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback, answered without it, and ends this connection alone."""
    app = FakeApp()
    room = room_of(app)
    async with talking(app, room=room) as talk, talking(app, room=room) as other:
        await talk.send(request(1, "node.status") + hello(2))
        answer = await talk.line()
        assert code(answer) == "internal"
        assert "fake" not in json.dumps(answer)
        assert await talk.read_all() == b""
        await other.send(hello(1))
        assert (await other.line())["id"] == 1
    assert "a fault of the fake's own" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.trio
async def test_stopping() -> None:
    """What is being answered is answered; what stands behind it is told that the daemon stops; then the end."""
    app = FakeApp(gate=trio.Event())
    room = room_of(app)
    async with talking(app, room=room) as busy, talking(app, room=room) as idle:
        await busy.send(request(1, "node.drift") + hello(2))
        await app.entered.wait()
        await idle.send(hello(1))
        await idle.line()
        await trio.testing.wait_all_tasks_blocked()
        room.stopping = True
        busy.connection.stop()
        idle.connection.stop()
        assert await idle.read_all() == b""
        assert app.gate is not None
        app.gate.set()
        assert (await busy.line())["result"] == {"agents": [], "unreadable": []}
        assert code(await busy.line()) == "stopping"
        assert await busy.read_all() == b""


# --- subscriptions


async def attached(talk: Talk, id_: int = 1) -> str:
    await talk.send(request(id_, "conversation.attach", {"conversation": HERE}))
    name: str = (await talk.line())["result"]["subscription"]
    await trio.testing.wait_all_tasks_blocked()
    return name


@pytest.mark.trio
async def test_events_come_between_answers() -> None:
    """A subscription's events carry its name; the connection goes on answering."""
    app = FakeApp()
    async with talking(app) as talk:
        name = await attached(talk)
        app.publish(1, b'{"x":1}')
        app.publish(None, b"{}", "turn")
        first, second = (await talk.line())["params"], (await talk.line())["params"]
        assert first == {"subscription": name, "event": "user_message", "id": 1, "data": {"x": 1}}
        assert second == {"subscription": name, "event": "turn", "data": {}}
        await talk.send(hello(2))
        assert (await talk.line())["id"] == 2
        other = await attached(talk, 3)
        app.publish(2)
        assert {(await talk.line())["params"]["subscription"] for _ in range(2)} == {name, other}


@pytest.mark.trio
async def test_detaching() -> None:
    """After detach nothing more comes under that name, and its place is free again."""
    app = FakeApp()
    async with talking(app, SMALL) as talk:
        one, _ = await attached(talk, 1), await attached(talk, 2)
        await talk.send(request(3, "conversation.attach", {"conversation": HERE}))
        assert code(await talk.line()) == "too_many_subscriptions"
        await talk.send(request(4, "conversation.detach", {"subscription": one}))
        assert (await talk.line())["result"] == {"subscription": one}
        await trio.testing.wait_all_tasks_blocked()
        three = await attached(talk, 5)
        assert app.feed.followers == 2
        app.publish(1)
        assert one not in {(await talk.line())["params"]["subscription"] for _ in range(2)}
        assert three != one
    assert app.feed.followers == 0


@pytest.mark.trio
async def test_a_follower_that_hangs_up_is_forgotten() -> None:
    """Nothing is left of a subscription when its connection ends."""
    app = FakeApp()
    async with talking(app) as talk:
        await attached(talk)
        assert app.feed.followers == 1
        talk.hang_up()
        await talk.ended.wait()
        assert app.feed.followers == 0


@pytest.mark.trio
async def test_a_follower_that_goes_with_bytes_unread() -> None:
    """Its task and its connection meet the same end at once; neither is a fault of ours."""
    app = FakeApp()
    async with talking(app) as talk:
        await attached(talk)
        app.publish(1, b'"' + b"x" * 2_000_000 + b'"')
        await trio.testing.wait_all_tasks_blocked()
        await talk.send(b'{"half')
        await trio.testing.wait_all_tasks_blocked()
        talk.hang_up()
        await talk.ended.wait()
        assert app.feed.followers == 0


@pytest.mark.trio
async def test_large_events_that_are_not_read() -> None:
    """An account whose followers do not read large events gets no more: the subscription ends with the cause."""
    app = FakeApp()
    room = room_of(app, Limits(buffered_bytes_per_uid=5_000_000))
    async with talking(app, room=room) as first, talking(app, room=room) as second:
        await attached(first)
        await attached(second)
        app.publish(1, b'"' + b"x" * 2_000_000 + b'"')
        await trio.testing.wait_all_tasks_blocked()
        ended = [line for line in (await first.line(), await second.line()) if "error" in line["params"]]
        assert [line["params"]["error"]["data"]["code"] for line in ended] == ["buffers_full"]
        await second.send(hello(2))
        await first.send(hello(3))
        assert {(await second.line())["id"], (await first.line())["id"]} == {2, 3}


@pytest.mark.trio
async def test_a_right_that_was_lost(autojump_clock: trio.testing.MockClock) -> None:
    """At a heartbeat the reader is looked at again: the subscription ends with the cause, the connection does not."""
    app = FakeApp()
    async with talking(app, Limits(heartbeat_s=15)) as talk:
        name = await attached(talk)
        await trio.sleep(100)
        app.fit = False
        ended = (await talk.line())["params"]
        assert ended["subscription"] == name
        assert ended["error"]["data"]["code"] == "not_reader"
        assert trio.current_time() <= 116
        await talk.send(hello(2))
        assert (await talk.line())["id"] == 2
        assert app.feed.followers == 0


@pytest.mark.trio
async def test_a_busy_stream_is_looked_at_too(autojump_clock: trio.testing.MockClock) -> None:
    """Events that never pause do not keep a lost right alive, and no event is torn or lost before it."""
    app = FakeApp()
    async with talking(app, Limits(heartbeat_s=15)) as talk:
        await attached(talk)
        app.fit = False
        seqs: list[int] = []

        async def publish() -> None:
            for seq in range(1, 100):
                app.publish(seq)
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            while "error" not in (event := (await talk.line())["params"]):
                seqs.append(event["id"])
            nursery.cancel_scope.cancel()
        assert seqs == list(range(1, len(seqs) + 1))
        assert 10 <= len(seqs) <= 17


@pytest.mark.trio
async def test_an_unheard_follower_does_not_hold_others(autojump_clock: trio.testing.MockClock) -> None:
    """A follower that does not read fills its own socket, and later loses its connection; the others read on."""
    app = FakeApp()
    room = room_of(app, Limits(send_timeout_s=60, heartbeat_s=15))
    async with talking(app, room=room) as deaf, talking(app, room=room) as other:
        await attached(deaf)
        await attached(other)
        for seq in range(1, 41):
            app.publish(seq, b'"' + b"x" * 50_000 + b'"')
            assert (await other.line())["params"]["id"] == seq
        assert not deaf.ended.is_set()
        await deaf.ended.wait()
        assert app.feed.followers == 1


@pytest.mark.trio
async def test_an_attach_that_nobody_can_name() -> None:
    """As a notification it makes no subscription."""
    app = FakeApp()
    async with talking(app) as talk:
        text = json.dumps({"jsonrpc": "2.0", "method": "conversation.attach", "params": {"conversation": HERE}})
        await talk.send(text.encode() + b"\n" + hello(1))
        assert (await talk.line())["id"] == 1
        assert app.feed.followers == 0
