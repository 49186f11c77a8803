"""The judges judge: each rule has a payload that breaks it and is told so, and one that keeps it and passes."""

import json
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from safd.model.projections import Capabilities, ReasoningCapability, Target
from safd.model.spans import JsonObject, JsonValue
from tests import strategies
from tests.replay import sdk
from tests.replay.given import judge

OPENAI, ANTHROPIC = Target.OPENAI_CHAT, Target.ANTHROPIC
SEEING = Capabilities(vision=True)
THINKING = Capabilities(vision=True, thinking=True)
FIELD = Capabilities(reasoning=ReasoningCapability.FIELD)

SYSTEM: JsonObject = {"role": "system", "content": "Principal."}
GO: JsonObject = {"role": "user", "content": "Go."}
DATA_URL = f"data:image/png;base64,{strategies.PIXEL}"


def chat(*messages: JsonValue) -> bytes:
    return json.dumps({"messages": [SYSTEM, *messages]}).encode()


def asks(*ids: str, name: str = "read", arguments: JsonValue = "{}", **more: JsonValue) -> JsonObject:
    calls: list[JsonValue] = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}} for id_ in ids
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls, **more}


def answers(id_: str, content: JsonValue = "A") -> JsonObject:
    return {"role": "tool", "tool_call_id": id_, "content": content}


def picture(url: str = DATA_URL) -> JsonValue:
    return {"type": "image_url", "image_url": {"url": url}}


GOOD_CHAT = [
    (chat(GO), SEEING),
    (chat(GO, asks("1", "2"), answers("2"), answers("1"), {"role": "assistant", "content": "Done."}), SEEING),
    (chat({"role": "user", "content": [{"type": "text", "text": "Look:"}, picture()]}), SEEING),
    (chat(GO, asks("1", reasoning_content="hm"), answers("1")), FIELD),
    (chat(GO, {"role": "system", "content": "Mind."}), Capabilities(mid_system=True)),
]

BAD_CHAT = [
    ("OC1", chat(GO, asks("1", "2"), answers("1")), SEEING),
    ("OC1", chat(GO, asks("1"), GO, answers("1")), SEEING),
    ("OC2", chat(GO, answers("1")), SEEING),
    ("OC2", chat(GO, asks("1"), answers("1"), answers("1")), SEEING),
    ("OC2", chat(GO, asks("1"), {"role": "tool", "content": "A"}), SEEING),
    ("OC5", chat(GO, asks("x" * 41), answers("x" * 41)), SEEING),
    ("OC5", chat(GO, asks(""), answers("")), SEEING),
    ("OC6", chat(GO, asks("1", name="multi_tool_use.parallel"), answers("1")), SEEING),
    ("OC6", chat(GO, asks("1", name="a" * 65), answers("1")), SEEING),
    ("OC7", chat(GO, asks("1", arguments=""), answers("1")), SEEING),
    ("OC7", chat(GO, asks("1", arguments='{"a":'), answers("1")), SEEING),
    ("OC7", chat(GO, asks("1", arguments="[1]"), answers("1")), SEEING),
    ("OC7", chat(GO, asks("1", arguments='{"a":NaN}'), answers("1")), SEEING),
    ("OC7", chat(GO, asks("1", arguments={}), answers("1")), SEEING),
    ("OC8", chat(GO, asks("1"), answers("1", [picture()])), SEEING),
    ("OC8", chat({"role": "user", "content": [picture("data:image/bmp;base64,AAAA")]}), SEEING),
    ("OC8", chat({"role": "user", "content": [picture("data:image/png;base64,!")]}), SEEING),
    ("OC9", chat({"role": "user", "content": None}), SEEING),
    ("OC9", chat(GO, asks("1"), answers("1", None)), SEEING),
    ("OC9", chat({"role": "user", "content": "Go.", "id": 1}), SEEING),
    ("OC9", chat("Go."), SEEING),
    ("OC9", b'{"messages":[],"model":"m"}', SEEING),
    ("OC10", chat(GO, {"role": "system", "content": "Mind."}), SEEING),
    ("OC10", chat(GO, {"role": "developer", "content": "Mind."}), SEEING),
    ("OC11", chat({"role": "user", "content": "\ud800"}), SEEING),
    ("OC11", b'{"messages":[{"role":"user","content":"\xff"}]}', SEEING),
    ("OC11", b'{"messages":[{"role":"user","role":"user","content":"Go."}]}', SEEING),
    ("A7", chat({"role": "user", "content": " "}), SEEING),
    ("A7", chat(GO, {"role": "assistant", "content": ""}), SEEING),
    ("A7", chat(GO, {"role": "assistant", "content": "x", "tool_calls": []}), SEEING),
    ("A7", chat({"role": "user", "content": [{"type": "text", "text": "Go."}]}), SEEING),
    ("A7", chat({"role": "user", "content": [picture()]}), Capabilities()),
    ("A7", chat({"role": "assistant", "content": "Hello."}), SEEING),
    ("A7", chat(), SEEING),
    ("D4", chat(GO, asks("1"), answers("1"), asks("1"), answers("1")), SEEING),
    ("R17", chat(GO, asks("1"), answers("1")), FIELD),
    ("R17", chat(GO, asks("1", reasoning_content=""), answers("1")), FIELD),
    ("R18", chat(GO, asks("1", reasoning_content="hm"), answers("1")), SEEING),
]


