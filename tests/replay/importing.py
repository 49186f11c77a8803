"""What somebody would record who took a payload's history for the conversation: each wire format back to messages."""

import base64
import re
from typing import assert_never

from safd.model import spans
from safd.model.blocks import (
    Block,
    Image,
    ImageData,
    ImageUrl,
    JsonText,
    ObjectInput,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from safd.model.messages import Message, Role
from safd.model.projections import Target
from safd.model.spans import Span


def messages(target: Target, raw: bytes, provider: str | None, model: str | None) -> list[Message]:
    payload = spans.members(spans.whole(raw.decode("utf-8")))
    found = spans.elements(payload["messages"])
    match target:
        case Target.OPENAI_CHAT:
            if found and _of(found[0], "role") == "system":
                del found[0]
            return [_openai(each, provider, model) for each in found]
        case Target.ANTHROPIC:
            return [_anthropic(each, provider, model) for each in found]
        case _ as never:
            assert_never(never)


def _of(span: Span, key: str) -> str | None:
    member = spans.members(span).get(key)
    return None if member is None else str(spans.value(member))


def _openai(span: Span, provider: str | None, model: str | None) -> Message:
    message = spans.members(span)
    role = Role(str(spans.value(message["role"])))
    blocks: list[Block] = []
    reasoning = _of(span, "reasoning_content")
    if reasoning is not None:
        blocks.append(Reasoning(reasoning=reasoning))
    content = message["content"]
    if role is Role.TOOL:
        blocks.append(ToolResult(tool_use_id=_of(span, "tool_call_id") or "", output=str(spans.value(content))))
    elif content.first == '"':
        blocks += [Text(text=text)] if (text := str(spans.value(content))) else []
    else:
        blocks += (_openai_part(part) for part in spans.elements(content))
    if "tool_calls" in message:
        for each in spans.elements(message["tool_calls"]):
            function = spans.members(each)["function"]
            arguments = JsonText(_of(function, "arguments") or "")
            blocks.append(
                ToolUse(id=_of(each, "id") or "", name=_of(function, "name") or "", input=ObjectInput(json=arguments))
            )
    return Message(role=role, blocks=tuple(blocks), provider=provider, model=model)


def _openai_part(span: Span) -> Text | Image:
    if _of(span, "type") == "text":
        return Text(text=_of(span, "text") or "")
    return _image_at(_of(spans.members(span)["image_url"], "url") or "")


def _image_at(url: str) -> Image:
    found = re.match(r"data:([^;]+);base64,", url)
    if found is None:
        return Image(source=ImageUrl(url=url))
    data = url[found.end() :]
    assert base64.b64decode(data)
    return Image(source=ImageData(media_type=found[1], data=data))


def _anthropic(span: Span, provider: str | None, model: str | None) -> Message:
    blocks = tuple(_anthropic_block(each) for each in spans.elements(spans.members(span)["content"]))
    return Message(role=Role(_of(span, "role") or ""), blocks=blocks, provider=provider, model=model)


def _anthropic_block(span: Span) -> Block:
    block = spans.members(span)
    match spans.value(block["type"]):
        case "text":
            return Text(text=_of(span, "text") or "")
        case "image":
            return _anthropic_image(span)
        case "thinking":
            return Reasoning(reasoning=_of(span, "thinking") or "", signature=_of(span, "signature"))
        case "redacted_thinking":
            return Reasoning(reasoning="", redacted=_of(span, "data"))
        case "tool_use":
            given = ObjectInput(json=JsonText(str(block["input"])))
            return ToolUse(id=_of(span, "id") or "", name=_of(span, "name") or "", input=given)
        case "tool_result":
            content = block["content"]
            output: str | tuple[Text | Image, ...]
            if content.first == '"':
                output = str(spans.value(content))
            else:
                output = tuple(_anthropic_part(each) for each in spans.elements(content))
            return ToolResult(tool_use_id=_of(span, "tool_use_id") or "", output=output, is_error="is_error" in block)
        case _:
            raise AssertionError(str(span))


def _anthropic_part(span: Span) -> Text | Image:
    return Text(text=_of(span, "text") or "") if _of(span, "type") == "text" else _anthropic_image(span)


def _anthropic_image(span: Span) -> Image:
    source = spans.members(span)["source"]
    if _of(source, "type") == "url":
        return Image(source=ImageUrl(url=_of(source, "url") or ""))
    return Image(source=ImageData(media_type=_of(source, "media_type") or "", data=_of(source, "data") or ""))
