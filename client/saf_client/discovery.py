"""Which socket, and the sentence that says so.

The order is `--socket` (or the argument), `$SAFD_SOCKET`, the system's socket, the user's own. Whoever names a
socket means that one: where `--socket` or `$SAFD_SOCKET` is given, no other is tried.
"""

import errno
from collections.abc import Mapping, Sequence

import attrs

SYSTEM_SOCKET = "/run/safd/safd.sock"


@attrs.frozen(kw_only=True)
class Candidate:
    """A socket to try; `source` says why this one."""

    path: str
    source: str


@attrs.frozen(kw_only=True)
class Attempt:
    """A candidate that did not answer."""

    candidate: Candidate
    reason: str


def candidates(socket: str | None, environ: Mapping[str, str]) -> tuple[Candidate, ...]:
    """What to try, first to last."""
    if socket:
        return (Candidate(path=socket, source="--socket"),)
    named = environ.get("SAFD_SOCKET")
    if named:
        return (Candidate(path=named, source="$SAFD_SOCKET"),)
    system = Candidate(path=SYSTEM_SOCKET, source="the system's socket")
    runtime = environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        return (system,)
    return system, Candidate(path=f"{runtime.rstrip('/')}/safd/safd.sock", source="your own daemon's socket")


def reason(error: OSError) -> str:
    """Why a socket did not answer, in words."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return "does not exist"
        case errno.ECONNREFUSED:
            return "is there, but nobody listens"
        case errno.EACCES | errno.EPERM:
            return "may not be opened by you"
        case errno.EAGAIN:
            return "has too many callers waiting"
        case _:
            return (error.strerror or str(error) or "cannot be opened").lower()


def used(candidate: Candidate) -> str:
    return f"using {candidate.path} ({candidate.source})"


def none_answered(attempts: Sequence[Attempt], environ: Mapping[str, str]) -> str:
    """What was tried and what to do about it."""
    tried = "; ".join(f"{attempt.candidate.path} ({attempt.candidate.source}) {attempt.reason}" for attempt in attempts)
    if any("opened by you" in attempt.reason for attempt in attempts):
        advice = "Ask who runs safd to let this account open the socket"
    elif attempts and attempts[0].candidate.source in {"--socket", "$SAFD_SOCKET"}:
        advice = f"Start one there with `safd serve --socket {attempts[0].candidate.path}`, or name another socket"
    else:
        advice = "Start it with `systemctl start safd.socket`, or a daemon of your own with "
        advice += "`systemctl --user start safd.socket`" if environ.get("XDG_RUNTIME_DIR") else "`safd serve`"
    return f"No safd answered: {tried}. {advice}."
