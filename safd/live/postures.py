"""What each connection was last seen as, so that a change is told once and not at each request.

For telling alone: a verdict is made anew at each request and never read from here.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, TypeAlias

import attrs

from safd.model.principals import DriftKind, Posture, Principal

Verdict: TypeAlias = tuple[Posture, tuple[DriftKind, ...]]

AS_ADMITTED: Final = frozenset({Posture.RESIDENT, Posture.BORROWED, Posture.PRIVILEGED})
FIRST_SIGHTS: Final = 4096
"""So many verdicts are remembered by which somebody was first seen; the oldest go."""


@attrs.frozen(kw_only=True)
class Change:
    """`before` None: it was first seen so, and that is not as it was admitted."""

    before: Posture | None
    principal: Principal


@attrs.define(eq=False)
class Postures:
    _last: dict[Hashable, Verdict] = attrs.field(factory=dict[Hashable, Verdict])
    _first: "OrderedDict[tuple[int | None, str | None, Verdict], None]" = attrs.field(
        factory=OrderedDict["tuple[int | None, str | None, Verdict]", None]
    )

    def seen(self, connection: Hashable, principal: Principal) -> Change | None:
        """The change that is worth telling, if there is one."""
        verdict = (principal.posture, tuple([one.kind for one in principal.drift]) if principal.drift else ())
        before = self._last.get(connection)
        if before == verdict:
            return None
        self._last[connection] = verdict
        if before is not None:
            return Change(before=before[0], principal=principal)
        return Change(before=None, principal=principal) if self._is_news(principal, verdict) else None

    def forget(self, connection: Hashable) -> None:
        """It ended."""
        self._last.pop(connection, None)

    def _is_news(self, principal: Principal, verdict: Verdict) -> bool:
        """Whether somebody who was just met is not as admitted, and was not met like this before.

        A person without an admission who names no agent is no news: every `saf ls` is one.
        """
        nobody = principal.posture is Posture.UNADMITTED and principal.agent is None
        if nobody or principal.posture in AS_ADMITTED:
            return False
        sight = (principal.uid, principal.agent, verdict)
        if sight in self._first:
            self._first.move_to_end(sight)
            return False
        self._first[sight] = None
        if len(self._first) > FIRST_SIGHTS:
            self._first.popitem(last=False)
        return True
