"""The table of shapes, row by row: what is stored, and what exactly crosses to each target."""

import json
from typing import cast

import attrs
import pytest

from safd.model.ids import MarkId, Seq
from safd.model.marks import BlockRef, Cleared, Mark, Restored
from safd.model.messages import Message
from safd.model.projections import Capabilities, ReasoningCapability, Target
from safd.model.spans import JsonObject, JsonValue
from safd.replay import markers
from tests import strategies
from tests.replay.given import PIXEL, assistant, call, image, project, result, thought, tool, user

OPENAI, ANTHROPIC = Target.OPENAI_CHAT, Target.ANTHROPIC
THINKING = Capabilities(vision=True, thinking=True)
BLIND = Capabilities()
NOTHING: list[tuple[str, int | None, int | None]] = []
TO = pytest.mark.parametrize("target", Target)


# --- short words for what crosses


def said(role: str, *texts: str) -> dict[Target, JsonObject]:
    """A message of texts, as each target spells it."""
    blocks: list[JsonValue] = [{"type": "text", "text": each} for each in texts]
    return {
        OPENAI: {"role": role, "content": "\n\n".join(texts)},
        ANTHROPIC: {"role": role, "content": blocks},
    }


def function(id_: str, name: str = "read", arguments: str = '{"path":"a.py"}') -> JsonValue:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_use(id_: str, name: str = "read", arguments: str = '{"path":"a.py"}') -> JsonValue:
    return {"type": "tool_use", "id": id_, "name": name, "input": json.loads(arguments)}


def text(said_: str) -> JsonValue:
    return {"type": "text", "text": said_}


def tool_result(id_: str, content: JsonValue, *, is_error: bool = False) -> JsonValue:
    found: JsonObject = {"type": "tool_result", "tool_use_id": id_, "content": content}
    return {**found, "is_error": True} if is_error else found


