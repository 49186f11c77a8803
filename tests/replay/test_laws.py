"""The ten laws of replay as properties over hostile records, for every target."""

import hashlib
import json
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.model.blocks import Block, Image, Reasoning, Text, ToolResult, ToolUse
from safd.model.messages import StoredMessage
from safd.model.projections import PrefixBreak, ReasoningCapability, Repair, RepairKind, StablePrefix, Target
from safd.model.spans import JsonObject, JsonValue
from safd.replay import markers
from safd.replay.project import Projection, Rendered
from safd.replay.sight import sight
from tests import strategies
from tests.replay import importing, sdk
from tests.replay.given import PRINCIPAL, history, judge
from tests.replay.rules.anthropic import needs_thinking
from tests.replay.rules.strict import strings
from tests.strategies import TOKEN, Case

pytestmark = pytest.mark.parametrize("target", Target)


def fed(case: Case, target: Target, record: tuple[StoredMessage, ...] | None = None) -> Projection:
    projection = Projection.start(target, case.capabilities, case.provider, case.model, case.marks)
    projection.extend(case.record if record is None else record)
    return projection


def shown(projection: Projection, case: Case, since: StablePrefix | None = None) -> Rendered:
    return projection.render(system=("caller",), principal_text=PRINCIPAL, live_after=case.live_after, since=since)


def joined(rendered: Rendered) -> bytes:
    return b"".join(rendered.payload)


@given(case=strategies.cases())
def test_valid_always(target: Target, case: Case) -> None:
    """Law 6: every payload passes its target's rules and the provider's own types, or says what the caller must do."""
    rendered = shown(fed(case, target), case)
    raw = joined(rendered)
    assert judge(target, raw, case.capabilities) == []
    payload: JsonObject = json.loads(raw)
    messages = payload["messages"]
    assert isinstance(messages, list)
    sdk.check(target, [message for message in messages if isinstance(message, dict)])
    if target is Target.ANTHROPIC:
        kinds = {(repair.kind, repair.block) for repair in rendered.repairs}
        missing = case.capabilities.thinking and needs_thinking(raw)
        assert ((RepairKind.REASONING_MISSING, None) in kinds) is missing
        ends_with_assistant = '"role":"assistant"' in json.dumps(messages[-1], separators=(",", ":"))[:24]
        assert ((RepairKind.ENDS_WITH_ASSISTANT, None) in kinds) is ends_with_assistant


@given(case=strategies.cases(), data=st.data())
def test_any_split_gives_the_same(target: Target, case: Case, data: st.DataObject) -> None:
    """However the messages are fed and however often they are looked at, the answer is the same, byte for byte."""
    whole = shown(fed(case, target), case)
    pieces = Projection.start(target, case.capabilities, case.provider, case.model, case.marks)
    left = case.record
    while left:
        size = data.draw(st.integers(1, len(left)))
        pieces.extend(left[:size])
        left = left[size:]
        if data.draw(st.booleans()):
            live = data.draw(st.none() | st.integers(0, len(case.record)))
            pieces.render(system=(), principal_text="", live_after=live, since=None)
    again = shown(pieces, case)
    assert joined(again) == joined(whole)
    assert again.repairs == whole.repairs
    assert again.stable_prefix == whole.stable_prefix


@given(case=strategies.cases())
def test_prefix_is_stable(target: Target, case: Case) -> None:
    """Law 8: what one answer calls stable stands at the start of the history after every append, whoever runs."""
    projection = fed(case, target, ())
    stable = b""
    before = 0
    for stored in case.record:
        projection.extend([stored])
        rendered = shown(projection, case)
        bytes_ = history(joined(rendered))
        assert bytes_.startswith(stable)
        prefix = rendered.stable_prefix
        assert prefix.messages >= before
        stable, before = bytes_[: _length(bytes_, prefix.messages)], prefix.messages
        assert hashlib.sha256(stable).hexdigest() == prefix.sha256


def _length(bytes_: bytes, messages: int) -> int:
    """How long the first messages are, joined."""
    text, at = bytes_.decode("utf-8"), 0
    for _ in range(messages):
        at += text[at:].startswith(",")
        at = json.JSONDecoder().raw_decode(text, at)[1]
    return len(text[:at].encode("utf-8"))


@given(case=strategies.cases(marked=False))
def test_stable_prefix_reaches_the_first_open_call(target: Target, case: Case) -> None:
    """Law 8: with every call answered in its place, all but what may still merge or bind is stable."""
    answered = shown(fed(case, target), case)
    open_kinds = {RepairKind.CALL_UNANSWERED, RepairKind.CALL_RUNNING, RepairKind.RESULT_ORPHANED}
    if open_kinds.isdisjoint(repair.kind for repair in answered.repairs):
        payload = json.loads(joined(answered))["messages"]
        total = len(payload) - (target is Target.OPENAI_CHAT)
        assert total - answered.stable_prefix.messages <= 1


