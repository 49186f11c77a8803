"""The shared ring: order, independence of followers, falling behind, bounds."""

import pytest
import trio
import trio.testing

from safd.api.events import LiveEvent
from safd.live.feed import Feed, FellBehind
from safd.model.errors import TooManyFollowers
from safd.model.ids import ConversationId

HERE = ConversationId("conv_here")
THERE = ConversationId("conv_there")


def event(seq: int) -> LiveEvent:
    return LiveEvent("user_message", seq, b"{}")


def taken_seqs(taken: object) -> list[int | None]:
    assert isinstance(taken, tuple)
    return [one.seq for one in taken]


def test_each_follower_sees_each_event_once_in_order() -> None:
    """Followers share a ring but not a position."""
    feed = Feed(8, 10)
    first = feed.follow(HERE)
    feed.publish(HERE, event(1))
    second = feed.follow(HERE)
    feed.publish(HERE, event(2))
    assert taken_seqs(first.take_nowait()) == [1, 2]
    assert taken_seqs(second.take_nowait()) == [2]
    assert taken_seqs(first.take_nowait()) == []


def test_conversations_do_not_mix() -> None:
    """An event reaches the followers of its own conversation and no others."""
    feed = Feed(8, 10)
    here, there = feed.follow(HERE), feed.follow(THERE)
    feed.publish(THERE, event(5))
    assert taken_seqs(here.take_nowait()) == []
    assert taken_seqs(there.take_nowait()) == [5]


@pytest.mark.parametrize("late", [0, 1, 7])
def test_a_slow_follower_is_told_that_it_fell_behind_once(late: int) -> None:
    """Beyond the ring a follower learns of the loss, then goes on with what comes next."""
    feed = Feed(4, 10)
    slow = feed.follow(HERE)
    for seq in range(1, 5 + late + 1):
        feed.publish(HERE, event(seq))
    assert slow.take_nowait() == FellBehind()
    assert taken_seqs(slow.take_nowait()) == []
    feed.publish(HERE, event(99))
    assert taken_seqs(slow.take_nowait()) == [99]


def test_a_full_ring_loses_nothing_for_a_follower_that_keeps_up() -> None:
    """Exactly as many events as the ring holds are all taken."""
    feed = Feed(4, 10)
    follower = feed.follow(HERE)
    for seq in range(1, 5):
        feed.publish(HERE, event(seq))
    assert taken_seqs(follower.take_nowait()) == [1, 2, 3, 4]


def test_what_nobody_follows_is_not_kept() -> None:
    """The last follower takes the ring with it; closing twice is harmless."""
    feed = Feed(4, 10)
    follower = feed.follow(HERE)
    assert feed.followed(HERE)
    follower.close()
    follower.close()
    assert not feed.followed(HERE)
    feed.publish(HERE, event(1))
    assert taken_seqs(feed.follow(HERE).take_nowait()) == []


def test_followers_of_one_conversation_are_bounded() -> None:
    """One more than the limit is refused by name, and a place that is given back can be taken again."""
    feed = Feed(4, 2)
    first = feed.follow(HERE)
    feed.follow(HERE)
    with pytest.raises(TooManyFollowers):
        feed.follow(HERE)
    first.close()
    feed.follow(HERE)
    assert feed.followers == 2


@pytest.mark.trio
async def test_a_waiting_follower_wakes_when_something_happens(autojump_clock: trio.testing.MockClock) -> None:
    """A wait returns for an event of before the wait, and for one of after it; never without one."""
    feed = Feed(4, 10)
    follower = feed.follow(HERE)
    feed.publish(HERE, event(1))
    await follower.wait_for_more()
    follower.take_nowait()
    with trio.move_on_after(100) as scope:
        await follower.wait_for_more()
    assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower.wait_for_more)
        await trio.testing.wait_all_tasks_blocked()
        feed.publish(HERE, event(2))
    assert taken_seqs(follower.take_nowait()) == [2]
