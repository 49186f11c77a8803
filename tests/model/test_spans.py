"""The strict door keeps exact texts, refuses what strict JSON refuses, and names the path of every refusal."""

import json
from typing import NoReturn

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safd.model import spans
from safd.model.errors import (
    FieldType,
    JsonInvalid,
    KeyDuplicate,
    Malformed,
    NestingTooDeep,
    NumberNotFinite,
    TextNotUtf8,
)
from tests.messages import json_objects, json_texts, spaces


@given(json_texts, spaces, spaces)
def test_whole_is_verbatim(text: str, before: str, after: str) -> None:
    """The span of a value is its exact text, whatever space stands around it."""
    span = spans.whole(before + text + after)
    assert str(span) == text
    assert spans.value(span) == json.loads(text)


@given(json_objects)
def test_members_are_verbatim(text: str) -> None:
    """Each member's span is its exact text, in order; cut out of the object, they leave keys and punctuation."""
    expected = json.loads(text)
    found = spans.members_in_place(spans.whole(text))
    assert {key: json.loads(str(span)) for key, span in found.items()} == expected
    by_themselves = spans.members(spans.whole(text))
    assert [(key, str(one), one.path) for key, one in by_themselves.items()] == [
        (key, str(one), one.path) for key, one in found.items()
    ]
    rest = text
    for span in reversed(found.values()):
        rest = f"{rest[: span.start]}0{rest[span.end :]}"
    assert list(json.loads(rest).items()) == [(key, 0) for key in expected]


@given(st.lists(json_texts, max_size=5), spaces)
def test_elements_are_verbatim(items: list[str], space: str) -> None:
    """Each element's span is its exact text, and its path is its index."""
    text = f"[{space}" + f"{space},{space}".join(items) + f"{space}]"
    found = spans.elements(spans.whole(text, "here"))
    assert [str(span) for span in found] == items
    assert [span.path for span in found] == [f"here[{index}]" for index in range(len(items))]


@given(json_texts)
def test_nested_spans_are_verbatim(text: str) -> None:
    """A value's exact text is found again through two levels of wrapping, with its path."""
    wrapped = f'{{"a": [1, {{"b":{text}}}]}}'
    second = spans.elements(spans.members(spans.whole(wrapped))["a"])[1]
    span = spans.members(second)["b"]
    assert str(span) == text
    assert span.path == "a[1].b"


# --- what is refused, and where


