"""The evidence for each drift kind, as comparisons of facts: what was expected, what was seen, how strong that is.

Strengths and effects follow from where a fact comes from. A note is told and changes nothing; every other kind costs
the caller the identity that it was admitted with. Program names, command lines, the working folder and the parent are
no evidence here: a process writes or outlives all of them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import assert_never

import attrs

from safd.model.admissions import AccountAdmission, Admission
from safd.model.ids import Uid
from safd.model.principals import Drift, DriftKind, Mode, Pin, Strength
from safd.principal.facts import (
    AccountNames,
    AccountUid,
    AccountUnknown,
    Facts,
    GroupGid,
    GroupUnavailable,
    GroupUnknown,
    LoginSet,
    NamesFact,
    NamesUnavailable,
    Opener,
    Process,
    Status,
)
from safd.principal.unit import (
    CgroupPath,
    CgroupUnreadable,
    MachineScope,
    NoUnit,
    SessionScope,
    SystemUnit,
    UnitOf,
    UserUnit,
    unit_of,
)


@attrs.frozen
class Rule:
    """`advice` is one sentence for the administrator."""

    strength: Strength
    advice: str


RULES: dict[DriftKind, Rule] = {
    DriftKind.ACCOUNT_MISMATCH: Rule(
        Strength.CONNECT, "Start the agent under the account it is admitted to, or admit it to this one with saf admit."
    ),
    DriftKind.IDS_CHANGED: Rule(
        Strength.KERNEL, "A process must keep the ids it connected with; connect again after changing them."
    ),
    DriftKind.SENDER_USER: Rule(
        Strength.KERNEL, "Another user wrote on this connection; each process opens a connection of its own."
    ),
    DriftKind.SENDER_PROCESS: Rule(
        Strength.KERNEL, "Another process wrote on this connection; each process opens a connection of its own."
    ),
    DriftKind.MIXED_SENDERS: Rule(Strength.KERNEL, "One request must be written by one process alone."),
    DriftKind.CREDENTIALS_MISSING: Rule(
        Strength.KERNEL, "Set PassCredentials=yes in safd.socket; without it the kernel does not say who wrote."
    ),
    DriftKind.CREDENTIALS_TRUNCATED: Rule(Strength.KERNEL, "Attach nothing to what is sent to safd."),
    DriftKind.PEER_EXITED: Rule(Strength.KERNEL, "Stay alive until the answer has come."),
    DriftKind.EVIDENCE_DENIED: Rule(
        Strength.KERNEL, "safd must be able to read /proc of others: ProtectProc=default and no hidepid for it."
    ),
    DriftKind.WEAK_PIN: Rule(
        Strength.KERNEL, "Linux 6.5 or newer pins a peer at connect; on this kernel its number may have been reused."
    ),
    DriftKind.PRIMARY_GROUP: Rule(
        Strength.KERNEL, "Start the process with the account's own primary group, or list the group in the admission."
    ),
    DriftKind.GROUPS_MISMATCH: Rule(
        Strength.KERNEL, "Bring the account's groups and the admission's groups together, then restart the agent."
    ),
    DriftKind.GROUPS_CHANGED: Rule(Strength.KERNEL, "The groups changed after the connection was opened; reconnect."),
    DriftKind.PRIVILEGE_GROUP: Rule(
        Strength.KERNEL, "Take the account out of the group, or list the group in the admission if that is meant."
    ),
    DriftKind.CAPABILITIES: Rule(
        Strength.KERNEL, "Run agents without capabilities: CapabilityBoundingSet= and no AmbientCapabilities=."
    ),
    DriftKind.NO_NEW_PRIVS_ABSENT: Rule(Strength.KERNEL, "Set NoNewPrivileges=yes in the agent's unit."),
    DriftKind.SECCOMP_ABSENT: Rule(Strength.KERNEL, "Set SystemCallFilter= in the agent's unit."),
    DriftKind.TRACED: Rule(Strength.KERNEL, "Detach the debugger; what is traced acts for its tracer."),
    DriftKind.UNIT_MISMATCH: Rule(
        Strength.KERNEL, "Start the agent by its unit with systemctl, or admit it with the unit it runs in."
    ),
    DriftKind.UNIT_USER_MANAGED: Rule(
        Strength.KERNEL,
        "Start the agent by its system unit: names below a person's own manager are that person's word.",
    ),
    DriftKind.UNIT_UNREADABLE: Rule(
        Strength.KERNEL, "Restart the agent by its unit; run safd outside of cgroup namespaces."
    ),
    DriftKind.CGROUP_MOVED: Rule(Strength.KERNEL, "The process was moved after it connected; find out by whom."),
    DriftKind.FOREIGN_USERNS: Rule(Strength.KERNEL, "Run the agent without PrivateUsers= and outside of containers."),
    DriftKind.FOREIGN_PIDNS: Rule(Strength.KERNEL, "Run the agent without a process namespace of its own."),
    DriftKind.LOGIN_LINEAGE: Rule(
        Strength.KERNEL, "Start the resident by its unit, without PAMName= and not through su, sudo or ssh."
    ),
    DriftKind.LOGIN_OTHER: Rule(Strength.SELF_ASSERTED, "The process descends from another account's login."),
    DriftKind.ACCOUNT_MISSING: Rule(
        Strength.DIRECTORY, "Create the account again with this uid, or withdraw the admission with saf dismiss."
    ),
    DriftKind.ACCOUNT_RENUMBERED: Rule(Strength.DIRECTORY, "Admit the account again under the uid it has now."),
    DriftKind.ACCOUNT_RENAMED: Rule(Strength.DIRECTORY, "Admit the uid again under the name it has now."),
    DriftKind.ACCOUNT_SHARED: Rule(Strength.DIRECTORY, "Give each account a uid of its own."),
    DriftKind.NSS_UNAVAILABLE: Rule(Strength.DIRECTORY, "Look at the name service (getent passwd); it did not answer."),
    DriftKind.NSS_STALE: Rule(Strength.DIRECTORY, "Look at the name service (getent passwd); its answer is old."),
    DriftKind.NODE_MISMATCH: Rule(Strength.ROOT_FILE, "Admit the agent on this node with saf admit."),
    DriftKind.RECORD_UNSAFE: Rule(
        Strength.ROOT_FILE, "chown root: and chmod go-w the file and every folder above it; no links."
    ),
    DriftKind.RECORD_INVALID: Rule(Strength.ROOT_FILE, "Mend the admission file, or write it again with saf admit."),
    DriftKind.RECORD_UNREADABLE: Rule(Strength.ROOT_FILE, "Let safd read the admission file and its folder."),
    DriftKind.RECORD_EXPIRED: Rule(Strength.ROOT_FILE, "Renew the admission with saf admit, or saf dismiss the agent."),
    DriftKind.RECORD_CHANGED: Rule(Strength.ROOT_FILE, "The admission changed meanwhile; send the request again."),
    DriftKind.STARTED_BEFORE_ADMISSION: Rule(Strength.KERNEL, "Restart the agent: it began before it was admitted."),
    DriftKind.CLAIM_MISMATCH: Rule(
        Strength.SELF_ASSERTED, "Claim an agent that is admitted to this account, or admit this one with saf admit."
    ),
}

NOTES = frozenset(
    {
        DriftKind.WEAK_PIN,
        DriftKind.GROUPS_CHANGED,
        DriftKind.CGROUP_MOVED,
        DriftKind.LOGIN_OTHER,
        DriftKind.NSS_UNAVAILABLE,
        DriftKind.NSS_STALE,
        DriftKind.STARTED_BEFORE_ADMISSION,
    }
)
"""Kinds that are told and, on their own, change nothing."""


@attrs.frozen(kw_only=True)
class Finding:
    """A drift, and whether it counts against the identity here (a demand can make a note count)."""

    drift: Drift
    counts: bool


def drift(kind: DriftKind, *, expected: str, seen: str) -> Drift:
    rule = RULES[kind]
    return Drift(kind=kind, expected=expected, seen=seen, strength=rule.strength, advice=rule.advice)


def finding(kind: DriftKind, *, expected: str, seen: str, counts: bool | None = None) -> Finding:
    return Finding(
        drift=drift(kind, expected=expected, seen=seen), counts=kind not in NOTES if counts is None else counts
    )


def of_placement(facts: Facts, process: Process) -> Iterator[Finding]:
    """Notes about any caller: how it was pinned, and what changed since it connected."""
    opener = facts.opener
    if facts.pin is not Pin.PEERPIDFD:
        yield finding(DriftKind.WEAK_PIN, expected=Pin.PEERPIDFD, seen=facts.pin)
    if opener.groups is not None and set(opener.groups) != set(process.status.groups):
        yield finding(
            DriftKind.GROUPS_CHANGED,
            expected=f"groups {_numbers(opener.groups)} as at connect",
            seen=f"groups {_numbers(process.status.groups)}",
        )
    yield from _moved(opener, process)


def _moved(opener: Opener, process: Process) -> Iterator[Finding]:
    then, now = opener.cgroup, process.cgroup
    if isinstance(then, CgroupPath) and isinstance(now, CgroupPath) and then.path != now.path:
        yield finding(DriftKind.CGROUP_MOVED, expected=f"{then.path} as at connect", seen=now.path)
        return
    now_id = None if process.info is None else process.info.cgroup_id
    if opener.cgroup_id is not None and now_id is not None and opener.cgroup_id != now_id:
        yield finding(
            DriftKind.CGROUP_MOVED, expected=f"cgroup {opener.cgroup_id} as at connect", seen=f"cgroup {now_id}"
        )


def of_agent(facts: Facts, process: Process, account: AccountAdmission, agent: Admission) -> Iterator[Finding]:
    """Everything that the chosen admission demands, held against the facts."""
    yield from _of_node(facts, agent)
    yield from _of_account(facts, account)
    yield from _of_unit(process, agent, facts.opener.uid)
    yield from _of_groups(facts, process.status, agent)
    yield from _of_elevation(process.status, agent)
    yield from _of_login(process, agent, facts.opener.uid)
    if agent.pinned and facts.pin is not Pin.PEERPIDFD:
        yield finding(DriftKind.WEAK_PIN, expected=Pin.PEERPIDFD, seen=facts.pin, counts=True)
    started = facts.opener.started_ms
    if agent.not_before is not None and started is not None and started < _milliseconds(agent.not_before):
        yield finding(
            DriftKind.STARTED_BEFORE_ADMISSION,
            expected=f"started at or after {_moment(agent.not_before)}",
            seen="started before",
        )


def out_of_time(facts: Facts, agent: Admission) -> Drift | None:
    """The admission's own window; None while it is in force. `expires` itself is already outside."""
    if agent.not_before is not None and facts.now_ms < _milliseconds(agent.not_before):
        expected = f"in force: from {_moment(agent.not_before)} on"
        return drift(DriftKind.RECORD_EXPIRED, expected=expected, seen="not yet in force")
    if agent.expires is not None and facts.now_ms >= _milliseconds(agent.expires):
        expected = f"in force: until {_moment(agent.expires)}"
        return drift(DriftKind.RECORD_EXPIRED, expected=expected, seen="expired")
    return None


