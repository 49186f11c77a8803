"""The daemon as systemd runs it: activated, watched, restarted, hardened; the socket outlives it."""

import json

import pytest

from tests.systemd.conftest import SAF, SAFD, WHOAMI, principal
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]
SERVICE = "safd.service"


def main_pid(machine: Machine) -> int:
    return int(machine.show(SERVICE, "MainPID"))


def test_the_first_message_activates_and_has_its_credentials(machine: Machine) -> None:
    """The daemon starts for an unprivileged caller, who is told who it is by the very message that started it."""
    machine.must("systemctl", "stop", SERVICE)
    assert machine.show(SERVICE, "ActiveState") == "inactive"
    told = principal(machine.in_unit(*WHOAMI, uid="casey"))
    assert (told["account"], told["posture"], told["pin"]) == ("casey", "borrowed", "peerpidfd")
    assert machine.show(SERVICE, "ActiveState") == "active"
    assert machine.show(SERVICE, "StatusText").startswith("serving")
    assert machine.must("stat", "-c", "%U %a", "/var/lib/safd") == "safd 700"
    assert machine.must("stat", "-c", "%U %a", "/run/safd") == "root 755"
    assert machine.must("stat", "-c", "%U %a", f"/proc/{main_pid(machine)}").startswith("safd")


def test_the_socket_outlives_the_daemon(machine: Machine) -> None:
    """Stopped, killed, broken: the next caller is answered, and what was stored is there."""
    made = machine.in_unit(SAF, "--json", "append", "new", "--text", "kept", uid="casey")
    assert made.code == 0, made
    conversation = json.loads(made.out)["conversation"]
    for ending in (["stop", SERVICE], ["kill", "--signal=KILL", SERVICE], ["kill", "--signal=SEGV", SERVICE]):
        before = main_pid(machine)
        machine.must("systemctl", *ending)
        shown = machine.in_unit(SAF, "show", conversation, uid="casey")
        assert shown.code == 0, (ending, shown)
        assert "kept" in shown.out
        assert main_pid(machine) not in {0, before}
    assert machine.show("safd.socket", "ActiveState") == "active"


def test_the_watchdog_ends_a_stuck_daemon(machine: Machine) -> None:
    """A daemon that hangs is killed without a core file, and its successor answers whoever waits."""
    assert principal(machine.in_unit(*WHOAMI))["posture"] == "privileged"
    before = main_pid(machine)
    machine.must("systemctl", "kill", "--signal=STOP", SERVICE)
    told = principal(machine.in_unit(*WHOAMI, uid="casey"))
    assert told["account"] == "casey"
    assert main_pid(machine) != before
    assert "Watchdog timeout" in machine.journal("-u", SERVICE)


def test_a_daemon_that_cannot_start_does_not_take_the_socket_down(machine: Machine) -> None:
    """It fails again and again with a sentence, callers wait at the socket, and once it is mended they are answered."""
    machine.must("systemctl", "stop", SERVICE)
    machine.must("mv", "/var/lib/safd/record.db", "/var/lib/safd/away.db")
    machine.must("install", "-m", "600", "-o", "safd", "/etc/passwd", "/var/lib/safd/record.db")
    machine.must("systemctl", "start", "--no-block", SERVICE)
    for _ in range(200):
        if int(machine.show(SERVICE, "NRestarts")) >= 3:
            break
        machine.must("sleep", "0.1")
    assert int(machine.show(SERVICE, "NRestarts")) >= 3
    assert machine.show("safd.socket", "ActiveState") == "active"
    assert "record.db" in machine.journal("-u", SERVICE)
    machine.must("mv", "/var/lib/safd/away.db", "/var/lib/safd/record.db")
    assert principal(machine.in_unit(*WHOAMI, uid="casey"))["account"] == "casey"


def test_stopping_is_clean(machine: Machine) -> None:
    """SIGTERM is success, and the store holds."""
    principal(machine.in_unit(*WHOAMI))
    machine.must("systemctl", "stop", SERVICE)
    assert machine.show(SERVICE, "Result") == "success"
    checked = machine.in_unit(SAFD, "check", "--store", "/var/lib/safd/record.db", uid="safd")
    assert checked.code == 0, checked


def test_hardened_and_not_blinded(machine: Machine) -> None:
    """Exposure at most 1.0 as systemd judges the running unit, and yet every fact about a caller is read."""
    score = machine.must("systemd-analyze", "security", "--json=short", "--no-pager", SERVICE)
    assert json.loads(score)
    overall = machine.must("systemd-analyze", "security", "--no-pager", SERVICE).splitlines()[-1]
    assert float(overall.split(":")[1].split()[0]) <= 1.0, overall
    verified = machine.enter("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", SERVICE, "safd.socket")
    assert (verified.code, verified.err) == (0, "")


def test_nothing_else_failed(machine: Machine) -> None:
    """No unit of the machine is in trouble, and the daemon logged no fault of its own."""
    assert machine.enter("systemctl", "--failed", "--plain", "--no-legend").out.strip() == ""
    assert "Traceback" not in machine.journal("-u", SERVICE)


def test_the_drift_service(machine: Machine) -> None:
    """It succeeds while all is as admitted, and fails while drift lasts."""
    override = f"[Service]\nExecStart=\nExecStart={SAF} drift --lasting 0.5 --every 0.1\n"
    machine.write("/run/systemd/system/saf-drift.service.d/short.conf", override)
    machine.must("systemctl", "daemon-reload")
    machine.must("systemctl", "start", "saf-drift.service")
    machine.write("/etc/saf/admissions.d/4242.toml", "uid = 1\n")
    try:
        assert machine.enter("systemctl", "start", "saf-drift.service").code != 0
        assert machine.show("saf-drift.service", "ExecMainStatus") == "4"
    finally:
        machine.must("rm", "/etc/saf/admissions.d/4242.toml")
        machine.must("systemctl", "reset-failed", "saf-drift.service")
