"""`saf import` against the real daemon: real sessions and an invented one with every trap, again and again."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saf_client import sync
from safd.model.projections import Capabilities
from tests.client.cli.conftest import Done, Saf
from tests.client.formats.given import Value, call, line, reply, result, session, text, user, written
from tests.replay.rules import anthropic, openai_chat

DAEMONS = ("id", "seq", "recorded_at", "writer", "prev_hash")
JUDGES: dict[str, Callable[[bytes, Capabilities], list[str]]] = {
    "anthropic": anthropic.violations,
    "openai-chat": openai_chat.violations,
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A session file of this test alone: its session's id is nobody else's."""
    return tmp_path / "session.jsonl"


def mine(own: Path, *lines: Value | bytes) -> bytes:
    """These lines as a session of its own, written to the file."""
    content = written(lines).replace(b"0b6f6f1c-3f5e-4c39-9d3c-6a9f6f2f0c11", own.parent.name.encode())
    own.write_bytes(content)
    return content


def imported(saf: Saf, *paths: Path, code: int = 0) -> list[Any]:
    done = saf("--json", "import", *paths)
    assert done.code == code, done.err
    found: list[Any] = done.json["files"]
    return found


def conversations(file: Any) -> list[str]:
    return [one["conversation"] for one in file["conversations"]]


def record(saf: Saf, conversation: str) -> list[bytes]:
    with sync.connect(str(saf.daemon.socket)) as client:
        return list(client.record(conversation))


def kept_lines(stored: list[bytes]) -> list[str]:
    return [line["text"] for one in stored for line in json.loads(one)["metadata"]["imported"]["lines"]]


def file_lines(content: bytes) -> list[bytes]:
    return [raw for raw in content.split(b"\n") if raw.strip()]


def accounted(file: Any) -> int:
    """Lines that the summary speaks of; those taken are counted from the record itself by the caller."""
    return sum(one["count"] for one in file["left_out"]) + len(file["bad_lines"])


def check_every_line(saf: Saf, path: Path, file: Any) -> None:
    """Each line of the file is kept in a message, exactly, or stands in the summary with a reason."""
    raw = file_lines(path.read_bytes())
    kept = [text for one in conversations(file) for text in kept_lines(record(saf, one))]
    assert Counter(kept) <= Counter(one.decode("utf-8", "replace") for one in raw)
    assert len(kept) + accounted(file) == len(raw)
    assert all(one["why"] and one["what"] for one in file["left_out"] + file["changed"])
    assert all(one["reason"] for one in file["bad_lines"])


def check_replays(saf: Saf, conversation: str) -> None:
    """Both targets' rules hold, thinking or not, with eyes or without; every repair has a reason."""
    with sync.connect(str(saf.daemon.socket)) as client:
        for target, violations in JUDGES.items():
            for able in (Capabilities(), Capabilities(vision=True), Capabilities(vision=True, thinking=True)):
                answer = client.replay(
                    conversation, target, provider="anthropic", model="claude-demo-1", capabilities=able
                )
                assert violations(answer.payload.text, able) == [], (target, able)
                assert all(repair.detail for repair in answer.repairs)


# --- real sessions


FILES = ("session.jsonl", "subagent-a2898e3.jsonl", "subagent-acompact-e1f845.jsonl")


def test_real_sessions_lose_nothing(saf: Saf, corpora: Path) -> None:
    """A real session and its subagents' files: every line is in the record, exactly, or named with its reason."""
    paths = [corpora / "claude-code" / name for name in FILES]
    files = imported(saf, *paths)
    assert [file["format"] for file in files] == ["claude-code"] * 3
    assert [[one["refused"] for one in file["conversations"]] for file in files] == [[[]], [[]], [[]]]
    assert len({one for file in files for one in conversations(file)}) == 3
    for path, file in zip(paths, files, strict=True):
        check_every_line(saf, path, file)
        spoken = [raw for raw in file_lines(path.read_bytes()) if json.loads(raw)["type"] in ("user", "assistant")]
        kept = [text.encode() for one in conversations(file) for text in kept_lines(record(saf, one))]
        assert sorted(kept) == sorted(spoken)


