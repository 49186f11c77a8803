"""A command on a terminal of its own, of a given width."""

import os
import pty
import re
import subprocess

from tests.client.cli.conftest import Saf

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def seen_by(saf: Saf, *arguments: str, columns: int, lines: int = 24) -> str:
    """All that reaches the terminal, colours and all. The pager is `cat`."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(columns), "LINES": str(lines)}
    environment = saf.environment({**size, "TERM": "dumb", "PAGER": "cat"})
    with subprocess.Popen(saf.command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as made:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        made.wait(60)
    os.close(ours)
    text = seen.decode("utf-8")
    assert "Traceback" not in text, text
    return text


def shown(saf: Saf, *arguments: str, columns: int, lines: int = 24) -> list[str]:
    """The lines that a person reads."""
    text = seen_by(saf, *arguments, columns=columns, lines=lines)
    return _COLOUR.sub("", text).replace("\r\n", "\n").split("\n")
