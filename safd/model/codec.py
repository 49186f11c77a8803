"""The one JSON door of the record: strict text to types with a path, and types to text.

Reading is strict: an unknown block type, an unknown field, a wrong type, a duplicate key, a number that is not
finite are refused with the offender's path. Nothing is coerced. `metadata` and the arguments of a call are
opaque: they are checked as JSON and kept as text.
"""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar, assert_never, cast

import orjson
from orjson import Fragment

from safd.model import authority, spans
from safd.model.blocks import (
    Block,
    Image,
    ImageData,
    ImageUrl,
    InvalidInput,
    JsonText,
    ObjectInput,
    Reasoning,
    Text,
    ToolInput,
    ToolResult,
    ToolUse,
)
from safd.model.errors import (
    BlockTypeUnknown,
    FieldMissing,
    FieldReserved,
    FieldType,
    FieldUnknown,
    ValueNotAllowed,
)
from safd.model.ids import MessageId, Seq, Uid
from safd.model.messages import Message, Role, StoredMessage, Usage, Writer
from safd.model.principals import Posture
from safd.model.spans import JsonObject, JsonValue, Span

T = TypeVar("T")

DAEMON_FIELDS = ("id", "seq", "recorded_at", "writer", "prev_hash")
MESSAGE_FIELDS = ("role", "blocks", "usage", "model", "provider", "timestamp", "metadata")
USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
BLOCK_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("type", "text"),
    "reasoning": ("type", "reasoning", "signature", "redacted", "encrypted", "provider", "model"),
    "tool_use": ("type", "id", "name", "input", "signature"),
    "tool_result": ("type", "tool_use_id", "tool_name", "output", "is_error"),
    "image": ("type", "media_type", "data", "url"),
}
BLOCK_TYPES = tuple(BLOCK_FIELDS)
OUTPUT_TYPES = ("text", "image")
SHOWN = 80
"""How much of an offending value an error repeats, and the longest number that is read as one."""
COUNT_LIMIT = 10**12
"""No count of ours comes near it, and a million of them still add up within 64 bits."""


# --- text to types


def parse_message(span: Span) -> Message:
    """One offered message. The span must have been checked (`spans.whole`, or taken from one that was)."""
    found = spans.members(span)
    for key in found:
        if key in DAEMON_FIELDS:
            raise FieldReserved(path=spans.join(span.path, key))
    message = _message(span, found, MESSAGE_FIELDS)
    refuse_principal(message, span.path)
    return message


def parse_stored(span: Span) -> StoredMessage:
    """One message as hydration returns it."""
    found = spans.members(span)
    writer = spans.members(_required(span, found, "writer"))
    _only(writer, ("uid", "agent", "posture"), spans.join(span.path, "writer"))
    at = spans.join(span.path, "writer")
    agent = writer.get("agent")
    return StoredMessage(
        id=MessageId(_text(_required(span, found, "id"))),
        seq=Seq(_count(_required(span, found, "seq"))),
        recorded_at=_text(_required(span, found, "recorded_at")),
        prev_hash=_text(_required(span, found, "prev_hash")),
        writer=Writer(
            uid=Uid(_count(_named(at, writer, "uid"))),
            agent=None if agent is None else _optional(agent, _text),
            posture=Posture(_choice(_named(at, writer, "posture"), tuple(Posture))),
        ),
        message=_message(span, found, DAEMON_FIELDS + MESSAGE_FIELDS),
    )


def parse_blocks(span: Span) -> tuple[Block, ...]:
    return tuple(parse_block(item) for item in spans.elements(span))


def parse_block(span: Span) -> Block:
    found = spans.members(span)
    kind = _block_type(span, found, BLOCK_TYPES)
    _only(found, BLOCK_FIELDS[kind], span.path)
    match kind:
        case "text":
            return Text(text=_text(_required(span, found, "text")))
        case "reasoning":
            return Reasoning(
                reasoning=_text(_required(span, found, "reasoning")),
                signature=_maybe(found, "signature", _text),
                redacted=_maybe(found, "redacted", _text),
                encrypted=_maybe(found, "encrypted", _text),
                provider=_maybe(found, "provider", _text),
                model=_maybe(found, "model", _text),
            )
        case "tool_use":
            return ToolUse(
                id=_text(_required(span, found, "id")),
                name=_text(_required(span, found, "name")),
                input=_input(_required(span, found, "input")),
                signature=_maybe(found, "signature", _text),
            )
        case "tool_result":
            is_error = _maybe(found, "is_error", _boolean)
            return ToolResult(
                tool_use_id=_text(_required(span, found, "tool_use_id")),
                tool_name=_maybe(found, "tool_name", _text),
                output=_output(_required(span, found, "output")),
                is_error=is_error is True,
            )
        case _:
            return _image(span, found)