@pytest.mark.parametrize(
    ("text", "error", "path"),
    [
        ('{"a": 1, "a": 2}', KeyDuplicate, ""),
        (r'{"a": 1, "\u0061": 2}', KeyDuplicate, ""),
        ('{"x": {"a": 1, "a": 1}}', KeyDuplicate, "x"),
        ('{"x": [0, {"y": {"a": 1, "b": 2, "a": 3}}]}', KeyDuplicate, "x[1].y"),
        ("NaN", NumberNotFinite, "The value"),
        ("[1, Infinity]", NumberNotFinite, "[1]"),
        ('{"a": {"b": -Infinity}}', NumberNotFinite, "a.b"),
        ('{"a": [0, 1e400]}', NumberNotFinite, "a[1]"),
        ('{"a": -1e999}', NumberNotFinite, "a"),
        ('{"a": "x\x01y"}', JsonInvalid, "a"),
        ('{"a": "x\ny"}', JsonInvalid, "a"),
        ('{"a\x1f": 1}', JsonInvalid, ""),
        ('{"a": [1, 2,]}', JsonInvalid, "a[2]"),
        ('{"a": 1,}', JsonInvalid, ""),
        ("{'a': 1}", JsonInvalid, ""),
        ('{"a" 1}', JsonInvalid, ""),
        ('{"a": {"b": [1 2]}}', JsonInvalid, "a.b"),
        ('{"a": {"b": 1 "c": 2}}', JsonInvalid, "a"),
        ('{"a": "unterminated', JsonInvalid, "a"),
        (r'{"a": "\x41"}', JsonInvalid, "a"),
        (r'{"a": "\ud8"}', JsonInvalid, "a"),
        ('{"a": +1}', JsonInvalid, "a"),
        ('{"a": .5}', JsonInvalid, "a"),
        ('{"a": 01}', JsonInvalid, ""),
        ('{"a": 1.}', JsonInvalid, ""),
        ('{"a": tru}', JsonInvalid, "a"),
        ('{"a": \u0661}', JsonInvalid, "a"),
        ("", JsonInvalid, ""),
        ("  ", JsonInvalid, ""),
        ("\ufeff{}", JsonInvalid, ""),
        ("{}{}", JsonInvalid, ""),
        ("{} x", JsonInvalid, ""),
        ("1\u00a0", JsonInvalid, ""),
        ("/* */ 1", JsonInvalid, ""),
    ],
)
def test_refusal_has_a_path(text: str, error: type[Malformed], path: str) -> None:
    """Whatever strict JSON forbids is refused by its cause, at the path where it stands."""
    with pytest.raises(error) as caught:
        spans.whole(text)
    assert caught.value.path == path  # type: ignore[attr-defined]
    with pytest.raises(error) as below:
        spans.whole(text, "params")
    assert below.value.path.startswith("params")  # type: ignore[attr-defined]


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("levels", [127, 128, 129, 130, 1000, 100_000])
def test_depth(opening: str, levels: int) -> None:
    """128 levels are taken, 129 are refused, and no depth escapes as a RecursionError."""
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    each = len(closing)
    text = opening * (levels // each) + "[" * (levels % each) + "1" + "]" * (levels % each) + closing * (levels // each)
    if levels <= spans.DEPTH_LIMIT:
        assert str(spans.whole(text)) == text
    else:
        with pytest.raises(NestingTooDeep) as caught:
            spans.whole(text)
        assert caught.value.path != ""


def test_depth_is_not_counted_in_strings() -> None:
    """Brackets inside strings nest nothing, behind any run of backslashes and quotes."""
    for inside in ["[" * 500, '\\"[' * 300, "\\\\" + "{" * 300, '\\\\\\"' + "[" * 300, "]" * 300]:
        text = f'[{"[]," * 200}"{inside}", [1]]'
        assert str(spans.whole(text)) == text


def test_depth_behind_closers_in_strings() -> None:
    """Closers inside strings take no level back."""
    text = '["]]]]",' * 129 + "1" + "]" * 129
    with pytest.raises(NestingTooDeep):
        spans.whole(text)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def strict_json_accepts(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return False
    return True


json_characters = st.text(st.sampled_from(list('{}[]":,0123456789-+.eE\\/ \n\tunltrfasIN\x00\ud800é')), max_size=24)


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """A JSON text with one piece cut out or put in."""
    text = draw(json_texts)
    at = draw(st.integers(min_value=0, max_value=len(text)))
    cut = draw(st.integers(min_value=0, max_value=3))
    return text[:at] + draw(json_characters) + text[at + cut :]


@given(json_characters | broken_texts() | st.text())
@example('{"a":1,"a":1}')
@example("[NaN]")
@example("-")
@example('"\\')
def test_agrees_with_a_strict_reader(text: str) -> None:
    """Accepted is exactly what the standard library accepts when it is told to be strict; else a typed refusal."""
    if strict_json_accepts(text):
        span = spans.whole(text)
        assert str(span) == text.strip(" \t\n\r")
        assert spans.value(span) == json.loads(text)
    else:
        with pytest.raises(Malformed) as caught:
            spans.whole(text)
        assert str(caught.value)


@given(st.binary(max_size=40))
def test_bytes_are_utf8_or_refused(raw: bytes) -> None:
    """Bytes that are not UTF-8 (CESU surrogates, overlong forms, cut sequences) are refused at their offset."""
    try:
        expected: str | int = raw.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        expected = error.start
    if isinstance(expected, str):
        assert spans.decode_utf8(raw, "body") == expected
    else:
        with pytest.raises(TextNotUtf8) as caught:
            spans.decode_utf8(raw, "body")
        assert (caught.value.path, caught.value.offset) == ("body", expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{}", "an object"),
        ("[]", "a list"),
        ('""', "a string"),
        ("true", "a boolean"),
        ("null", "null"),
        ("-1", "a number"),
    ],
)
def test_parts_of_what_has_none(text: str, kind: str) -> None:
    """Members are taken from objects alone, elements from lists alone; the refusal says what was there."""
    span = spans.whole(text, "here")
    if kind != "an object":
        with pytest.raises(FieldType) as caught:
            spans.members(span)
        assert (caught.value.path, caught.value.seen) == ("here", kind)
    if kind != "a list":
        with pytest.raises(FieldType) as caught:
            spans.elements(span)
        assert (caught.value.path, caught.value.seen) == ("here", kind)


# --- size: no text may cost more than its length


MANY = 300_000


@pytest.mark.parametrize(
    "text",
    [
        '["' + '\\"' * MANY,
        '"' + "\\" * (2 * MANY + 1),
        '"' * MANY,
        "[" * MANY,
        '{"a":' * MANY,
        " " * MANY + "x",
        "[" + "1," * MANY + "x",
        '{"' + "k" * MANY + '":[' + "1," * MANY + "x",
        '{"' + "k" * MANY + '":{"' + "l" * MANY + '":[' + "[]," * MANY + "NaN]}}",
        "[" * 127 + "[]," * MANY + "x",
        "{" + ",".join(f'"{i}":1' for i in range(MANY)) + ',"0":1}',
        "[" + "[]," * MANY + "[" * 130 + "]" * 131,
        "1e" + "9" * MANY,
        "[" + "9" * MANY + ",x]",
        "-" * MANY,
        '"' + "x" * MANY + "\x01",
    ],
    ids=range(16),
)
@pytest.mark.timeout(60)
def test_hostile_texts_are_refused_shortly(text: str) -> None:
    """A refusal costs a bounded walk beyond one reading, and repeats nothing of the offender at length."""
    with pytest.raises(Malformed) as caught:
        spans.whole(text)
    assert len(str(caught.value)) < 1500


def test_the_walk_is_bounded() -> None:
    """Behind millions of values the refusal keeps its cause and gives up its path, so that nobody waits for it."""
    with pytest.raises(NumberNotFinite) as caught:
        spans.whole("[" + "1," * MANY + "NaN]")
    assert (caught.value.path, caught.value.seen) == ("The value", "NaN")
    with pytest.raises(KeyDuplicate) as twice:
        spans.whole("[" + "1," * MANY + '{"a":1,"b":1,"a":1}]')
    assert twice.value.key == "a"
    with pytest.raises(NestingTooDeep):
        spans.whole("[" + "1," * MANY + "[" * 130 + "]" * 131)


def test_fifty_megabytes() -> None:
    """One string of 50 MB is an ordinary value."""
    text = '[{"output":"' + "x\\n" * (50_000_000 // 3) + '"}]'
    span = spans.members(spans.elements(spans.whole(text))[0])["output"]
    assert span.end - span.start == len(text) - len('[{"output":}]')


def test_long_integers_are_kept() -> None:
    """An integer longer than Python would convert is checked and kept as text."""
    digits = "9" * 100_000
    span = spans.members(spans.whole(f'{{"n": {digits}}}'))["n"]
    assert str(span) == digits
