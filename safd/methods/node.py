"""For administrators: who is connected as whom, what is admitted, and the daemon in numbers."""

from typing import assert_never

import trio

from safd import __version__
from safd.api import results
from safd.methods import guard
from safd.methods.context import Call, Peer, Services
from safd.model.admissions import AccountAdmission
from safd.model.moments import rfc3339
from safd.node.decoration import decorate
from safd.principal import posture
from safd.principal.facts import AdmissionInvalid, AdmissionUnreadable, AdmissionUnsafe, Process, ProcessFacts
from safd.principal.unit import CgroupPath, MachineScope, NoUnit, SessionScope, SystemUnit, UserUnit, unit_of
from safd.store.schema import SCHEMA_VERSION

_decorations = trio.CapacityLimiter(2)


async def status(call: Call) -> results.Status:
    await guard.require_administrator(call)
    services = call.services
    counts = await services.store.counts()
    return results.Status(
        version=__version__,
        node_id=services.node.id,
        node_name=services.node.name,
        pid=services.pid,
        started_at=services.started_at,
        store=str(services.settings.store),
        schema=SCHEMA_VERSION,
        conversations=counts.conversations,
        messages=counts.messages,
        connections=len(services.peers),
        followers=services.feed.followers,
        open_turns=services.turns.watched,
        kernel=services.kernel.features(),
        contained=services.observer.contained,
    )


async def principals(call: Call) -> results.Principals:
    """Every connected process, observed again now; connections of one process under one name are one entry."""
    await guard.require_administrator(call)
    return results.Principals(
        data=tuple([await _connected(call.services, peers) for peers in _processes(call.services)])
    )


async def drift(call: Call) -> results.DriftReport:
    """Every connected process, observed again now, and every admission that no connection answers to.

    The same decision as at a request. What is admitted and not seen is reported as not connected, never as fine.
    """
    await guard.require_administrator(call)
    services = call.services
    agents: list[results.AgentDrift] = []
    present: set[tuple[int, str]] = set()
    for peers in _processes(services):
        seen = _as_drift(await _connected(services, peers))
        agents.append(seen)
        if seen.agent is not None:
            present.add((seen.uid, seen.agent))
    unreadable: list[results.UnreadableAdmission] = []
    for one in await services.observer.read_all():
        match one:
            case AccountAdmission():
                agents.extend(
                    results.AgentDrift(
                        agent=admission.agent,
                        uid=one.uid,
                        account=one.account,
                        unit=admission.unit,
                        mode=admission.mode.value,
                        expected_account=one.account,
                        posture=None,
                        drift=(),
                        connected=False,
                        pid=None,
                        command=None,
                        since=None,
                    )
                    for admission in one.agents
                    if (one.uid, admission.agent) not in present
                )
            case AdmissionUnsafe() | AdmissionInvalid() | AdmissionUnreadable():
                unreadable.append(results.UnreadableAdmission(path=one.path, reason=one.reason))
            case _ as never:
                assert_never(never)
    return results.DriftReport(agents=tuple(agents), unreadable=tuple(unreadable))


def _processes(services: Services) -> list[list[Peer]]:
    """The connections of each process and claim, by pid."""
    found: dict[tuple[int, str], list[Peer]] = {}
    for peer in services.peers:
        found.setdefault((peer.pin.pid, peer.claim or ""), []).append(peer)
    return [found[key] for key in sorted(found)]


async def _connected(services: Services, peers: list[Peer]) -> results.Connected:
    peer = peers[-1]
    pin = peer.pin
    facts = await services.observer.observe(pin, frozenset({pin.sender}), peer.claim)
    principal = posture.decide(facts, peer.claim, rfc3339(services.now_ms()))
    decoration = await trio.to_thread.run_sync(decorate, pin.pid, limiter=_decorations)
    started = decoration.started_unix_s
    return results.Connected(
        pid=pin.pid,
        uid=pin.uid,
        unit=_unit_name(facts.process),
        command=decoration.command,
        since=None if started is None else rfc3339(int(started * 1000)),
        connections=len(peers),
        principal=principal,
    )


def _as_drift(seen: results.Connected) -> results.AgentDrift:
    principal = seen.principal
    return results.AgentDrift(
        agent=principal.agent,
        uid=seen.uid,
        account=principal.account,
        unit=seen.unit,
        mode=None if principal.mode is None else principal.mode.value,
        expected_account=None if principal.expected is None else principal.expected.account,
        posture=principal.posture.value,
        drift=principal.drift,
        connected=True,
        pid=seen.pid,
        command=seen.command,
        since=seen.since,
    )


def _unit_name(process: ProcessFacts) -> str | None:
    """The unit for the report's reader: under a person's own manager its name is that person's word."""
    if not isinstance(process, Process) or not isinstance(process.cgroup, CgroupPath):
        return None
    unit = unit_of(process.cgroup.path)
    match unit:
        case SystemUnit() | SessionScope() | MachineScope():
            return unit.name
        case UserUnit():
            return unit.manager if unit.name is None else f"{unit.manager}/{unit.name}"
        case NoUnit():
            return None
        case _ as never:
            assert_never(never)
