"""The record's door: strict to every field, and what types are rendered to reads back as the same types."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.model import codec, spans
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
    ToolResult,
    ToolUse,
)
from safd.model.errors import (
    BlockTypeUnknown,
    FieldMissing,
    FieldReserved,
    FieldType,
    FieldUnknown,
    KeyDuplicate,
    Malformed,
    PrincipalInRecord,
    ValueNotAllowed,
)
from safd.model.ids import MessageId, Seq, Uid
from safd.model.messages import Message, Role, StoredMessage, Writer
from safd.model.principals import BLOCK_OPENING, Posture
from tests.messages import messages, strings

WRITER = Writer(uid=Uid(1001), agent="annie", posture=Posture.RESIDENT)
STORED_HEAD = (
    '{"id":"msg_1","seq":1,"recorded_at":"2026-12-01T10:00:00.123Z",'
    '"writer":{"uid":1001,"agent":null,"posture":"resident"},"prev_hash":"00",'
)


def parse(text: str) -> Message:
    return codec.parse_message(spans.whole(text, "messages[0]"))


def offered(block: str) -> str:
    return f'{{"role": "assistant", "blocks": [{block}]}}'


# --- round trips


@given(messages)
def test_rendered_messages_parse_back(message: Message) -> None:
    """Render, then parse, is the identity: lone surrogates, NUL, huge integers and opaque texts included."""
    if message.role is Role.SYSTEM and any(isinstance(b, Text) and BLOCK_OPENING in b.text for b in message.blocks):
        return
    assert codec.parse_message(spans.whole(codec.render_message(message).decode())) == message


@given(messages, strings)
def test_stored_text_keeps_the_offer(message: Message, agent: str) -> None:
    """The stored text is the daemon's fields, then the offered text byte for byte; parsed, it is the same message."""
    text = codec.render_message(message).decode()
    writer = Writer(uid=Uid(7), agent=agent.encode("utf-8", "replace").decode(), posture=Posture.BORROWED)
    id_ = MessageId("msg_x")
    stored = codec.render_stored(
        id_=id_, seq=Seq(3), recorded_at="2026-12-01T10:00:00.123Z", writer=writer, prev_hash="ab", offered=text
    )
    assert stored.decode().endswith("," + text[1:])
    assert codec.parse_stored(spans.whole(stored.decode())) == StoredMessage(
        id=id_, seq=Seq(3), recorded_at="2026-12-01T10:00:00.123Z", writer=writer, prev_hash="ab", message=message
    )


def test_offers_are_kept_as_they_were_spelled() -> None:
    """Spacing, escapes, trailing zeros, huge integers and opaque key order cross unchanged into the stored text."""
    text = (
        '{ "role":"user",\n "blocks":[{"text":"\\u0041\\ud800 é","type":"text"},'
        '{"type":"tool_use","id":"0","name":"f","input":{"z":1.10,"a":123456789012345678901234567890, "e":1E5}}],'
        '"metadata":{"b":1.0,"a":"\\/"} }'
    )
    span = spans.whole(text)
    message = codec.parse_message(span)
    stored = codec.render_stored(
        id_=MessageId("msg_1"), seq=Seq(1), recorded_at="x", writer=WRITER, prev_hash="", offered=str(span)
    )
    assert stored.decode().endswith(text[1:])
    assert message.metadata == '{"b":1.0,"a":"\\/"}'
    assert message.blocks == (
        Text(text="A\ud800 é"),
        ToolUse(
            id="0",
            name="f",
            input=ObjectInput(json=JsonText('{"z":1.10,"a":123456789012345678901234567890, "e":1E5}')),
        ),
    )


EVERY_KIND: tuple[Block, ...] = (
    Text(text="t"),
    Reasoning(reasoning="r", signature="s", redacted="d", encrypted="e", provider="p", model="m"),
    ToolUse(id="1", name="n", input=InvalidInput(text="{broken"), signature="s"),
    ToolResult(
        tool_use_id="1",
        tool_name="n",
        output=(Text(text="t"), Image(source=ImageUrl(url="u", media_type="image/png"))),
        is_error=True,
    ),
    Image(source=ImageData(media_type="image/png", data="AA==")),
)


def test_every_block_kind_has_its_fields_listed() -> None:
    """Each kind of the union is rendered with a type that the door knows, and with no field that it does not."""
    assert {type(block) for block in EVERY_KIND} == set(get_args(Block))
    assert {str(codec.block_json(block)["type"]) for block in EVERY_KIND} == set(codec.BLOCK_FIELDS)
    for block in EVERY_KIND:
        written = codec.block_json(block)
        assert set(written) <= set(codec.BLOCK_FIELDS[str(written["type"])])
        assert codec.parse_block(spans.whole(codec.dump(written).decode())) == block


# --- strictness, with the path


