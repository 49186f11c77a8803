"""The typed pieces of a message, as they stand in the record."""

from typing import NewType, TypeAlias

import attrs

JsonText = NewType("JsonText", str)
"""The exact text of a JSON value that somebody else wrote; spliced, never loaded and dumped."""


@attrs.frozen(kw_only=True)
class Text:
    text: str


@attrs.frozen(kw_only=True)
class Reasoning:
    """What a model thought. `signature`, `redacted` and `encrypted` are the provider's, opaque, byte-exact.

    `provider` and `model` say who can verify them; where absent, the message's own hold.
    """

    reasoning: str
    signature: str | None = None
    redacted: str | None = None
    encrypted: str | None = None
    provider: str | None = None
    model: str | None = None


@attrs.frozen(kw_only=True)
class ObjectInput:
    """Arguments as the model gave them: the exact text of one JSON object."""

    json: JsonText


@attrs.frozen(kw_only=True)
class InvalidInput:
    """Arguments that came as a string: what the model emitted where a JSON object was due, exactly."""

    text: str


ToolInput: TypeAlias = ObjectInput | InvalidInput


@attrs.frozen(kw_only=True)
class ToolUse:
    id: str
    name: str
    input: ToolInput
    signature: str | None = None


@attrs.frozen(kw_only=True)
class ImageData:
    """An image that is here: base64 text as it was offered."""

    media_type: str
    data: str


@attrs.frozen(kw_only=True)
class ImageUrl:
    """An image that is elsewhere."""

    url: str
    media_type: str | None = None


@attrs.frozen(kw_only=True)
class Image:
    source: ImageData | ImageUrl


@attrs.frozen(kw_only=True)
class ToolResult:
    """What a tool gave back. `tool_name` is None where the writer did not know it."""

    tool_use_id: str
    output: "str | tuple[Text | Image, ...]"
    tool_name: str | None = None
    is_error: bool = False


Block: TypeAlias = Text | Reasoning | ToolUse | ToolResult | Image
