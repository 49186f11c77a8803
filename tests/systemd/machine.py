"""A real systemd for tests: this machine's own files under a throw-away overlay, booted by systemd-nspawn.

Nothing is built or downloaded, and nothing reaches the machine's files. The container has a cgroup tree of its own,
made in a private mount namespace, so that it boots where the machine's cgroups are of the old kind and where its first
process is no systemd. Readiness comes by notification; nothing is polled for.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from tempfile import mkdtemp

import attrs

BOOTS_WITHIN_S = 60.0
ENDS_WITHIN_S = 20.0
ANSWERS_WITHIN_S = 60.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POWER_OFF = signal.SIGRTMIN + 4
PROGRAMS = ("systemd-nspawn", "nsenter", "unshare", "setpriv", "dbus-daemon")
PREFIX = "saf-machine-"

# one process from unshare to nspawn: whoever ends the test run ends the machine
BOOT = r"""
set -eu
if [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ]; then
  umount -R /sys/fs/cgroup
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
mkdir "/sys/fs/cgroup/$NAME"
echo $$ > "/sys/fs/cgroup/$NAME/cgroup.procs"
mount -t tmpfs -o mode=755 tmpfs "$WORK/upper"
mkdir "$WORK/upper/files" "$WORK/upper/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$WORK/upper/files,workdir=$WORK/upper/work" "$WORK/root"
cp -a "$WORK/files/." "$WORK/root/"
: > "$WORK/root/etc/fstab"
rm -f "$WORK/root/etc/machine-id"
printf '%s\n' "$MACHINE_ID" > "$WORK/root/etc/machine-id"
exec systemd-nspawn --directory="$WORK/root" --boot --register=no --keep-unit --machine="$NAME" --quiet \
  --notify-ready=yes --console=pipe --private-network --link-journal=no --resolv-conf=off --timezone=off \
  --kill-signal=SIGRTMIN+4 "$@" systemd.unit=safd-test.target < /dev/null
