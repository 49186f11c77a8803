"""What was read about one caller for one request, undecided: data, and a typed failure wherever a source gave none.

No field has a default, and no number stands for "none": at end of file the kernel's credentials are all zero, and so
are those of a reaped process, which would read as root.
"""

from typing import TypeAlias, assert_never

import attrs

from safd.model.admissions import AccountAdmission
from safd.model.ids import Gid, Pid, Uid
from safd.model.principals import Mode, Node, Pin
from safd.principal.unit import Cgroup

# --- who wrote the bytes (SCM_CREDENTIALS of each chunk that carried the request)


@attrs.frozen(kw_only=True)
class Credentials:
    """The kernel's word on the sender of one chunk: thread group, real uid, real gid."""

    pid: Pid
    uid: Uid
    gid: Gid


@attrs.frozen(kw_only=True)
class NoCredentials:
    """None came, or the kernel's "nobody" (pid 0)."""


@attrs.frozen(kw_only=True)
class Truncated:
    """The sender attached more than credentials; what was cut off is unknown."""


Sender: TypeAlias = Credentials | NoCredentials | Truncated

# --- who connected (SO_PEERCRED and what was read at accept)


@attrs.frozen(kw_only=True)
class Opener:
    """Frozen at connect: effective uid and gid. `groups` None: this kernel does not keep them.

    `cgroup_id` None: this kernel does not tell it; `started_ms` (unix, 10 ms fine) None: unreadable then.
    """

    pid: Pid
    uid: Uid
    gid: Gid
    groups: tuple[int, ...] | None
    cgroup: Cgroup | None
    cgroup_id: int | None
    started_ms: int | None


# --- the process now

FourIds: TypeAlias = tuple[int, int, int, int]
"""Real, effective, saved, file system."""


@attrs.frozen(kw_only=True)
class Exited:
    """The peer is gone; `noticed` says by what."""

    noticed: str


@attrs.frozen(kw_only=True)
class EvidenceDenied:
    """A live peer's evidence could not be read: `source` and the system's reason."""

    source: str
    reason: str


@attrs.frozen(kw_only=True)
class LoginUnset:
    """Never went through a login."""


@attrs.frozen(kw_only=True)
class LoginSet:
    uid: int


@attrs.frozen(kw_only=True)
class LoginNotKept:
    """A kernel without audit keeps no login lineage."""


Login: TypeAlias = LoginUnset | LoginSet | LoginNotKept


@attrs.frozen(kw_only=True)
class Status:
    """Of /proc/PID/status. `no_new_privs` and `seccomp` None: this kernel does not say."""

    uids: FourIds
    gids: FourIds
    groups: tuple[int, ...]
    permitted: int
    effective: int
    ambient: int
    no_new_privs: bool | None
    seccomp: int | None
    tracer: int
    pid_namespaces: int


@attrs.frozen(kw_only=True)
class PidfdInfo:
    """Of PIDFD_GET_INFO: the same ids from the pinned process itself."""

    pid: Pid
    uids: FourIds
    gids: FourIds
    cgroup_id: int | None


@attrs.frozen(kw_only=True)
class Process:
    status: Status
    info: PidfdInfo | None
    cgroup: Cgroup
    login: Login
    uid_map: str
    own_uid_map: str


ProcessFacts: TypeAlias = Process | Exited | EvidenceDenied

# --- names


@attrs.frozen(kw_only=True)
class AccountNames:
    """Names of a uid, the one that the name service gives first; `local`: from the passwd file."""

    names: tuple[str, ...]
    local: bool


@attrs.frozen(kw_only=True)
class AccountUid:
    uid: int


@attrs.frozen(kw_only=True)
class AccountUnknown:
    """Asked, and answered: there is none."""


@attrs.frozen(kw_only=True)
class NamesUnavailable:
    """Asked, and not answered: nothing is known."""

    reason: str


NamesFact: TypeAlias = AccountNames | AccountUnknown | NamesUnavailable
UidFact: TypeAlias = AccountUid | AccountUnknown | NamesUnavailable


@attrs.frozen(kw_only=True)
class GroupGid:
    name: str
    gid: int


@attrs.frozen(kw_only=True)
class GroupUnknown:
    name: str


@attrs.frozen(kw_only=True)
class GroupUnavailable:
    name: str
    reason: str


GroupFact: TypeAlias = GroupGid | GroupUnknown | GroupUnavailable

# --- admissions


@attrs.frozen(kw_only=True)
class NoAdmission:
    """There is no file for this uid, in a folder that is safe."""


@attrs.frozen(kw_only=True)
class AdmissionUnsafe:
    """Somebody besides root (or, in user mode, the daemon's user) could have written it."""

    path: str
    reason: str


@attrs.frozen(kw_only=True)
class AdmissionInvalid:
    path: str
    reason: str


@attrs.frozen(kw_only=True)
class AdmissionUnreadable:
    path: str
    reason: str


AdmissionTrouble: TypeAlias = AdmissionUnsafe | AdmissionInvalid | AdmissionUnreadable
AdmissionFact: TypeAlias = AccountAdmission | NoAdmission | AdmissionTrouble


@attrs.frozen(kw_only=True)
class Place:
    """An account that an agent is admitted to."""

    uid: Uid
    account: str
    mode: Mode


@attrs.frozen(kw_only=True)
class Elsewhere:
    """Where the claimed agent is admitted, when not at the caller's uid; resident places first."""

    agent: str
    places: tuple[Place, ...]


# --- all of it


@attrs.frozen(kw_only=True)
class Facts:
    """`now_ms` is unix time, for admissions that begin or end.

    `named_uid` is the uid of the admission's account by name (None without an admission); `groups` the numbers of the
    groups that the admission names; `privilege_groups` those of this machine's root-equivalent groups.
    `elsewhere` is None where no claim made it necessary to look.
    """

    node: Node
    now_ms: int
    pin: Pin
    opener: Opener
    senders: frozenset[Sender]
    process: ProcessFacts
    names: NamesFact
    named_uid: UidFact | None
    groups: tuple[GroupFact, ...]
    privilege_groups: tuple[GroupGid, ...]
    admission: AdmissionFact
    elsewhere: Elsewhere | None

    def gids(self) -> frozenset[int]:
        """Every group that the process holds now; those at connect where it can no longer be read."""
        match self.process:
            case Process(status=status):
                return frozenset({status.gids[1], *status.groups})
            case Exited() | EvidenceDenied():
                return frozenset({self.opener.gid, *(self.opener.groups or ())})
            case _ as never:
                assert_never(never)
