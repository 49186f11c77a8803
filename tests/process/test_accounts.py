"""Several real accounts against one unprivileged daemon: who each request is, and who may read what."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import LAUNCH, Daemon, Fault, running, user_text
from tests.process.accounts import Account, accounts, admit, agent, open_folder

pytestmark = pytest.mark.root

RESIDENT = '[agents.{}]\nmode = "resident"\n'
BORROWED = '[agents.{}]\nmode = "borrowed"\n'


@pytest.fixture(scope="module")
def people() -> Iterator[dict[str, Account]]:
    """Accounts: the daemon's own, two agents with one each, a person, and somebody else."""
    with accounts("safd", "annie", "bert", "casey", "other") as found:
        yield found


@contextmanager
def unprivileged(folder: Path, people: dict[str, Account]) -> Iterator[Daemon]:
    """The daemon as its own account, on a socket that everybody may connect to, with root's admissions."""
    admissions, store = folder / "admissions.d", folder / "store"
    admissions.mkdir()
    store.mkdir()
    own = people["safd"]
    shutil.chown(store, own.uid, own.gid)
    admit(admissions, people["annie"], RESIDENT.format("annie") + f'readers = ["{people["casey"].name}"]\n')
    admit(admissions, people["bert"], RESIDENT.format("bert"))
    admit(admissions, people["casey"], BORROWED.format("kitty"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / "safd.sock"))
        (folder / "safd.sock").chmod(0o666)
        listener.listen(128)
        command = [sys.executable, "-c", PASSED, str(listener.fileno()), str(LAUNCH), str(own.uid), str(own.gid), ""]
        command += ["serve", "--store", str(store / "record.db"), "--admissions", str(admissions)]
        with running(folder, command=command, pass_fds=[listener.fileno()]) as daemon:
            yield daemon


PASSED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_FDNAMES="safd")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.fixture(scope="module")
def daemon(people: dict[str, Account]) -> Iterator[Daemon]:
    with open_folder() as folder, unprivileged(folder, people) as found:
        yield found


def test_each_is_told_who_it_is(daemon: Daemon, people: dict[str, Account]) -> None:
    """Resident, borrowed, unadmitted, privileged: by the kernel's uid and the admission, at the same time."""
    with (
        agent(people["annie"], daemon.socket) as annie,
        agent(people["bert"], daemon.socket) as bert,
        agent(people["casey"], daemon.socket) as kitty,
        agent(people["other"], daemon.socket) as other,
        daemon.connect() as root,
    ):
        seen = {
            name: caller.call("principal.observe", {"agent": claim} if claim else {})["principal"]
            for name, caller, claim in [
                ("annie", annie, "annie"),
                ("bert", bert, None),
                ("kitty", kitty, "kitty"),
                ("other", other, None),
                ("root", root, None),
            ]
        }
    postures = {name: principal["posture"] for name, principal in seen.items()}
    assert postures == {
        "annie": "resident",
        "bert": "resident",
        "kitty": "borrowed",
        "other": "unadmitted",
        "root": "privileged",
    }
    assert seen["annie"]["uid"] == people["annie"].uid
    assert seen["kitty"]["account"] == people["casey"].name
    assert people["casey"].name in seen["kitty"]["text"]


def test_resident_under_a_persons_account_is_drifted(daemon: Daemon, people: dict[str, Account]) -> None:
    """An agent admitted to its own account that speaks from a person's is told which account it was meant to have."""
    with agent(people["casey"], daemon.socket) as misplaced:
        principal = misplaced.call("principal.observe", {"agent": "annie"})["principal"]
    assert principal["posture"] == "drifted"
    assert principal["expected"] == {"uid": people["annie"].uid, "account": people["annie"].name}
    assert "account_mismatch" in [drift["kind"] for drift in principal["drift"]]
    assert people["annie"].name in principal["text"]


