"""A strict judge of Anthropic Messages payloads, written from the provider's rules (AM1 to AM18).

It knows nothing of the code that it judges.
"""

import base64
import re
from itertools import pairwise

from safd.model.projections import Capabilities
from safd.model.spans import JsonValue
from tests.replay.rules.strict import loaded, strings

Json = dict[str, JsonValue]

ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")
TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
THINKING = {"thinking", "redacted_thinking"}
ALLOWED = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use"} | THINKING,
    "system": {"text"},
}
IMAGES_MOST = 100
IMAGES_MANY = 20


def violations(raw: bytes, capabilities: Capabilities) -> list[str]:
    """Each broken rule with its id; none where the provider would take the payload."""
    try:
        payload = loaded(raw)
    except ValueError as error:
        return [f"AM18 not valid Unicode JSON: {error}"]
    match payload:
        case {"system": list() as system, "messages": list() as messages, **rest} if not rest:
            pass
        case _:
            return ["AM13 the payload is {system: [...], messages: [...]}"]
    found = ["AM18 lone surrogate" for text in strings(payload) if re.search("[\ud800-\udfff]", text)]
    found += [f"AM8 system: {broken}" for block in system for broken in _block(block, "system", capabilities)]
    for index, message in enumerate(messages):
        found += [f"{broken} (message {index})" for broken in _message(message, capabilities)]
    if found:
        return found
    shapes = [message for message in messages if isinstance(message, dict)]
    return _order(shapes, capabilities) + _pairs(shapes) + _images(shapes) + _end(shapes, capabilities)


def needs_thinking(raw: bytes) -> bool:
    """AM12, first half: the last assistant message declares calls and does not begin with thinking."""
    payload = loaded(raw)
    messages = payload["messages"] if isinstance(payload, dict) else []
    assert isinstance(messages, list)
    last = [m for m in messages if isinstance(m, dict) and m["role"] == "assistant"][-1:]
    if not last:
        return False
    kinds = [block["type"] for block in _blocks(last[0])]
    return "tool_use" in kinds and kinds[0] not in THINKING


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _message(message: JsonValue, capabilities: Capabilities) -> list[str]:
    if not isinstance(message, dict) or set(message) != {"role", "content"}:
        return ["AM13 a message is {role, content}"]
    role, content = message["role"], message["content"]
    if role not in ALLOWED:
        return [f"AM13 role {role!r}"]
    if not isinstance(content, list) or not content:
        return ["AM8 content is a list of blocks, and not empty"]
    found = [broken for block in content for broken in _block(block, str(role), capabilities)]
    kinds = [block.get("type") for block in _blocks(message)]
    results = kinds.count("tool_result")
    if "tool_result" in kinds[results:]:
        found.append("AM1 results stand before anything else")
    if role == "assistant" and kinds and kinds[-1] in THINKING:
        found.append("AM10 a message ends in thinking")
    return found


