"""What makes a report readable for people: command line and start of a process, by pid.

Decoration only. It is read by number after the verdict, can be of another process by then, and decides nothing.
"""

import attrs
import psutil


@attrs.frozen(kw_only=True)
class Decoration:
    command: str | None
    started_unix_s: float | None


def decorate(pid: int) -> Decoration:
    """None where the process is gone or does not show it."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return Decoration(
                command=" ".join(process.cmdline()) or process.name(), started_unix_s=process.create_time()
            )
    except psutil.Error:
        return Decoration(command=None, started_unix_s=None)