@given(case=strategies.cases(), data=st.data())
def test_since(target: Target, case: Case, data: st.DataObject) -> None:
    """From a stable prefix that stands, the history goes on behind it; from any other, it is whole, with a reason."""
    cut = data.draw(st.integers(0, len(case.record)))
    earlier = shown(fed(case, target, case.record[:cut]), case).stable_prefix
    projection = fed(case, target)
    whole = shown(projection, case)
    resumed = shown(projection, case, earlier)
    assert resumed.resumed
    assert resumed.prefix_break is None
    assert resumed.stable_prefix == whole.stable_prefix
    full, rest = history(joined(whole)), history(joined(resumed))
    sent = full[: _length(full, earlier.messages)]
    assert b",".join(part for part in (sent, rest) if part) == full
    assert judge(target, joined(whole), case.capabilities) == []
    assert set(resumed.repairs) <= set(whole.repairs)
    wrong = StablePrefix(messages=earlier.messages, sha256=hashlib.sha256(b"something else").hexdigest())
    broken = shown(projection, case, wrong)
    assert not broken.resumed
    assert isinstance(broken.prefix_break, PrefixBreak)
    assert joined(broken) == joined(whole)


@given(case=strategies.cases())
def test_fixed_point(target: Target, case: Case) -> None:
    """Law 7: projecting what the payload would be imported as changes nothing more."""
    first = joined(shown(fed(case, target), case))
    back = strategies.stored(importing.messages(target, first, case.provider, case.model))
    again = Projection.start(target, case.capabilities, case.provider, case.model)
    again.extend(back)
    second = joined(again.render(system=("caller",), principal_text=PRINCIPAL, live_after=None, since=None))
    assert history(second) == history(first)


@given(case=strategies.cases())
def test_each_result_once(target: Target, case: Case) -> None:
    """Law 3: each text of a result in sight occurs exactly once, or is cleared, or says what another one said."""
    rendered = shown(fed(case, target), case)
    seen = sight(case.marks)
    text = joined(rendered).decode("utf-8")
    same = {(r.message_id, r.block) for r in rendered.repairs if r.kind is RepairKind.RESULT_DUPLICATE}
    cleared = {(r.message_id, r.block) for r in rendered.repairs if r.kind is RepairKind.RESULT_CLEARED}
    owners: dict[str, list[bool]] = {}
    for stored in case.record:
        for index, block in enumerate(stored.message.blocks):
            if isinstance(block, ToolResult) and stored.seq > seen.through:
                place = (stored.id, index)
                told = place not in seen.cleared
                assert (place in cleared) or told or place in same
                for token in _tokens(block):
                    owners.setdefault(token, []).append(told)
    for token, told_by in owners.items():
        count = len(re.findall(re.escape(token), text))
        assert count <= sum(told_by) or len(told_by) > 1
        assert count >= 1 or not any(told_by) or len(told_by) > 1
        if len(told_by) == 1:
            assert count == told_by[0]


def _tokens(block: ToolResult) -> list[str]:
    texts = [block.output] if isinstance(block.output, str) else [p.text for p in block.output if isinstance(p, Text)]
    return [token for text in texts for token in TOKEN.findall(text)]


@given(case=strategies.cases())
def test_reasoning_is_not_speech(target: Target, case: Case) -> None:
    """Law 5: no thought leaks into text; signed ones cross to their own provider and model alone, byte-exact."""
    if target is Target.OPENAI_CHAT and case.capabilities.reasoning is ReasoningCapability.INLINE:
        return
    payload: JsonObject = json.loads(joined(shown(fed(case, target), case)))
    thoughts = list(_thinking(payload))
    for thinking in thoughts:
        assert target is not Target.ANTHROPIC or case.capabilities.thinking
        made = [
            (block.reasoning, block.signature)
            for stored in case.record
            for block in stored.message.blocks
            if isinstance(block, Reasoning)
            and (block.provider or stored.message.provider, block.model or stored.message.model)
            == (case.provider, case.model)
        ]
        assert target is not Target.ANTHROPIC or thinking in made
    assert not any("THOUGHT" in text for text in strings(_without_thinking(payload)))


def _thinking(value: JsonValue) -> list[tuple[str, str]]:
    match value:
        case {"type": "thinking", "thinking": str() as text, "signature": str() as signature}:
            return [(text, signature)]
        case dict():
            return [found for item in value.values() for found in _thinking(item)]
        case list():
            return [found for item in value for found in _thinking(item)]
        case _:
            return []


