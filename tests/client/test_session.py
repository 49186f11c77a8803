"""The client's session, without a socket: what is sent when, whose answer it is, what is asked again."""

import pytest

from saf_client.errors import AnswerMalformed, Conflict, ConnectionLost, SafdError
from saf_client.session import (
    RECONNECT_LIMIT,
    REPEAT,
    Answered,
    Call,
    Cursor,
    Ended,
    Failed,
    Later,
    Notified,
    Patience,
    Repeat,
    Session,
    backoff_s,
)
from safd.api.methods import METHODS

GET = Call(method="conversation.get", params=b"{}", read=bytes)
OPEN = Call(method="turn.open", params=b"{}", read=bytes)
HELLO = Call(method="session.hello", params=b'{"agent":"annie"}', read=bytes)


def answer(id_: int, result: bytes = b"{}") -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (id_, result)


def refusal(id_: int, code: str, more: str = "") -> bytes:
    data = f'{{"code":"{code}","detail":"No."{more}}}'
    return f'{{"jsonrpc":"2.0","id":{id_},"error":{{"code":-32000,"message":"No","data":{data}}}}}\n'.encode()


def connected(greeting: Call[object] | None = None) -> Session:
    session = Session(greeting)
    session.connected()
    return session


def test_every_method_is_classed() -> None:
    """For each row of the method table it is decided what asking twice does."""
    assert REPEAT.keys() == {method.name for method in METHODS}


def test_answers_find_their_calls_in_any_order() -> None:
    """Pipelined calls are answered by id, not by order."""
    session = connected()
    first, second = session.submit(GET), session.submit(GET)
    assert session.take_outgoing().count(b"\n") == 2
    assert session.receive(answer(second, b'{"a":2}') + answer(first, b'{"a":1}')) == (
        Answered(second, b'{"a":2}'),
        Answered(first, b'{"a":1}'),
    )
    assert not session.waiting


def test_bytes_may_come_in_any_pieces() -> None:
    """Whole, byte by byte, and with the next line glued on, the same outcomes come out."""
    lines = answer(1, b'{"a":[1, 2]}') + b"\n" + refusal(2, "seq_conflict", ',"head_seq":7') + answer(3)
    whole, split = connected(), connected()
    for session in (whole, split):
        for _ in range(3):
            session.submit(GET)
        session.take_outgoing()
    at_once = whole.receive(lines)
    one_by_one = [outcome for index in range(len(lines)) for outcome in split.receive(lines[index : index + 1])]
    assert [type(outcome) for outcome in at_once] == [Answered, Failed, Answered]
    assert [type(outcome) for outcome in one_by_one] == [Answered, Failed, Answered]
    assert at_once[0] == one_by_one[0] == Answered(1, b'{"a":[1, 2]}')


def test_a_refusal_is_typed_and_keeps_its_fields() -> None:
    """An error's code chooses its family; its other members are at hand."""
    session = connected()
    session.submit(GET)
    session.take_outgoing()
    (failed,) = session.receive(refusal(1, "seq_conflict", ',"head_seq":7'))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, Conflict)
    assert (failed.error.code, failed.error.detail, failed.error.fields) == ("seq_conflict", "No.", {"head_seq": 7})


def test_an_unknown_code_keeps_its_sentence() -> None:
    """A newer daemon's code is an error all the same."""
    session = connected()
    session.submit(GET)
    session.take_outgoing()
    (failed,) = session.receive(refusal(1, "of_tomorrow"))
    assert isinstance(failed, Failed)
    assert (type(failed.error), failed.error.code, str(failed.error)) == (SafdError, "of_tomorrow", "No.")


def test_nothing_is_sent_before_the_greeting_is_answered() -> None:
    """On each new connection the claim comes first, so that no call is judged without it."""
    session = connected(HELLO)
    asked = session.submit(GET)
    for _ in range(2):
        sent = session.take_outgoing()
        assert b"session.hello" in sent
        assert b"conversation.get" not in sent
        assert session.take_outgoing() == b""
        session.lost("cut")
        session.connected()
    greeting = session.take_outgoing()
    id_ = int(greeting.split(b'"id":')[1].split(b",")[0])
    assert session.receive(answer(id_)) == ()
    assert session.take_outgoing().startswith(b'{"jsonrpc":"2.0","id":%d,"method":"conversation.get"' % asked)


def test_a_refused_greeting_fails_what_waits() -> None:
    """Who may not say its name gets no answers under another."""
    session = connected(HELLO)
    asked = session.submit(GET)
    id_ = int(session.take_outgoing().split(b'"id":')[1].split(b",")[0])
    (failed,) = session.receive(refusal(id_, "principal_foreign"))
    assert isinstance(failed, Failed)
    assert (failed.id, failed.error.code) == (asked, "principal_foreign")


@pytest.mark.parametrize("method", [name for name, repeat in REPEAT.items() if repeat is not Repeat.UNSURE])
def test_what_may_be_repeated_is_asked_again_after_a_loss(method: str) -> None:
    """The same line, with the same key in it, leaves again on the next connection."""
    session = connected()
    session.submit(Call(method=method, params=b'{"idempotency_key":"k"}', read=bytes))
    first = session.take_outgoing()
    assert session.lost("cut") == ()
    assert session.take_outgoing() == b""
    session.connected()
    assert session.take_outgoing() == first


@pytest.mark.parametrize("method", [name for name, repeat in REPEAT.items() if repeat is Repeat.UNSURE])
def test_what_must_not_be_repeated_fails_and_says_how_to_look(method: str) -> None:
    """A call that was handed over and could be done twice is not repeated blindly."""
    session = connected()
    id_ = session.submit(Call(method=method, params=b"{}", read=bytes))
    session.take_outgoing()
    (failed,) = session.lost("the daemon closed it")
    assert failed.id == id_
    assert isinstance(failed.error, ConnectionLost)
    assert method in str(failed.error)
    assert str(failed.error).count(".") >= 2
    session.connected()
    assert session.take_outgoing() == b""


