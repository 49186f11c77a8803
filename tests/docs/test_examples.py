"""What the pages tell a reader to type works: README's curl minute, the chain by hand, the demo."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.daemon import running

WITHIN_S = 120


def block(page: str, name: str) -> str:
    """The shell block that stands behind `<!-- run: name -->`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"<!-- run: {name} -->\n```sh\n(.*?)```", text, flags=re.DOTALL)
    assert found, f"{page} has no block {name}"
    return found.group(1)


def typed(script: str, folder: Path) -> str:
    """What a reader sees who types the script in `folder`."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_minute_with_curl(tmp_path: Path) -> None:
    """README's minute with curl: the principal, an append that comes back verbatim, a replay that holds it."""
    (tmp_path / "try").mkdir()
    with running(tmp_path / "try"):
        script = "echo\n".join(block("README.md", name) for name in ("principal", "record", "replay"))
        lines = typed(script + "echo\n", tmp_path).splitlines()
    answers = [line for line in lines if line]
    principal = json.loads(answers[0])["principal"]
    assert principal["posture"]
    assert '"metadata": {"price": 1.10}' in "".join(answers), "not verbatim"
    replayed = json.loads(answers[-1])
    assert replayed["target"] == "anthropic"
    assert any(part["text"] == principal["text"] for part in replayed["payload"]["system"])


def test_serve_command(tmp_path: Path) -> None:
    """README's way to start a daemon is understood as it stands."""
    command = block("README.md", "serve").strip().removesuffix("&").replace(".venv/bin/safd", "exec safd")
    assert "exec safd serve --socket" in command
    script = command.replace("exec safd", f"exec {sys.executable} -m safd")
    with running(tmp_path, command=["bash", "-c", f"cd {tmp_path} && {script}"]) as daemon:
        assert (tmp_path / "try" / "safd.sock").is_socket()
        assert daemon.stop() == 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_chain_by_hand(tmp_path: Path) -> None:
    """The record's page verifies a chain with sha256sum alone, and sees a text that was changed."""
    with running(tmp_path) as daemon, daemon.connect() as line:
        made = line.call("conversation.create", {})["conversation"]["id"]
        messages = [
            '{"role":"user",\n "blocks":[{"type":"text","text":"\\ud800 é \\u0000"}]}',
            '{"role":"user","blocks":[],"metadata":{"data":[],"first_id":[1.10]}}',
            '{"role":"assistant","blocks":[{"type":"text","text":"],\\"first_id\\""}]}',
        ]
        # over HTTP a body may hold line feeds between its tokens: they are part of the text that is kept
        address = ["--unix-socket", str(daemon.socket), f"http://localhost/v1/conversations/{made}/messages"]
        body = f'{{"messages":[{",".join(messages)}]}}'
        offer = [*address, "-H", "Content-Type: application/json", "--data-binary", body]
        subprocess.run(["curl", "-sS", "--fail", *offer], check=True, capture_output=True)
        script = f"conversation={made} socket={daemon.socket}\n" + block("docs/record.md", "chain")
        assert typed(script, tmp_path) == "3 messages read\n"
        swapped = script.replace('$(printf %s "$conversation"', "$(printf %s other", 1)
        assert swapped != script
        assert typed(swapped, tmp_path) == "broken at 1\n3 messages read\n"


def test_demo(tmp_path: Path) -> None:
    """`saf demo` starts its own daemon, shows everything, leaves nothing behind and succeeds."""
    saf = [sys.executable, "-m", "saf_client", "demo"]
    done = subprocess.run(saf, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("anthropic", "openai-chat", "<runtime-principal>", "call_unanswered"):
        assert word in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sync", "since", "async"])
def test_client_examples(tmp_path: Path, name: str) -> None:
    """The programs on the client's page run as they stand, each against a daemon that has seen nothing yet."""
    text = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- run: {name} -->\n```python\n(.*?)```", text, flags=re.DOTALL)
    assert found
    with running(tmp_path) as daemon:
        done = subprocess.run(
            [sys.executable, "-"],
            input=found[1],
            env={**os.environ, "SAFD_SOCKET": str(daemon.socket)},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-1] == {"sync": "[]", "since": "True", "async": "user_message"}[name]
