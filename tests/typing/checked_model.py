"""Only type-checked, never run: what callers of the model may rely on."""

from typing import assert_type

from safd.model import chain, codec, ids, spans
from safd.model.blocks import Block, Image, ImageData, ImageUrl, InvalidInput, ObjectInput, Text, ToolResult, ToolUse
from safd.model.messages import Message, StoredMessage, Usage
from safd.model.spans import Span


def doors(span: Span) -> None:
    assert_type(spans.whole("{}"), Span)
    assert_type(spans.members(span), dict[str, Span])
    assert_type(codec.parse_message(span), Message)
    assert_type(codec.parse_stored(span), StoredMessage)
    assert_type(codec.parse_blocks(span), tuple[Block, ...])


def parts(message: Message, use: ToolUse, result: ToolResult, image: Image) -> None:
    assert_type(message.blocks, tuple[Block, ...])
    assert_type(message.usage, Usage | None)
    assert_type(use.input, ObjectInput | InvalidInput)
    assert_type(result.output, str | tuple[Text | Image, ...])
    assert_type(image.source, ImageData | ImageUrl)


def names(text: str) -> None:
    assert_type(ids.parse_conversation_id(text), ids.ConversationId)
    assert_type(ids.parse_message_id(text), ids.MessageId)
    assert_type(chain.genesis(ids.parse_conversation_id(text)), str)
    chain.genesis(ids.parse_message_id(text))  # type: ignore[arg-type]
