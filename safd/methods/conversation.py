"""Conversations as things: create, list, get, archive."""

from safd.api import params, results
from safd.api.methods import Action
from safd.methods import guard
from safd.methods.context import Call
from safd.model.conversations import Conversation, Owner
from safd.model.errors import ValueNotAllowed
from safd.store.port import Draft

TITLE_LIMIT = 1000
METADATA_LIMIT = 64 * 1024
"""A list holds hundreds of conversations with their metadata: what is large belongs into messages."""
LIST_LIMIT = 500


async def create(call: Call, asked: params.Create) -> results.OneConversation:
    if asked.title is not None and len(asked.title) > TITLE_LIMIT:
        raise ValueNotAllowed(path="title", expected=f"at most {TITLE_LIMIT} characters", seen=f"{len(asked.title)}")
    if asked.metadata is not None and len(asked.metadata) > METADATA_LIMIT:
        expected = f"at most {METADATA_LIMIT} characters of JSON"
        raise ValueNotAllowed(path="metadata", expected=expected, seen=f"{len(asked.metadata)}")
    made = await call.services.store.create(
        Draft(
            agent=asked.agent if asked.agent is not None else call.principal.agent,
            owner=Owner(uid=call.uid, account=call.principal.account or str(call.uid)),
            title=asked.title,
            metadata=asked.metadata,
            idempotency_key=asked.idempotency_key,
        )
    )
    return results.OneConversation(conversation=made)


async def list_conversations(call: Call, asked: params.ListConversations) -> results.Conversations:
    """The caller's own come by its uid; others' are shown where their owner's admission lists the caller."""
    if not 1 <= asked.limit <= LIST_LIMIT:
        raise ValueNotAllowed(path="limit", expected=f"1 to {LIST_LIMIT}", seen=str(asked.limit))
    found: list[Conversation] = []
    readable: dict[tuple[int, str | None], bool] = {}
    after = asked.after
    while len(found) <= asked.limit:
        page = await call.services.store.conversations(
            owner=None, agent=asked.agent, archived=asked.archived, after=after, limit=LIST_LIMIT
        )
        for one in page:
            whose = (one.owner.uid, one.agent)
            if whose not in readable:
                readable[whose] = await guard.may(call, one, Action.READ)
            if readable[whose]:
                found.append(one)
        if len(page) < LIST_LIMIT:
            break
        after = page[-1].id
    return results.Conversations(data=tuple(found[: asked.limit]), has_more=len(found) > asked.limit)


async def get(call: Call, asked: params.OneConversation) -> results.OneConversation:
    return results.OneConversation(conversation=await guard.conversation_for(call, asked.conversation, Action.READ))


async def archive(call: Call, asked: params.Archive) -> results.OneConversation:
    await guard.conversation_for(call, asked.conversation, Action.WRITE)
    made = await call.services.store.archive(asked.conversation, archived=asked.archived)
    return results.OneConversation(conversation=made)
