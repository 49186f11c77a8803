"""The kinds of odd content that transcripts have been seen with, each for every target.

Thoughts, texts, images, names and roles stand here; pairs and order in `test_broken_history`.
"""

import json
from typing import cast

import pytest

from safd.model.blocks import Block, Image, ImageUrl, Reasoning
from safd.model.messages import Message, StoredMessage
from safd.model.projections import Capabilities, PrefixBreak, Target
from safd.model.spans import JsonObject, JsonValue
from safd.replay import markers
from safd.replay.project import Projection
from tests import strategies
from tests.replay.given import (
    MODEL,
    PIXEL,
    PRINCIPAL,
    PROVIDER,
    Seen,
    assistant,
    call,
    history,
    image,
    project,
    result,
    system,
    thought,
    tool,
    user,
)

OPENAI, ANTHROPIC = Target.OPENAI_CHAT, Target.ANTHROPIC
TO = pytest.mark.parametrize("target", Target)
THINKING = Capabilities(vision=True, thinking=True)


def texts(value: JsonValue) -> list[str]:
    """Every text that the model reads, in order; names and ids are not texts."""
    match value:
        case {"role": _, "content": str() as content}:
            return [content] if content else []
        case {"role": _, "content": content}:
            return texts(content)
        case {"type": "text", "text": str() as text}:
            return [text]
        case {"type": "tool_result", "content": content}:
            return [content] if isinstance(content, str) else texts(content)
        case list():
            return [found for item in value for found in texts(item)]
        case _:
            return []


def told(seen: Seen) -> str:
    return "\n\n".join(texts(cast("list[JsonValue]", seen.messages)))


def blocks_of(message: JsonObject) -> list[dict[str, JsonValue]]:
    return cast("list[dict[str, JsonValue]]", message["content"])


# --- 7: thoughts


@pytest.mark.parametrize(
    ("block", "crosses"),
    [
        (thought("", "c2ln"), True),
        (thought("edited by nobody", ""), False),
        (thought("of another model", "c2ln", model="model-2"), False),
        (thought("of another provider", "c2ln", provider="other"), False),
        (thought("unsigned"), False),
        (thought("", redacted="b3Bh"), True),
        (thought("", redacted="b3Bh", model="model-2"), False),
        (Reasoning(reasoning="", encrypted="ZW5j"), False),
        (thought("broken in two \ud800", "c2ln"), False),
    ],
    ids=[
        "emptied, signature kept",
        "signature emptied",
        "other model",
        "other provider",
        "unsigned",
        "redacted",
        "redacted by another model",
        "encrypted for another wire",
        "not Unicode",
    ],
)
def test_thoughts_cross_whole_or_not_at_all(block: Reasoning, crosses: bool) -> None:
    """What this provider's model signed or closed goes back byte for byte; everything else stays in the record."""
    seen = project([user("Go."), assistant(block, "Speech."), user("Well?")], ANTHROPIC, THINKING)
    native: JsonValue = (
        {"type": "redacted_thinking", "data": block.redacted}
        if block.redacted
        else {"type": "thinking", "thinking": block.reasoning, "signature": block.signature}
    )
    speech: list[JsonValue] = [{"type": "text", "text": "Speech."}]
    assert seen.messages[1]["content"] == ([native, *speech] if crosses else speech)
    assert seen.repairs == ([] if crosses else [("reasoning_omitted", 2, 0)])
    chat = project([user("Go."), assistant(block, "Speech."), user("Well?")], OPENAI, THINKING)
    assert chat.messages[1] == {"role": "assistant", "content": "Speech."}
    assert chat.repairs == [("reasoning_omitted", 2, 0)]


def test_thoughts_keep_their_order() -> None:
    """Several thoughts of one message go back in the order in which they were made, between what they led to."""
    record = [
        user("Go."),
        assistant(thought("one", "c2lx"), "First.", thought("two", "c2ly"), call("call_1")),
        tool(result("call_1")),
    ]
    kinds = [block["type"] for block in blocks_of(project(record, ANTHROPIC, THINKING).messages[1])]
    assert kinds == ["thinking", "text", "thinking", "tool_use"]


@TO
def test_a_turn_of_thoughts_alone(target: Target) -> None:
    """Nothing is left of it to say, so nothing is said: no empty message, no invented word."""
    seen = project([user("Go."), assistant(thought("hm", "c2ln")), user("Well?")], target, THINKING)
    assert told(seen) == "Go.\n\nWell?"
    assert {message["role"] for message in seen.messages} == {"user"}
    assert seen.repairs == [("reasoning_omitted", 2, 0), ("message_empty", 2, None)]


