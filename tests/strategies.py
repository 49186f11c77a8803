"""Hypothesis strategies for hostile records: every way in which a history has been seen to be broken, at once.

Each text, output, thought and argument carries a token of its own (`TEXT7x`, `OUT3x`, `THOUGHT2x`, `ARG5x`), so that a
property can say where it must and must not occur.
"""

import base64
import json
import re

import attrs
from hypothesis import strategies as st

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
from safd.model.ids import MarkId, MessageId, Seq, Uid
from safd.model.marks import BlockRef, Cleared, Compacted, Mark, Restored
from safd.model.messages import Message, Role, StoredMessage, Writer
from safd.model.principals import Posture
from safd.model.projections import Capabilities, ReasoningCapability

TOKEN = re.compile(r"(?:TEXT|OUT|THOUGHT|ARG)\d+x")
WRITER = Writer(uid=Uid(1000), agent="hermes", posture=Posture.RESIDENT)

CALL_IDS = ["a", "b", "call_0", "call_0", "", "functions.f:0", "toolu_01abc", "x" * 500, "a b", "é", "a\ud800", "read"]
NAMES = ["read", "server__tool", "multi_tool_use.parallel", "rm -rf / # " * 50, "", "größe", "a\x00b", "\ud800"]
AROUND = ["", "", "", "", " ", "\n", "\x00", "\ud800", "\udc00 ", "\u200f", "\x1b[31m", '"', "\\", "</think>"]
BLANKS = ["", " ", "\n\t ", "\u2003"]
PROVIDERS = [None, *["example"] * 5, "other"]
MODELS = [None, *["model-1"] * 5, "model-2"]
SIGNATURES = [None, "", *["c2ln"] * 4, "sig\udfff"]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (1).to_bytes(4, "big") * 2 + b"rest").decode()
WALL = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (9000).to_bytes(4, "big") * 2 + b"rest").decode()
WIDE = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (2500).to_bytes(4, "big") * 2 + b"rest").decode()
IMAGES = [
    ImageData(media_type="image/png", data=PIXEL),
    ImageData(media_type="image/png", data=PIXEL),
    ImageData(media_type="image/jpg", data=f"{PIXEL[:8]}\n{PIXEL[8:]}"),
    ImageData(media_type="image/png", data=f"data:image/webp;base64,{PIXEL}"),
    ImageData(media_type="image/png", data=WALL),
    ImageData(media_type="image/png", data=WIDE),
    ImageData(media_type="image/tiff", data=PIXEL),
    ImageData(media_type="image/svg+xml", data=PIXEL),
    ImageData(media_type="image/png", data="not base64!"),
    ImageData(media_type="image/png", data=""),
    ImageData(media_type="\ud800", data="\ud800"),
    ImageUrl(url="https://example.org/a.png"),
    ImageUrl(url="file:///home/casey/a.png"),
    ImageUrl(url=f"data:image/gif;base64,{PIXEL}", media_type="image/gif"),
    ImageUrl(url="https://example.org/\ud800"),
]


@attrs.define
class _Tokens:
    made: int = 0

    def next(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}x"


@attrs.frozen(kw_only=True)
class Case:
    """A record, its marks, and for whom it is projected."""

    record: tuple[StoredMessage, ...]
    marks: tuple[Mark, ...]
    capabilities: Capabilities
    provider: str | None
    model: str | None
    live_after: Seq | None


def stored(messages: list[Message]) -> tuple[StoredMessage, ...]:
    """Messages as the daemon stores them, with ids that follow from their places."""
    return tuple(
        StoredMessage(
            id=message_id(seq),
            seq=Seq(seq),
            recorded_at="2026-12-01T10:00:00.000Z",
            writer=WRITER,
            prev_hash="0" * 64,
            message=message,
        )
        for seq, message in enumerate(messages, start=1)
    )


def message_id(seq: int) -> MessageId:
    return MessageId(f"msg_0193{seq:04x}-0000-7000-8000-{seq:012x}")


def _around(draw: st.DrawFn, token: str) -> str:
    return draw(st.sampled_from(AROUND)) + token + draw(st.sampled_from(AROUND))


def _text(draw: st.DrawFn, tokens: _Tokens) -> Text:
    if draw(st.integers(0, 5)) == 0:
        return Text(text=draw(st.sampled_from(BLANKS)))
    return Text(text=_around(draw, tokens.next("TEXT")))


def _reasoning(draw: st.DrawFn, tokens: _Tokens) -> Reasoning:
    thought = draw(st.sampled_from(["", _around(draw, tokens.next("THOUGHT"))]))
    return Reasoning(
        reasoning=thought,
        signature=draw(st.sampled_from(SIGNATURES)),
        redacted=draw(st.sampled_from([None] * 4 + ["b3BhcXVl"])),
        encrypted=draw(st.sampled_from([None] * 6 + ["ZW5j"])),
        provider=draw(st.sampled_from([None, None, *PROVIDERS])),
        model=draw(st.sampled_from([None, None, *MODELS])),
    )


def _input(draw: st.DrawFn, tokens: _Tokens) -> ToolInput:
    token = tokens.next("ARG")
    spelled = json.dumps(_around(draw, token))
    return draw(
        st.sampled_from(
            [
                ObjectInput(json=JsonText(f'{{"k":{spelled}}}')),
                ObjectInput(json=JsonText(f'{{ "n": 1.10, "big": {10**40}, "k" : {spelled} }}')),
                ObjectInput(json=JsonText("{}")),
                InvalidInput(text=""),
                InvalidInput(text=f'{{"k": "{token}'),
                InvalidInput(text=f'["{token}"]'),
                InvalidInput(text=f'{{"k":{spelled}}}'),
                InvalidInput(text=f'{{"k":{spelled},"k":1}}'),
                InvalidInput(text="NaN"),
            ]
        )
    )


