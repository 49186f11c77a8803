"""What is offered of a thread: everything the first time, afterwards only what the record does not hold."""

import hashlib
import json
from typing import Any

from saf_client.formats.transcript import Exact, Offer, Thread, known_lines, offer, thread_of
from tests.client.formats.given import Value, call, main_thread, reply, result, text, transcript, user

FIRST: list[Value] = [
    user("u1", "go"),
    reply("a1", "m1", text("I look."), parent="u1"),
    reply("a2", "m1", call("t1"), parent="a1"),
]
MORE: list[Value] = [user("r1", [result("t1")], "a2"), reply("a3", "m1", call("t2"), parent="a2")]


def offers(known: dict[str, str], *lines: Value) -> list[Offer]:
    thread = transcript(*lines).threads[0]
    found = [offer(thread, unit, known)[0] for unit in thread.units]
    return [one for one in found if one is not None]


def stored(*offered: Offer) -> dict[str, str]:
    """What the record knows after these were appended."""
    known: dict[str, str] = {}
    for one in offered:
        known |= known_lines(one.text.encode())
    return known


def imported(one: Offer) -> Any:
    return json.loads(one.text)["metadata"]["imported"]


def test_the_foreign_line_is_kept_exactly() -> None:
    """Its text, its id, its parent."""
    (one,) = offers({}, user("u1", "é \x00 \\u00e9", None, toolUseResult={"n": 1}))
    (line,) = imported(one)["lines"]
    assert line == {"id": "u1", "parent": None, "text": main_thread(transcript(FIRST[0]))[0].parts[0].text} | {
        "text": json.dumps(user("u1", "é \x00 \\u00e9", None, toolUseResult={"n": 1}), ensure_ascii=False)
    }


def test_importing_again_offers_nothing() -> None:
    """What the record holds is not offered."""
    assert offers(stored(*offers({}, *FIRST, *MORE)), *FIRST, *MORE) == []


def test_a_grown_copy_offers_the_new() -> None:
    """A reply that goes on becomes a message that says which one it continues, and counts no tokens twice."""
    new = offers(stored(*offers({}, *FIRST)), *FIRST, *MORE)
    assert [[line["id"] for line in imported(one)["lines"]] for one in new] == [["a3"], ["r1"]]
    assert [one.continues for one in new] == [True, False]
    assert imported(new[0])["continues"] == "m1"
    assert "usage" not in json.loads(new[0].text)
    assert json.loads(new[0].text)["model"] == "claude-demo-1"


def test_a_changed_line_is_told_and_not_offered() -> None:
    """The record's text stays; where the file differs is said by its place."""
    known = stored(*offers({}, *FIRST))
    changed = [FIRST[0], reply("a1", "m1", text("I do not look."), parent="u1"), FIRST[2]]
    thread = transcript(*changed).threads[0]
    found = [offer(thread, unit, known) for unit in thread.units]
    assert [one for one, _ in found] == [None, None]
    assert [[one.offset for one in differs] for _, differs in found] == [
        [],
        [main_thread(transcript(*changed))[1].parts[0].offset],
    ]


def test_keys_are_of_thread_and_line() -> None:
    """The same line gives the same key at every import, another thread or line another one."""
    one, again = offers({}, *FIRST), offers({}, *FIRST, *MORE)
    assert [offered.key for offered in one] == [offered.key for offered in again][:2]
    assert len({offered.key for offered in again}) == 3
    other = Thread(key="other", title=None, format="x", source={}, units=())
    exact = Exact(id="u1", offset=0, text="{}")
    assert offer(other, exact, {})[0] != offer(transcript(*FIRST).threads[0], exact, {})[0]


def test_any_id_makes_a_key() -> None:
    """Half a surrogate pair in an id, an undecodable name of a file: keys all the same."""
    for odd in ("\ud83c", "\udcff/name.jsonl", "\0", "x" * 100_000):
        thread = Thread(key=odd, title=odd, format="x", source={"session": odd}, units=())
        found, _ = offer(thread, Exact(id=odd, offset=0, text="{}"), {})
        assert found is not None
        assert len(found.key) == len(thread.idempotency_key) < 100
        assert json.loads(thread.metadata)["imported"]["session"] == odd


def test_what_the_record_knows_is_read_from_what_is_stored() -> None:
    """Whole lines by the hash of their text, long ones by the hash that was kept; messages of others know nothing."""
    digest = hashlib.sha256(b"{}").hexdigest()
    lines = [{"id": "a", "text": "{}"}, {"id": "b", "sha256": "abc"}, {"id": 7, "text": "{}"}, "odd", {"text": "{}"}]
    message = {"role": "user", "blocks": [], "metadata": {"imported": {"lines": lines}}}
    assert known_lines(json.dumps(message).encode()) == {"a": digest, "b": "abc"}


def test_metadata_of_others_is_none_of_ours() -> None:
    """Whatever stands there, reading the record on does not stop."""
    for odd in (
        None,
        7,
        "x",
        [],
        {},
        {"imported": None},
        {"imported": []},
        {"imported": {"lines": {}}},
        {"imported": {}},
    ):
        assert known_lines(json.dumps({"role": "user", "blocks": [], "metadata": odd}).encode()) == {}
    assert known_lines(b'{"role":"user","blocks":[]}') == {}
    assert known_lines(b'{"seq":7,"damaged":"row_unreadable"}') == {}
    assert known_lines(rb'{"role":"user","blocks":[],"metadata":{"imported":{"lines":[{"id":"\ud83c"}]}}}') == {
        "\ud83c": "None"
    }


def test_a_conversation_says_which_thread_it_holds() -> None:
    """By the key that names the thread; metadata of others names none."""
    thread = transcript(*FIRST).threads[0]
    assert thread_of(thread.metadata) == thread.idempotency_key
    for odd in (None, "{}", '{"imported":7}', '{"imported":{"thread":7}}', '{"imported":{}}'):
        assert thread_of(odd) is None
