"""The face for people over a real socket: HTTP as curl and programs speak it, streams, and what is refused."""

import json
import socket
import time
from email.utils import parsedate_to_datetime

import pytest
import trio
import trio.testing

from safd.api import params
from safd.api.sse import Parser, ServerEvent
from safd.model.principals import DriftKind, Posture
from safd.settings import Limits
from tests.fakes import HERE, FakeApp, Talk, principal, room_of, talking

HOST = b"Host: localhost\r\n"
SMALL = Limits(request_bytes=100_000, buffered_bytes_per_uid=150_000)


def get(target: str, *headers: str, verb: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{verb} {target} HTTP/{version}", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


def post(target: str, body: bytes, *headers: str) -> bytes:
    return get(target, "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, verb="POST") + body


def messages(count: int) -> bytes:
    return json.dumps({"messages": [{"role": "user", "blocks": []}] * count}).encode()


APPEND = f"/v1/conversations/{HERE}/messages"
EVENTS = f"/v1/conversations/{HERE}/events"


# --- framing


STREAMS: dict[str, tuple[bytes, list[tuple[int, object]]]] = {
    "one": (get("/v1/principal"), [(200, "Observe")]),
    "pipelined": (
        get("/v1/principal") + get("/healthz") + get("/v1/principal"),
        [(200, "Observe"), (200, None), (200, "Observe")],
    ),
    "a body": (post(APPEND, messages(3)) + get("/v1/principal"), [(200, 3), (200, "Observe")]),
    "chunked": (
        get(APPEND, "Content-Type: application/json", "Transfer-Encoding: chunked", verb="POST")
        + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (messages(2)[:7], messages(2)[7:8], messages(2)[8:]))
        + b"0\r\n\r\n"
        + get("/v1/principal"),
        [(200, 2), (200, "Observe")],
    ),
    "refused between": (
        get("/nowhere") + get("/v1/principal") + get("/v1/principal?x=1") + get("/healthz"),
        [(404, "method_missing"), (200, "Observe"), (400, "field_unknown"), (200, None)],
    ),
    "an empty line before": (b"\r\n\n" + get("/v1/principal"), [(200, "Observe")]),
    "a body that is no JSON": (post(APPEND, b"{nonsense") + get("/healthz"), [(400, "json_invalid"), (200, None)]),
}


@pytest.mark.trio
@pytest.mark.parametrize("way", ["whole", "byte by byte", "in sevens"])
@pytest.mark.parametrize("name", STREAMS)
async def test_framing(name: str, way: str) -> None:
    """The same bytes get the same answers in the same order, however they are cut."""
    data, expected = STREAMS[name]
    step = {"whole": len(data), "byte by byte": 1, "in sevens": 7}[way]
    async with talking(FakeApp()) as talk:
        for at in range(0, len(data), step):
            await talk.send(data[at : at + step])
            if step < len(data):
                await trio.testing.wait_all_tasks_blocked()
        found: list[tuple[int, object]] = []
        for _ in expected:
            status, headers, body = await talk.http()
            found.append((status, told(body) if "json" in headers["content-type"] else None))
        assert found == expected
        talk.sock.shutdown(socket.SHUT_WR)
        assert await talk.read_all() == b""


def told(body: bytes) -> object:
    answer = json.loads(body)
    return answer.get("code") or answer.get("document") or answer.get("last_seq")


@pytest.mark.trio
async def test_every_answer_is_guarded() -> None:
    """No cache keeps an answer, no page is made of it, and it has a date."""
    async with talking(FakeApp()) as talk:
        for data in (get("/"), get("/nowhere"), get("/v1/principal")):
            await talk.send(data)
            _, headers, _ = await talk.http()
            assert headers["cache-control"] == "no-store"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["x-content-type-options"] == "nosniff"
            assert abs(parsedate_to_datetime(headers["date"]).timestamp() - time.time()) < 60


@pytest.mark.trio
async def test_head() -> None:
    """HEAD says what GET would say, without the body; the connection goes on. A stream has no head."""
    async with talking(FakeApp()) as talk:
        await talk.send(get("/v1/principal", verb="HEAD") + get("/v1/principal") + get(EVENTS, verb="HEAD"))
        status, headers, _ = await talk.http(body=False)
        assert (status, headers["content-type"]) == (200, "application/json")
        status, whole, body = await talk.http()
        assert whole["content-length"] == headers["content-length"] == str(len(body))
        status, _, _ = await talk.http(body=False)
        assert status == 405


@pytest.mark.trio
async def test_expect_continue() -> None:
    """Who waits to be told to go on is told so; who announces too much is refused before it sends."""
    async with talking(FakeApp(), SMALL) as talk:
        body = messages(2)
        data = post(APPEND, body, "Expect: 100-continue")
        await talk.send(data[: -len(body)])
        assert (await talk.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        await talk.send(body)
        status, _, answer = await talk.http()
        assert (status, json.loads(answer)["last_seq"]) == (200, 2)
        await talk.send(
            get(APPEND, "Expect: 100-continue", "Content-Type: application/json", "Content-Length: 999999", verb="POST")
        )
        status, headers, answer = await talk.http()
        assert (status, json.loads(answer)["code"], headers["connection"]) == (413, "request_too_large", "close")
        assert await talk.read_all() == b""


@pytest.mark.trio
@pytest.mark.parametrize("data", [get("/v1/principal", version="1.0"), get("/v1/principal", "Connection: close")])
async def test_one_request_and_an_end(data: bytes) -> None:
    """HTTP/1.0, and who asks for it, gets its answer and then the end."""
    async with talking(FakeApp()) as talk:
        await talk.send(data)
        status, _, _ = await talk.http()
        assert status == 200
        assert await talk.read_all() == b""


@pytest.mark.trio
async def test_a_large_body_and_answer() -> None:
    """A megabyte in and several out, whole."""
    app = FakeApp(page=tuple(b'{"n":%d,"x":"%b"}' % (n, b"y" * (n % 3000)) for n in range(2000)))
    async with talking(app) as talk:
        texts = [{"role": "user", "blocks": [{"type": "text", "text": "x" * 1000}]}] * 1000
        await talk.send(post(APPEND, json.dumps({"messages": texts}).encode()) + get(APPEND))
        _, _, body = await talk.http()
        assert json.loads(body)["last_seq"] == 1000
        _, _, body = await talk.http()
        assert b"[" + b",".join(app.page) + b"]" in body


# --- what a request says


@pytest.mark.trio
async def test_path_query_claim_and_senders() -> None:
    """Parameters come from path, query and body, percent signs and plus signs undone; the claim from its header."""
    app = FakeApp()
    async with talking(app) as talk:
        await talk.send(
            get(f"{APPEND}?limit=5&order=desc&", "X-Saf-Agent: hermes") + get("/v1/principal?agent=a%20b+c%C3%A9")
        )
        await talk.http()
        await talk.http()
        await talk.send(get(f"http://localhost/v1/conversations/{HERE.replace('_', '%5F')}"))
        status, _, _ = await talk.http()
        assert status == 200
    first, second, third = app.seen
    assert first.asked == params.Messages(conversation=HERE, limit=5, order=params.Order.DESC)
    assert (first.claim, second.claim) == ("hermes", None)
    assert second.asked == params.Observe(agent="a b cé")
    assert third.asked == params.OneConversation(conversation=HERE)
    assert len(first.senders) == 1


@pytest.mark.trio
async def test_a_post_without_a_body() -> None:
    """Where all parameters have a default or stand in the path, no body is needed."""
    app = FakeApp()
    async with talking(app) as talk:
        await talk.send(get(f"/v1/conversations/{HERE}/archive", verb="POST"))
        status, _, _ = await talk.http()
        assert status == 200
    assert app.seen[0].asked == params.Archive(conversation=HERE)


JSON = "Content-Type: application/json"
REFUSALS: dict[str, tuple[bytes, int, str]] = {
    "unknown path": (get("/v2"), 404, "method_missing"),
    "unknown path below": (get("/v1/conversations/x/y/z"), 404, "method_missing"),
    "a path with a hole": (get("/v1//conversations"), 404, "method_missing"),
    "wrong verb": (get("/v1/principal", verb="DELETE"), 405, "verb_not_allowed"),
    "preflight": (get("/v1/principal", verb="OPTIONS"), 405, "verb_not_allowed"),
    "everything": (get("*", verb="OPTIONS"), 404, "method_missing"),
    "an origin": (get("/v1/principal", "Origin: http://localhost"), 403, "browser_refused"),
    "no origin": (get("/v1/principal", "Origin: null"), 403, "browser_refused"),
    "a page": (get("/v1/principal", "Referer: http://a.example/"), 403, "browser_refused"),
    "a fetch": (get("/v1/principal", "Sec-Fetch-Site: none"), 403, "browser_refused"),
    "another host": (b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 403, "browser_refused"),
    "an address": (b"GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", 403, "browser_refused"),
    "a number": (b"GET / HTTP/1.1\r\nHost: 3232235521\r\n\r\n", 403, "browser_refused"),
    "a host behind": (b"GET / HTTP/1.1\r\nHost: localhost.a.example\r\n\r\n", 403, "browser_refused"),
    "a host in the target": (b"GET http://a.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 403, "browser_refused"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "request_malformed"),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "request_malformed"),
    "a form": (
        get(APPEND, "Content-Length: 2", "Content-Type: application/x-www-form-urlencoded", verb="POST") + b"{}",
        415,
        "body_not_json",
    ),
    "no type": (get(APPEND, "Content-Length: 2", verb="POST") + b"{}", 415, "body_not_json"),
    "a body with GET": (get("/v1/principal", JSON, "Content-Length: 2") + b"{}", 400, "request_malformed"),
    "not UTF-8": (get("/v1/principal?agent=%ff"), 400, "text_not_utf8"),
    "not UTF-8 in a header": (
        get("/v1/principal").replace(b"\r\n\r\n", b"\r\nX-Saf-Agent: \xff\r\n\r\n"),
        400,
        "text_not_utf8",
    ),
    "twice in the query": (get(f"{APPEND}?limit=1&limit=2"), 400, "key_duplicate"),
    "in path and body": (post(APPEND, b'{"conversation":"x","messages":[]}'), 400, "key_duplicate"),
    "a wrong id": (get("/v1/conversations/conv_1"), 400, "id_malformed"),
    "a wrong number": (get(f"{APPEND}?limit=x"), 400, "field_type"),
    "a list": (post(APPEND, b"[]"), 400, "field_type"),
    "a field": (post(APPEND, b'{"messages":[],"x":1}'), 400, "field_unknown"),
    "a wrong cursor": (get(EVENTS, "Last-Event-ID: x"), 400, "value_not_allowed"),
    "deep": (post(APPEND, b'{"messages":' + b"[" * 1000 + b"]" * 1000 + b"}"), 400, "nesting_too_deep"),
    "too long": (post(APPEND, b" " * 100_001), 413, "request_too_large"),
    "too long in chunks": (
        get(APPEND, JSON, "Transfer-Encoding: chunked", verb="POST")
        + b"2710\r\n"
        + (b" " * 10_000 + b"\r\n2710\r\n") * 11,
        413,
        "request_too_large",
    ),
    "a long head at once": (get("/v1/principal", "X: " + "x" * 70_000), 413, "request_too_large"),
    "a long path": (get("/" + "x" * 70_000), 413, "request_too_large"),
    "a long head": (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000, 413, "request_too_large"),
    "garbage": (bytes(range(128, 256)) * 10 + b"\r\n\r\n", 400, "request_malformed"),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "request_malformed"),
    "two lengths": (get(APPEND, JSON, "Content-Length: 2", "Content-Length: 3", verb="POST"), 400, "request_malformed"),
    "length and chunks": (
        get(APPEND, JSON, "Content-Length: 2", "Transfer-Encoding: chunked", verb="POST") + b"0\r\n\r\n",
        400,
        "request_malformed",
    ),
    "two agents": (get("/v1/principal", "X-Saf-Agent: a", "X-Saf-Agent: b"), 400, "request_malformed"),
    "two cursors": (get(EVENTS, "Last-Event-ID: 1", "Last-Event-ID: 2"), 400, "request_malformed"),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: localhost\r\n X: y\r\n\r\n", 403, "browser_refused"),
    "a negative length": (get(APPEND, JSON, "Content-Length: -2", verb="POST"), 400, "request_malformed"),
    "a length out of bounds": (get(APPEND, JSON, "Content-Length: " + "9" * 18, verb="POST"), 413, "request_too_large"),
    "another coding": (get(APPEND, JSON, "Transfer-Encoding: gzip", verb="POST"), 400, "request_malformed"),
}


@pytest.mark.trio
@pytest.mark.parametrize("name", REFUSALS)
async def test_refusals(name: str) -> None:
    """Each kind of bad request gets a problem document with its own code, and nobody else notices."""
    data, status, code = REFUSALS[name]
    app = FakeApp()
    room = room_of(app, SMALL)
    async with talking(app, room=room) as other, talking(app, room=room) as talk:
        await talk.send(data)
        seen, headers, body = await talk.http()
        problem = json.loads(body)
        assert (seen, problem["code"]) == (status, code)
        assert headers["content-type"] == "application/problem+json"
        assert problem["status"] == status
        assert problem["type"] == f"urn:safd:error:{code}"
        assert problem["title"]
        assert problem["detail"]
        if status == 405:
            assert headers["allow"] == "GET, HEAD"
        await other.send(get("/healthz"))
        assert (await other.http())[0] == 200
    assert app.seen == []


@pytest.mark.trio
async def test_half_a_request(autojump_clock: trio.testing.MockClock) -> None:
    """Half a head, or half a body, may stay half for so long; a connection between requests for ever."""
    for part in (get("/healthz")[:-2], post(APPEND, b"{}")[:-1]):
        async with talking(FakeApp(), Limits(idle_request_s=60)) as talk:
            await trio.sleep(10_000)
            await talk.send(part)
            status, _, body = await talk.http()
            assert (status, json.loads(body)["code"]) == (408, "request_incomplete")
            assert await talk.read_all() == b""


@pytest.mark.trio
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "safd", "x", "127.0.0.1:8080", "[::1]", ""])
async def test_hosts_that_people_type(host: str) -> None:
    """Behind --unix-socket any name will do that no page could have."""
    async with talking(FakeApp()) as talk:
        await talk.send(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert (await talk.http())[0] == 200


@pytest.mark.trio
async def test_all_buffers_together() -> None:
    """A body that would take more than is left for the account is refused, with a word on when to come again."""
    app = FakeApp()
    room = room_of(app, SMALL)
    body = b" " * 90_000 + b"{}"
    async with talking(app, room=room) as first, talking(app, room=room) as second:
        await first.send(post(APPEND, body)[:-2])
        await trio.testing.wait_all_tasks_blocked()
        await second.send(post(APPEND, body)[:-2])
        status, headers, answer = await second.http()
        assert (status, json.loads(answer)["code"], headers["retry-after"]) == (429, "buffers_full", "1")
        second.hang_up()
        await second.ended.wait()
        await first.send(b"{}")
        status, _, answer = await first.http()
        assert (status, json.loads(answer)["code"]) == (400, "field_missing")


@pytest.mark.trio
async def test_many_values() -> None:
    """Bytes that are millions of values are refused before they are read; as one string they are nothing."""
    async with talking(FakeApp(), Limits(request_values=100_000)) as talk:
        await talk.send(post(APPEND, b'{"messages":[' + b"[]," * 100_000 + b"1]}"))
        status, _, body = await talk.http()
        assert (status, json.loads(body)["code"]) == (413, "too_many_values")
        await talk.send(post(APPEND, b'{"messages":["' + b"[]," * 100_000 + b'"]}'))
        assert (await talk.http())[0] == 200


@pytest.mark.trio
async def test_answers_that_are_not_read() -> None:
    """An account that does not read what it asked for gets no more of it, and everything again once it has read."""
    app = FakeApp(page=(json.dumps("x" * 900_000).encode(),))
    room = room_of(app, Limits(buffered_bytes_per_uid=1_500_000))
    asked = get(f"/v1/conversations/{HERE}/messages")
    async with talking(app, room=room) as first, talking(app, room=room) as second:
        await first.send(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert room.budget.used > 900_000
        await second.send(asked)
        status, headers, answer = await second.http()
        assert (status, json.loads(answer)["code"], headers["retry-after"]) == (429, "buffers_full", "1")
        assert (await first.http())[0] == 200
        await second.send(asked)
        assert (await second.http())[0] == 200


@pytest.mark.trio
async def test_a_fault_of_our_own(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback, answered without it, and the connection is closed."""
    async with talking(FakeApp()) as talk:
        await talk.send(get("/v1/node/status"))
        status, headers, body = await talk.http()
        assert (status, json.loads(body)["code"], headers["connection"]) == (500, "internal", "close")
        assert b"fake" not in body
        assert await talk.read_all() == b""
    assert "Traceback" in caplog.text


@pytest.mark.trio
async def test_stopping() -> None:
    """A request that comes while the daemon stops is told to come again."""
    app = FakeApp(gate=trio.Event())
    room = room_of(app)
    async with talking(app, room=room) as talk:
        await talk.send(get("/v1/node/drift") + get("/v1/principal"))
        await app.entered.wait()
        room.stopping = True
        talk.connection.stop()
        assert app.gate is not None
        app.gate.set()
        assert (await talk.http())[0] == 200
        status, _, body = await talk.http()
        assert (status, json.loads(body)["code"]) == (503, "stopping")
        assert await talk.read_all() == b""


# --- pages


@pytest.mark.trio
async def test_pages() -> None:
    """What this is, that it lives, what it can do: for whoever may connect."""
    async with talking(FakeApp(administers=False)) as talk:
        await talk.send(get("/") + get("/healthz") + get("/openapi.json"))
        assert b"/v1/conversations" in (await talk.http())[2]
        assert (await talk.http())[2] == b"ok\n"
        assert json.loads((await talk.http())[2])["openapi"] == "3.1.0"


@pytest.mark.trio
async def test_metrics_are_for_administrators() -> None:
    """Numbers name methods, codes and postures; only administrators read them."""
    app = FakeApp()
    room = room_of(app)
    room.dispatch.metrics.principal(principal(Posture.RESIDENT))
    room.dispatch.metrics.principal(principal(Posture.DRIFTED, DriftKind.TRACED))
    room.dispatch.metrics.changed(Posture.DRIFTED)
    room.dispatch.metrics.appended(3)
    async with talking(app, room=room) as talk:
        await talk.send(get("/v1/principal") + get("/v1/principal?x=1") + get("/nowhere") + get("/metrics"))
        for _ in range(3):
            await talk.http()
        _, headers, body = await talk.http()
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        for line in (
            b'safd_requests_total{code="ok",method="principal.observe"} 1.0',
            b'safd_requests_total{code="field_unknown",method="principal.observe"} 1.0',
            b'safd_requests_total{code="method_missing",method="unknown"} 1.0',
            b'safd_request_seconds_count{method="principal.observe"} 2.0',
            b'safd_request_seconds_bucket{le="+Inf",method="principal.observe"} 2.0',
            b'safd_principals_total{posture="resident"} 1.0',
            b'safd_drift_total{kind="traced"} 1.0',
            b'safd_posture_changes_total{posture="drifted"} 1.0',
            b"safd_messages_appended_total 3.0",
        ):
            assert line in body.splitlines()
        app.administers = False
        await talk.send(get("/metrics"))
        status, _, body = await talk.http()
        assert (status, json.loads(body)["code"]) == (403, "not_administrator")


# --- event streams


async def events(talk: Talk, count: int) -> list[ServerEvent]:
    """The next events of a chunked stream, one frame a chunk."""
    parser = Parser(line_limit=1_000_000)
    found: list[ServerEvent] = []
    while len(found) < count:
        found += parser.feed(await chunk(talk))
    return found


async def chunk(talk: Talk) -> bytes:
    size = int(await talk.read_until(b"\r\n"), 16)
    data = await talk.read_until(b"\r\n") if size else b""
    while len(data) < size:
        data += b"\r\n" + await talk.read_until(b"\r\n")
    return data


async def streaming(talk: Talk, *headers: str) -> None:
    await talk.send(get(EVENTS, "Accept: text/event-stream", *headers))
    status, found, _ = await talk.http()
    assert (status, found["content-type"], found["transfer-encoding"]) == (200, "text/event-stream", "chunked")
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.trio
async def test_a_stream(autojump_clock: trio.testing.MockClock) -> None:
    """Durable events carry their seq as id, passing ones leave the last; a stored line break is a second data line."""
    app = FakeApp()
    async with talking(app) as talk:
        await streaming(talk)
        app.publish(1, b'{"a":\n1.10}')
        app.publish(None, b'{"turn":{}}', "turn")
        assert await events(talk, 2) == [
            ServerEvent("user_message", '{"a":\n1.10}', "1"),
            ServerEvent("turn", '{"turn":{}}', "1"),
        ]
        talk.hang_up()
        await talk.ended.wait()
        assert trio.current_time() < 1, "noticed at a heartbeat only"
        assert app.feed.followers == 0
    assert app.seen[0].asked == params.Attach(conversation=HERE, after=None)


@pytest.mark.trio
@pytest.mark.parametrize("query", ["", "?after=3"])
async def test_resuming(query: str) -> None:
    """Last-Event-ID is where the stream goes on, and stands above the query, which an EventSource repeats."""
    app = FakeApp()
    async with talking(app) as talk:
        await talk.send(get(EVENTS + query, "Last-Event-ID: 7"))
        await talk.http()
    assert app.seen[0].asked == params.Attach(conversation=HERE, after=7)


@pytest.mark.trio
async def test_heartbeats_and_a_right_that_was_lost(autojump_clock: trio.testing.MockClock) -> None:
    """A silent stream shows that it lives; a reader who lost its right is told why, and the stream ends properly."""
    app = FakeApp()
    async with talking(app, Limits(heartbeat_s=15)) as talk:
        await streaming(talk)
        for _ in range(3):
            assert await chunk(talk) == b":\n\n"
        assert 44 <= trio.current_time() <= 46
        app.fit = False
        (event,) = await events(talk, 1)
        assert (event.name, json.loads(event.data)["code"]) == ("error", "not_reader")
        assert await talk.read_all() == b"0\r\n\r\n"


@pytest.mark.trio
async def test_a_stream_over_http_1_0() -> None:
    """Without chunks the stream is the rest of the connection."""
    app = FakeApp()
    async with talking(app) as talk:
        await talk.send(get(EVENTS, version="1.0"))
        _, headers, _ = await talk.http()
        assert "transfer-encoding" not in headers
        await trio.testing.wait_all_tasks_blocked()
        app.publish(1)
        assert await talk.read_until(b"\n\n") == b"id: 1\nevent: user_message\ndata: {}"


@pytest.mark.trio
async def test_a_stopping_daemon_does_not_wait_for_a_stream() -> None:
    """A stream has no end of its own, so it is ended."""
    app = FakeApp()
    room = room_of(app)
    async with talking(app, room=room) as talk:
        await streaming(talk)
        room.stopping = True
        talk.connection.stop()
        await talk.ended.wait()
        assert app.feed.followers == 0