def calling(*calls: JsonValue, content: str = "") -> JsonObject:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answering(id_: str, content: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def from_(role: str, *blocks: JsonValue) -> JsonObject:
    return {"role": role, "content": list(blocks)}


# --- text


@TO
def test_text(target: Target) -> None:
    """Text crosses as what its speaker said, in order, and nothing is repaired."""
    seen = project([user("Hello."), assistant("Good day.", "What now?"), user("Read a.py.")], target)
    assert seen.messages == [
        said("user", "Hello.")[target],
        said("assistant", "Good day.", "What now?")[target],
        said("user", "Read a.py.")[target],
    ]
    assert seen.repairs == NOTHING


# --- rounds

ROUND = [
    user("Read it."),
    assistant("I read.", call("call_1")),
    tool(result("call_1", "text of a.py", name="read")),
    assistant("It is short."),
    user("Thanks."),
]


def test_complete_round_to_openai() -> None:
    """One assistant message with its call, then the result by the call's id."""
    seen = project(ROUND, OPENAI)
    assert seen.messages == [
        said("user", "Read it.")[OPENAI],
        calling(function("call_1"), content="I read."),
        answering("call_1", "text of a.py"),
        said("assistant", "It is short.")[OPENAI],
        said("user", "Thanks.")[OPENAI],
    ]
    assert seen.repairs == NOTHING


def test_complete_round_to_anthropic() -> None:
    """The call stands in the assistant's message, its result first in the user's next one."""
    seen = project(ROUND, ANTHROPIC)
    assert seen.messages == [
        said("user", "Read it.")[ANTHROPIC],
        from_("assistant", text("I read."), tool_use("call_1")),
        from_("user", tool_result("call_1", "text of a.py")),
        said("assistant", "It is short.")[ANTHROPIC],
        said("user", "Thanks.")[ANTHROPIC],
    ]
    assert seen.repairs == NOTHING


PARALLEL = [
    user("Both."),
    assistant(call("call_1"), call("call_2", arguments='{"path": "b.py", "price": 1.10}')),
    tool(result("call_1", "A")),
    tool(result("call_2", "no such file", is_error=True)),
    user("Go on."),
]


def test_parallel_calls_to_openai() -> None:
    """Calls of one message stay on one message, arguments to the letter; each result in a message of its own."""
    seen = project(PARALLEL, OPENAI)
    assert seen.messages == [
        said("user", "Both.")[OPENAI],
        calling(function("call_1"), function("call_2", arguments='{"path": "b.py", "price": 1.10}')),
        answering("call_1", "A"),
        answering("call_2", "Error: no such file"),
        said("user", "Go on.")[OPENAI],
    ]
    assert seen.repairs == NOTHING


def test_parallel_calls_to_anthropic() -> None:
    """Calls of one message stay on one message; all results stand together in the next, before what the user says."""
    seen = project(PARALLEL, ANTHROPIC)
    assert seen.messages == [
        said("user", "Both.")[ANTHROPIC],
        from_("assistant", tool_use("call_1"), tool_use("call_2", arguments='{"path": "b.py", "price": 1.10}')),
        from_("user", tool_result("call_1", "A"), tool_result("call_2", "no such file", is_error=True), text("Go on.")),
    ]
    assert b'"input":{"path": "b.py", "price": 1.10}' in seen.raw
    assert seen.repairs == NOTHING


@TO
def test_parallel_results_in_another_order(target: Target) -> None:
    """Results cross in the order of their calls, however they were recorded."""
    record = [
        user("Both."),
        assistant(call("call_1"), call("call_2")),
        tool(result("call_2", "B")),
        tool(result("call_1", "A")),
    ]
    seen = project(record, target)
    if target is OPENAI:
        assert seen.messages[2:] == [answering("call_1", "A"), answering("call_2", "B")]
    else:
        assert seen.messages[2:] == [from_("user", tool_result("call_1", "A"), tool_result("call_2", "B"))]
    assert seen.repairs == [("result_moved", 4, 0)]


# --- half pairs

UNANSWERED = [user("Read it."), assistant(call("call_1")), user("Are you there?")]


def test_call_without_result_to_openai() -> None:
    """The native call, and a result that says that it did not complete."""
    seen = project(UNANSWERED, OPENAI)
    assert seen.messages == [
        said("user", "Read it.")[OPENAI],
        calling(function("call_1")),
        answering("call_1", markers.NOT_COMPLETED),
        said("user", "Are you there?")[OPENAI],
    ]
    assert seen.repairs == [("call_unanswered", 2, 0)]


def test_call_without_result_to_anthropic() -> None:
    """The native call, and a result that says that it did not complete, never as a success."""
    seen = project(UNANSWERED, ANTHROPIC)
    assert seen.messages == [
        said("user", "Read it.")[ANTHROPIC],
        from_("assistant", tool_use("call_1")),
        from_("user", tool_result("call_1", markers.NOT_COMPLETED, is_error=True), text("Are you there?")),
    ]
    assert seen.repairs == [("call_unanswered", 2, 0)]


@TO
@pytest.mark.parametrize(
    ("orphan", "told"),
    [
        (result("call_9", "42 files", name="list"), "Result (list): 42 files"),
        (result("call_9", "no such folder", name="list", is_error=True), "Error (list): no such folder"),
        (result("call_9", "42 files"), "Result (unknown): 42 files"),
    ],
    ids=["success", "error", "nameless"],
)
def test_result_without_call(target: Target, orphan: strategies.ToolResult, told: str) -> None:
    """It is evidence, told in prose on the user's side; no call is invented for it."""
    seen = project([user("List it."), tool(orphan), assistant("I see."), user("Well?")], target)
    first = said("user", "List it.", told)[target]
    prose = [said("user", "List it.")[OPENAI], said("user", told)[OPENAI]] if target is OPENAI else [first]
    assert seen.messages == [*prose, said("assistant", "I see.")[target], said("user", "Well?")[target]]
    assert seen.repairs == [("result_orphaned", 2, 0)]


@TO
def test_interrupted_and_running(target: Target) -> None:
    """An unanswered call of the open turn still runs; one of a turn that ended did not complete."""
    record = [user("First."), assistant(call("call_1")), user("Again."), assistant(call("call_2"))]
    seen = project(record, target, live_after=3)
    told = {markers.NOT_COMPLETED: 2, markers.STILL_RUNNING: 4}
    for sentence in told:
        assert seen.raw.count(sentence.encode()) == 1
    assert seen.raw.index(markers.NOT_COMPLETED.encode()) < seen.raw.index(markers.STILL_RUNNING.encode())
    assert seen.repairs == [("call_unanswered", 2, 0), ("call_running", 4, 0)]
    ended = project(record, target)
    assert ended.raw.count(markers.NOT_COMPLETED.encode()) == 2
    assert ended.repairs == [("call_unanswered", 2, 0), ("call_unanswered", 4, 0)]


@TO
def test_a_late_result_still_arrives(target: Target) -> None:
    """What did not complete was never written down: the real result takes its place, moved to its call."""
    seen = project([*UNANSWERED, tool(result("call_1", "text of a.py"))], target)
    assert seen.repairs == [("result_moved", 4, 0)]
    assert markers.NOT_COMPLETED.encode() not in seen.raw
    if target is OPENAI:
        assert seen.messages[2:] == [answering("call_1", "text of a.py"), said("user", "Are you there?")[OPENAI]]
    else:
        assert seen.messages[2:] == [from_("user", tool_result("call_1", "text of a.py"), text("Are you there?"))]


# --- reasoning


@TO
@pytest.mark.parametrize("capabilities", [BLIND, THINKING], ids=["thinking off", "thinking on"])
def test_unsigned_reasoning(target: Target, capabilities: Capabilities) -> None:
    """It is omitted and reported; no word of it becomes speech."""
    seen = project([user("Go."), assistant(thought("private"), "Speech."), user("Well?")], target, capabilities)
    expected = [said("user", "Go.")[target], said("assistant", "Speech.")[target], said("user", "Well?")[target]]
    assert seen.messages == expected
    assert seen.repairs == [("reasoning_omitted", 2, 0)]


SIGNED = [user("Go."), assistant(thought(" private\n", "c2ln"), call("call_1")), tool(result("call_1"))]


def test_signed_reasoning_to_anthropic() -> None:
    """Signed by this provider's model, it goes back whole, before the calls that it led to."""
    seen = project(SIGNED, ANTHROPIC, THINKING)
    assert seen.messages[1] == from_(
        "assistant", {"type": "thinking", "thinking": " private\n", "signature": "c2ln"}, tool_use("call_1")
    )
    assert seen.repairs == NOTHING


def test_redacted_reasoning_to_anthropic() -> None:
    """What only the provider can read goes back as it came."""
    seen = project([user("Go."), assistant(thought("", redacted="b3Bh"), "Done."), user("Well?")], ANTHROPIC, THINKING)
    assert seen.messages[1] == from_("assistant", {"type": "redacted_thinking", "data": "b3Bh"}, text("Done."))
    assert seen.repairs == NOTHING


def test_signed_reasoning_with_thinking_off() -> None:
    """A request without thinking takes none back."""
    seen = project(SIGNED, ANTHROPIC)
    assert seen.messages[1] == from_("assistant", tool_use("call_1"))
    assert seen.repairs == [("reasoning_omitted", 2, 0)]


def test_signed_reasoning_to_openai() -> None:
    """No field of this target can verify a signature."""
    seen = project(SIGNED, OPENAI, THINKING)
    assert seen.messages[1] == calling(function("call_1"))
    assert seen.repairs == [("reasoning_omitted", 2, 0)]


@pytest.mark.parametrize(
    "turn",
    [
        assistant(thought("private", "c2ln"), "Done.", model="model-2"),
        assistant(thought("private", "c2ln"), "Done.", provider="other"),
        assistant(thought("private", "c2ln", provider="other"), "Done."),
        assistant(thought("private", "c2ln"), "Done.", provider=None, model=None),
    ],
    ids=["model", "provider", "block's own provider", "nobody"],
)
@TO
def test_reasoning_signed_by_another(target: Target, turn: Message) -> None:
    """A signature of another provider or model never crosses, nor one of which nobody knows whose it is."""
    seen = project([user("Go."), turn, user("Well?")], target, THINKING)
    expected = [said("user", "Go.")[target], said("assistant", "Done.")[target], said("user", "Well?")[target]]
    assert seen.messages == expected
    assert seen.repairs == [("reasoning_omitted", 2, 0)]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        (ReasoningCapability.OMIT, {"content": ""}),
        (ReasoningCapability.SIGNED, {"content": ""}),
        (ReasoningCapability.FIELD, {"content": "", "reasoning_content": "private"}),
        (ReasoningCapability.INLINE, {"content": "<think>\nprivate\n</think>"}),
    ],
)
def test_reasoning_as_the_server_asks(capability: ReasoningCapability, expected: JsonObject) -> None:
    """How a chat server wants reasoning back is stated by the caller, never guessed."""
    record = [user("Go."), assistant(thought("private"), call("call_1")), tool(result("call_1"))]
    seen = project(record, OPENAI, Capabilities(reasoning=capability))
    assert seen.messages[1] == {"role": "assistant", "tool_calls": [function("call_1")], **expected}
    omitted = capability in {ReasoningCapability.OMIT, ReasoningCapability.SIGNED}
    assert seen.repairs == ([("reasoning_omitted", 2, 0)] if omitted else NOTHING)


