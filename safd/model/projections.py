"""The words of a replay: target, capabilities, repairs, stable prefix and what breaks it."""

from enum import StrEnum

import attrs

from safd.model.ids import MessageId


class Target(StrEnum):
    """A provider's wire format."""

    OPENAI_CHAT = "openai-chat"
    ANTHROPIC = "anthropic"


class ReasoningCapability(StrEnum):
    """How reasoning goes back: not at all, signed only, in a field of its own, inline as the server's text."""

    OMIT = "omit"
    SIGNED = "signed"
    FIELD = "field"
    INLINE = "inline"


@attrs.frozen(kw_only=True)
class Capabilities:
    """What the caller says its model and server take; absent means no.

    `vision`: images; `thinking`: the request runs with extended thinking on; `mid_system`: a system message
    may stand inside the history; `reasoning`: None means the target's default (signed where it can verify).
    """

    vision: bool = False
    thinking: bool = False
    mid_system: bool = False
    reasoning: ReasoningCapability | None = None


class RepairKind(StrEnum):
    """The closed set of ways in which a payload differs from the record."""

    CALL_UNANSWERED = "call_unanswered"
    CALL_RUNNING = "call_running"
    RESULT_ORPHANED = "result_orphaned"
    RESULT_DUPLICATE = "result_duplicate"
    RESULT_MOVED = "result_moved"
    RESULT_CLEARED = "result_cleared"
    CALL_MISPLACED = "call_misplaced"
    ID_MAPPED = "id_mapped"
    NAME_MAPPED = "name_mapped"
    INPUT_INVALID = "input_invalid"
    REASONING_OMITTED = "reasoning_omitted"
    REASONING_MISSING = "reasoning_missing"
    IMAGE_UNSEEN = "image_unseen"
    IMAGE_UNSUPPORTED = "image_unsupported"
    IMAGE_MOVED = "image_moved"
    IMAGE_UNWRAPPED = "image_unwrapped"
    TEXT_EMPTY = "text_empty"
    TEXT_UNICODE = "text_unicode"
    OUTPUT_EMPTY = "output_empty"
    MESSAGE_EMPTY = "message_empty"
    SYSTEM_MOVED = "system_moved"
    ROLE_ORDER = "role_order"
    SUMMARY_UNUSED = "summary_unused"
    WHITESPACE_TRIMMED = "whitespace_trimmed"
    ENDS_WITH_ASSISTANT = "ends_with_assistant"
    ROW_UNREADABLE = "row_unreadable"


@attrs.frozen(kw_only=True)
class Repair:
    """One difference between record and payload; `block` is None where it concerns the whole message."""

    kind: RepairKind
    message_id: MessageId | None
    block: int | None
    detail: str


@attrs.frozen(kw_only=True)
class StablePrefix:
    """The part of the payload's history that no append can change any more.

    `sha256` is over exactly those bytes of the payload: the messages' JSON texts joined by commas.
    """

    messages: int
    sha256: str


class PrefixBreak(StrEnum):
    PRINCIPAL = "principal"
    MICROCOMPACT = "microcompact"
    COMPACTION = "compaction"
    ERASURE = "erasure"
    IMAGES = "images"
    UNKNOWN = "unknown"