def test_calls_without_the_thought_that_led_to_them() -> None:
    """With thinking on, a last turn of calls must begin with a thought; one cannot be made up, so it is reported."""
    record = [user("Go."), assistant(call("call_1"), model="model-2"), tool(result("call_1"))]
    assert project(record, ANTHROPIC, THINKING).repairs == [("reasoning_missing", 2, None)]
    assert project(record, ANTHROPIC).repairs == []


# --- 8: thoughts that an import made text


@TO
@pytest.mark.parametrize("flat", ["<think>hm</think>Yes.", "[Reasoning]: hm\n\nYes."])
def test_flattened_thoughts_stay_what_they_are(target: Target, flat: str) -> None:
    """The record says that it is text; what somebody wrote is not guessed at."""
    seen = project([user("Go."), assistant(flat), user("Well?")], target)
    assert flat in told(seen)
    assert seen.repairs == []


# --- 9: images


@TO
@pytest.mark.parametrize(
    ("given", "marker", "kind"),
    [
        (image(media_type="image/bmp"), markers.IMAGE_FORMAT, "image_unsupported"),
        (image(media_type="image/tiff"), markers.IMAGE_FORMAT, "image_unsupported"),
        (image(media_type="image/svg+xml"), markers.IMAGE_FORMAT, "image_unsupported"),
        (image(media_type="image/heic"), markers.IMAGE_FORMAT, "image_unsupported"),
        (image(data="not base64!"), markers.IMAGE_DAMAGED, "image_unsupported"),
        (image(data=PIXEL[:-3]), markers.IMAGE_DAMAGED, "image_unsupported"),
        (image(data=""), markers.IMAGE_DAMAGED, "image_unsupported"),
        (image(data=f"data:image/png;base64,{PIXEL}"), None, "image_unwrapped"),
        (image(data=f"{PIXEL[:8]}\n{PIXEL[8:]}"), None, "image_unwrapped"),
        (Image(source=ImageUrl(url="file:///home/casey/a.png")), markers.IMAGE_ADDRESS, "image_unsupported"),
    ],
    ids=["bmp", "tiff", "svg", "heic", "no base64", "cut", "empty", "data url", "folded", "file"],
)
def test_images_that_a_provider_refuses(target: Target, given: Image, marker: str | None, kind: str) -> None:
    """Either made what the provider takes without changing a pixel, or named as not seen; never dropped in silence."""
    seen = project([user("Look:", given)], target)
    assert seen.repairs == [(kind, 1, 1)]
    if marker is None:
        assert PIXEL.encode() in seen.raw
    else:
        assert told(seen) == f"Look:\n\n{marker}"


@TO
def test_image_at_an_address(target: Target) -> None:
    """An address that a provider can read crosses as an address."""
    seen = project([user(Image(source=ImageUrl(url="https://example.org/a.png")))], target)
    assert b'"https://example.org/a.png"' in seen.raw
    assert seen.repairs == []


@TO
def test_the_assistants_own_image(target: Target) -> None:
    """No wire lets the assistant say an image: it crosses behind it, on the user's side, and says whose it is."""
    seen = project([user("Draw."), assistant("Here.", image()), user("Well?")], target)
    assert markers.IMAGE_FROM_ASSISTANT in told(seen)
    assert seen.messages[1]["role"] == "assistant"
    assert PIXEL not in json.dumps(seen.messages[1])
    assert ("image_moved", 2, 1) in seen.repairs


def test_hundreds_of_screenshots() -> None:
    """Anthropic takes a hundred images: the oldest degrade first, in batches, so that most turns keep the prefix."""
    record = [user("Go.")]
    shown: list[int] = []
    breaks = 0
    projection = Projection.start(ANTHROPIC, Capabilities(vision=True), PROVIDER, MODEL, ())
    fed = 0
    since = None
    for turn in range(220):
        record += [assistant(call(f"c{turn}")), tool(result(f"c{turn}", (image(),)))]
        stored = strategies.stored(record)
        projection.extend(stored[fed:])
        fed = len(stored)
        rendered = projection.render(system=(), principal_text=PRINCIPAL, live_after=None, since=since)
        whole = projection.render(system=(), principal_text=PRINCIPAL, live_after=None, since=None)
        shown.append(b"".join(whole.payload).count(b'"type":"image"'))
        breaks += rendered.prefix_break is PrefixBreak.IMAGES
        assert rendered.prefix_break in {None, PrefixBreak.IMAGES}
        since = whole.stable_prefix
    assert max(shown) == 100
    assert shown[-1] + b"".join(whole.payload).count(markers.IMAGE_BUDGET.encode()) == 220
    assert 0 < breaks <= 5


