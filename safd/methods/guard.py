"""Observe, decide, refuse, allow: the same steps before every method, in this order, once.

Nothing here is remembered between requests. The posture decides what a model is told; who may read or write a
conversation is decided by uid alone.
"""

from typing import assert_never

from safd.api.methods import Action
from safd.methods.context import Call, Peer, Services
from safd.model.admissions import AccountAdmission
from safd.model.conversations import Conversation
from safd.model.errors import NotAdministrator, NotOperator, NotReader
from safd.model.ids import ConversationId
from safd.model.moments import rfc3339
from safd.principal import access, posture
from safd.principal.facts import (
    AdmissionFact,
    AdmissionInvalid,
    AdmissionUnreadable,
    AdmissionUnsafe,
    NoAdmission,
    Sender,
)


async def observed(services: Services, peer: Peer, senders: frozenset[Sender], claim: str | None) -> Call:
    """Who is calling, now. Raises PrincipalInconsistent, PrincipalForeign, PrincipalUnresolvable."""
    facts = await services.observer.observe(peer.pin, senders, claim)
    principal = posture.decide(facts, claim, rfc3339(services.now_ms()))
    services.observed(peer, principal)
    if principal.posture in posture.REFUSED:
        raise posture.refusal(principal)
    return Call(services=services, peer=peer, senders=senders, gids=facts.gids(), principal=principal, claim=claim)


async def claiming(call: Call, agent: str | None) -> Call:
    """The caller observed again for the agent that the parameters name; None leaves the call as it is."""
    if agent is None or agent == call.claim:
        return call
    return await observed(call.services, call.peer, call.senders, agent)


async def conversation_for(call: Call, conversation: ConversationId, action: Action) -> Conversation:
    """The conversation, if the caller may do this to it. Raises ConversationMissing, NotReader, NotOperator."""
    store = call.services.store
    found = store.known(conversation) or await store.conversation(conversation)
    if not await may(call, found, action):
        if action is Action.WRITE:
            raise NotOperator(conversation=conversation, uid=call.uid)
        raise NotReader(conversation=conversation, uid=call.uid)
    return found


async def may(call: Call, conversation: Conversation, action: Action) -> bool:
    """By uid and groups alone. Names are looked up only for a caller who is not the owner."""
    owner = conversation.owner.uid
    if call.uid == owner:
        return access.may(action, access.Relation.OWNER)
    observer = call.services.observer
    readers, operators = _listed(observer.admission(owner), conversation.agent)
    held = access.relations(
        call.uid,
        owner=owner,
        operator=await observer.accounts_match(operators, call.uid, call.gids),
        reader=await observer.accounts_match(readers, call.uid, call.gids),
        administrator=await observer.is_administrator(call.uid, call.gids),
    )
    return access.may_any(action, held)


def _listed(admission: AdmissionFact, agent: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Readers and operators of the agent whose conversation it is; an owner without admission lists nobody."""
    match admission:
        case AccountAdmission():
            admitted = None if agent is None else admission.find(agent)
            return ((), ()) if admitted is None else (admitted.readers, admitted.operators)
        case NoAdmission() | AdmissionUnsafe() | AdmissionInvalid() | AdmissionUnreadable():
            return (), ()
        case _ as never:
            assert_never(never)


async def require_administrator(call: Call) -> None:
    if not await call.services.observer.is_administrator(call.uid, call.gids):
        raise NotAdministrator(uid=call.uid)
