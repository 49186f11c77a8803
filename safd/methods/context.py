"""What a method may touch: the caller as it was just observed, and the daemon's services."""

from collections.abc import Callable

import attrs

from safd.live.feed import Feed
from safd.live.turns import TurnWatch
from safd.methods.projections import Projections
from safd.methods.subscription import Subscription
from safd.model.ids import Uid
from safd.model.messages import Writer
from safd.model.principals import Node, Principal
from safd.node.kernel import Kernel
from safd.node.observe import Observer
from safd.node.peer import PeerPin
from safd.principal.facts import Sender
from safd.settings import Settings
from safd.store.port import Store


@attrs.define(eq=False, kw_only=True)
class Peer:
    """One connection. It keeps the pin, never a principal: that is observed at each request."""

    pin: PeerPin
    claim: str | None = None
    client: str | None = None
    subscriptions: dict[str, Subscription] = attrs.field(factory=dict[str, Subscription])


@attrs.frozen(kw_only=True)
class Services:
    """Everything that outlives a request. `now_ms` and `random` are the only clock and dice of the methods."""

    settings: Settings
    store: Store
    feed: Feed
    turns: TurnWatch
    projections: Projections
    observer: Observer
    kernel: Kernel
    node: Node
    now_ms: Callable[[], int]
    random: Callable[[int], bytes]
    started_at: str
    pid: int
    peers: set[Peer] = attrs.field(factory=set[Peer])
    observed: Callable[[Peer, Principal], None]
    """Told of each decision, for the numbers and the journal."""
    ended: Callable[[Peer], None]
    """Told of each connection's end."""
    count_appended: Callable[[int], None]


@attrs.frozen(kw_only=True)
class Call:
    """One request whose caller was observed and not refused. Only the guard makes one."""

    services: Services
    peer: Peer
    senders: frozenset[Sender]
    gids: frozenset[int]
    principal: Principal
    claim: str | None

    @property
    def uid(self) -> Uid:
        """The caller's uid, on which opener, sender and current ids agree."""
        return self.peer.pin.uid

    @property
    def writer(self) -> Writer:
        return Writer(uid=self.uid, agent=self.principal.agent, posture=self.principal.posture)
