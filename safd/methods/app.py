"""The way from a request to its answer: observe, refuse, parse, allow, act.

A body is parsed into types only after its sender was observed and not refused.
"""

from typing import TypeAlias, assert_never

import attrs

from safd import __version__
from safd.api import describe, door, params, results
from safd.api.methods import Method
from safd.methods import conversation, guard, node, record, sight, turns
from safd.methods import replay as replaying
from safd.methods.context import Call, Peer, Services
from safd.methods.subscription import Subscription
from safd.node.peer import PeerPin
from safd.principal.facts import Sender

Answer: TypeAlias = results.Result | Subscription


@attrs.frozen
class App:
    services: Services

    def connected(self, pin: PeerPin) -> Peer:
        peer = Peer(pin=pin)
        self.services.peers.add(peer)
        return peer

    def disconnected(self, peer: Peer) -> None:
        self.services.peers.discard(peer)
        self.services.ended(peer)

    async def may_administer(self, peer: Peer, senders: frozenset[Sender]) -> None:
        """Returns for administrators. Raises NotAdministrator, or what an unfit caller is refused with."""
        await guard.require_administrator(await guard.observed(self.services, peer, senders, peer.claim))

    async def answer(
        self, peer: Peer, method: Method, given: door.Given, senders: frozenset[Sender], claim: str | None
    ) -> Answer:
        """Raises SafError for whatever is refused or fails; `claim` None means the connection's own."""
        call = await guard.observed(self.services, peer, senders, claim if claim is not None else peer.claim)
        return await act(call, door.structure(method.params, given))


async def act(call: Call, asked: params.Params) -> Answer:  # noqa: C901, PLR0911, PLR0912 - one arm per method
    """What each method does, one arm each."""
    match asked:
        case params.Hello():
            return hello(call, asked)
        case params.Create():
            return await conversation.create(call, asked)
        case params.ListConversations():
            return await conversation.list_conversations(call, asked)
        case params.OneConversation():
            return await conversation.get(call, asked)
        case params.Archive():
            return await conversation.archive(call, asked)
        case params.Append():
            return await record.append(call, asked)
        case params.Messages():
            return await record.messages(call, asked)
        case params.Attach():
            return await record.attach(call, asked)
        case params.Detach():
            return await record.detach(call, asked)
        case params.Replay():
            return await replaying.replay(call, asked)
        case params.Microcompact():
            return await sight.microcompact(call, asked)
        case params.Compact():
            return await sight.compact(call, asked)
        case params.TurnOpen():
            return await turns.open_turn(call, asked)
        case params.TurnWait():
            return await turns.wait(call, asked)
        case params.TurnClose():
            return await turns.close(call, asked)
        case params.Observe():
            return await observe(call, asked)
        case params.Principals():
            return await node.principals(call)
        case params.Drift():
            return await node.drift(call)
        case params.Status():
            return await node.status(call)
        case params.Discover():
            return results.Described(document=results.RawJson(describe.openrpc()))
        case _ as never:
            assert_never(never)


def hello(call: Call, asked: params.Hello) -> results.Hello:
    """The claim of this connection, from now on."""
    call.peer.claim = asked.agent
    call.peer.client = asked.client
    return results.Hello(server="safd", version=__version__, agent=asked.agent)


async def observe(call: Call, asked: params.Observe) -> results.Observed:
    return results.Observed(principal=(await guard.claiming(call, asked.agent)).principal)
