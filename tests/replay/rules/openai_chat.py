"""A strict judge of OpenAI Chat payloads, written from the provider's rules (OC1 to OC11).

What the strictest compatible servers refuse (A7) counts too. It knows nothing of the code that it judges.
"""

import base64
import re

from safd.model.projections import Capabilities, ReasoningCapability
from safd.model.spans import JsonValue
from tests.replay.rules.strict import loaded, strings

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "tool": {"role", "tool_call_id", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content"},
}


def violations(raw: bytes, capabilities: Capabilities) -> list[str]:
    """Each broken rule with its id; none where every server would take the payload."""
    try:
        payload = loaded(raw)
    except ValueError as error:
        return [f"OC11 not valid Unicode JSON: {error}"]
    if not isinstance(payload, dict) or set(payload) != {"messages"} or not isinstance(payload["messages"], list):
        return ["OC9 the payload is {messages: [...]}"]
    messages = payload["messages"]
    found = ["OC11 lone surrogate" for text in strings(payload) if re.search("[\ud800-\udfff]", text)]
    for index, message in enumerate(messages):
        found += [f"{broken} (message {index})" for broken in _message(message, capabilities)]
    if found:
        return found
    shapes = [message for message in messages if isinstance(message, dict)]
    return _order(shapes, capabilities) + _pairs(shapes)


def _message(message: JsonValue, capabilities: Capabilities) -> list[str]:
    if not isinstance(message, dict):
        return ["OC9 a message is an object"]
    role, content = message.get("role"), message.get("content")
    if role not in KEYS:
        return [f"OC10 role {role!r}"]
    found = [f"OC9 key {key!r}" for key in message if key not in KEYS[str(role)]]
    calls = message.get("tool_calls")
    if role == "user" and isinstance(content, list):
        found += _parts(content, capabilities)
    elif not isinstance(content, str):
        found.append("OC9 content is a string" if not _has_image(content) else "OC8 an image outside a user message")
    elif not content.strip() and not (content == "" and calls):
        found.append("A7 empty content")
    if calls is not None:
        found += _calls(calls)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        found.append("OC2 a tool message names its call")
    return found + _reasoning(message, capabilities)


def _reasoning(message: dict[str, JsonValue], capabilities: Capabilities) -> list[str]:
    field = capabilities.reasoning is ReasoningCapability.FIELD
    text = message.get("reasoning_content")
    if "reasoning_content" in message and not field:
        return ["R18 reasoning_content at a server that does not take it"]
    if text is not None and not (isinstance(text, str) and text.strip()):
        return ["R17 reasoning_content is empty"]
    if field and message.get("tool_calls") and text is None:
        return ["R17 reasoning_content is missing beside calls"]
    return []


def _has_image(content: JsonValue) -> bool:
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "image_url" for part in parts)


def _parts(parts: list[JsonValue], capabilities: Capabilities) -> list[str]:
    found: list[str] = [] if _has_image(parts) else ["A7 a list without an image"]
    for part in parts:
        match part:
            case {"type": "text", "text": str() as text, **rest} if not rest:
                if not text.strip():
                    found.append("A7 empty text part")
            case {"type": "image_url", "image_url": {"url": str() as url, **more}, **rest} if not rest and not more:
                if not capabilities.vision:
                    found.append("A7 an image without vision")
                if not _visible(url):
                    found.append("OC8 the image cannot be read")
            case _:
                found.append("OC9 unknown part")
    return found


def _visible(url: str) -> bool:
    if url.startswith(("http://", "https://")):
        return url.isascii()
    head = re.match(r"data:([a-z/+.-]+);base64,", url)
    if head is None or head[1] not in TYPES:
        return False
    try:
        return bool(base64.b64decode(url[head.end() :], validate=True))
    except ValueError:
        return False


def _calls(calls: JsonValue) -> list[str]:
    if not isinstance(calls, list) or not calls:
        return ["A7 tool_calls is a list with calls"]
    found: list[str] = []
    for call in calls:
        match call:
            case {
                "id": str() as id_,
                "type": "function",
                "function": {"name": str() as name, "arguments": arguments, **more},
                **rest,
            } if not more and not rest:
                if not 1 <= len(id_) <= 40:
                    found.append("OC5 id length")
                if NAME.fullmatch(name) is None:
                    found.append("OC6 name")
                if not _is_object(arguments):
                    found.append("OC7 arguments")
            case _:
                found.append("OC9 unknown call")
    return found


def _is_object(arguments: JsonValue) -> bool:
    if not isinstance(arguments, str):
        return False
    try:
        value = loaded(arguments.encode("utf-8"))
    except ValueError:
        return False
    return isinstance(value, dict) and not any(re.search("[\ud800-\udfff]", text) for text in strings(value))


def _order(messages: list[dict[str, JsonValue]], capabilities: Capabilities) -> list[str]:
    roles = [message["role"] for message in messages]
    history = roles[1:] if roles[:1] == ["system"] else roles
    found: list[str] = []
    if "system" in history and not capabilities.mid_system:
        found.append("OC10 system inside the history")
    if not history or history[0] != "user":
        found.append("A7 the user comes first")
    return found


def _pairs(messages: list[dict[str, JsonValue]]) -> list[str]:
    found: list[str] = []
    given: set[str] = set()
    due: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            answered = str(message["tool_call_id"])
            if answered in due:
                due.remove(answered)
            else:
                found.append(f"OC2 a result that answers no call before it: {answered}")
            continue
        if due:
            found.append(f"OC1 calls without results: {due}")
        calls = message.get("tool_calls")
        due = [str(call["id"]) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        for id_ in due:
            if id_ in given:
                found.append(f"D4 the id {id_} is given twice")
            given.add(id_)
    if due:
        found.append(f"OC1 calls without results: {due}")
    return found
