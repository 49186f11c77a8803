"""The verdict: facts and a claim in, exactly one posture out.

The order of the questions is the precedence of the postures: is it known who asks (unresolvable), do opener, sender and
current ids agree (inconsistent), does the caller live in this node's namespaces (foreign), is it above all admissions
(privileged), is anybody admitted here (unadmitted), which of them is it (ambiguous), and is it as it was admitted
(drifted). A disagreement about the connection outranks everything that the process looks like: a setuid program that
writes on somebody's socket looks like root.

A claim only chooses among the agents that are admitted to the caller's uid. It is never looked up for authority; it is
looked up elsewhere only to tell a caller which account it was meant to have.
"""

from typing import TypeAlias, assert_never

import attrs

from safd.model.admissions import UID_NONE, UID_OVERFLOW, AccountAdmission, Admission
from safd.model.errors import Denied, PrincipalForeign, PrincipalInconsistent, PrincipalUnresolvable
from safd.model.principals import Drift, DriftKind, ExpectedAccount, Mode, Posture, Principal
from safd.principal.drift import Finding, attests, drift, of_agent, of_placement, out_of_time
from safd.principal.facts import (
    AccountNames,
    AdmissionInvalid,
    AdmissionUnreadable,
    AdmissionUnsafe,
    Credentials,
    EvidenceDenied,
    Exited,
    Facts,
    NoAdmission,
    NoCredentials,
    Process,
    Truncated,
)
from safd.principal.text import block
from safd.principal.unit import CgroupUnreadable

REFUSED: frozenset[Posture] = frozenset({Posture.UNRESOLVABLE, Posture.INCONSISTENT, Posture.FOREIGN})
"""Who asks is not established here, so nothing is done for it."""


@attrs.frozen(kw_only=True)
class _Verdict:
    posture: Posture
    agent: str | None = None
    mode: Mode | None = None
    expected: ExpectedAccount | None = None
    drift: tuple[Drift, ...] = ()


def decide(facts: Facts, claim: str | None, observed_at: str) -> Principal:
    """The principal of one request. Total: any facts give a verdict, and no failure gives a better one."""
    verdict = _decide(facts, claim)
    text = block(_principal(facts, verdict, observed_at, ""), claim)
    return _principal(facts, verdict, observed_at, text)


def _principal(facts: Facts, verdict: _Verdict, observed_at: str, text: str) -> Principal:
    opener = facts.opener
    return Principal(
        agent=verdict.agent,
        posture=verdict.posture,
        mode=verdict.mode,
        uid=opener.uid if opener.pid > 0 and opener.uid < UID_NONE else None,
        account=facts.names.names[0] if isinstance(facts.names, AccountNames) else None,
        expected=verdict.expected,
        node=facts.node,
        drift=verdict.drift,
        pin=facts.pin,
        text=text,
        observed_at=observed_at,
    )


def refusal(principal: Principal) -> Denied:
    """The typed error for a principal whose posture is in REFUSED."""
    reason = "; ".join(f"{entry.kind}: expected {entry.expected}, seen {entry.seen}" for entry in principal.drift)
    match principal.posture:
        case Posture.INCONSISTENT:
            return PrincipalInconsistent(reason=reason)
        case Posture.FOREIGN:
            return PrincipalForeign(reason=reason)
        case Posture.UNRESOLVABLE:
            return PrincipalUnresolvable(reason=reason)
        case (
            Posture.PRIVILEGED
            | Posture.UNADMITTED
            | Posture.AMBIGUOUS
            | Posture.DRIFTED
            | Posture.RESIDENT
            | Posture.BORROWED
        ):
            raise ValueError(f"a caller that is {principal.posture} is not refused")
        case _ as never:
            assert_never(never)


def _decide(facts: Facts, claim: str | None) -> _Verdict:
    unknown = (*_of_senders(facts), *_of_reading(facts), *_of_record(facts))
    process = facts.process
    if unknown or not isinstance(process, Process):
        return _Verdict(posture=Posture.UNRESOLVABLE, drift=unknown)
    contradictions = (*_of_opener(facts), *_of_ids(facts, process))
    if contradictions:
        return _Verdict(posture=Posture.INCONSISTENT, drift=contradictions)
    outside = _of_namespaces(facts, process)
    if outside:
        return _Verdict(posture=Posture.FOREIGN, drift=outside)
    notes = tuple(of_placement(facts, process))
    powers = _of_powers(process)
    if facts.opener.uid == 0 or powers:
        return _Verdict(posture=Posture.PRIVILEGED, drift=powers + _drifts(notes))
    return _of_admission(facts, process, claim, notes)


# --- is it known who asks


