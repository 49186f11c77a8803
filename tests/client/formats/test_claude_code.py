"""Claude Code lines to messages: what is one message, who says it, what is not conversation, what is never lost."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saf_client.formats.claude_code import LEFT_OUT
from saf_client.formats.lines import read_lines
from saf_client.formats.transcript import LINE_KEPT_BYTES, Transcript, offer
from safd.model.blocks import (
    Image,
    ImageData,
    ImageUrl,
    InvalidInput,
    ObjectInput,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from safd.model.messages import Role, Usage
from tests.client.formats.given import (
    PIXEL,
    SESSION,
    SIGNATURE,
    Value,
    accounted,
    blocks,
    call,
    image,
    line,
    main_thread,
    reply,
    result,
    said,
    session,
    text,
    thinking,
    transcript,
    user,
    written,
)


def counts(found: Transcript) -> dict[str, int]:
    return {one.what: count for one, count in found.left_out.items()}


def changes(found: Transcript) -> dict[str, int]:
    return {one.what: count for one, count in found.changed.items()}


def rendered(found: Transcript) -> list[str]:
    """What is appended for each message of a first import."""
    texts = []
    for thread in found.threads:
        for unit in thread.units:
            offered, differs = offer(thread, unit, {})
            assert offered is not None
            assert differs == ()
            texts.append(offered.text)
    return texts


# --- replies


def test_lines_of_one_reply_are_one_message() -> None:
    """One line per block, one message id: thought, text and calls stand together, in file order."""
    found = transcript(
        user("u1", "hello"),
        reply("a1", "msg_1", thinking()),
        reply("a2", "msg_1", text("I look.")),
        reply("a3", "msg_1", call("t1", "Read", path="x")),
        reply("a4", "msg_1", call("t2")),
        user("r1", [result("t1")]),
        user("r2", [result("t2")]),
        reply("a5", "msg_2", text("Done.")),
    )
    units = main_thread(found)
    assert [unit.role for unit in units] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
    assert [type(block) for block in blocks(units[1])] == [Reasoning, Text, ToolUse, ToolUse]
    assert [part.id for part in units[1].parts] == ["a1", "a2", "a3", "a4"]


def test_results_between_the_lines_of_a_reply_do_not_cut_it() -> None:
    """Parallel calls are answered while the reply is still being written: one message with both calls, then results."""
    found = transcript(
        reply("a1", "msg_1", call("t1")),
        user("r1", [result("t1")]),
        reply("a2", "msg_1", call("t2")),
        user("r2", [result("t2")]),
    )
    units = main_thread(found)
    assert [len(unit.parts) for unit in units] == [2, 1, 1]
    assert [block.id for block in blocks(units[0]) if isinstance(block, ToolUse)] == ["t1", "t2"]


def test_usage_is_that_of_the_last_line_that_states_one() -> None:
    """Counts are repeated on each line and corrected at the end: the last holds, never the sum."""
    found = transcript(
        reply("a1", "msg_1", text("a"), message={"usage": {"input_tokens": 5, "output_tokens": 1}}),
        reply("a2", "msg_1", text("b"), message={"usage": {"input_tokens": 5, "output_tokens": 9}}),
        reply("a3", "msg_1", text("c"), message={"usage": None}),
    )
    stored = json.loads(rendered(found)[0])
    assert stored["usage"] == {"input_tokens": 5, "output_tokens": 9}


@pytest.mark.parametrize("number", [-1, 1.5, True, "7", None, [], 10**13, 10**40])
def test_a_count_that_is_none_is_left_out(number: object) -> None:
    """What a count cannot be is not made one, and does not cost the message."""
    found = transcript(reply("a1", "m", text("a"), message={"usage": {"input_tokens": number, "output_tokens": 4}}))
    assert main_thread(found)[0].parts[0].usage == Usage(output_tokens=4)


@pytest.mark.parametrize("usage", [None, 7, "many", []])
def test_usage_of_a_wrong_type_is_none(usage: object) -> None:
    """A usage that is no object counts nothing."""
    found = transcript(reply("a1", "m", text("a"), message={"usage": usage}))
    assert main_thread(found)[0].parts[0].usage is None


def test_the_model_of_a_reply_is_that_of_its_last_line() -> None:
    """A model may change inside a session and, after a refusal, inside a reply."""
    found = transcript(
        reply("a1", "msg_1", text("a"), message={"model": "one"}),
        reply("a2", "msg_1", text("b"), message={"model": "two"}),
        reply("a3", "msg_1", text("c"), message={"model": None}),
        reply("a4", "msg_2", text("d"), message={"model": "three"}),
    )
    assert [unit.model for unit in main_thread(found)] == ["two", "three"]
    assert {unit.provider for unit in main_thread(found)} == {"anthropic"}


def test_a_call_that_was_written_again_is_said_once() -> None:
    """A retried line repeats calls and sealed thoughts under another uuid: one call, and both lines are kept."""
    found = transcript(
        reply("a1", "msg_1", thinking(), call("t1", "Read", path="x")),
        reply("a2", "msg_1", thinking(), call("t1", "Read", path="x"), text("\n\n")),
        reply("a3", "msg_1", text("\n\n"), call("t1", "Read", path="another")),
    )
    (unit,) = main_thread(found)
    assert [type(block) for block in blocks(unit)] == [Reasoning, ToolUse, Text, Text, ToolUse]
    assert len(unit.parts) == 3
    assert changes(found) == {"block said twice in one reply": 2}


def test_a_repeated_call_id_in_another_reply_is_another_call() -> None:
    """Some models number their calls from zero in every turn; names are bound by order."""
    found = transcript(
        reply("a1", "msg_1", call("call_0", "Read")),
        user("r1", [result("call_0")]),
        reply("a2", "msg_2", call("call_0", "Write")),
        user("r2", [result("call_0")]),
        user("r3", [result("call_0", "again")]),
        user("r4", [result("nobody")]),
    )
    names = [block.tool_name for unit in main_thread(found) for block in blocks(unit) if isinstance(block, ToolResult)]
    assert names == ["Read", "Write", "Write", None]


def test_assistant_lines_without_a_message_id_stay_apart() -> None:
    """What cannot be known to be one reply is not made one."""
    found = transcript(
        reply("a1", "m", text("a"), message={"id": None}), reply("a2", "m", text("b"), message={"id": None})
    )
    assert [len(unit.parts) for unit in main_thread(found)] == [1, 1]


# --- blocks


def test_thoughts_survive_whole() -> None:
    """Signatures cross byte for byte, also without a text; redacted thought stays opaque; an empty shell is nothing."""
    found = transcript(
        reply(
            "a1",
            "msg_1",
            thinking("Hm.", SIGNATURE),
            thinking("", SIGNATURE + "x"),
            thinking("unsigned", None),
            {"type": "thinking", "signature": SIGNATURE + "y"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
        )
    )
    assert blocks(main_thread(found)[0]) == [
        Reasoning(reasoning="Hm.", signature=SIGNATURE),
        Reasoning(reasoning="", signature=SIGNATURE + "x"),
        Reasoning(reasoning="unsigned", signature=None),
        Reasoning(reasoning="", signature=SIGNATURE + "y"),
        Reasoning(reasoning="", redacted="b3BhcXVl"),
    ]


def test_blank_text_is_kept() -> None:
    """What is empty after trimming was said all the same; a projection may drop it."""
    found = transcript(user("u1", ""), user("u2", [text(" ")]), reply("a1", "m", text("\n\n")))
    assert [blocks(unit) for unit in main_thread(found)] == [[Text(text="")], [Text(text=" ")], [Text(text="\n\n")]]


def test_arguments_are_kept_as_the_model_wrote_them() -> None:
    """Spelling of numbers and order of keys stay; what is no object is kept and flagged."""
    exact = '{"b": 1.10,"a":12345678901234567890123, "nested":{"x":[]}}'
    line_ = written([reply("a1", "m", call("t1"))])
    given_ = (exact.encode(), b'"rm -rf"', b"[1,  2]", b"null")
    units = [main_thread(transcript(line_.replace(b'"input": {}', b'"input": ' + one)))[0] for one in given_]
    found = [block.input for unit in units for block in blocks(unit) if isinstance(block, ToolUse)]
    assert found == [
        ObjectInput(json=exact),
        InvalidInput(text="rm -rf"),
        InvalidInput(text="[1,  2]"),
        InvalidInput(text="null"),
    ]


def test_a_call_without_arguments_is_a_call() -> None:
    """A missing input is not an empty object."""
    found = transcript(reply("a1", "m", {"type": "tool_use", "id": "t1", "name": "Bash"}))
    assert blocks(main_thread(found)[0]) == [ToolUse(id="t1", name="Bash", input=InvalidInput(text=""))]


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, ""),
        ({"stdout": 1}, '{"stdout": 1}'),
        (7, "7"),
        ([], ()),
        ([text("a"), text("b")], (Text(text="a"), Text(text="b"))),
        (["bare"], (Text(text="bare"),)),
        ([image()], (Image(source=ImageData(media_type="image/png", data=PIXEL)),)),
        ([{"type": "tool_reference", "tool_name": "WebFetch"}], (Text(text="[tool reference: WebFetch]"),)),
        ([{"type": "document"}], (Text(text="[document: not carried over by the import]"),)),
        ([7, {"type": "text", "text": 7}, {}], (
            Text(text="[part without a type: not carried over by the import]"),
            Text(text="[text: not carried over by the import]"),
            Text(text="[part without a type: not carried over by the import]"),
        )),
    ],
)  # fmt: skip
def test_structured_results(content: object, output: object) -> None:
    """A result's content is a string, a list of parts, nothing, or something odd: each has its form."""
    found = transcript(user("r1", [result("t1", content)]))
    assert blocks(main_thread(found)[0]) == [ToolResult(tool_use_id="t1", output=output)]
    assert main_thread(found)[0].role is Role.TOOL


