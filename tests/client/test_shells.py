"""The asyncio, trio and plain clients against a daemon that breaks on demand: the same laws for each."""

import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from saf_client import aio, calls, sync, wire
from saf_client.errors import ConnectionLost, DeadlinePassed, Malformed, Missing, NoDaemon
from safd.model.blocks import Text
from safd.model.messages import Message, Role
from tests.client.fake_daemon import FakeDaemon, Refusal

HELLO = Message(role=Role.USER, blocks=(Text(text="hello"),))
EXACT = '{"role":"user","blocks":[{"type":"text","text":"1.10"}],"metadata":{"n":12345678901234567890123,"m": 1.10}}'


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[Any]]], Any]:
    """Run a coroutine function under each event loop."""

    def with_limit(scenario: Callable[[], Awaitable[Any]]) -> Any:
        async def limited() -> Any:
            with anyio.fail_after(20):
                return await scenario()

        return anyio.run(limited, backend=request.param)

    return with_limit


def test_append_takes_types_dictionaries_and_exact_text(daemon: FakeDaemon, run: Any) -> None:
    """What was given as text is stored byte for byte; all three forms arrive, in order, in one append."""

    async def scenario() -> None:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create(title="t", metadata={"a": 1})).conversation
            plain = {"role": "user", "blocks": [{"type": "text", "text": "\ud800"}]}
            answer = await client.append(made.id, HELLO, plain, EXACT, EXACT.encode())
            assert (answer.first_seq, answer.last_seq, len(answer.ids)) == (1, 4, 4)
            page = await client.messages(made.id, after=2)
            assert [text.endswith(EXACT[1:].encode()) for text in page.data] == [True, True]
            stored = wire.stored_message(page.data[0])
            assert not isinstance(stored, wire.DamagedMessage)
            assert stored.message.metadata == '{"n":12345678901234567890123,"m": 1.10}'
            assert daemon.conversations[made.id].metadata == '{"a":1}'

    run(scenario)


def test_an_append_cut_off_before_its_answer_is_stored_once(daemon: FakeDaemon, run: Any) -> None:
    """The daemon stored it, the answer was lost: asking again with the minted key gives the first answer."""
    daemon.cut["conversation.append"] = 2

    async def scenario() -> None:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            answer = await client.append(made.id, HELLO)
            assert answer.first_seq == 1
            assert len(daemon.stored(made.id)) == 1

    run(scenario)
    assert daemon.methods().count("conversation.append") == 3
    assert daemon.connections == 3


def test_many_tasks_share_one_connection(daemon: FakeDaemon, run: Any) -> None:
    """Calls of several tasks are pipelined, also over a break, and each gets its own answer."""
    daemon.cut["conversation.append"] = 1

    async def scenario() -> list[int]:
        seqs: list[int] = []
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation

            async def append() -> None:
                seqs.append((await client.append(made.id, HELLO)).first_seq)

            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(append)
        return seqs

    assert sorted(run(scenario)) == list(range(1, 21))


def test_a_call_that_could_be_done_twice_is_not_repeated(daemon: FakeDaemon, run: Any) -> None:
    """Losing the answer of turn.open is told; the client goes on on a new connection."""
    daemon.cut["turn.open"] = 1

    async def scenario() -> None:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            with pytest.raises(ConnectionLost, match=r"turn\.open"):
                await client.turn_open(made.id)
            assert (await client.get(made.id)).conversation.id == made.id

    run(scenario)
    assert daemon.methods().count("turn.open") == 1


def test_the_claim_is_made_on_every_connection(daemon: FakeDaemon, run: Any) -> None:
    """A reconnected client still speaks for the agent it named."""
    daemon.cut["conversation.append"] = 1

    async def scenario() -> None:
        async with await aio.connect(str(daemon.path), agent="annie") as client:
            made = (await client.create()).conversation
            await client.append(made.id, HELLO)

    run(scenario)
    assert [asked["agent"] for method, asked in daemon.asked if method == "session.hello"] == ["annie", "annie"]
    assert daemon.methods()[0] == "session.hello"


def test_a_follower_gets_each_message_once_over_breaks(daemon: FakeDaemon, run: Any) -> None:
    """Attach goes on from the last seq when its connection is cut: nothing twice, nothing lost."""

    async def scenario() -> list[int | None]:
        seen: list[int | None] = []
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            await client.append(made.id, HELLO, HELLO, HELLO)
            async with client.attach(made.id, after=1) as events:
                async for event in events:
                    seen.append(event.seq)
                    if event.seq == 3:
                        daemon.hang_up()
                        await client.append(made.id, HELLO, HELLO)
                    if event.seq == 5:
                        assert events.after == 5
                        return seen
        return seen

    assert run(scenario) == [2, 3, 4, 5]
    afters = [asked.get("after") for method, asked in daemon.asked if method == "conversation.attach"]
    assert afters[0] == 1
    assert afters[-1] == 3