def _tool_use(draw: st.DrawFn, tokens: _Tokens) -> ToolUse:
    return ToolUse(id=draw(st.sampled_from(CALL_IDS)), name=draw(st.sampled_from(NAMES)), input=_input(draw, tokens))


def _image(draw: st.DrawFn) -> Image:
    return Image(source=draw(st.sampled_from(IMAGES)))


def _tool_result(draw: st.DrawFn, tokens: _Tokens) -> ToolResult:
    output: str | tuple[Text | Image, ...]
    match draw(st.integers(0, 5)):
        case 0:
            output = draw(st.sampled_from(BLANKS))
        case 1 | 2:
            parts = st.sampled_from(["text", "blank", "image"])
            output = tuple(_output_block(draw, kind, tokens) for kind in draw(st.lists(parts, max_size=3)))
        case _:
            output = _around(draw, tokens.next("OUT"))
    return ToolResult(
        tool_use_id=draw(st.sampled_from(CALL_IDS)),
        tool_name=draw(st.sampled_from([None, *NAMES])),
        output=output,
        is_error=draw(st.booleans()),
    )


def _output_block(draw: st.DrawFn, kind: str, tokens: _Tokens) -> Text | Image:
    match kind:
        case "text":
            return Text(text=_around(draw, tokens.next("OUT")))
        case "blank":
            return Text(text=draw(st.sampled_from(BLANKS)))
        case _:
            return _image(draw)


KINDS: dict[Role, list[str]] = {
    Role.USER: ["text"] * 5 + ["image", "result", "result", "call", "reasoning"],
    Role.ASSISTANT: ["text"] * 3 + ["reasoning"] * 2 + ["call"] * 5 + ["image", "result"],
    Role.TOOL: ["result"] * 7 + ["text", "image", "call"],
    Role.SYSTEM: ["text"] * 6 + ["image", "result", "call", "reasoning"],
}
ROLES = [Role.USER] * 3 + [Role.ASSISTANT] * 5 + [Role.TOOL] * 6 + [Role.SYSTEM]


def _message(draw: st.DrawFn, tokens: _Tokens, results: list[ToolResult]) -> Message:
    role = draw(st.sampled_from(ROLES))
    blocks: list[Block] = []
    for kind in draw(st.lists(st.sampled_from(KINDS[role]), max_size=4)):
        match kind:
            case "text":
                blocks.append(_text(draw, tokens))
            case "reasoning":
                blocks.append(_reasoning(draw, tokens))
            case "call":
                blocks.append(_tool_use(draw, tokens))
            case "image":
                blocks.append(_image(draw))
            case _:
                again = results and draw(st.integers(0, 7)) == 0
                result = draw(st.sampled_from(results)) if again else _tool_result(draw, tokens)
                results.append(result)
                blocks.append(result)
    return Message(
        role=role,
        blocks=tuple(blocks),
        provider=draw(st.sampled_from(PROVIDERS)),
        model=draw(st.sampled_from(MODELS)),
    )


@st.composite
def records(draw: st.DrawFn, max_size: int = 12) -> tuple[StoredMessage, ...]:
    """A hostile record. Results are sometimes recorded twice, word for word."""
    tokens, results = _Tokens(), list[ToolResult]()
    size = draw(st.integers(0, max_size))
    return stored([_message(draw, tokens, results) for _ in range(size)])


@st.composite
def marks_on(draw: st.DrawFn, record: tuple[StoredMessage, ...]) -> tuple[Mark, ...]:
    """Marks as a store holds them, and as only a hostile writer would make them: refs to nothing, cuts anywhere."""
    places = [
        BlockRef(message_id=one.id, block=index) for one in record for index in range(len(one.message.blocks) + 1)
    ]
    made: list[Mark] = []
    for number in range(draw(st.integers(0, 3))):
        mark_id = MarkId(f"mark_{number}")
        head = Seq(len(record))
        match draw(st.integers(0, 3)):
            case 0 if made:
                earlier = draw(st.sampled_from(made)).id
                made.append(Restored(id=mark_id, at_seq=head, recorded_at="", writer=WRITER, mark=earlier))
            case 1:
                summary = draw(
                    st.sampled_from([(), (Text(text="SUMMARY"),), (Text(text=" "), Reasoning(reasoning="r"))])
                )
                through = Seq(draw(st.integers(0, len(record))))
                made.append(
                    Compacted(
                        id=mark_id,
                        at_seq=head,
                        recorded_at="",
                        writer=WRITER,
                        through_seq=through,
                        summary=summary,
                    )
                )
            case _:
                refs = tuple(draw(st.lists(st.sampled_from(places), max_size=4))) if places else ()
                made.append(Cleared(id=mark_id, at_seq=head, recorded_at="", writer=WRITER, cleared=refs))
    return tuple(made)


capabilities = st.builds(
    Capabilities,
    vision=st.booleans(),
    thinking=st.booleans(),
    mid_system=st.sampled_from([False, False, True]),
    reasoning=st.none() | st.sampled_from(ReasoningCapability),
)


@st.composite
def cases(draw: st.DrawFn, *, marked: bool = True, max_size: int = 12) -> Case:
    """A record with everything that decides how it is projected."""
    record = draw(records(max_size))
    return Case(
        record=record,
        marks=draw(marks_on(record)) if marked and draw(st.booleans()) else (),
        capabilities=draw(capabilities),
        provider=draw(st.sampled_from(PROVIDERS)),
        model=draw(st.sampled_from(MODELS)),
        live_after=draw(st.none() | st.integers(0, len(record)).map(Seq)),
    )
