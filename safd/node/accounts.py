"""Names of accounts and groups. Authority never rests on them: requests compare numbers, names are told and checked.

The passwd and group files are read inline, again whenever they changed. What they do not hold, and everything where a
machine asks elsewhere first, goes to the name service in a thread with a deadline. A service that hangs costs its
caller the deadline and the node two threads, and its silence is never taken for an answer.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import attrs
import trio

from safd.node import nss
from safd.principal.facts import (
    AccountNames,
    AccountUid,
    AccountUnknown,
    GroupFact,
    GroupGid,
    GroupUnavailable,
    GroupUnknown,
    NamesFact,
    NamesUnavailable,
    UidFact,
)

T = TypeVar("T")

PASSWD = Path("/etc/passwd")
GROUP = Path("/etc/group")
NSSWITCH = Path("/etc/nsswitch.conf")

PRIVILEGE_GROUPS = (
    "root",
    "sudo",
    "wheel",
    "admin",
    "docker",
    "incus-admin",
    "lxd",
    "libvirt",
    "disk",
    "kmem",
    "shadow",
)
"""Groups whose members can become root, or read what only root may."""

_THREADS = 2
_FILE_SOURCES = ("files", "compat")


@attrs.frozen(kw_only=True)
class _Entries:
    """A passwd or group file: all names of a number in the file's order, and the number of a name's first line."""

    names: dict[int, tuple[str, ...]]
    numbers: dict[str, int]


_NOTHING = _Entries(names={}, numbers={})
_ONLY_FILES = ("files",)


@attrs.frozen(kw_only=True)
class _Sources:
    """Who is asked for names, in order (nsswitch.conf)."""

    passwd: tuple[str, ...] = _ONLY_FILES
    group: tuple[str, ...] = _ONLY_FILES


@attrs.define
class _Watched(Generic[T]):
    """A file's meaning, parsed again when the file is not the same any more; `absent` where there is no file.

    Raises OSError for a file that is there and cannot be read.
    """

    path: str
    parse: Callable[[bytes], T]
    absent: T
    _signature: tuple[int, ...] | None = None
    _held: T | None = None

    def now(self) -> T:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - this stands in every request; a Path doubles its cost
        except FileNotFoundError:
            return self.absent
        signature = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if self._held is None or signature != self._signature:
            self._held = self.parse(Path(self.path).read_bytes())
            self._signature = signature
        return self._held


class Accounts:
    """`deadline_s` is how long the name service may take for one question."""

    def __init__(
        self, deadline_s: float, *, passwd: Path = PASSWD, group: Path = GROUP, nsswitch: Path = NSSWITCH
    ) -> None:
        self._deadline_s = deadline_s
        self._passwd = _Watched(str(passwd), _parse_entries, _NOTHING)
        self._group = _Watched(str(group), _parse_entries, _NOTHING)
        self._nsswitch = _Watched(str(nsswitch), _parse_sources, _Sources())
        self._privileged = _Watched[tuple[GroupGid, ...]](str(group), _parse_privileged, ())
        self._limiter = trio.CapacityLimiter(_THREADS)

    async def names(self, uid: int) -> NamesFact:
        """The names of a uid. Does not yield where the passwd file answers."""
        return (await self.names_and_uid(uid, None))[0]

    async def names_and_uid(self, uid: int, account: str | None) -> tuple[NamesFact, UidFact | None]:
        """Both directions at once: the names of a uid, and the uid of an account (None where none is asked for)."""
        try:
            sources = self._nsswitch.now().passwd
            local = self._passwd.now() if sources[0] in _FILE_SOURCES else _NOTHING
        except OSError as error:
            unavailable = NamesUnavailable(reason=str(error))
            return unavailable, None if account is None else unavailable
        names = local.names.get(uid)
        number = None if account is None else local.numbers.get(account)
        alone = sources == _ONLY_FILES
        of_uid = AccountNames(names=names, local=True) if names is not None else await self._service_names(uid, alone)
        if account is None:
            return of_uid, None
        return of_uid, AccountUid(uid=number) if number is not None else await self._service_uid(account, alone)

    async def group(self, name: str) -> GroupFact:
        try:
            sources = self._nsswitch.now().group
            local = self._group.now() if sources[0] in _FILE_SOURCES else _NOTHING
        except OSError as error:
            return GroupUnavailable(name=name, reason=str(error))
        number = local.numbers.get(name)
        if number is not None:
            return GroupGid(name=name, gid=number)
        if sources == _ONLY_FILES:
            return GroupUnknown(name=name)
        answer = await self._ask(lambda: nss.gid_of_name(name))
        if isinstance(answer, NamesUnavailable):
            return GroupUnavailable(name=name, reason=answer.reason)
        return GroupUnknown(name=name) if answer is None else GroupGid(name=name, gid=answer)

    def privilege_groups(self) -> tuple[GroupGid, ...]:
        """Those of the root-equivalent groups that the group file holds; none where it cannot be read."""
        try:
            return self._privileged.now()
        except OSError:
            return ()

    async def _service_names(self, uid: int, alone: bool) -> NamesFact:
        answer = None if alone else await self._ask(lambda: nss.name_of_uid(uid))
        if isinstance(answer, NamesUnavailable):
            return answer
        return AccountUnknown() if answer is None else AccountNames(names=(answer,), local=False)

    async def _service_uid(self, account: str, alone: bool) -> UidFact:
        answer = None if alone else await self._ask(lambda: nss.uid_of_name(account))
        if isinstance(answer, NamesUnavailable):
            return answer
        return AccountUnknown() if answer is None else AccountUid(uid=answer)

    async def _ask(self, question: Callable[[], T | None]) -> T | NamesUnavailable | None:
        with trio.move_on_after(self._deadline_s):
            try:
                return await trio.to_thread.run_sync(question, abandon_on_cancel=True, limiter=self._limiter)
            except OSError as error:
                return NamesUnavailable(reason=f"the name service failed: {error}")
        return NamesUnavailable(reason=f"the name service did not answer within {self._deadline_s:g} s")


def _parse_entries(text: bytes) -> _Entries:
    """`name:x:number:...` lines; others (comments, NIS inclusions) say nothing about a local name."""
    names: dict[int, list[str]] = {}
    numbers: dict[str, int] = {}
    for line in text.split(b"\n"):
        fields = line.split(b":")
        if len(fields) < 4 or line[:1] in (b"#", b"+", b"-", b":") or not fields[2].isdigit():  # noqa: PLR2004
            continue
        name, number = os.fsdecode(fields[0]), int(fields[2])
        if name not in numbers:
            numbers[name] = number
        if name not in names.setdefault(number, []):
            names[number].append(name)
    return _Entries(names={number: tuple(found) for number, found in names.items()}, numbers=numbers)


def _parse_privileged(text: bytes) -> tuple[GroupGid, ...]:
    numbers = _parse_entries(text).numbers
    return tuple(GroupGid(name=name, gid=numbers[name]) for name in PRIVILEGE_GROUPS if name in numbers)


def _parse_sources(text: bytes) -> _Sources:
    """The sources of both databases in their order; actions in brackets do not change who is asked first."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.decode("ascii", "replace").splitlines():
        database, colon, sources = line.partition("#")[0].partition(":")
        if colon and database.strip() in ("passwd", "group"):
            words = tuple(
                word for word in sources.split() if not word.startswith(("[", "!")) and not word.endswith("]")
            )
            found[database.strip()] = words or _ONLY_FILES
    return _Sources(**found)
