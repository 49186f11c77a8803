"""From a request to its outcome: the one place where faults become answers.

Whatever safd names (`SafError`) is an answer like any other. Whatever it does not name is a fault of its own: logged
with its traceback, answered `internal`, and the connection that met it ends. The daemon goes on.
"""

import logging
from collections.abc import Awaitable
from time import perf_counter
from typing import Protocol, TypeAlias

import attrs

from safd.api import door
from safd.api.door import Given
from safd.api.methods import BY_NAME, Method
from safd.api.results import Result
from safd.methods.context import Peer
from safd.methods.subscription import Subscription
from safd.model.errors import MethodMissing, SafError
from safd.model.failures import Internal
from safd.node.peer import PeerPin
from safd.principal.facts import Sender
from safd.serve.metrics import OK, Metrics
from safd.serve.outgoing import PeerGone

UNKNOWN = "unknown"
"""The method label of what names no method: labels come from a closed set, not from callers."""
_SHOWN = 80
_log = logging.getLogger(__name__)


class Application(Protocol):
    """What the socket needs of the rooms behind it."""

    def connected(self, pin: PeerPin) -> Peer:
        """A connection begins."""
        ...

    def disconnected(self, peer: Peer) -> None:
        """It ended; its subscriptions are closed already."""
        ...

    async def answer(
        self, peer: Peer, method: Method, given: Given, senders: frozenset[Sender], claim: str | None
    ) -> Result | Subscription:
        """Raises SafError. `claim` None: the connection's own."""
        ...

    async def may_administer(self, peer: Peer, senders: frozenset[Sender]) -> None:
        """Returns for administrators; raises NotAdministrator, or what an unfit caller is refused with."""
        ...


@attrs.frozen
class Failed:
    """`fatal`: the connection ends after the answer."""

    error: SafError
    fatal: bool = False


Outcome: TypeAlias = "list[bytes] | Subscription | Failed"
"""A result's JSON in pieces, a stream, or a fault."""


@attrs.frozen
class Dispatch:
    app: Application
    metrics: Metrics

    async def answer(
        self, peer: Peer, name: str, given: Given, senders: frozenset[Sender], claim: str | None
    ) -> Outcome:
        started = perf_counter()
        method = BY_NAME.get(name)
        if method is None:
            outcome: Outcome = Failed(MethodMissing(method=name[:_SHOWN]))
        else:
            outcome = await self._outcome(peer, method, given, senders, claim)
        code = outcome.error.code if isinstance(outcome, Failed) else OK
        self.metrics.request(UNKNOWN if method is None else name, code, perf_counter() - started)
        return outcome

    async def _outcome(
        self, peer: Peer, method: Method, given: Given, senders: frozenset[Sender], claim: str | None
    ) -> Outcome:
        try:
            answer = await self.app.answer(peer, method, given, senders, claim)
            return answer if isinstance(answer, Subscription) else door.render_pieces(answer)
        except SafError as error:
            return Failed(error)
        except Exception:  # noqa: BLE001  whatever it is, it is logged and the others go on
            return _internal(method.name)

    async def administers(self, peer: Peer, senders: frozenset[Sender]) -> Failed | None:
        return await self.watched("/metrics", self.app.may_administer(peer, senders))

    async def watched(self, what: str, work: Awaitable[object]) -> Failed | None:
        """How something beside a method fails, or None when it went well."""
        try:
            await work
        except SafError as error:
            return Failed(error)
        except PeerGone:
            raise
        except Exception:  # noqa: BLE001  whatever it is, it is logged and the others go on
            return _internal(what)
        return None

    def refused(self, error: SafError) -> None:
        """What was refused before a method was found."""
        self.metrics.request(UNKNOWN, error.code, 0.0)


def _internal(what: str) -> Failed:
    _log.exception("%s failed", what)
    return Failed(Internal(), fatal=True)
