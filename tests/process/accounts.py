"""Real Unix accounts for a test, removed afterwards, and agents that speak as them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import attrs

from tests.daemon import LAUNCH, answer, request


@attrs.frozen
class Account:
    name: str
    uid: int
    gid: int


@contextmanager
def accounts(*names: str) -> Iterator[dict[str, Account]]:
    """System accounts `saft-NAME`, each with a group of its own."""
    made: list[str] = []
    try:
        found: dict[str, Account] = {}
        for name in names:
            account = f"saft-{name}"
            subprocess.run(["userdel", account], capture_output=True, check=False)  # of a run that was killed
            command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
            subprocess.run([*command, account], check=True, capture_output=True)
            made.append(account)
            line = subprocess.run(["id", "-u", account], check=True, capture_output=True, text=True)
            group = subprocess.run(["id", "-g", account], check=True, capture_output=True, text=True)
            found[name] = Account(account, int(line.stdout), int(group.stdout))
        yield found
    finally:
        for account in made:
            subprocess.run(["userdel", account], capture_output=True, check=False)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every account can reach, below parents that only root writes; pytest's own are private."""
    folder = Path(mkdtemp(prefix="safd-test-", dir="/run"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Agent:
    """A process of an account, with one connection to the daemon."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def call(self, method: str, params: object) -> Any:
        sent, received = self.process.stdin, self.process.stdout
        assert sent is not None
        assert received is not None
        sent.write(request(method, params))
        sent.flush()
        line = received.readline()
        if not line:
            raise EOFError("the daemon closed the agent's connection")
        return answer(line)


@contextmanager
def agent(account: Account, socket: Path, *, groups: str = "") -> Iterator[Agent]:
    command = [sys.executable, str(LAUNCH), str(account.uid), str(account.gid), groups, "talk", str(socket)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Agent(process)
        finally:
            process.kill()


def admit(folder: Path, account: Account, agents: str) -> None:
    """The administrator's file for an account; `agents` are the TOML tables of the agents admitted to it."""
    path = folder / f"{account.uid}.toml"
    path.write_text(f"account = {json.dumps(account.name)}\nuid = {account.uid}\n\n{agents}", encoding="utf-8")
    path.chmod(0o644)
