"""The projection of a record onto a target: incremental, without I/O, the same bytes however it was fed.

Messages whose calls are answered are frozen into bytes once. Behind the first call whose result may still come
everything is kept as units and rendered again, but spelled again only where something changed.
"""

from collections import deque
from collections.abc import Sequence
from typing import assert_never

import attrs
import orjson

from safd.model.ids import MessageId
from safd.model.marks import Cleared, Compacted, Mark, Restored
from safd.model.messages import Role, StoredMessage
from safd.model.projections import Capabilities, PrefixBreak, Repair, RepairKind, StablePrefix, Target
from safd.replay.assembly import Assembly, Finished
from safd.replay.callids import CallIds
from safd.replay.history import History, marked
from safd.replay.notes import Notes, Request
from safd.replay.rounds import Binder, Round, Unit
from safd.replay.shaping import Shaper
from safd.replay.sight import Sight, sight
from safd.replay.targets import anthropic, openai_chat
from safd.replay.unicode import carried
from safd.replay.wire import Room, Spelled


@attrs.frozen(kw_only=True)
class Rendered:
    """`payload` is the pieces of one JSON object. Where it is resumed, history and repairs start after `since`."""

    payload: tuple[bytes, ...]
    repairs: tuple[Repair, ...]
    stable_prefix: StablePrefix
    prefix_break: PrefixBreak | None
    resumed: bool


@attrs.define(eq=False)
class _Open:
    """A unit that is not frozen yet, and how it was spelled last."""

    unit: Unit
    running: bool = False
    spelled: list[Spelled] | None = None
    repairs: list[Repair] = attrs.field(factory=list[Repair])


def room_of(target: Target) -> Room:
    match target:
        case Target.OPENAI_CHAT:
            return openai_chat.ROOM
        case Target.ANTHROPIC:
            return anthropic.ROOM
        case _ as never:
            assert_never(never)


