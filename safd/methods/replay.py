"""Replay: the record as a payload, with the principal of this very request."""

from safd.api import params, results
from safd.api.methods import Action
from safd.methods import guard
from safd.methods.context import Call
from safd.methods.projections import Key, Warm
from safd.model.authority import imitates_principal
from safd.model.errors import PrincipalInRecord
from safd.model.failures import RowUnreadable
from safd.model.principals import Principal
from safd.model.projections import Repair, RepairKind
from safd.model.turns import LIVE
from safd.replay.project import Rendered
from safd.store.port import DamagedRow


async def replay(call: Call, asked: params.Replay) -> results.Replayed:
    services = call.services
    principal = (await guard.claiming(call, asked.agent)).principal
    system = _system(asked.system)
    found = await guard.conversation_for(call, asked.conversation, Action.READ)
    key = Key(
        conversation=asked.conversation,
        target=asked.target,
        capabilities=asked.capabilities,
        provider=asked.provider,
        model=asked.model,
    )
    async with services.projections.at_head(key, found.head_seq) as warm:
        # nothing below waits: what is rendered is one moment of the record and of its turn
        now = services.store.known(asked.conversation) or found
        live_after = now.turn.after_seq if now.turn is not None and now.turn.state in LIVE else None
        rendered = warm.projection.render(
            system=system, principal_text=principal.text, live_after=live_after, since=asked.since
        )
        return _answer(asked, principal, warm, rendered)


def _answer(asked: params.Replay, principal: Principal, warm: Warm, rendered: Rendered) -> results.Replayed:
    return results.Replayed(
        target=asked.target,
        payload=results.Spliced(rendered.payload),
        principal=principal,
        repairs=tuple(map(_left_out, warm.damaged)) + rendered.repairs,
        stable_prefix=rendered.stable_prefix,
        prefix_break=rendered.prefix_break,
        resumed=rendered.resumed,
        head_seq=warm.head_seq,
        usage=warm.usage,
    )


def _system(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    texts = (given,) if isinstance(given, str) else given or ()
    for index, text in enumerate(texts):
        if imitates_principal(text):
            raise PrincipalInRecord(path="system" if isinstance(given, str) else f"system[{index}]")
    if imitates_principal(*texts):
        raise PrincipalInRecord(path="system")
    return texts


def _left_out(row: DamagedRow) -> Repair:
    return Repair(
        kind=RepairKind.ROW_UNREADABLE,
        message_id=None,
        block=None,
        detail=str(RowUnreadable(conversation="this conversation", seq=row.seq, reason=row.reason)),
    )