@pytest.mark.parametrize(
    ("stated", "is_error"), [(True, True), (False, False), (None, False), ("true", False), (1, False)]
)
def test_only_true_is_an_error(stated: object, is_error: bool) -> None:
    """An absent flag and anything that is not true say that the tool succeeded."""
    found = transcript(user("r1", [result("t1", "x", is_error=stated)]))
    assert [block.is_error for block in blocks(main_thread(found)[0]) if isinstance(block, ToolResult)] == [is_error]


def test_images_of_the_user() -> None:
    """Base64 and URL sources are images; another source is named by a text."""
    found = transcript(
        user(
            "u1",
            [
                image(),
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "image"},
            ],
        )
    )
    assert blocks(main_thread(found)[0]) == [
        Image(source=ImageData(media_type="image/png", data=PIXEL)),
        Image(source=ImageUrl(url="https://example.org/a.png")),
        Text(text="[image: not carried over by the import]"),
        Text(text="[image: not carried over by the import]"),
    ]
    assert changes(found) == {"image": 2}


def test_nothing_is_put_into_the_models_mouth() -> None:
    """An unknown block of the model leaves no words; an unknown one of the user's side is named."""
    odd: Value = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = transcript(reply("a1", "m", text("I searched."), odd, result("t1"), {}), user("u1", [odd, call("t9")]))
    model, person = main_thread(found)
    assert blocks(model) == [Text(text="I searched.")]
    assert all(isinstance(block, Text) and "not carried over" in block.text for block in blocks(person))
    assert changes(found) == {
        "server_tool_use of the model": 1,
        "tool_result of the model": 1,
        "block without a type of the model": 1,
        "server_tool_use": 1,
        "tool_use": 1,
    }


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "text"},
        {"type": "text", "text": None},
        {"type": "thinking", "thinking": 7},
        {"type": "redacted_thinking"},
        {"type": "tool_use", "id": "", "name": "x"},
        {"type": "tool_use", "id": 7, "name": "x"},
        {"type": "tool_use", "id": "t1"},
        {"type": 7},
        {"type": None},
        {},
        7,
        None,
        ["x"],
    ],
)
def test_a_broken_block_costs_only_itself(broken: object) -> None:
    """What stands beside it is said, its line is kept, the summary counts it."""
    found = transcript(reply("a1", "m", text("before"), broken, text("after")))  # type: ignore[arg-type]
    (unit,) = main_thread(found)
    assert blocks(unit) == [Text(text="before"), Text(text="after")]
    assert sum(found.changed.values()) == 1
    assert json.loads(unit.parts[0].text)["message"]["content"][1] == broken


