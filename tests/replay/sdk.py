"""The providers' own parameter types as judges. Their `Iterable` fields are checked lazily, so they are walked."""

from collections.abc import Iterable, Mapping

from anthropic.types import (
    ImageBlockParam,
    MessageParam,
    RedactedThinkingBlockParam,
    TextBlockParam,
    ThinkingBlockParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
)
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from safd.model.projections import Target
from safd.model.spans import JsonObject

OPENAI: TypeAdapter[object] = TypeAdapter(list[ChatCompletionMessageParam])
ANTHROPIC: TypeAdapter[object] = TypeAdapter(list[MessageParam])
BLOCKS: dict[str, TypeAdapter[object]] = {
    "text": TypeAdapter(TextBlockParam),
    "image": TypeAdapter(ImageBlockParam),
    "tool_use": TypeAdapter(ToolUseBlockParam),
    "tool_result": TypeAdapter(ToolResultBlockParam),
    "thinking": TypeAdapter(ThinkingBlockParam),
    "redacted_thinking": TypeAdapter(RedactedThinkingBlockParam),
}


def check(target: Target, messages: list[JsonObject]) -> None:
    """Pydantic's ValidationError where a type does not fit, at any depth."""
    match target:
        case Target.OPENAI_CHAT:
            walk(OPENAI.validate_python(messages, strict=True))
        case Target.ANTHROPIC:
            walk(ANTHROPIC.validate_python(messages, strict=True))
            for message in messages:
                content = message["content"]
                assert isinstance(content, list)
                for block in content:
                    assert isinstance(block, dict)
                    # by its own type: the union of all of them has lenient members
                    walk(BLOCKS[str(block["type"])].validate_python(block, strict=True))


def walk(value: object) -> None:
    if isinstance(value, str | bytes):
        return
    if isinstance(value, Mapping):
        for item in value.values():
            walk(item)
    elif isinstance(value, Iterable):
        for item in value:
            walk(item)
