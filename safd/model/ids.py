"""Names of things: typed, prefixed, minted from a time and random bytes that the caller gives.

An id is `<prefix>_` and a UUIDv7 (RFC 9562, section 5.7) in its 36-character text form.
"""

import re
from typing import NewType

from safd.model.errors import IdMalformed

ConversationId = NewType("ConversationId", str)
MessageId = NewType("MessageId", str)
MarkId = NewType("MarkId", str)
TurnId = NewType("TurnId", str)
Seq = NewType("Seq", int)
Uid = NewType("Uid", int)
Gid = NewType("Gid", int)
Pid = NewType("Pid", int)

CONVERSATION = "conv"
MESSAGE = "msg"
MARK = "mark"
TURN = "turn"

RANDOM_BYTES = 10
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


def mint(prefix: str, unix_ms: int, random: bytes) -> str:
    """One new id: 48 bits of milliseconds, then version, variant and 74 of the 80 random bits given."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"mint takes {RANDOM_BYTES} random bytes, got {len(random)}")
    text = (unix_ms.to_bytes(6, "big") + random).hex()
    variant = "89ab"[random[2] >> 4 & 3]
    return f"{prefix}_{text[:8]}-{text[8:12]}-7{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def _checked(prefix: str, text: str, path: str) -> str:
    head, _, tail = text.partition("_")
    if head != prefix or _UUID7.match(tail) is None:
        raise IdMalformed(path=path, expected=prefix, seen=text[:80])
    return text


def parse_conversation_id(text: str, path: str = "conversation") -> ConversationId:
    return ConversationId(_checked(CONVERSATION, text, path))


def parse_message_id(text: str, path: str = "message_id") -> MessageId:
    return MessageId(_checked(MESSAGE, text, path))


def parse_mark_id(text: str, path: str = "mark") -> MarkId:
    return MarkId(_checked(MARK, text, path))


def parse_turn_id(text: str, path: str = "turn") -> TurnId:
    return TurnId(_checked(TURN, text, path))