def attests(process: Process, agent: Admission) -> bool:
    """Whether the system manager itself placed this process into the agent's unit."""
    if agent.unit is None or not isinstance(process.cgroup, CgroupPath):
        return False
    unit = unit_of(process.cgroup.path)
    return isinstance(unit, SystemUnit) and unit.name == agent.unit


def _of_node(facts: Facts, agent: Admission) -> Iterator[Finding]:
    if agent.node is not None and agent.node != facts.node.id:
        yield finding(DriftKind.NODE_MISMATCH, expected=f"node {agent.node}", seen=f"node {facts.node.id}")


def _of_account(facts: Facts, account: AccountAdmission) -> Iterator[Finding]:
    expected = f"account {account.account} with uid {account.uid}"
    yield from _of_name(facts.names, account, expected)
    match facts.named_uid:
        case AccountUid(uid=uid):
            if uid != account.uid:
                seen = f"{account.account} has uid {uid}"
                yield finding(DriftKind.ACCOUNT_RENUMBERED, expected=expected, seen=seen)
        case NamesUnavailable(reason=reason):
            yield finding(DriftKind.NSS_UNAVAILABLE, expected=expected, seen=reason)
        case AccountUnknown() | None:
            pass  # a name that is gone shows in the other direction: its uid is missing or renamed
        case _ as never:
            assert_never(never)


