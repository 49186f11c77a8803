"""safd's own lines: byte for byte, without what the daemon set, known by id or by place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saf_client.formats import saf_jsonl
from saf_client.formats.lines import read_lines
from saf_client.formats.transcript import Exact, Transcript
from safd.model import codec, spans
from safd.model.ids import MessageId, Seq, Uid
from safd.model.messages import Writer
from safd.model.principals import Posture
from tests.client.formats.given import good_lines

HEAD = (
    '"id":"msg_01a231e6-e42a-76a4-b609-b19d42b60ee4","seq":1,"recorded_at":"2026-11-30T07:00:00.000Z",'
    '"writer":{"uid":1000,"agent":null,"posture":"unadmitted"},"prev_hash":"00"'
)
EXACT = '"role":"user", "blocks":[ {"type":"text","text":"1.10 \\u00e9"} ],"metadata":{"price": 1.10,"role":"x"}'


def read(content: str | bytes, source: str = "/a/file.jsonl") -> Transcript:
    return saf_jsonl.read(list(read_lines(content if isinstance(content, bytes) else content.encode())), source)


def units(found: Transcript) -> list[Exact]:
    return [unit for thread in found.threads for unit in thread.units if isinstance(unit, Exact)]


def offered(text: str) -> str:
    (found,) = good_lines(text.encode())
    return saf_jsonl.offered(found)


def test_an_offered_line_is_appended_as_it_stands() -> None:
    """Not a byte of it is another one."""
    assert [unit.text for unit in units(read("  {" + EXACT + "}  \r\n"))] == ["{" + EXACT + "}"]


def test_a_stored_line_loses_only_what_the_daemon_set() -> None:
    """The rest is what its writer offered; the summary says what was taken off."""
    found = read("{" + HEAD + "," + EXACT + "}\n")
    assert [unit.text for unit in units(found)] == ["{" + EXACT + "}"]
    assert [(one.what, count) for one, count in found.changed.items()] == [("stored message", 1)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"seq":1,"role":"user","blocks":[]}', '{"role":"user","blocks":[]}'),
        ('{"role":"user","seq":1,"blocks":[]}', '{"role":"user","blocks":[]}'),
        ('{"role":"user","blocks":[],"seq":1}', '{"role":"user","blocks":[]}'),
        ('{ "role" : "user" , "seq" : 1 , "blocks" : [ ] , "id":"m" }', '{"role":"user","blocks":[ ]}'),
        ('{"id":"m","\\u0072ole":"user","writer":{},"blocks":[1.10]}', '{"\\u0072ole":"user","blocks":[1.10]}'),
        ('{"id":"m", "role":"user", "blocks":[]}', '{ "role":"user", "blocks":[]}'),
        ('{"prev_hash":{"a":[",",{}]},"role":"user","blocks":[]}', '{"role":"user","blocks":[]}'),
    ],
)
def test_the_daemons_fields_anywhere_in_a_line(line: str, expected: str) -> None:
    """Wherever they stand, however they are spelled, they go with their comma and take nothing with them."""
    assert offered(line) == expected


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(TEXTS, st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none()), max_size=3), TEXTS)
def test_what_a_daemon_stored_is_offered_again_as_it_was(said: str, metadata: dict[str, object], agent: str) -> None:
    """Stored and taken off again, every offer is the text it was."""
    text = json.dumps(
        {"role": "user", "blocks": [{"type": "text", "text": said}], "metadata": metadata}, ensure_ascii=False
    )
    stored = codec.render_stored(
        id_=MessageId("msg_1"),
        seq=Seq(1),
        recorded_at="2026-11-30",
        writer=Writer(uid=Uid(1), agent=agent, posture=Posture.RESIDENT),
        prev_hash="00",
        offered=text,
    ).decode()
    assert offered(stored) == text
    codec.parse_message(spans.whole(offered(stored)))


def test_each_message_of_an_export_is_taken_once() -> None:
    """An export that was written twice into a file, and a line that another one stands before under its id."""
    line = "{" + HEAD + "," + EXACT + "}\n"
    found = read(line + line + line.replace("1.10", "1.20"))
    assert len(units(found)) == 1
    assert [(one.why, count) for one, count in found.left_out.items()] == [
        ("the file holds it twice", 1),
        ("another message of the same id stands before it", 1),
    ]


def test_what_was_said_twice_was_said_twice() -> None:
    """Offered lines have no ids: equal ones are two messages."""
    found = read(("{" + EXACT + "}\n") * 2)
    assert len({unit.id for unit in units(found)}) == 2


def test_an_edited_line_moves_no_other() -> None:
    """A longer word in one line leaves the names of the others as they are."""
    lines = ["{" + EXACT.replace("1.10", f"{number}.10") + "}\n" for number in range(3)]
    edited = [lines[0], lines[1].replace('"text":"1.10', '"text":"a longer word'), lines[2]]
    assert [unit.id for unit in units(read("".join(lines)))] == [unit.id for unit in units(read("".join(edited)))]


def test_other_lines_are_counted() -> None:
    """A message that could not be read when it was exported, a line of another kind, a torn one: each is told."""
    found = read('{"seq":7,"damaged":"row_unreadable"}\n{"x":1}\n{"role":"user","blocks":[]}\n{"role":"us')
    assert {one.what: count for one, count in found.left_out.items()} == {"damaged message": 1, "other line": 1}
    assert [one.offset for one in found.bad] == [73]
    assert len(units(found)) == 1


def test_nothing_of_ours_is_no_thread() -> None:
    """A file without a message makes no conversation."""
    assert read('{"x":1}\n').threads == ()


def test_an_export_is_named_by_its_first_message() -> None:
    """Wherever it lies; lines without ids are named by their file and how it begins."""
    stored, lone = "{" + HEAD + "," + EXACT + "}\n", "{" + EXACT + "}\n"
    assert read(stored, "/a").threads[0].key == read(stored, "/b").threads[0].key
    assert read(lone, "/a").threads[0].key != read(lone, "/b").threads[0].key
    assert read(lone + lone, "/a").threads[0].key == read(lone, "/a").threads[0].key


@pytest.mark.parametrize(
    ("blocks", "title"),
    [
        ('[{"type":"text","text":"  Which beds?\\nThe dry ones. "}]', "Which beds?"),
        ('[{"type":"tool_use","id":"1"},{"type":"text","text":"second"}]', "second"),
        ('[7,null,{"type":"text","text":" "}]', None),
        ("[]", None),
    ],
)
def test_a_title_is_the_first_words(blocks: str, title: str | None) -> None:
    """The first line of the first text that says something."""
    assert read(f'{{"role":"user","blocks":{blocks}}}\n').threads[0].title == title
