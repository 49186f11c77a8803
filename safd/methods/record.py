"""The record of a conversation: append, hydrate, attach."""

from typing import assert_never

import trio

from safd.api import params, results
from safd.api.events import LiveEvent
from safd.api.methods import Action
from safd.methods import guard
from safd.methods.context import Call
from safd.methods.events import turn_event
from safd.methods.subscription import Subscription
from safd.model import codec, fastparse, spans
from safd.model.errors import CursorGone, MessagesTooMany, MessageTooLarge, SubscriptionMissing, ValueNotAllowed
from safd.model.turns import LIVE
from safd.settings import Limits
from safd.store.port import AnyRow, DamagedRow, Offer, Row

THREAD_FROM_CHARACTERS = 256 * 1024
KEY_LIMIT = 200

_checks = trio.CapacityLimiter(2)


async def append(call: Call, asked: params.Append) -> results.Appended:
    """Check each message once, at the door; answered when all of them are on disk."""
    services = call.services
    await guard.conversation_for(call, asked.conversation, Action.WRITE)
    if asked.idempotency_key is not None and not 1 <= len(asked.idempotency_key) <= KEY_LIMIT:
        raise ValueNotAllowed(
            path="idempotency_key", expected=f"1 to {KEY_LIMIT} characters", seen=str(len(asked.idempotency_key))
        )
    limits = services.settings.limits
    if not 1 <= len(asked.messages) <= limits.messages_per_append:
        raise MessagesTooMany(count=len(asked.messages), limit=limits.messages_per_append)
    if sum(map(len, asked.messages)) < THREAD_FROM_CHARACTERS:
        _check(asked.messages, limits)
    else:
        await trio.to_thread.run_sync(_check, asked.messages, limits, limiter=_checks)
    receipt = await services.store.append(
        Offer(
            conversation=asked.conversation,
            texts=asked.messages,
            writer=call.writer,
            idempotency_key=asked.idempotency_key,
            expected_seq=asked.expected_seq,
        )
    )
    if receipt.fresh:
        services.count_appended(len(receipt.ids))
    return results.Appended(
        first_seq=receipt.first_seq, last_seq=receipt.last_seq, ids=receipt.ids, head_seq=receipt.head_seq
    )


def _check(messages: tuple[params.OfferedText, ...], limits: Limits) -> None:
    for index, text in enumerate(messages):
        path = f"messages[{index}]"
        message = fastparse.parse_message(text)
        if message is None:
            codec.parse_message(spans.trusted(text, path))
        else:
            codec.refuse_principal(message, path)
        size = len(text) if text.isascii() else len(text.encode())
        if size > limits.message_bytes:
            raise MessageTooLarge(path=path, size_bytes=size, limit_bytes=limits.message_bytes)


async def messages(call: Call, asked: params.Messages) -> results.Messages:
    """Hydration: stored texts as they are, no types, no codec."""
    await guard.conversation_for(call, asked.conversation, Action.READ)
    limit = call.services.settings.limits.page_messages
    if not 1 <= asked.limit <= limit:
        raise ValueNotAllowed(path="limit", expected=f"1 to {limit}", seen=str(asked.limit))
    page = await call.services.store.page(
        asked.conversation,
        after=asked.after,
        before=asked.before,
        limit=asked.limit,
        descending=asked.order is params.Order.DESC,
    )
    ids = [row.id for row in page.rows if isinstance(row, Row)]
    return results.Messages(
        data=tuple(map(_hydrated, page.rows)),
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
        has_more=page.has_more,
        head_seq=page.head_seq,
    )


def _hydrated(row: AnyRow) -> results.RawJson:
    match row:
        case Row():
            return results.RawJson(row.text)
        case DamagedRow():
            return results.RawJson(codec.dump({"seq": row.seq, "damaged": row.code}))
        case _ as never:
            assert_never(never)


async def attach(call: Call, asked: params.Attach) -> Subscription:
    """From a cursor on: what is stored, then what happens, without a seam."""
    services = call.services
    found = await guard.conversation_for(call, asked.conversation, Action.READ)
    cursor = asked.after if asked.after is not None else 0
    if not 0 <= cursor <= found.head_seq:
        raise CursorGone(cursor=cursor, head_seq=found.head_seq)

    async def recheck() -> None:
        again = await guard.observed(services, call.peer, call.senders, call.claim)
        await guard.conversation_for(again, asked.conversation, Action.READ)

    opening: tuple[LiveEvent, ...] = ()
    if found.turn is not None and found.turn.state in LIVE:
        opening = (turn_event(found.turn),)
    return Subscription(
        attached=results.Attached(subscription=f"sub_{services.random(8).hex()}", head_seq=found.head_seq),
        conversation=asked.conversation,
        store=services.store,
        follower=services.feed.follow(asked.conversation),
        recheck=recheck,
        cursor=cursor,
        opening=opening,
    )


async def detach(call: Call, asked: params.Detach) -> results.Detached:
    """The subscription ends when its connection hears of it; one that is not there is a wrong id."""
    await trio.lowlevel.checkpoint()
    subscription = call.peer.subscriptions.pop(asked.subscription, None)
    if subscription is None:
        raise SubscriptionMissing(subscription=asked.subscription[:80])
    subscription.close()
    return results.Detached(subscription=asked.subscription)
