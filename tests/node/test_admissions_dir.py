"""Admission files of every unsafe kind, and what a request sees when they change."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from safd.model.admissions import SIZE_LIMIT, AccountAdmission
from safd.model.ids import Uid
from safd.model.principals import Mode
from safd.node.admissions_dir import AdmissionsDir
from safd.principal.facts import (
    AdmissionInvalid,
    AdmissionUnreadable,
    AdmissionUnsafe,
    NoAdmission,
    Place,
)
from tests.node.callers import unprivileged

UID = Uid(61001)
TEXT = f'uid = {UID}\naccount = "annie"\n[agents.annie]\nmode = "resident"\n'
OWNERS = frozenset({0, os.geteuid()})


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="safd-test-") as name:
        parent = Path(name)
        parent.chmod(0o755)
        folder = parent / "admissions.d"
        folder.mkdir(mode=0o755)
        yield folder


def _write(folder: Path, text: str | bytes = TEXT, name: str = f"{UID}.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o644)
    return path


def test_safe_file(folder: Path) -> None:
    """A safe file is read; another uid, whose file is not there, has none."""
    _write(folder)
    admissions = AdmissionsDir(folder, OWNERS)
    read = admissions.read(UID)
    assert isinstance(read, AccountAdmission)
    assert (read.uid, read.account, [agent.agent for agent in read.agents]) == (UID, "annie", ["annie"])
    assert admissions.read(Uid(61002)) == NoAdmission()


def _symlink(folder: Path) -> None:
    _write(folder, name="real").rename(folder.parent / "real")
    (folder / f"{UID}.toml").symlink_to(folder.parent / "real")


def _hard_link(folder: Path) -> None:
    (folder / "other").hardlink_to(_write(folder))


def _parent_link(folder: Path) -> None:
    _write(folder)
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


def _replaced_by_file(folder: Path) -> None:
    folder.rmdir()
    folder.write_text("")


UNSAFE: dict[str, Callable[[Path], object]] = {
    "world-writable": lambda folder: _write(folder).chmod(0o646),
    "group-writable": lambda folder: _write(folder).chmod(0o664),
    "symlink": _symlink,
    "dangling symlink": lambda folder: (folder / f"{UID}.toml").symlink_to("/nonexistent"),
    "hard link": _hard_link,
    "FIFO": lambda folder: os.mkfifo(folder / f"{UID}.toml", 0o644),
    "folder in its place": lambda folder: (folder / f"{UID}.toml").mkdir(mode=0o755),
    "folder world-writable": lambda folder: (_write(folder), folder.chmod(0o757)),
    "folder world-writable and sticky": lambda folder: (_write(folder), folder.chmod(0o1777)),
    "folder group-writable": lambda folder: (_write(folder), folder.chmod(0o775)),
    "folder group-writable and empty": lambda folder: folder.chmod(0o775),
    "parent world-writable": lambda folder: (_write(folder), folder.parent.chmod(0o777)),
    "parent world-writable, folder missing": lambda folder: (folder.rmdir(), folder.parent.chmod(0o777)),
    "folder became a link": _parent_link,
    "folder became a file": _replaced_by_file,
}


@pytest.mark.parametrize("kind", UNSAFE)
def test_unsafe(folder: Path, kind: str) -> None:
    """What somebody else could have written, or could replace, is unsafe: no admission, and no absence of one."""
    admissions = AdmissionsDir(folder, OWNERS)
    UNSAFE[kind](folder)
    assert isinstance(admissions.read(UID), AdmissionUnsafe)


@pytest.mark.root
@pytest.mark.parametrize("which", ["file", "folder", "parent"])
def test_foreign_owner(folder: Path, which: str) -> None:
    """File, folder and each parent belong to root, or in user mode to the daemon's own user; to nobody else."""
    path = _write(folder)
    os.chown({"file": path, "folder": folder, "parent": folder.parent}[which], 61002, 61002)
    assert isinstance(AdmissionsDir(folder, frozenset({0})).read(UID), AdmissionUnsafe)
    assert isinstance(AdmissionsDir(folder, frozenset({0, 61001})).read(UID), AdmissionUnsafe)
    assert isinstance(AdmissionsDir(folder, frozenset({0, 61002})).read(UID), AccountAdmission)


@pytest.mark.root
@pytest.mark.parametrize("which", ["file", "folder", "parent"])
def test_unreadable(folder: Path, which: str) -> None:
    """What the daemon may not read is unreadable, which is not the same as absent."""
    path = _write(folder)
    admissions = AdmissionsDir(folder, OWNERS)
    {"file": path, "folder": folder, "parent": folder.parent}[which].chmod(0o600 if which == "file" else 0o700)
    with unprivileged():
        assert isinstance(admissions.read(UID), AdmissionUnreadable)


@pytest.mark.root
def test_access_list_shows_as_group_write(folder: Path) -> None:
    """A write permission given by an access list shows in the mode, and is refused by it."""
    setfacl = "/usr/bin/setfacl"
    if not Path(setfacl).exists():
        pytest.skip("setfacl is not installed")
    path = _write(folder)
    pid = os.posix_spawn(setfacl, [setfacl, "-m", "u:61002:rw", str(path)], {})
    if os.waitpid(pid, 0)[1] != 0:
        pytest.skip("this file system keeps no access lists")
    assert isinstance(AdmissionsDir(folder, OWNERS).read(UID), AdmissionUnsafe)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not toml",
        b"\xff\xfe",
        TEXT.replace(str(UID), "61002"),
        TEXT + "unknown = 1\n",
        TEXT + TEXT,
        f"uid = {UID}\n",
        b"# " + b"x" * SIZE_LIMIT,
    ],
)
def test_invalid(folder: Path, text: str | bytes) -> None:
    """A file that is safe and no admission is invalid as a whole, with a reason."""
    _write(folder, text)
    read = AdmissionsDir(folder, OWNERS).read(UID)
    assert isinstance(read, AdmissionInvalid)
    assert read.reason


