"""The record for a terminal: stored messages to lines of styled text. Pure: whoever prints decides about colour.

A transcript is somebody else's text. Whatever in it could steer a terminal or hide (control characters, escape
sequences, direction overrides, invisible tags) is shown as a visible sign instead of being sent on.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias, assert_never

import attrs

from saf_client.formats.transcript import IMPORTED
from saf_client.wire import DamagedMessage
from safd.model import codec, spans
from safd.model.blocks import (
    Block,
    Image,
    ImageData,
    ImageUrl,
    InvalidInput,
    ObjectInput,
    Reasoning,
    Text,
    ToolInput,
    ToolResult,
    ToolUse,
)
from safd.model.messages import Role, StoredMessage

TAB = 4
OUTPUT_LINES = 12
"""So many lines of a tool's output are shown before the rest is counted, unless all is asked for."""
_WINDOW = 4
"""Characters looked at for each column of a line: enough for all but texts of marks without width."""
_ISOLATE, _POP = "\u2068", "\u2069"
_C0_END, _DELETE = 0x20, 0x7F
_HIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


class Style(StrEnum):
    """What a piece of text is; the printer gives each a look."""

    PLAIN = "plain"
    HEAD = "head"
    DIM = "dim"
    CALL = "call"
    ERROR = "error"
    THOUGHT = "thought"


@attrs.frozen
class Piece:
    text: str
    style: Style = Style.PLAIN


Line: TypeAlias = tuple[Piece, ...]


def visible(text: str) -> str:
    """The text with everything that would act on a terminal made visible; line feeds stay, tabs become spaces."""
    return _HIDDEN.sub(
        _shown, text.replace("\r\n", "\n").expandtabs(TAB) if "\t" in text else text.replace("\r\n", "\n")
    )


def one_line(text: str) -> str:
    """The same for a place that has one line."""
    return visible(text).replace("\n", "\u2424")


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < _C0_END:
        return chr(0x2400 + code)
    if code == _DELETE:
        return "\u2421"
    return f"<U+{code:04X}>"


def width(text: str) -> int:
    """Terminal cells of a visible text."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f\u2068\u2069":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, columns: int) -> Iterator[str]:
    """Visible text in lines of at most `columns` cells, broken at spaces where there are some.

    A line that holds right-to-left script is isolated, so that it cannot reorder what stands around it.
    """
    for line in visible(text).split("\n"):
        for piece in _broken(line, max(columns, 8)):
            yield f"{_ISOLATE}{piece}{_POP}" if _right_to_left(piece) else piece


def shortened(line: str, columns: int) -> str:
    """The line, or as much of it as fits with a sign that it goes on."""
    return line if width(line) <= columns else line[: _cut(line, columns - 1)] + "…"


def _right_to_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def _broken(line: str, columns: int) -> Iterator[str]:
    begin = 0
    while True:
        window = line[begin : begin + _WINDOW * columns]
        if begin + len(window) == len(line) and width(window) <= columns:
            yield window
            return
        cut = _cut(window, columns)
        space = window.rfind(" ", 1, cut + 1)
        at = space if space > cut // 2 else cut
        yield window[:at]
        begin += at + (window[at : at + 1] == " ")


def _cut(text: str, columns: int) -> int:
    if text[:columns].isascii():
        return columns
    cells = 0
    for index, character in enumerate(text):
        cells += _cells(character)
        if cells > columns:
            return max(index, 1)
    return len(text)


def message_lines(stored: StoredMessage | DamagedMessage, columns: int, *, whole: bool = False) -> Iterator[Line]:
    """One message: a head line, then its blocks, indented."""
    if isinstance(stored, DamagedMessage):
        yield (Piece(f"#{stored.seq} ", Style.HEAD), Piece(f"cannot be read ({stored.code})", Style.ERROR))
        return
    yield _head(stored)
    if not stored.message.blocks:
        yield (Piece("  " + _empty(stored), Style.DIM),)
    for block in stored.message.blocks:
        yield from block_lines(block, columns, whole=whole)


def _head(stored: StoredMessage) -> Line:
    message = stored.message
    about = [_when(stored)]
    if message.role is Role.ASSISTANT and message.model:
        about.append(one_line(message.model))
    if stored.writer.agent:
        about.append(f"by {one_line(stored.writer.agent)}")
    if message.usage is not None and (message.usage.input_tokens or message.usage.output_tokens):
        about.append(f"{message.usage.input_tokens or 0} in, {message.usage.output_tokens or 0} out")
    return (
        Piece(f"#{stored.seq} {message.role.value}", Style.HEAD),
        Piece("  " + " · ".join(about), Style.DIM),
    )


def _when(stored: StoredMessage) -> str:
    """The writer's own time where it gave one: what was imported was said before it was recorded."""
    said = stored.message.timestamp
    return one_line(said if isinstance(said, str) and said else stored.recorded_at)[:19].replace("T", " ")