def test_a_string_among_blocks_is_text() -> None:
    """A bare string in a content list was said."""
    found = transcript(user("u1", ["one", text("two")]))
    assert blocks(main_thread(found)[0]) == [Text(text="one"), Text(text="two")]


def test_results_beside_words_are_the_users() -> None:
    """A line that holds only results is a tool's; with words in it, it stays one message of the user."""
    found = transcript(
        user("r1", [result("t1"), result("t2")]), user("r2", [result("t3"), text("and now stop")]), user("r3", [])
    )
    assert [unit.role for unit in main_thread(found)] == [Role.TOOL, Role.USER, Role.USER]


# --- who speaks


@pytest.mark.parametrize(
    "own", [{"message": {"model": "<synthetic>"}}, {"isApiErrorMessage": True, "error": "rate_limit"}]
)
def test_the_programs_own_words_are_not_the_models(own: dict[str, object]) -> None:
    """A failed request is told in the model's place; the record keeps the line and gives no model its words."""
    found = transcript(user("u1", "hello"), reply("e1", "x", text("API Error: 529 Overloaded"), **own))
    unit = main_thread(found)[1]
    assert unit.role is Role.SYSTEM
    assert unit.unsaid is not None
    assert blocks(unit) == []
    stored = json.loads(rendered(found)[1])
    assert stored["blocks"] == []
    assert "usage" not in stored
    assert "529 Overloaded" in stored["metadata"]["imported"]["lines"][0]["text"]


