"""The same reading as `codec`, in a fraction of its time, for text whose JSON was checked before.

It takes a text only when there is no doubt: a typed decoder that knows the shapes, coerces nothing and keeps
arguments and metadata as text. Whatever it does not take (None) is for `codec` to read or to refuse with a path: an
escaped lone surrogate, a huge integer, any mistake. A test holds the two against each other.
"""

from typing import assert_never

import msgspec
from msgspec import Raw, Struct

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
from safd.model.codec import COUNT_LIMIT
from safd.model.ids import MessageId, Seq, Uid
from safd.model.messages import Message, Role, StoredMessage, Usage, Writer
from safd.model.principals import Posture

_NULL = Raw(b"null")


class _Doubt(Exception):
    pass


class _Text(Struct, tag_field="type", tag="text", forbid_unknown_fields=True, gc=False):
    text: str


class _Reasoning(Struct, tag_field="type", tag="reasoning", forbid_unknown_fields=True, gc=False):
    reasoning: str
    signature: str | None = None
    redacted: str | None = None
    encrypted: str | None = None
    provider: str | None = None
    model: str | None = None


class _ToolUse(Struct, tag_field="type", tag="tool_use", forbid_unknown_fields=True, gc=False):
    id: str
    name: str
    input: Raw
    signature: str | None = None


class _Image(Struct, tag_field="type", tag="image", forbid_unknown_fields=True, gc=False):
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class _ToolResult(Struct, tag_field="type", tag="tool_result", forbid_unknown_fields=True, gc=False):
    tool_use_id: str
    output: str | list[_Text | _Image]
    tool_name: str | None = None
    is_error: bool | None = None


class _Usage(Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Writer(Struct, forbid_unknown_fields=True, gc=False):
    uid: int
    agent: str | None
    posture: Posture


class _Offered(Struct, forbid_unknown_fields=True, gc=False):
    role: Role
    blocks: list[_Text | _Reasoning | _ToolUse | _ToolResult | _Image]
    usage: _Usage | None = None
    model: str | None = None
    provider: str | None = None
    timestamp: str | int | float | None = None
    metadata: Raw = _NULL


class _Stored(_Offered, forbid_unknown_fields=True, gc=False, kw_only=True):
    id: str
    seq: int
    recorded_at: str
    writer: _Writer
    prev_hash: str


_offered = msgspec.json.Decoder(_Offered)
_stored = msgspec.json.Decoder(_Stored)


def parse_message(text: str) -> Message | None:
    try:
        return _message(_offered.decode(text))
    except (msgspec.MsgspecError, _Doubt):
        return None


def parse_stored(text: bytes) -> StoredMessage | None:
    try:
        found = _stored.decode(text)
        message = _message(found)
    except (msgspec.MsgspecError, UnicodeDecodeError, _Doubt):
        return None
    writer = found.writer
    return StoredMessage(
        id=MessageId(found.id),
        seq=Seq(found.seq),
        recorded_at=found.recorded_at,
        writer=Writer(uid=Uid(writer.uid), agent=writer.agent, posture=writer.posture),
        prev_hash=found.prev_hash,
        message=message,
    )


def _message(found: _Offered) -> Message:
    usage = found.usage
    return Message(
        role=found.role,
        blocks=tuple(map(_block, found.blocks)),
        usage=None if usage is None else _counted(usage),
        model=found.model,
        provider=found.provider,
        timestamp=found.timestamp,
        metadata=None if found.metadata is _NULL else _opaque(found.metadata),
    )


def _block(found: _Text | _Reasoning | _ToolUse | _ToolResult | _Image) -> Block:
    match found:
        case _Text():
            return Text(text=found.text)
        case _Reasoning():
            return Reasoning(
                reasoning=found.reasoning,
                signature=found.signature,
                redacted=found.redacted,
                encrypted=found.encrypted,
                provider=found.provider,
                model=found.model,
            )
        case _ToolUse():
            return ToolUse(id=found.id, name=found.name, input=_input(found.input), signature=found.signature)
        case _ToolResult():
            output = found.output
            return ToolResult(
                tool_use_id=found.tool_use_id,
                tool_name=found.tool_name,
                output=output if isinstance(output, str) else tuple(map(_output_block, output)),
                is_error=found.is_error is True,
            )
        case _Image():
            return _image(found)
        case _ as never:
            assert_never(never)


def _output_block(found: _Text | _Image) -> Text | Image:
    return Text(text=found.text) if isinstance(found, _Text) else _image(found)


def _image(found: _Image) -> Image:
    if found.url is not None and found.data is None:
        return Image(source=ImageUrl(url=found.url, media_type=found.media_type))
    if found.data is not None and found.url is None and found.media_type is not None:
        return Image(source=ImageData(media_type=found.media_type, data=found.data))
    raise _Doubt


def _input(raw: Raw) -> ToolInput:
    text = _exact(raw)
    if text[0] == "{":
        return ObjectInput(json=JsonText(text))
    if text[0] == '"':
        return InvalidInput(text=msgspec.json.decode(text, type=str))
    raise _Doubt


def _opaque(raw: Raw) -> JsonText | None:
    text = _exact(raw)
    if text[0] == "{":
        return JsonText(text)
    if text == "null":
        return None
    raise _Doubt


def _exact(raw: Raw) -> str:
    # a raw field is the value's bytes, with no space before them
    return bytes(raw).decode("utf-8")


def _counted(usage: _Usage) -> Usage:
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    if any(count is not None and not 0 <= count <= COUNT_LIMIT for count in counts):
        raise _Doubt
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