def refuse_principal(message: Message, path: str) -> None:
    """Authority is never recorded: a system message may not carry the block that states it."""
    if message.role is Role.SYSTEM:
        authority.refuse_principal(message.blocks, spans.join(path, "blocks"))


def _message(span: Span, found: dict[str, Span], allowed: tuple[str, ...]) -> Message:
    _only(found, allowed, span.path)
    return Message(
        role=Role(_choice(_required(span, found, "role"), tuple(Role))),
        blocks=parse_blocks(_required(span, found, "blocks")),
        usage=_maybe(found, "usage", _usage),
        model=_maybe(found, "model", _text),
        provider=_maybe(found, "provider", _text),
        timestamp=_maybe(found, "timestamp", _timestamp),
        metadata=_maybe(found, "metadata", _opaque_object),
    )


def _usage(span: Span) -> Usage:
    found = spans.members(span)
    _only(found, USAGE_FIELDS, span.path)
    return Usage(**{name: _maybe(found, name, _count) for name in USAGE_FIELDS})


def _input(span: Span) -> ToolInput:
    match span.first:
        case "{":
            return ObjectInput(json=JsonText(str(span)))
        case '"':
            return InvalidInput(text=_text(span))
        case _:
            raise FieldType(
                path=span.path,
                expected="a JSON object, or what the model emitted as a string",
                seen=spans.kind_of(span),
            )


def _output(span: Span) -> str | tuple[Text | Image, ...]:
    match span.first:
        case '"':
            return _text(span)
        case "[":
            return tuple(_output_block(item) for item in spans.elements(span))
        case _:
            raise FieldType(
                path=span.path, expected="a string, or a list of text and image blocks", seen=spans.kind_of(span)
            )


def _output_block(span: Span) -> Text | Image:
    found = spans.members(span)
    kind = _block_type(span, found, OUTPUT_TYPES)
    _only(found, BLOCK_FIELDS[kind], span.path)
    if kind == "text":
        return Text(text=_text(_required(span, found, "text")))
    return _image(span, found)


def _image(span: Span, found: dict[str, Span]) -> Image:
    data = _maybe(found, "data", _text)
    url = _maybe(found, "url", _text)
    media_type = _maybe(found, "media_type", _text)
    if data is None and url is None:
        raise FieldMissing(path=f"{spans.join(span.path, 'data')} or {spans.join(span.path, 'url')}")
    if data is not None and url is not None:
        raise ValueNotAllowed(path=span.path, expected="an image with data or with url", seen="one with both")
    if url is not None:
        return Image(source=ImageUrl(url=url, media_type=media_type))
    if media_type is None or data is None:
        raise FieldMissing(path=spans.join(span.path, "media_type"))
    return Image(source=ImageData(media_type=media_type, data=data))


def _block_type(span: Span, found: dict[str, Span], allowed: tuple[str, ...]) -> str:
    kind = _text(_required(span, found, "type"))
    if kind not in allowed:
        raise BlockTypeUnknown(path=spans.join(span.path, "type"), seen=kind[:SHOWN], allowed=allowed)
    return kind


def _only(found: dict[str, Span], allowed: tuple[str, ...], path: str) -> None:
    for key in found:
        if key not in allowed:
            raise FieldUnknown(path=spans.join(path, key), allowed=allowed)


def _required(span: Span, found: dict[str, Span], name: str) -> Span:
    return _named(span.path, found, name)


def _named(path: str, found: dict[str, Span], name: str) -> Span:
    if name not in found:
        raise FieldMissing(path=spans.join(path, name))
    return found[name]


def _maybe(found: dict[str, Span], name: str, parse: Callable[[Span], T]) -> T | None:
    span = found.get(name)
    return None if span is None else _optional(span, parse)


def _optional(span: Span, parse: Callable[[Span], T]) -> T | None:
    return None if span.first == "n" else parse(span)


def _text(span: Span) -> str:
    if span.first != '"':
        raise FieldType(path=span.path, expected="a string", seen=spans.kind_of(span))
    return cast(str, spans.value(span))


def _boolean(span: Span) -> bool:
    if span.first not in "tf":
        raise FieldType(path=span.path, expected="a boolean", seen=spans.kind_of(span))
    return span.first == "t"


def _count(span: Span) -> int:
    number = spans.value(span)
    if type(number) is not int:
        raise FieldType(path=span.path, expected="a whole number", seen=spans.kind_of(span))
    if _longer(span, SHOWN) or not 0 <= number <= COUNT_LIMIT:
        seen = str(span)[:SHOWN]
        raise ValueNotAllowed(path=span.path, expected=f"a whole number from 0 to {COUNT_LIMIT}", seen=seen)
    return number


