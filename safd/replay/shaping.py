"""From bound units to shapes that a target can spell, and the repairs that say what is not as it was recorded.

Everything that a target's rules decide about content is decided here, once for all targets: what is empty, what an
unanswered call is answered with, which reasoning goes back, which images are seen and where they stand.
"""

from typing import Final, TypeAlias, assert_never

import attrs

from safd.model import spans
from safd.model.blocks import Block, Image, InvalidInput, JsonText, ObjectInput, Reasoning, Text, ToolResult, ToolUse
from safd.model.errors import Malformed
from safd.model.ids import MessageId
from safd.model.messages import Role
from safd.model.projections import Capabilities, ReasoningCapability, Repair, RepairKind
from safd.replay import markers
from safd.replay.callids import name_for
from safd.replay.images import Address, Damaged, Native, NoAddress, look
from safd.replay.rounds import Bound, Call, Closed, Item, Open, Orphan, Result, Round, Said, Same, Unit, Waiting
from safd.replay.unicode import carried, carried_json
from safd.replay.wire import (
    AssistantSide,
    Picture,
    Place,
    Results,
    Rules,
    Shape,
    SystemHere,
    Thought,
    UserSide,
    WireCall,
    WireResult,
)

Heard: TypeAlias = str | Picture
Told: TypeAlias = str | Thought | WireCall
NO_ARGUMENTS: Final = JsonText("{}")


@attrs.frozen(kw_only=True)
class Request:
    """For whom a record is projected. `cleared` are the results whose bodies are out of sight."""

    rules: Rules
    capabilities: Capabilities
    provider: str | None
    model: str | None
    cleared: frozenset[tuple[MessageId, int]]

    @property
    def reasoning(self) -> ReasoningCapability:
        """How reasoning goes back at this target, or OMIT."""
        asked = self.capabilities.reasoning or self.rules.reasoning
        if asked not in self.rules.reasoning_ways:
            return ReasoningCapability.OMIT
        if self.rules.thinking_switch and not self.capabilities.thinking:
            return ReasoningCapability.OMIT
        return asked


