"""Every row of the method table as a `Call`, with typed parameters; both shells ask through these alone."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from saf_client import wire
from saf_client.session import Call
from saf_client.wire import Offered
from safd.api import params, results
from safd.model.blocks import Block, Text
from safd.model.ids import ConversationId, MarkId, Seq, TurnId
from safd.model.projections import Capabilities, StablePrefix, Target

T = TypeVar("T")


def _call(method: str, asked: params.Params, result: type[T]) -> Call[T]:
    return Call(method=method, params=wire.render_params(asked), read=partial(wire.read, result))


def hello(*, agent: str | None, client: str | None) -> Call[results.Hello]:
    return _call("session.hello", params.Hello(agent=agent, client=client), results.Hello)


def create(
    *, agent: str | None, title: str | None, metadata: Mapping[str, Any] | str | None, idempotency_key: str
) -> Call[results.OneConversation]:
    asked = params.Create(
        agent=agent,
        title=title,
        metadata=None if metadata is None else wire.exact_json(metadata, "metadata"),
        idempotency_key=idempotency_key,
    )
    return _call("conversation.create", asked, results.OneConversation)


def list_conversations(
    *, agent: str | None, archived: bool, after: str | None, limit: int
) -> Call[results.Conversations]:
    asked = params.ListConversations(
        agent=agent, archived=archived, after=None if after is None else ConversationId(after), limit=limit
    )
    return _call("conversation.list", asked, results.Conversations)


def get(conversation: str) -> Call[results.OneConversation]:
    asked = params.OneConversation(conversation=ConversationId(conversation))
    return _call("conversation.get", asked, results.OneConversation)


def archive(conversation: str, *, archived: bool) -> Call[results.OneConversation]:
    asked = params.Archive(conversation=ConversationId(conversation), archived=archived)
    return _call("conversation.archive", asked, results.OneConversation)


def append(
    conversation: str, messages: Sequence[Offered], *, idempotency_key: str, expected_seq: int | None
) -> Call[results.Appended]:
    asked = params.Append(
        conversation=ConversationId(conversation),
        messages=tuple(wire.offered_text(item, f"messages[{index}]") for index, item in enumerate(messages)),
        idempotency_key=idempotency_key,
        expected_seq=expected_seq,
    )
    return _call("conversation.append", asked, results.Appended)


def messages(
    conversation: str, *, after: int | None, before: int | None, limit: int, order: params.Order
) -> Call[results.Messages]:
    asked = params.Messages(
        conversation=ConversationId(conversation), after=after, before=before, limit=limit, order=order
    )
    return _call("conversation.messages", asked, results.Messages)


def attach(conversation: str, *, after: int | None) -> Call[results.Attached]:
    return _call(
        "conversation.attach",
        params.Attach(conversation=ConversationId(conversation), after=after),
        results.Attached,
    )


def replay(
    conversation: str,
    target: Target | str,
    *,
    agent: str | None,
    provider: str | None,
    model: str | None,
    capabilities: Capabilities | None,
    system: str | Sequence[str] | None,
    since: StablePrefix | None,
) -> Call[results.Replayed]:
    asked = params.Replay(
        conversation=ConversationId(conversation),
        target=Target(target),
        agent=agent,
        provider=provider,
        model=model,
        capabilities=capabilities or Capabilities(),
        system=system if system is None or isinstance(system, str) else tuple(system),
        since=since,
    )
    return _call("conversation.replay", asked, results.Replayed)


def microcompact(conversation: str, *, keep_recent: int, restore: str | None) -> Call[results.Microcompacted]:
    asked = params.Microcompact(
        conversation=ConversationId(conversation),
        keep_recent=keep_recent,
        restore=None if restore is None else MarkId(restore),
    )
    return _call("conversation.microcompact", asked, results.Microcompacted)


def compact(conversation: str, *, through_seq: int, summary: str | Sequence[Block]) -> Call[results.CompactedThrough]:
    asked = params.Compact(
        conversation=ConversationId(conversation),
        through_seq=Seq(through_seq),
        summary=(Text(text=summary),) if isinstance(summary, str) else tuple(summary),
    )
    return _call("conversation.compact", asked, results.CompactedThrough)


def turn_open(conversation: str, *, agent: str | None) -> Call[results.OneTurn]:
    return _call("turn.open", params.TurnOpen(conversation=ConversationId(conversation), agent=agent), results.OneTurn)


def turn_wait(conversation: str, turn: str, *, waiting: bool) -> Call[results.OneTurn]:
    asked = params.TurnWait(conversation=ConversationId(conversation), turn=TurnId(turn), waiting=waiting)
    return _call("turn.wait", asked, results.OneTurn)


def turn_close(conversation: str, turn: str, *, outcome: params.Outcome, reason: str | None) -> Call[results.OneTurn]:
    asked = params.TurnClose(
        conversation=ConversationId(conversation), turn=TurnId(turn), outcome=outcome, reason=reason
    )
    return _call("turn.close", asked, results.OneTurn)


def observe(*, agent: str | None) -> Call[results.Observed]:
    return _call("principal.observe", params.Observe(agent=agent), results.Observed)


def principals() -> Call[results.Principals]:
    return _call("node.principals", params.Principals(), results.Principals)


def drift() -> Call[results.DriftReport]:
    return _call("node.drift", params.Drift(), results.DriftReport)


def status() -> Call[results.Status]:
    return _call("node.status", params.Status(), results.Status)


def discover() -> Call[results.Described]:
    return _call("rpc.discover", params.Discover(), results.Described)
