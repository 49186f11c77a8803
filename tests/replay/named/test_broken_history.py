"""The kinds of broken history that transcripts have been seen in, each for every target.

Pairs, order and identity stand here; texts, images and roles in `test_odd_content`.
"""

import json
from typing import cast

import pytest

from safd.model.blocks import Text
from safd.model.ids import MarkId, Seq
from safd.model.marks import Compacted
from safd.model.messages import Message
from safd.model.projections import Target
from safd.model.spans import JsonValue
from safd.replay import markers
from tests import strategies
from tests.replay.given import Seen, assistant, broken_call, call, project, result, tool, user

TO = pytest.mark.parametrize("target", Target)
LONG_ID = "toolu_vrtx_01" + "a" * 60
UNANSWERED = markers.NOT_COMPLETED


def pairs(seen: Seen) -> list[tuple[str, str, str]]:
    """Each call that crosses and the answer with its id: id, name, the answer's text. Fails on a half pair."""
    calls: dict[str, str] = {}
    answers: dict[str, str] = {}
    for message in seen.messages:
        for each in cast("list[dict[str, JsonValue]]", message.get("tool_calls", [])):
            calls[str(each["id"])] = str(cast("dict[str, JsonValue]", each["function"])["name"])
        if message["role"] == "tool":
            answers[str(message["tool_call_id"])] = str(message["content"])
        content = message["content"]
        for block in content if isinstance(content, list) else []:
            assert isinstance(block, dict)
            if block["type"] == "tool_use":
                calls[str(block["id"])] = str(block["name"])
            if block["type"] == "tool_result":
                answers[str(block["tool_use_id"])] = _text(block["content"])
    assert list(calls) == list(answers)
    return [(id_, name, answers[id_]) for id_, name in calls.items()]


def _text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "\n\n".join(str(cast("dict[str, JsonValue]", part)["text"]) for part in content)


def ids_and_answers(seen: Seen) -> list[tuple[str, str]]:
    return [(id_, answer) for id_, _, answer in pairs(seen)]


# --- 1: the turn died


@TO
def test_killed_between_call_and_result(target: Target) -> None:
    """The call is answered by what is known, and nothing that is not."""
    seen = project([user("Go."), assistant("I read.", call("call_1"))], target)
    assert ids_and_answers(seen) == [("call_1", UNANSWERED)]
    assert seen.kinds() == ["call_unanswered"]


@TO
def test_killed_between_two_parallel_results(target: Target) -> None:
    """The one that is there holds; the other did not complete."""
    record = [user("Go."), assistant(call("call_1"), call("call_2")), tool(result("call_2", "B"))]
    seen = project(record, target)
    assert ids_and_answers(seen) == [("call_1", UNANSWERED), ("call_2", "B")]
    assert ("call_unanswered", 2, 0) in seen.repairs


@TO
@pytest.mark.parametrize("emitted", ['{"path": "a.', "[1]", '"a.py"', "null", "NaN", '{"a":1,"a":2}', "{}{}"])
def test_killed_while_streaming_arguments(target: Target, emitted: str) -> None:
    """What is no JSON object crosses as `{}`, the answer says so, and the exact text never crosses."""
    seen = project([user("Go."), assistant(broken_call("call_1", emitted))], target)
    assert ids_and_answers(seen) == [("call_1", f"{markers.INPUT_INVALID}\n\n{UNANSWERED}")]
    assert seen.repairs == [("input_invalid", 2, 0), ("call_unanswered", 2, 0)]
    assert b'"input":{}' in seen.raw or b'"arguments":"{}"' in seen.raw


@TO
def test_no_arguments_at_all(target: Target) -> None:
    """An empty text is how some models spell a call without arguments: `{}`, and nothing to explain."""
    seen = project([user("Go."), assistant(broken_call("call_1", "")), tool(result("call_1", "A"))], target)
    assert ids_and_answers(seen) == [("call_1", "A")]
    assert seen.repairs == [("input_invalid", 2, 0)]


@TO
def test_broken_arguments_with_a_result(target: Target) -> None:
    """A tool's own answer to them is kept behind the explanation."""
    record = [user("Go."), assistant(broken_call("call_1", "{")), tool(result("call_1", "bad", is_error=True))]
    (answer,) = ids_and_answers(project(record, target))
    assert answer[1].endswith(f"{markers.INPUT_INVALID}\n\nbad")


# --- 2: compaction cut a round

