"""The door of the contract: what a request gave becomes a parameter class, a result becomes JSON.

Reading is strict and names the offender's path: unknown field, missing field, wrong type, value out of range.
An optional field that is null counts as absent. Texts that must survive exactly (offered messages, metadata) are
taken as they stand; so are stored texts and payloads on the way out, which are spliced and never decoded.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache, partial
from types import UnionType
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
import orjson
from cattrs import Converter

from safd.api.params import OfferedText, Params
from safd.api.results import RawJson, Result, Spliced
from safd.model import codec, ids, spans
from safd.model.blocks import Block, Image, JsonText, Reasoning, Text, ToolResult, ToolUse
from safd.model.errors import FieldMissing, FieldType, FieldUnknown, KeyDuplicate, ValueNotAllowed
from safd.model.ids import ConversationId, MarkId, MessageId, TurnId
from safd.model.marks import Cleared, Compacted, Restored
from safd.model.spans import JsonObject, JsonValue, Span

P = TypeVar("P", bound=Params)
Hook: TypeAlias = Callable[[Any, Any], Any]
"""cattrs hands a hook the value and its type; what it makes is of that type."""

COUNT_LIMIT = codec.COUNT_LIMIT
_SHOWN = codec.SHOWN
_DIGITS = re.compile(r"-?[0-9]{1,18}\Z")


@attrs.frozen
class Word:
    """A parameter that came as text, in the path or the query of an HTTP request."""

    text: str
    path: str


@attrs.frozen
class Given:
    """What a request gave: the members of a JSON object, and words. `body` was checked by `spans`."""

    body: Span | None = None
    words: tuple[Word, ...] = ()


def structure(cls: type[P], given: Given) -> P:
    """The parameters of one method. Raises the Malformed errors, with the path of the offender."""
    found: dict[str, Span | Word] = {} if given.body is None else dict(spans.members(given.body))
    for word in given.words:
        if word.path in found:
            raise KeyDuplicate(path="", key=word.path)
        found[word.path] = word
    return cast(P, _built(cls, found, ""))


# --- reading


def _built(cls: type[attrs.AttrsInstance], found: dict[str, Any], path: str) -> attrs.AttrsInstance:
    readers = _readers(cls)
    values: dict[str, object] = {}
    for name, value in found.items():
        reader = readers.get(name)
        if reader is None:
            raise FieldUnknown(path=spans.join(path, name), allowed=tuple(readers))
        if reader.optional and isinstance(value, Span) and value.first == "n":
            continue
        values[name] = reader.of_word(value) if isinstance(value, Word) else reader.of_span(value)
    for name, reader in readers.items():
        if not reader.optional and name not in values:
            raise FieldMissing(path=spans.join(path, name))
    return cls(**values)


@attrs.frozen
class _Reader:
    optional: bool
    of_span: Callable[[Span], object]
    of_word: Callable[[Word], object]


@cache
def _readers(cls: type[attrs.AttrsInstance]) -> dict[str, _Reader]:
    return {
        field.name: _Reader(
            field.default is not attrs.NOTHING,
            _bound(_spans_converter, field.type),
            _bound(_words_converter, field.type),
        )
        for field in attrs.fields(attrs.resolve_types(cls))
    }


def _bound(converter: Converter, declared: Any) -> Callable[[Any], object]:
    hook = converter.get_structure_hook(declared)
    return lambda value: hook(value, declared)


def _string(span: Span, _: object) -> str:
    if span.first != '"':
        raise FieldType(path=span.path, expected="a string", seen=spans.kind_of(span))
    return _encodable(cast(str, spans.value(span)), span.path)


def _encodable(text: str, path: str) -> str:
    # a message is its exact text, and so may hold the escape of a lone surrogate; a parameter has no such form
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueNotAllowed(path=path, expected="text that UTF-8 can hold", seen="a lone surrogate") from None
    return text


def _boolean(span: Span, _: object) -> bool:
    if span.first not in "tf":
        raise FieldType(path=span.path, expected="a boolean", seen=spans.kind_of(span))
    return span.first == "t"


def _count(span: Span, _: object) -> int:
    number = spans.value(span)
    if type(number) is not int:
        seen = "a number with a fraction" if type(number) is float else spans.kind_of(span)
        raise FieldType(path=span.path, expected="a whole number", seen=seen)
    if span.end - span.start > _SHOWN:
        return _within(COUNT_LIMIT + 1, span.path, str(span)[:_SHOWN])
    return _within(number, span.path, str(span))


def _within(number: int, path: str, seen: str) -> int:
    if not 0 <= number <= COUNT_LIMIT:
        raise ValueNotAllowed(path=path, expected=f"a whole number from 0 to {COUNT_LIMIT}", seen=seen)
    return number


def _choice(text: str, declared: type[StrEnum], path: str) -> StrEnum:
    try:
        return declared(text)
    except ValueError:
        allowed = ", ".join(member.value for member in declared)
        raise ValueNotAllowed(path=path, expected=f"one of {allowed}", seen=repr(text[:_SHOWN])) from None


def _exact(span: Span, _: object) -> str:
    return str(span)


def _exact_object(span: Span, _: object) -> str:
    if span.first != "{":
        raise FieldType(path=span.path, expected="an object", seen=spans.kind_of(span))
    return str(span)


def _blocks(span: Span, _: object) -> tuple[Block, ...]:
    return codec.parse_blocks(span)


def _nested(span: Span, declared: type[attrs.AttrsInstance]) -> attrs.AttrsInstance:
    return _built(declared, dict(spans.members(span)), span.path)


def _each(declared: Any, converter: Converter) -> Hook:
    item = get_args(declared)[0]
    hook = converter.get_structure_hook(item)
    return lambda span, _: tuple(hook(part, item) for part in spans.elements(span))


def _either(declared: Any, converter: Converter) -> Hook:
    """A union of ours is one type or None, or a string or a list of strings or None."""
    options = [option for option in get_args(declared) if option is not type(None)]
    hooks = [(option, converter.get_structure_hook(option)) for option in options]
    if len(hooks) == 1:
        only, hook = hooks[0]
        return lambda value, _: hook(value, only)
    one, many = sorted(hooks, key=lambda pair: pair[0] is not str)

    def choose(span: Span, _: object) -> object:
        match span.first:
            case '"':
                return one[1](span, one[0])
            case "[":
                return many[1](span, many[0])
            case _:
                raise FieldType(path=span.path, expected="a string or a list of strings", seen=spans.kind_of(span))

    return choose


def _is_union(declared: Any) -> bool:
    return get_origin(declared) in (Union, UnionType)


def _is_tuple(declared: Any) -> bool:
    origin: object = get_origin(declared)
    return origin is tuple


def _is_blocks(declared: Any) -> bool:
    return bool(declared == tuple[Block, ...])


def _named(parse: Callable[[str, str], str]) -> tuple[Hook, Hook]:
    def of_span(span: Span, declared: object) -> str:
        return parse(_string(span, declared), span.path)

    def of_word(word: Word, _: object) -> str:
        return parse(word.text, word.path)

    return of_span, of_word


def _span_choice(span: Span, declared: type[StrEnum]) -> StrEnum:
    return _choice(_string(span, declared), declared, span.path)


def _word_choice(word: Word, declared: type[StrEnum]) -> StrEnum:
    return _choice(word.text, declared, word.path)


def _word_string(word: Word, _: object) -> str:
    return word.text


def _word_count(word: Word, _: object) -> int:
    if _DIGITS.match(word.text) is None:
        raise FieldType(path=word.path, expected="a whole number", seen=repr(word.text[:_SHOWN]))
    return _within(int(word.text), word.path, word.text)


def _word_boolean(word: Word, _: object) -> bool:
    if word.text not in {"true", "false"}:
        raise FieldType(path=word.path, expected="true or false", seen=repr(word.text[:_SHOWN]))
    return word.text == "true"


def _word_refused(word: Word, _: object) -> object:
    raise FieldType(path=word.path, expected="a member of the JSON body", seen="part of the URL")


_HOOKS: tuple[tuple[Any, Hook, Hook], ...] = (
    (str, _string, _word_string),
    (bool, _boolean, _word_boolean),
    (int, _count, _word_count),
    (StrEnum, _span_choice, _word_choice),
    (OfferedText, _exact, _word_refused),
    (JsonText, _exact_object, _word_refused),
    (ConversationId, *_named(ids.parse_conversation_id)),
    (MessageId, *_named(ids.parse_message_id)),
    (MarkId, *_named(ids.parse_mark_id)),
    (TurnId, *_named(ids.parse_turn_id)),
)
"""Type, how it is read from JSON, how from a word."""


def _make_converters() -> tuple[Converter, Converter]:
    """One for what came as JSON, one for what came as words. Of the hooks that fit a type the last one wins."""
    of_spans, of_words = Converter(), Converter()
    for declared, of_span, of_word in _HOOKS:
        of_spans.register_structure_hook(declared, of_span)
        of_words.register_structure_hook(declared, of_word)
    of_spans.register_structure_hook_factory(_is_union, partial(_either, converter=of_spans))
    of_words.register_structure_hook_factory(_is_union, partial(_either, converter=of_words))
    of_spans.register_structure_hook_factory(_is_tuple, partial(_each, converter=of_spans))
    of_spans.register_structure_hook_func(_is_blocks, _blocks)
    of_spans.register_structure_hook_func(attrs.has, _nested)
    of_words.register_structure_hook_func(_is_tuple, _word_refused)
    of_words.register_structure_hook_func(attrs.has, _word_refused)
    return of_spans, of_words


_spans_converter, _words_converter = _make_converters()


# --- writing


def render(result: Result) -> bytes:
    """The JSON of a result, in one piece."""
    return b"".join(render_pieces(result))


def render_pieces(result: Result) -> list[bytes]:
    """The JSON of a result, in the pieces that need no copying: stored texts and payloads stand as they are."""
    fields = _written(cast(type[attrs.AttrsInstance], type(result)))
    if not any(field.raw for field in fields):
        return [codec.dump(cast(JsonValue, _plain.unstructure(result)))]
    pieces: list[bytes] = []
    opening = b"{"
    for field in fields:
        value: Any = getattr(result, field.name)
        name = b'%b"%b":' % (opening, field.name.encode())
        opening = b","
        if not field.raw:
            pieces.append(name + codec.dump(field.plain(value)))
        elif isinstance(value, Spliced):
            pieces += (name, *value.pieces)
        elif isinstance(value, tuple):
            pieces += (name + b"[", *_separated(cast("tuple[bytes, ...]", value)), b"]")
        else:
            pieces += (name, value)
    pieces.append(b"}")
    return pieces


def _separated(texts: tuple[bytes, ...]) -> list[bytes]:
    if not texts:
        return []
    pieces = [b","] * (2 * len(texts) - 1)
    pieces[::2] = texts
    return pieces


@attrs.frozen
class _Written:
    name: str
    raw: bool
    plain: Callable[[Any], JsonValue]


@cache
def _written(cls: type[attrs.AttrsInstance]) -> tuple[_Written, ...]:
    return tuple(
        _Written(
            field.name, field.type in (RawJson, Spliced, tuple[RawJson, ...]), _plain.get_unstructure_hook(field.type)
        )
        for field in attrs.fields(attrs.resolve_types(cls))
    )


def _spliced(text: str | bytes) -> JsonValue:
    # to orjson a Fragment is itself, to the types it stands for the value that it spells
    return cast(JsonValue, orjson.Fragment(text))


def _listed(declared: Any, converter: Converter) -> Callable[[Iterable[Any]], list[Any]]:
    hook = converter.get_unstructure_hook(get_args(declared)[0])
    return lambda values: [hook(value) for value in values]


def _make_plain() -> Converter:
    plain = Converter()
    plain.register_unstructure_hook_factory(_is_tuple, partial(_listed, converter=plain))
    plain.register_unstructure_hook(RawJson, _spliced)
    plain.register_unstructure_hook(JsonText, _spliced)
    for block in (Text, Reasoning, ToolUse, ToolResult, Image):
        plain.register_unstructure_hook(block, codec.block_json)
    for mark in (Cleared, Restored, Compacted):
        plain.register_unstructure_hook(mark, _tagged(mark, plain))
    return plain


def _tagged(mark: type[attrs.AttrsInstance], plain: Converter) -> Callable[[Any], JsonObject]:
    tag = mark.__name__.lower()
    untagged = plain.gen_unstructure_attrs_fromdict(mark)
    return lambda value: {"type": tag, **untagged(value)}


_plain = _make_plain()