def _without_thinking(value: JsonValue) -> JsonValue:
    match value:
        case {"type": "thinking" | "redacted_thinking"}:
            return None
        case dict():
            return {key: _without_thinking(item) for key, item in value.items() if key != "reasoning_content"}
        case list():
            return [_without_thinking(item) for item in value]
        case _:
            return value


@given(case=strategies.cases())
def test_doing_is_not_saying(target: Target, case: Case) -> None:
    """Law 3: no arguments outside a call, no result and no marker in the assistant's mouth."""
    payload: JsonObject = json.loads(joined(shown(fed(case, target), case)))
    messages = payload["messages"]
    assert isinstance(messages, list)
    for message in messages:
        assert isinstance(message, dict)
        said = [text for text in strings(_without_calls(message)) if text != message["role"]]
        assert not any("ARG" in text for text in said)
        if message["role"] == "assistant":
            ours = (markers.NOT_COMPLETED, markers.STILL_RUNNING, markers.NO_OUTPUT, markers.SUMMARY, "[Image", "OUT")
            assert not any(marker in text for text in said for marker in ours)


def _without_calls(value: JsonValue) -> JsonValue:
    match value:
        case {"type": "tool_use"}:
            return None
        case dict():
            return {key: _without_calls(item) for key, item in value.items() if key != "tool_calls"}
        case list():
            return [_without_calls(item) for item in value]
        case _:
            return value


@given(case=strategies.cases())
def test_one_declaration_a_round(target: Target, case: Case) -> None:
    """Laws 1 and 2: a message's calls cross together, in order, and as many as were recorded."""
    payload: JsonObject = json.loads(joined(shown(fed(case, target), case)))
    through = sight(case.marks).through
    recorded = [
        sum(isinstance(block, ToolUse) for block in stored.message.blocks)
        for stored in case.record
        if stored.seq > through
    ]
    messages = payload["messages"]
    assert isinstance(messages, list)
    declared: list[int] = []
    for message in messages:
        assert isinstance(message, dict)
        calls = message.get("tool_calls", [])
        content = message["content"]
        natives = content if isinstance(content, list) else []
        assert isinstance(calls, list)
        count = len(calls) + sum(isinstance(block, dict) and block["type"] == "tool_use" for block in natives)
        declared.append(count)
    assert [count for count in declared if count] == [count for count in recorded if count]


@given(case=strategies.cases())
def test_honest(target: Target, case: Case) -> None:
    """Law 9: a block in sight crosses, or a repair names it; repairs name blocks that exist, each only once a kind."""
    rendered = shown(fed(case, target), case)
    text = joined(rendered).decode("utf-8")
    named = {(repair.message_id, repair.block) for repair in rendered.repairs}
    through = sight(case.marks).through
    for stored in case.record:
        for index, block in enumerate(stored.message.blocks):
            if stored.seq > through and (stored.id, index) not in named:
                assert _crosses(block, text), (stored.seq, index, block)
    sizes = {stored.id: len(stored.message.blocks) for stored in case.record}
    for repair in rendered.repairs:
        if repair.message_id is not None:
            assert repair.block is None or repair.block < sizes[repair.message_id]


def _crosses(block: Block, text: str) -> bool:
    match block:
        case Text(text=said):
            return all(token in text for token in TOKEN.findall(said)) and bool(said.strip())
        case Reasoning():
            opaque = block.redacted or block.signature or block.reasoning
            return all(part in text for part in TOKEN.findall(block.reasoning) or [opaque])
        case ToolUse():
            return True
        case ToolResult():
            return all(token in text for token in _tokens(block))
        case Image():
            return "image" in text


@given(case=strategies.cases(marked=False))
def test_live_is_not_dead(target: Target, case: Case) -> None:
    """Law 10: the open turn's unanswered calls are still running, all others did not complete; neither is stored."""
    text = joined(shown(fed(case, target), case)).decode("utf-8")
    repairs: tuple[Repair, ...] = shown(fed(case, target), case).repairs
    seqs = {stored.id: stored.seq for stored in case.record}
    running = [repair for repair in repairs if repair.kind is RepairKind.CALL_RUNNING]
    dead = [repair for repair in repairs if repair.kind is RepairKind.CALL_UNANSWERED]
    assert text.count(markers.STILL_RUNNING) == len(running)
    assert text.count(markers.NOT_COMPLETED) == len(dead)
    live_after = case.live_after
    for repair in running:
        assert repair.message_id is not None
        assert live_after is not None
        assert seqs[repair.message_id] > live_after
    ended = shown(fed(attrs.evolve(case, live_after=None), target), attrs.evolve(case, live_after=None))
    assert RepairKind.CALL_RUNNING not in {repair.kind for repair in ended.repairs}
    assert joined(ended).decode("utf-8").count(markers.NOT_COMPLETED) == len(running) + len(dead)