def _empty(stored: StoredMessage) -> str:
    """Why a message has no blocks, where an import said so."""
    if stored.message.metadata is not None:
        imported = spans.members(spans.trusted(stored.message.metadata)).get(IMPORTED)
        found = spans.value(imported) if imported is not None else None
        if isinstance(found, dict) and isinstance(found.get("not_for_model"), str):
            return f"(not for the model: {one_line(str(found['not_for_model']))})"
    return "(no content)"


def block_lines(block: Block, columns: int, *, whole: bool = False) -> Iterator[Line]:
    """One block. A long output is cut after some lines, and says how many more there are."""
    match block:
        case Text(text=text):
            if text.strip():
                yield from _indented(text, columns, Style.PLAIN)
            else:
                yield (Piece("  (blank text)", Style.DIM),)
        case Reasoning():
            yield from _indented(_thought(block), columns, Style.THOUGHT, first="~ ")
        case ToolUse():
            head = f"-> {one_line(block.name)} "
            yield from _indented(_arguments(block.input), columns, Style.CALL, first=head, limit=_limit(whole=whole))
        case ToolResult():
            yield from _result(block, columns, whole=whole)
        case Image():
            yield (Piece("  " + image_name(block), Style.DIM),)
        case _ as never:
            assert_never(never)


def _limit(*, whole: bool) -> int | None:
    return None if whole else OUTPUT_LINES


def _thought(block: Reasoning) -> str:
    sealed = [
        name
        for name, value in (("signed", block.signature), ("redacted", block.redacted), ("encrypted", block.encrypted))
        if value is not None
    ]
    by = f" by {block.provider}" if sealed and block.provider else ""
    about = f"[{', '.join(sealed)}{by}]" if sealed else ""
    return " ".join(part for part in (block.reasoning or "(no text)", about) if part)


def _arguments(given: ToolInput) -> str:
    match given:
        case ObjectInput(json=text):
            return text
        case InvalidInput(text=text):
            return f"(not a JSON object) {text}"
        case _ as never:
            assert_never(never)


def _result(block: ToolResult, columns: int, *, whole: bool) -> Iterator[Line]:
    style = Style.ERROR if block.is_error else Style.DIM
    name = one_line(block.tool_name or block.tool_use_id)
    first = f"<- {name} failed: " if block.is_error else f"<- {name}: "
    if isinstance(block.output, str):
        yield from _indented(block.output or "(empty)", columns, style, first=first, limit=_limit(whole=whole))
        return
    if not block.output:
        yield (Piece(f"  {first}(empty)", style),)
    for index, part in enumerate(block.output):
        begin = first if index == 0 else "   "
        text = part.text if isinstance(part, Text) else image_name(part)
        yield from _indented(text, columns, style, first=begin, limit=_limit(whole=whole))


def image_name(image: Image) -> str:
    """An image in words: its kind and size, or where it is."""
    match image.source:
        case ImageData(media_type=media_type, data=data):
            return f"[image {one_line(media_type)}, {len(data) * 3 // 4:,} bytes]"
        case ImageUrl(url=url):
            return f"[image at {one_line(url)}]"
        case _ as never:
            assert_never(never)


def _indented(text: str, columns: int, style: Style, *, first: str = "", limit: int | None = None) -> Iterator[Line]:
    shown = text
    left = 0
    if limit is not None:
        lines = text.split("\n")
        if len(lines) > limit:
            shown, left = "\n".join(lines[:limit]), len(lines) - limit
        if len(shown) > limit * columns:
            left += 1
            shown = shown[: limit * columns]
    further = "     " if first else "  "
    for number, line in enumerate(wrapped(first + shown, columns - len(further))):
        yield (Piece((further if number else "  ") + line, style),)
    if left:
        yield (Piece(f"     … {len(text):,} characters in all", Style.DIM),)


def plain(lines: Sequence[Line]) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def event_text(name: str, data: bytes) -> str:
    """A live event that is no message, in one line."""
    found = spans.value(spans.trusted(data.decode("utf-8")))
    return f"{one_line(name)} {one_line(codec.dump(found).decode())}"