@pytest.mark.parametrize("missing", ["folder", "parent"])
def test_missing_folder(folder: Path, missing: str) -> None:
    """A folder that is not there, in a parent that is safe, admits nobody and is no error; made later, it counts."""
    path = folder if missing == "folder" else folder / "a" / "b"
    folder.rmdir()
    admissions = AdmissionsDir(path, OWNERS)
    assert admissions.read(UID) == NoAdmission()
    assert admissions.read_all() == ()
    path.mkdir(parents=True, mode=0o755)
    _write(path)
    assert isinstance(admissions.read(UID), AccountAdmission)


@pytest.mark.parametrize("uid", [0, 65534, 4294967295])
def test_refused_uids_have_no_file(folder: Path, uid: int) -> None:
    """Root, the overflow uid and no uid are never looked up, whatever lies in the folder."""
    _write(folder, TEXT.replace(str(UID), str(uid)), f"{uid}.toml")
    assert AdmissionsDir(folder, OWNERS).read(Uid(uid)) == NoAdmission()


def test_every_change_is_seen_at_the_next_read(folder: Path) -> None:
    """Edits in place with the time set back, replacements, and a swapped folder: the bytes decide, each time."""
    path = _write(folder)
    admissions = AdmissionsDir(folder, OWNERS)

    def mode() -> Mode:
        read = admissions.read(UID)
        assert isinstance(read, AccountAdmission)
        return read.agents[0].mode

    assert mode() is Mode.RESIDENT
    times = path.stat()
    path.write_text(TEXT.replace("resident", "borrowed"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert mode() is Mode.BORROWED
    _write(folder, name="new").rename(path)
    assert mode() is Mode.RESIDENT
    folder.rename(folder.parent / "old")
    folder.mkdir(mode=0o755)
    _write(folder, TEXT.replace("resident", "borrowed"))
    assert mode() is Mode.BORROWED


def test_the_same_bytes_are_parsed_once(folder: Path) -> None:
    """An unchanged file costs no second parse: the very same value comes back."""
    _write(folder)
    admissions = AdmissionsDir(folder, OWNERS)
    assert admissions.read(UID) is admissions.read(UID)


def test_read_all(folder: Path) -> None:
    """Every admission by uid, every file that fails with its reason; hidden files and editors' copies aside."""
    _write(folder)
    _write(folder, "nonsense", "61002.toml")
    _write(folder, TEXT.replace(str(UID), "7"), "7.toml").chmod(0o666)
    _write(folder, TEXT, "annie.toml")
    _write(folder, TEXT, "007.toml")
    _write(folder, TEXT, f".{UID}.toml.77")
    _write(folder, TEXT, f"{UID}.toml~")
    found = {
        (item.path.rpartition("/")[2] if not isinstance(item, AccountAdmission) else f"{item.uid}.toml"): type(item)
        for item in AdmissionsDir(folder, OWNERS).read_all()
    }
    assert found == {
        "7.toml": AdmissionUnsafe,
        "007.toml": AdmissionInvalid,
        f"{UID}.toml": AccountAdmission,
        "61002.toml": AdmissionInvalid,
        "annie.toml": AdmissionInvalid,
    }
    folder.chmod(0o777)
    (unsafe,) = AdmissionsDir(folder, OWNERS).read_all()
    assert isinstance(unsafe, AdmissionUnsafe)


def test_places_of_an_agent(folder: Path) -> None:
    """Where an agent is admitted besides: residents first, then by uid, this node's only, broken files aside."""
    node, other = "a" * 32, "b" * 32
    for uid, mode, where in ((9, "borrowed", node), (8, "resident", node), (7, "resident", other), (6, "borrowed", "")):
        text = f'uid = {uid}\naccount = "a{uid}"\n[agents.x]\nmode = "{mode}"\n'
        _write(folder, text + (f'node = "{where}"\n' if where else ""), f"{uid}.toml")
    _write(folder, "broken", "5.toml")
    admissions = AdmissionsDir(folder, OWNERS)
    eight, six, nine = (
        Place(uid=Uid(8), account="a8", mode=Mode.RESIDENT),
        Place(uid=Uid(6), account="a6", mode=Mode.BORROWED),
        Place(uid=Uid(9), account="a9", mode=Mode.BORROWED),
    )
    assert admissions.places_of("x", Uid(1), node) == (eight, six, nine)
    assert admissions.places_of("x", Uid(8), node) == (six, nine)
    assert admissions.places_of("y", Uid(1), node) == ()


@pytest.mark.parametrize("times", [1, 100])
def test_an_edit_during_the_read(folder: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A text that changes in place while it is read is read again; one that never rests is unreadable."""
    path = _write(folder)
    genuine = os.read
    left = [times]

    def read(descriptor: int, size: int) -> bytes:
        torn = genuine(descriptor, size)
        if left[0] > 0:
            left[0] -= 1
            before = path.stat()
            path.write_text(TEXT.replace("resident", "borrowed"))  # as long as before
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + left[0]))
        return torn

    monkeypatch.setattr(os, "read", read)
    found = AdmissionsDir(folder, OWNERS).read(UID)
    if times == 1:
        assert isinstance(found, AccountAdmission)
        assert found.agents[0].mode is Mode.BORROWED
    else:
        assert isinstance(found, AdmissionUnreadable)
