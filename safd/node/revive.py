"""Finding a process again after a restart of the daemon, when its pidfd is lost.

A pid alone may have come to mean another process. With the boot id and the start time (field 22 of
/proc/PID/stat, clock ticks since boot, proc(5)) a false match needs the same pid to be used again within one tick.
It decides only whether a turn goes on, never anything about authority.
"""

import os
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class ProcessMark:
    """Which process, in this boot."""

    pid: int
    start_ticks: int
    boot_id: str


def identify(pid: int) -> ProcessMark | None:
    """None when there is no such process."""
    start_ticks = _start_ticks(pid)
    if start_ticks is None:
        return None
    return ProcessMark(pid=pid, start_ticks=start_ticks, boot_id=_boot_id())


def held_process(mark: ProcessMark) -> int | None:
    """A pidfd of that very process, for the caller to close; None when it is gone."""
    if mark.boot_id != _boot_id():
        return None
    try:
        pidfd = os.pidfd_open(mark.pid)
    except ProcessLookupError:
        return None
    if _start_ticks(mark.pid) == mark.start_ticks:
        return pidfd
    os.close(pidfd)
    return None


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the command's name stands in parentheses and may itself hold parentheses and spaces
    return int(stat[stat.rindex(b")") + 2 :].split()[19])
