"""The tools that judge the code, run as tests: one command checks everything."""

import sys

import pytest

from tests.checkout import must_pass, tool

CHECKED = ("safd", "client", "tests")


def test_ruff_check() -> None:
    """The code keeps the house's lint rules."""
    must_pass(tool("ruff"), "check", "--output-format=concise", *CHECKED)


def test_ruff_format() -> None:
    """The code is formatted."""
    must_pass(tool("ruff"), "format", "--check", *CHECKED)


def test_mypy() -> None:
    """Strict mypy has nothing to say."""
    must_pass(tool("mypy"))


def test_pyright() -> None:
    """Strict pyright has nothing to say."""
    must_pass(tool("pyright"), "--pythonpath", sys.executable)


def test_import_layers() -> None:
    """Imports run down only, never sideways, and the client imports words and contract alone."""
    must_pass(tool("lint-imports"), "--no-cache")


@pytest.mark.parametrize("script", [".ci/run"])
def test_shell_scripts_parse(script: str) -> None:
    """What CI starts with is at least a script."""
    must_pass("bash", "-n", script)
