"""The checkout under test: where it is, its Python rooms, and the tools installed beside the interpreter."""

import ast
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAFD = ROOT / "safd"
CLIENT = ROOT / "client" / "saf_client"
PURE = ("model", "api", "replay", "principal")


def sources(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    start = CLIENT.parent if path.is_relative_to(CLIENT) else ROOT
    parts = path.relative_to(start).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def pure_sources() -> list[Path]:
    return sources(*(SAFD / room for room in PURE))


def tool(name: str) -> str:
    """The command of this interpreter's own environment, not whatever PATH finds first."""
    found = shutil.which(name, path=sysconfig.get_path("scripts"))
    if found is None:
        pytest.fail(f"{name} is not installed beside {sys.executable}: pip install '.[dev]'")
    return found


def must_pass(*command: str, cwd: Path = ROOT) -> None:
    """Fail with all that the tool said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)
