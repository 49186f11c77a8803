"""What the tests of commands share: the real daemon, and the command as a person runs it, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.daemon import Daemon, running


@attrs.frozen(kw_only=True)
class Done:
    """How a command ended. No command may ever show a traceback."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@attrs.frozen
class Saf:
    """Runs `saf` against one daemon; `env` adds to the environment."""

    daemon: Daemon
    env: Mapping[str, str] = {}

    def __call__(self, *arguments: str | Path, stdin: str | bytes = b"", env: Mapping[str, str] = {}) -> Done:
        sent = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
        done = subprocess.run(
            self.command(*arguments),
            input=sent,
            capture_output=True,
            check=False,
            timeout=60,
            env=self.environment(env),
        )
        err = done.stderr.decode("utf-8")
        assert "Traceback" not in err, err
        return Done(code=done.returncode, out=done.stdout.decode("utf-8", "surrogatepass"), err=err)

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "saf_client", *map(str, arguments)]

    def environment(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        return {**os.environ, "SAFD_SOCKET": str(self.daemon.socket), **self.env, **more}

    def conversation(self, *texts: str, title: str = "a title") -> str:
        """A new conversation of these texts, a user's each."""
        made = self("--json", "append", "new", "--text", texts[0], "--title", title)
        assert made.code == 0, made.err
        found = str(made.json["conversation"])
        for text in texts[1:]:
            assert self("append", found, "--text", text).code == 0
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("served")) as daemon:
        yield daemon


@pytest.fixture
def saf(served: Daemon) -> Saf:
    return Saf(served)
