"""The words of a verdict about the caller. Deciding is done in `safd.principal`."""

from enum import StrEnum

import attrs

from safd.model.ids import Uid


class Mode(StrEnum):
    RESIDENT = "resident"
    BORROWED = "borrowed"


class Posture(StrEnum):
    """Exactly one per request; members stand in order of precedence, first wins."""

    UNRESOLVABLE = "unresolvable"
    INCONSISTENT = "inconsistent"
    FOREIGN = "foreign"
    PRIVILEGED = "privileged"
    UNADMITTED = "unadmitted"
    AMBIGUOUS = "ambiguous"
    DRIFTED = "drifted"
    RESIDENT = "resident"
    BORROWED = "borrowed"


class Strength(StrEnum):
    """How good the evidence is: kernel now, kernel at connect, root-owned file, directory, self-asserted."""

    KERNEL = "kernel"
    CONNECT = "connect"
    ROOT_FILE = "root_file"
    DIRECTORY = "directory"
    SELF_ASSERTED = "self_asserted"


class Pin(StrEnum):
    """How the peer's process was held while it was read."""

    PEERPIDFD = "peerpidfd"
    LATE = "late"
    PROCDIR = "procdir"
    NONE = "none"


class DriftKind(StrEnum):
    ACCOUNT_MISMATCH = "account_mismatch"
    IDS_CHANGED = "ids_changed"
    SENDER_USER = "sender_user"
    SENDER_PROCESS = "sender_process"
    MIXED_SENDERS = "mixed_senders"
    CREDENTIALS_MISSING = "credentials_missing"
    CREDENTIALS_TRUNCATED = "credentials_truncated"
    PEER_EXITED = "peer_exited"
    EVIDENCE_DENIED = "evidence_denied"
    WEAK_PIN = "weak_pin"
    PRIMARY_GROUP = "primary_group"
    GROUPS_MISMATCH = "groups_mismatch"
    GROUPS_CHANGED = "groups_changed"
    PRIVILEGE_GROUP = "privilege_group"
    CAPABILITIES = "capabilities"
    NO_NEW_PRIVS_ABSENT = "no_new_privs_absent"
    SECCOMP_ABSENT = "seccomp_absent"
    TRACED = "traced"
    UNIT_MISMATCH = "unit_mismatch"
    UNIT_USER_MANAGED = "unit_user_managed"
    UNIT_UNREADABLE = "unit_unreadable"
    CGROUP_MOVED = "cgroup_moved"
    FOREIGN_USERNS = "foreign_userns"
    FOREIGN_PIDNS = "foreign_pidns"
    LOGIN_LINEAGE = "login_lineage"
    LOGIN_OTHER = "login_other"
    ACCOUNT_MISSING = "account_missing"
    ACCOUNT_RENUMBERED = "account_renumbered"
    ACCOUNT_RENAMED = "account_renamed"
    ACCOUNT_SHARED = "account_shared"
    NSS_UNAVAILABLE = "nss_unavailable"
    NSS_STALE = "nss_stale"
    NODE_MISMATCH = "node_mismatch"
    RECORD_UNSAFE = "record_unsafe"
    RECORD_INVALID = "record_invalid"
    RECORD_UNREADABLE = "record_unreadable"
    RECORD_EXPIRED = "record_expired"
    RECORD_CHANGED = "record_changed"
    STARTED_BEFORE_ADMISSION = "started_before_admission"
    CLAIM_MISMATCH = "claim_mismatch"


@attrs.frozen(kw_only=True)
class Drift:
    """One typed reason why the principal is not what was admitted; `advice` is for the administrator."""

    kind: DriftKind
    expected: str
    seen: str
    strength: Strength
    advice: str


@attrs.frozen(kw_only=True)
class ExpectedAccount:
    uid: Uid
    account: str


@attrs.frozen(kw_only=True)
class Node:
    """This machine: the machine-id and the host name."""

    id: str
    name: str


@attrs.frozen(kw_only=True)
class Principal:
    """What the kernel and the admissions say about the caller at one request; discarded after it.

    `uid` is None only where the kernel gave none (posture unresolvable); `text` is the block for the model.
    """

    agent: str | None
    posture: Posture
    mode: Mode | None
    uid: Uid | None
    account: str | None
    expected: ExpectedAccount | None
    node: Node
    drift: tuple[Drift, ...]
    pin: Pin
    text: str
    observed_at: str


BLOCK_OPENING = "<runtime-principal>"
BLOCK_CLOSING = "</runtime-principal>"
"""The system block's first and last line. By the opening it is known, and refused, where it must not stand."""
