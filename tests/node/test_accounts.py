"""Names: the files inline and fresh, the service in a thread with a deadline, silence never an answer."""

import errno
import os
import pwd
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from safd.node import nss
from safd.node.accounts import Accounts
from safd.principal.facts import (
    AccountNames,
    AccountUid,
    AccountUnknown,
    GroupGid,
    GroupUnavailable,
    GroupUnknown,
    NamesUnavailable,
)

pytestmark = pytest.mark.trio

PASSWD = """root:x:0:0:root:/root:/bin/sh
# a comment
+@netgroup:::::
annie:x:61001:61001::/:/bin/sh
anna:x:61001:61001::/:/bin/sh
annie:x:61009:61001::/:/bin/sh
123:x:61005:61005::/:/bin/sh
bad:x:number:1::/:/bin/sh
short:x:1
"""
GROUP = "root:x:0:\nvideo:x:44:annie\nsudo:x:27:\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "passwd").write_text(PASSWD)
    (tmp_path / "group").write_text(GROUP)
    (tmp_path / "nsswitch.conf").write_text("passwd: files\ngroup: files # and no more\n")
    return tmp_path


def _accounts(files: Path, deadline_s: float = 30) -> Accounts:
    return Accounts(deadline_s, passwd=files / "passwd", group=files / "group", nsswitch=files / "nsswitch.conf")


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A name service that answers only when the test ends."""
    release = threading.Event()
    for question in ("name_of_uid", "uid_of_name", "gid_of_name"):
        monkeypatch.setattr(nss, question, lambda _: release.wait(60) and None)
    yield release
    release.set()


async def test_files_answer(files: Path) -> None:
    """All names of a uid in the file's order, a name's first line, digits as a name, and none for certain."""
    accounts = _accounts(files)
    assert await accounts.names_and_uid(61001, "annie") == (
        AccountNames(names=("annie", "anna"), local=True),
        AccountUid(uid=61001),
    )
    assert await accounts.names(61005) == AccountNames(names=("123",), local=True)
    assert await accounts.names_and_uid(123, "123") == (AccountUnknown(), AccountUid(uid=61005))
    assert await accounts.names_and_uid(1, "bad") == (AccountUnknown(), AccountUnknown())
    assert await accounts.group("video") == GroupGid(name="video", gid=44)
    assert await accounts.group("nobody-knows") == GroupUnknown(name="nobody-knows")
    assert {group.name for group in accounts.privilege_groups()} == {"root", "sudo"}


async def test_a_changed_file_is_seen(files: Path) -> None:
    """A new line counts at the next question, also with the time set back and the length kept."""
    accounts = _accounts(files)
    assert (await accounts.names(61005)) == AccountNames(names=("123",), local=True)
    times = (files / "passwd").stat()
    (files / "passwd").write_text(PASSWD.replace("123:x", "456:x"))
    os.utime(files / "passwd", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (await accounts.names(61005)) == AccountNames(names=("456",), local=True)


async def test_silence_is_unavailable(
    files: Path, silent: threading.Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A service that does not answer in time is unavailable, never unknown; the files still answer meanwhile."""
    (files / "nsswitch.conf").write_text("passwd: files ldap\ngroup: files ldap\n")
    accounts = _accounts(files, 0.5)
    started = autojump_clock.current_time()
    assert isinstance(await accounts.names(61001), AccountNames)
    names, uid = await accounts.names_and_uid(7, "nobody-knows")
    assert isinstance(names, NamesUnavailable)
    assert isinstance(uid, NamesUnavailable)
    # both threads hang now: further questions wait for one, and no longer than the deadline
    assert isinstance(await accounts.names(8), NamesUnavailable)
    assert isinstance(await accounts.group("nobody-knows"), GroupUnavailable)
    assert isinstance(await accounts.names(61001), AccountNames)
    assert autojump_clock.current_time() - started == pytest.approx(4 * 0.5)
    silent.set()


async def test_a_failed_service_is_unavailable(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend's error is told as one."""
    (files / "nsswitch.conf").write_text("passwd: files sss\ngroup: files sss\n")

    def broken(_: object) -> None:
        raise OSError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr(nss, "name_of_uid", broken)
    names = await _accounts(files).names(7)
    assert isinstance(names, NamesUnavailable)
    assert "refused" in names.reason


async def test_another_source_first_is_asked_first(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine asks a directory before its files, so does safd."""
    (files / "nsswitch.conf").write_text("passwd: sss [NOTFOUND=return] files\n")
    monkeypatch.setattr(nss, "name_of_uid", lambda uid: f"directory{uid}")
    assert await _accounts(files).names(61001) == AccountNames(names=("directory61001",), local=False)


async def test_missing_and_unreadable_files(files: Path) -> None:
    """No file means no local names; a file that is no file is a failure, not an empty one."""
    (files / "passwd").unlink()
    assert await _accounts(files).names(61001) == AccountUnknown()
    (files / "passwd").mkdir()
    assert isinstance(await _accounts(files).names(61001), NamesUnavailable)
    (files / "nsswitch.conf").unlink()
    (files / "passwd").rmdir()
    (files / "passwd").write_text(PASSWD)
    assert isinstance(await _accounts(files).names(61001), AccountNames)


async def test_libc_agrees_with_python() -> None:
    """The own calls into libc give what the standard library gives, and tell an absent name from a failure."""
    own = pwd.getpwuid(0)
    assert nss.name_of_uid(own.pw_uid) == own.pw_name
    assert nss.uid_of_name(own.pw_name) == own.pw_uid
    assert nss.gid_of_name("root") == 0
    assert nss.name_of_uid(3_999_999_999) is None
    assert nss.uid_of_name("nobody-knows-this-name") is None
    assert nss.gid_of_name("nobody-knows-this-group") is None