@attrs.define(eq=False, kw_only=True)
class Projection:
    """What a record looks like to a target, as far as it was fed."""

    _room: Room = attrs.field(alias="room")
    _request: Request = attrs.field(alias="request")
    _sight: Sight = attrs.field(alias="sight")
    _marks: tuple[Mark, ...] = attrs.field(alias="marks")
    _ids: CallIds = attrs.field(alias="ids")
    _assembly: Assembly = attrs.field(alias="assembly")
    _binder: Binder = attrs.field(factory=Binder)
    _history: History = attrs.field(factory=History)
    _tail: deque[_Open] = attrs.field(factory=deque[_Open])
    _at_start: bool = True
    _system: list[str] = attrs.field(factory=list[str])
    _system_repairs: list[Repair] = attrs.field(factory=list[Repair])
    _repairs: list[Repair] = attrs.field(factory=list[Repair])
    _repairs_before: list[int] = attrs.field(factory=list[int])
    """For each frozen message, how many repairs belong to those up to it."""

    @classmethod
    def start(
        cls,
        target: Target,
        capabilities: Capabilities,
        provider: str | None,
        model: str | None,
        marks: tuple[Mark, ...] = (),
    ) -> "Projection":
        """Nothing fed yet. A new mark needs a new projection."""
        room = room_of(target)
        seen = sight(marks)
        request = Request(
            rules=room.rules, capabilities=capabilities, provider=provider, model=model, cleared=seen.cleared
        )
        projection = cls(
            room=room,
            request=request,
            sight=seen,
            marks=marks,
            ids=CallIds(room.rules.call_id),
            assembly=Assembly(room),
        )
        if seen.summary is not None:
            notes = Notes(request, None, careful=True)
            for shape in Shaper(notes, running=False).summary(seen.summary):
                projection._freeze(room.spell(shape), None, notes.repairs)
        return projection

    def extend(self, messages: Sequence[StoredMessage]) -> None:
        """Take the messages that follow, in order."""
        for stored in messages:
            hidden = stored.seq <= self._sight.through
            unit = self._binder.bind(stored, hidden=hidden)
            if isinstance(unit, Round) and not hidden:
                for call in unit.calls:
                    call.wire_id = self._ids.give(call.use.id, call.message_id, call.block)
            if stored.message.role is not Role.SYSTEM:
                self._at_start = False
            if self._at_start:
                self._lead(unit)
                if not unit.items:
                    continue
            if not hidden:
                self._tail.append(_Open(unit))
        while self._tail and self._tail[0].unit.undecided == 0:
            settled = self._tail.popleft()
            self._freeze(self._spelled(settled, None), settled.unit.stored.id, settled.repairs)

    def render(
        self, *, system: tuple[str, ...], principal_text: str, live_after: int | None, since: StablePrefix | None
    ) -> Rendered:
        """The payload as of now.

        `live_after`: unanswered calls of messages with a higher seq are still running; None: no turn is open.
        `since`: the stable prefix that the caller sent last.
        """
        room, history = self._room, self._history
        system_repairs = list(self._system_repairs)
        opening = room.opening(self._system_texts(system, principal_text, system_repairs))
        ends, tail_repairs = self._open_end(live_after)
        ends, image_repairs = self._within_budget(ends)
        resumed = since is not None and history.stands(since.messages, since.sha256)
        after = since.messages if since is not None and resumed else 0
        pieces = _joined(opening, history.pieces(after), [end.message for end in ends])
        first_repair = self._repairs_before[after - 1] if after else 0
        return Rendered(
            payload=tuple(pieces),
            repairs=(
                *system_repairs,
                *self._repairs[first_repair:],
                *tail_repairs,
                *(repair for message, repair in image_repairs if message >= after),
            ),
            stable_prefix=StablePrefix(messages=len(history), sha256=history.digest(len(history)).hex()),
            prefix_break=None if since is None or resumed else self._why_broken(since),
            resumed=resumed,
        )

    # --- what is settled

    def _lead(self, unit: Unit) -> None:
        """A system message before everything else belongs to the system part, also where it is out of sight."""
        notes = Notes(self._request, unit.stored.id, careful=True)
        self._system += Shaper(notes, running=False).leading(unit)
        self._system_repairs += notes.repairs

    def _freeze(self, spelled: list[Spelled], message_id: MessageId | None, repairs: list[Repair]) -> None:
        # where neighbours merge, pushing finishes the message before, to which these repairs do not belong
        if not self._room.merges:
            self._repairs += repairs
        for each in spelled:
            for finished in self._assembly.push(each, message_id, self._repairs):
                self._history.append(finished.message, finished.slots)
                self._repairs_before.append(len(self._repairs))
        if self._room.merges:
            self._repairs += repairs

    def _spelled(self, entry: _Open, live_after: int | None) -> list[Spelled]:
        unit = entry.unit
        running = live_after is not None and unit.undecided > 0 and unit.stored.seq > live_after
        if entry.spelled is None or unit.changed or running is not entry.running:
            unit.changed = False
            entry.running = running
            try:
                entry.spelled, entry.repairs = self._shaped(unit, running=running, careful=False)
            except orjson.JSONEncodeError:  # something that UTF-8 cannot carry: rare, so it is looked for only then
                entry.spelled, entry.repairs = self._shaped(unit, running=running, careful=True)
        return entry.spelled

    def _shaped(self, unit: Unit, *, running: bool, careful: bool) -> tuple[list[Spelled], list[Repair]]:
        notes = Notes(self._request, unit.stored.id, careful)
        spell = self._room.spell
        return [each for shape in Shaper(notes, running).unit(unit) for each in spell(shape)], notes.repairs

    # --- what an append may still change

    def _open_end(self, live_after: int | None) -> tuple[list[Finished], list[Repair]]:
        """The messages behind the stable prefix, as they are now."""
        assembly = self._assembly.copy()
        repairs: list[Repair] = []
        found: list[Finished] = []
        for entry in self._tail:
            for each in self._spelled(entry, live_after):
                found += assembly.push(each, entry.unit.stored.id, repairs)
            repairs += entry.repairs
        if assembly.role is None:
            repairs.append(
                Repair(
                    kind=RepairKind.ROLE_ORDER,
                    message_id=None,
                    block=None,
                    detail="no message can cross: a marker says that nothing was recorded",
                )
            )
            found += assembly.push(assembly.nothing_from_user(), None, repairs)
        repairs += self._reports(assembly)
        found += assembly.finish()
        return found, repairs

    def _reports(self, assembly: Assembly) -> list[Repair]:
        """What the caller must know about the end of the history."""
        rules, last = self._request.rules, assembly.assistant
        found: list[Repair] = []
        if last is None:
            return found
        if rules.ends_with_user and assembly.role == "assistant":
            if assembly.trimmed():
                why = "a history that ends with the assistant may not end in white space"
                found.append(_whole(RepairKind.WHITESPACE_TRIMMED, last.message_id, why))
            why = "the history ends with the assistant: newer models take that for a prefill and refuse it"
            found.append(_whole(RepairKind.ENDS_WITH_ASSISTANT, last.message_id, why))
        thinks = rules.thinking_switch and self._request.capabilities.thinking
        if thinks and last.declares and not last.opens_with_thought:
            why = "no thinking block that can be verified opens the last declaration: ask with thinking off or adaptive"
            found.append(_whole(RepairKind.REASONING_MISSING, last.message_id, why))
        return found

    def _within_budget(self, ends: list[Finished]) -> tuple[list[Finished], list[tuple[int, Repair]]]:
        """The open end within what one request takes of images, and each image that is not seen for it."""
        history, budget = self._history, self._room.budget
        frozen = len(history.pictures)
        images = frozen + sum(len(end.slots) for end in ends)
        if budget is None or images <= budget.many:
            return ends, []
        oldest, large = budget.dropped(images), images > budget.many
        history.drop(oldest, large=large)
        gone = [(picture.message, picture.slot) for picture in history.pictures if picture.dropped]
        found: list[Finished] = []
        for end in ends:
            goes = [index < oldest or (large and slot.large) for index, slot in enumerate(end.slots, start=frozen)]
            frozen += len(goes)
            gone += ((len(history) + len(found), slot) for slot, drops in zip(end.slots, goes, strict=True) if drops)
            pairs = [(slot, False, drops) for slot, drops in zip(end.slots, goes, strict=True)]
            message, slots, _ = marked(end.message, pairs)
            found.append(Finished(message, slots))
        why = "the request holds more images than its target takes"
        return found, [
            (
                message,
                Repair(
                    kind=RepairKind.IMAGE_UNSEEN,
                    message_id=slot.place.message_id,
                    block=slot.place.block,
                    detail=why,
                ),
            )
            for message, slot in gone
        ]

    # --- what the caller holds

    def _why_broken(self, since: StablePrefix) -> PrefixBreak:
        """The likeliest reason: digests tell that a prefix does not stand, the marks in force tell why it may not."""
        if self._history.stood(since.messages, since.sha256):
            return PrefixBreak.IMAGES
        if not self._marks:
            return PrefixBreak.IMAGES if self._history.dropped else PrefixBreak.UNKNOWN
        last = self._marks[-1]
        match last:
            case Cleared() | Restored():
                return PrefixBreak.MICROCOMPACT
            case Compacted():
                return PrefixBreak.COMPACTION
            case _ as never:
                assert_never(never)

    def _system_texts(self, system: tuple[str, ...], principal_text: str, repairs: list[Repair]) -> list[str]:
        """The caller's, the record's leading ones, the principal's; none of them empty."""
        found: list[str] = []
        for text in (*system, *self._system, principal_text):
            whole = carried(text)
            if whole != text:
                repairs.append(_whole(RepairKind.TEXT_UNICODE, None, "a lone surrogate in a system text was replaced"))
            if whole and not whole.isspace():
                found.append(whole)
        return found


def replay_messages(  # noqa: PLR0913 - the law's own arguments
    record: Sequence[StoredMessage],
    marks: Sequence[Mark],
    target: Target,
    capabilities: Capabilities,
    provider: str | None,
    model: str | None,
    *,
    system: tuple[str, ...],
    principal_text: str,
    live_after: int | None,
) -> Rendered:
    """The pure function of the law: the same record, marks and request give the same bytes."""
    projection = Projection.start(target, capabilities, provider, model, tuple(marks))
    projection.extend(record)
    return projection.render(system=system, principal_text=principal_text, live_after=live_after, since=None)


def _whole(kind: RepairKind, message_id: MessageId | None, detail: str) -> Repair:
    return Repair(kind=kind, message_id=message_id, block=None, detail=detail)


def _joined(opening: bytes, frozen: list[bytes], ends: list[bytes]) -> list[bytes]:
    """One JSON object: commas stand between messages, also between the opening's and the first."""
    pieces = [opening]
    comma = b"" if opening.endswith(b"[") else b","
    if frozen:
        pieces += (comma, *frozen)
        comma = b","
    for end in ends:
        pieces += (comma, end)
        comma = b","
    pieces.append(b"]}")
    return [piece for piece in pieces if piece]