# --- 10: empty and strange texts


@TO
def test_nothing_empty_crosses(target: Target) -> None:
    """Empty texts and messages are left out, an empty output says that it is."""
    record = [
        user("Go.", ""),
        assistant(""),
        user(" \n\t"),
        assistant(call("call_1")),
        tool(result("call_1", "")),
        assistant(call("call_2")),
        tool(result("call_2", ())),
        user("Well?"),
    ]
    seen = project(record, target)
    assert told(seen) == f"Go.\n\n{markers.NO_OUTPUT}\n\n{markers.NO_OUTPUT}\n\nWell?"
    assert sorted(set(seen.kinds())) == ["message_empty", "output_empty", "text_empty"]


@TO
@pytest.mark.parametrize("odd", ["a\x00b", "\u202eabc\u202c", "\x1b[31mred\x1b[0m", "\ufeffbom", "e\u0301", "👩‍🚀"])
def test_odd_letters_cross_as_they_are(target: Target, odd: str) -> None:
    """What is Unicode is not touched: no normalisation, no cleaning."""
    seen = project([user(odd), assistant(call("call_1")), tool(result("call_1", odd))], target)
    assert told(seen) == f"{odd}\n\n{odd}"
    assert seen.repairs == []


@TO
def test_lone_surrogates(target: Target) -> None:
    """No wire can carry them: the replacement character stands in their place, and it is said so."""
    seen = project([user("a\ud800b"), assistant(call("call_1")), tool(result("call_1", "\udfff"))], target)
    assert told(seen) == "a\ufffdb\n\n\ufffd"
    assert seen.repairs == [("text_unicode", 1, 0), ("text_unicode", 3, 0)]


