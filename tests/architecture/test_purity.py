"""The pure rooms decide without the world: no socket, disk, clock, randomness, process or event loop."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import PURE, SAFD, module_name, parsed, pure_sources, shown, sources

# What may not even be loaded. `os`, `time`, `_thread` are part of every interpreter, and attrs and cattrs load
# `threading` and `pathlib`, orjson and msgspec `uuid` and `datetime`: those are judged by their import below.
NEVER_LOADED = {
    "anyio": "an event loop is the caller's",
    "asyncio": "an event loop is the caller's",
    "trio": "an event loop is the caller's",
    "click": "commands are for people; the core talks to code",
    "rich": "commands are for people; the core talks to code",
    "concurrent": "threads belong to store and node",
    "multiprocessing": "processes belong to nobody here",
    "subprocess": "processes belong to nobody here",
    "h11": "HTTP belongs to serve",
    "http": "HTTP belongs to serve",
    "logging": "the core returns what it has to say",
    "psutil": "decoration for people, never evidence",
    "random": "randomness comes in as an argument",
    "secrets": "randomness comes in as an argument",
    "select": "waiting belongs to serve",
    "selectors": "waiting belongs to serve",
    "socket": "bytes in and out belong to serve",
    "sqlite3": "the disk belongs to store",
    "_sqlite3": "the disk belongs to store",
    "ssl": "bytes in and out belong to serve",
    "tempfile": "the disk belongs to store",
    "tomlkit": "admissions are written by the client",
    "xdg": "where files lie is the daemon's business",
}

# What may not be imported by a pure module itself, though a library may have loaded it.
NEVER_IMPORTED = NEVER_LOADED | {
    "fcntl": "the kernel is read in node",
    "grp": "accounts are read in node",
    "io": "the disk belongs to store",
    "os": "the machine is read in node",
    "pwd": "accounts are read in node",
    "resource": "the machine is read in node",
    "shutil": "the disk belongs to store",
    "signal": "the daemon listens to signals",
    "threading": "threads belong to store and node",
    "time": "the time comes in as an argument",
    "urllib": "nothing is fetched",
    "uuid": "ids are minted by model.ids from time and random bytes given",
}

# Calls that read a clock or the disk without any import above.
NEVER_CALLED = {"now", "today", "utcnow", "open", "print", "input", "exec", "eval", "read_text", "read_bytes"}


@pytest.mark.parametrize("room", PURE)
def test_fresh_interpreter(room: str) -> None:
    """Importing every module of a pure room loads nothing that could touch the world."""
    names = [module_name(path) for path in sources(SAFD / room)]
    script = f"import sys, {', '.join(names)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split()) & set(NEVER_LOADED)
    assert {name: NEVER_LOADED[name] for name in loaded} == {}


@pytest.mark.parametrize("path", pure_sources(), ids=shown)
def test_imports(path: Path) -> None:
    """A pure module imports nothing that touches the world."""
    offences = {
        f"{name} (line {node.lineno})": NEVER_IMPORTED[name.partition(".")[0]]
        for node in ast.walk(parsed(path))
        for name in imported(node)
        if name.partition(".")[0] in NEVER_IMPORTED
    }
    assert offences == {}


@pytest.mark.parametrize("path", pure_sources(), ids=shown)
def test_calls(path: Path) -> None:
    """A pure module asks no clock, opens no file, prints nothing."""
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    assert [f"{name_of(call)} (line {call.lineno})" for call in calls if name_of(call) in NEVER_CALLED] == []


def test_the_lists_name_real_modules() -> None:
    """A forbidden name that exists nowhere forbids nothing."""
    script = "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"
    done = subprocess.run([sys.executable, "-c", script, *NEVER_IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            return [node.module or ""]
        case _:
            return []


def name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""
