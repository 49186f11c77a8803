"""Exact text of values inside a JSON text, found without loading and dumping.

A JSON library that loads and dumps loses big integers, trailing zeros and the second of two equal keys. So the
door walks the levels it knows by name, takes each value's span, and checks what it does not name with the
standard decoder: duplicate keys, NaN and infinities, nesting. Every refusal names its path.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from itertools import accumulate
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import NoReturn, TypeAlias, cast

import attrs
import msgspec

from safd.model.errors import (
    FieldType,
    JsonInvalid,
    KeyDuplicate,
    NestingTooDeep,
    NumberNotFinite,
    SafError,
    TextNotUtf8,
)

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

DEPTH_LIMIT = 128
_INTEGER_DIGITS = 4000
_SHOWN_KEY = 80
_SHOWN_STEPS = 12
_STEPS = 100_000
_SPACE = re.compile(r"[ \t\n\r]*")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DEEPER = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@attrs.define
class _NotFinite(Exception):
    seen: str


@attrs.define
class _Twice(Exception):
    key: str


def _refuse_constant(text: str) -> NoReturn:
    raise _NotFinite(text)


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise _NotFinite(text[:_SHOWN_KEY])
    return number


def _whole(text: str) -> int:
    # int() refuses very long texts (CVE-2020-10735); what is only checked need not be exact
    return int(text) if len(text) <= _INTEGER_DIGITS else 0


def _once(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key[:_SHOWN_KEY])
            seen.add(key)
    return found


_split_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_strict = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole
)


@attrs.frozen
class Span:
    """A value at `text[start:end]`, and its path for errors."""

    text: str
    start: int
    end: int
    path: str

    def __str__(self) -> str:
        return self.text[self.start : self.end]

    @property
    def first(self) -> str:
        """The value's first character: it tells the value's kind."""
        return self.text[self.start]


def decode_utf8(raw: bytes, path: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextNotUtf8(path=path, offset=error.start) from None


def join(path: str, key: str) -> str:
    """The path of a member; a hostile key is not repeated at length."""
    return f"{path}.{key[:_SHOWN_KEY]}" if path else key[:_SHOWN_KEY]


def kind_of(span: Span) -> str:
    """What a value is, in words for an error."""
    match span.first:
        case "{":
            return "an object"
        case "[":
            return "a list"
        case '"':
            return "a string"
        case "t" | "f":
            return "a boolean"
        case "n":
            return "null"
        case _:
            return "a number"


def whole(text: str, path: str = "") -> Span:
    """The one value that `text` holds, strictly checked to its leaves; nothing but space may stand around it."""
    start = _skip(text, 0)
    end = check(text, start, path)
    rest = _skip(text, end)
    if rest != len(text):
        raise JsonInvalid(path=path, reason="something follows the value", offset=rest)
    return Span(text, start, end, path)


def trusted(text: str, path: str = "") -> Span:
    """The one value that `text` holds, where it was checked before: what was stored, not what came in."""
    return Span(text, _skip(text, 0), len(text), path)


def members(span: Span) -> dict[str, Span]:
    """The members of an object that was checked, in order."""
    if span.first != "{":
        raise FieldType(path=span.path or "The value", expected="an object", seen=kind_of(span))
    try:
        found = _split_members(_text_of(span))
    except msgspec.DecodeError:  # an escaped lone surrogate, which that decoder does not pass over
        return dict(_members(span.text, span.start, span.path))
    path = span.path
    return {key: _span_of(raw, join(path, key)) for key, raw in found.items()}


def members_in_place(span: Span) -> dict[str, Span]:
    """The same, each span with its place in the text that the object stands in: for cutting and splicing."""
    return dict(_members(span.text, span.start, span.path))


def elements(span: Span) -> list[Span]:
    """The elements of a list that was checked, in order."""
    if span.first != "[":
        raise FieldType(path=span.path, expected="a list", seen=kind_of(span))
    try:
        found = _split_elements(_text_of(span))
    except msgspec.DecodeError:
        return list(_elements(span.text, span.start, span.path))
    path = span.path
    return [_span_of(raw, f"{path}[{index}]") for index, raw in enumerate(found)]


def _text_of(span: Span) -> str:
    if span.start == 0 and span.end == len(span.text):
        return span.text
    return span.text[span.start : span.end]


def _span_of(raw: msgspec.Raw, path: str) -> Span:
    text = str(raw, "utf-8")
    return Span(text, 0, len(text), path)


def value(span: Span) -> JsonValue:
    """A checked value, decoded. Integers above 4,000 digits come back as 0: take the span where they matter."""
    return cast(JsonValue, _strict.raw_decode(span.text, span.start)[0])


def check(text: str, start: int, path: str) -> int:
    """Where the value at `start` ends; raises the typed error with the offender's path."""
    try:
        _, end = _strict.raw_decode(text, start)
    except _NotFinite as error:
        refusal: SafError = NumberNotFinite(path=path or "The value", seen=error.seen)
    except _Twice as error:
        refusal = KeyDuplicate(path=path, key=error.key)
    except RecursionError:
        refusal = NestingTooDeep(path=path, limit=DEPTH_LIMIT)
    except json.JSONDecodeError as error:
        refusal = JsonInvalid(path=path, reason=_reason(error.msg), offset=error.pos)
    else:
        openings = text.count("{", start, end) + text.count("[", start, end)
        if openings <= DEPTH_LIMIT or not _too_deep(text, start, end):
            return end
        refusal = NestingTooDeep(path=path, limit=DEPTH_LIMIT)
    with contextlib.suppress(_Enough):
        _walk(text, start, _Trail(path))
    raise refusal


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _too_deep(text: str, start: int, end: int) -> bool:
    """Whether a well-formed value nests too deep: its brackets outside strings, counted at C speed."""
    unescaped = text[start:end].replace("\\\\", "").replace('\\"', "")
    brackets = "".join(unescaped.split('"')[::2]).encode().translate(None, _NO_BRACKETS)
    return max(accumulate(map(_DEEPER.__getitem__, brackets)), default=0) > DEPTH_LIMIT