CUT = [
    user("Go."),
    assistant(call("call_1"), call("call_2")),
    tool(result("call_1", "A")),
    tool(result("call_2", "B")),
    assistant("Done."),
    user("Well?"),
]


def compacted(through: int) -> tuple[Compacted]:
    return (
        Compacted(
            id=MarkId("mark_1"),
            at_seq=Seq(9),
            recorded_at="",
            writer=strategies.WRITER,
            through_seq=Seq(through),
            summary=(Text(text="Files were read."),),
        ),
    )


@TO
@pytest.mark.parametrize(
    ("through", "orphans"),
    [(1, []), (2, ["A", "B"]), (3, ["B"]), (4, []), (5, []), (6, [])],
    ids=["before", "call gone", "round split", "round gone", "answer gone", "all"],
)
def test_compaction_through(target: Target, through: int, orphans: list[str]) -> None:
    """A round whose call is hidden is not half shown: results that are left are told in prose, once."""
    seen = project(CUT, target, marks=compacted(through))
    assert ids_and_answers(seen) == ([("call_1", "A"), ("call_2", "B")] if through == 1 else [])
    assert [kind for kind in seen.kinds() if kind == "result_orphaned"] == ["result_orphaned"] * len(orphans)
    told = json.dumps(seen.messages)
    assert [text for text in ("A", "B") if f"Result (read): {text}" in told] == orphans
    assert told.count("Files were read.") == told.count(markers.SUMMARY) == 1


@TO
def test_late_result_of_a_hidden_call(target: Target) -> None:
    """A call behind a compaction takes its late result with it; no call that is seen gets it, though it has the id."""
    record = [
        user("Go."),
        assistant(call("call_0")),
        user("And?"),
        tool(result("call_0", "late")),
        assistant(call("call_0")),
    ]
    seen = project(record, target, marks=compacted(2))
    assert [answer for _, answer in ids_and_answers(seen)] == [UNANSWERED]
    assert "Result (read): late" in json.dumps(seen.messages)


@TO
def test_truncated_history(target: Target) -> None:
    """A record that begins with results has no calls for them: prose, behind a word that nothing came before."""
    seen = project([tool(result("call_1", "A")), assistant("Done."), user("Well?")], target)
    assert ids_and_answers(seen) == []
    assert "Result (unknown): A" in json.dumps(seen.messages[0])


# --- 3: results in the wrong place

CALL = assistant(call("call_1"))
A, B = tool(result("call_1", "A")), tool(result("call_1", "B"))


@TO
@pytest.mark.parametrize(
    ("record", "repairs"),
    [
        ([user("Go."), CALL, A, A, user("Well?")], [("result_duplicate", 4, 0)]),
        ([user("Go."), A, CALL, user("Well?")], [("result_moved", 2, 0)]),
        ([user("Go."), CALL, user("Well?"), A], [("result_moved", 4, 0)]),
        ([user("Go."), CALL, user("Well?"), assistant("Wait."), A], [("result_moved", 5, 0)]),
    ],
    ids=["twice", "before its call", "after the next user message", "after the next answer"],
)
def test_result_in_the_wrong_place(
    target: Target, record: list[Message], repairs: list[tuple[str, int | None, int | None]]
) -> None:
    """It answers its call, once, right behind it."""
    seen = project(record, target)
    assert ids_and_answers(seen) == [("call_1", "A")]
    assert [repair for repair in seen.repairs if repair[0] != "ends_with_assistant"] == repairs


@TO
def test_second_result_that_says_something_else(target: Target) -> None:
    """The first one recorded holds; what the second says is not lost."""
    seen = project([user("Go."), CALL, A, B, user("Well?")], target)
    assert ids_and_answers(seen) == [("call_1", "A")]
    assert json.dumps(seen.messages).count("Result (read): B") == 1
    assert seen.repairs == [("result_duplicate", 4, 0)]


@TO
def test_result_with_the_id_of_another_round(target: Target) -> None:
    """It does not answer the open call of its own round, whose id it does not have."""
    seen = project([user("Go."), CALL, A, assistant(call("call_2")), B, user("Well?")], target)
    assert ids_and_answers(seen) == [("call_1", "A"), ("call_2", UNANSWERED)]
    assert json.dumps(seen.messages).count("Result (read): B") == 1
    assert seen.repairs == [("call_unanswered", 4, 0), ("result_duplicate", 5, 0)]


