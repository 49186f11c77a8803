"""Open turns and the processes they depend on: a turn whose process dies is over, and said to be.

A process is held by a pidfd, which is readable once the process has exited (zombie or reaped) and can never come
to mean another one.
"""

import os
from collections.abc import Awaitable, Callable

import attrs
import trio

from safd.model.ids import TurnId

Exited = Callable[[], Awaitable[None]]


@attrs.define(eq=False)
class TurnWatch:
    """One task per watched turn, all in the nursery of whoever made the watch."""

    _nursery: trio.Nursery
    _scopes: dict[TurnId, trio.CancelScope] = attrs.field(factory=dict[TurnId, trio.CancelScope])

    def start(self, turn: TurnId, pidfd: int, exited: Exited) -> None:
        """Call `exited` once, when the process has exited. Takes over `pidfd` and closes it."""
        scope = self._scopes[turn] = trio.CancelScope()
        self._nursery.start_soon(self._watch, turn, pidfd, exited, scope, name=f"watch {turn}")

    def stop(self, turn: TurnId) -> None:
        """The turn ended otherwise; the process no longer matters."""
        scope = self._scopes.pop(turn, None)
        if scope is not None:
            scope.cancel()

    @property
    def watched(self) -> int:
        return len(self._scopes)

    async def _watch(self, turn: TurnId, pidfd: int, exited: Exited, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await trio.lowlevel.wait_readable(pidfd)
        finally:
            os.close(pidfd)
        if scope.cancelled_caught:
            return
        self._scopes.pop(turn, None)
        await exited()
