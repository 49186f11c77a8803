"""`saf whoami`, `drift`, `status`: who is speaking, and how this node is."""

import sys
import time
from datetime import datetime
from typing import NoReturn

import click

from saf_client import discovery, wire
from saf_client.cli.app import DRIFT_FOUND
from saf_client.cli.asked import Asked, with_asked
from saf_client.cli.printing import counted, heading, print_json, print_pairs, print_table, print_text
from saf_client.sync import Client
from safd.api.results import AgentDrift, DriftReport
from safd.model.principals import Drift, Posture, Principal

NOT_AS_ADMITTED = frozenset(
    {Posture.DRIFTED, Posture.AMBIGUOUS, Posture.INCONSISTENT, Posture.FOREIGN, Posture.UNRESOLVABLE}
)


@click.command("whoami")
@with_asked
def whoami_command(asked: Asked) -> None:
    """Who you are to safd right now, and the block that a model would be told."""
    with asked.connect() as client:
        principal = client.observe(agent=asked.agent).principal
        used = client.used
    if asked.as_json:
        print_json(
            b'{"principal":%b,"socket":{"path":%b,"source":%b}}'
            % (
                wire.render_result(principal),
                wire.json_text(used.path).encode(),
                wire.json_text(used.source).encode(),
            )
        )
        return
    print_pairs(principal_pairs(principal))
    print_drift(principal.drift)
    heading("What a model is told")
    print_text(principal.text)
    click.echo(discovery.used(used), err=True)


def principal_pairs(principal: Principal) -> list[tuple[str, str]]:
    expected = principal.expected
    return [
        ("agent", principal.agent or "none"),
        ("posture", principal.posture.value),
        ("mode", "none" if principal.mode is None else principal.mode.value),
        ("account", f"{principal.account or '?'} (uid {'?' if principal.uid is None else principal.uid})"),
        ("expected", "none" if expected is None else f"{expected.account} (uid {expected.uid})"),
        ("node", f"{principal.node.name} ({principal.node.id})"),
        ("pin", principal.pin.value),
        ("observed", principal.observed_at),
    ]


def print_drift(drift: tuple[Drift, ...]) -> None:
    for one in drift:
        heading(f"drift: {one.kind.value}")
        print_pairs(
            [("expected", one.expected), ("seen", one.seen), ("evidence", one.strength.value), ("advice", one.advice)]
        )


@click.command("drift")
@click.option("--watch", is_flag=True, help="Go on, and show it again whenever it changed.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="With --watch or --lasting: how often to look.",
)
@click.option(
    "--lasting",
    metavar="SECONDS",
    type=click.FloatRange(0, 86400),
    help="Drift counts only if it is there all the time for so long.",
)
@with_asked
def drift_command(asked: Asked, *, watch: bool, every: float, lasting: float | None) -> int | None:
    """Every connected agent and every admission, with posture and drift; exits with 4 where there is drift."""
    if watch and lasting is not None:
        raise click.UsageError("--watch goes on until it is interrupted, --lasting ends: one of them.")
    with asked.connect() as client:
        report = client.drift()
        if watch:
            _watch(client, report, every, as_json=asked.as_json)
        drifts = _drifts(report)
        until = time.monotonic() + (lasting or 0)
        while drifts and time.monotonic() < until:
            time.sleep(min(every, max(0.0, until - time.monotonic())))
            report = client.drift()
            drifts &= _drifts(report)
    _show(report, as_json=asked.as_json)
    return DRIFT_FOUND if drifts else None


def _watch(client: Client, report: DriftReport, every: float, *, as_json: bool) -> NoReturn:
    """Until interrupted. What changes at each look, such as clocks, is not in a report."""
    while True:
        _show(report, as_json=as_json)
        sys.stdout.flush()
        before = report
        while report == before:
            time.sleep(every)
            report = client.drift()
        if not as_json:
            heading(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}")


def _show(report: DriftReport, *, as_json: bool) -> None:
    if as_json:
        print_json(wire.render_result(report))
    else:
        _print_report(report)


def _drifts(report: DriftReport) -> set[tuple[object, ...]]:
    """What is not as it was admitted: who, as whom, and why; files that admit nobody too."""
    found: set[tuple[object, ...]] = {
        (one.agent, one.uid, one.posture, tuple(drift.kind for drift in one.drift))
        for one in report.agents
        if _has_drift(one)
    }
    found.update((one.path, one.reason) for one in report.unreadable)
    return found


def _has_drift(agent: AgentDrift) -> bool:
    if agent.posture in NOT_AS_ADMITTED:
        return True
    return agent.posture == Posture.UNADMITTED and agent.agent is not None


def _print_report(report: DriftReport) -> None:
    if not report.agents and not report.unreadable:
        click.echo("Nobody is connected and nobody is admitted.")
        return
    rows = [
        (
            agent.agent,
            agent.account or f"uid {agent.uid}",
            agent.expected_account,
            agent.posture or ("connected" if agent.connected else "not seen"),
            ", ".join(one.kind.value for one in agent.drift) or None,
            None if agent.pid is None else str(agent.pid),
            agent.command,
        )
        for agent in report.agents
    ]
    print_table(("agent", "account", "expected", "posture", "drift and notes", "pid", "command"), rows, wide=6)
    for agent in report.agents:
        if _has_drift(agent):
            heading(f"{agent.agent or 'unnamed'} as {agent.account or agent.uid}")
            print_drift(agent.drift)
    for unreadable in report.unreadable:
        heading(f"unreadable: {unreadable.path}")
        click.echo(unreadable.reason)


@click.command("status")
@with_asked
def status_command(asked: Asked) -> None:
    """The daemon in numbers, and what this kernel gives."""
    with asked.connect() as client:
        status = client.status()
        used = client.used
    if asked.as_json:
        print_json(wire.render_result(status))
        return
    now = ((status.connections, "connection"), (status.followers, "follower"), (status.open_turns, "open turn"))
    print_pairs(
        [
            ("safd", f"{status.version}, pid {status.pid}, since {status.started_at}"),
            ("socket", f"{used.path} ({used.source})"),
            ("node", f"{status.node_name} ({status.node_id})"),
            ("store", f"{status.store}, schema {status.schema}"),
            ("record", f"{counted(status.conversations, 'conversation')}, {counted(status.messages, 'message')}"),
            ("now", ", ".join(counted(*each) for each in now)),
            ("kernel", ", ".join(status.kernel) or "none of the newer facts"),
            ("contained", "yes" if status.contained else "no"),
        ]
    )