@attrs.define(eq=False)
class Shaper:
    """Shapes one unit. `careful`: every text is looked at for what JSON in UTF-8 cannot carry."""

    request: Request
    stored_id: MessageId | None
    running: bool
    careful: bool
    _provider: str | None = None
    _model: str | None = None
    repairs: list[Repair] = attrs.field(factory=list[Repair])

    # --- units

    def unit(self, unit: Unit) -> list[Shape]:
        message = unit.stored.message
        self._provider, self._model = message.provider, message.model
        match unit:
            case Said():
                found = self._said(message.role, unit.items)
                if not found and not any(isinstance(item, Result) for _, item in unit.items):
                    self._repair(RepairKind.MESSAGE_EMPTY, None, "nothing of the message can cross, so it does not")
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
                    self._image(parts, index, block)
                case Reasoning() | ToolUse() | ToolResult():
                    self._repair(RepairKind.SUMMARY_UNUSED, index, "a summary crosses as text and images alone")
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
            self._repair(RepairKind.MESSAGE_EMPTY, None, "nothing of the message can cross, so it does not")
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
                    self._repair(
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
            message_id=self.stored_id,
            block=None,
            detail="a system message may not stand here: it crosses on the user's side, labelled",
        )
        shapes: list[Shape] = []
        if texts and self.request.capabilities.mid_system:
            shapes.append(SystemHere(texts, moved))
        elif texts:
            self.repairs.append(moved)
            shapes.append(UserSide([markers.SYSTEM_HERE, *texts]))
        parts = self._heard(others)
        for index, item in others:
            if isinstance(item, Image):
                self._repair(RepairKind.IMAGE_MOVED, index, "an image may not stand in a system message")
        return shapes + _user_side(parts)

    def _assistant(self, items: list[tuple[int, Item]]) -> list[Shape]:
        parts: list[Told] = []
        after: list[Heard] = []
        for index, item in items:
            self._assistant_item(parts, after, index, item)
        self._finish_thoughts(parts)
        return [*([AssistantSide(parts)] if parts else ()), *_user_side(after)]

    def _assistant_item(self, parts: list[Told], after: list[Heard], index: int, item: Item) -> None:
        match item:
            case Text():
                found: list[Heard] = []
                self._text(found, index, item)
                parts += (text for text in found if isinstance(text, str))
            case Reasoning():
                self._reasoning(parts, index, item)
            case Image():
                self._repair(RepairKind.IMAGE_MOVED, index, "an image may not stand in an assistant message")
                after.append(markers.IMAGE_FROM_ASSISTANT)
                self._image(after, index, item)
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
                    self._image(parts, index, item)
                case Reasoning():
                    self._omitted(index, "reasoning stands in a message that is not the assistant's")
                case Result():
                    self._unbound(parts, index, item)
                case Call():  # declared by its round
                    pass
                case _ as never:
                    assert_never(never)
        return parts

    def _text(self, parts: list[Heard], index: int, block: Text) -> None:
        text = self._carried(index, block.text)
        if text and not text.isspace():
            parts.append(text)
        else:
            self._repair(RepairKind.TEXT_EMPTY, index, "no provider takes a text of nothing or of white space")

    # --- rounds

    def _round(self, role: Role, unit: Round) -> list[Shape]:
        after: list[Heard] = []
        declared: list[Told] = []
        before: list[Shape] = []
        rest: list[Shape] = []
        if role is Role.ASSISTANT:
            for index, item in unit.items:
                self._assistant_item(declared, after, index, item)
            self._finish_thoughts(declared)
            rest = _user_side(after)
            after = []
        else:
            first = unit.calls[0].block
            before = self._said(role, [each for each in unit.items if each[0] < first])
            for call in unit.calls:
                self._repair(
                    RepairKind.CALL_MISPLACED, call.block, "a call crosses as the assistant's, whoever recorded it"
                )
                declared.append(self._call(call))
            if self.request.reasoning is ReasoningCapability.FIELD:
                self._reasoning_missing(declared)
            rest = self._said(role, [each for each in unit.items if each[0] > first and not isinstance(each[1], Call)])
        results = Results([self._result(call, after) for call in unit.calls])
        return [*before, AssistantSide(declared), results, *_user_side(after), *rest]

    def _call(self, call: Call) -> WireCall:
        use = call.use
        name = name_for(use.name, self.request.rules.name_limit)
        if call.wire_id != use.id:
            self._repair(RepairKind.ID_MAPPED, call.block, f"the call's id crosses as {call.wire_id}")
        if name != use.name:
            self._repair(RepairKind.NAME_MAPPED, call.block, f"the tool's name crosses as {name}")
        given = use.input
        match given:
            case ObjectInput(json=text):
                found = text if "\\u" not in text and text.isascii() else carried_json(text)
                if found != text:
                    self._repair(RepairKind.TEXT_UNICODE, call.block, "a lone surrogate in the arguments was replaced")
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
            self._repair(RepairKind.INPUT_INVALID, call.block, why)
            return NO_ARGUMENTS
        self._repair(
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
                    self._repair_at(
                        answer.message_id,
                        RepairKind.RESULT_MOVED,
                        answer.block,
                        "recorded elsewhere, it stands with its call",
                    )
                self._output(parts, answer)
                is_error = answer.given.is_error
                if is_error and not self.request.rules.error_flag:
                    _say_error(parts)
                return WireResult(call.wire_id, self._placed(call, parts, after, answer), is_error)
            case Open() | Closed():
                if self.running and isinstance(answer, Open):
                    self._repair(RepairKind.CALL_RUNNING, call.block, "no result yet, and the turn is open")
                    parts.append(markers.STILL_RUNNING)
                else:
                    self._repair(RepairKind.CALL_UNANSWERED, call.block, "no result was recorded before the turn ended")
                    parts.append(markers.NOT_COMPLETED)
                return WireResult(call.wire_id, parts, is_error=True)
            case _ as never:
                assert_never(never)

    def _placed(self, call: Call, parts: list[Heard], after: list[Heard], answer: Result) -> list[Heard]:
        """The parts as the target takes them inside a result; its images move behind the round where it must be."""
        if self.request.rules.images_in_results or all(isinstance(part, str) for part in parts):
            return parts
        kept: list[Heard] = []
        for part in parts:
            match part:
                case str():
                    kept.append(part)
                case Picture():
                    kept.append(markers.IMAGE_FOLLOWS)
                    name = name_for(call.use.name, self.request.rules.name_limit)
                    after += (markers.image_from_result(name, call.wire_id), part)
                    self._repair_at(
                        answer.message_id, RepairKind.IMAGE_MOVED, answer.block, "the image follows the round's results"
                    )
                case _ as never:
                    assert_never(never)
        return kept

    def _output(self, parts: list[Heard], result: Result) -> None:
        """A result's body, never nothing."""
        given = result.given
        before = len(parts)
        if (result.message_id, result.block) in self.request.cleared:
            self._repair_at(result.message_id, RepairKind.RESULT_CLEARED, result.block, "its body is cleared from view")
            parts.append(markers.cleared(result.message_id, result.block))
            return
        told_by = self.stored_id
        self.stored_id = result.message_id
        match given.output:
            case str() as text:
                text = self._carried(result.block, text)
                if text and not text.isspace():
                    parts.append(text)
            case tuple() as blocks:
                for block in blocks:
                    match block:
                        case Text():
                            self._text(parts, result.block, block)
                        case Image():
                            self._image(parts, result.block, block)
                        case _ as never:
                            assert_never(never)
            case _ as never:
                assert_never(never)
        if len(parts) == before:
            self._repair(RepairKind.OUTPUT_EMPTY, result.block, "the result is empty, and says so")
            parts.append(markers.NO_OUTPUT)
        self.stored_id = told_by

    def _unbound(self, parts: list[Heard], index: int, result: Result) -> None:
        """A result in the message where it was recorded: told as evidence, unless it crosses with its call."""
        fate = result.fate
        match fate:
            case Bound():
                return
            case Same():
                self._repair(RepairKind.RESULT_DUPLICATE, index, "its call has this very result already")
                return
            case Orphan() | Waiting():
                if isinstance(fate, Orphan) and fate.duplicate:
                    kind, why = RepairKind.RESULT_DUPLICATE, "its call has another result already: told as prose"
                else:
                    kind, why = RepairKind.RESULT_ORPHANED, "no call that is seen asked for it: told as prose"
                self._repair(kind, index, why)
            case _ as never:
                assert_never(never)
        given = result.given
        known = fate.name if isinstance(fate, Orphan) else None
        name = name_for(given.tool_name or known or "unknown", self.request.rules.name_limit)
        body: list[Heard] = []
        self._output(body, result)
        texts = [part for part in body if isinstance(part, str)]
        parts.append(markers.orphan(name, "\n\n".join(texts), is_error=given.is_error))
        parts += (part for part in body if isinstance(part, Picture))

    # --- reasoning

    def _reasoning(self, parts: list[Told], index: int, block: Reasoning) -> None:
        way = self.request.reasoning
        match way:
            case ReasoningCapability.OMIT:
                self._omitted(index, "reasoning does not go back to this target")
            case ReasoningCapability.SIGNED:
                found = self._signed(index, block)
                if isinstance(found, Thought):
                    parts.append(found)
                else:
                    self._omitted(index, found)
            case ReasoningCapability.FIELD | ReasoningCapability.INLINE:
                if block.reasoning and not block.reasoning.isspace():
                    inline = way is ReasoningCapability.INLINE
                    parts.append(Thought(index, self._carried(index, block.reasoning), inline=inline))
                else:
                    self._omitted(index, "there is no text of it that could go back")
            case _ as never:
                assert_never(never)

    def _signed(self, index: int, block: Reasoning) -> Thought | str:
        """The block whole and byte-exact, or why not: only who made it can verify it."""
        made_by = (block.provider or self._provider, block.model or self._model)
        if None in made_by or made_by != (self.request.provider, self.request.model):
            return "only the provider and model that made it could verify it"
        for opaque in (block.reasoning, block.signature or "", block.redacted or ""):
            if not opaque.isascii() and carried(opaque) != opaque:
                return "it cannot cross byte-exact"
        if block.encrypted is not None or (block.redacted is not None and (block.signature or block.reasoning)):
            return "this target has no place for all of it, and it crosses whole or not at all"
        if block.redacted:
            return Thought(index, "", redacted=block.redacted)
        if block.signature:
            return Thought(index, block.reasoning, signature=block.signature)
        return "it carries nothing that could be verified"

    def _finish_thoughts(self, parts: list[Told]) -> None:
        """No message ends in a thought, or consists of thoughts; a call that must come with one gets a marker."""
        way = self.request.reasoning
        if way is ReasoningCapability.SIGNED:
            self._drop_thoughts(parts, "an assistant message may not end with it")
        if way is ReasoningCapability.FIELD:
            if all(isinstance(part, Thought) for part in parts):
                self._drop_thoughts(parts, "the message holds nothing else, so it does not cross")
            self._reasoning_missing(parts)

    def _drop_thoughts(self, parts: list[Told], why: str) -> None:
        while parts and isinstance(last := parts[-1], Thought):
            parts.pop()
            self._omitted(last.block, why)

    def _reasoning_missing(self, parts: list[Told]) -> None:
        if any(isinstance(part, WireCall) for part in parts) and not any(isinstance(part, Thought) for part in parts):
            self._repair(
                RepairKind.REASONING_MISSING, None, "the server wants reasoning beside calls, and none was recorded"
            )
            parts.insert(0, Thought(None, markers.NO_REASONING))

    def _omitted(self, index: int | None, why: str) -> None:
        self._repair(RepairKind.REASONING_OMITTED, index, why)

    # --- images

    def _image(self, parts: list[Heard], index: int, image: Image) -> None:
        request = self.request
        if not request.capabilities.vision:
            self._repair(RepairKind.IMAGE_UNSEEN, index, "images are off for this request")
            parts.append(markers.NO_VISION)
            return
        seen = look(image)
        match seen:
            case Native():
                marker = self._refused(seen)
                if marker is not None:
                    self._unsupported(parts, index, marker)
                    return
                if seen.respelled:
                    self._repair(RepairKind.IMAGE_UNWRAPPED, index, "the same image, its data or type spelled plainly")
                large = seen.sides is not None and max(seen.sides) > MANY_SIDE
                parts.append(Picture(seen, Place(self.stored_id, index), large))
            case Address():
                parts.append(Picture(seen, Place(self.stored_id, index), large=False))
            case Damaged():
                self._unsupported(parts, index, markers.IMAGE_DAMAGED)
            case NoAddress():
                self._unsupported(parts, index, markers.IMAGE_ADDRESS)
            case _ as never:
                assert_never(never)

    def _refused(self, seen: Native) -> str | None:
        rules = self.request.rules
        if seen.media_type not in rules.image_types:
            return markers.IMAGE_FORMAT
        if rules.image_chars is not None and len(seen.data) > rules.image_chars:
            return markers.IMAGE_LARGE
        if rules.image_side is not None and seen.sides is not None and max(seen.sides) > rules.image_side:
            return markers.IMAGE_LARGE
        return None

    def _unsupported(self, parts: list[Heard], index: int, marker: str) -> None:
        self._repair(RepairKind.IMAGE_UNSUPPORTED, index, marker)
        parts.append(marker)

    # --- words

    def _carried(self, index: int | None, text: str) -> str:
        if not self.careful:
            return text
        found = carried(text)
        if found != text:
            self._repair(RepairKind.TEXT_UNICODE, index, "a lone surrogate, which JSON cannot carry, was replaced")
        return found

    def _repair(self, kind: RepairKind, block: int | None, detail: str) -> None:
        self._repair_at(self.stored_id, kind, block, detail)

    def _repair_at(self, message_id: MessageId | None, kind: RepairKind, block: int | None, detail: str) -> None:
        self.repairs.append(Repair(kind=kind, message_id=message_id, block=block, detail=detail))


MANY_SIDE: Final = 2000
"""Pixels: above it an image is large, and not taken in a request of many images (AM15)."""


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
