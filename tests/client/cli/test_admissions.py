"""`saf admit`, `dismiss` and `admissions`: the administrator's files from a shell."""

import grp
import json
import os
import pwd
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from saf_client.cli import app
from tests.client.cli.conftest import Saf

NAMES = {"daemon": pwd.getpwnam("daemon").pw_uid, "bin": pwd.getpwnam("bin").pw_uid}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "admissions.d"


def held(folder: Path, account: str) -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((folder / f"{NAMES[account]}.toml").read_text(encoding="utf-8"))
    return found


def test_admit_says_everything(saf: Saf, folder: Path) -> None:
    """Each option is a line of the file that the daemon reads."""
    done = saf(
        *("admit", "hermes", "--account", "daemon", "--mode", "resident", "--any-account", "--admissions", folder),
        *("--unit", "saf-agent@hermes.service", "--node", "0" * 32, "--group", "audio", "--group", "video"),
        *("--reader", "casey", "--reader", "@staff", "--operator", "casey", "--not-before", "2026-01-01T00:00:00Z"),
        *("--expires", "2027-01-01T00:00:00+01:00", "--no-new-privs", "--seccomp", "--pinned"),
    )
    assert done.code == 0, done.err
    found = json.loads(json.dumps(held(folder, "daemon"), default=str))
    assert found == {
        "uid": NAMES["daemon"],
        "account": "daemon",
        "agents": {
            "hermes": {
                "mode": "resident",
                "node": "0" * 32,
                "unit": "saf-agent@hermes.service",
                "groups": ["audio", "video"],
                "readers": ["casey", "@staff"],
                "operators": ["casey"],
                "not_before": "2026-01-01 00:00:00+00:00",
                "expires": "2027-01-01 00:00:00+01:00",
                "no_new_privs": True,
                "seccomp": True,
                "pinned": True,
            }
        },
    }


def test_an_account_by_its_number(saf: Saf, folder: Path) -> None:
    """A number is looked up, and the file holds the account's name; where there is none, it is refused."""
    saf("admit", "hermes", "--account", str(NAMES["daemon"]), "--mode", "borrowed", "--admissions", folder)
    assert held(folder, "daemon")["account"] == "daemon"
    free = next(uid for uid in range(60_001, 61_000) if not _is_account(uid))
    done = saf("admit", "hermes", "--account", str(free), "--mode", "resident", "--admissions", folder)
    assert done.code == 2
    assert str(free) in done.err


