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

_THREADS = 2
_FILE_SOURCES = ("files", "compat")


@attrs.frozen(kw_only=True)
class _Entries:
    """A passwd or group file: all names of a number in the file's order, and the number of a name's first line."""

    names: dict[int, tuple[str, ...]]
    numbers: dict[str, int]


@attrs.define
class _Watched(Generic[T]):
    """A file's meaning, parsed again when the file is not the same any more; `absent` where there is no file.

    Raises OSError for a file that is there and cannot be read.
    """

    path: Path
    parse: Callable[[bytes], T]
    absent: T
    _signature: tuple[int, ...] | None = None
    _held: T | None = None

    def now(self) -> T:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return self.absent
        signature = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if self._held is None or signature != self._signature:
            self._held = self.parse(self.path.read_bytes())
            self._signature = signature
        return self._held


@attrs.frozen(kw_only=True)
class _Sources:
    passwd: tuple[str, ...] = ("files",)
    group: tuple[str, ...] = ("files",)


class Accounts:
    """`deadline_s` is how long the name service may take for one question."""

    def __init__(
        self, deadline_s: float, *, passwd: Path = PASSWD, group: Path = GROUP, nsswitch: Path = NSSWITCH
    ) -> None:
        nothing = _Entries(names={}, numbers={})
        self._deadline_s = deadline_s
        self._passwd = _Watched(passwd, _parse_entries, nothing)
        self._group = _Watched(group, _parse_entries, nothing)
        self._nsswitch = _Watched(nsswitch, _parse_sources, _Sources())
        self._limiter = trio.CapacityLimiter(_THREADS)

    async def names(self, uid: int) -> NamesFact:
        """The names of a uid. Does not yield where the passwd file answers."""
        try:
            sources = self._nsswitch.now().passwd
            if sources[:1] and sources[0] in _FILE_SOURCES:
                local = self._passwd.now().names.get(uid)
                if local is not None:
                    return AccountNames(names=local, local=True)
                if sources == ("files",):
                    return AccountUnknown()
        except OSError as error:
            return NamesUnavailable(reason=str(error))
        answer = await self._ask(lambda: nss.name_of_uid(uid))
        if isinstance(answer, NamesUnavailable):
            return answer
        return AccountUnknown() if answer is None else AccountNames(names=(answer,), local=False)

    async def uid_of(self, account: str) -> UidFact:
        try:
            sources = self._nsswitch.now().passwd
            if sources[:1] and sources[0] in _FILE_SOURCES:
                local = self._passwd.now().numbers.get(account)
                if local is not None:
                    return AccountUid(uid=local)
                if sources == ("files",):
                    return AccountUnknown()
        except OSError as error:
            return NamesUnavailable(reason=str(error))
        answer = await self._ask(lambda: nss.uid_of_name(account))
        if isinstance(answer, NamesUnavailable):
            return answer
        return AccountUnknown() if answer is None else AccountUid(uid=answer)

    async def group(self, name: str) -> GroupFact:
        try:
            sources = self._nsswitch.now().group
            if sources[:1] and sources[0] in _FILE_SOURCES:
                local = self._group.now().numbers.get(name)
                if local is not None:
                    return GroupGid(name=name, gid=local)
                if sources == ("files",):
                    return GroupUnknown(name=name)
        except OSError as error:
            return GroupUnavailable(name=name, reason=str(error))
        answer = await self._ask(lambda: nss.gid_of_name(name))
        if isinstance(answer, NamesUnavailable):
            return GroupUnavailable(name=name, reason=answer.reason)
        return GroupUnknown(name=name) if answer is None else GroupGid(name=name, gid=answer)

    def local_groups(self, names: tuple[str, ...]) -> tuple[GroupGid, ...]:
        """Those of the named groups that the group file holds; none where it cannot be read."""
        try:
            numbers = self._group.now().numbers
        except OSError:
            return ()
        return tuple(GroupGid(name=name, gid=numbers[name]) for name in names if name in numbers)

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


def _parse_sources(text: bytes) -> _Sources:
    """The sources of both databases in their order; actions in brackets do not change who is asked first."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.decode("ascii", "replace").splitlines():
        database, colon, sources = line.partition("#")[0].partition(":")
        if colon and database.strip() in ("passwd", "group"):
            words = tuple(
                word for word in sources.split() if not word.startswith(("[", "!")) and not word.endswith("]")
            )
            found[database.strip()] = words or ("files",)
    return _Sources(**found)
