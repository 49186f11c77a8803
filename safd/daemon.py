"""The composition root: builds every room, joins them, and runs them in one nursery.

Order at the start: socket, store, turns of before, serving, READY. Order at the end: STOPPING, no new connections,
running requests get their answers, watches end, the store drains and closes. A passed socket is never unlinked.
"""

import os
import signal
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import trio

from safd.live.feed import Feed
from safd.live.postures import AS_ADMITTED, Change, Postures
from safd.live.turns import TurnWatch
from safd.methods.app import App
from safd.methods.context import Peer, Services
from safd.methods.projections import Projections
from safd.methods.subscription import row_event
from safd.methods.turns import resume_watches
from safd.model.ids import ConversationId
from safd.model.moments import rfc3339
from safd.model.principals import Principal
from safd.node import journal, systemd
from safd.node.identity import read_node
from safd.node.kernel import Kernel
from safd.node.observe import Observer
from safd.node.peer import prepare_listener
from safd.serve import listener
from safd.serve.metrics import Metrics
from safd.settings import Settings
from safd.store.port import Row
from safd.store.sqlite import open_store

SOCKET_NAME = "safd"


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


async def run(settings: Settings, passed: socket.socket | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises SafError or OSError when it cannot start."""
    kernel = Kernel.probe()
    metrics = Metrics()
    feed = Feed(settings.limits.ring_events, settings.limits.followers_per_conversation)

    def committed(conversation: ConversationId, rows: tuple[Row, ...]) -> None:
        if feed.followed(conversation):
            for row in rows:
                feed.publish(conversation, row_event(row))

    postures = Postures()

    def observed(peer: Peer, principal: Principal) -> None:
        metrics.principal(principal)
        change = postures.seen(peer, principal)
        if change is not None:
            metrics.changed(principal.posture)
            _tell(change, peer)

    with _listening(settings, passed, kernel) as sock:
        async with (
            open_store(
                settings.store, limits=settings.limits, clock=unix_ms, random=os.urandom, on_committed=committed
            ) as store,
            trio.open_nursery() as nursery,
        ):
            services = Services(
                settings=settings,
                store=store,
                feed=feed,
                turns=TurnWatch(nursery),
                projections=Projections(store=store, limit_bytes=settings.limits.projections_bytes),
                observer=Observer(
                    kernel=kernel,
                    admissions=settings.admissions,
                    user_mode=settings.user_mode,
                    node=read_node(),
                    limits=settings.limits,
                    clock_ms=unix_ms,
                ),
                kernel=kernel,
                node=read_node(),
                now_ms=unix_ms,
                random=os.urandom,
                started_at=rfc3339(unix_ms()),
                pid=os.getpid(),
                observed=observed,
                ended=postures.forget,
                count_appended=metrics.appended,
            )
            await resume_watches(services)
            nursery.start_soon(_watchdog)
            await nursery.start(partial(listener.serve, settings.limits, sock, kernel, App(services), metrics))
            # whoever is told READY may send SIGTERM at once
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as stops:
                systemd.notify("READY=1", f"STATUS=serving {sock.getsockname()}")
                await anext(aiter(stops))
            systemd.notify("STOPPING=1")
            nursery.cancel_scope.cancel()


def _tell(change: Change, peer: Peer) -> None:
    """One line in the journal, with a field for each thing that one searches by."""
    principal = change.principal
    agent, account = principal.agent or "no agent", principal.account or f"uid {principal.uid}"
    was = "first seen" if change.before is None else f"was {change.before.value}"
    kinds = [one.kind.value for one in principal.drift]
    journal.tell(
        f"{agent} as {account} is {principal.posture.value} ({was})" + (f": {', '.join(kinds)}" if kinds else ""),
        {
            "SAFD_EVENT": "posture",
            "SAFD_AGENT": principal.agent or "",
            "SAFD_ACCOUNT": principal.account or "",
            "SAFD_UID": "" if principal.uid is None else str(principal.uid),
            "SAFD_PID": str(peer.pin.pid),
            "SAFD_POSTURE": principal.posture.value,
            "SAFD_POSTURE_BEFORE": "" if change.before is None else change.before.value,
            "SAFD_DRIFT": " ".join(kinds),
        },
        priority=5 if principal.posture in AS_ADMITTED else 4,
    )


@contextmanager
def _listening(settings: Settings, passed: socket.socket | None, kernel: Kernel) -> Generator[socket.socket]:
    if passed is not None:
        with passed:
            prepare_listener(passed, kernel)
            yield passed
    elif settings.socket is not None:
        with listener.bind(settings.socket, shared=settings.shared, kernel=kernel) as bound:
            yield bound
    else:
        raise ValueError("neither a socket was passed nor a place for one named")


async def _watchdog() -> None:
    """Fed from this loop itself, so that a blocked loop is seen."""
    interval = systemd.watchdog_interval_s()
    if interval is None:
        return
    while True:
        systemd.notify("WATCHDOG=1")
        await trio.sleep(interval / 3)