def _is_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def passwd(name: str, uid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh"))


def test_a_name_of_digits_is_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an account is called 1001, that is the account that is meant, not the one whose uid is 1001."""
    accounts = [passwd("1001", 2002), passwd("annie", 1001), passwd("casey", 3003)]
    monkeypatch.setattr(pwd, "getpwnam", {one.pw_name: one for one in accounts}.__getitem__)
    monkeypatch.setattr(pwd, "getpwuid", {one.pw_uid: one for one in accounts}.__getitem__)
    for account, uid, name in (("1001", 2002, "1001"), ("3003", 3003, "casey"), ("2002", 2002, "1001")):
        arguments = ["admit", "hermes", "--account", account, "--mode", "borrowed", "--admissions", str(folder)]
        assert app.run(arguments) == 0
        found = tomllib.loads((folder / f"{uid}.toml").read_text(encoding="utf-8"))
        assert (found["uid"], found["account"]) == (uid, name)
    for odd in ("\u0661\u0660\u0660\u0661", "+1001", " 1001", "9" * 30, "-1"):
        assert app.run(["admit", "x", "--account", odd, "--mode", "borrowed", "--admissions", str(folder)]) == 2


def test_a_group_of_digits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rule: a group's name where one is called so, else its number; the file tells them apart."""
    monkeypatch.setattr(grp, "getgrnam", {"44": grp.struct_group(("44", "x", 900, []))}.__getitem__)
    options = ["--group", "44", "--group", "45", "--group", "video"]
    arguments = ["admit", "hermes", "--account", "daemon", "--mode", "borrowed", "--admissions", str(folder)]
    assert app.run(arguments + options) == 0
    (agent,) = held(folder, "daemon")["agents"].values()  # type: ignore[attr-defined]
    assert agent["groups"] == ["44", 45, "video"]


def test_a_file_that_cannot_be_read_is_not_written_over(saf: Saf, folder: Path) -> None:
    """What is no admission, or no text, stays as it is: the sentence names it."""
    folder.mkdir()
    path = folder / f"{NAMES['daemon']}.toml"
    for broken in (b"\xff", b"uid = ", b"uid = 1\n", b""):
        path.write_bytes(broken)
        for command in (["admit", "hermes", "--mode", "borrowed"], ["dismiss", "hermes"]):
            done = saf(*command, "--account", "daemon", "--admissions", folder)
            assert done.code == 1, (broken, command, done)
            assert path.name in done.err
        assert path.read_bytes() == broken


def test_dry_run(saf: Saf, folder: Path) -> None:
    """It shows what would be written, and writes nothing, not even the folder."""
    done = saf("admit", "hermes", "--account", "bin", "--mode", "borrowed", "--admissions", folder, "--dry-run")
    assert done.code == 0
    assert "[agents.hermes]" in done.out
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hermes", "--account", "no-such-account", "--mode", "resident"], "no-such-account"),
        (["hermes", "--account", "root", "--mode", "resident"], "root"),
        (["hermes", "--account", "0", "--mode", "resident"], "root"),
        (["hermes", "--account", "nobody", "--mode", "resident"], "nobody"),
        (["hermes", "--account", "daemon", "--mode", "guest"], "guest"),
        (["hermes", "--account", "daemon", "--mode", "resident"], "one of the system's own accounts"),
        (["hermes", "--account", "no such", "--mode", "resident", "--create-account"], "'no such'"),
        (["hermes", "--account", "daemon"], "--mode"),
        (["hermes", "--mode", "resident"], "--account"),
        (["her mes", "--account", "daemon", "--mode", "borrowed"], "AGENT"),
        (["hermes", "--account", "daemon", "--mode", "borrowed", "--expires", "soon"], "--expires"),
    ],
)
def test_bad_use(saf: Saf, folder: Path, arguments: list[str], said: str) -> None:
    """What cannot be admitted is refused before anything is written."""
    done = saf("admit", *arguments, "--admissions", folder)
    assert done.code == 2, done.err
    assert said in done.err
    assert not folder.exists()


@pytest.mark.parametrize(
    "option", [["--unit", "x.mount"], ["--node", "here!"], ["--reader", "a b"], ["--group", "a,b"]]
)
def test_what_the_daemon_would_not_read(saf: Saf, folder: Path, option: list[str]) -> None:
    """A text that would make the whole file invalid is wrong use, and never written."""
    done = saf("admit", "hermes", "--account", "daemon", "--mode", "borrowed", *option, "--admissions", folder)
    assert done.code == 2, done.err
    assert option[0].removeprefix("--") in done.err
    assert not list(folder.glob("*")) if folder.exists() else True


def test_dismiss(saf: Saf, folder: Path) -> None:
    """One of several goes and the rest stays; the file goes with the last; nobody is an answer of its own."""
    for agent in ("hermes", "iris"):
        saf("admit", agent, "--account", "daemon", "--mode", "borrowed", "--admissions", folder)
    assert saf("dismiss", "hermes", "--admissions", folder).code == 0
    assert list(dict(held(folder, "daemon")["agents"])) == ["iris"]  # type: ignore[call-overload]
    assert saf("dismiss", "hermes", "--admissions", folder).code == 3
    assert saf("dismiss", "hermes", "--account", "daemon", "--admissions", folder).code == 3
    assert saf("dismiss", "iris", "--admissions", folder).code == 0
    assert list(folder.iterdir()) == []


def test_dismiss_where_it_is_admitted_twice(saf: Saf, folder: Path) -> None:
    """Which account is meant must be said."""
    for account in ("daemon", "bin"):
        saf("admit", "hermes", "--account", account, "--mode", "borrowed", "--admissions", folder)
    unclear = saf("dismiss", "hermes", "--admissions", folder)
    assert unclear.code == 2
    assert "--account" in unclear.err
    assert saf("dismiss", "hermes", "--account", "bin", "--admissions", folder).code == 0
    assert [path.name for path in folder.iterdir()] == [f"{NAMES['daemon']}.toml"]