def test_a_session_that_never_got_an_answer() -> None:
    """A word and eight failures are a conversation."""
    failures = [reply(f"e{n}", f"x{n}", text("API Error"), isApiErrorMessage=True) for n in range(8)]
    found = transcript(user("u1", "hello"), *failures, line("system", "s1", "e1", subtype="api_error"))
    assert [unit.role for unit in main_thread(found)] == [Role.USER] + [Role.SYSTEM] * 8
    assert counts(found) == {"system/api_error": 1}


def test_words_typed_while_the_model_worked_are_the_users() -> None:
    """They stand in an attachment line and nowhere else; other attachments are context of the program."""
    found = transcript(
        user("u1", "go"),
        line("attachment", "q1", "u1", attachment={"type": "queued_command", "prompt": "and the basil?"}),
        line("attachment", "q2", "q1", attachment={"type": "queued_command", "prompt": [text("see"), image()]}),
        line("attachment", "q3", "q2", attachment={"type": "queued_command", "prompt": None}),
        line("attachment", "q4", "q3", attachment={"type": "todo_reminder", "content": []}),
        line("attachment", "q5", "q4", attachment="odd"),
        user("u2", "stop", "q5"),
    )
    units = main_thread(found)
    assert [len(blocks(unit)) for unit in units] == [1, 1, 2, 1]
    assert {unit.role for unit in units} == {Role.USER}
    assert units[-1].parts[0].parent == "q2"
    assert counts(found) == {"attachment/queued_command": 1, "attachment/todo_reminder": 1, "attachment": 1}


def test_typed_words_that_stand_nowhere_else_are_told() -> None:
    """A queue's line is left out because its words stand in a line of their own; where they do not, that is said."""
    found = transcript(
        line("queue-operation", None, operation="enqueue", content="and the basil?"),
        line("queue-operation", None, operation="enqueue", content=" never mind "),
        line("queue-operation", None, operation="enqueue", content="part"),
        line("queue-operation", None, operation="dequeue"),
        line("queue-operation", None, operation="enqueue", content=7),
        user("u1", "and the basil?"),
        user("u2", [text("the first part of it")]),
    )
    reasons = {one.why.partition(":")[0]: count for one, count in found.left_out.items()}
    assert reasons == {LEFT_OUT["queue-operation"]: 4, "typed input that stands in no other line": 1}


