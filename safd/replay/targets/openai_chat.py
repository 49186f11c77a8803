"""OpenAI Chat Completions, and the many servers that speak it.

The strictest of them decide, since which one it is is not known (wire rules A1 and A7, measured on 361 templates):

| rule | source |
| --- | --- |
| all calls of a message in one; each answered by `role: tool` messages directly after it | OC1 to OC4 |
| call ids of at most 40 characters | OC5 |
| names `[a-zA-Z0-9_-]`, at most 64 | OC6 |
| `arguments` is a string that holds a JSON object | OC7, A7 |
| images in user messages only; a tool's image stands behind the last result of its round | OC8, openai-openapi#523 |
| content is a string, `""` beside calls, never null or missing; a list only where an image stands | OC9, A7 |
| one system message, at the start; no developer role; at least one user message, and it comes first | OC10, A7 |
| no lone surrogates | OC11 |
| nothing empty or of white space, but the content beside calls | A7 (Kimi, GLM, Mistral) |
| reasoning back: not at all, in `reasoning_content`, or inline in `<think>`: the caller knows | A7 servers |
| no flag for an error: the text begins with `Error` | - |
"""

import re
from typing import assert_never

import orjson

from safd.model.projections import ReasoningCapability
from safd.replay.images import Address, Native
from safd.replay.wire import (
    AssistantSide,
    Picture,
    Results,
    Room,
    Rules,
    Shape,
    Spelled,
    SystemHere,
    Thought,
    UserSide,
    WireCall,
)

PARAGRAPH = "\n\n"

RULES = Rules(
    call_id=re.compile(r"[a-zA-Z0-9_.:-]{1,40}"),
    name_limit=64,
    image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    image_chars=None,
    image_side=None,
    images_in_results=False,
    reasoning=ReasoningCapability.OMIT,
    reasoning_ways=frozenset({ReasoningCapability.FIELD, ReasoningCapability.INLINE}),
    thinking_switch=False,
    ends_with_user=False,
    error_flag=False,
)


def spell(shape: Shape) -> list[Spelled]:
    match shape:
        case UserSide(parts=parts):
            return [Spelled("user", orjson.dumps({"role": "user", "content": _content(parts)}))]
        case AssistantSide(parts=parts):
            return [Spelled("assistant", orjson.dumps(_assistant(parts)))]
        case Results(results=results):
            return [
                Spelled(
                    "tool", orjson.dumps({"role": "tool", "tool_call_id": each.call_id, "content": _joined(each.parts)})
                )
                for each in results
            ]
        case SystemHere(texts=texts):
            return [Spelled("system", orjson.dumps({"role": "system", "content": PARAGRAPH.join(texts)}))]
        case _ as never:
            assert_never(never)


def opening(texts: list[str]) -> bytes:
    if not texts:
        return b'{"messages":['
    return b'{"messages":[' + orjson.dumps({"role": "system", "content": PARAGRAPH.join(texts)})


def _assistant(parts: list[str | Thought | WireCall]) -> dict[str, object]:
    said: list[str] = []
    thought: list[str] = []
    calls: list[dict[str, object]] = []
    for part in parts:
        match part:
            case str():
                said.append(part)
            case Thought(inline=True):
                said.append(f"<think>\n{part.reasoning}\n</think>")
            case Thought():
                thought.append(part.reasoning)
            case WireCall():
                function = {"name": part.name, "arguments": part.arguments}
                calls.append({"id": part.id, "type": "function", "function": function})
            case _ as never:
                assert_never(never)
    message: dict[str, object] = {"role": "assistant", "content": PARAGRAPH.join(said)}
    if thought:
        message["reasoning_content"] = PARAGRAPH.join(thought)
    if calls:
        message["tool_calls"] = calls
    return message


def _content(parts: list[str | Picture]) -> str | list[dict[str, object]]:
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return PARAGRAPH.join(texts)
    return [{"type": "text", "text": part} if isinstance(part, str) else _image(part) for part in parts]


def _joined(parts: list[str | Picture]) -> str:
    return PARAGRAPH.join(part for part in parts if isinstance(part, str))


def _image(picture: Picture) -> dict[str, object]:
    seen = picture.seen
    match seen:
        case Native(media_type=media_type, data=data):
            return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
        case Address(url=url):
            return {"type": "image_url", "image_url": {"url": url}}
        case _ as never:
            assert_never(never)


def _close(_role: str, body: bytes) -> bytes:
    return body


def _as_it_is(_last: Spelled) -> None:
    """No rule about how a history ends."""


ROOM = Room(rules=RULES, merges=False, budget=None, spell=spell, close=_close, ending=_as_it_is, opening=opening)
