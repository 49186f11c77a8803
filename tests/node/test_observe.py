"""The observer: its order, its lists of accounts, and a daemon that cannot see."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from safd.model.admissions import AccountAdmission
from safd.model.ids import Uid
from safd.model.principals import Posture
from safd.node import nss
from safd.node.accounts import Accounts
from safd.principal.facts import AdmissionInvalid, Elsewhere, Exited, NamesUnavailable, NoAdmission, Process
from tests.node.callers import ANNIE, CASEY, RESIDENT, Caller, World, kinds, world

__all__ = ["world"]

pytestmark = pytest.mark.trio

_STAFF = 61044


async def test_lists_of_accounts_and_groups(world: World) -> None:
    """A name includes the uid that bears it, an @group the processes that hold it; an unknown word includes nobody."""
    match = world.observer.accounts_match
    assert await match(("annie",), ANNIE, frozenset())
    assert not await match(("annie",), CASEY, frozenset())
    assert await match(("casey", "@video"), ANNIE, frozenset({_STAFF}))
    assert not await match(("@video",), ANNIE, frozenset({7}))
    assert not await match((), ANNIE, frozenset({_STAFF}))
    assert not await match((str(ANNIE), f"@{_STAFF}", "@", "@nobody-knows", "nobody-knows"), ANNIE, frozenset({_STAFF}))


async def test_administrators(world: World) -> None:
    """Root, and whoever holds the group saf-admin; while there is no such group, root alone."""
    administrates = world.observer.is_administrator
    assert await administrates(0, frozenset())
    assert not await administrates(ANNIE, frozenset({61077}))
    with (world.folder / "group").open("a") as file:
        file.write("saf-admin:x:61077:\n")
    assert await administrates(ANNIE, frozenset({61077}))
    assert not await administrates(CASEY, frozenset({61001}))


async def test_admissions_of_others_and_of_all(world: World) -> None:
    """Any uid's admission can be asked for, as an owner's readers are; and all of them, broken ones among them."""
    world.admit(RESIDENT)
    (world.admissions / "7.toml").write_text("broken")
    read = world.observer.admission(Uid(ANNIE))
    assert isinstance(read, AccountAdmission)
    assert world.observer.admission(Uid(CASEY)) == NoAdmission()
    assert [type(item) for item in await world.observer.read_all()] == [AdmissionInvalid, AccountAdmission]


async def test_a_claim_is_looked_up_only_to_tell_where_it_belongs(world: World) -> None:
    """Without a claim nothing else is searched; with one the places are facts, and an end during that look is seen."""
    (world.admissions / "7.toml").write_text('uid = 7\naccount = "dora"\n[agents.dora]\nmode = "resident"\n')
    caller = world.caller(ANNIE if os.getuid() == 0 else None)  # root is told that it is root, and nothing is searched
    caller.connect()
    accepted = world.accept()
    senders = frozenset({accepted.pin.sender})
    assert (await world.observer.observe(accepted.pin, senders, None)).elsewhere is None
    facts = await world.observer.observe(accepted.pin, senders, "dora")
    assert isinstance(facts.elsewhere, Elsewhere)
    assert [place.account for place in facts.elsewhere.places] == ["dora"]
    assert isinstance(facts.process, Process)
    caller.end()
    assert isinstance((await world.observer.observe(accepted.pin, senders, "dora")).process, Exited)


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> list[Caller]:
    """A name service during whose question the caller ends."""
    callers: list[Caller] = []

    def end(_: object) -> None:
        for caller in callers:
            caller.end()

    monkeypatch.setattr(nss, "name_of_uid", end)
    return callers


async def test_alive_is_asked_last(world: World, ending: list[Caller]) -> None:
    """What was read is worth nothing when the process is gone at the end, however good it was."""
    (world.folder / "nsswitch.conf").write_text("passwd: sss files\ngroup: files\n")
    caller = world.caller()
    caller.connect()
    accepted = world.accept()
    ending.append(caller)
    facts = await world.observer.observe(accepted.pin, frozenset({accepted.pin.sender}), None)
    assert facts.process == Exited(noticed="it ended while it was examined")


async def test_a_silent_name_service_costs_its_deadline_and_a_note(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is answered with what is known, and the silence is told."""
    release = threading.Event()
    monkeypatch.setattr(nss, "name_of_uid", lambda _: release.wait(60) and None)
    (world.folder / "nsswitch.conf").write_text("passwd: sss files\ngroup: files\n")
    world.observer._accounts = Accounts(
        0.01, passwd=world.folder / "passwd", group=world.folder / "group", nsswitch=world.folder / "nsswitch.conf"
    )
    caller = world.caller()
    caller.connect()
    accepted = world.accept()
    try:
        facts = await world.observer.observe(accepted.pin, frozenset({accepted.pin.sender}), None)
    finally:
        release.set()
    assert isinstance(facts.names, NamesUnavailable)
    assert isinstance(facts.process, Process)


_HIDDEN = """
import ctypes, sys
import attrs, trio
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):  # a mount namespace, all of it private
    sys.exit(77)
if libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=" + sys.argv[1].encode()):
    sys.exit(77)
from tests.node.callers import ANNIE, Kernel, RESIDENT, kinds, open_world
async def main():
    for without in ({}, {"peer_pidfd": False}, {"pidfd_info": False}):
        with open_world(attrs.evolve(Kernel.probe(), **without)) as world:
            world.admit(RESIDENT)
            principal = await world.asked(world.caller(ANNIE))
            print(principal.posture, *kinds(principal))
trio.run(main)
"""


@pytest.mark.root
@pytest.mark.parametrize("hidden", ["1", "2"])
async def test_a_daemon_that_cannot_see_says_so(hidden: str) -> None:
    """Where /proc hides others from safd, evidence is denied: nobody is clean because nothing was seen."""
    run = subprocess.run(  # noqa: ASYNC221 - nothing else runs in this test
        [sys.executable, "-c", _HIDDEN, hidden],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    if run.returncode == 77:
        pytest.skip("mount namespaces are not permitted here")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["unresolvable evidence_denied"] * 3


async def test_the_very_caller(world: World) -> None:
    """Whoever runs the tests comes out as nobody's agent, or as root."""
    principal = await world.asked(world.caller())
    assert principal.posture is (Posture.PRIVILEGED if os.getuid() == 0 else Posture.UNADMITTED)
    assert kinds(principal) == ()
