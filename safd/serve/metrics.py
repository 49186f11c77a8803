"""What is counted, and its text for /metrics. Counting is addition; prometheus_client is loaded when somebody asks."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from safd.model.principals import Posture, Principal

if TYPE_CHECKING:
    from prometheus_client import Metric

OK = "ok"
LATENCY_BOUNDS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


@attrs.define(eq=False)
class Latency:
    """Requests of one method by how long they took; the last count is of those above every bound."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


@attrs.define(eq=False)
class Metrics:
    """Numbers since the start, and of now. Labels are of closed sets: methods, codes, postures."""

    requests: Counter[tuple[str, str]] = attrs.field(factory=Counter[tuple[str, str]])
    latencies: dict[str, Latency] = attrs.field(factory=dict[str, Latency])
    postures: Counter[str] = attrs.field(factory=Counter[str])
    drift: Counter[str] = attrs.field(factory=Counter[str])
    changes: Counter[str] = attrs.field(factory=Counter[str])
    messages: int = 0
    connections: int = 0
    followers: int = 0
    accepted: int = 0
    turned_away: int = 0

    def request(self, method: str, code: str, seconds: float) -> None:
        self.requests[method, code] += 1
        latency = self.latencies.get(method)
        if latency is None:
            latency = self.latencies[method] = Latency()
        latency.add(seconds)

    def principal(self, principal: Principal) -> None:
        self.postures[principal.posture] += 1
        for one in principal.drift:
            self.drift[one.kind] += 1

    def changed(self, posture: Posture) -> None:
        self.changes[posture] += 1

    def appended(self, messages: int) -> None:
        self.messages += messages

    def text(self) -> bytes:
        """The text exposition format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(_Snapshot(self))
        return generate_latest(registry)


@attrs.frozen
class _Snapshot:
    """What the registry collects from."""

    metrics: Metrics

    def collect(self) -> "Iterable[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        found = self.metrics
        requests = CounterMetricFamily("safd_requests", "Requests answered.", labels=["method", "code"])
        for (method, code), count in found.requests.items():
            requests.add_metric([method, code], count)
        seconds = HistogramMetricFamily("safd_request_seconds", "From a request to its answer.", labels=["method"])
        for method, latency in found.latencies.items():
            seconds.add_metric([method], _cumulated(latency.counts), latency.sum_s)
        postures = CounterMetricFamily("safd_principals", "Principals decided.", labels=["posture"])
        for posture, count in found.postures.items():
            postures.add_metric([posture], count)
        drift = CounterMetricFamily("safd_drift", "Principals decided with this kind of drift.", labels=["kind"])
        for kind, count in found.drift.items():
            drift.add_metric([kind], count)
        changes = CounterMetricFamily(
            "safd_posture_changes", "Connections that were seen as something else.", labels=["posture"]
        )
        for posture, count in found.changes.items():
            changes.add_metric([posture], count)
        return (
            requests,
            seconds,
            postures,
            drift,
            changes,
            CounterMetricFamily("safd_messages_appended", "Messages acknowledged.", value=found.messages),
            CounterMetricFamily("safd_connections_accepted", "Connections accepted.", value=found.accepted),
            CounterMetricFamily("safd_connections_turned_away", "Connections above a limit.", value=found.turned_away),
            GaugeMetricFamily("safd_connections", "Connections now.", value=found.connections),
            GaugeMetricFamily("safd_followers", "Subscriptions now.", value=found.followers),
        )


def _cumulated(counts: list[int]) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, LATENCY_BOUNDS_S), "+Inf"), counts, strict=True):
        total += count
        found.append((bound, total))
    return found
