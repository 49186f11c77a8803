"""Spelled messages joined into a history: who speaks first, which neighbours become one, where system may stand."""

import attrs

from safd.model.ids import MessageId
from safd.model.projections import Repair, RepairKind
from safd.replay import markers
from safd.replay.wire import Room, Slot, Spelled, UserSide


@attrs.frozen
class Finished:
    """A message that nothing will be merged into any more."""

    message: bytes
    slots: tuple[Slot, ...]


@attrs.frozen
class Declared:
    """What the last assistant message was like."""

    message_id: MessageId | None
    declares: bool
    opens_with_thought: bool


@attrs.define(eq=False)
class Assembly:
    """Takes messages in order. Where neighbours of one role merge, the last one stays open."""

    room: Room
    role: str | None = None
    assistant: Declared | None = None
    _bodies: list[bytes] = attrs.field(factory=list[bytes])
    _slots: list[Slot] = attrs.field(factory=list[Slot])
    _size: int = 0
    _last: Spelled | None = None

    def copy(self) -> "Assembly":
        return Assembly(
            self.room, self.role, self.assistant, list(self._bodies), list(self._slots), self._size, self._last
        )

    def push(self, spelled: Spelled, message_id: MessageId | None, repairs: list[Repair]) -> list[Finished]:
        """What is finished by it."""
        done: list[Finished] = []
        if self.role is None and spelled.role != "user":
            repairs.append(
                Repair(
                    kind=RepairKind.ROLE_ORDER,
                    message_id=message_id,
                    block=None,
                    detail="the history begins with the user's side: a marker says that nothing was recorded there",
                )
            )
            done += self.push(self.nothing_from_user(), None, repairs)
        if spelled.otherwise is not None and self.role not in ("user", "system"):
            spelled, repair = spelled.otherwise
            repairs.append(repair)
        if not self.room.merges:
            done.append(Finished(self.room.close(spelled.role, spelled.body), spelled.slots))
        elif spelled.role == self.role:
            self._add(spelled)
        else:
            done += self.finish()
            self._add(spelled)
        if spelled.role == "assistant":
            merged = self.assistant if self.room.merges and self.role == "assistant" else None
            self.assistant = Declared(
                message_id,
                spelled.declares or (merged is not None and merged.declares),
                spelled.opens_with_thought if merged is None else merged.opens_with_thought,
            )
        self.role = spelled.role
        return done

    def nothing_from_user(self) -> Spelled:
        return self.room.spell(UserSide([markers.NOTHING_FROM_USER]))[0]

    def finish(self) -> list[Finished]:
        """The message that was open."""
        if not self._bodies:
            return []
        body = b",".join(self._bodies)
        opened = len(self.room.close(self.role or "", b"")) - len(b"]}")
        slots = tuple(slot.shifted(opened) for slot in self._slots)
        message = self.room.close(self.role or "", body)
        self._bodies, self._slots, self._size = [], [], 0
        return [Finished(message, slots)]

    def trimmed(self) -> bool:
        """Change the open message where a history may not end as it does; says whether it had to."""
        if self._last is None or not self._bodies:
            return False
        found = self.room.ending(self._last)
        if found is None:
            return False
        self._bodies[-1] = found
        return True

    def _add(self, spelled: Spelled) -> None:
        by = self._size
        self._slots += (slot.shifted(by) for slot in spelled.slots)
        self._bodies.append(spelled.body)
        self._size += len(spelled.body) + 1
        self._last = spelled
