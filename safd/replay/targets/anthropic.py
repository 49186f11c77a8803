"""Anthropic Messages.

| rule | source |
| --- | --- |
| all results of an assistant message stand first in the very next user message, one for each call | AM1, AM2, AM3 |
| call ids `[a-zA-Z0-9_-]`, at most 64, unique in the whole request | AM4, AM5, A8 |
| names at most 200 | AM6 |
| `input` is an object | AM7 |
| no empty or white text, no empty message | AM8, BC6 |
| a history that ends with the assistant does not end in white space; newer models refuse it at all: reported | AM9 |
| thinking whole and byte-exact, same provider and model, in its order, never last in a message | AM10, AM11 |
| thinking goes back only while the request thinks; the last declaration should begin with it: reported | AM12 |
| roles user and assistant, one message where they repeat, the user first | AM13 |
| a system message inside the history only by capability, after the user's side, never first | AM13 |
| images png, jpeg, gif, webp in user messages and in results, not in the assistant's | AM14 |
| 100 images a request; beyond 20 no side above 2000 pixels; never a side above 8000; 5 MB of base64 each | AM15 |
| no lone surrogates | AM18 |

The system text is a list of text blocks; the principal's block is the last one. No `cache_control` is set: where the
caches break is the caller's choice (AM16 allows four).
"""

import re
from typing import TypeAlias, assert_never

import orjson
from orjson import Fragment

from safd.model.projections import ReasoningCapability
from safd.replay import markers
from safd.replay.images import Address, Native
from safd.replay.wire import (
    AssistantSide,
    ImageBudget,
    Picture,
    Results,
    Room,
    Rules,
    Shape,
    Slot,
    Spelled,
    SystemHere,
    Thought,
    UserSide,
    WireCall,
    WireResult,
)

Json: TypeAlias = dict[str, object]

RULES = Rules(
    call_id=re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    name_limit=200,
    image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    image_chars=5 * 1024 * 1024,
    image_side=8000,
    images_in_results=True,
    reasoning=ReasoningCapability.SIGNED,
    reasoning_ways=frozenset({ReasoningCapability.SIGNED}),
    thinking_switch=True,
    ends_with_user=True,
    error_flag=True,
)
BUDGET = ImageBudget(most=100, step=50, many=20)
_UNSEEN = orjson.dumps({"type": "text", "text": markers.IMAGE_BUDGET})


def spell(shape: Shape) -> list[Spelled]:
    match shape:
        case UserSide(parts=parts):
            return [_user(*_heard(parts))]
        case AssistantSide(parts=parts):
            return [_assistant(parts)]
        case Results(results=results):
            return [_user(*_results(results))]
        case SystemHere(texts=texts, otherwise=repair):
            labelled = _user(*_heard([markers.SYSTEM_HERE, *texts]))
            body = orjson.dumps([_text(text) for text in texts])[1:-1]
            return [Spelled("system", body, otherwise=(labelled, repair))]
        case _ as never:
            assert_never(never)


def close(role: str, body: bytes) -> bytes:
    return b'{"role":"%b","content":[%b]}' % (role.encode(), body)


def ending(last: Spelled) -> bytes | None:
    """The last message without white space at its end; None where there is none."""
    text = last.last_text
    if last.role != "assistant" or text is None or text == text.rstrip():
        return None
    return last.body[: -len(orjson.dumps(_text(text)))] + orjson.dumps(_text(text.rstrip()))


def opening(texts: list[str]) -> bytes:
    return b'{"system":%b,"messages":[' % orjson.dumps([_text(text) for text in texts])


def _user(body: bytes, slots: tuple[Slot, ...]) -> Spelled:
    return Spelled("user", body, slots)


def _heard(parts: list[str | Picture]) -> tuple[bytes, tuple[Slot, ...]]:
    """The blocks of a user message, joined, and where its images stand in them."""
    if all(isinstance(part, str) for part in parts):
        return orjson.dumps([{"type": "text", "text": part} for part in parts])[1:-1], ()
    blocks: list[bytes] = []
    slots: list[Slot] = []
    at = 0
    for part in parts:
        if isinstance(part, str):
            block = orjson.dumps(_text(part))
        else:
            block = orjson.dumps(_image(part))
            slots.append(Slot(at, at + len(block), _UNSEEN, part.place, part.large))
        blocks.append(block)
        at += len(block) + 1
    return b",".join(blocks), tuple(slots)


def _results(results: list[WireResult]) -> tuple[bytes, tuple[Slot, ...]]:
    blocks: list[bytes] = []
    slots: list[Slot] = []
    at = 0
    for result in results:
        parts = result.parts
        head: Json = {"type": "tool_result", "tool_use_id": result.call_id}
        if len(parts) == 1 and isinstance(parts[0], str):
            head["content"] = parts[0]
            if result.is_error:
                head["is_error"] = True
            block = orjson.dumps(head)
        else:
            body, inner = _heard(parts)
            start = orjson.dumps(head)[:-1] + b',"content":['
            slots += (slot.shifted(at + len(start)) for slot in inner)
            block = start + body + (b'],"is_error":true}' if result.is_error else b"]}")
        blocks.append(block)
        at += len(block) + 1
    return b",".join(blocks), tuple(slots)


def _assistant(parts: list[str | Thought | WireCall]) -> Spelled:
    blocks: list[Json] = []
    declares = False
    for part in parts:
        match part:
            case str():
                blocks.append({"type": "text", "text": part})
            case Thought(redacted=str() as data):
                blocks.append({"type": "redacted_thinking", "data": data})
            case Thought():
                blocks.append({"type": "thinking", "thinking": part.reasoning, "signature": part.signature})
            case WireCall():
                declares = True
                blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": Fragment(part.arguments)})
            case _ as never:
                assert_never(never)
    last = parts[-1]
    return Spelled(
        "assistant",
        orjson.dumps(blocks)[1:-1],
        opens_with_thought=isinstance(parts[0], Thought),
        declares=declares,
        last_text=last if isinstance(last, str) else None,
    )


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _image(picture: Picture) -> Json:
    seen = picture.seen
    match seen:
        case Native(media_type=media_type, data=data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case Address(url=url):
            return {"type": "image", "source": {"type": "url", "url": url}}
        case _ as never:
            assert_never(never)


ROOM = Room(rules=RULES, merges=True, budget=BUDGET, spell=spell, close=close, ending=ending, opening=opening)