def claude(*messages: JsonValue, system: JsonValue = None) -> bytes:
    found: JsonValue = [text("Principal.")] if system is None else system
    return json.dumps({"system": found, "messages": list(messages)}).encode()


def text(said: str) -> JsonObject:
    return {"type": "text", "text": said}


def use(id_: str = "t1", name: str = "read", given: JsonValue = None) -> JsonObject:
    return {"type": "tool_use", "id": id_, "name": name, "input": {} if given is None else given}


def found(id_: str = "t1", content: JsonValue = "A", **more: JsonValue) -> JsonObject:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def shot(data: str = strategies.PIXEL, kind: str = "image/png") -> JsonObject:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def mind(thought: str = "hm", signature: str = "c2ln") -> JsonObject:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def u(*blocks: JsonValue) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def a(*blocks: JsonValue) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


GOOD_CLAUDE = [
    (claude(u(text("Go."))), SEEING),
    (claude(u(text("Go.")), a(use("1"), use("2")), u(found("2"), found("1"), text("And?"))), SEEING),
    (claude(u(text("Go.")), a(mind(), use()), u(found(content=[text("A"), shot()], is_error=True))), THINKING),
    (claude(u(shot(), text("Look."))), SEEING),
    (claude(u(text("Go.")), {"role": "system", "content": [text("Mind.")]}), Capabilities(mid_system=True)),
]

BAD_CLAUDE = [
    ("AM1", claude(u(text("Go.")), a(use()), u(text("And?"))), SEEING),
    ("AM1", claude(u(text("Go.")), a(use("1"), use("2")), u(found("1"))), SEEING),
    ("AM1", claude(u(text("Go.")), a(use()), u(text("First."), found())), SEEING),
    ("AM1", claude(u(text("Go.")), a(use())), SEEING),
    ("AM1", claude(u(text("Go.")), a(use()), u(found(is_error=False))), SEEING),
    ("AM1", claude(u(text("Go.")), a(use()), u(found(tool_name="read"))), SEEING),
    ("AM2", claude(u(found(), text("Go."))), SEEING),
    ("AM2", claude(u(text("Go.")), a(use()), u(found()), a(text("x")), u(found())), SEEING),
    ("AM3", claude(u(text("Go.")), a(use()), u(found(), found())), SEEING),
    ("AM4", claude(u(text("Go.")), a(use()), u(found()), a(use()), u(found())), SEEING),
    ("AM5", claude(u(text("Go.")), a(use("a.b")), u(found("a.b"))), SEEING),
    ("AM5", claude(u(text("Go.")), a(use("")), u(found(""))), SEEING),
    ("AM6", claude(u(text("Go.")), a(use(name="a" * 201)), u(found())), SEEING),
    ("AM6", claude(u(text("Go.")), a(use(name="a b")), u(found())), SEEING),
    ("AM7", claude(u(text("Go.")), a(use(given="{}")), u(found())), SEEING),
    ("AM7", claude(u(text("Go.")), a(use(given=[])), u(found())), SEEING),
    ("AM8", claude(u(text(" "))), SEEING),
    ("AM8", claude(u()), SEEING),
    ("AM8", claude({"role": "user", "content": "Go."}), SEEING),
    ("AM8", claude(u(text("Go.")), system=[text("")]), SEEING),
    ("AM8", claude(u(text("Go.")), a(use()), u(found(content=""))), SEEING),
    ("AM8", claude(u(text("Go.")), a(use()), u(found(content=[]))), SEEING),
    ("AM9", claude(u(text("Go.")), a(text("Done. "))), SEEING),
    ("AM10", claude(u(text("Go.")), a(text("x"), mind()), u(text("And?"))), THINKING),
    ("AM12", claude(u(text("Go.")), a(mind(), text("x")), u(text("And?"))), SEEING),
    ("AM12", claude(u(text("Go.")), a(mind(signature=""), text("x")), u(text("And?"))), THINKING),
    ("AM12", claude(u(text("Go.")), a({"type": "redacted_thinking", "data": ""}, text("x"))), THINKING),
    ("AM13", claude(a(text("Hello."))), SEEING),
    ("AM13", claude(u(text("Go.")), u(text("On."))), SEEING),
    ("AM13", claude({"role": "tool", "content": [text("x")]}), SEEING),
    ("AM13", claude(u(text("Go.")), {"role": "system", "content": [text("Mind.")]}), SEEING),
    ("AM13", claude({"role": "user", "content": [text("Go.")], "id": "x"}), SEEING),
    ("AM13", b'{"messages":[]}', SEEING),
    ("AM14", claude(u(shot(kind="image/bmp"))), SEEING),
    ("AM14", claude(u(shot(data="!"))), SEEING),
    ("AM14", claude(u(shot(data=""))), SEEING),
    ("AM14", claude(u(shot())), Capabilities()),
    ("AM14", claude(u({"type": "image", "source": {"type": "url", "url": "file:///a.png"}})), SEEING),
    ("AM14", claude(u(text("Go.")), a(text("x"), shot()), u(text("And?"))), SEEING),
    ("AM14", claude(u(text("Go."), use())), SEEING),
    ("AM15", claude(u(shot(data=strategies.WALL))), SEEING),
    ("AM15", claude(u(shot(data="A" * (5 * 1024 * 1024 + 4)))), SEEING),
    ("AM15", claude(u(*[shot()] * 101)), SEEING),
    ("AM15", claude(u(*[shot()] * 20, shot(data=strategies.WIDE))), SEEING),
    ("AM18", claude(u(text("\udc00"))), SEEING),
    ("AM18", b'{"system":[],"messages":[{"role":"user","content":[{"type":"text","text":NaN}]}]}', SEEING),
]