def test_what_was_never_handed_over_is_sent_whatever_it_is() -> None:
    """A call still in the queue cannot have been done."""
    session = connected()
    session.submit(OPEN)
    assert session.lost("cut") == ()
    session.connected()
    assert b"turn.open" in session.take_outgoing()


def test_calls_keep_their_order_over_a_loss() -> None:
    """Appends of one client are not reordered by asking again."""
    session = connected()
    ids = [session.submit(GET) for _ in range(3)]
    session.take_outgoing()
    late = session.submit(GET)
    session.lost("cut")
    session.connected()
    sent = [int(line.split(b'"id":')[1].split(b",")[0]) for line in session.take_outgoing().splitlines()]
    assert sent == [*ids, late]


def test_nothing_was_done_means_later() -> None:
    """A daemon that is busy or stopping did nothing: any method is asked again, a bounded number of times."""
    session = connected()
    id_ = session.submit(OPEN)
    pauses = []
    while True:
        session.take_outgoing()
        (outcome,) = session.receive(refusal(id_, "store_busy", ',"retry_after_s":1'))
        if not isinstance(outcome, Later):
            break
        pauses.append(outcome.after_s)
        session.again(id_)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "store_busy"
    assert len(pauses) == 5
    assert min(pauses) >= 1


def test_asking_later_and_losing_the_connection_asks_once() -> None:
    """A call that waits for its pause is sent once by the next connection, not twice."""
    session = connected()
    id_ = session.submit(GET)
    session.take_outgoing()
    session.receive(refusal(id_, "stopping"))
    session.lost("cut")
    session.connected()
    session.again(id_)
    assert session.take_outgoing().count(b"\n") == 1
    session.again(id_)
    assert session.take_outgoing() == b""


def test_a_withdrawn_call_is_forgotten() -> None:
    """An answer that nobody waits for is dropped, and breaks nothing."""
    session = connected()
    id_ = session.submit(GET)
    session.take_outgoing()
    session.withdraw(id_)
    assert session.receive(answer(id_)) == ()
    session.withdraw(id_)
    unsent = session.submit(GET)
    session.withdraw(unsent)
    assert session.take_outgoing() == b""


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"[]\n",
        b"{}\n",
        b'{"jsonrpc":"2.0","id":"mine","result":{}}\n',
        b'{"jsonrpc":"2.0","id":1}\n',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}\n',
        b"\xff\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_answer_is_named(line: bytes) -> None:
    """The other end of a socket may be something else than safd."""
    session = connected()
    session.submit(GET)
    session.take_outgoing()
    with pytest.raises(AnswerMalformed, match="Is this safd's socket"):
        session.receive(line)


def test_lone_surrogates_and_big_numbers_come_through() -> None:
    """A result is the exact text, whatever the record holds."""
    exact = b'{"a":"\\ud800","b":12345678901234567890123,"c":1.10}'
    session = connected()
    session.submit(GET)
    session.take_outgoing()
    assert session.receive(answer(1, exact)) == (Answered(1, exact),)


def test_events_are_told_from_answers() -> None:
    """Notifications name their subscription; what is not durable has no seq; a word on another subject is let pass."""
    session = connected()
    head = b'{"jsonrpc":"2.0","method":"event","params":{"subscription":"sub_1",'
    outcomes = session.receive(
        head
        + b'"event":"user_message","id":4,"data":{"x":1.10}}}\n'
        + head
        + b'"event":"turn","data":{"y":"\\udfff"}}}\n'
        + b'{"jsonrpc":"2.0","method":"of_tomorrow","params":{}}\n'
        + head
        + b'"error":{"code":-32023,"message":"m","data":{"code":"principal_inconsistent","detail":"d"}}}}\n'
    )
    assert outcomes[:2] == (
        Notified("sub_1", "user_message", 4, b'{"x":1.10}'),
        Notified("sub_1", "turn", None, b'{"y":"\\udfff"}'),
    )
    (ended,) = outcomes[2:]
    assert isinstance(ended, Ended)
    assert ended.error.code == "principal_inconsistent"


def test_a_cursor_gives_each_durable_event_once() -> None:
    """After a reconnect the daemon may give again what was read; the rest is new."""
    cursor = Cursor(3)
    seen = [cursor.is_new(Notified("s", "m", seq, b"")) for seq in (2, 3, 4, None, 4, 5, None)]
    assert seen == [False, False, True, True, False, True, True]
    assert cursor.after == 5


def test_patience_is_bounded_and_comes_back() -> None:
    """Reconnecting begins at once, slows down, ends, and begins anew after one answer."""
    patience = Patience()
    pauses: list[float | None] = []
    for _ in range(RECONNECT_LIMIT + 1):
        patience.broke()
        pauses.append(patience.pause_s(1.0))
    assert pauses[0] == 0.0
    assert pauses[-1] is None
    known = [pause for pause in pauses if pause is not None]
    assert known == sorted(known)
    assert max(known) <= 2.0
    patience.broke()
    patience.answered()
    patience.broke()
    assert patience.pause_s(1.0) == 0.0


def test_jitter_never_makes_a_pause_longer_than_its_bound() -> None:
    """However often it broke, a pause is between half its step and two seconds."""
    for attempt in range(100):
        assert 0 < backoff_s(attempt, 0.0) <= backoff_s(attempt, 1.0) <= 2.0