def test_a_refused_follower_is_told(daemon: FakeDaemon, run: Any) -> None:
    """What cannot be attached to raises, and does not reconnect for ever."""

    async def scenario() -> None:
        async with (
            await aio.connect(str(daemon.path)) as client,
            client.attach("conv_00000000-0000-7000-8000-000000000000") as events,
        ):
            with pytest.raises(Missing):
                await anext(aiter(events))

    run(scenario)


def test_a_deadline_is_told_and_the_connection_goes_on(daemon: FakeDaemon, run: Any) -> None:
    """A call that is not answered in time raises; a late answer disturbs nobody."""
    daemon.silent.add("conversation.get")

    async def scenario() -> None:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            with pytest.raises(DeadlinePassed, match=r"conversation\.get"):
                await client.ask(calls.get(made.id), deadline_s=0.05)
            assert (await client.append(made.id, HELLO)).first_seq == 1

    run(scenario)


def test_a_cancelled_call_leaves_the_connection_whole(daemon: FakeDaemon, run: Any) -> None:
    """Whoever stops waiting breaks no line that is under way."""
    daemon.silent.add("conversation.get")

    async def scenario() -> None:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            with anyio.move_on_after(0.05) as scope:
                await client.get(made.id)
            assert scope.cancelled_caught
            assert (await client.append(made.id, HELLO)).first_seq == 1

    run(scenario)
    assert daemon.connections == 1


def test_an_error_of_the_body_stays_what_it_is(daemon: FakeDaemon, run: Any) -> None:
    """Leaving the client with an exception does not wrap it into a group."""

    async def scenario() -> None:
        with pytest.raises(KeyError, match="mine"):
            async with await aio.connect(str(daemon.path)):
                raise KeyError("mine")
        with pytest.raises(Missing):
            async with await aio.connect(str(daemon.path)) as client:
                await client.get("conv_00000000-0000-7000-8000-000000000000")

    run(scenario)


def test_cancelling_around_the_client_ends_it(daemon: FakeDaemon, run: Any) -> None:
    """A scope around the client that is cancelled is left, and nothing stays behind."""

    async def scenario() -> None:
        with anyio.move_on_after(0.05) as scope:
            async with await aio.connect(str(daemon.path)):
                await anyio.sleep_forever()
        assert scope.cancelled_caught

    run(scenario)


def test_a_client_must_be_entered(daemon: FakeDaemon, run: Any) -> None:
    """Asking before entering says what to do."""

    async def scenario() -> None:
        client = await aio.connect(str(daemon.path))
        with pytest.raises(RuntimeError, match="async with"):
            await client.status()
        async with client:
            pass

    run(scenario)


def test_busy_is_waited_out(daemon: FakeDaemon, run: Any) -> None:
    """A store that has no room now is asked again, unseen by the caller."""
    daemon.refuse["conversation.append"] = [Refusal("store_busy"), Refusal("stopping")]

    async def scenario() -> int:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            return (await client.append(made.id, HELLO)).first_seq

    assert run(scenario) == 1


def test_a_daemon_that_restarts_is_waited_for(daemon: FakeDaemon, run: Any) -> None:
    """Calls made while the daemon is away are answered when it is back."""

    async def scenario() -> str:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            await anyio.to_thread.run_sync(daemon.stop)
            timer = threading.Timer(0.2, daemon.start)
            timer.start()
            found = await client.get(made.id)
            timer.join()
            return found.conversation.id

    assert run(scenario) in daemon.conversations


def test_nobody_there_says_what_was_tried(tmp_path: Path, run: Any) -> None:
    """No daemon is an error that names the socket and the way out, for all three clients."""
    missing = str(tmp_path / "none.sock")
    with pytest.raises(NoDaemon, match=r"none\.sock \(--socket\) does not exist.*safd serve --socket"):
        run(partial(aio.connect, missing))
    with pytest.raises(NoDaemon, match="does not exist"):
        sync.connect(missing)