def _block(block: JsonValue, role: str, capabilities: Capabilities) -> list[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in ALLOWED[role]:
        return [f"AM14 a block {kind!r} in a message of the {role}"]
    match block:
        case {"type": "text", "text": str() as text, **rest} if not rest:
            return [] if text.strip() else ["AM8 empty text"]
        case {"type": "image"}:
            return _image(block, capabilities)
        case {"type": "tool_use", "id": str() as id_, "name": str() as name, "input": dict(), **rest} if not rest:
            return (["AM5 id"] if ID.fullmatch(id_) is None else []) + (
                ["AM6 name"] if NAME.fullmatch(name) is None else []
            )
        case {"type": "tool_result"}:
            return _result(block, capabilities)
        case {"type": "thinking", "thinking": str(), "signature": str() as signature, **rest} if not rest:
            return [] if signature and capabilities.thinking else ["AM12 thinking without signature, or switched off"]
        case {"type": "redacted_thinking", "data": str() as data, **rest} if not rest:
            return [] if data and capabilities.thinking else ["AM12 redacted thinking empty, or switched off"]
        case _:
            return [f"AM7 malformed {kind}"]


def _result(block: Json, capabilities: Capabilities) -> list[str]:
    if set(block) - {"type", "tool_use_id", "content", "is_error"}:
        return ["AM1 unknown field of a result"]
    if block.get("is_error", True) is not True or not isinstance(block.get("tool_use_id"), str):
        return ["AM1 malformed result"]
    match block.get("content"):
        case str() as text:
            return [] if text.strip() else ["AM8 empty result"]
        case list() as parts if parts:
            found: list[str] = []
            for part in parts:
                if not isinstance(part, dict) or part.get("type") not in {"text", "image"}:
                    found.append("AM14 a result holds text and images alone")
                else:
                    found += _block(part, "user", capabilities)
            return found
        case _:
            return ["AM8 empty result"]


def _image(block: Json, capabilities: Capabilities) -> list[str]:
    if not capabilities.vision:
        return ["AM14 an image without vision"]
    match block.get("source"):
        case {"type": "base64", "media_type": str() as kind, "data": str() as data, **rest} if not rest:
            if kind not in TYPES:
                return ["AM14 media type"]
            if len(data) > 5 * 1024 * 1024:
                return ["AM15 5 MB"]
            try:
                raw = base64.b64decode(data, validate=True)
            except ValueError:
                return ["AM14 not base64"]
            return ["AM14 no data"] if not raw else ["AM15 8000 pixels"] if _side(raw) > 8000 else []
        case {"type": "url", "url": str() as url, **rest} if not rest:
            return [] if re.fullmatch(r"https?://[!-~]+", url) else ["AM14 address"]
        case _:
            return ["AM14 malformed image"]


def _side(raw: bytes) -> int:
    """The longer side of a PNG; the tests use no other format with sides that matter."""
    if not raw.startswith(b"\x89PNG"):
        return 0
    return max(int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big"))


def _order(messages: list[Json], capabilities: Capabilities) -> list[str]:
    roles = [message["role"] for message in messages]
    found: list[str] = []
    if not roles or roles[0] != "user":
        found.append("AM13 the user comes first")
    for before, role in pairwise(roles):
        if role == before:
            found.append(f"AM13 two messages of the {role} in a row")
        if role == "system" and before != "user":
            found.append("AM13 system follows the user")
    if "system" in roles and not capabilities.mid_system:
        found.append("AM13 system inside the history")
    return found


def _pairs(messages: list[Json]) -> list[str]:
    found: list[str] = []
    given: set[str] = set()
    due: list[str] = []
    for message in messages:
        results = [str(block["tool_use_id"]) for block in _blocks(message) if block["type"] == "tool_result"]
        for id_ in results:
            if id_ not in due:
                found.append(f"AM2 a result without a call in the message before: {id_}")
            elif results.count(id_) > 1:
                found.append(f"AM3 two results for {id_}")
        found += [f"AM1 a call without a result right after: {id_}" for id_ in due if id_ not in results]
        due = [str(block["id"]) for block in _blocks(message) if block["type"] == "tool_use"]
        for id_ in due:
            if id_ in given:
                found.append(f"AM4 the id {id_} is given twice")
            given.add(id_)
    return found + [f"AM1 a call without a result right after: {id_}" for id_ in due]


def _images(messages: list[Json]) -> list[str]:
    sources: list[Json] = []
    for message in messages:
        for block in _blocks(message):
            inner = block.get("content") if block["type"] == "tool_result" else [block]
            parts = inner if isinstance(inner, list) else []
            sources += [part["source"] for part in parts if isinstance(part, dict) and part["type"] == "image"]  # type: ignore[misc]
    if len(sources) > IMAGES_MOST:
        return ["AM15 more than 100 images"]
    if len(sources) > IMAGES_MANY:
        data = [str(source["data"]) for source in sources if source["type"] == "base64"]
        return ["AM15 2000 pixels among many" for each in data if _side(base64.b64decode(each)) > 2000]
    return []


def _end(messages: list[Json], capabilities: Capabilities) -> list[str]:
    last = messages[-1]
    if last["role"] != "assistant":
        return []
    block = _blocks(last)[-1]
    text = block.get("text")
    found = ["AM9 the end has white space"] if isinstance(text, str) and text != text.rstrip() else []
    if not capabilities.thinking and any(each["type"] in THINKING for each in _blocks(last)):
        found.append("AM12 thinking in the last message while it is off")
    return found
