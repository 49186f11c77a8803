"""Live events, as they cross the wire: a name, the data, and for what is stored its seq.

| name | data | seq |
| --- | --- | --- |
| one of MESSAGE_EVENTS | the stored message, as hydrated (`{"seq", "damaged"}` where unreadable) | its seq |
| `turn` | `{"turn": Turn}` | none |
| `mark` | `{"mark": Mark}` | none |
| `gap` | `{"after": seq}`: the reader was too slow for what has no seq; stored events continue after it | none |
"""

import attrs
import msgspec

from safd.model import spans

MESSAGE_EVENTS = (
    "user_message",
    "assistant_message",
    "reasoning_message",
    "tool_call_message",
    "tool_return_message",
    "system_message",
    "damaged_message",
)
TURN = "turn"
MARK = "mark"
GAP = "gap"


@attrs.frozen
class LiveEvent:
    """`data` is a JSON object on one line."""

    name: str
    seq: int | None
    data: bytes


class _BlockHead(msgspec.Struct):
    type: str


class _MessageHead(msgspec.Struct):
    role: str
    blocks: list[_BlockHead]


_heads = msgspec.json.Decoder(_MessageHead)


def message_event_name(stored: bytes) -> str:
    """The event's name for a stored (or offered) message text: that of its main content.

    A tool result names the event before anything else; in an assistant message a call comes before text, and
    text before reasoning.
    """
    role, kinds = _main_content(stored)
    if "tool_result" in kinds:
        return "tool_return_message"
    match role:
        case "assistant" if "tool_use" in kinds:
            return "tool_call_message"
        case "assistant" if kinds == {"reasoning"}:
            return "reasoning_message"
        case "assistant":
            return "assistant_message"
        case "system":
            return "system_message"
        case "tool":
            return "tool_return_message"
        case _:
            return "user_message"


def _main_content(stored: bytes) -> tuple[str, set[str]]:
    try:
        head = _heads.decode(stored)
    except msgspec.DecodeError:
        # msgspec refuses escaped lone surrogates, which a record may hold
        found = spans.members(spans.whole(stored.decode("utf-8")))
        blocks = spans.elements(found["blocks"])
        return str(spans.value(found["role"])), {str(spans.value(spans.members(one)["type"])) for one in blocks}
    return head.role, {block.type for block in head.blocks}