def test_a_real_sessions_calls_and_thoughts_are_all_there(saf: Saf, corpora: Path) -> None:
    """As many calls, results, texts and signed thoughts in the record as in the file; a reply is one message."""
    path = corpora / "claude-code" / "session.jsonl"
    raw = [json.loads(one) for one in file_lines(path.read_bytes())]
    spoken = [one for one in raw if one["type"] in ("user", "assistant")]
    (conversation,) = conversations(imported(saf, path)[0])
    stored = [json.loads(one) for one in record(saf, conversation)]
    kinds = {"text": "text", "thinking": "reasoning", "tool_use": "tool_use", "tool_result": "tool_result"}
    said = Counter(
        kinds[block["type"]]
        for one in spoken
        for block in (one["message"]["content"] if isinstance(one["message"]["content"], list) else [{"type": "text"}])
    )
    assert Counter(block["type"] for one in stored for block in one["blocks"]) == said
    assert (said["reasoning"], said["tool_use"], said["tool_result"]) == (14, 150, 150)
    replies = [one["message"]["id"] for one in spoken if one["type"] == "assistant"]
    assert sum(one["role"] == "assistant" for one in stored) == len(set(replies))
    assert len(stored) < len(spoken)


@pytest.mark.parametrize("name", FILES)
def test_real_sessions_replay(saf: Saf, corpora: Path, name: str) -> None:
    """What was imported is taken by both targets."""
    for conversation in conversations(imported(saf, corpora / "claude-code" / name)[0]):
        check_replays(saf, conversation)