@TO
def test_empty_ids(target: Target) -> None:
    """An empty id is an id like any other: answered in order, mapped to one that may stand."""
    record = [user("Go."), assistant(call(""), call("")), tool(result("", "A")), tool(result("", "B"))]
    seen = project(record, target)
    assert [answer for _, answer in ids_and_answers(seen)] == ["A", "B"]
    assert seen.kinds() == ["id_mapped", "id_mapped"]


# --- 4: equal ids


@TO
def test_one_id_for_two_calls_of_a_message(target: Target) -> None:
    """They are answered in order; the second crosses under an id of its own."""
    record = [
        user("Go."),
        assistant(call("call_0"), call("call_0", name="list")),
        tool(result("call_0", "A"), result("call_0", "B")),
    ]
    first, second = pairs(project(record, target))
    assert (first, second[1:]) == (("call_0", "read", "A"), ("list", "B"))


@TO
def test_ids_that_begin_anew_each_turn(target: Target) -> None:
    """`call_0` in every turn: each result stays in its own turn, an unanswered one is not answered by the next."""
    record = [
        user("Go."),
        assistant(call("call_0")),
        tool(result("call_0", "A")),
        assistant(call("call_0")),
        assistant(call("call_0")),
        tool(result("call_0", "C")),
    ]
    seen = project(record, target)
    assert [answer for _, answer in ids_and_answers(seen)] == ["A", UNANSWERED, "C"]
    assert [repair for repair in seen.repairs if repair[0] != "id_mapped"] == [("call_unanswered", 4, 0)]


# --- 5: ids of another provider


@TO
@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["functions.read:0", "functions.write:1"], {Target.OPENAI_CHAT}),
        ([LONG_ID + "1", LONG_ID + "2"], set[Target]()),
        (["call|1", "a b", "größe"], set[Target]()),
        (["toolu_01Abc", "call_9xYz", "a" * 9], set(Target)),
    ],
    ids=["dots and colons", "long", "odd letters", "ordinary"],
)
def test_ids_of_another_provider(target: Target, ids: list[str], kept: set[Target]) -> None:
    """Both halves of a pair get the same id, no two calls the same; what may stand stays as it is."""
    record = [user("Go."), assistant(*map(call, ids)), tool(*(result(id_, f"of {id_}") for id_ in ids))]
    seen = project(record, target)
    assert [answer for _, answer in ids_and_answers(seen)] == [f"of {id_}" for id_ in ids]
    if target in kept:
        assert [id_ for id_, _ in ids_and_answers(seen)] == ids
    assert seen.kinds() == ([] if target in kept else ["id_mapped"] * len(ids))
    assert project(record, target).raw == seen.raw


# --- 6: the person speaks in between


@TO
def test_the_person_speaks_between_call_and_result(target: Target) -> None:
    """Results first, then what was said; nobody's words are lost or moved before the call."""
    record = [
        user("Go."),
        assistant(call("call_1"), call("call_2")),
        tool(result("call_1", "A")),
        user("Wait!"),
        tool(result("call_2", "B")),
        user("Never mind."),
    ]
    seen = project(record, target)
    assert ids_and_answers(seen) == [("call_1", "A"), ("call_2", "B")]
    told = json.dumps(seen.messages)
    assert told.index('"B"') < told.index("Wait!") < told.index("Never mind.")
    assert seen.repairs == [("result_moved", 5, 0)]


# --- 13: other writers in between


@TO
def test_a_side_chain_between_call_and_result(target: Target) -> None:
    """Another agent's round inside a round: both stay whole, each with its own results."""
    record = [
        user("Go."),
        assistant(call("call_1", name="agent")),
        user("You are a helper."),
        assistant(call("call_2")),
        tool(result("call_2", "inner")),
        assistant("Found it."),
        tool(result("call_1", "outer")),
        user("Well?"),
    ]
    seen = project(record, target)
    assert ids_and_answers(seen) == [("call_1", "outer"), ("call_2", "inner")]
    assert seen.repairs == [("result_moved", 7, 0)]


@TO
def test_two_writers_interleaved(target: Target) -> None:
    """Rounds of two writers that overlap come out one after the other."""
    record = [
        user("Go."),
        assistant(call("a_1")),
        assistant(call("b_1")),
        tool(result("a_1", "A")),
        tool(result("b_1", "B")),
        assistant(call("a_2")),
        tool(result("a_2", "AA")),
    ]
    seen = project(record, target)
    assert ids_and_answers(seen) == [("a_1", "A"), ("b_1", "B"), ("a_2", "AA")]
    assert seen.repairs == [("result_moved", 4, 0)]
