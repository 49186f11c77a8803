"""Parameters to JSON, answers to types.

The daemon reads strictly; a client reads what its own daemon sent, and overlooks a field that a newer daemon
added. Texts that somebody else wrote (messages, metadata, payloads) are spliced in and sliced out, never loaded and
dumped.
"""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, NewType, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
import msgspec

from saf_client.errors import AnswerMalformed
from safd.api.params import OfferedText, Params
from safd.api.results import RawJson, Spliced
from safd.model import codec, spans
from safd.model.blocks import Block, JsonText
from safd.model.errors import FieldType, TextNotUtf8
from safd.model.messages import Message, StoredMessage

T = TypeVar("T")
Offered: TypeAlias = Message | Mapping[str, Any] | str | bytes
"""A message to append: typed, as a dictionary, or as its exact JSON text, which is kept byte for byte."""

_Read: TypeAlias = Callable[[bytes], object]


@attrs.frozen(kw_only=True)
class DamagedMessage:
    """Stands where a stored row cannot be read; the rows around it are whole."""

    seq: int
    code: str


# --- parameters


def offered_text(message: Offered, path: str = "message") -> OfferedText:
    """The text that is sent. A line break between two tokens of an exact text becomes a space: lines frame calls.

    Raises the Malformed errors of `safd.model.errors` for a text that is not one JSON value.
    """
    match message:
        case Message():
            return OfferedText(codec.render_message(message).decode())
        case str() | bytes():
            text = spans.decode_utf8(message, path) if isinstance(message, bytes) else message
            _encodable(text, path)
            return OfferedText(str(spans.whole(text.lstrip("\ufeff"), path)).replace("\n", " "))
        case _:
            return OfferedText(json_text(message))


def json_text(value: object) -> str:
    """Compact JSON of plain values; big integers stay whole, lone surrogates become their escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text if fits_utf8(text) else json.dumps(value, separators=(",", ":"), allow_nan=False)


def exact_json(value: Mapping[str, Any] | str, path: str) -> JsonText:
    """An opaque object, as a dictionary or as its exact text."""
    if not isinstance(value, str):
        return JsonText(json_text(value))
    _encodable(value, path)
    span = spans.whole(value, path)
    if span.first != "{":
        raise FieldType(path=path, expected="an object", seen=spans.kind_of(span))
    return JsonText(str(span).replace("\n", " "))


def _encodable(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextNotUtf8(path=path, offset=len(text[: error.start].encode("utf-8"))) from None


def fits_utf8(text: str) -> bool:
    """Whether it holds no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def render_params(asked: Params) -> bytes:
    """What is None is left out: absent and default are the same to the daemon."""
    return _members(asked)


def render_result(result: attrs.AttrsInstance) -> bytes:
    """An answer as JSON again, every field of it; spliced parts as they came."""
    return _members(result, nulls=True)


def _members(value: attrs.AttrsInstance, *, nulls: bool = False) -> bytes:
    parts: list[bytes] = []
    for field in attrs.fields(type(value)):
        found = getattr(value, field.name)
        if found is not None or nulls:
            parts.append(b'"%b":%b' % (field.name.encode(), _rendered(found, field.type, nulls=nulls)))
    return b"{%b}" % b",".join(parts)


def _rendered(value: object, declared: object, *, nulls: bool) -> bytes:
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return b"[%b]" % b",".join(_rendered(item, declared, nulls=nulls) for item in items)
    if isinstance(value, bytes):
        return value
    if isinstance(value, Spliced):
        return value.text
    if isinstance(value, str) and not isinstance(value, Enum) and _is_exact(declared):
        return value.encode("utf-8")
    if isinstance(value, get_args(Block)):
        return codec.dump(codec.block_json(cast(Block, value)))
    if attrs.has(type(value)):
        return _members(cast(attrs.AttrsInstance, value), nulls=nulls)
    plain = value.value if isinstance(value, Enum) else value
    return codec.dump(cast(spans.JsonValue, plain))


