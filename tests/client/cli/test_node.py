"""`saf whoami`, `status`, `drift`, `demo --json`, `--version`, `--help`: the node from a shell."""

import json
import os
import signal
import subprocess
import sys

import pytest

from safd import __version__
from tests.client.cli.conftest import Saf


def test_whoami(saf: Saf) -> None:
    """Account, posture, and the text that a model would be told."""
    done = saf("whoami")
    assert done.code == 0
    assert "<runtime-principal>" in done.out
    principal = saf("--json", "whoami").json["principal"]
    assert principal["uid"] == os.geteuid()
    assert principal["text"] in done.out


def test_a_claim_is_passed_on(saf: Saf) -> None:
    """The name that one gives oneself is in the answer as what it is: not admitted."""
    assert saf("--agent", "hermes", "--json", "whoami").json["principal"]["posture"] in {"unadmitted", "privileged"}


@pytest.mark.root
def test_status(saf: Saf) -> None:
    """The daemon in numbers, the socket that was used, and what this kernel gives."""
    done = saf("status")
    assert done.code == 0
    assert str(saf.daemon.socket) in done.out
    status = saf("--json", "status").json
    assert status["version"] == __version__
    assert status["pid"] == saf.daemon.pid


@pytest.mark.root
def test_drift(saf: Saf) -> None:
    """An admission file that is none is drift, whole and named; without it there is none."""
    assert saf("drift").code in {0, 3}
    broken = saf.daemon.admissions / "4242.toml"
    broken.write_text("uid = 4243\n", encoding="ascii")
    try:
        done = saf("drift")
        assert done.code == 4
        assert str(broken) in done.out
        report = saf("--json", "drift")
        assert report.code == 4
        assert len(report.json["unreadable"]) == 1
    finally:
        broken.unlink()


@pytest.mark.root
def test_drift_that_lasts(saf: Saf) -> None:
    """Drift that goes away meanwhile is none; drift that stays is; the two ways of going on exclude each other."""
    broken = saf.daemon.admissions / "4242.toml"
    broken.write_text("uid = 4243\n", encoding="ascii")
    try:
        assert saf("drift", "--lasting", "0.3", "--every", "0.1").code == 4
        with subprocess.Popen(
            saf.command("drift", "--lasting", "60", "--every", "0.1"), stdout=subprocess.PIPE, env=saf.environment()
        ) as made:
            broken.unlink()
            assert made.wait(30) == 0
    finally:
        broken.unlink(missing_ok=True)
    assert saf("drift", "--watch", "--lasting", "1").code == 2
    assert saf("drift", "--every", "0").code == 2


@pytest.mark.root
def test_drift_is_watched(saf: Saf) -> None:
    """The report comes again when it changed, a line each as JSON, until one is interrupted."""
    broken = saf.daemon.admissions / "4242.toml"
    with subprocess.Popen(
        saf.command("--json", "drift", "--watch", "--every", "0.1"), stdout=subprocess.PIPE, env=saf.environment()
    ) as made:
        assert made.stdout is not None
        assert json.loads(made.stdout.readline())["unreadable"] == []
        broken.write_text("uid = 4243\n", encoding="ascii")
        try:
            assert [one["path"] for one in json.loads(made.stdout.readline())["unreadable"]] == [str(broken)]
        finally:
            broken.unlink()
        made.send_signal(signal.SIGINT)
        assert made.wait(30) == 130


def test_demo_as_json() -> None:
    """The demo for a program is one JSON text."""
    done = subprocess.run(
        [sys.executable, "-m", "saf_client", "--json", "demo"], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_version_and_help(saf: Saf) -> None:
    """Both answer without a daemon; help lists every command in one line each."""
    assert saf("--version").out == f"saf {__version__}\n"
    out = saf("--help").out
    for command in ("demo", "whoami", "ls", "show", "tail", "append", "replay", "import", "export", "compact"):
        assert f"  {command} " in out
