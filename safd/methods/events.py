"""What methods tell the followers besides stored messages."""

from safd.api.door import render
from safd.api.events import MARK, TURN, LiveEvent
from safd.api.results import OneMark, OneTurn
from safd.model.marks import Mark
from safd.model.turns import Turn


def turn_event(turn: Turn) -> LiveEvent:
    return LiveEvent(TURN, None, render(OneTurn(turn=turn)))


def mark_event(mark: Mark) -> LiveEvent:
    return LiveEvent(MARK, None, render(OneMark(mark=mark)))