def _is_exact(declared: object) -> bool:
    return declared is OfferedText or declared is JsonText or any(_is_exact(part) for part in get_args(declared))


# --- answers


def members(raw: bytes) -> dict[str, bytes]:
    """The exact text of each member of an object."""
    try:
        return {key: bytes(value) for key, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()}
    except msgspec.DecodeError:
        # msgspec refuses the escape of a lone surrogate, which a record may hold
        span = _slow(raw)
        return {key: str(value).encode() for key, value in spans.members(span).items()}


def elements(raw: bytes) -> Sequence[bytes]:
    """The exact text of each element of a list."""
    try:
        return [bytes(value) for value in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except msgspec.DecodeError:
        return [str(value).encode() for value in spans.elements(_slow(raw))]


def _slow(raw: bytes) -> spans.Span:
    return spans.trusted(raw.decode("utf-8"))


def read(result: type[T], raw: bytes) -> T:
    """An answer as its type. Raises AnswerMalformed."""
    try:
        return cast(T, _reader(cast(Hashable, result))(raw))
    except (ValueError, KeyError, TypeError, FieldType) as error:
        raise AnswerMalformed(f"its {result.__name__} cannot be read ({error})") from error


@cache
def _reader(declared: Hashable) -> _Read:
    if declared is RawJson:
        return bytes
    if declared is Spliced:
        return lambda raw: Spliced((raw,))
    if declared is JsonText:
        return lambda raw: raw.decode("utf-8")
    if declared == tuple[Block, ...]:
        return lambda raw: codec.parse_blocks(_slow(raw))
    if isinstance(declared, NewType):
        return _reader(declared.__supertype__)
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        return _union(get_args(declared))
    if origin is tuple:
        item = _reader(get_args(declared)[0])
        return lambda raw: tuple(item(part) for part in elements(raw))
    if isinstance(declared, type) and issubclass(declared, Enum):
        return lambda raw: declared(json.loads(raw))
    if isinstance(declared, type) and attrs.has(declared):
        return _class(declared)
    return json.loads


def _union(options: tuple[object, ...]) -> _Read:
    """None, or the first class whose required fields are all there, or the one plain type."""
    classes = [option for option in options if isinstance(option, type) and attrs.has(option)]
    if not classes:
        rest = next(option for option in options if option is not type(None))
        plain = _reader(rest)
        return lambda raw: None if raw == b"null" else plain(raw)
    choices = [(frozenset(_required(option)), _reader(option)) for option in classes]

    def choose(raw: bytes) -> object:
        if raw == b"null":
            return None
        there = members(raw).keys()
        for required, reader in choices:
            if required <= there:
                return reader(raw)
        raise ValueError(f"none of {options} fits")

    return choose


def _required(declared: type[attrs.AttrsInstance]) -> Sequence[str]:
    return [field.name for field in attrs.fields(declared) if field.default is attrs.NOTHING]


def _class(declared: type[attrs.AttrsInstance]) -> _Read:
    fields = [(field.name, _reader(field.type)) for field in attrs.fields(declared)]

    def build(raw: bytes) -> object:
        found = members(raw)
        return declared(**{name: reader(found[name]) for name, reader in fields if name in found})

    return build


def stored_message(raw: bytes) -> StoredMessage | DamagedMessage:
    """One entry of a hydration's `data`, typed. Its exact text stays what `raw` is."""
    span = _slow(raw)
    found = spans.members(span)
    if "damaged" in found and "role" not in found:
        return DamagedMessage(seq=int(str(found["seq"])), code=str(spans.value(found["damaged"])))
    return codec.parse_stored(span)


def seq_of(raw: bytes) -> int:
    """The seq of an entry of a hydration's `data`, damaged or not."""
    return int(members(raw)["seq"])


def decoded(raw: RawJson | bytes) -> Any:
    """A spliced part (a payload, a stored message) as plain values; digits beyond a float's are lost here only."""
    return json.loads(raw)
