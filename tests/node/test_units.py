"""The shipped units, judged by systemd's own tools without a running systemd, and the lines that must not go."""

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
SYSTEM = ("safd.service", "safd.socket", "saf-agent@annie.service", "saf-drift.service", "saf-drift.timer")
USER = ("safd.service", "safd.socket", "saf-agent@kitty.service")

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def _lines(name: str) -> list[str]:
    return [line for line in (UNITS / name).read_text().splitlines() if line and not line.startswith(("#", ";"))]


def _settings(name: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in _lines(name) if line.startswith(f"{key}=")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with the targets and slices that units name, and stubs of the programs that they start."""
    installed = tmp_path / "etc/systemd/system"
    installed.mkdir(parents=True)
    for target in (
        "basic",
        "sockets",
        "multi-user",
        "default",
        "timers",
        "time-sync",
        "time-set",
        "sysinit",
        "shutdown",
        "nss-user-lookup",
    ):
        (installed / f"{target}.target").write_text("[Unit]\nDescription=stub\n")
    for slices in ("-.slice", "system.slice", "app.slice", "system-saf\\x2dagent.slice"):
        (installed / slices).write_text("[Unit]\nDescription=stub\n")
    for program in ("opt/safd/bin/safd", "opt/safd/bin/saf", "opt/saf-agents/annie/run", "opt/saf-agents/kitty/run"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


def _install(tree: Path, manager: str) -> Path:
    """A person's units are installed as if they were the system's: the tool takes no other root for a person's."""
    installed = tree / "etc/systemd/system"
    for unit in (UNITS / manager).iterdir():
        shutil.copy(unit, installed)
    return installed


def _verify(tree: Path, names: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    units = [f"{tree}/etc/systemd/system/{name}" for name in names]
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"--root={tree}", *units],
        check=False,
        capture_output=True,
        text=True,
    )


@analyze
@pytest.mark.parametrize(("manager", "names"), [("system", SYSTEM), ("user", USER)])
def test_units_are_understood(tree: Path, manager: str, names: tuple[str, ...]) -> None:
    """Every key is known, every value parses, every program is where the unit says."""
    _install(tree, manager)
    verified = _verify(tree, names)
    assert (verified.returncode, verified.stderr) == (0, "")


@analyze
def test_a_mistake_would_be_seen(tree: Path) -> None:
    """The check above can fail: an unknown key and a program that is not there are both found."""
    unit = _install(tree, "system") / "safd.service"
    good = unit.read_text()
    unit.write_text(good.replace("[Service]", "[Service]\nProtectEverything=yes"))
    assert _verify(tree, ("safd.service",)).returncode != 0
    unit.write_text(good.replace("/opt/safd/bin/safd", "/opt/safd/bin/nothing"))
    assert _verify(tree, ("safd.service",)).returncode != 0


@analyze
@pytest.mark.parametrize(("unit", "threshold"), [("safd.service", 5), ("saf-agent@.service", 22)])
def test_exposure(unit: str, threshold: int) -> None:
    """The sandbox is as tight as the work allows (tenths; 5 is the floor of a daemon that reads other users' /proc)."""
    judged = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--no-pager",
            f"--threshold={threshold}",
            str(UNITS / "system" / unit),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert judged.returncode == 0, judged.stdout.splitlines()[-1]


@pytest.mark.parametrize("manager", ["system", "user"])
def test_what_the_daemon_lives_on(manager: str) -> None:
    """The lines without which safd is blind, loses its socket, or writes conversations into a core file."""
    socket, service = f"{manager}/safd.socket", f"{manager}/safd.service"
    assert _settings(socket, "PassCredentials") == ["yes"]
    assert _settings(socket, "RemoveOnStop") == []
    assert _settings(service, "RuntimeDirectory") == []
    assert _settings(service, "ProtectProc") in (["default"], [])
    assert _settings(service, "ProcSubset") == []
    assert _settings(service, "PrivateUsers") in (["no"], [])
    assert _settings(service, "DynamicUser") == []
    assert _settings(service, "StartLimitIntervalSec") == ["0"]
    assert _settings(service, "Restart") == ["always"]
    assert _settings(service, "LimitCORE") == ["0"]
    assert _settings(service, "Type") == ["notify"]
    assert _settings(service, "WatchdogSec")


def test_what_a_resident_lives_on() -> None:
    """A resident keeps its unit and its uid: nothing moves it into a session or into a namespace."""
    unit = "system/saf-agent@.service"
    assert _settings(unit, "User") == ["%i"]
    for key in ("PAMName", "DynamicUser", "PrivateUsers", "PrivatePIDs"):
        assert _settings(unit, key) == []
    assert "AF_UNIX" in _settings(unit, "RestrictAddressFamilies")[0]
    assert _settings(unit, "NoNewPrivileges") == ["yes"]


def _tool(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True)


@pytest.mark.root
def test_accounts_are_made(tmp_path: Path) -> None:
    """The sysusers file makes the daemon's account and the administrators' group."""
    (tmp_path / "etc").mkdir()
    made = _tool("systemd-sysusers", f"--root={tmp_path}", str(UNITS / "sysusers.d/safd.conf"))
    assert made.returncode == 0, made.stderr
    assert "safd:x:" in (tmp_path / "etc/passwd").read_text()
    assert {"safd", "saf-admin"} <= {
        line.partition(":")[0] for line in (tmp_path / "etc/group").read_text().split("\n")
    }


@pytest.mark.root
def test_folders_are_made(tmp_path: Path) -> None:
    """The tmpfiles file makes root's folders with the modes that the daemon and its clients demand."""
    made = _tool("systemd-tmpfiles", f"--root={tmp_path}", "--create", str(UNITS / "tmpfiles.d/safd.conf"))
    assert made.returncode == 0, made.stderr
    for name in ("run/safd", "etc/saf/admissions.d"):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_mode & 0o7777) == (0, 0o755)
