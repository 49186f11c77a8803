"""Turns: opened, waiting, closed, and interrupted when their process dies."""

import os
from collections.abc import Awaitable, Callable

from safd.api import params, results
from safd.api.methods import Action
from safd.methods import guard
from safd.methods.context import Call, Services
from safd.methods.events import turn_event
from safd.model import ids
from safd.model.errors import PrincipalUnresolvable, TurnMoveRefused
from safd.model.ids import ConversationId, Seq, TurnId
from safd.model.moments import rfc3339
from safd.model.turns import Turn, TurnState
from safd.node.revive import ProcessMark, held_process, identify
from safd.store.port import Process

PROCESS_EXITED = "the process that opened the turn exited"
PROCESS_GONE = "the process that opened the turn was gone when safd started"
REASON_LIMIT = 500


async def open_turn(call: Call, asked: params.TurnOpen) -> results.OneTurn:
    services = call.services
    found = await guard.conversation_for(call, asked.conversation, Action.WRITE)
    pidfd = call.peer.pin.pidfd
    if pidfd is None:
        raise PrincipalUnresolvable(reason="this kernel gives no handle on the process that the turn depends on")
    mark = identify(call.peer.pin.pid)
    if mark is None:
        raise PrincipalUnresolvable(reason="the process that opens the turn has exited")
    turn = await services.store.open_turn(
        Turn(
            id=TurnId(ids.mint(ids.TURN, services.now_ms(), services.random(ids.RANDOM_BYTES))),
            conversation=asked.conversation,
            state=TurnState.OPEN,
            agent=asked.agent if asked.agent is not None else call.principal.agent,
            uid=call.uid,
            after_seq=Seq(found.head_seq),
            opened_at=rfc3339(services.now_ms()),
        ),
        Process(pid=mark.pid, start_ticks=mark.start_ticks, boot_id=mark.boot_id),
    )
    services.turns.start(turn.id, os.dup(pidfd), interrupter(services, turn, PROCESS_EXITED))
    services.feed.publish(turn.conversation, turn_event(turn))
    return results.OneTurn(turn=turn)


async def wait(call: Call, asked: params.TurnWait) -> results.OneTurn:
    await guard.conversation_for(call, asked.conversation, Action.WRITE)
    state = TurnState.WAITING if asked.waiting else TurnState.OPEN
    return results.OneTurn(turn=await _move(call.services, asked.conversation, asked.turn, state, None))


async def close(call: Call, asked: params.TurnClose) -> results.OneTurn:
    await guard.conversation_for(call, asked.conversation, Action.WRITE)
    state = TurnState(asked.outcome.value)
    reason = None if asked.reason is None else asked.reason[:REASON_LIMIT]
    turn = await _move(call.services, asked.conversation, asked.turn, state, reason)
    call.services.turns.stop(asked.turn)
    return results.OneTurn(turn=turn)


async def _move(
    services: Services, conversation: ConversationId, turn: TurnId, state: TurnState, reason: str | None
) -> Turn:
    moved = await services.store.move_turn(conversation, turn, state, reason=reason)
    services.feed.publish(conversation, turn_event(moved))
    return moved


def interrupter(services: Services, turn: Turn, reason: str) -> Callable[[], Awaitable[None]]:
    """What happens when the turn's process has exited."""

    async def interrupt() -> None:
        try:
            await _move(services, turn.conversation, turn.id, TurnState.INTERRUPTED, reason)
        except TurnMoveRefused:
            # it was closed in the moment in which its process died: the close stands
            return

    return interrupt


async def resume_watches(services: Services) -> None:
    """After a start: watch the processes of turns that are still open; interrupt those whose process is gone."""
    for one in await services.store.open_turns():
        pidfd = None if one.process is None else held_process(_mark(one.process))
        if pidfd is None:
            await interrupter(services, one.turn, PROCESS_GONE)()
        else:
            services.turns.start(one.turn.id, pidfd, interrupter(services, one.turn, PROCESS_EXITED))


def _mark(process: Process) -> ProcessMark:
    return ProcessMark(pid=process.pid, start_ticks=process.start_ticks, boot_id=process.boot_id)
