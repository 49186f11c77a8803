"""`saf whoami`, `drift`, `status`: who is speaking, and how this node is."""

import click

from saf_client import discovery, wire
from saf_client.cli.app import DRIFT_FOUND
from saf_client.cli.asked import Asked, with_asked
from saf_client.cli.printing import counted, heading, print_json, print_pairs, print_table, print_text
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
@with_asked
def drift_command(asked: Asked) -> int | None:
    """Every connected agent and every admission, with posture and drift; exits with 4 where there is drift."""
    with asked.connect() as client:
        report = client.drift()
    if asked.as_json:
        print_json(wire.render_result(report))
    else:
        _print_report(report)
    return DRIFT_FOUND if report.unreadable or any(map(_has_drift, report.agents)) else None


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
