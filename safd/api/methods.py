"""The method table: each method once, read by both framings, the documents, the client and the docs test."""

import attrs

from safd.api import params, results
from safd.model.actions import Action

__all__ = ["BY_NAME", "METHODS", "Action", "Method", "Route"]


@attrs.frozen(kw_only=True)
class Route:
    """An HTTP face: `{conversation}` and `{turn}` in the path are parameters of that name."""

    verb: str
    path: str


@attrs.frozen(kw_only=True)
class Method:
    name: str
    params: type[params.Params]
    result: type[results.Result]
    action: Action
    route: Route | None
    summary: str
    streams: bool = False


METHODS: tuple[Method, ...] = (
    Method(
        name="session.hello",
        params=params.Hello,
        result=results.Hello,
        action=Action.OPEN,
        route=None,
        summary="Say once which agent this connection speaks for. A claim: it chooses among admitted agents, no more.",
    ),
    Method(
        name="conversation.create",
        params=params.Create,
        result=results.OneConversation,
        action=Action.CREATE,
        route=Route(verb="POST", path="/v1/conversations"),
        summary="Create a conversation; the caller's uid owns it.",
    ),
    Method(
        name="conversation.list",
        params=params.ListConversations,
        result=results.Conversations,
        action=Action.OPEN,
        route=Route(verb="GET", path="/v1/conversations"),
        summary="The conversations that the caller may read, newest first.",
    ),
    Method(
        name="conversation.get",
        params=params.OneConversation,
        result=results.OneConversation,
        action=Action.READ,
        route=Route(verb="GET", path="/v1/conversations/{conversation}"),
        summary="One conversation: owner, head, open turn.",
    ),
    Method(
        name="conversation.archive",
        params=params.Archive,
        result=results.OneConversation,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/archive"),
        summary="Archive a conversation, or take it back with archived=false. An archived one takes no appends.",
    ),
    Method(
        name="conversation.append",
        params=params.Append,
        result=results.Appended,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/messages"),
        summary="Append messages, all or none; answered when they are on disk.",
    ),
    Method(
        name="conversation.messages",
        params=params.Messages,
        result=results.Messages,
        action=Action.READ,
        route=Route(verb="GET", path="/v1/conversations/{conversation}/messages"),
        summary="Hydration: the stored messages, verbatim, in pages.",
    ),
    Method(
        name="conversation.attach",
        params=params.Attach,
        result=results.Attached,
        action=Action.READ,
        route=Route(verb="GET", path="/v1/conversations/{conversation}/events"),
        summary="What is stored after a cursor, then what happens, as one stream.",
        streams=True,
    ),
    Method(
        name="conversation.detach",
        params=params.Detach,
        result=results.Detached,
        action=Action.OPEN,
        route=None,
        summary="End a subscription of this connection.",
    ),
    Method(
        name="conversation.replay",
        params=params.Replay,
        result=results.Replayed,
        action=Action.READ,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/replay"),
        summary="The record as a payload that the target accepts, with the caller's principal and every repair.",
    ),
    Method(
        name="conversation.microcompact",
        params=params.Microcompact,
        result=results.Microcompacted,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/microcompact"),
        summary="Mark older tool results as cleared for the model; the record keeps them.",
    ),
    Method(
        name="conversation.compact",
        params=params.Compact,
        result=results.CompactedThrough,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/compact"),
        summary="Mark everything up to a seq as replaced, for the model, by a summary.",
    ),
    Method(
        name="turn.open",
        params=params.TurnOpen,
        result=results.OneTurn,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/turns"),
        summary="Begin a turn. It is interrupted when the process that opened it dies.",
    ),
    Method(
        name="turn.wait",
        params=params.TurnWait,
        result=results.OneTurn,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/turns/{turn}/wait"),
        summary="Say that the turn waits for a person, or (waiting=false) that it goes on.",
    ),
    Method(
        name="turn.close",
        params=params.TurnClose,
        result=results.OneTurn,
        action=Action.WRITE,
        route=Route(verb="POST", path="/v1/conversations/{conversation}/turns/{turn}/close"),
        summary="End a turn as completed or interrupted.",
    ),
    Method(
        name="principal.observe",
        params=params.Observe,
        result=results.Observed,
        action=Action.OPEN,
        route=Route(verb="GET", path="/v1/principal"),
        summary="Who the caller is right now, and the block that a model would be told.",
    ),
    Method(
        name="node.principals",
        params=params.Principals,
        result=results.Principals,
        action=Action.ADMINISTER,
        route=Route(verb="GET", path="/v1/node/principals"),
        summary="Every connected process, with its principal as it is now.",
    ),
    Method(
        name="node.drift",
        params=params.Drift,
        result=results.DriftReport,
        action=Action.ADMINISTER,
        route=Route(verb="GET", path="/v1/node/drift"),
        summary="Every connected agent and every admission, each with posture and drift.",
    ),
    Method(
        name="node.status",
        params=params.Status,
        result=results.Status,
        action=Action.ADMINISTER,
        route=Route(verb="GET", path="/v1/node/status"),
        summary="The daemon in numbers, and what this kernel gives.",
    ),
    Method(
        name="rpc.discover",
        params=params.Discover,
        result=results.Described,
        action=Action.OPEN,
        route=None,
        summary="This table as an OpenRPC document.",
    ),
)

BY_NAME: dict[str, Method] = {method.name: method for method in METHODS}
