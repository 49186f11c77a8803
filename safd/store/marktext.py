"""A mark's stored text: one JSON object, chained like messages are, with a chain of its own per conversation."""

import hashlib
from typing import assert_never, cast

from safd.model import codec, spans
from safd.model.errors import FieldMissing, FieldType, ValueNotAllowed
from safd.model.ids import ConversationId, MarkId, MessageId, Seq, Uid
from safd.model.marks import BlockRef, Cleared, Compacted, Mark, Restored
from safd.model.messages import Writer
from safd.model.principals import Posture
from safd.model.spans import JsonObject, Span

KINDS = ("cleared", "restored", "compacted")


def genesis(conversation: ConversationId) -> str:
    """What stands before the first mark; never equal to what stands before the first message."""
    return hashlib.sha256(f"{conversation}/marks".encode()).hexdigest()


def render(mark: Mark, prev_hash: str) -> bytes:
    kind, body = _body(mark)
    head: JsonObject = {
        "kind": kind,
        "id": mark.id,
        "at_seq": mark.at_seq,
        "recorded_at": mark.recorded_at,
        "writer": {"uid": mark.writer.uid, "agent": mark.writer.agent, "posture": mark.writer.posture.value},
        "prev_hash": prev_hash,
    }
    return codec.dump(head | body)


def parse(text: bytes) -> Mark:
    """Raises Malformed where the text is not one that `render` wrote."""
    span = spans.whole(spans.decode_utf8(text, ""))
    found = spans.members(span)
    writer = spans.members(_member(span, found, "writer"))
    id_ = MarkId(_str(span, found, "id"))
    at_seq = Seq(_int(span, found, "at_seq"))
    recorded_at = _str(span, found, "recorded_at")
    who = Writer(
        uid=Uid(_int(span, writer, "uid")),
        agent=cast("str | None", spans.value(_member(span, writer, "agent"))),
        posture=Posture(_str(span, writer, "posture")),
    )
    kind = _str(span, found, "kind")
    match kind:
        case "cleared":
            refs = tuple(map(_ref, spans.elements(_member(span, found, "cleared"))))
            return Cleared(id=id_, at_seq=at_seq, recorded_at=recorded_at, writer=who, cleared=refs)
        case "restored":
            mark = MarkId(_str(span, found, "mark"))
            return Restored(id=id_, at_seq=at_seq, recorded_at=recorded_at, writer=who, mark=mark)
        case "compacted":
            return Compacted(
                id=id_,
                at_seq=at_seq,
                recorded_at=recorded_at,
                writer=who,
                through_seq=Seq(_int(span, found, "through_seq")),
                summary=codec.parse_blocks(_member(span, found, "summary")),
            )
        case _:
            raise ValueNotAllowed(path="kind", expected=f"one of {', '.join(KINDS)}", seen=repr(kind[:80]))


def prev_hash(text: bytes) -> str:
    """The hash that a text which `parse` took names as the one before it. Raises Malformed."""
    span = spans.trusted(text.decode("utf-8"))
    return _str(span, spans.members(span), "prev_hash")


def _body(mark: Mark) -> tuple[str, JsonObject]:
    match mark:
        case Cleared():
            refs = [{"message_id": ref.message_id, "block": ref.block} for ref in mark.cleared]
            return "cleared", {"cleared": cast("spans.JsonValue", refs)}
        case Restored():
            return "restored", {"mark": mark.mark}
        case Compacted():
            return "compacted", {
                "through_seq": mark.through_seq,
                "summary": [codec.block_json(block) for block in mark.summary],
            }
        case _ as never:
            assert_never(never)


def _ref(span: Span) -> BlockRef:
    found = spans.members(span)
    return BlockRef(message_id=MessageId(_str(span, found, "message_id")), block=_int(span, found, "block"))


def _member(span: Span, found: dict[str, Span], name: str) -> Span:
    if name not in found:
        raise FieldMissing(path=spans.join(span.path, name))
    return found[name]


def _str(span: Span, found: dict[str, Span], name: str) -> str:
    one = _member(span, found, name)
    value = spans.value(one)
    if not isinstance(value, str):
        raise FieldType(path=one.path, expected="a string", seen=spans.kind_of(one))
    return value


def _int(span: Span, found: dict[str, Span], name: str) -> int:
    one = _member(span, found, name)
    value = spans.value(one)
    if type(value) is not int:
        raise FieldType(path=one.path, expected="a whole number", seen=spans.kind_of(one))
    return value