def test_meta_lines_and_summaries_of_compaction_are_kept() -> None:
    """The model saw them: they are messages; both sides of a compaction stay."""
    found = transcript(
        user("u1", "<caveat>", isMeta=True),
        user("u2", "hello", "u1"),
        line("system", "c1", None, subtype="compact_boundary", logicalParentUuid="u2"),
        user("u3", "This session is continued ...", "c1", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        line("summary", None, summary="A title", leafUuid="u2"),
    )
    units = main_thread(found)
    assert [part.text for unit in units for part in unit.parts if "isCompactSummary" in part.text] != []
    assert len(units) == 3
    assert units[2].parts[0].parent == "u2"
    assert counts(found) == {"system/compact_boundary": 1, "summary": 1}
    assert found.threads[0].title == "hello"


# --- the tree


def test_parents_are_taken_past_lines_that_are_no_conversation() -> None:
    """`progress`, system and unknown lines stand in the chain; a message's parent is the nearest that is kept."""
    found = transcript(
        user("u1", "go"),
        line("progress", "p1", "u1"),
        line("progress", "p2", "p1"),
        line("system", "s1", "p2", subtype="informational"),
        line("of-tomorrow", "x1", "s1"),
        reply("a1", "m", text("done"), parent="x1"),
        user("u2", "lost", "nowhere"),
        user("u3", "self", "u3"),
        line("progress", "l1", "l2"),
        line("progress", "l2", "l1"),
        user("u4", "ring", "l1"),
    )
    parents = [unit.parts[0].parent for unit in main_thread(found)]
    assert parents == [None, "u1", None, "u3", None]


def test_file_order_is_kept() -> None:
    """Children before parents, clocks that run backwards, dead branches of a rewind: order is the file's."""
    found = transcript(
        user("u2", "second", "a1", timestamp="2026-11-30T07:00:09Z"),
        reply("a1", "m1", text("first"), parent="u1", timestamp="2026-11-30T06:00:00Z"),
        user("u1", "zero", None, timestamp="2026-11-30T08:00:00Z"),
        user("u1b", "another try", "a1", timestamp="2026-11-30T05:00:00Z"),
    )
    units = main_thread(found)
    assert [unit.parts[0].id for unit in units] == ["u2", "a1", "u1", "u1b"]
    assert [unit.parts[0].parent for unit in units] == ["a1", "u1", None, "a1"]
    assert units[0].timestamp == "2026-11-30T07:00:09Z"


def test_doubled_lines_are_taken_once() -> None:
    """The same line twice, and another line under the same uuid: each has its reason in the summary."""
    twice = user("u1", "hello")
    found = transcript(twice, twice, user("u1", "hello, changed"), user("u2", "next", "u1"))
    assert [unit.parts[0].id for unit in main_thread(found)] == ["u1", "u2"]
    reasons = {one.why: count for one, count in found.left_out.items()}
    assert reasons == {"the file holds it twice": 1, "one of the same uuid stands before it": 1}


# --- subagents


def test_side_chains_are_conversations_of_their_own() -> None:
    """A subagent's lines inside the session file never mix into it, with an id of the agent or without."""
    found = transcript(
        user("u1", "go"),
        user("s1", "count", "u1", isSidechain=True),
        reply("s2", "m8", text("three"), parent="s1", isSidechain=True),
        reply("a1", "m1", text("done"), parent="u1"),
        user("n1", "measure", None, isSidechain=True, agentId="a2898e3"),
        line("progress", "p1", "s2"),
        user("s3", "again", "p1", isSidechain=True),
        user("o1", "other", "u1", isSidechain=True),
    )
    assert [[unit.parts[0].id for unit in said(thread)] for thread in found.threads] == [
        ["u1", "a1"],
        ["s1", "s2", "s3"],
        ["n1"],
        ["o1"],
    ]
    assert [thread.source.get("subagent") for thread in found.threads] == [None, "side-s1", "a2898e3", "side-o1"]
    assert len({thread.key for thread in found.threads}) == 4
    assert [thread.title for thread in found.threads] == [
        "go", "Subagent side-s1: count", "Subagent a2898e3: measure", "Subagent side-o1: other"
    ]  # fmt: skip


def test_a_subagents_own_file_is_the_subagent_of_its_session() -> None:
    """It carries the parent's session: its key is not the session's own, and the same wherever its lines stand."""
    lines = [
        user("n1", "measure", None, isSidechain=True, agentId="a2898e3"),
        reply("n2", "m1", text("11 %"), parent="n1", isSidechain=True, agentId="a2898e3"),
    ]
    (own,) = transcript(*lines).threads
    main, inside = transcript(user("u1", "go"), *lines).threads
    assert own.key == inside.key
    assert own.key != main.key
    assert own.source == {"session": SESSION, "subagent": "a2898e3"}


def test_a_compaction_files_parents_are_elsewhere() -> None:
    """Its lines point into the main file: they have no parent here, and each is taken."""
    found = transcript(
        user("c1", "summarise", "in-the-main-file", isSidechain=True, agentId="acompact-e1f845"),
        reply("c2", "m1", text("summary"), parent="also-there", isSidechain=True, agentId="acompact-e1f845"),
    )
    assert [unit.parts[0].parent for unit in said(found.threads[0])] == [None, None]


def test_streamed_output_is_read() -> None:
    """`--output-format stream-json` has session_id, no parents, and names a subagent by the call that began it."""

    def streamed(kind: str, **more: object) -> Value:
        return {"type": kind, "session_id": SESSION} | more

    found = transcript(
        streamed("system", subtype="init", tools=[]),
        streamed("assistant", message={"id": "m1", "model": "x", "content": [call("toolu_1", "Task")]}),
        streamed("stream_event", event={"type": "content_block_delta"}),
        streamed("user", message={"content": "count"}, parent_tool_use_id="toolu_1"),
        streamed("assistant", message={"id": "m2", "content": [text("three")]}, parent_tool_use_id="toolu_1"),
        streamed("user", message={"content": [result("toolu_1", "three")]}, parent_tool_use_id=None),
        streamed("result", subtype="success"),
    )
    assert [[unit.role for unit in said(thread)] for thread in found.threads] == [
        [Role.ASSISTANT, Role.TOOL],
        [Role.USER, Role.ASSISTANT],
    ]
    assert found.threads[1].source["subagent"] == "toolu_1"
    ids = [part.id for thread in found.threads for unit in said(thread) for part in unit.parts]
    assert len(set(ids)) == 4


# --- what is not conversation


@pytest.mark.parametrize("kind", sorted(set(LEFT_OUT) - {"system", "attachment"}))
def test_known_kinds_are_left_out_with_their_reason(kind: str) -> None:
    """Each kind that is no conversation says in words why it is none."""
    found = transcript(user("u1", "go"), line(kind, "x1", "u1", payload={}))
    assert [(one.what, one.why) for one in found.left_out] == [(kind, LEFT_OUT[kind])]


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "a-kind-of-tomorrow", "uuid": "x", "sessionId": SESSION},
        {"type": "x" * 10_000},
        {"type": 7},
        {"type": None},
        {"type": ""},
        {"type": ["user"]},
        {},
        {"message": {"content": "no type"}},
        {"type": "system", "subtype": 7},
        {"type": "system", "subtype": "y" * 10_000},
        {"type": "attachment", "attachment": {"type": ["odd"]}},
    ],
)
def test_unknown_kinds_are_counted_and_stop_nothing(odd: Value) -> None:
    """Other versions write other lines: the import goes on, and the summary names them, in short."""
    found = transcript(user("u1", "go"), odd, user("u2", "on"))
    assert len(main_thread(found)) == 2
    ((one, count),) = found.left_out.items()
    assert count == 1
    assert one.why
    assert len(one.what) < 60


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"type": "user"}, "user line without a message"),
        ({"type": "assistant", "message": None}, "assistant line without a message"),
        ({"type": "user", "message": "hello"}, "user line without a message"),
        ({"type": "user", "message": {}}, "user line whose message has no content"),
        ({"type": "assistant", "message": {"content": None}}, "assistant line whose message has no content"),
        ({"type": "user", "message": {"content": 7}}, "user line whose message has no content"),
        ({"type": "user", "message": {"content": {"type": "text"}}}, "user line whose message has no content"),
    ],
)
def test_conversation_lines_that_say_nothing_are_named(broken: Value, reason: str) -> None:
    """A line that should hold a message and does not is told with its place, and its uuid stays free."""
    found = transcript(user("u1", "go"), broken | {"uuid": "x"}, user("x", "on"))
    assert [unit.parts[0].id for unit in main_thread(found)] == ["u1", "x"]
    assert [one.reason for one in found.bad] == [reason]
    assert found.bad[0].offset == len(written([user("u1", "go")]))


