"""Which reasoning goes back, and how: whole to whoever can verify it, as the server asks, or not at all."""

from typing import TypeAlias, assert_never

from safd.model.blocks import Reasoning
from safd.model.projections import ReasoningCapability, RepairKind
from safd.replay import markers
from safd.replay.notes import Notes
from safd.replay.unicode import carried
from safd.replay.wire import Thought, WireCall

Told: TypeAlias = str | Thought | WireCall
"""What stands in an assistant's message."""
Maker: TypeAlias = tuple[str | None, str | None]
"""Provider and model that a message is from."""


def tell(notes: Notes, parts: list[Told], index: int, block: Reasoning, maker: Maker) -> None:
    """The thought at the end of `parts`, or a repair that says why not."""
    way = notes.request.reasoning
    match way:
        case ReasoningCapability.OMIT:
            notes.omitted(index, "reasoning does not go back to this target")
        case ReasoningCapability.SIGNED:
            found = _signed(notes, index, block, maker)
            if isinstance(found, Thought):
                parts.append(found)
            else:
                notes.omitted(index, found)
        case ReasoningCapability.FIELD | ReasoningCapability.INLINE:
            if block.reasoning and not block.reasoning.isspace():
                inline = way is ReasoningCapability.INLINE
                parts.append(Thought(index, notes.carried(index, block.reasoning), inline=inline))
            else:
                notes.omitted(index, "there is no text of it that could go back")
        case _ as never:
            assert_never(never)


def _signed(notes: Notes, index: int, block: Reasoning, maker: Maker) -> Thought | str:
    """The block whole and byte-exact, or why not: only who made it can verify it."""
    made_by = (block.provider or maker[0], block.model or maker[1])
    if None in made_by or made_by != (notes.request.provider, notes.request.model):
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


def finish(notes: Notes, parts: list[Told]) -> None:
    """No message ends in a thought, or consists of thoughts; a call that must come with one gets a marker."""
    way = notes.request.reasoning
    if way is ReasoningCapability.SIGNED:
        _drop_last(notes, parts, "an assistant message may not end with it")
    if way is ReasoningCapability.FIELD:
        if all(isinstance(part, Thought) for part in parts):
            _drop_last(notes, parts, "the message holds nothing else, so it does not cross")
        add_missing(notes, parts)


def _drop_last(notes: Notes, parts: list[Told], why: str) -> None:
    while parts and isinstance(last := parts[-1], Thought):
        parts.pop()
        notes.omitted(last.block, why)


def add_missing(notes: Notes, parts: list[Told]) -> None:
    """Where the server wants reasoning beside calls and there is none, a marker."""
    if any(isinstance(part, WireCall) for part in parts) and not any(isinstance(part, Thought) for part in parts):
        notes.repair(
            RepairKind.REASONING_MISSING, None, "the server wants reasoning beside calls, and none was recorded"
        )
        parts.insert(0, Thought(None, markers.NO_REASONING))
