"""Which unit a cgroup path proves.

systemd names a unit's cgroup after the unit, below any number of slices, and only the system manager (root) may place a
process outside a delegated subtree. So the first component that is not a slice is the unit, and everything below it is
the unit's own affair: inside `user@UID.service` a person may create a folder of any name. A search for the name
anywhere in the path would believe such a folder.
"""

import functools
import re
from enum import StrEnum
from typing import TypeAlias

import attrs


class Layout(StrEnum):
    """Which line of /proc/PID/cgroup holds systemd's tree on this machine; settled once, at start."""

    UNIFIED = "unified"
    NAMED = "named"


@attrs.frozen(kw_only=True)
class CgroupPath:
    path: str


@attrs.frozen(kw_only=True)
class CgroupUnreadable:
    reason: str


Cgroup: TypeAlias = CgroupPath | CgroupUnreadable


@attrs.frozen(kw_only=True)
class SystemUnit:
    """A unit of the system manager: proof of placement."""

    name: str


@attrs.frozen(kw_only=True)
class UserUnit:
    """Something below a person's own manager. `name` is that person's assertion, None where there is none."""

    manager: str
    name: str | None


@attrs.frozen(kw_only=True)
class SessionScope:
    """A login session: placed by the login manager, for whatever the person runs."""

    name: str


@attrs.frozen(kw_only=True)
class MachineScope:
    """A container or virtual machine: what stands below is its own naming."""

    name: str


@attrs.frozen(kw_only=True)
class NoUnit:
    path: str


UnitOf: TypeAlias = SystemUnit | UserUnit | SessionScope | MachineScope | NoUnit

_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(?:service|scope|socket|mount|swap|timer|path|device|target)\Z")
_USER_MANAGER = re.compile(r"user@[0-9]+\.service\Z")
_SESSION = re.compile(r"session-[A-Za-z0-9]+\.scope\Z")
_MACHINE = re.compile(r"(?:machine-|docker-|libpod-|crio-|cri-containerd-|lxc-).*\.scope\Z")
_DELETED = " (deleted)"
_UNIFIED_LINE = "0::"
_NAMED_TREE = "name=systemd"


def lines(text: str) -> tuple[tuple[str, str, str], ...]:
    """The lines of a cgroup file as (number, controllers, path): split at two colons, a path may hold more."""
    found: list[tuple[str, str, str]] = []
    for line in text.split("\n"):  # the one character that the kernel refuses in a path
        parts = line.split(":", 2)
        if len(parts) == 3:  # noqa: PLR2004 - the format has three fields
            found.append((parts[0], parts[1], parts[2]))
    return tuple(found)


def layout_of(own: str) -> Layout:
    """The layout, from the daemon's own cgroup file.

    The manager's tree is the one in which this daemon has a place. Where it has one in neither or in both, the unified
    tree is the manager's: a hybrid machine keeps both alike, and a container shows its own placement only there.
    """
    paths = {controllers: path for _, controllers, path in lines(own)}
    unified, named = paths.get(""), paths.get(_NAMED_TREE)
    if named is not None and named != "/" and unified in (None, "/"):
        return Layout.NAMED
    return Layout.NAMED if unified is None and named is not None else Layout.UNIFIED


@functools.lru_cache(maxsize=1024)
def cgroup_of(text: str, layout: Layout) -> Cgroup:
    """The path that counts, or why it cannot be relied on.

    A trailing ` (deleted)` cannot be told from a folder of that name, and `/..` is outside of what this daemon's
    cgroup namespace shows.
    """
    path = _unified(text) if layout is Layout.UNIFIED else _named(text)
    if path is None:
        return CgroupUnreadable(reason=f"there is no line for the {layout} tree")
    if path.endswith(_DELETED):
        return CgroupUnreadable(reason="the cgroup was removed, or bears a name that cannot be told from that")
    if not path.startswith("/") or ".." in path.split("/"):
        return CgroupUnreadable(reason="the cgroup lies outside of the namespace that the daemon sees")
    return CgroupPath(path=path)


def _unified(text: str) -> str | None:
    start = 0 if text.startswith(_UNIFIED_LINE) else text.find(f"\n{_UNIFIED_LINE}") + 1
    if not text.startswith(_UNIFIED_LINE, start):
        return None
    return text[start + len(_UNIFIED_LINE) :].partition("\n")[0]


def _named(text: str) -> str | None:
    for _, controllers, path in lines(text):
        if controllers == _NAMED_TREE:
            return path
    return None


@functools.lru_cache(maxsize=1024)
def unit_of(path: str) -> UnitOf:
    components = [component for component in path.split("/") if component]
    index = _first_below_slices(components, 0)
    if index is None:
        return NoUnit(path=path)
    name = _unescaped(components[index])
    if _UNIT_NAME.match(name) is None:
        return NoUnit(path=path)
    if _USER_MANAGER.match(name) is not None:
        below = _first_below_slices(components, index + 1)
        return UserUnit(manager=name, name=None if below is None else _unescaped(components[below]))
    if _SESSION.match(name) is not None:
        return SessionScope(name=name)
    if _MACHINE.match(name) is not None or "machine.slice" in components[:index]:
        return MachineScope(name=name)
    return SystemUnit(name=name)


def _first_below_slices(components: list[str], start: int) -> int | None:
    for index in range(start, len(components)):
        if not _unescaped(components[index]).endswith(".slice"):
            return index
    return None


def _unescaped(component: str) -> str:
    """A unit's cgroup has one `_` before its name where that would clash with a file of the cgroup tree."""
    return component.removeprefix("_")
