"""Arguments, streams and environments as nobody means them: a sentence and an exit code, never a traceback."""

import subprocess
from pathlib import Path

import pytest

from tests.client.cli.conftest import Saf
from tests.daemon import Daemon

NO_TEXT = "\udcff"
"""A byte that is no UTF-8, as it stands in an argument."""


@pytest.fixture(scope="module")
def conversation(served: Daemon) -> str:
    return Saf(served).conversation("é 🌿 שלום")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_terminal_that_lacks_characters(saf: Saf, conversation: str, environment: dict[str, str]) -> None:
    """What cannot be written is written as its number; JSON is UTF-8 whatever the terminal is."""
    shown = saf("show", conversation, env=environment)
    assert shown.code == 0, shown.err
    assert "\\U0001f33f" in shown.out
    assert "🌿" in saf("--json", "show", conversation, env=environment).out


@pytest.mark.parametrize("columns", ["1", "0", "-5", "many", ""])
def test_odd_widths(saf: Saf, conversation: str, columns: str) -> None:
    """A width that is none is no reason to fail."""
    for command in (["show", conversation], ["ls"], ["whoami"]):
        assert saf(*command, env={"COLUMNS": columns}).code == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
@pytest.mark.parametrize("command", [["ls"], ["--json", "ls"], ["show", "CONV"], ["whoami"]])
def test_closed_streams(saf: Saf, conversation: str, command: list[str], closed: str) -> None:
    """A stream that was closed before we began takes nothing and breaks nothing."""
    words = [conversation if word == "CONV" else word for word in command]
    script = f'"$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *saf.command(*words)], env=saf.environment(), capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command",
    [["append", "CONV"], ["append", "new"], ["compact", "CONV", "--through", "1", "--summary", "-"], ["import", "-"]],
)
def test_standard_input_that_says_nothing(saf: Saf, conversation: str, command: list[str]) -> None:
    """Closed, empty, or no text: a sentence, and nothing is done."""
    words = [conversation if word == "CONV" else word for word in command]
    script = '"$@" <&-'
    closed = subprocess.run(
        ["sh", "-c", script, "sh", *saf.command(*words)], env=saf.environment(), capture_output=True, check=False
    )
    assert closed.returncode in {1, 2}, closed
    assert b"Traceback" not in closed.stderr
    for given in (b"", b" \n", b"\xff\xfe"):
        done = saf(*words, stdin=given)
        assert done.code in {1, 2}, done
        assert done.err


def test_a_full_disk(saf: Saf, conversation: str) -> None:
    """Output that cannot be written is a failure with a reason."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            saf.command("export", conversation), env=saf.environment(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert saf("export", conversation, "-o", "/dev/full").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["append", "new", "--text", NO_TEXT],
        ["append", "new", "--text", "a", "--title", NO_TEXT],
        ["append", "new", "--text", "a", "--key", NO_TEXT],
        ["append", "new", "--text", "a", "--key", ""],
        ["append", "new", "--text", "a", "--key", "k" * 3000],
        ["append", NO_TEXT, "--text", "a"],
        ["append", "CONV", "--text", "x", "--expected-seq", "9" * 30],
        ["show", NO_TEXT],
        ["show", "CONV", "--after", "9" * 30],
        ["tail", "CONV", "--after", "9" * 30],
        ["export", "CONV", "--after", "9" * 30],
        ["export", "CONV", "-o", "/nowhere/at/all"],
        ["ls", "--of", NO_TEXT],
        ["ls", "--after", NO_TEXT],
        ["ls", "--limit", "501"],
        ["replay", "CONV", "-t", "anthropic", "--system", NO_TEXT],
        ["replay", "CONV", "-t", "anthropic", "--provider", NO_TEXT],
        ["compact", "CONV", "--through", "9" * 30, "--summary", "x"],
        ["compact", "CONV", "--through", "1", "--summary", NO_TEXT],
        ["compact", "CONV", "--micro", "--keep", "9" * 30],
        ["compact", "CONV", "--restore", NO_TEXT],
        ["--agent", NO_TEXT, "whoami"],
        ["--socket", NO_TEXT, "ls"],
        ["--socket", "x" * 300, "ls"],
        ["--socket", "/etc/passwd", "ls"],
        ["--socket", "/", "ls"],
        ["import", NO_TEXT],
        ["admit", NO_TEXT, "--account", "daemon", "--mode", "resident"],
        ["admit", "x", "--account", NO_TEXT, "--mode", "resident"],
        ["admit", "x", "--account", "daemon", "--mode", "resident", "--group", "a" + NO_TEXT],
        ["admit", "x", "--account", "daemon", "--mode", "resident", "--reader", "a" + NO_TEXT],
        ["admit", "x", "--account", "daemon", "--mode", "resident", "--node", NO_TEXT],
        ["admit", "x", "--account", "daemon", "--mode", "resident", "--expires", NO_TEXT],
        ["dismiss", NO_TEXT],
        [NO_TEXT],
        ["--" + NO_TEXT],
    ],
    ids=lambda arguments: " ".join(arguments).encode("ascii", "backslashreplace").decode()[:60],
)
def test_odd_arguments(saf: Saf, conversation: str, tmp_path: Path, arguments: list[str]) -> None:
    """Bytes that are no text, numbers beyond all counts, empty words: refused in one sentence, nothing done."""
    words = [conversation if word == "CONV" else word for word in arguments]
    if words[0] in ("admit", "dismiss"):
        words += ["--admissions", str(tmp_path / "admissions.d")]
    done = saf(*words)
    assert done.code in {1, 2, 3}, done
    assert done.err.strip()
    assert done.out == ""
    assert not list(tmp_path.iterdir())


def test_escapes_in_arguments(saf: Saf) -> None:
    """A sentence that repeats an argument shows what it holds instead of sending it to the terminal."""
    for arguments in (
        ["show", "\x1b[31mred"],
        ["import", "/\x1b[2J"],
        ["\x1b]0;x\x07"],
        ["--socket", "/\x1b[1m", "ls"],
    ):
        done = saf(*arguments)
        assert done.code != 0
        assert "\x1b" not in done.err