# --- images

DATA_URL: JsonValue = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
BASE64: JsonValue = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


@TO
def test_image_seen(target: Target) -> None:
    """A model that sees gets the image in its place."""
    seen = project([user("Look:", image(), "Well?")], target)
    native = DATA_URL if target is OPENAI else BASE64
    assert seen.messages == [from_("user", text("Look:"), native, text("Well?"))]
    assert seen.repairs == NOTHING


@TO
def test_image_unseen(target: Target) -> None:
    """A model that does not see is told where there was one."""
    seen = project([user("Look:", image())], target, BLIND)
    assert seen.messages == [said("user", "Look:", markers.NO_VISION)[target]]
    assert seen.repairs == [("image_unseen", 1, 1)]


SHOT = [
    user("Take one."),
    assistant(call("call_1", "shoot", "{}"), call("call_2")),
    tool(result("call_1", (strategies.Text(text="Here:"), image()))),
    tool(result("call_2", "A")),
]


def test_image_of_a_result_to_openai() -> None:
    """It moves behind all results of its round, into a user's message that says whose it is."""
    seen = project(SHOT, OPENAI)
    assert seen.messages[2:] == [
        answering("call_1", f"Here:\n\n{markers.IMAGE_FOLLOWS}"),
        answering("call_2", "A"),
        from_("user", text(markers.image_from_result("shoot", "call_1")), DATA_URL),
    ]
    assert seen.repairs == [("image_moved", 3, 0)]