def _of_name(names: NamesFact, account: AccountAdmission, expected: str) -> Iterator[Finding]:
    match names:
        case AccountNames(names=found):
            seen = f"uid {account.uid} is {', '.join(found)}"
            if account.account not in found:
                yield finding(DriftKind.ACCOUNT_RENAMED, expected=expected, seen=seen)
            if len(found) > 1:
                yield finding(DriftKind.ACCOUNT_SHARED, expected=f"one account with uid {account.uid}", seen=seen)
        case AccountUnknown():
            yield finding(DriftKind.ACCOUNT_MISSING, expected=expected, seen=f"no account has uid {account.uid}")
        case NamesUnavailable(reason=reason):
            yield finding(DriftKind.NSS_UNAVAILABLE, expected=expected, seen=reason)
        case _ as never:
            assert_never(never)


def _of_unit(process: Process, agent: Admission, uid: Uid) -> Iterator[Finding]:
    if agent.unit is None or isinstance(process.cgroup, CgroupUnreadable):
        return  # unreadable where a unit is demanded has made the caller unresolvable already
    unit = unit_of(process.cgroup.path)
    if isinstance(unit, SystemUnit) and unit.name == agent.unit:
        return
    if agent.mode is Mode.BORROWED and unit == UserUnit(manager=f"user@{uid}.service", name=agent.unit):
        return  # a borrower's unit is its person's to name
    match unit:
        case UserUnit() | SessionScope():
            yield finding(DriftKind.UNIT_USER_MANAGED, expected=agent.unit, seen=_unit_seen(unit))
        case SystemUnit() | MachineScope() | NoUnit():
            yield finding(DriftKind.UNIT_MISMATCH, expected=agent.unit, seen=_unit_seen(unit))
        case _ as never:
            assert_never(never)