def test_record_goes_over_all_pages(daemon: FakeDaemon, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole record comes, whatever a page holds."""
    monkeypatch.setattr(aio, "PAGE", 3)
    monkeypatch.setattr(sync, "PAGE", 3)

    async def scenario() -> list[int]:
        async with await aio.connect(str(daemon.path)) as client:
            made = (await client.create()).conversation
            await client.append(made.id, *[HELLO] * 7)
            return [wire.seq_of(text) async for text in client.record(made.id)]

    assert run(scenario) == list(range(1, 8))
    with sync.connect(str(daemon.path)) as client:
        (made,) = daemon.conversations
        assert [wire.seq_of(text) for text in client.record(made, after=2)] == list(range(3, 8))


# --- the plain client


def test_sync_append_is_stored_once_over_a_cut(daemon: FakeDaemon) -> None:
    """The plain client keeps the same promise."""
    daemon.cut["conversation.append"] = 2
    with sync.connect(str(daemon.path), agent="annie") as client:
        made = client.create().conversation
        assert client.append(made.id, HELLO).first_seq == 1
        assert len(daemon.stored(made.id)) == 1
    assert daemon.methods().count("session.hello") == 3


def test_sync_does_not_repeat_blindly(daemon: FakeDaemon) -> None:
    """Nor does it do twice what could harm."""
    daemon.cut["turn.open"] = 1
    with sync.connect(str(daemon.path)) as client:
        made = client.create().conversation
        with pytest.raises(ConnectionLost):
            client.turn_open(made.id)
        assert client.get(made.id).conversation.id == made.id


def test_sync_deadline(daemon: FakeDaemon) -> None:
    """A silent daemon is left after the deadline, and the next call has a clean connection."""
    daemon.silent.add("conversation.get")
    with sync.connect(str(daemon.path), deadline_s=0.1) as client:
        made = client.create().conversation
        with pytest.raises(DeadlinePassed):
            client.get(made.id)
        client.deadline_s = 10
        assert client.append(made.id, HELLO).first_seq == 1


def test_sync_follower_over_a_break(daemon: FakeDaemon) -> None:
    """The plain follower goes on from its last seq."""
    with sync.connect(str(daemon.path)) as client:
        made = client.create().conversation
        client.append(made.id, HELLO, HELLO)
        with client.attach(made.id) as events:
            seen = [next(events).seq, next(events).seq]
            daemon.hang_up()
            client.append(made.id, HELLO)
            seen.append(next(events).seq)
    assert seen == [1, 2, 3]


def test_sync_waits_for_a_restart_and_gives_up_in_the_end(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that stays away is told as such, within bounds."""
    with sync.connect(str(daemon.path)) as client:
        made = client.create().conversation
        daemon.stop()
        timer = threading.Timer(0.2, daemon.start)
        timer.start()
        assert client.get(made.id).conversation.id == made.id
        timer.join()
        daemon.stop()
        daemon.path.unlink()
        monkeypatch.setattr(time, "sleep", lambda _: None)
        with pytest.raises(NoDaemon):
            client.get(made.id)
        daemon.start()


def test_what_is_no_json_is_refused_before_it_is_sent(daemon: FakeDaemon) -> None:
    """An exact text is checked on this side: it cannot smuggle parameters, and its error names the place."""
    from safd.model.errors import JsonInvalid, TextNotUtf8

    with sync.connect(str(daemon.path)) as client:
        made = client.create().conversation
        with pytest.raises(JsonInvalid, match=r"messages\[1\]"):
            client.append(made.id, HELLO, '{"role":"user","blocks":[]}],"expected_seq":5,"x":[{}')
        with pytest.raises(TextNotUtf8):
            client.append(made.id, b"\xff")
        with pytest.raises(TextNotUtf8):
            client.append(made.id, '{"a":"\ud800"}')
        assert daemon.methods() == ["conversation.create"]


def test_a_line_break_between_tokens_is_a_space(daemon: FakeDaemon) -> None:
    """Pretty-printed text can be appended: what is inside strings stays, and the framing holds."""
    with sync.connect(str(daemon.path)) as client:
        made = client.create().conversation
        client.append(made.id, '{\n  "role": "user",\r\n  "blocks": [{"type": "text", "text": "a\\nb"}]\n}')
    (stored,) = daemon.stored(made.id)
    assert b'"text": "a\\nb"' in stored
    assert b"\n" not in stored


def test_a_refusal_has_its_family(daemon: FakeDaemon) -> None:
    """Codes are told apart by class and by code."""
    daemon.refuse["conversation.get"] = [Refusal("field_unknown", path="conversation")]
    with sync.connect(str(daemon.path)) as client:
        made = client.create().conversation
        with pytest.raises(Malformed) as caught:
            client.get(made.id)
    assert (caught.value.code, caught.value.fields) == ("field_unknown", {"path": "conversation"})