@pytest.mark.parametrize(
    ("text", "error", "path"),
    [
        # the message
        ("[]", FieldType, ""),
        ("{}", FieldMissing, ".role"),
        ('{"role": "user"}', FieldMissing, ".blocks"),
        ('{"blocks": []}', FieldMissing, ".role"),
        ('{"role": "robot", "blocks": []}', ValueNotAllowed, ".role"),
        ('{"role": 1, "blocks": []}', FieldType, ".role"),
        ('{"role": null, "blocks": []}', FieldType, ".role"),
        ('{"role": "user", "blocks": {}}', FieldType, ".blocks"),
        ('{"role": "user", "blocks": "text"}', FieldType, ".blocks"),
        ('{"role": "user", "blocks": [], "content": "x"}', FieldUnknown, ".content"),
        ('{"role": "user", "blocks": [], "metadata": []}', FieldType, ".metadata"),
        ('{"role": "user", "blocks": [], "metadata": "{}"}', FieldType, ".metadata"),
        ('{"role": "user", "blocks": [], "model": 4}', FieldType, ".model"),
        ('{"role": "user", "blocks": [], "provider": true}', FieldType, ".provider"),
        ('{"role": "user", "blocks": [], "timestamp": {}}', FieldType, ".timestamp"),
        ('{"role": "user", "blocks": [], "timestamp": true}', FieldType, ".timestamp"),
        (f'{{"role": "user", "blocks": [], "timestamp": {"9" * 81}}}', ValueNotAllowed, ".timestamp"),
        ('{"role": "user", "blocks": [], "usage": []}', FieldType, ".usage"),
        ('{"role": "user", "blocks": [], "usage": {"tokens": 1}}', FieldUnknown, ".usage.tokens"),
        ('{"role": "user", "blocks": [], "usage": {"input_tokens": 1.0}}', FieldType, ".usage.input_tokens"),
        ('{"role": "user", "blocks": [], "usage": {"input_tokens": true}}', FieldType, ".usage.input_tokens"),
        ('{"role": "user", "blocks": [], "usage": {"input_tokens": "1"}}', FieldType, ".usage.input_tokens"),
        ('{"role": "user", "blocks": [], "usage": {"input_tokens": -1}}', ValueNotAllowed, ".usage.input_tokens"),
        (
            f'{{"role": "user", "blocks": [], "usage": {{"output_tokens": {10**12 + 1}}}}}',
            ValueNotAllowed,
            ".usage.output_tokens",
        ),
        (
            f'{{"role": "user", "blocks": [], "usage": {{"output_tokens": {"9" * 5000}}}}}',
            ValueNotAllowed,
            ".usage.output_tokens",
        ),
        ('{"role": "user", "role": "user", "blocks": []}', KeyDuplicate, ""),
        # what the daemon sets
        *[
            (f'{{"role": "user", "blocks": [], "{name}": null}}', FieldReserved, f".{name}")
            for name in codec.DAEMON_FIELDS
        ],
        # the blocks
        (offered("1"), FieldType, ".blocks[0]"),
        (offered("{}"), FieldMissing, ".blocks[0].type"),
        (offered('{"type": "video"}'), BlockTypeUnknown, ".blocks[0].type"),
        (offered('{"type": "Text", "text": ""}'), BlockTypeUnknown, ".blocks[0].type"),
        (offered('{"type": null}'), FieldType, ".blocks[0].type"),
        (offered('{"type": "text"}'), FieldMissing, ".blocks[0].text"),
        (offered('{"type": "text", "text": 1}'), FieldType, ".blocks[0].text"),
        (offered('{"type": "text", "text": null}'), FieldType, ".blocks[0].text"),
        (offered('{"type": "text", "text": "", "id": "x"}'), FieldUnknown, ".blocks[0].id"),
        (offered('{"type": "text", "text": "a", "text": "b"}'), KeyDuplicate, ".blocks[0]"),
        (offered('{"type": "text", "text": ""}, {"type": "reasoning"}'), FieldMissing, ".blocks[1].reasoning"),
        (offered('{"type": "reasoning", "reasoning": "", "signature": 1}'), FieldType, ".blocks[0].signature"),
        (offered('{"type": "tool_use", "id": 0, "name": "f", "input": {}}'), FieldType, ".blocks[0].id"),
        (offered('{"type": "tool_use", "id": "0", "name": "f"}'), FieldMissing, ".blocks[0].input"),
        (offered('{"type": "tool_use", "id": "0", "name": "f", "input": []}'), FieldType, ".blocks[0].input"),
        (offered('{"type": "tool_use", "id": "0", "name": "f", "input": null}'), FieldType, ".blocks[0].input"),
        (
            offered('{"type": "tool_use", "id": "0", "name": "f", "input": {"a": {"b": 1, "b": 2}}}'),
            KeyDuplicate,
            ".blocks[0].input.a",
        ),
        (offered('{"type": "tool_result", "output": ""}'), FieldMissing, ".blocks[0].tool_use_id"),
        (offered('{"type": "tool_result", "tool_use_id": "0"}'), FieldMissing, ".blocks[0].output"),
        (offered('{"type": "tool_result", "tool_use_id": "0", "output": {}}'), FieldType, ".blocks[0].output"),
        (offered('{"type": "tool_result", "tool_use_id": "0", "output": null}'), FieldType, ".blocks[0].output"),
        (
            offered('{"type": "tool_result", "tool_use_id": "0", "output": "", "is_error": "no"}'),
            FieldType,
            ".blocks[0].is_error",
        ),
        (
            offered('{"type": "tool_result", "tool_use_id": "0", "output": "", "is_error": 0}'),
            FieldType,
            ".blocks[0].is_error",
        ),
        (
            offered('{"type": "tool_result", "tool_use_id": "0", "output": [{"type": "tool_use"}]}'),
            BlockTypeUnknown,
            ".blocks[0].output[0].type",
        ),
        (
            offered('{"type": "tool_result", "tool_use_id": "0", "output": [{"type": "text", "text": ""}, 1]}'),
            FieldType,
            ".blocks[0].output[1]",
        ),
        (offered('{"type": "image"}'), FieldMissing, ".blocks[0].data or messages[0].blocks[0].url"),
        (offered('{"type": "image", "data": ""}'), FieldMissing, ".blocks[0].media_type"),
        (offered('{"type": "image", "data": "", "media_type": "", "url": ""}'), ValueNotAllowed, ".blocks[0]"),
        (offered('{"type": "image", "url": 1}'), FieldType, ".blocks[0].url"),
    ],
)
def test_refusal_names_its_path(text: str, error: type[Malformed], path: str) -> None:
    """Nothing unknown, mistyped, missing or doubled passes, and the refusal says where it stands."""
    with pytest.raises(error) as caught:
        parse(text)
    assert caught.value.path == f"messages[0]{path}"  # type: ignore[attr-defined]