def _unit_seen(unit: UnitOf) -> str:
    match unit:
        case SystemUnit(name=name):
            return name
        case UserUnit(manager=manager, name=name):
            return manager if name is None else f"{name} below {manager}"
        case SessionScope(name=name) | MachineScope(name=name):
            return name
        case NoUnit(path=path):
            return f"no unit ({path})"
        case _ as never:
            assert_never(never)


def _of_groups(facts: Facts, status: Status, agent: Admission) -> Iterator[Finding]:
    held = {*status.gids, *status.groups}
    if len(set(status.gids)) > 1 or status.gids[1] != facts.opener.gid:
        expected = f"gid {facts.opener.gid} as at connect"
        yield finding(DriftKind.PRIMARY_GROUP, expected=expected, seen=f"gids {_numbers(status.gids)}")
    listed: set[int] = set()
    if agent.groups is not None:
        numbers, unknown, unavailable = _resolved(facts, agent.groups)
        listed = numbers
        expected = f"groups {', '.join(map(str, agent.groups)) or 'none'}"
        if unavailable:
            yield finding(DriftKind.NSS_UNAVAILABLE, expected=expected, seen="; ".join(unavailable), counts=True)
        elif unknown:
            seen = f"there is no group {', '.join(unknown)}"
            yield finding(DriftKind.GROUPS_MISMATCH, expected=expected, seen=seen)
        else:
            if status.gids[0] not in numbers:
                yield finding(DriftKind.PRIMARY_GROUP, expected=expected, seen=f"gid {status.gids[0]}")
            if held != numbers:
                yield finding(DriftKind.GROUPS_MISMATCH, expected=expected, seen=f"gids {_numbers(held)}")
    powerful = [group for group in facts.privilege_groups if group.gid in held and group.gid not in listed]
    if powerful:
        yield finding(
            DriftKind.PRIVILEGE_GROUP,
            expected="no group that amounts to root",
            seen=", ".join(f"{group.name} ({group.gid})" for group in powerful),
            counts=agent.mode is Mode.RESIDENT,
        )


def _resolved(facts: Facts, groups: tuple[str | int, ...]) -> tuple[set[int], list[str], list[str]]:
    """Numbers of the listed groups; names that do not exist; names that nobody answered for."""
    numbers = {group for group in groups if isinstance(group, int)}
    unknown: list[str] = []
    unavailable: list[str] = []
    known = {fact.name: fact for fact in facts.groups}
    for name in groups:
        if isinstance(name, int):
            continue
        match known.get(name):
            case GroupGid(gid=gid):
                numbers.add(gid)
            case GroupUnknown():
                unknown.append(name)
            case GroupUnavailable(reason=reason):
                unavailable.append(f"{name}: {reason}")
            case None:
                unavailable.append(f"{name}: not asked for")
            case _ as never:
                assert_never(never)
    return numbers, unknown, unavailable


def _of_elevation(status: Status, agent: Admission) -> Iterator[Finding]:
    if agent.no_new_privs and status.no_new_privs is not True:
        seen = "this kernel does not say" if status.no_new_privs is None else "NoNewPrivs 0"
        yield finding(DriftKind.NO_NEW_PRIVS_ABSENT, expected="NoNewPrivs 1", seen=seen)
    if agent.seccomp and not status.seccomp:
        seen = "this kernel does not say" if status.seccomp is None else "Seccomp 0"
        yield finding(DriftKind.SECCOMP_ABSENT, expected="Seccomp 1 or 2", seen=seen)
    if status.tracer:
        yield finding(DriftKind.TRACED, expected="no tracer", seen=f"traced by process {status.tracer}")


def _of_login(process: Process, agent: Admission, uid: Uid) -> Iterator[Finding]:
    """A resident's unset login is strong evidence; a set one is lineage or its own word, and either is wrong there."""
    if not isinstance(process.login, LoginSet):
        return
    seen = f"loginuid {process.login.uid}"
    match agent.mode:
        case Mode.RESIDENT:
            yield finding(DriftKind.LOGIN_LINEAGE, expected="loginuid unset: started by its unit", seen=seen)
        case Mode.BORROWED:
            if process.login.uid != uid:
                yield finding(DriftKind.LOGIN_OTHER, expected=f"loginuid {uid} or unset", seen=seen)
        case _ as never:
            assert_never(never)


def _numbers(numbers: tuple[int, ...] | set[int]) -> str:
    return " ".join(map(str, sorted(set(numbers)))) or "none"


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
