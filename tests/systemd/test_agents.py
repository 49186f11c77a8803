"""Agents as systemd runs them: each is told the truth about its account and its place."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.systemd.conftest import SAF, WHOAMI, kinds, principal
from tests.systemd.machine import Done, Machine

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
CLAIMING = (SAF, "--json", "--agent", "annie", "whoami")


@contextmanager
def changed(machine: Machine, unit: str, text: str) -> Iterator[None]:
    """With a drop-in of the administrator's."""
    path = f"/run/systemd/system/{unit}.d/changed.conf"
    machine.write(path, text)
    machine.must("systemctl", "daemon-reload")
    try:
        yield
    finally:
        machine.must("rm", path)
        machine.must("systemctl", "daemon-reload")


def resident(machine: Machine) -> Any:
    """What the resident was told, which it wrote into its state folder."""
    machine.must("systemctl", "start", "--wait", "saf-agent@annie.service")
    return principal(Done(code=0, out=machine.must("cat", "/var/lib/saf-agent/annie/seen"), err=""))


def test_resident(machine: Machine) -> None:
    """The shipped template: its own account, its own unit, no drift."""
    told = resident(machine)
    assert (told["posture"], told["agent"], told["account"], kinds(told)) == ("resident", "annie", "annie", [])
    assert told["node"]["id"] == machine.machine_id


def caseys(machine: Machine, agent: str) -> Any:
    """What an agent was told that casey's own manager ran from the shipped user template."""
    uid = machine.must("id", "-u", "casey")
    become = ("setpriv", "--reuid=casey", "--regid=casey", "--init-groups", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}")
    machine.must(*become, "systemctl", "--user", "start", "--wait", f"saf-agent@{agent}.service")
    return principal(Done(code=0, out=machine.must("cat", "/home/casey/seen"), err=""))


def test_borrower(machine: Machine) -> None:
    """The shipped user template in the person's own manager."""
    told = caseys(machine, "kitty")
    assert (told["posture"], told["agent"], told["account"]) == ("borrowed", "kitty", "casey")
    assert "casey" in told["text"]


def test_a_unit_whose_user_was_changed(machine: Machine) -> None:
    """The unit is right, the account is a person's: it does not hold the account that it was meant to have."""
    machine.must("install", "-d", "-o", "casey", "/var/lib/saf-agent/annie")
    with changed(machine, "saf-agent@annie.service", "[Service]\nUser=casey\n"):
        told = resident(machine)
    assert told["posture"] == "drifted"
    assert "account_mismatch" in kinds(told)
    assert told["expected"]["account"] == "annie"
    machine.must("rm", "-r", "/var/lib/saf-agent/annie")


def test_a_unit_whose_user_was_emptied(machine: Machine) -> None:
    """It runs as root, and is told that it speaks as root and as no agent."""
    with changed(machine, "saf-agent@annie.service", "[Service]\nUser=\n"):
        told = resident(machine)
    assert told["posture"] == "privileged"
    assert told["agent"] is None
    machine.must("rm", "-r", "/var/lib/saf-agent/annie")


def test_another_unit_of_the_same_account(machine: Machine) -> None:
    """The account is right, the place is not."""
    told = principal(machine.in_unit(*CLAIMING, uid="annie", unit="other.service"))
    assert told["posture"] == "drifted"
    assert set(kinds(told)) == {"unit_mismatch", "no_new_privs_absent"}


@pytest.mark.parametrize(
    "become", [["su", "annie", "-s", "/bin/sh", "-c"], ["runuser", "-u", "annie", "--", "/bin/sh", "-c"]]
)
def test_becoming_the_agent_by_hand(machine: Machine, become: list[str]) -> None:
    """Root that steps into the agent's account has its uid and not its place: drifted, and told so."""
    told = principal(machine.in_unit(*become, " ".join(CLAIMING)))
    assert (told["posture"], told["account"]) == ("drifted", "annie")
    assert {"unit_mismatch", "unit_user_managed"} & set(kinds(told))


def test_a_name_that_looks_alike(machine: Machine) -> None:
    """A person's own unit of the agent's name is that person's word: it neither is the agent nor its place."""
    told = caseys(machine, "annie")
    assert told["posture"] == "drifted"
    assert told["account"] == "casey"
    assert "account_mismatch" in kinds(told)


def test_revoked_between_two_runs(machine: Machine) -> None:
    """What the administrator takes back holds from the next request on."""
    kitty = (SAF, "--json", "--agent", "kitty", "whoami")
    assert principal(machine.in_person("casey", *kitty))["posture"] == "borrowed"
    machine.must(SAF, "dismiss", "kitty")
    try:
        assert principal(machine.in_person("casey", *kitty))["posture"] == "unadmitted"
    finally:
        machine.must(SAF, "admit", "kitty", "--account", "casey", "--mode", "borrowed")


def test_a_change_is_in_the_journal(machine: Machine) -> None:
    """With fields that one can search by; once, however often it asks."""
    for _ in range(3):
        machine.in_unit(*CLAIMING, uid="annie", unit="other.service")
    machine.must("journalctl", "--sync")
    found = machine.must("journalctl", "--no-pager", "-o", "json", "SAFD_EVENT=posture", "SAFD_ACCOUNT=annie")
    lines = [json.loads(line) for line in found.splitlines()]
    assert lines
    assert {line["SAFD_POSTURE"] for line in lines} == {"drifted"}
    drifts = [line["SAFD_DRIFT"] for line in lines]
    assert len(drifts) == len(set(drifts))


def test_a_sandboxed_agent(machine: Machine) -> None:
    """An agent that sees neither network nor processes reaches the socket and is known."""
    sandbox = "[Service]\nPrivateNetwork=yes\nProtectProc=invisible\nPrivateTmp=yes\nProtectSystem=strict\n"
    with changed(machine, "saf-agent@annie.service", sandbox):
        assert resident(machine)["posture"] == "resident"


def test_nobody_in_particular(machine: Machine) -> None:
    """A system account without an admission is told that it is nobody's agent."""
    assert principal(machine.in_unit(*WHOAMI, uid="daemon"))["posture"] == "unadmitted"
