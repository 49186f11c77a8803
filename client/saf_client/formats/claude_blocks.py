"""What stands inside a Claude Code message: Anthropic content to blocks of the record.

Nothing is lost on the way: the line is kept beside its blocks. Here is decided what of it the model may see again,
and what was changed is counted. A block that the record has no word for is named by a text where it came from the
user's side; on the model's side nothing is put into its mouth.
"""

from collections import Counter, defaultdict

import attrs

from saf_client.formats.lines import is_true, string_of, text_of
from saf_client.formats.transcript import LeftOut
from safd.model import spans
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
from safd.model.messages import Usage
from safd.model.spans import Span

SHOWN = 40
"""Characters of a foreign kind's name that a summary repeats."""
_NO_WORD = "the record has no word for it"
_UNFIT = "its fields are not those of its kind"
_KINDS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "tool_reference"})


@attrs.define(kw_only=True)
class Content:
    """One conversation's content, in file order: a result learns its tool's name from the call that stands before."""

    changed: Counter[LeftOut]
    open_calls: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict[str, list[str]](list))
    """The tools' names of calls that have no result yet: an id may be used again, the nearest call is meant."""
    names: dict[str, str] = attrs.field(factory=dict[str, str])

    def blocks(self, content: Span, *, assistant: bool) -> tuple[Block, ...]:
        """`content` is a string or a list, as `fits` has found."""
        if content.first == '"':
            return (Text(text=_string(content)),)
        return tuple(block for item in spans.elements(content) for block in self._item(item, assistant=assistant))

    def _item(self, item: Span, *, assistant: bool) -> tuple[Block, ...]:
        if item.first == '"':
            return (Text(text=_string(item)),)
        found = spans.members(item) if item.first == "{" else {}
        kind = _kind(found, "block")
        block = self._block(kind, found, assistant=assistant)
        if block is not None:
            return (block,)
        why = _why(kind)
        if assistant:
            self.changed[LeftOut(what=f"{kind} of the model", why=f"{why}; the line is kept")] += 1
            return ()
        self.changed[LeftOut(what=kind, why=f"{why}: named by a text; the line is kept")] += 1
        return (Text(text=_stands_for(kind)),)

    def _block(self, kind: str, found: dict[str, Span], *, assistant: bool) -> Block | None:
        match kind:
            case "text":
                text = string_of(found, "text")
                return None if text is None else Text(text=text)
            case "thinking" if assistant:
                return _thought(found)
            case "redacted_thinking" if assistant:
                data = text_of(found, "data")
                return None if data is None else Reasoning(reasoning="", redacted=data)
            case "tool_use" if assistant:
                return self._call(found)
            case "tool_result" if not assistant:
                return self._result(found)
            case "image":
                return _image(found)
            case _:
                return None

    def _call(self, found: dict[str, Span]) -> ToolUse | None:
        id_, name = text_of(found, "id"), text_of(found, "name")
        if id_ is None or name is None:
            return None
        self.open_calls[id_].append(name)
        self.names[id_] = name
        return ToolUse(id=id_, name=name, input=_input(found.get("input")))

    def _result(self, found: dict[str, Span]) -> ToolResult | None:
        id_ = text_of(found, "tool_use_id")
        if id_ is None:
            return None
        unanswered = self.open_calls.get(id_)
        return ToolResult(
            tool_use_id=id_,
            tool_name=unanswered.pop() if unanswered else self.names.get(id_),
            output=self._output(found.get("content")),
            is_error=is_true(found, "is_error"),
        )

    def _output(self, content: Span | None) -> str | tuple[Text | Image, ...]:
        if content is None or content.first == "n":
            return ""
        if content.first == '"':
            return _string(content)
        if content.first != "[":
            return str(content)
        return tuple(self._output_part(item) for item in spans.elements(content))

    def _output_part(self, item: Span) -> Text | Image:
        if item.first == '"':
            return Text(text=_string(item))
        found = spans.members(item) if item.first == "{" else {}
        kind = _kind(found, "part")
        text = string_of(found, "text")
        if kind == "text" and text is not None:
            return Text(text=text)
        if kind == "image" and (image := _image(found)) is not None:
            return image
        why = f"{_why(kind)}: named by a text; the line is kept"
        self.changed[LeftOut(what=f"{kind} in a result", why=why)] += 1
        name = text_of(found, "tool_name") if kind == "tool_reference" else None
        return Text(text=f"[tool reference: {name}]" if name else _stands_for(kind))


def fits(content: Span | None) -> bool:
    return content is not None and content.first in '"['


def usage_of(message: dict[str, Span]) -> Usage | None:
    """What the provider counted; a number that no count can be is no count."""
    found = message.get("usage")
    if found is None or found.first != "{":
        return None
    counts = spans.members(found)

    def count(name: str) -> int | None:
        number = spans.value(counts[name]) if name in counts else None
        return number if type(number) is int and 0 <= number <= COUNT_LIMIT else None

    return Usage(
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cache_read_tokens=count("cache_read_input_tokens"),
        cache_write_tokens=count("cache_creation_input_tokens"),
    )


def _thought(found: dict[str, Span]) -> Reasoning | None:
    """Without a text where only the signature was kept; without either there is nothing."""
    text, signature = string_of(found, "thinking"), string_of(found, "signature")
    return None if text is None and not signature else Reasoning(reasoning=text or "", signature=signature)


def _input(given: Span | None) -> ToolInput:
    if given is None:
        return InvalidInput(text="")
    if given.first == "{":
        return ObjectInput(json=JsonText(str(given)))
    return InvalidInput(text=_string(given) if given.first == '"' else str(given))


def _image(found: dict[str, Span]) -> Image | None:
    source = found.get("source")
    if source is None or source.first != "{":
        return None
    parts = spans.members(source)
    data, media_type, url = text_of(parts, "data"), text_of(parts, "media_type"), text_of(parts, "url")
    if data is not None and media_type is not None:
        return Image(source=ImageData(media_type=media_type, data=data))
    return None if url is None else Image(source=ImageUrl(url=url, media_type=media_type))


def _kind(found: dict[str, Span], what: str) -> str:
    return (text_of(found, "type") or f"{what} without a type")[:SHOWN]


def _why(kind: str) -> str:
    return _UNFIT if kind in _KINDS else _NO_WORD


def _stands_for(kind: str) -> str:
    return f"[{kind}: not carried over by the import]"


def _string(span: Span) -> str:
    return str(spans.value(span))