@TO
def test_an_output_of_50_megabytes(target: Target) -> None:
    """It crosses whole: what a model can read is not for this room to decide."""
    large = "ab\n" * (50 * 1024 * 1024 // 3)
    seen = project([user("Go."), assistant(call("call_1")), tool(result("call_1", large))], target, judged=False)
    assert large.replace("\n", "\\n").encode() in seen.raw


# --- 11: names


@TO
@pytest.mark.parametrize("name", ["my tool", "multi_tool_use.parallel", "größe", "", "rm -rf / # " * 50])
def test_names_that_a_provider_refuses(target: Target, name: str) -> None:
    """Mapped to one that may stand, the same each time, different from what another name maps to."""
    record = [user("Go."), assistant(call("call_1", name=name), call("call_2", name=f"{name}!"))]
    seen = project(record, target)
    assert seen.kinds().count("name_mapped") == 2
    crossed = {str(found) for found in _names(seen)}
    assert len(crossed) == 2
    assert project(record, target).raw == seen.raw


@TO
@pytest.mark.parametrize("name", ["server__tool", "mcp__files__read-all", "a" * 64])
def test_names_that_may_stand(target: Target, name: str) -> None:
    """MCP's names are names like any other."""
    seen = project([user("Go."), assistant(call("call_1", name=name)), tool(result("call_1"))], target)
    assert list(_names(seen)) == [name]
    assert seen.repairs == []


def _names(seen: Seen) -> list[JsonValue]:
    found: list[JsonValue] = []
    for message in seen.messages:
        calls = cast("list[dict[str, dict[str, JsonValue]]]", message.get("tool_calls", []))
        found += [each["function"]["name"] for each in calls]
        if isinstance(message["content"], list):
            found += [block["name"] for block in blocks_of(message) if block["type"] == "tool_use"]
    return found


# --- 12: roles


@TO
def test_system_messages_at_the_start(target: Target) -> None:
    """They stand in the system part, in order, before the principal's block."""
    seen = project([system("One."), system("Two."), user("Go.")], target, system=("Caller.",))
    raw = seen.raw
    assert raw.index(b"Caller.") < raw.index(b"One.") < raw.index(b"Two.") < raw.index(b"<runtime-principal>")
    assert told(seen) == "Go."
    assert seen.repairs == []


@TO
def test_a_system_message_in_the_middle(target: Target) -> None:
    """It crosses where it was said, on the user's side and labelled, unless the caller's model takes it there."""
    record = [user("Go."), system("Mind."), assistant("Yes."), user("Well?")]
    seen = project(record, target)
    assert told(seen) == f"Go.\n\n{markers.SYSTEM_HERE}\n\nMind.\n\nYes.\n\nWell?"
    assert seen.repairs == [("system_moved", 2, None)]
    native = project(record, target, Capabilities(mid_system=True))
    assert native.messages[1]["role"] == "system"
    assert native.repairs == []


@TO
@pytest.mark.parametrize("record", [[], [system("One.")]], ids=["nothing at all", "nothing but system"])
def test_nothing_to_answer(target: Target, record: list[Message]) -> None:
    """There is a user's message that says so: no provider takes an empty history."""
    seen = project(record, target)
    assert told(seen) == markers.NOTHING_FROM_USER
    assert seen.repairs == [("role_order", None, None)]


@TO
def test_the_assistant_comes_first(target: Target) -> None:
    """A word stands before it that nothing of the user's is recorded; the assistant's is not dropped."""
    seen = project([assistant("Hello."), user("Hi.")], target)
    assert told(seen) == f"{markers.NOTHING_FROM_USER}\n\nHello.\n\nHi."
    assert seen.repairs == [("role_order", 1, None)]


@TO
def test_the_assistant_comes_last(target: Target) -> None:
    """Its message stays; where the provider would take it for a prefill, the caller is told."""
    seen = project([user("Go."), assistant("Done. ")], target)
    expected = [("whitespace_trimmed", 2, None), ("ends_with_assistant", 2, None)] if target is ANTHROPIC else []
    assert seen.repairs == expected
    assert told(seen).rstrip() == "Go.\n\nDone."


# --- 14: the model changes in mid-conversation


@TO
def test_the_model_changes(target: Target) -> None:
    """Each model gets back what it signed and no other's; who cannot see is told where images are."""
    record = [
        user("Go."),
        assistant(thought("first", "c2lx"), "One.", model="model-1"),
        user("Look:", image()),
        assistant(thought("second", "c2ly"), "Two.", model="model-2"),
        user("And?"),
    ]
    for model, signed in (("model-1", "first"), ("model-2", "second"), ("model-3", None)):
        for vision in (True, False):
            seen = project(record, target, Capabilities(vision=vision, thinking=True), model=model)
            thoughts = [text for text in ("first", "second") if f'"thinking":"{text}"'.encode() in seen.raw]
            assert thoughts == ([signed] if signed and target is ANTHROPIC else [])
            assert seen.kinds().count("reasoning_omitted") == 2 - len(thoughts)
            assert (PIXEL.encode() in seen.raw) is vision
            assert (markers.NO_VISION in told(seen)) is not vision


# --- 15: hidden cost


@TO
def test_the_prefix_never_changes_by_itself(target: Target) -> None:
    """Key order, spaces and figures are the record's own at every turn: what was sent is a prefix of the next."""
    odd = '{ "z": 1.10, "a": 1E400, "n": 12345678901234567890123,\n "dup": [ ] }'
    record: list[Message] = []
    sent = b""
    for turn in range(30):
        record += [user(f"Turn {turn}."), assistant(call("call_0", arguments=odd)), tool(result("call_0", f"{turn}"))]
        record += [assistant(f"Answer {turn}.")]
        seen = project(record, target, judged=False)
        whole = history(seen.raw)
        assert whole.startswith(sent)
        sent = whole
    assert sent.count(json.dumps(odd).encode() if target is OPENAI else odd.encode()) == 30


# --- what belongs to no kind alone


@TO
def test_one_and_the_same_wherever_it_was_recorded(target: Target) -> None:
    """Two records with equal blocks under other ids, times and writers give equal bytes: nothing of them crosses."""
    messages: list[Message] = [user("Go."), assistant(call("call_0"), call("call_0")), tool(result("call_0"))]
    moved = tuple(
        StoredMessage(
            id=strategies.message_id(one.seq),
            seq=one.seq,
            recorded_at="1999-01-01T00:00:00.000Z",
            writer=one.writer,
            prev_hash="f" * 64,
            message=one.message,
        )
        for one in strategies.stored(messages)
    )
    assert project(moved, target).raw == project(messages, target).raw


@TO
def test_blocks_where_no_writer_puts_them(target: Target) -> None:
    """A call in a user's message, thoughts and calls in a system message: reported, and nothing of them is speech."""
    odd: list[Block | str] = [call("call_1", arguments='{"secret":1}'), thought("hm"), "Text."]
    for message in (user(*odd), system(*odd), tool(*odd)):
        seen = project([user("Go."), message, user("Well?")], target)
        assert "secret" not in told(seen)
        assert "hm" not in told(seen)
        assert "Text." in told(seen)
        assert {"call_misplaced", "reasoning_omitted"} & set(seen.kinds())
