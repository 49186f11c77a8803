"""From bound units to shapes that a target can spell, and the repairs that say what is not as it was recorded.

Everything that a target's rules decide about content is decided here, once for all targets: what is empty, what an
unanswered call is answered with, which reasoning goes back, which images are seen and where they stand.
"""

from typing import Final, assert_never

import attrs

from safd.model import spans
from safd.model.blocks import Block, Image, InvalidInput, JsonText, ObjectInput, Reasoning, Text, ToolResult, ToolUse
from safd.model.errors import Malformed
from safd.model.messages import Role
from safd.model.projections import ReasoningCapability, Repair, RepairKind
from safd.replay import markers, pictures, thoughts
from safd.replay.callids import name_for
from safd.replay.notes import Notes
from safd.replay.pictures import Heard
from safd.replay.rounds import Bound, Call, Closed, Item, Open, Orphan, Result, Round, Said, Same, Unit, Waiting
from safd.replay.thoughts import Maker, Told
from safd.replay.unicode import carried_json
from safd.replay.wire import (
    AssistantSide,
    Picture,
    Results,
    Shape,
    SystemHere,
    UserSide,
    WireCall,
    WireResult,
)

NO_ARGUMENTS: Final = JsonText("{}")


@attrs.define(eq=False)
class Shaper:
    """Shapes one unit. `running`: its unanswered calls may still be answered."""

    notes: Notes
    running: bool
    _maker: Maker = (None, None)

    # --- units

    def unit(self, unit: Unit) -> list[Shape]:
        message = unit.stored.message
        self._maker = message.provider, message.model
        match unit:
            case Said():
                found = self._said(message.role, unit.items)
                if not found and not any(isinstance(item, Result) for _, item in unit.items):
                    self.notes.repair(
                        RepairKind.MESSAGE_EMPTY, None, "nothing of the message can cross, so it does not"
                    )
                return found
            case Round():
                return self._round(message.role, unit)
            case _ as never:
                assert_never(never)

    def summary(self, blocks: tuple[Block, ...]) -> list[Shape]:
        """What stands for everything before: on the user's side, labelled."""
        parts: list[Heard] = []
        for index, block in enumerate(blocks):
            match block:
                case Text():
                    self._text(parts, index, block)
                case Image():
                    pictures.show(self.notes, parts, index, block)
                case Reasoning() | ToolUse() | ToolResult():
                    self.notes.repair(RepairKind.SUMMARY_UNUSED, index, "a summary crosses as text and images alone")
                case _ as never:
                    assert_never(never)
        return [UserSide([markers.SUMMARY, *(parts or [markers.SUMMARY_EMPTY])])]

    def leading(self, unit: Unit) -> list[str]:
        """The texts of a system message before everything else. They are taken out of the unit, which may hold more."""
        texts: list[Heard] = []
        others: list[tuple[int, Item]] = []
        for index, item in unit.items:
            if isinstance(item, Text):
                self._text(texts, index, item)
            else:
                others.append((index, item))
        unit.items[:] = others
        if not texts and not others:
            self.notes.repair(RepairKind.MESSAGE_EMPTY, None, "nothing of the message can cross, so it does not")
        return [text for text in texts if isinstance(text, str)]

    # --- what is said

    def _said(self, role: Role, items: list[tuple[int, Item]]) -> list[Shape]:
        match role:
            case Role.ASSISTANT:
                return self._assistant(items)
            case Role.USER:
                return _user_side(self._heard(items))
            case Role.TOOL:
                parts = self._heard(items)
                if any(not isinstance(item, Result) for _, item in items):
                    self.notes.repair(
                        RepairKind.ROLE_ORDER, None, "a tool's message that is no result crosses on the user's side"
                    )
                return _user_side(parts)
            case Role.SYSTEM:
                return self._system(items)
            case _ as never:
                assert_never(never)

    def _system(self, items: list[tuple[int, Item]]) -> list[Shape]:
        """A system message that is not the record's beginning."""
        texts: list[str] = []
        others: list[tuple[int, Item]] = []
        for index, item in items:
            if isinstance(item, Text):
                found: list[Heard] = []
                self._text(found, index, item)
                texts += (text for text in found if isinstance(text, str))
            else:
                others.append((index, item))
        moved = Repair(
            kind=RepairKind.SYSTEM_MOVED,
            message_id=self.notes.stored_id,
            block=None,
            detail="a system message may not stand here: it crosses on the user's side, labelled",
        )
        shapes: list[Shape] = []
        if texts and self.notes.request.capabilities.mid_system:
            shapes.append(SystemHere(texts, moved))
        elif texts:
            self.notes.repairs.append(moved)
            shapes.append(UserSide([markers.SYSTEM_HERE, *texts]))
        parts = self._heard(others)
        for index, item in others:
            if isinstance(item, Image):
                self.notes.repair(RepairKind.IMAGE_MOVED, index, "an image may not stand in a system message")
        return shapes + _user_side(parts)

    def _assistant(self, items: list[tuple[int, Item]]) -> list[Shape]:
        parts: list[Told] = []
        after: list[Heard] = []
        for index, item in items:
            self._assistant_item(parts, after, index, item)
        thoughts.finish(self.notes, parts)
        return [*([AssistantSide(parts)] if parts else ()), *_user_side(after)]

    def _assistant_item(self, parts: list[Told], after: list[Heard], index: int, item: Item) -> None:
        match item:
            case Text():
                found: list[Heard] = []
                self._text(found, index, item)
                parts += (text for text in found if isinstance(text, str))
            case Reasoning():
                thoughts.tell(self.notes, parts, index, item, self._maker)
            case Image():
                self.notes.repair(RepairKind.IMAGE_MOVED, index, "an image may not stand in an assistant message")
                after.append(markers.IMAGE_FROM_ASSISTANT)
                pictures.show(self.notes, after, index, item)
            case Call():
                parts.append(self._call(item))
            case Result():
                self._unbound(after, index, item)
            case _ as never:
                assert_never(never)

    def _heard(self, items: list[tuple[int, Item]]) -> list[Heard]:
        parts: list[Heard] = []
        for index, item in items:
            match item:
                case Text():
                    self._text(parts, index, item)
                case Image():
                    pictures.show(self.notes, parts, index, item)
                case Reasoning():
                    self.notes.omitted(index, "reasoning stands in a message that is not the assistant's")
                case Result():
                    self._unbound(parts, index, item)
                case Call():  # declared by its round
                    pass
                case _ as never:
                    assert_never(never)
        return parts

    def _text(self, parts: list[Heard], index: int, block: Text) -> None:
        text = self.notes.carried(index, block.text)
        if text and not text.isspace():
            parts.append(text)
        else:
            self.notes.repair(RepairKind.TEXT_EMPTY, index, "no provider takes a text of nothing or of white space")

    # --- rounds

    def _round(self, role: Role, unit: Round) -> list[Shape]:
        after: list[Heard] = []
        declared: list[Told] = []
        before: list[Shape] = []
        rest: list[Shape] = []
        if role is Role.ASSISTANT:
            for index, item in unit.items:
                self._assistant_item(declared, after, index, item)
            thoughts.finish(self.notes, declared)
            rest = _user_side(after)
            after = []
        else:
            first = unit.calls[0].block
            before = self._said(role, [each for each in unit.items if each[0] < first])
            for call in unit.calls:
                self.notes.repair(
                    RepairKind.CALL_MISPLACED, call.block, "a call crosses as the assistant's, whoever recorded it"
                )
                declared.append(self._call(call))
            if self.notes.request.reasoning is ReasoningCapability.FIELD:
                thoughts.add_missing(self.notes, declared)
            rest = self._said(role, [each for each in unit.items if each[0] > first and not isinstance(each[1], Call)])
        results = Results([self._result(call, after) for call in unit.calls])
        return [*before, AssistantSide(declared), results, *_user_side(after), *rest]

    def _call(self, call: Call) -> WireCall:
        use = call.use
        name = name_for(use.name, self.notes.request.rules.name_limit)
        if call.wire_id != use.id:
            self.notes.repair(RepairKind.ID_MAPPED, call.block, f"the call's id crosses as {call.wire_id}")
        if name != use.name:
            self.notes.repair(RepairKind.NAME_MAPPED, call.block, f"the tool's name crosses as {name}")
        given = use.input
        match given:
            case ObjectInput(json=text):
                found = text if "\\u" not in text and text.isascii() else carried_json(text)
                if found != text:
                    self.notes.repair(
                        RepairKind.TEXT_UNICODE, call.block, "a lone surrogate in the arguments was replaced"
                    )
                return WireCall(call.wire_id, name, found)
            case InvalidInput(text=text):
                return WireCall(call.wire_id, name, self._spelled_input(call, text))
            case _ as never:
                assert_never(never)

    def _spelled_input(self, call: Call, text: str) -> JsonText:
        found = _object_in(text)
        if found is None:
            why = (
                "the arguments are not a JSON object: {} stands in their place"
                if text.strip()
                else "the arguments are empty"
            )
            self.notes.repair(RepairKind.INPUT_INVALID, call.block, why)
            return NO_ARGUMENTS
        self.notes.repair(
            RepairKind.INPUT_INVALID, call.block, "the arguments were recorded as a string that holds an object"
        )
        return carried_json(found)

    def _result(self, call: Call, after: list[Heard]) -> WireResult:
        answer = call.answer
        parts: list[Heard] = []
        use = call.use.input
        if isinstance(use, InvalidInput) and use.text.strip() and _object_in(use.text) is None:
            parts.append(markers.INPUT_INVALID)
        match answer:
            case Result():
                if isinstance(answer.fate, Bound) and answer.fate.moved:
                    self.notes.repair_at(
                        answer.message_id,
                        RepairKind.RESULT_MOVED,
                        answer.block,
                        "recorded elsewhere, it stands with its call",
                    )
                self._output(parts, answer)
                is_error = answer.given.is_error
                if is_error and not self.notes.request.rules.error_flag:
                    _say_error(parts)
                return WireResult(call.wire_id, self._placed(call, parts, after, answer), is_error)
            case Open() | Closed():
                if self.running and isinstance(answer, Open):
                    self.notes.repair(RepairKind.CALL_RUNNING, call.block, "no result yet, and the turn is open")
                    parts.append(markers.STILL_RUNNING)
                else:
                    self.notes.repair(
                        RepairKind.CALL_UNANSWERED, call.block, "no result was recorded before the turn ended"
                    )
                    parts.append(markers.NOT_COMPLETED)
                return WireResult(call.wire_id, parts, is_error=True)
            case _ as never:
                assert_never(never)

    def _placed(self, call: Call, parts: list[Heard], after: list[Heard], answer: Result) -> list[Heard]:
        """The parts as the target takes them inside a result; its images move behind the round where it must be."""
        if self.notes.request.rules.images_in_results or all(isinstance(part, str) for part in parts):
            return parts
        kept: list[Heard] = []
        for part in parts:
            match part:
                case str():
                    kept.append(part)
                case Picture():
                    kept.append(markers.IMAGE_FOLLOWS)
                    name = name_for(call.use.name, self.notes.request.rules.name_limit)
                    after += (markers.image_from_result(name, call.wire_id), part)
                    self.notes.repair_at(
                        answer.message_id, RepairKind.IMAGE_MOVED, answer.block, "the image follows the round's results"
                    )
                case _ as never:
                    assert_never(never)
        return kept

    def _output(self, parts: list[Heard], result: Result) -> None:
        """A result's body, never nothing."""
        given = result.given
        before = len(parts)
        if (result.message_id, result.block) in self.notes.request.cleared:
            self.notes.repair_at(
                result.message_id, RepairKind.RESULT_CLEARED, result.block, "its body is cleared from view"
            )
            parts.append(markers.cleared(result.message_id, result.block))
            return
        told_by = self.notes.stored_id
        self.notes.stored_id = result.message_id
        match given.output:
            case str() as text:
                text = self.notes.carried(result.block, text)
                if text and not text.isspace():
                    parts.append(text)
            case tuple() as blocks:
                for block in blocks:
                    match block:
                        case Text():
                            self._text(parts, result.block, block)
                        case Image():
                            pictures.show(self.notes, parts, result.block, block)
                        case _ as never:
                            assert_never(never)
            case _ as never:
                assert_never(never)
        if len(parts) == before:
            self.notes.repair(RepairKind.OUTPUT_EMPTY, result.block, "the result is empty, and says so")
            parts.append(markers.NO_OUTPUT)
        self.notes.stored_id = told_by

    def _unbound(self, parts: list[Heard], index: int, result: Result) -> None:
        """A result in the message where it was recorded: told as evidence, unless it crosses with its call."""
        fate = result.fate
        match fate:
            case Bound():
                return
            case Same():
                self.notes.repair(RepairKind.RESULT_DUPLICATE, index, "its call has this very result already")
                return
            case Orphan() | Waiting():
                if isinstance(fate, Orphan) and fate.duplicate:
                    kind, why = RepairKind.RESULT_DUPLICATE, "its call has another result already: told as prose"
                else:
                    kind, why = RepairKind.RESULT_ORPHANED, "no call that is seen asked for it: told as prose"
                self.notes.repair(kind, index, why)
            case _ as never:
                assert_never(never)
        given = result.given
        known = fate.name if isinstance(fate, Orphan) else None
        name = name_for(given.tool_name or known or "unknown", self.notes.request.rules.name_limit)
        body: list[Heard] = []
        self._output(body, result)
        texts = [part for part in body if isinstance(part, str)]
        parts.append(markers.orphan(name, "\n\n".join(texts), is_error=given.is_error))
        parts += (part for part in body if isinstance(part, Picture))


def _user_side(parts: list[Heard]) -> list[Shape]:
    return [UserSide(parts)] if parts else []


def _object_in(text: str) -> JsonText | None:
    """The JSON object that a string holds, if it does, by the same strict door as everything else."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return JsonText(str(spans.whole(text)))
    except Malformed:
        return None


def _say_error(parts: list[Heard]) -> None:
    """Where no flag exists, the text says that it is an error."""
    first = parts[0]
    if isinstance(first, str) and not first.startswith("Error"):
        parts[0] = f"Error: {first}"
    elif not isinstance(first, str):
        parts.insert(0, "Error:")
