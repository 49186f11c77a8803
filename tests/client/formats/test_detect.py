"""Which format a file has: told by what most lines are; what is of none is refused in words."""

import json

import pytest

from saf_client.formats.detect import FORMATS
from tests.client.formats.given import SESSION, line, refused, reply, session, text, understood, user, written

OFFERED = b'{"role":"user","blocks":[{"type":"text","text":"hello"}]}\n'
CODEX = [
    {"timestamp": "t", "type": "session_meta", "payload": {"id": "x", "cwd": "/"}},
    {"timestamp": "t", "type": "response_item", "payload": {"type": "message", "role": "user", "content": []}},
]
GEMINI_STREAM = [
    {"type": "init", "session_id": "x", "model": "m"},
    {"type": "message", "role": "user", "content": "hello"},
    {"type": "result", "status": "success", "stats": {}},
]
CHAT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


def test_each_format_is_told_from_the_others() -> None:
    """A session is a session, an export an export, whatever the file is called."""
    assert understood(written(session())).format == "claude-code"
    assert understood(OFFERED).format == "saf"
    assert set(FORMATS) == {"saf", "claude-code"}


def test_the_majority_decides_not_the_first_line() -> None:
    """A harness writes a line of its own before the session begins; one stray line does not change the rest."""
    assert understood(OFFERED + written(session())).format == "claude-code"
    assert understood(written([user("u1", "hello")]) + OFFERED * 3).format == "saf"


@pytest.mark.parametrize("lines", [CODEX, GEMINI_STREAM, CHAT, [{}], [{"type": "user"}], [{"blocks": []}]])
def test_other_formats_are_refused(lines: list[dict[str, object]]) -> None:
    """What looks alike is not taken for what it is not: the sentence names what is known."""
    assert "no format that is known here (saf, claude-code)" in refused(written(lines)).reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n \r\n\t\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"hello\nthere\n", "no line of it is a JSON object; the first, at byte 0: not JSON"),
        (b"[1]\n", "at byte 0: a list where an object is due"),
        (b'\n{"type":"us', "at byte 1: torn"),
        (b"\0" * 4096, "4096 NUL bytes"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not UTF-8 at byte 0"),
        ('{"type":"user"}\n'.encode("utf-16"), "it is UTF-16"),
        (json.dumps([user("u1", "hello")], indent=1).encode(), "no line of it is a JSON object"),
    ],
)
def test_files_without_a_line_are_refused(content: bytes, reason: str) -> None:
    """The sentence says what stands there instead, and where."""
    assert reason in refused(content).reason


def test_a_session_of_nothing_but_state_is_understood() -> None:
    """No conversation is in it, which is no fault: every line has its reason."""
    found = understood(written([line("summary", None, summary="x", leafUuid="y"), line("mode", None, mode="plan")]))
    assert found.threads == ()
    assert sum(found.left_out.values()) == 2


def test_a_session_needs_no_uuid_to_be_told() -> None:
    """The session's id is enough, as streamed output has it."""
    streamed = {"type": "assistant", "session_id": SESSION, "message": {"id": "m", "content": [text("hi")]}}
    assert understood(written([streamed])).format == "claude-code"


def test_line_ends_and_marks_change_nothing() -> None:
    """A file that went through another system says the same."""
    content = written([user("u1", "hello"), reply("a1", "m1", text("hi"), parent="u1")])
    here = understood(content).threads[0]
    there = understood(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")).threads[0]
    assert [getattr(unit, "parts", ())[0].text for unit in here.units] == [
        getattr(unit, "parts", ())[0].text for unit in there.units
    ]
    assert here.key == there.key
