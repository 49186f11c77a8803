"""The door: every wrong shape is refused with its path, exact texts pass through, results keep what was stored."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.api import params, results
from safd.api.door import Given, Word, render, render_pieces, structure
from safd.api.methods import METHODS
from safd.model import errors, spans
from safd.model.blocks import JsonText, ObjectInput, Text, ToolUse
from safd.model.conversations import Conversation, Owner
from safd.model.ids import ConversationId, MarkId, Seq, Uid
from safd.model.marks import BlockRef, Cleared, Compacted, Mark, Restored
from safd.model.messages import Writer
from safd.model.principals import Posture
from safd.model.projections import Capabilities, ReasoningCapability, StablePrefix, Target

HERE = "conv_01890000-0000-7000-8000-000000000000"
WRITER = Writer(uid=Uid(7), agent=None, posture=Posture.RESIDENT)


def read(cls: type[Any], text: str, **words: str) -> Any:
    return structure(cls, Given(spans.whole(text), tuple(Word(value, key) for key, value in words.items())))


def test_a_replay_with_everything() -> None:
    """Nested values, choices, a list of strings and words from the path meet in one value."""
    text = """{"target": "anthropic", "capabilities": {"vision": true, "reasoning": "field", "thinking": null},
        "system": ["a", "b"], "since": {"messages": 3, "sha256": "x"}, "model": null}"""
    assert read(params.Replay, text, conversation=HERE) == params.Replay(
        conversation=ConversationId(HERE),
        target=Target.ANTHROPIC,
        capabilities=Capabilities(vision=True, reasoning=ReasoningCapability.FIELD),
        system=("a", "b"),
        since=StablePrefix(messages=3, sha256="x"),
    )
    assert read(params.Replay, '{"target":"anthropic","system":"one"}', conversation=HERE).system == "one"


def test_offered_texts_are_exact() -> None:
    """A message is taken character by character, with its spaces, digits and key order."""
    texts = ['{ "role":"user", "metadata":{"b":1.10,"a":12345678901234567890123} }', '{"x":"\\ud800"}']
    found = read(params.Append, f'{{"messages": [{texts[0]} , {texts[1]}]}}', conversation=HERE)
    assert found.messages == tuple(texts)
    assert read(params.Create, '{"metadata": { "x" : 1.10 }}').metadata == '{ "x" : 1.10 }'


def test_words_are_read_by_the_type_they_stand_for() -> None:
    """What came in a URL is as strict as JSON, in its own spelling."""
    found = structure(
        params.Messages, Given(None, (Word(HERE, "conversation"), Word("5", "limit"), Word("desc", "order")))
    )
    assert found == params.Messages(conversation=ConversationId(HERE), limit=5, order=params.Order.DESC)
    assert structure(params.ListConversations, Given(None, (Word("true", "archived"),))).archived is True


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_parameter_class_can_be_read(method: Any) -> None:
    """No parameter has a type that the door does not know: a number fits a number and offends everything else."""
    for field in attrs.fields(method.params):
        with pytest.raises(errors.Malformed) as caught:
            read(method.params, f'{{"{field.name}": [[3]]}}')
        assert not isinstance(caught.value, errors.FieldUnknown)


@pytest.mark.parametrize(
    ("cls", "text", "cause", "path"),
    [
        (params.Messages, "{}", errors.FieldMissing, "conversation"),
        (params.Messages, '{"conversation": 3}', errors.FieldType, "conversation"),
        (params.Messages, '{"conversation": "conv_1"}', errors.IdMalformed, "conversation"),
        (params.Messages, '{"conversation": null}', errors.FieldType, "conversation"),
        (params.Messages, '{"limit": 1.5}', errors.FieldType, "limit"),
        (params.Messages, '{"limit": true}', errors.FieldType, "limit"),
        (params.Messages, '{"limit": "5"}', errors.FieldType, "limit"),
        (params.Messages, '{"limit": -1}', errors.ValueNotAllowed, "limit"),
        (params.Messages, f'{{"limit": 1{"0" * 5000}}}', errors.ValueNotAllowed, "limit"),
        (params.Messages, '{"order": "up"}', errors.ValueNotAllowed, "order"),
        (params.Messages, '{"extra": 1}', errors.FieldUnknown, "extra"),
        (params.Replay, '{"capabilities": {"vision": 1}}', errors.FieldType, "capabilities.vision"),
        (params.Replay, '{"capabilities": {"sight": true}}', errors.FieldUnknown, "capabilities.sight"),
        (params.Replay, '{"capabilities": {"reasoning": "x"}}', errors.ValueNotAllowed, "capabilities.reasoning"),
        (params.Replay, '{"since": {"messages": 1}}', errors.FieldMissing, "since.sha256"),
        (params.Replay, '{"system": 4}', errors.FieldType, "system"),
        (params.Replay, '{"system": ["a", 4]}', errors.FieldType, "system[1]"),
        (params.Append, '{"messages": {}}', errors.FieldType, "messages"),
        (params.Create, '{"metadata": []}', errors.FieldType, "metadata"),
        (params.Create, '{"title": "\\ud800"}', errors.ValueNotAllowed, "title"),
        (params.Compact, '{"summary": [{"type": "text", "text": 5}]}', errors.FieldType, "summary[0].text"),
        (params.Compact, '{"summary": [{"type": "verse"}]}', errors.BlockTypeUnknown, "summary[0].type"),
        (params.Observe, "[]", errors.FieldType, "The value"),
    ],
)
def test_wrong_shapes_are_named(cls: type[Any], text: str, cause: type[errors.SafError], path: str) -> None:
    """Each wrong shape has its own cause, and the path of the value at fault."""
    with pytest.raises(cause) as caught:
        read(cls, text)
    assert getattr(caught.value, "path", None) == path


@pytest.mark.parametrize(
    ("name", "word", "cause"),
    [
        ("limit", "five", errors.FieldType),
        ("limit", "\u0665", errors.FieldType),
        ("limit", "", errors.FieldType),
        ("limit", "9" * 18, errors.ValueNotAllowed),
        ("limit", "-1", errors.ValueNotAllowed),
        ("order", "up", errors.ValueNotAllowed),
        ("conversation", "x", errors.IdMalformed),
        ("unheard", "x", errors.FieldUnknown),
    ],
)
def test_wrong_words_are_named(name: str, word: str, cause: type[errors.SafError]) -> None:
    """A word in a URL that does not fit is refused by its name."""
    with pytest.raises(cause) as caught:
        structure(params.Messages, Given(None, (Word(word, name),)))
    assert getattr(caught.value, "path", None) == name


def test_nested_values_do_not_come_in_a_url() -> None:
    """What is no plain value has to be in the body."""
    with pytest.raises(errors.FieldType, match="JSON body"):
        structure(params.Replay, Given(None, (Word("{}", "capabilities"),)))
    with pytest.raises(errors.FieldType, match="JSON body"):
        structure(params.Append, Given(None, (Word("[]", "messages"),)))


def test_a_parameter_is_given_once() -> None:
    """The same parameter in the path and in the body is refused, not chosen from."""
    with pytest.raises(errors.KeyDuplicate):
        read(params.OneConversation, f'{{"conversation":"{HERE}"}}', conversation=HERE)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(METHODS),
)
def test_anything_is_structured_or_refused(value: Any, method: Any) -> None:
    """Whatever JSON stands where parameters are due: a value of the class, or a Malformed cause."""
    text = json.dumps({field.name: value for field in attrs.fields(method.params)})
    try:
        found = read(method.params, text)
    except errors.Malformed:
        return
    assert isinstance(found, method.params)


# --- results


def page(*texts: bytes) -> results.Messages:
    return results.Messages(
        data=tuple(map(results.RawJson, texts)), first_id=None, last_id=None, has_more=False, head_seq=Seq(3)
    )


def test_stored_texts_are_not_copied() -> None:
    """A page is rendered as pieces in which each stored text is the very object that was read."""
    texts = [b'{"price": 1.10}', b'{"seq":2}']
    pieces = render_pieces(page(*texts))
    assert [piece for piece in pieces if any(piece is text for text in texts)] == texts
    assert (
        b"".join(pieces)
        == b'{"data":[{"price": 1.10},{"seq":2}],"first_id":null,"last_id":null,"has_more":false,"head_seq":3}'
    )


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_page_of_any_length_is_json(count: int) -> None:
    """No comma too many, none too few."""
    assert json.loads(render(page(*[b"{}"] * count)))["data"] == [{}] * count


def test_a_payload_in_pieces() -> None:
    """A spliced value stands as its pieces, whatever comes before and after it."""
    assert render(results.Described(document=results.RawJson(b"[1.10]"))) == b'{"document":[1.10]}'


def test_metadata_is_spliced() -> None:
    """What a caller wrote as metadata comes back digit by digit, inside a list of conversations too."""
    one = Conversation(
        id=ConversationId(HERE),
        agent=None,
        owner=Owner(uid=Uid(3), account="casey"),
        title=None,
        metadata=JsonText('{"z": 1.10}'),
        head_seq=Seq(0),
        created_at="",
        updated_at="",
        archived_at=None,
        turn=None,
    )
    assert b'"metadata":{"z": 1.10}' in render(results.OneConversation(conversation=one))
    assert b'"metadata":{"z": 1.10}' in render(results.Conversations(data=(one,), has_more=True))


@pytest.mark.parametrize(
    ("mark", "tag", "member"),
    [
        (
            Cleared(
                id=MarkId("m"),
                at_seq=Seq(1),
                recorded_at="",
                writer=WRITER,
                cleared=(BlockRef(message_id="x", block=0),),
            ),
            "cleared",
            [{"message_id": "x", "block": 0}],
        ),
        (Restored(id=MarkId("m"), at_seq=Seq(1), recorded_at="", writer=WRITER, mark=MarkId("n")), "restored", "n"),
        (
            Compacted(
                id=MarkId("m"),
                at_seq=Seq(1),
                recorded_at="",
                writer=WRITER,
                through_seq=Seq(1),
                summary=(
                    Text(text="\ud800"),
                    ToolUse(id="a", name="b", input=ObjectInput(json=JsonText('{"x": 1.10}'))),
                ),
            ),
            "compacted",
            1,
        ),
    ],
)
def test_marks_say_their_kind(mark: Mark, tag: str, member: object) -> None:
    """A mark is told apart by `type`; its blocks are rendered as blocks, even where UTF-8 cannot hold a text."""
    text = render(results.OneMark(mark=mark))
    found = json.loads(text)["mark"]
    assert found["type"] == tag
    assert member in found.values()
    if tag == "compacted":
        assert b'"input":{"x": 1.10}' in text
        assert found["summary"][0] == {"type": "text", "text": "\ud800"}
