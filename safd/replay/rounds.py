"""Calls bound to their results, once, before any target is asked.

A call is known by its occurrence (message, block), never by its raw id alone: some models number their calls from
zero in every turn. What binding yields: `Said` and `Round` (one per message that the model may see), and in them
`Open` calls and `Orphan` results. The rules, in the order in which they are tried:

1. The calls of a message are declared before its results are looked at, so a result may stand before its call there.
2. A result answers the first unanswered call with its id in the message that declared this id last: equal ids in one
   message are answered in order, and results never go back to an earlier turn that used the same id.
3. Declaring an id again in a later message closes unanswered calls that had it: nothing can answer them any more.
4. A result for an id whose calls are all answered is a duplicate: the first one recorded holds. It is dropped where
   it says the same, and an orphan where it says something else.
5. A result for an id that nobody declared yet waits for the next message that declares calls or comes from the
   assistant: if that declares the id, it is answered; if not, the result is an orphan for good.
6. An empty id is an id like any other: by rule 2, empty ids are answered in order.
7. A call that was hidden (compacted) still binds, so that its late result cannot answer another: that result is an
   orphan. A hidden result answers nothing that is seen.
"""

from typing import TypeAlias, assert_never

import attrs

from safd.model.blocks import Image, Reasoning, Text, ToolResult, ToolUse
from safd.model.ids import MessageId
from safd.model.messages import Role, StoredMessage


@attrs.frozen
class Open:
    """No result yet; one may still come, and will be moved to its call."""


@attrs.frozen
class Closed:
    """No result, and none can come: the id was declared again later."""


@attrs.frozen
class Waiting:
    """A result whose call may stand in the next message."""


@attrs.frozen
class Bound:
    """A result that crosses with its call. `moved`: it was not recorded right there."""

    moved: bool


@attrs.frozen
class Orphan:
    """A result that answers no call that is seen. `duplicate`: its call has another one already."""

    duplicate: bool
    name: str | None


@attrs.frozen
class Same:
    """A duplicate that says what the first one said."""


OPEN = Open()
CLOSED = Closed()
WAITING = Waiting()
IN_PLACE = Bound(moved=False)
MOVED = Bound(moved=True)
SAME = Same()

Fate: TypeAlias = Waiting | Bound | Orphan | Same


@attrs.define(eq=False)
class Result:
    """A tool_result block at its place."""

    message_id: MessageId
    block: int
    given: ToolResult
    unit: "Unit"
    fate: Fate = WAITING


@attrs.define(eq=False)
class Call:
    """A tool_use block at its place. `wire_id` is set by whoever renders, once."""

    message_id: MessageId
    block: int
    use: ToolUse
    unit: "Round"
    answer: Result | Open | Closed = OPEN
    wire_id: str = ""


Item: TypeAlias = Text | Reasoning | Image | Call | Result


@attrs.define(eq=False)
class Said:
    """A message without calls; its results may be orphans. Items stand with their block's index."""

    stored: StoredMessage
    items: list[tuple[int, Item]] = attrs.field(factory=list[tuple[int, Item]])
    undecided: int = 0
    changed: bool = False


@attrs.define(eq=False)
class Round:
    """The calls of one message with their results, and what else the message says."""

    stored: StoredMessage
    hidden: bool
    items: list[tuple[int, Item]] = attrs.field(factory=list[tuple[int, Item]])
    calls: list[Call] = attrs.field(factory=list[Call])
    undecided: int = 0
    changed: bool = False
    last_answered: int = -1


Unit: TypeAlias = Said | Round
"""One message. `undecided` counts open calls and waiting results; `changed` says that an earlier look is outdated."""


@attrs.define(eq=False)
class Binder:
    """Binds message by message, in record order."""

    _declared: dict[str, list[Call]] = attrs.field(factory=dict[str, list[Call]])
    _waiting: list[Result] = attrs.field(factory=list[Result])
    _current: Round | None = None
    """The round after which nothing was said yet: results recorded here stand in their place."""
    _hidden: bool = False

    def bind(self, stored: StoredMessage, *, hidden: bool = False) -> Unit:
        """The message as a unit; earlier units may change by it. Hidden messages come first, none after a seen one."""
        if self._hidden and not hidden:
            self._waiting.clear()
            self._current = None
        self._hidden = hidden
        blocks = stored.message.blocks
        calls = any(isinstance(block, ToolUse) for block in blocks)
        unit: Unit = Round(stored, hidden) if calls else Said(stored)
        if isinstance(unit, Round):
            self._declare(unit)
        if self._waiting and (calls or stored.message.role is Role.ASSISTANT):
            self._settle_waiting()
        declared = iter(unit.calls) if isinstance(unit, Round) else iter(())
        for index, block in enumerate(blocks):
            match block:
                case ToolUse():
                    unit.items.append((index, next(declared)))
                case ToolResult():
                    result = Result(stored.id, index, block, unit)
                    unit.items.append((index, result))
                    self._answer(result)
                case Text() | Reasoning() | Image():
                    unit.items.append((index, block))
                    if not calls:
                        self._current = None
                case _ as never:
                    assert_never(never)
        return unit

    def _declare(self, unit: Round) -> None:
        self._current = unit
        fresh: dict[str, list[Call]] = {}
        for index, block in enumerate(unit.stored.message.blocks):
            if isinstance(block, ToolUse):
                call = Call(unit.stored.id, index, block, unit)
                unit.calls.append(call)
                fresh.setdefault(block.id, []).append(call)
        unit.undecided = len(unit.calls)
        for raw, calls in fresh.items():
            for earlier in self._declared.get(raw, ()):
                if earlier.answer is OPEN:
                    earlier.answer = CLOSED
                    earlier.unit.undecided -= 1
                    earlier.unit.changed = True
            self._declared[raw] = calls

    def _settle_waiting(self) -> None:
        for result in self._waiting:
            result.unit.undecided -= 1
            result.unit.changed = True
            calls = self._declared.get(result.given.tool_use_id)
            if calls is None:
                result.fate = Orphan(duplicate=False, name=None)
            else:
                _take(result, calls, in_place=None)
        self._waiting.clear()

    def _answer(self, result: Result) -> None:
        calls = self._declared.get(result.given.tool_use_id)
        if calls is None:
            self._waiting.append(result)
            result.unit.undecided += 1
        else:
            _take(result, calls, in_place=self._current)


def _take(result: Result, calls: list[Call], *, in_place: Round | None) -> None:
    """Bind a result to the first of these calls that has none."""
    call = next((call for call in calls if call.answer is OPEN), None)
    if call is None:
        result.fate = _second(result, calls)
        return
    unit = call.unit
    call.answer = result
    unit.undecided -= 1
    unit.changed = True
    if unit.hidden:
        result.fate = Orphan(duplicate=False, name=call.use.name)
        return
    told_there = result.unit.stored.message.role is not Role.ASSISTANT and result.unit is not unit
    result.fate = IN_PLACE if unit is in_place and told_there and call.block > unit.last_answered else MOVED
    unit.last_answered = max(unit.last_answered, call.block)


def _second(result: Result, calls: list[Call]) -> Fate:
    """What becomes of a result whose calls are all answered, or closed."""
    name = calls[-1].use.name
    answers = [call.answer for call in calls if isinstance(call.answer, Result)]
    if any(_same(answer.given, result.given) for answer in answers) and not calls[-1].unit.hidden:
        return SAME
    return Orphan(duplicate=bool(answers), name=name)


def _same(one: ToolResult, other: ToolResult) -> bool:
    return one.is_error is other.is_error and one.output == other.output