@pytest.mark.parametrize(
    "name", ["uuid", "parentUuid", "sessionId", "isSidechain", "agentId", "timestamp", "logicalParentUuid", "isMeta"]
)
@pytest.mark.parametrize("odd", [None, 7, 1.5, True, [], {}, "", "\ud83c", "x" * 100_000])
def test_members_of_a_wrong_type_cost_nothing(name: str, odd: object) -> None:
    """Whatever stands in a line's own fields, its message is taken and its line is kept."""
    lines = [
        user("u1", "go"),
        user("u2", "on", "u1") | {name: odd},
        reply("a1", "m1", text("done"), parent="u2", message={"id": odd, "model": odd}),
    ]
    raw = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
    found = transcript(raw)
    texts = [part.text for thread in found.threads for unit in said(thread) for part in unit.parts]
    assert sorted(texts) == sorted(one.decode() for one in raw.splitlines())
    assert len([json.loads(one) for one in rendered(found)]) == 3


def test_a_very_long_line_is_taken_and_said() -> None:
    """Its message is whole; the line itself is kept by its hash, and the summary says so."""
    found = transcript(user("u1", [result("t1", "x" * (LINE_KEPT_BYTES + 1))]))
    (unit,) = main_thread(found)
    assert changes(found) == {"very long line": 1}
    kept = json.loads(rendered(found)[0])["metadata"]["imported"]["lines"][0]
    assert kept == {
        "id": "u1",
        "parent": None,
        "sha256": unit.parts[0].digest,
        "bytes": len(unit.parts[0].text.encode()),
    }


