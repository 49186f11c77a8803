"""Hypothesis strategies for JSON texts and for messages as types, hostile strings included."""

import json

from hypothesis import strategies as st

from safd.model.blocks import (
    Block,
    Image,
    ImageData,
    ImageUrl,
    InvalidInput,
    JsonText,
    ObjectInput,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from safd.model.messages import Message, Role, Usage

# lone surrogates, NUL, line separators, quotes and brackets: all that a careless door would change
strings = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(), max_size=8),
    st.sampled_from(["", "\x00", "\ud800", "a\udfffb", "\u2028", '"', "\\", '\\"', "[[[", "}{", "é", "e\u0301", "😀"]),
)
keys = st.one_of(st.text(max_size=6), st.sampled_from(["type", "a", "b", "__proto__", "\x00", "\udc00"]))


@st.composite
def spelled_strings(draw: st.DrawFn, values: st.SearchStrategy[str] = strings) -> str:
    """A JSON string, some of its characters escaped though they need not be."""
    value = draw(values)
    if draw(st.booleans()):
        return json.dumps(value)
    spelled = json.dumps(value, ensure_ascii=False)
    # what UTF-8 cannot carry must be escaped in any text that comes over a socket
    return "".join(f"\\u{ord(c):04x}" if 0xD800 <= ord(c) <= 0xDFFF else c for c in spelled)


numbers = st.one_of(
    st.integers().map(str),
    st.integers(min_value=10**30, max_value=10**60).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["0", "-0", "-0.0", "1.10", "1E5", "1e-400", "0.1e+2", "123456789012345678901234567890.10"]),
)
spaces = st.sampled_from(["", "", "", " ", "\n", "\t \r\n"])


@st.composite
def _lists(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    found = draw(st.lists(items, max_size=4))
    return "[" + ",".join(f"{draw(spaces)}{item}{draw(spaces)}" for item in found) + "]"


@st.composite
def _objects(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(keys, max_size=4, unique=True))
    members = [
        f"{draw(spaces)}{draw(spelled_strings(st.just(name)))}{draw(spaces)}:{draw(spaces)}{draw(items)}{draw(spaces)}"
        for name in names
    ]
    return "{" + ",".join(members) + "}"


json_texts = st.recursive(
    st.one_of(st.sampled_from(["null", "true", "false"]), numbers, spelled_strings()),
    lambda inner: st.one_of(_lists(inner), _objects(inner)),
    max_leaves=12,
)
json_objects = _objects(json_texts)

# --- messages as types

opaque = json_objects.map(JsonText)
maybe_string = st.none() | strings
texts = st.builds(Text, text=strings)
images = st.builds(
    Image,
    source=st.builds(ImageData, media_type=strings, data=strings)
    | st.builds(ImageUrl, url=strings, media_type=maybe_string),
)
reasonings = st.builds(
    Reasoning,
    reasoning=strings,
    signature=maybe_string,
    redacted=maybe_string,
    encrypted=maybe_string,
    provider=maybe_string,
    model=maybe_string,
)
tool_uses = st.builds(
    ToolUse,
    id=strings,
    name=strings,
    input=st.builds(ObjectInput, json=opaque) | st.builds(InvalidInput, text=strings),
    signature=maybe_string,
)
tool_results = st.builds(
    ToolResult,
    tool_use_id=strings,
    tool_name=maybe_string,
    output=strings | st.lists(texts | images, max_size=3).map(tuple),
    is_error=st.booleans(),
)
blocks: st.SearchStrategy[Block] = st.one_of(texts, reasonings, tool_uses, tool_results, images)
counts = st.none() | st.integers(min_value=0, max_value=10**12)
messages = st.builds(
    Message,
    role=st.sampled_from(Role),
    blocks=st.lists(blocks, max_size=5).map(tuple),
    usage=st.none()
    | st.builds(Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=counts, cache_write_tokens=counts),
    model=maybe_string,
    provider=maybe_string,
    timestamp=st.none()
    | strings
    | st.integers(min_value=-(10**70), max_value=10**70)
    | st.floats(allow_nan=False, allow_infinity=False),
    metadata=st.none() | opaque,
)