def _of_senders(facts: Facts) -> tuple[Drift, ...]:
    expected = "the credentials of one sender"
    found: list[Drift] = []
    credentials = 0
    for sender in facts.senders:
        match sender:
            case Credentials():
                credentials += 1
            case NoCredentials():
                found.append(
                    drift(DriftKind.CREDENTIALS_MISSING, expected=expected, seen="none with part of the request")
                )
            case Truncated():
                found.append(
                    drift(DriftKind.CREDENTIALS_TRUNCATED, expected=expected, seen="more than fits beside them")
                )
            case _ as never:
                assert_never(never)
    if not facts.senders:
        found.append(drift(DriftKind.CREDENTIALS_MISSING, expected=expected, seen="no sender at all"))
    if facts.opener.pid <= 0:
        found.append(drift(DriftKind.CREDENTIALS_MISSING, expected="the process that connected", seen="process 0"))
    if credentials > 1:
        found.append(drift(DriftKind.MIXED_SENDERS, expected=expected, seen=f"{credentials} different ones"))
    return tuple(sorted(found, key=lambda entry: entry.kind))


def _of_reading(facts: Facts) -> tuple[Drift, ...]:
    found: list[Drift] = []
    process = facts.process
    match process:
        case Exited(noticed=noticed):
            found.append(drift(DriftKind.PEER_EXITED, expected="a live process", seen=noticed))
        case EvidenceDenied(source=source, reason=reason):
            found.append(drift(DriftKind.EVIDENCE_DENIED, expected=f"{source} of a live process", seen=reason))
        case Process(cgroup=cgroup):
            if isinstance(cgroup, CgroupUnreadable) and _demands_unit(facts):
                found.append(drift(DriftKind.UNIT_UNREADABLE, expected="the unit's cgroup", seen=cgroup.reason))
        case _ as never:
            assert_never(never)
    return tuple(found)


def _of_record(facts: Facts) -> tuple[Drift, ...]:
    found: list[Drift] = []
    match facts.admission:
        case AdmissionUnsafe(path=path, reason=reason):
            found.append(drift(DriftKind.RECORD_UNSAFE, expected=f"{path} that only root can write", seen=reason))
        case AdmissionInvalid(path=path, reason=reason):
            found.append(drift(DriftKind.RECORD_INVALID, expected=f"{path} with a valid admission", seen=reason))
        case AdmissionUnreadable(path=path, reason=reason):
            found.append(drift(DriftKind.RECORD_UNREADABLE, expected=f"{path} that can be read", seen=reason))
        case AccountAdmission() | NoAdmission():
            pass
        case _ as never:
            assert_never(never)
    return tuple(found)


def _demands_unit(facts: Facts) -> bool:
    """Placement is missing evidence only where some admission of this uid rests on it."""
    admission = facts.admission
    return isinstance(admission, AccountAdmission) and any(agent.unit is not None for agent in admission.agents)


# --- do opener, sender and current ids agree


def _of_opener(facts: Facts) -> tuple[Drift, ...]:
    found: list[Drift] = []
    opener = facts.opener
    for sender in facts.senders:
        if not isinstance(sender, Credentials):
            continue
        if sender.uid != opener.uid:
            expected, seen = f"uid {opener.uid}, which connected", f"uid {sender.uid} wrote"
            found.append(drift(DriftKind.SENDER_USER, expected=expected, seen=seen))
        if sender.pid != opener.pid:
            expected, seen = f"process {opener.pid}, which connected", f"process {sender.pid} wrote"
            found.append(drift(DriftKind.SENDER_PROCESS, expected=expected, seen=seen))
    return tuple(found)


def _of_ids(facts: Facts, process: Process) -> tuple[Drift, ...]:
    opener = facts.opener
    ids = {*process.status.uids, *(process.info.uids if process.info is not None else ())}
    if ids == {opener.uid}:
        return ()
    seen = f"uids {' '.join(map(str, sorted(ids)))}"
    return (drift(DriftKind.IDS_CHANGED, expected=f"uid {opener.uid} alone, as at connect", seen=seen),)


# --- does it live here


def _of_namespaces(facts: Facts, process: Process) -> tuple[Drift, ...]:
    found: list[Drift] = []
    uid = facts.opener.uid
    if uid in (UID_OVERFLOW, UID_NONE):
        seen = f"uid {uid}, which stands for any uid unknown here"
        found.append(drift(DriftKind.FOREIGN_USERNS, expected="a uid of this node", seen=seen))
    elif process.uid_map != process.own_uid_map:
        expected = f"uid_map {' '.join(process.own_uid_map.split())}"
        seen = f"uid_map {' '.join(process.uid_map.split())}" if process.uid_map.strip() else "an empty uid_map"
        found.append(drift(DriftKind.FOREIGN_USERNS, expected=expected, seen=seen))
    if process.status.pid_namespaces > 1:
        seen = f"{process.status.pid_namespaces} nested process namespaces"
        found.append(drift(DriftKind.FOREIGN_PIDNS, expected="the node's own process namespace", seen=seen))
    return tuple(found)