# --- all at once


def test_every_line_is_taken_or_has_a_reason() -> None:
    """The session with every trap: as many lines are spoken of as stand in the file."""
    content = written(session())
    found = transcript(content)
    assert accounted(found) == sum(1 for raw in content.split(b"\n") if raw.strip())
    assert [len(thread.units) for thread in found.threads] == [12, 2]
    assert counts(found) == {
        "file-history-snapshot": 1,
        "summary": 1,
        "attachment/todo_reminder": 1,
        "progress": 1,
        "queue-operation": 1,
        "system/turn_duration": 1,
        "assistant line": 1,
        "system/compact_boundary": 1,
        "a-kind-of-tomorrow": 1,
    }
    assert [one.reason.partition(" (")[0] for one in found.bad] == [
        "37 NUL bytes: the file was cut there and filled up",
        "a list where an object is due",
        "not JSON",
        f"not UTF-8 at byte {content.index(bytes([255, 254]))}",
        "torn: the line has no end",
    ]


def test_every_taken_line_is_kept_exactly() -> None:
    """The foreign line stands in the message's metadata, byte for byte, with its uuid and its parent."""
    content = written(session())
    found = transcript(content)
    raw = {one.decode() for one in content.split(b"\n") if one and b"\xff" not in one}
    kept = [entry for one in rendered(found) for entry in json.loads(one)["metadata"]["imported"]["lines"]]
    assert {entry["text"] for entry in kept} <= raw
    assert [entry["id"] for entry in kept] == [
        part.id for thread in found.threads for unit in said(thread) for part in unit.parts
    ]
    assert len(kept) == sum(1 for thread in found.threads for unit in said(thread) for _ in unit.parts)


def test_nothing_depends_on_where_the_file_stands() -> None:
    """A moved file is the same session: same keys, same messages."""
    here, there = (transcript(written(session()), source=path) for path in ("/a/b.jsonl", "/c/d.jsonl"))
    assert here == there


def test_a_file_without_a_session_is_named_by_its_path() -> None:
    """Where no line says which session it is, two files are two conversations."""
    lone = {"type": "user", "uuid": "u1", "message": {"content": "hi"}}
    here, there = (transcript(lone, source=path) for path in ("/a/b.jsonl", "/c/d.jsonl"))
    assert here.threads[0].key != there.threads[0].key
    assert here.threads[0].source == {"path": "/a/b.jsonl"}


@given(st.data())
@settings(max_examples=60)
def test_any_copy_of_a_session_is_read(data: st.DataObject) -> None:
    """Cut anywhere, with bytes overwritten, lines doubled and shuffled: no crash, every line accounted for."""
    content = written(session())
    lines = content.split(b"\n")
    seed = data.draw(st.integers(0, 2**32))
    source = random.Random(seed)
    source.shuffle(lines)
    lines += source.sample(lines, 5)
    damaged = bytearray(b"\n".join(lines)[: data.draw(st.integers(0, len(content)))])
    for at in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=8)):
        if damaged:
            damaged[at] = data.draw(st.integers(0, 255))
    raw = bytes(damaged)
    found = transcript(raw)
    assert accounted(found) == len(list(read_lines(raw)))
    assert all(json.loads(one)["role"] for one in rendered(found))


def test_growth_is_more_of_the_same() -> None:
    """What a shorter copy said stands unchanged at the beginning of what a longer one says."""
    lines = [one for one in session() if not isinstance(one, bytes)]
    whole = main_ids(transcript(*lines))
    for count in range(4, len(lines)):
        ids = main_ids(transcript(*lines[:count]))
        assert [one[0] for one in ids] == [one[0] for one in whole][: len(ids)]
        assert all(one == longer[: len(one)] for one, longer in zip(ids, whole, strict=False))


def main_ids(found: Transcript) -> list[list[str]]:
    return [[part.id for part in unit.parts] for unit in main_thread(found)]