# --- where it is wrong: the slow walk, for errors only
#
# It raises the error with the offender's path. Its steps are bounded: a hostile text of millions of values must not
# hold up the daemon, and gets the refusal that is known already, with the path of the whole.


@attrs.define
class _Trail:
    """How the walk came to where it is; spelled out only when something is wrong there."""

    path: str
    steps: list[str | int] = attrs.field(factory=list[str | int])
    left: int = _STEPS

    def __str__(self) -> str:
        path = self.path
        for step in self.steps[:_SHOWN_STEPS]:
            path = f"{path}[{step}]" if isinstance(step, int) else join(path, step)
        return path if len(self.steps) <= _SHOWN_STEPS else f"{path}..."


class _Enough(Exception):
    """The walk took too many steps."""


def _walk(text: str, at: int, trail: _Trail) -> int:
    trail.left -= 1
    if trail.left < 0:
        raise _Enough
    first = text[at : at + 1]
    if first in {"{", "["} and len(trail.steps) >= DEPTH_LIMIT:
        raise NestingTooDeep(path=str(trail), limit=DEPTH_LIMIT)
    match first:
        case "{":
            return _walk_object(text, at, trail)
        case "[":
            return _walk_list(text, at, trail)
        case _:
            return _walk_leaf(text, at, trail)


def _walk_leaf(text: str, at: int, trail: _Trail) -> int:
    try:
        return _strict.raw_decode(text, at)[1]
    except _NotFinite as error:
        raise NumberNotFinite(path=str(trail) or "The value", seen=error.seen) from None
    except json.JSONDecodeError as error:
        raise JsonInvalid(path=str(trail), reason=_reason(error.msg), offset=error.pos) from None


def _walk_list(text: str, at: int, trail: _Trail) -> int:
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return at + 1
    index = 0
    while True:
        trail.steps.append(index)
        at = _walk(text, at, trail)
        trail.steps.pop()
        at = _skip(text, at)
        match text[at : at + 1]:
            case "]":
                return at + 1
            case ",":
                at = _skip(text, at + 1)
                index += 1
            case _:
                raise JsonInvalid(path=str(trail), reason="expected ',' or ']'", offset=at)


def _walk_object(text: str, at: int, trail: _Trail) -> int:
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return at + 1
    seen: set[str] = set()
    while True:
        key, at = _walk_key(text, at, trail)
        if key in seen:
            raise KeyDuplicate(path=str(trail), key=key[:_SHOWN_KEY])
        seen.add(key)
        trail.steps.append(key)
        at = _walk(text, at, trail)
        trail.steps.pop()
        at = _skip(text, at)
        match text[at : at + 1]:
            case "}":
                return at + 1
            case ",":
                at = _skip(text, at + 1)
            case _:
                raise JsonInvalid(path=str(trail), reason="expected ',' or '}'", offset=at)


def _walk_key(text: str, at: int, trail: _Trail) -> tuple[str, int]:
    """A key, and where its value starts."""
    if text[at : at + 1] != '"':
        raise JsonInvalid(path=str(trail), reason="expected a key in double quotes", offset=at)
    try:
        key, at = cast("tuple[str, int]", scanstring(text, at + 1, True))
    except json.JSONDecodeError as error:
        raise JsonInvalid(path=str(trail), reason=_reason(error.msg), offset=error.pos) from None
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise JsonInvalid(path=str(trail), reason="expected ':'", offset=at)
    return key, _skip(text, at + 1)


def _reason(message: str) -> str:
    return message[:1].lower() + message[1:]


# --- the parts of a value that was checked


def _members(text: str, start: int, path: str) -> Iterator[tuple[str, Span]]:
    at = _skip(text, start + 1)
    if text[at] == "}":
        return
    while True:
        key, at = cast("tuple[str, int]", scanstring(text, at + 1, True))
        at = _skip(text, _skip(text, at) + 1)
        end = _strict.raw_decode(text, at)[1]
        yield key, Span(text, at, end, join(path, key))
        at = _skip(text, end)
        if text[at] == "}":
            return
        at = _skip(text, at + 1)


def _elements(text: str, start: int, path: str) -> Iterator[Span]:
    at = _skip(text, start + 1)
    if text[at] == "]":
        return
    index = 0
    while True:
        end = _strict.raw_decode(text, at)[1]
        yield Span(text, at, end, f"{path}[{index}]")
        index += 1
        at = _skip(text, end)
        if text[at] == "]":
            return
        at = _skip(text, at + 1)
