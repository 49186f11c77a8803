"""Exact text of values inside a JSON text, found without loading and dumping.

A JSON library that loads and dumps loses big integers, trailing zeros and the second of two equal keys. So the
door walks the levels it knows by name, takes each value's span, and checks what it does not name with the
standard decoder: duplicate keys, NaN and infinities, nesting. Every refusal names its path.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import NoReturn, TypeAlias, cast

import attrs

from safd.model.errors import FieldType, JsonInvalid, KeyDuplicate, NestingTooDeep, NumberNotFinite, TextNotUtf8

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

DEPTH_LIMIT = 128
_INTEGER_DIGITS = 4000
_SPACE = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


class _NotFinite(Exception):
    pass


class _Twice(Exception):
    pass


def _refuse_constant(text: str) -> NoReturn:
    raise _NotFinite(text)


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise _NotFinite(text)
    return number


def _whole(text: str) -> int:
    # int() refuses very long texts (CVE-2020-10735); what is only checked need not be exact
    return int(text) if len(text) <= _INTEGER_DIGITS else 0


def _once(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Twice
    return found


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
    return f"{path}.{key}" if path else key


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
    return dict(_members(span.text, span.start, span.path))


def elements(span: Span) -> list[Span]:
    """The elements of a list that was checked, in order."""
    if span.first != "[":
        raise FieldType(path=span.path, expected="a list", seen=kind_of(span))
    return list(_elements(span.text, span.start, span.path))


def value(span: Span) -> JsonValue:
    """A checked value, decoded. Integers above 4,000 digits come back as 0: take the span where they matter."""
    return cast(JsonValue, _strict.raw_decode(span.text, span.start)[0])


def check(text: str, start: int, path: str) -> int:
    """Where the value at `start` ends; raises the typed error with the offender's path."""
    try:
        _, end = _strict.raw_decode(text, start)
    except (_NotFinite, _Twice, RecursionError, json.JSONDecodeError):
        _explain(text, start, path)
    if text.count("{", start, end) + text.count("[", start, end) > DEPTH_LIMIT:
        _check_depth(text, start, end, path)
    return end


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _check_depth(text: str, start: int, end: int, path: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text, start, end):
        match token.group()[0]:
            case "{" | "[":
                depth += 1
                if depth > DEPTH_LIMIT:
                    raise NestingTooDeep(path=path, limit=DEPTH_LIMIT)
            case "}" | "]":
                depth -= 1
            case _:
                continue


def _explain(text: str, start: int, path: str) -> NoReturn:
    """Say what is wrong with a value that the decoder refused, and where: the slow walk, for errors only."""
    _check_depth(text, start, len(text), path)
    _walk(text, start, path)
    raise JsonInvalid(path=path, reason="the value cannot be decoded", offset=start)


def _walk(text: str, start: int, path: str) -> int:
    first = text[start : start + 1]
    if first == "{":
        end = start + 1
        for _, member in _members(text, start, path, deep=True):
            end = member.end
        return _close(text, end, "}", path)
    if first == "[":
        end = start + 1
        for item in _elements(text, start, path, deep=True):
            end = item.end
        return _close(text, end, "]", path)
    try:
        return _strict.raw_decode(text, start)[1]
    except _NotFinite as error:
        raise NumberNotFinite(path=path or "The value", seen=str(error)) from None
    except json.JSONDecodeError as error:
        raise JsonInvalid(path=path, reason=_reason(error.msg), offset=error.pos) from None


def _reason(message: str) -> str:
    return message[:1].lower() + message[1:]


def _close(text: str, at: int, bracket: str, path: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != bracket:
        raise JsonInvalid(path=path, reason=f"expected {bracket!r}", offset=at)
    return at + 1


def _end_of(text: str, at: int, path: str, *, deep: bool) -> int:
    if deep:
        return _walk(text, at, path)
    return _strict.raw_decode(text, at)[1]


def _members(text: str, start: int, path: str, *, deep: bool = False) -> Iterator[tuple[str, Span]]:
    at = _skip(text, start + 1)
    if text[at : at + 1] == "}":
        return
    seen: set[str] = set()
    while True:
        if text[at : at + 1] != '"':
            raise JsonInvalid(path=path, reason="expected a key in double quotes", offset=at)
        try:
            key, at = cast("tuple[str, int]", scanstring(text, at + 1, True))
        except json.JSONDecodeError as error:
            raise JsonInvalid(path=path, reason=_reason(error.msg), offset=error.pos) from None
        if key in seen:
            raise KeyDuplicate(path=path, key=key)
        seen.add(key)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise JsonInvalid(path=path, reason="expected ':'", offset=at)
        at = _skip(text, at + 1)
        where = join(path, key)
        end = _end_of(text, at, where, deep=deep)
        yield key, Span(text, at, end, where)
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            return
        at = _skip(text, at + 1)


def _elements(text: str, start: int, path: str, *, deep: bool = False) -> Iterator[Span]:
    at = _skip(text, start + 1)
    if text[at : at + 1] == "]":
        return
    index = 0
    while True:
        where = f"{path}[{index}]"
        end = _end_of(text, at, where, deep=deep)
        yield Span(text, at, end, where)
        index += 1
        at = _skip(text, end)
        if text[at : at + 1] != ",":
            return
        at = _skip(text, at + 1)
