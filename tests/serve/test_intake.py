"""Bytes and their senders: no byte loses its writer, however reads and requests fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.model.errors import BuffersFull, RequestTooLarge
from safd.model.ids import Gid, Pid, Uid
from safd.principal.facts import Credentials, NoCredentials, Sender
from safd.serve.intake import Budget, Intake, Share, Trail

SENDERS: list[Sender] = [Credentials(pid=Pid(n), uid=Uid(n), gid=Gid(n)) for n in (1, 2, 3)] + [NoCredentials()]


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(SENDERS)), max_size=12), st.data())
def test_each_byte_keeps_its_sender(chunks: list[tuple[int, Sender]], data: st.DataObject) -> None:
    """Whatever stretch is consumed, its senders are exactly those who wrote its bytes."""
    trail = Trail()
    written: list[Sender] = []
    for size, sender in chunks:
        trail.add(size, sender)
        written += [sender] * size
        taken = data.draw(st.integers(0, len(written)))
        assert trail.consume(taken) == frozenset(written[:taken])
        del written[:taken]


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=8).map(lambda raw: raw.replace(b"x", b"\n")), st.sampled_from(SENDERS)
        ),
        max_size=12,
    )
)
def test_lines_with_their_senders(chunks: list[tuple[bytes, Sender]]) -> None:
    """Lines come out as they went in, each with the senders of its own bytes and of its line feed."""
    intake = Intake(1000)
    found: list[tuple[bytes, frozenset[Sender]]] = []
    for raw, sender in chunks:
        intake.feed(raw, sender)
        while (taken := intake.take_line()) is not None:
            found.append(taken)
    found.append(intake.take_rest())
    text = b"".join(raw for raw, _ in chunks)
    writers = [sender for raw, sender in chunks for _ in raw]
    expected: list[tuple[bytes, frozenset[Sender]]] = []
    at = 0
    for line in text.split(b"\n"):
        end = min(at + len(line) + 1, len(text))
        expected.append((line, frozenset(writers[at:end])))
        at = end
    assert found == expected


def test_a_chunk_that_holds_two_requests_marks_both() -> None:
    """What is left over after a request keeps the sender of its chunk."""
    intake = Intake(1000)
    intake.feed(b"on", SENDERS[0])
    intake.feed(b"e\ntwo\nth", SENDERS[1])
    intake.feed(b"ree\n", SENDERS[2])
    assert intake.take_line() == (b"one", frozenset(SENDERS[:2]))
    assert intake.take_line() == (b"two", frozenset(SENDERS[1:2]))
    assert intake.take_line() == (b"three", frozenset(SENDERS[1:3]))
    assert intake.take_line() is None


def test_handing_over_keeps_chunks_apart() -> None:
    """A face that keeps bytes itself gets them stretch by stretch, space before the first request left out."""
    intake = Intake(1000)
    intake.feed(b" \r\n", SENDERS[2])
    assert intake.skip_space() is None
    intake.feed(b"\nGE", SENDERS[0])
    intake.feed(b"T", SENDERS[1])
    assert intake.skip_space() == ord("G")
    assert list(intake.hand_over()) == [(b"GE", SENDERS[0]), (b"T", SENDERS[1])]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_has_a_limit(end: bytes) -> None:
    """Too long is too long, with or without its end."""
    intake = Intake(10)
    intake.feed(b"x" * 10 + end, SENDERS[0])
    assert intake.take_line() == ((b"x" * 10, frozenset(SENDERS[:1])) if end else None)
    intake = Intake(10)
    intake.feed(b"x" * 11 + end, SENDERS[0])
    with pytest.raises(RequestTooLarge):
        intake.take_line()


def test_an_account_shares_its_budget() -> None:
    """A share grows with its request, the account's others get what is left, and what was held comes back whole."""
    budget = Budget(100)
    one, two = Share(budget, 1000), Share(budget, 1000)
    one.hold(60)
    one.hold(40)
    assert budget.used == 60
    two.hold(40)
    with pytest.raises(BuffersFull):
        two.hold(41)
    one.release()
    two.hold(100)
    two.release()
    two.release()
    assert budget.used == 0


def test_accounts_do_not_share() -> None:
    """What one account holds is nothing to another."""
    budget = Budget(100)
    one, two = Share(budget, 1000), Share(budget, 1001)
    one.hold(100)
    two.hold(100)
    assert budget.used == 200
    with pytest.raises(BuffersFull) as refused:
        two.hold(101)
    assert refused.value.uid == 1001
    one.release()
    two.release()
    assert budget.used == 0
