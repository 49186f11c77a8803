"""Files that are only type-checked: `assert_type` states what callers may rely on, an ignore what must be refused."""

import sys

from tests.checkout import ROOT, must_pass, tool

FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "typing").glob("checked_*.py"))


def test_mypy_agrees() -> None:
    """Strict mypy infers what the files state, and refuses what they mark."""
    assert FILES
    must_pass(tool("mypy"), "--config-file", "pyproject.toml", *FILES)


def test_pyright_agrees() -> None:
    """Pyright infers the same, and refuses the same."""
    assert FILES
    must_pass(tool("pyright"), "--pythonpath", sys.executable, *FILES)