def test_administrators_see_all_principals(daemon: Daemon, people: dict[str, Account]) -> None:
    """Each connected process once, with its principal as it is now; nobody else may ask."""
    with (
        agent(people["annie"], daemon.socket) as annie,
        agent(people["casey"], daemon.socket) as kitty,
        daemon.connect() as root,
        daemon.connect() as again,
    ):
        kitty.call("session.hello", {"agent": "kitty"})
        again.call("session.hello", {})
        annie.call("session.hello", {})
        data = root.call("node.principals", {})["data"]
        seen = {(one["pid"], one["uid"]): (one["principal"]["posture"], one["connections"]) for one in data}
        assert seen == {
            (annie.process.pid, people["annie"].uid): ("resident", 1),
            (kitty.process.pid, people["casey"].uid): ("borrowed", 1),
            (os.getpid(), 0): ("privileged", 2),
        }
        with pytest.raises(Fault) as caught:
            annie.call("node.principals", {})
        assert caught.value.code == "not_administrator"


def test_a_claim_gives_nothing(daemon: Daemon, people: dict[str, Account]) -> None:
    """Somebody who calls himself annie reads nothing of annie's; whoever the admission lists as a reader does."""
    with agent(people["annie"], daemon.socket) as annie:
        made = annie.call("conversation.create", {"agent": "annie"})["conversation"]["id"]
        annie.call("conversation.append", {"conversation": made, "messages": [user_text("secret")]})
    with agent(people["bert"], daemon.socket) as bert:
        bert.call("session.hello", {"agent": "annie"})
        for method in ("conversation.messages", "conversation.get"):
            with pytest.raises(Fault) as caught:
                bert.call(method, {"conversation": made})
            assert caught.value.code in {"conversation_missing", "not_reader"}
        assert bert.call("conversation.list", {})["data"] == []
    with agent(people["casey"], daemon.socket) as casey:
        data = casey.call("conversation.messages", {"conversation": made})["data"]
        assert data[0]["blocks"][0]["text"] == "secret"
        with pytest.raises(Fault) as caught:
            casey.call("conversation.append", {"conversation": made, "messages": [user_text("mine")]})
        assert caught.value.code == "not_operator"


def test_a_changed_admission_holds_from_the_next_request(daemon: Daemon, people: dict[str, Account]) -> None:
    """On one open connection: admitted, dismissed, admitted again."""
    path = daemon.admissions / f"{people['bert'].uid}.toml"
    agents = RESIDENT.format("bert")
    with agent(people["bert"], daemon.socket) as bert:

        def posture() -> str:
            return bert.call("principal.observe", {})["principal"]["posture"]

        postures = [posture()]
        path.unlink()
        postures.append(posture())
        admit(daemon.admissions, people["bert"], agents)
        postures.append(posture())
    assert postures == ["resident", "unadmitted", "resident"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_shows_record_and_principal(daemon: Daemon, people: dict[str, Account]) -> None:
    """A person with curl, as his own account, sees who he is and what may be read."""
    with agent(people["annie"], daemon.socket) as annie:
        made = annie.call("conversation.create", {"agent": "annie"})["conversation"]["id"]
        annie.call("conversation.append", {"conversation": made, "messages": [user_text("for casey")]})
    casey = people["casey"]
    as_casey = ["setpriv", f"--reuid={casey.uid}", f"--regid={casey.gid}", "--clear-groups"]
    address = ["--unix-socket", str(daemon.socket), "-H", "X-Saf-Agent: kitty"]

    def got(path: str, *options: str) -> tuple[int, Any]:
        command = [*as_casey, "curl", "-sS", "-w", "\n%{http_code}", *address, *options, f"http://localhost{path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        body, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(body)

    status, observed = got("/v1/principal")
    assert (status, observed["principal"]["posture"]) == (200, "borrowed")
    status, page = got(f"/v1/conversations/{made}/messages")
    assert (status, page["data"][0]["blocks"][0]["text"]) == (200, "for casey")
    offer = json.dumps({"messages": [user_text("from casey")]})
    status, problem = got(f"/v1/conversations/{made}/messages", "-H", "Content-Type: application/json", "-d", offer)
    assert (status, problem["code"]) == (403, "not_operator")