@given(st.sampled_from(["text", "reasoning", "tool_use", "tool_result", "image"]), strings, strings)
def test_no_unknown_field_passes(kind: str, name: str, value: str) -> None:
    """A field that a block kind does not have is refused, whatever it is called and whatever it holds."""
    if name in codec.BLOCK_FIELDS[kind]:
        return
    with pytest.raises(FieldUnknown):
        codec.parse_block(spans.whole(json.dumps({"type": kind, name: value})))


def test_absent_and_null_are_the_same_for_what_is_optional() -> None:
    """A writer whose JSON library spells absent fields as null is understood."""
    spelled = '{"role": "user", "blocks": [], "usage": null, "model": null, "metadata": null, "timestamp": null}'
    assert parse(spelled) == parse('{"role": "user", "blocks": []}')


# --- authority is never recorded


@pytest.mark.parametrize(
    "spelled",
    [
        json.dumps(BLOCK_OPENING),
        json.dumps(f"before\n{BLOCK_OPENING}\nafter"),
        '"' + "".join(f"\\u{ord(c):04x}" for c in BLOCK_OPENING) + '"',
    ],
)
def test_principal_block_is_refused_in_system_messages(spelled: str) -> None:
    """A system message that carries a principal's block is refused, however its text is spelled."""
    with pytest.raises(PrincipalInRecord) as caught:
        parse('{"role": "system", "blocks": [{"type": "text", "text": ""}, {"type": "text", "text": ' + spelled + "}]}")
    assert caught.value.path == "messages[0].blocks[1].text"


@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT, Role.TOOL])
def test_other_roles_may_quote_it(role: Role) -> None:
    """What a person, a model or a tool says about such a block is speech, and kept."""
    block = json.dumps({"type": "text", "text": BLOCK_OPENING})
    assert parse(f'{{"role": "{role}", "blocks": [{block}]}}').blocks == (Text(text=BLOCK_OPENING),)


# --- stored texts


@pytest.mark.parametrize(
    ("old", "new", "error", "path"),
    [
        ('"seq":1', '"seq":"1"', FieldType, "seq"),
        ('"seq":1,', "", FieldMissing, "seq"),
        ('"posture":"resident"', '"posture":"king"', ValueNotAllowed, "writer.posture"),
        ('"uid":1001', '"uid":-1', ValueNotAllowed, "writer.uid"),
        ('"uid":1001', '"uid":1001,"gid":1', FieldUnknown, "writer.gid"),
        ('"prev_hash":"00"', '"prev_hash":null', FieldType, "prev_hash"),
        ('"role"', '"extra":1,"role"', FieldUnknown, "extra"),
    ],
)
def test_stored_text_is_read_strictly_too(old: str, new: str, error: type[Malformed], path: str) -> None:
    """A stored text that was changed into something else is named, not guessed at."""
    text = STORED_HEAD + '"role":"user","blocks":[]}'
    assert codec.parse_stored(spans.whole(text)).message == Message(role=Role.USER, blocks=())
    assert old in text
    with pytest.raises(error) as caught:
        codec.parse_stored(spans.whole(text.replace(old, new)))
    assert caught.value.path == path  # type: ignore[attr-defined]