def test_image_of_a_result_to_anthropic() -> None:
    """It stays in its result."""
    seen = project(SHOT, ANTHROPIC)
    assert seen.messages[2:] == [
        from_("user", tool_result("call_1", [text("Here:"), BASE64]), tool_result("call_2", "A"))
    ]
    assert seen.repairs == NOTHING


@TO
def test_image_of_a_result_unseen(target: Target) -> None:
    """The result says that there was one."""
    seen = project(SHOT, target, BLIND)
    assert seen.raw.count(markers.NO_VISION.encode()) == 1
    assert seen.repairs == [("image_unseen", 3, 0)]


# --- microcompact


def clearing(*places: tuple[int, int]) -> Cleared:
    refs = tuple(BlockRef(message_id=strategies.message_id(seq), block=block) for seq, block in places)
    return Cleared(id=MarkId("mark_1"), at_seq=Seq(9), recorded_at="", writer=strategies.WRITER, cleared=refs)


LONG = [
    user("Go."),
    assistant(call("call_1")),
    tool(result("call_1", "old")),
    assistant(call("call_2")),
    tool(result("call_2", "new", is_error=True)),
    tool(result("call_9", "lost", name="list")),
    user("Well?"),
]


@TO
def test_microcompact(target: Target) -> None:
    """Every call stays; only a cleared result's body gives way to a marker that says where it is kept."""
    marker = markers.cleared(strategies.message_id(3), 0)
    seen = project(LONG, target, marks=(clearing((3, 0)),))
    whole = project(LONG, target)
    assert seen.raw == whole.raw.replace(b'"old"', json.dumps(marker).encode())
    assert strategies.message_id(3) in marker
    assert seen.repairs == [("result_cleared", 3, 0), *whole.repairs]


@TO
def test_microcompact_keeps_what_a_result_was(target: Target) -> None:
    """A cleared failure stays a failure, a cleared orphan stays prose of the user's side."""
    seen = project(LONG, target, marks=(clearing((5, 0), (6, 0)),))
    failed, lost = (markers.cleared(strategies.message_id(seq), 0) for seq in (5, 6))
    told = json.dumps(seen.messages)
    assert f"Result (list): {lost}" in told
    if target is OPENAI:
        assert answering("call_2", f"Error: {failed}") in seen.messages
    else:
        results = [cast("list[JsonValue]", message["content"])[0] for message in seen.messages]
        assert tool_result("call_2", failed, is_error=True) in results


@TO
def test_microcompact_is_reversible(target: Target) -> None:
    """Taken back, the payload is what it was, byte for byte."""
    cleared = clearing((3, 0))
    restored: Mark = Restored(
        id=MarkId("mark_2"), at_seq=Seq(9), recorded_at="", writer=strategies.WRITER, mark=cleared.id
    )
    assert project(LONG, target, marks=(cleared, restored)).raw == project(LONG, target).raw
    assert attrs.asdict(project(LONG, target).rendered.stable_prefix)["messages"] > 0