# --- is it above all admissions


def _of_powers(process: Process) -> tuple[Drift, ...]:
    status = process.status
    held = status.permitted | status.effective | status.ambient
    if not held or 0 in status.uids:
        return ()  # root's are no drift: root is told that it is root
    return (drift(DriftKind.CAPABILITIES, expected="no capability", seen=f"capabilities {held:#x}"),)


# --- which agent is it, and is it as admitted


@attrs.frozen(kw_only=True)
class _Chosen:
    account: AccountAdmission
    agent: Admission


_Choice: TypeAlias = _Chosen | _Verdict


def _of_admission(facts: Facts, process: Process, claim: str | None, notes: tuple[Finding, ...]) -> _Verdict:
    choice = _choose(facts, process, claim)
    match choice:
        case _Verdict():
            return attrs.evolve(choice, drift=choice.drift + _drifts(notes))
        case _Chosen(account=account, agent=agent):
            expected = ExpectedAccount(uid=account.uid, account=account.account)
            lapsed = out_of_time(facts, agent)
            if lapsed is not None:
                return _Verdict(
                    posture=Posture.UNRESOLVABLE,
                    agent=agent.agent,
                    mode=agent.mode,
                    expected=expected,
                    drift=(lapsed,),
                )
            findings = (*_of_neighbours(process, account, agent), *of_agent(facts, process, account, agent), *notes)
            return _Verdict(
                posture=_posture(agent, findings),
                agent=agent.agent,
                mode=agent.mode,
                expected=expected,
                drift=_drifts(findings),
            )
        case _ as never:
            assert_never(never)


def _choose(facts: Facts, process: Process, claim: str | None) -> _Choice:
    admission = facts.admission
    agents = admission.agents if isinstance(admission, AccountAdmission) else ()
    if claim is not None:
        for agent in agents:
            if agent.agent == claim and isinstance(admission, AccountAdmission):
                return _Chosen(account=admission, agent=agent)
        return _of_claim(facts, claim)
    if not agents or not isinstance(admission, AccountAdmission):
        return _Verdict(posture=Posture.UNADMITTED)
    if len(agents) == 1:
        return _Chosen(account=admission, agent=agents[0])
    placed = [agent for agent in agents if attests(process, agent)]
    if len(placed) == 1:
        return _Chosen(account=admission, agent=placed[0])
    return _Verdict(posture=Posture.AMBIGUOUS)


def _of_claim(facts: Facts, claim: str) -> _Verdict:
    """A claim that names nobody of this uid: somebody admitted elsewhere, or nobody at all."""
    admission = facts.admission
    elsewhere = facts.elsewhere
    uid = facts.opener.uid
    if elsewhere is not None and elsewhere.agent == claim and elsewhere.places:
        place = elsewhere.places[0]
        meant = " or ".join(f"{entry.account} (uid {entry.uid})" for entry in elsewhere.places)
        return _Verdict(
            posture=Posture.DRIFTED,
            agent=claim,
            mode=place.mode,
            expected=ExpectedAccount(uid=place.uid, account=place.account),
            drift=(drift(DriftKind.ACCOUNT_MISMATCH, expected=f"account {meant}", seen=f"uid {uid}"),),
        )
    if not isinstance(admission, AccountAdmission) or not admission.agents:
        return _Verdict(posture=Posture.UNADMITTED)
    expected = f"one of {', '.join(agent.agent for agent in admission.agents)}"
    return _Verdict(
        posture=Posture.DRIFTED,
        drift=(drift(DriftKind.CLAIM_MISMATCH, expected=expected, seen=claim[:80]),),
    )


def _of_neighbours(process: Process, account: AccountAdmission, agent: Admission) -> tuple[Finding, ...]:
    """A claim against the system manager's word: the process stands in the unit of another agent of this account."""
    if agent.unit is not None:
        return ()
    placed = [other.agent for other in account.agents if other.agent != agent.agent and attests(process, other)]
    if not placed:
        return ()
    expected = f"{' or '.join(placed)}, whose unit this is"
    return (Finding(drift=drift(DriftKind.CLAIM_MISMATCH, expected=expected, seen=agent.agent), counts=True),)


def _posture(agent: Admission, findings: tuple[Finding, ...]) -> Posture:
    if any(finding.counts for finding in findings):
        return Posture.DRIFTED
    match agent.mode:
        case Mode.RESIDENT:
            return Posture.RESIDENT
        case Mode.BORROWED:
            return Posture.BORROWED
        case _ as never:
            assert_never(never)


def _drifts(findings: tuple[Finding, ...]) -> tuple[Drift, ...]:
    """In the order found, each kind once: the first of a kind is the one that counts."""
    seen: dict[DriftKind, Drift] = {}
    for finding in findings:
        seen.setdefault(finding.drift.kind, finding.drift)
    return tuple(seen.values())
