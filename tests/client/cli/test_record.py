"""`saf append`, `ls`, `show`, `tail`, `export`, `import` of safd's own lines: the record from a shell."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.client.cli.conftest import Saf
from tests.client.cli.terminal import seen_by

ESCAPES = "\x1b]0;owned\x07\x1b[2Jhidden\x1b[8m \u202egnp.exe\u202c \x9b31m\r over \x08\x08"


def readable(out: str) -> bool:
    """Nothing that a terminal would act on but line ends and tabs; no change of direction that is not closed."""
    return all(character in "\n\t" or (character >= " " and character not in "\x7f\x9b\u202e") for character in out)


def test_append_and_show(saf: Saf) -> None:
    """What was appended is shown, in order, with who said it."""
    conversation = saf.conversation("What does 1.10 cost?", "And two?")
    shown = saf("show", conversation)
    assert shown.code == 0
    assert shown.out.index("#1 user") < shown.out.index("What does 1.10 cost?") < shown.out.index("#2 user")


def test_append_is_verbatim(saf: Saf) -> None:
    """JSON on standard input is stored byte for byte, and comes back so."""
    conversation = saf.conversation("first")
    exact = '{ "role":"user", "blocks":[ {"text":"\\u00e9","type":"text"} ], "metadata":{"n":1.10,"m":[1E2]} }'
    assert saf("append", conversation, stdin=exact).code == 0
    (stored,) = saf("--json", "export", conversation, "--after", "1").out.splitlines()
    assert stored.endswith("," + exact[1:])


def test_append_of_several_is_one(saf: Saf) -> None:
    """A list or one message a line are stored together, or, with one bad message, not at all."""
    conversation = saf.conversation("first")
    one = json.dumps({"role": "user", "blocks": [{"type": "text", "text": "x"}]})
    assert saf("append", conversation, stdin=f"[{one},{one}]").out.endswith("stored as 2 to 3\n")
    assert saf("append", conversation, stdin=f"{one}\n{one}\n").out.endswith("stored as 4 to 5\n")
    bad = saf("append", conversation, stdin=f'{one}\n{{"role":"user","blocks":[{{"type":"video"}}]}}\n')
    assert bad.code == 1
    assert "messages[1].blocks[0].type" in bad.err
    assert saf("--json", "ls").json["data"][0]["head_seq"] == 5


def test_append_with_a_key_is_once(saf: Saf) -> None:
    """The same key and text again change nothing, also with a conversation that is new; another text is refused."""
    first = saf("--json", "append", "new", "--text", "once", "--key", "k-1")
    again = saf("--json", "append", "new", "--text", "once", "--key", "k-1")
    assert (first.code, again.code) == (0, 0)
    assert first.json["conversation"] == again.json["conversation"]
    assert first.json["ids"] == again.json["ids"]
    other = saf("append", "new", "--text", "twice", "--key", "k-1")
    assert other.code == 1
    assert "[idempotency_key_reused]" in other.err


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["append", "new"], "", 2, "Standard input is empty"),
        (["append", "new"], "{", 1, "standard input"),
        (["append", "new"], b"\xff", 1, "UTF-8"),
        (["append", "new"], '{"role":"user"}', 1, "blocks"),
        (["append", "new"], '{"role":"user","blocks":[],"seq":1}', 1, "seq"),
        (["append", "conv_x", "--text", "x"], "", 1, "conv_x"),
        (["show", "nonsense"], "", 2, "nonsense"),
        (["show", "conv_01a231e6-e42a-76a4-b609-b19d42b60ee4"], "", 3, "conversation_missing"),
        (["export", "conv_01a231e6-e42a-76a4-b609-b19d42b60ee4"], "", 3, "conversation_missing"),
        (["show"], "", 2, "CONV"),
        (["shwo"], "", 2, "shwo"),
        (["ls", "--limit", "0"], "", 2, "--limit"),
        (["ls", "--of", "nobody-there"], "", 3, "No conversation"),
        (["append", "new", "--text", "x", "--role", "robot"], "", 2, "robot"),
    ],
)
def test_bad_input(saf: Saf, arguments: list[str], stdin: str | bytes, code: int, said: str) -> None:
    """A sentence that names what is wrong, and the exit code of its kind: 1 failed, 2 usage, 3 nothing found."""
    done = saf(*arguments, stdin=stdin)
    assert done.code == code, done.err
    assert said in done.err
    assert not done.out


def test_errors_as_json(saf: Saf) -> None:
    """A program reads the code, not the sentence."""
    done = saf("--json", "show", "conv_01a231e6-e42a-76a4-b609-b19d42b60ee4")
    assert done.code == 3
    assert json.loads(done.err)["error"]["code"] == "conversation_missing"


def test_expected_seq(saf: Saf) -> None:
    """Who appends on an older state is told where the record is now."""
    conversation = saf.conversation("one", "two")
    done = saf("--json", "append", conversation, "--text", "late", "--expected-seq", "1")
    assert done.code == 1
    error = json.loads(done.err)["error"]
    assert (error["code"], error["head_seq"]) == ("seq_conflict", 2)


def test_nothing_in_a_record_moves_the_terminal(saf: Saf) -> None:
    """Escapes, controls and changes of direction are shown as what they are, in every command, titles included."""
    blocks = [
        {"type": "text", "text": ESCAPES},
        {"type": "reasoning", "reasoning": ESCAPES},
        {"type": "tool_use", "id": ESCAPES, "name": ESCAPES, "input": {"k": ESCAPES}},
        {"type": "tool_use", "id": "b", "name": "x", "input": ESCAPES},
        {"type": "tool_result", "tool_use_id": "b", "tool_name": ESCAPES, "output": ESCAPES, "is_error": True},
        {"type": "image", "media_type": ESCAPES, "data": "AAAA"},
        {"type": "image", "url": ESCAPES},
    ]
    message = {"role": "assistant", "blocks": blocks, "model": ESCAPES, "provider": ESCAPES, "timestamp": ESCAPES}
    made = saf("--json", "append", "new", "--title", ESCAPES, stdin=json.dumps(message))
    conversation = str(made.json["conversation"])
    for arguments in (
        ["show", conversation, "--whole"],
        ["ls"],
        ["replay", conversation, "-t", "anthropic", "--explain"],
    ):
        done = saf(*arguments)
        assert done.code == 0
        assert readable(done.out), arguments
    for target in ("openai-chat", "anthropic"):
        assert readable(seen_by(saf, "replay", conversation, "--target", target, columns=80).replace("\r\n", "\n"))


def test_ids_are_never_cut(saf: Saf) -> None:
    """What one copies out of a list is whole, however narrow the terminal is."""
    conversation = saf.conversation("x", title="a very long title " * 20)
    assert conversation in saf("ls").out
    out = seen_by(saf, "ls", columns=60)
    assert conversation in out
    assert "…" in out


def test_a_reader_that_leaves(saf: Saf) -> None:
    """`saf export | head -1` ends quietly."""
    conversation = saf.conversation("x")
    many = "\n".join(json.dumps({"role": "user", "blocks": [{"type": "text", "text": "y" * 5000}]}) for _ in range(500))
    assert saf("append", conversation, stdin=many).code == 0
    with subprocess.Popen(
        saf.command("export", conversation), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=saf.environment()
    ) as made:
        assert made.stdout is not None
        assert made.stderr is not None
        made.stdout.readline()
        made.stdout.close()
        assert made.wait(30) == 141
        assert made.stderr.read() == b""


def test_tail_follows_until_interrupted(saf: Saf) -> None:
    """What is stored comes first, then what happens; Ctrl-C ends it without a word of Python."""
    conversation = saf.conversation("before")
    with subprocess.Popen(
        saf.command("tail", conversation), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=saf.environment()
    ) as made:
        seen = read_until(made, b"before")
        assert saf("append", conversation, "--text", "afterwards").code == 0
        seen += read_until(made, b"afterwards")
        assert seen.index(b"before") < seen.index(b"afterwards")
        made.send_signal(signal.SIGINT)
        assert made.wait(30) == 130
        assert made.stderr is not None
        assert b"Traceback" not in made.stderr.read()


def read_until(made: "subprocess.Popen[bytes]", end: bytes) -> bytes:
    assert made.stdout is not None
    seen, deadline = b"", time.monotonic() + 30
    while end not in seen:
        ready, _, _ = select.select([made.stdout], [], [], deadline - time.monotonic())
        assert ready, seen
        part = os.read(made.stdout.fileno(), 65536)
        assert part, seen
        seen += part
    return seen


def test_export_and_import_again(saf: Saf, tmp_path: Path) -> None:
    """What was exported and imported elsewhere is the same record: every message to the letter, in order."""
    conversation = saf.conversation("one")
    exact = '{"role":"tool","blocks":[],"metadata":{"a": 1.10}}'
    assert saf("append", conversation, stdin=exact).code == 0
    file = tmp_path / "out.jsonl"
    assert saf("export", conversation, "-o", file).code == 0
    assert file.read_text(encoding="utf-8") == saf("export", conversation).out
    imported = saf("--json", "import", file)
    assert imported.code == 0, imported.err
    (made,) = imported.json["files"][0]["conversations"]
    assert (made["appended"], made["already"], made["refused"]) == (2, 0, [])
    copy = saf("export", made["conversation"]).out.splitlines()
    assert copy[1].endswith(exact[1:])
    again = saf("--json", "import", file).json["files"][0]["conversations"][0]
    assert (again["conversation"], again["appended"], again["already"]) == (made["conversation"], 0, 2)


def test_no_daemon(saf: Saf, tmp_path: Path) -> None:
    """Nobody answers: the sentence says where was looked, and what to do."""
    done = saf("ls", env={"SAFD_SOCKET": str(tmp_path / "none.sock")})
    assert done.code == 1
    assert str(tmp_path / "none.sock") in done.err
    assert "[no_daemon]" in done.err
    assert "safd serve" in done.err
