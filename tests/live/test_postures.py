"""A change of posture is told once, and who was never as admitted is told once too."""

from safd.live import postures
from safd.live.postures import Change, Postures
from safd.model.principals import DriftKind, Posture
from tests.fakes import principal

RESIDENT = principal(Posture.RESIDENT)
TRACED = principal(Posture.DRIFTED, DriftKind.TRACED)


def test_what_is_as_admitted_is_no_news() -> None:
    """A resident, a borrower, root, and a person who names no agent: nothing to tell, however often they ask."""
    seen = Postures()
    for number, one in enumerate(
        (
            RESIDENT,
            principal(Posture.BORROWED),
            principal(Posture.PRIVILEGED, agent=None),
            principal(Posture.UNADMITTED, agent=None),
        )
    ):
        assert seen.seen(number, one) is None
        assert seen.seen(number, one) is None


def test_a_change_is_told_once() -> None:
    """Away and back are two changes; the same again is none; another kind of drift is one."""
    seen = Postures()
    unit = principal(Posture.DRIFTED, DriftKind.UNIT_MISMATCH)
    asked = [RESIDENT, TRACED, TRACED, unit, RESIDENT, RESIDENT]
    told = [seen.seen("one", each) for each in asked]
    assert told == [
        None,
        Change(before=Posture.RESIDENT, principal=TRACED),
        None,
        Change(before=Posture.DRIFTED, principal=unit),
        Change(before=Posture.DRIFTED, principal=RESIDENT),
        None,
    ]


def test_first_seen_drifted() -> None:
    """A stream of short connections of the same drifted agent is one line; another account's is another."""
    seen = Postures()
    told = []
    for number in range(5):
        told.append(seen.seen(number, TRACED))
        seen.forget(number)
    assert told == [Change(before=None, principal=TRACED), None, None, None, None]
    other = principal(Posture.DRIFTED, DriftKind.TRACED, uid=1001)
    assert seen.seen("other", other) == Change(before=None, principal=other)
    claimed = principal(Posture.UNADMITTED, DriftKind.CLAIM_MISMATCH)
    assert seen.seen("claimed", claimed) == Change(before=None, principal=claimed)


def test_what_is_remembered_is_bounded() -> None:
    """Ended connections leave nothing, first sights are let go beyond a number."""
    seen = Postures()
    for uid in range(postures.FIRST_SIGHTS + 10):
        assert seen.seen(uid, principal(Posture.DRIFTED, uid=uid)) is not None
        seen.forget(uid)
    assert seen.seen("again", principal(Posture.DRIFTED, uid=0)) is not None
    newest = principal(Posture.DRIFTED, uid=postures.FIRST_SIGHTS + 9)
    assert seen.seen("newest", newest) is None