def test_broken_files_hide_no_other(saf: Saf, folder: Path) -> None:
    """A file that is no admission is told, and the agent is dismissed all the same."""
    saf("admit", "hermes", "--account", "daemon", "--mode", "borrowed", "--admissions", folder)
    (folder / "4241.toml").write_text("uid = ", encoding="ascii")
    (folder / "4243.toml").write_bytes(b"\xff")
    done = saf("dismiss", "hermes", "--admissions", folder)
    assert done.code == 0, done.err
    assert "4241.toml" in done.err
    assert "4243.toml" in done.err
    assert saf("dismiss", "hermes", "--admissions", folder).code == 1


def test_dismiss_of_an_account_that_is_gone(saf: Saf, folder: Path) -> None:
    """Its file is found by the uid."""
    folder.mkdir()
    free = next(uid for uid in range(60_001, 61_000) if not _is_account(uid))
    path = folder / f"{free}.toml"
    path.write_text(f'uid = {free}\naccount = "gone"\n[agents.hermes]\nmode = "resident"\n', encoding="ascii")
    assert saf("dismiss", "hermes", "--account", str(free), "--admissions", folder).code == 0
    assert not path.exists()


def test_two_residents(saf: Saf, folder: Path) -> None:
    """One account is one resident's, unless one says that they share it; admitting the same one again is fine."""
    admit = ("--account", "daemon", "--mode", "resident", "--any-account", "--admissions", folder)
    assert saf("admit", "hermes", *admit).code == 0
    assert saf("admit", "hermes", *admit, "--unit", "a.service").code == 0
    refused = saf("admit", "iris", *admit)
    assert refused.code == 2
    assert "hermes" in refused.err
    assert saf("admit", "iris", *admit, "--share").code == 0


def test_admissions(saf: Saf, folder: Path) -> None:
    """Who is admitted, as a table and as JSON; a broken file is told and is a failure; nobody is an answer."""
    assert saf("admissions", "--admissions", folder).code == 3
    saf("admit", "hermes", "--account", "daemon", "--mode", "borrowed", "--reader", "casey", "--admissions", folder)
    listed = saf("admissions", "--admissions", folder)
    assert listed.code == 0
    assert all(word in listed.out for word in ("hermes", "borrowed", "daemon", "casey"))
    (folder / "4241.toml").write_text("uid = 1", encoding="ascii")
    broken = saf("--json", "admissions", "--admissions", folder)
    assert broken.code == 1
    assert [sorted(one) for one in broken.json["files"]] == [["account", "agents", "path", "uid"], ["path", "problem"]]


@pytest.mark.root
@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="needs systemd-sysusers")
def test_an_account_is_made(saf: Saf, folder: Path) -> None:
    """A system account of its own, in which nobody logs in; said beforehand by --dry-run, which makes nothing."""
    name = "saft-made"
    admit = ("admit", "hermes", "--account", name, "--mode", "resident", "--create-account", "--admissions", folder)
    try:
        assert f"u {name} -" in saf(*admit, "--dry-run").out
        with pytest.raises(KeyError):
            pwd.getpwnam(name)
        done = saf(*admit)
        assert done.code == 0, done.err
        made = pwd.getpwnam(name)
        assert 100 <= made.pw_uid < 1000
        assert made.pw_shell.endswith("nologin")
        assert (folder / f"{made.pw_uid}.toml").exists()
        assert saf(*admit).code == 0
    finally:
        subprocess.run(["userdel", name], capture_output=True, check=False)


@pytest.mark.root
def test_a_person_is_no_residents_account(saf: Saf, folder: Path) -> None:
    """An account with a shell is somebody's; the sentence says what to do instead."""
    subprocess.run(["useradd", "--shell", "/bin/bash", "--no-create-home", "saft-person"], check=True)
    try:
        admit = ("admit", "hermes", "--account", "saft-person", "--mode", "resident", "--admissions", folder)
        done = saf(*admit)
        assert done.code == 2
        assert "/bin/bash" in done.err
        assert "--create-account" in done.err
        assert saf(*admit, "--any-account").code == 0
    finally:
        subprocess.run(["userdel", "saft-person"], capture_output=True, check=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write the system's folder")
def test_the_systems_folder_is_roots(saf: Saf) -> None:
    """Without --admissions one is told to use sudo."""
    done = saf("admit", "hermes", "--account", "daemon", "--mode", "resident")
    assert done.code == 2
    assert "sudo" in done.err