def _timestamp(span: Span) -> str | int | float:
    found = spans.value(span)
    if isinstance(found, str):
        return found
    if type(found) is int or type(found) is float:
        if _longer(span, SHOWN):
            raise ValueNotAllowed(
                path=span.path, expected=f"a number of at most {SHOWN} characters", seen=f"{str(span)[:SHOWN]}..."
            )
        return found
    raise FieldType(path=span.path, expected="a string or a number", seen=spans.kind_of(span))


def _opaque_object(span: Span) -> JsonText:
    if span.first != "{":
        raise FieldType(path=span.path, expected="an object", seen=spans.kind_of(span))
    return JsonText(str(span))


def _longer(span: Span, limit: int) -> bool:
    return span.end - span.start > limit


def _choice(span: Span, allowed: tuple[str, ...]) -> str:
    found = _text(span)
    if found not in allowed:
        raise ValueNotAllowed(path=span.path, expected=f"one of {', '.join(allowed)}", seen=repr(found[:SHOWN]))
    return found


# --- types to text


def block_json(block: Block) -> JsonObject:
    """A block as a JSON object for `orjson.dumps`; raw arguments ride as fragments."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Reasoning():
            return _without_none(
                {
                    "type": "reasoning",
                    "reasoning": block.reasoning,
                    "signature": block.signature,
                    "redacted": block.redacted,
                    "encrypted": block.encrypted,
                    "provider": block.provider,
                    "model": block.model,
                }
            )
        case ToolUse():
            return _without_none(
                {
                    "type": "tool_use",
                    "id": block.id,
                    "name": block.name,
                    "input": _input_json(block.input),
                    "signature": block.signature,
                }
            )
        case ToolResult():
            output: JsonValue = (
                block.output if isinstance(block.output, str) else [block_json(part) for part in block.output]
            )
            return _without_none(
                {
                    "type": "tool_result",
                    "tool_use_id": block.tool_use_id,
                    "tool_name": block.tool_name,
                    "output": output,
                    "is_error": block.is_error,
                }
            )
        case Image():
            return _image_json(block.source)
        case _ as never:
            assert_never(never)


def _image_json(source: ImageData | ImageUrl) -> JsonObject:
    match source:
        case ImageData():
            return {"type": "image", "media_type": source.media_type, "data": source.data}
        case ImageUrl():
            return _without_none({"type": "image", "media_type": source.media_type, "url": source.url})
        case _ as never:
            assert_never(never)


def render_message(message: Message) -> bytes:
    """An offer's text; a lone surrogate, which UTF-8 cannot hold, is written as its JSON escape."""
    usage = message.usage
    found: JsonObject = {
        "role": message.role.value,
        "blocks": [block_json(block) for block in message.blocks],
        "usage": None
        if usage is None
        else _without_none(
            {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            }
        ),
        "model": message.model,
        "provider": message.provider,
        "timestamp": message.timestamp,
        "metadata": None if message.metadata is None else _fragment(message.metadata),
    }
    return dump(_without_none(found))


def render_stored(*, id_: MessageId, seq: Seq, recorded_at: str, writer: Writer, prev_hash: str, offered: str) -> bytes:
    """What is stored and hydrated: the daemon's fields, then the offered text as it came, without its brace."""
    head = orjson.dumps(
        {
            "id": id_,
            "seq": seq,
            "recorded_at": recorded_at,
            "writer": {"uid": writer.uid, "agent": writer.agent, "posture": writer.posture.value},
            "prev_hash": prev_hash,
        }
    )
    return b"%b,%b" % (head[:-1], offered[1:].encode("utf-8"))


def dump(value: JsonValue) -> bytes:
    """JSON bytes of a value of ours, also where UTF-8 or 64 bits cannot hold a part of it.

    A lone surrogate is written as its JSON escape, a larger integer as its digits.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_spelled(value))


def _spelled(value: "JsonValue | Fragment") -> JsonValue:
    match value:
        case str():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                return _fragment(JsonText(json.dumps(value)))
            return value
        case list():
            return [_spelled(item) for item in value]
        case dict():
            return {key: _spelled(item) for key, item in value.items()}
        case bool() | float() | None:
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else _fragment(JsonText(str(value)))
        case Fragment():
            return cast(JsonValue, value)
        case _ as never:
            assert_never(never)


def _fragment(text: JsonText) -> JsonValue:
    # orjson writes a Fragment as it is; to the types it stands for the value that it spells
    return cast(JsonValue, Fragment(text))


def _input_json(value: ToolInput) -> JsonValue:
    match value:
        case ObjectInput(json=text):
            return _fragment(text)
        case InvalidInput(text=text):
            return text
        case _ as never:
            assert_never(never)


def _without_none(found: JsonObject) -> JsonObject:
    return {key: value for key, value in found.items() if value is not None}
