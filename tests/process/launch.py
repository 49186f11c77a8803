"""Become another account, then do one thing: `launch.py UID GID GROUPS serve ARGUMENTS...` or `... talk SOCKET`.

Started as root and from there on as that account for good. All modules are loaded before: the interpreter and the
checkout may lie where the account cannot look.

`talk` is an agent by hand: each line of stdin is sent on one connection, each line that comes back goes to stdout.
"""

import ctypes
import importlib
import os
import pkgutil
import socket
import sys

PR_SET_DUMPABLE = 4


def become(uid: int, gid: int, groups: str) -> None:
    os.setgroups([int(group) for group in groups.split(",") if group])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # an exec by the account itself would leave the process dumpable: /proc/PID belongs to the account
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def load_all() -> None:
    import safd

    for module in pkgutil.walk_packages(safd.__path__, "safd."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("encodings.idna", "encodings.ascii", "encodings.latin_1", "trio._core._run", "xdg.BaseDirectory"):
        importlib.import_module(name)


def serve(uid: int, gid: int, groups: str, arguments: list[str]) -> None:
    load_all()
    from safd.cli import main

    become(uid, gid, groups)
    if os.environ.get("LISTEN_FDS"):
        os.environ["LISTEN_PID"] = str(os.getpid())
    sys.argv = ["safd", "serve", *arguments]
    main()


def talk(uid: int, gid: int, groups: str, path: str) -> None:
    become(uid, gid, groups)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(path)
        with sock.makefile("rb") as answers:
            for line in sys.stdin.buffer:
                sock.sendall(line)
                sys.stdout.buffer.write(answers.readline())
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    _, uid, gid, groups, what, *rest = sys.argv
    if what == "serve":
        serve(int(uid), int(gid), groups, rest)
    else:
        talk(int(uid), int(gid), groups, rest[0])
