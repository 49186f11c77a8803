"""The daemon as a service manager sees it: readiness, watchdog, stop, and a socket that stays the manager's."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon import Line, read_notification, running, user_text

WATCHDOG_USEC = 600_000


def test_notifications(tmp_path: Path) -> None:
    """READY once, with a status; WATCHDOG again and again from then on; STOPPING at SIGTERM: all from its own pid."""
    with running(tmp_path, environment={"WATCHDOG_USEC": str(WATCHDOG_USEC)}) as daemon:
        pings = 0
        while pings < 3:
            lines, pid = read_notification(daemon.notified)
            assert pid == daemon.pid
            assert "READY=1" not in lines
            pings += "WATCHDOG=1" in lines
        daemon.process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in read_notification(daemon.notified)[0]:
            continue
        assert daemon.process.wait(30) == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stops_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    """A stop ends with exit code 0 though clients are connected and follow; its own socket is gone; all is stored."""
    with running(tmp_path) as daemon:
        with daemon.connect() as line, daemon.connect() as follower, daemon.connect():
            made = line.call("conversation.create", {})["conversation"]["id"]
            follower.call("conversation.attach", {"conversation": made})
            line.call("conversation.append", {"conversation": made, "messages": [user_text("kept")]})
            daemon.process.send_signal(how)
            assert daemon.process.wait(30) == 0
        assert not daemon.socket.exists()
    with running(tmp_path) as daemon, daemon.connect() as line:
        assert line.call("conversation.get", {"conversation": made})["conversation"]["head_seq"] == 1


def test_second_daemon_is_refused(tmp_path: Path) -> None:
    """A store has one daemon: the second says so, exits with 1, and does not disturb the first."""
    with running(tmp_path) as daemon, daemon.connect() as line:
        command = [sys.executable, "-m", "safd", "serve", "--socket", str(tmp_path / "other.sock")]
        command += ["--store", str(daemon.store), "--admissions", str(daemon.admissions)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert "store_locked" in done.stderr
        assert "Traceback" not in done.stderr
        assert line.call("principal.observe", {})["principal"]["uid"] == os.getuid()


def test_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    """What a killed daemon left behind does not keep the next from starting; a living daemon's socket is not taken."""
    with running(tmp_path) as daemon:
        daemon.kill()
        assert daemon.socket.exists()
    with running(tmp_path) as daemon, daemon.connect() as line:
        command = [sys.executable, "-m", "safd", "serve", "--socket", str(daemon.socket)]
        command += ["--store", str(tmp_path / "other.db"), "--admissions", str(daemon.admissions)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert line.call("principal.observe", {})["principal"]["uid"] == os.getuid()
        with daemon.connect() as fresh:
            assert fresh.call("principal.observe", {})["principal"]["uid"] == os.getuid()


def test_passed_socket_stays_the_managers(tmp_path: Path) -> None:
    """A socket that was passed is served, and is there with its mode after the daemon has stopped."""
    path = tmp_path / "passed.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(16)
        before = path.stat()
        command = [sys.executable, "-c", PASSED, str(listener.fileno()), sys.executable, "-m", "safd", "serve"]
        command += ["--store", str(tmp_path / "record.db"), "--admissions", str(tmp_path / "admissions.d")]
        with running(tmp_path, command=command, pass_fds=[listener.fileno()]) as daemon:
            with Line(path) as line:
                assert line.call("principal.observe", {})["principal"]["uid"] == os.getuid()
            assert daemon.stop() == 0
        after = path.stat()
        assert (after.st_ino, stat.S_IMODE(after.st_mode)) == (before.st_ino, 0o666)


# as systemd does it: the descriptor becomes number 3, and the pid is that of the process that is executed
PASSED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="safd")
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="needs systemd-socket-activate")
def test_socket_activation(tmp_path: Path) -> None:
    """Activated by its first connection, the daemon answers that client too, with its principal or a typed refusal."""
    path = tmp_path / "activated.sock"
    command = [
        "systemd-socket-activate",
        f"--listen={path}",
        "--fdname=safd",
        f"--setenv=PYTHONPATH={os.environ['PYTHONPATH']}",
    ]
    command += [sys.executable, "-m", "safd", "serve", "--store", str(tmp_path / "record.db")]
    command += ["--admissions", str(tmp_path / "admissions.d")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "Listening" in process.stderr.readline()
            with Line(path) as first:
                # the manager set no PassCredentials=, so the message that activates may carry none
                said = first.exact("principal.observe", {})
                assert b'"posture"' in said or b'"principal_' in said
            with Line(path) as second:
                assert second.call("principal.observe", {})["principal"]["uid"] == os.getuid()
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert path.is_socket()