def test_a_real_session_in_growing_copies(saf: Saf, corpora: Path, own: Path) -> None:
    """Copies made while it ran, one cut inside a line, give in the end what one import of the whole gives."""
    content = (corpora / "claude-code" / "session.jsonl").read_bytes()
    name = json.loads(content.splitlines()[40])["sessionId"].encode()
    content = content.replace(name, own.parent.name.encode())
    appended = 0
    for size in (len(content) // 3, len(content) // 2 + 7, len(content) - 11, len(content), len(content)):
        own.write_bytes(content[:size])
        (file,) = imported(saf, own)
        appended += file["conversations"][0]["appended"]
    (conversation,) = conversations(file)
    stored = record(saf, conversation)
    assert len(stored) == appended
    assert file["conversations"][0]["appended"] == 0
    spoken = [raw for raw in file_lines(content) if json.loads(raw)["type"] in ("user", "assistant")]
    assert sorted(kept_lines(stored)) == sorted(raw.decode() for raw in spoken)
    check_replays(saf, conversation)


# --- an invented session with every trap


def test_every_trap_at_once(saf: Saf, own: Path) -> None:
    """Torn, doubled, foreign, broken, unknown: what is conversation is in the record, all else has its reason."""
    mine(own, *session())
    (file,) = imported(saf, own)
    assert [one["appended"] for one in file["conversations"]] == [12, 2]
    check_every_line(saf, own, file)
    for conversation in conversations(file):
        check_replays(saf, conversation)
    assert len(file["bad_lines"]) == 5


def test_hydration_is_verbatim(saf: Saf, own: Path) -> None:
    """What is exported is what was offered, with the daemon's fields before it: numbers, escapes and all."""
    exact = b'{"a": 1.10,"b":12345678901234567890123,"c":"\\u00e9\\ud83c","d":"\\u0000"}'
    content = mine(
        own, reply("a1", "m1", call("t1")), user("r1", [result("t1", "\ud83c".encode("utf-8", "replace").decode())])
    )
    own.write_bytes(content.replace(b'"input": {}', b'"input": ' + exact))
    (conversation,) = conversations(imported(saf, own)[0])
    first, _ = record(saf, conversation)
    assert b'"input":' + exact in first
    assert kept_lines([first])[0].encode() == own.read_bytes().splitlines()[0]


def test_half_a_character_survives(saf: Saf, own: Path) -> None:
    """An escape of half a surrogate pair, in a text, an id and a name, is stored as the escape that it is."""
    mine(own, user("\\ud83c-u1", "half \\ud83c"), reply("a1", "m\\udf3f", text("\\udf3f"), parent="\\ud83c-u1"))
    own.write_bytes(own.read_bytes().replace(b"\\\\ud", b"\\ud"))
    (file,) = imported(saf, own)
    stored = record(saf, conversations(file)[0])
    assert b'"half \\ud83c"' in stored[0]
    check_replays(saf, conversations(file)[0])
    check_every_line(saf, own, file)
    assert imported(saf, own)[0]["conversations"][0]["appended"] == 0


def test_large_lines(saf: Saf, own: Path) -> None:
    """Ten megabytes of output are a message; what is beyond any message is refused by name, and the rest goes on."""
    mine(
        own,
        user("u1", "go"),
        user("r1", [result("t1", "x" * 10_000_000)]),
        user("r2", [result("t2", "y" * 49 * 1024 * 1024)]),
        user("u2", "on"),
    )
    (file,) = imported(saf, own, code=1)
    (made,) = file["conversations"]
    assert made["appended"] == 3
    assert [one["code"] for one in made["refused"]] == ["message_too_large"]
    assert [(one["what"], one["count"]) for one in file["changed"]] == [("very long line", 2)]
    assert imported(saf, own, code=1)[0]["conversations"][0]["already"] == 3


def test_images_and_structured_results_replay(saf: Saf, own: Path) -> None:
    """An image inside a result, a result that is a list, empty ones: both targets take them."""
    mine(own, *[one for one in session() if not isinstance(one, bytes)])
    (file,) = imported(saf, own)
    for conversation in conversations(file):
        check_replays(saf, conversation)


# --- again


def test_importing_again_changes_nothing(saf: Saf, own: Path, tmp_path: Path) -> None:
    """The same file, and the same file elsewhere: nothing new, the same conversations."""
    mine(own, *session())
    first = imported(saf, own)[0]
    before = [record(saf, one) for one in conversations(first)]
    moved = tmp_path / "moved"
    moved.mkdir()
    there = own.rename(moved / "renamed.txt")
    again = imported(saf, there)[0]
    assert conversations(again) == conversations(first)
    assert [(one["appended"], one["already"], one["differs"]) for one in again["conversations"]] == [
        (0, 12, []),
        (0, 2, []),
    ]
    assert [record(saf, one) for one in conversations(again)] == before


def test_a_grown_copy_adds_only_the_new(saf: Saf, own: Path) -> None:
    """Line by line: each import adds what came, a reply that went on as a message that says so."""
    lines = [one for one in session() if not isinstance(one, bytes)]
    kept: list[str] = []
    for count in range(3, len(lines) + 1, 4):
        mine(own, *lines[:count])
        (file,) = imported(saf, own)
        now = kept_lines(record(saf, conversations(file)[0]))
        assert now[: len(kept)] == kept
        kept = now
        check_every_line(saf, own, file)
    for conversation in conversations(file):
        check_replays(saf, conversation)


def test_a_first_word_that_comes_later(saf: Saf, own: Path) -> None:
    """A session imported before anybody had said a word has no title yet; its conversation is found all the same."""
    caveat = user("u0", "<caveat>", isMeta=True)
    mine(own, caveat)
    first = imported(saf, own)[0]
    mine(own, caveat, user("u1", "Which beds are dry?", "u0"))
    again = imported(saf, own)[0]
    assert conversations(again) == conversations(first)
    assert [one["appended"] for one in again["conversations"]] == [1]


def test_another_agents_name_finds_it_too(saf: Saf, own: Path) -> None:
    """Who imports again under another agent's name goes on with the same conversation."""
    mine(own, user("u1", "go"))
    first = imported(saf, own)[0]
    done = saf("--json", "--agent", "annie", "import", own)
    assert conversations(done.json["files"][0]) == conversations(first)


def test_a_changed_copy_is_told(saf: Saf, own: Path) -> None:
    """A line whose text is another now: the record keeps what it has, the place is named, the exit code is 1."""
    content = mine(own, user("u1", "go"), reply("a1", "m1", text("Yes."), parent="u1"), user("u2", "thanks", "a1"))
    (conversation,) = conversations(imported(saf, own)[0])
    before = record(saf, conversation)
    own.write_bytes(content.replace(b"Yes.", b"No, never.") + written([user("u3", "new", "u2")]))
    done = saf("import", own)
    assert done.code == 1
    at = content.splitlines()[0].__len__() + 1
    assert f"{own}: byte {at}: differs from what was imported before, which stays" in done.err
    now = record(saf, conversation)
    assert now[: len(before)] == before
    assert len(now) == len(before) + 1


def test_a_changed_first_line_is_told(saf: Saf, own: Path) -> None:
    """Also where it gave the conversation its title."""
    content = mine(own, user("u1", "go"), user("u2", "on", "u1"))
    first = imported(saf, own)[0]
    own.write_bytes(content.replace(b'"go"', b'"come"'))
    again = imported(saf, own, code=1)[0]
    assert conversations(again) == conversations(first)
    assert [(one["appended"], one["differs"]) for one in again["conversations"]] == [(0, [0])]


def test_changed_lines_of_ours_are_told(saf: Saf, own: Path) -> None:
    """An offered line by its place, a stored one by its id: what differs is not taken."""
    offered = b'{"role":"user","blocks":[{"type":"text","text":"%b"}]}\n'
    own.write_bytes(offered % b"one" + offered % b"two" + offered % b"three")
    made = imported(saf, own)[0]["conversations"][0]
    own.write_bytes(offered % b"one" + offered % b"a longer word" + offered % b"three" + offered % b"four")
    again = imported(saf, own, code=1)[0]["conversations"][0]
    assert (again["appended"], again["already"], again["differs"]) == (1, 3, [len(offered % b"one")])
    export = saf("export", made["conversation"]).out
    own.write_text(export, encoding="utf-8")
    copy = imported(saf, own)[0]["conversations"][0]
    own.write_text(export.replace("three", "3"), encoding="utf-8")
    changed = imported(saf, own, code=1)[0]["conversations"][0]
    assert changed["conversation"] == copy["conversation"]
    assert (changed["appended"], len(changed["differs"])) == (0, 1)


def test_an_interrupted_import_is_finished_by_the_next(saf: Saf, own: Path) -> None:
    """Ctrl-C: what was taken stays, and the same command takes the rest."""
    mine(own, *(user(f"u{n}", f"word {n}") for n in range(2000)))
    running = subprocess.Popen(
        saf.command("import", own), env=saf.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not any(
        one["head_seq"] for one in saf("--json", "ls", "--limit", "1").json["data"][:1] if one["title"] == "word 0"
    ):
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert b"Traceback" not in err
    if running.returncode == 130:
        assert b"Interrupted. What was taken stays" in err
    (made,) = imported(saf, own)[0]["conversations"]
    assert made["already"] > 0
    assert [json.loads(one)["blocks"][0]["text"] for one in record(saf, made["conversation"])] == [
        f"word {n}" for n in range(2000)
    ]


def test_two_imports_at_once(saf: Saf, own: Path) -> None:
    """Two who import the same file at the same time give one record without a message twice."""
    mine(own, *[one for one in session() if not isinstance(one, bytes)])
    both = [
        subprocess.Popen(saf.command("import", own), env=saf.environment(), stdout=subprocess.PIPE) for _ in range(2)
    ]
    assert [one.wait(60) for one in both] == [0, 0]
    for one in both:
        assert one.stdout is not None
        one.stdout.close()
    (file,) = imported(saf, own)
    assert [one["appended"] for one in file["conversations"]] == [0, 0]
    kept = [text for one in conversations(file) for text in kept_lines(record(saf, one))]
    assert len(kept) == len(set(kept))


# --- files and folders


def test_folders_and_files(saf: Saf, tmp_path: Path) -> None:
    """A folder is searched whole; what is named is told when it cannot be read, what was found is passed over."""
    deep = tmp_path / "projects" / "-srv-glass"
    deep.mkdir(parents=True)
    mine(deep / "s.jsonl", user("u1", "go"))
    (deep / "notes.txt").write_text("no JSON at all\n", encoding="utf-8")
    (deep / "other.json").write_text('{"some": "thing"}\n', encoding="utf-8")
    (deep / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (deep / "empty.jsonl").write_bytes(b"")
    (tmp_path / "projects" / "loop").symlink_to(tmp_path / "projects")
    done = saf("import", tmp_path / "projects", deep / "s.jsonl")
    assert done.code == 0, done.err
    assert done.out.count("conv_") == 1
    assert (
        done.err
        == f"passed over {deep / 'other.json'}: its lines are of no format that is known here (saf, claude-code)\n"
    )
    named = saf("import", deep / "other.json", deep / "notes.txt", deep / "empty.jsonl", deep / "s.jsonl")
    assert named.code == 1
    assert named.err.count("was not imported") == 3
    assert "[not_understood]" in named.err
    assert "1 known before" in named.out


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", 1, "the file is empty"),
        (b"hello\n", 1, "no line of it is a JSON object"),
        ('{"type":"user"}'.encode("utf-16"), 1, "it is UTF-16"),
        (written([line("summary", None, summary="x", leafUuid="y")]), 3, "Nothing was found to import"),
    ],
)  # fmt: skip
def test_files_with_nothing_to_take(saf: Saf, own: Path, content: bytes, code: int, said: str) -> None:
    """Each says why, in one sentence, with an exit code of its kind."""
    own.write_bytes(content)
    done = saf("import", own)
    assert done.code == code
    assert said in done.err


def test_a_path_that_is_not_there(saf: Saf, tmp_path: Path) -> None:
    """Wrong use, told before anything is done."""
    done = saf("import", tmp_path / "nowhere.jsonl")
    assert done.code == 2
    assert "nowhere.jsonl" in done.err


def test_standard_input(saf: Saf) -> None:
    """`saf export | saf import -` gives a new conversation with the same messages, byte for byte."""
    conversation = saf.conversation("one", "two")
    assert saf("append", conversation, stdin='{"role":"tool", "blocks":[],"metadata":{"a": 1.10}}').code == 0
    export = saf("export", conversation).out
    done = saf("--json", "import", "-", stdin=export)
    assert done.code == 0, done.err
    (copy,) = conversations(done.json["files"][0])
    assert copy != conversation
    assert [bare(one) for one in record(saf, copy)] == [bare(one) for one in export.encode().splitlines()]


def bare(stored: bytes) -> bytes:
    """What stands behind the daemon's fields: they come first, and `prev_hash` is their last."""
    head, found, rest = stored.partition(b'"prev_hash":"')
    assert found
    assert head.startswith(b'{"id":"')
    return rest.partition(b'",')[2]


def test_one_files_trouble_is_not_the_others(saf: Saf, tmp_path: Path) -> None:
    """An archived conversation takes nothing; the files after it are imported, and the exit code tells."""
    first, second = tmp_path / "a" / "a.jsonl", tmp_path / "b" / "b.jsonl"
    for file in (first, second):
        file.parent.mkdir()
        content = written([user("u1", "go")]).replace(b"0b6f6f1c", f"{tmp_path.name}{file.stem}".encode())
        file.write_bytes(content)
    (conversation,) = conversations(imported(saf, first)[0])
    with saf.daemon.connect() as connection:
        connection.call("conversation.archive", {"conversation": conversation})
    first.write_bytes(first.read_bytes() + written([user("u2", "more", "u1")]))
    done = saf("import", first, second)
    assert done.code == 1
    assert "conversation_archived" in done.err
    assert done.out.count("conv_") == 2
    assert "1 new, 1 known before" in done.out


def test_no_daemon_is_told_before_anything(saf: Saf, own: Path, tmp_path: Path) -> None:
    """Where nobody answers, the sentence says where was looked."""
    mine(own, user("u1", "go"))
    done: Done = saf("import", own, env={"SAFD_SOCKET": str(tmp_path / "none.sock")})
    assert done.code == 1
    assert "none.sock" in done.err


def test_nothing_foreign_moves_the_terminal(saf: Saf, own: Path) -> None:
    """Names of kinds, of files and reasons come from the file: escapes in them are shown, not obeyed."""
    odd = own.with_name("a\x1b[31mb.jsonl")
    mine(odd, user("u1", "\x1b]0;title\x07go"), {"type": "\x1b[2J", "uuid": "x"}, b"\x1b[1m\n")
    done = saf("import", odd)
    assert done.code == 0, done.err
    assert "\x1b" not in done.out + done.err
    assert "␛[2J" in done.out


def test_what_is_no_transcript_by_its_kind(saf: Saf, tmp_path: Path) -> None:
    """A device without an end and a file larger than memory are refused before they are read; others go on."""
    large, good = tmp_path / "large.jsonl", tmp_path / "good.jsonl"
    with large.open("wb") as file:
        file.truncate(1024 * 1024 * 1024 + 1)
    good.write_text('{"role":"user","blocks":[]}\n', encoding="ascii")
    done = saf("import", "/dev/zero", large, good)
    assert done.code == 1
    assert "no regular file" in done.err
    assert "split it" in done.err
    assert "1 new" in done.out
