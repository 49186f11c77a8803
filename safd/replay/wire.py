"""What stands between bound units and a target's bytes: shapes to spell, a target's rules, and spelled messages.

A target decides nothing about the record. It states its rules, and spells the four shapes that obey them.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

import attrs

from safd.model.blocks import JsonText
from safd.model.ids import MessageId
from safd.model.projections import ReasoningCapability, Repair
from safd.replay.images import Address, Native


@attrs.frozen
class Place:
    """Where something stands in the record. A summary's blocks have no message."""

    message_id: MessageId | None
    block: int


@attrs.frozen
class Picture:
    """An image that crosses natively. `large`: not taken in a request that holds many images."""

    seen: Native | Address
    place: Place
    large: bool


@attrs.frozen
class Thought:
    """Reasoning that the target takes back: signed whole and byte-exact, or plain text in its own place."""

    block: int | None
    reasoning: str
    signature: str | None = None
    redacted: str | None = None
    inline: bool = False


@attrs.frozen
class WireCall:
    id: str
    name: str
    arguments: JsonText


@attrs.frozen
class WireResult:
    call_id: str
    parts: list[str | Picture]
    is_error: bool


@attrs.frozen
class UserSide:
    """What the model hears: people, evidence, markers."""

    parts: list[str | Picture]


@attrs.frozen
class AssistantSide:
    """What the model said and declared, in one message."""

    parts: list[str | Thought | WireCall]


@attrs.frozen
class Results:
    """All results of one declaration, in the order of its calls."""

    results: list[WireResult]


@attrs.frozen
class SystemHere:
    """A system message inside the history, and the repair that says so where it cannot stand there."""

    texts: list[str]
    otherwise: Repair


Shape: TypeAlias = UserSide | AssistantSide | Results | SystemHere


@attrs.frozen(kw_only=True)
class Rules:
    """What a target's provider enforces, as far as shaping must know it. Sources stand in each target's table."""

    call_id: re.Pattern[str]
    name_limit: int
    image_types: frozenset[str]
    image_chars: int | None
    image_side: int | None
    images_in_results: bool
    reasoning: ReasoningCapability
    """What `reasoning` means where the caller does not say it."""
    reasoning_ways: frozenset[ReasoningCapability]
    """The ways that exist at this target; another one is as good as none."""
    thinking_switch: bool
    """Whether reasoning goes back only while the request thinks."""
    ends_with_user: bool
    """Whether a history that ends with the assistant is a prefill."""
    error_flag: bool
    """Whether a result can say that it is an error; otherwise its text says so."""


@attrs.frozen(kw_only=True)
class ImageBudget:
    """How many images one request takes. Beyond, the oldest become markers, `step` at a time, never one by one."""

    most: int
    step: int
    many: int
    """Beyond this number, large images are not taken."""

    def dropped(self, images: int) -> int:
        """How many of the oldest are markers in a history that has this many."""
        beyond = images - self.most
        return 0 if beyond <= 0 else -(-beyond // self.step) * self.step


@attrs.frozen
class Slot:
    """Where an image stands in spelled bytes, and what stands there once the request holds too many."""

    start: int
    end: int
    marker: bytes
    place: Place
    large: bool

    def shifted(self, by: int) -> "Slot":
        return Slot(self.start + by, self.end + by, self.marker, self.place, self.large)


@attrs.frozen
class Spelled:
    """One wire message: its role, its body, and what may still be done to it while it is the last one."""

    role: str
    body: bytes
    slots: tuple[Slot, ...] = ()
    opens_with_thought: bool = False
    declares: bool = False
    last_text: str | None = None
    otherwise: "tuple[Spelled, Repair] | None" = None
    """For a system message that must follow the user's side: how it crosses where it does not."""


@attrs.frozen(kw_only=True)
class Room:
    """A target: its rules, and how it spells."""

    rules: Rules
    merges: bool
    """Whether adjacent messages of one role become one."""
    budget: ImageBudget | None
    spell: Callable[[Shape], list[Spelled]]
    close: Callable[[str, bytes], bytes]
    """A role and the joined bodies of one message, as the message."""
    ending: Callable[[Spelled], bytes | None]
    """The body of a message with which the history ends, where it must differ there."""
    opening: Callable[[list[str]], bytes]
    """Everything before the history, from the system texts in order; ends in `[`, or in a message."""