@pytest.mark.parametrize(("raw", "capabilities"), GOOD_CHAT)
def test_chat_that_keeps_the_rules(raw: bytes, capabilities: Capabilities) -> None:
    """Neither the judge nor the SDK has anything against it."""
    assert judge(OPENAI, raw, capabilities) == []
    sdk.check(OPENAI, json.loads(raw)["messages"])


@pytest.mark.parametrize(("rule", "raw", "capabilities"), BAD_CHAT)
def test_chat_that_breaks_a_rule(rule: str, raw: bytes, capabilities: Capabilities) -> None:
    """The rule is named."""
    assert rule in {broken.split(" ")[0] for broken in judge(OPENAI, raw, capabilities)}


@pytest.mark.parametrize(("raw", "capabilities"), GOOD_CLAUDE)
def test_messages_that_keep_the_rules(raw: bytes, capabilities: Capabilities) -> None:
    """Neither the judge nor the SDK has anything against it."""
    assert judge(ANTHROPIC, raw, capabilities) == []
    sdk.check(ANTHROPIC, json.loads(raw)["messages"])


@pytest.mark.parametrize(("rule", "raw", "capabilities"), BAD_CLAUDE)
def test_messages_that_break_a_rule(rule: str, raw: bytes, capabilities: Capabilities) -> None:
    """The rule is named."""
    assert rule in {broken.split(" ")[0] for broken in judge(ANTHROPIC, raw, capabilities)}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (OPENAI, {"role": "tool", "content": "A"}),
        (OPENAI, {"role": "user", "content": None}),
        (OPENAI, {"role": "nobody", "content": "A"}),
        (OPENAI, asks("1", arguments={})),
        (OPENAI, answers("1", [picture()])),
        (ANTHROPIC, a({"type": "thinking", "thinking": "hm"})),
        (ANTHROPIC, a(use(given="{}"))),
        (ANTHROPIC, u(shot(kind="image/bmp"))),
        (ANTHROPIC, u(found(content=[{"type": "video"}]))),
        (ANTHROPIC, {"role": "tool", "content": [text("x")]}),
    ],
)
def test_the_sdk_is_walked_to_the_leaves(target: Target, message: JsonObject) -> None:
    """What stands deep inside lazily checked fields is refused too."""
    check: Callable[[Target, list[JsonObject]], None] = sdk.check
    with pytest.raises((ValidationError, KeyError)):
        check(target, [message])
