"""Turns end with the process they depend on, and only with that one."""

import os
import subprocess
import sys

import pytest
import trio
import trio.testing

from safd.live.turns import TurnWatch
from safd.model.ids import TurnId

TURN = TurnId("turn_1")


def waiting_child() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


@pytest.mark.trio
async def test_the_death_of_the_process_is_told_once() -> None:
    """A killed process ends its turn; its descriptor is closed and nothing stays watched."""
    told: list[str] = []
    with waiting_child() as child:
        pidfd = os.pidfd_open(child.pid)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                watch = TurnWatch(nursery)

                async def exited() -> None:
                    await trio.lowlevel.checkpoint()
                    told.append("exited")

                watch.start(TURN, pidfd, exited)
                await trio.testing.wait_all_tasks_blocked()
                assert told == []
                child.kill()
    assert told == ["exited"]
    assert watch.watched == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)


@pytest.mark.trio
async def test_a_turn_that_was_closed_no_longer_hears_of_its_process() -> None:
    """After stop the process may die unheard; stopping an unknown turn is nothing."""
    told: list[str] = []
    with waiting_child() as child:
        pidfd = os.pidfd_open(child.pid)
        async with trio.open_nursery() as nursery:
            watch = TurnWatch(nursery)

            async def exited() -> None:
                await trio.lowlevel.checkpoint()
                told.append("exited")

            watch.start(TURN, pidfd, exited)
            await trio.testing.wait_all_tasks_blocked()
            watch.stop(TURN)
            watch.stop(TurnId("turn_other"))
        child.kill()
    assert told == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)