"""
TRIAL = """
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mkdir /mnt/cgroup
mount -t cgroup2 cgroup2 /mnt/cgroup
"""
# not multi-user.target: what the machine has enabled stays off
TARGET = """[Unit]
Requires=basic.target
Wants=dbus.service systemd-logind.service systemd-user-sessions.service
After=basic.target dbus.service systemd-logind.service systemd-user-sessions.service
AllowIsolate=yes
"""


def unfit() -> str | None:
    """Why no machine can be booted here, or None."""
    if os.geteuid() != 0:
        return "needs root: a container is booted"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    tried = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "bash", "-ec", TRIAL], capture_output=True, check=False
    )
    return f"needs an overlay and cgroups of its own: {tried.stderr.decode()}" if tried.returncode else None


@attrs.frozen(kw_only=True)
class Done:
    code: int
    out: str
    err: str


@attrs.frozen
class Machine:
    """A booted machine. `leader` is its first process, by this machine's numbers."""

    leader: int
    machine_id: str

    def enter(self, *command: str, sent: str = "") -> Done:
        """For administration alone: what runs so stands outside the machine's units."""
        inside = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        clean = ["env", "-i", f"PATH={PATH}", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=", "LANG=C.UTF-8"]
        done = subprocess.run(
            ["nsenter", "--target", str(self.leader), *inside, "--", *clean, *command],
            input=sent,
            text=True,
            capture_output=True,
            timeout=ANSWERS_WITHIN_S,
            check=False,
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    def must(self, *command: str, sent: str = "") -> str:
        """The output of administration that has to work."""
        done = self.enter(*command, sent=sent)
        assert done.code == 0, f"{command}: {done}"
        return done.out.strip()

    def in_unit(self, *command: str, uid: str = "root", unit: str | None = None) -> Done:
        """In a transient unit of the system's manager."""
        named = () if unit is None else (f"--unit={unit}",)
        run = ("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--service-type=exec", f"--uid={uid}")
        return self.enter(*run, *named, "--", *command)

    def in_person(self, person: str, *command: str, unit: str | None = None) -> Done:
        """In a transient unit of the person's own manager, which `begin_person` started."""
        uid = self.must("id", "-u", person)
        named = () if unit is None else (f"--unit={unit}",)
        become = ("setpriv", f"--reuid={person}", f"--regid={person}", "--init-groups")
        run = ("systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect")
        return self.enter(*become, "env", f"XDG_RUNTIME_DIR=/run/user/{uid}", *run, *named, "--", *command)

    def begin_person(self, person: str) -> None:
        """An account with a manager that runs without a login."""
        self.must("useradd", "--create-home", "--shell", "/bin/bash", person)
        uid = self.must("id", "-u", person)
        self.must("loginctl", "enable-linger", person)
        self.must("systemctl", "start", f"user@{uid}.service")

    def write(self, path: str, text: str, mode: str = "644") -> None:
        self.must("install", "-D", "-m", mode, "/dev/stdin", path, sent=text)

    def show(self, unit: str, what: str) -> str:
        return self.must("systemctl", "show", "--value", "-p", what, unit)

    def journal(self, *matches: str) -> str:
        self.must("journalctl", "--sync")
        return self.must("journalctl", "--no-pager", "-o", "cat", *matches)


@contextlib.contextmanager
def booted(files: Mapping[str, str | Path], binds: Mapping[str, Path]) -> Generator[Machine]:
    """A machine with these files (text, or a file's path) and these folders of ours, read-only, at these places."""
    sweep()
    work = Path(mkdtemp(prefix=PREFIX, dir="/var/tmp"))
    work.chmod(0o755)
    name, machine_id = work.name.replace("_", "-"), os.urandom(16).hex()
    for folder in ("upper", "root", "files"):
        (work / folder).mkdir(mode=0o755)
    lay_out(work / "files", {**files, "/etc/systemd/system/safd-test.target": TARGET})
    command = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--propagation", "private", "bash", "-c", BOOT]
    command += ["bash", *(f"--bind-ro={ours}:{there}" for there, ours in binds.items())]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        (work / "console").open("w+b") as console,
    ):
        notified.bind(str(work / "notify"))
        environment = {"PATH": PATH, "WORK": str(work), "NAME": name, "MACHINE_ID": machine_id}
        environment["NOTIFY_SOCKET"] = str(work / "notify")
        process = subprocess.Popen(
            command, env=environment, stdout=console, stderr=console, stdin=subprocess.DEVNULL, start_new_session=True
        )
        leader: int | None = None
        try:
            leader = wait_ready(notified, process, work / "console")
            yield Machine(leader, machine_id)
        finally:
            end(process, leader)
            remove(work, name)


def lay_out(root: Path, files: Mapping[str, str | Path]) -> None:
    for path, content in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else content.read_text(encoding="utf-8")
        target.write_text(text, encoding="utf-8")
        target.chmod(0o755 if text.startswith("#!") else 0o644)
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def wait_ready(notified: socket.socket, process: "subprocess.Popen[bytes]", console: Path) -> int:
    notified.settimeout(0.2)
    leader, until = None, time.monotonic() + BOOTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            lines = notified.recv(4096).decode().splitlines()
        except TimeoutError:
            continue
        for line in lines:
            if line.startswith("X_NSPAWN_LEADER_PID="):
                leader = int(line.partition("=")[2])
            if line == "READY=1" and leader is not None:
                return leader
    raise RuntimeError(f"the machine did not boot:\n{console.read_text(errors='replace')[-4000:]}")


def end(process: "subprocess.Popen[bytes]", leader: int | None) -> None:
    if leader is not None and process.poll() is None:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.kill(leader, POWER_OFF)
            process.wait(ENDS_WITHIN_S)
    if process.poll() is None:
        process.kill()
        process.wait()


def remove(work: Path, name: str) -> None:
    """Its folder, and its empty cgroups where this machine sees them."""
    for top in (Path("/sys/fs/cgroup") / name, Path("/sys/fs/cgroup/unified") / name):
        if top.is_dir():
            for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            top.rmdir()
    shutil.rmtree(work, ignore_errors=True)


def sweep() -> None:
    """What a killed run left: folders whose machine has ended."""
    for work in Path("/var/tmp").glob(f"{PREFIX}*"):
        name = work.name.replace("_", "-")
        running = subprocess.run(["pgrep", "-f", f"--machine={name}"], capture_output=True, check=False)
        if running.returncode != 0:
            with contextlib.suppress(OSError):
                remove(work, name)
