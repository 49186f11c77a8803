"""The page of threats: every row has tests, every test that it names is there."""

import ast
import re

from tests.checkout import ROOT, parsed

PAGE = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| attack", "| ---"))]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def defined_in(path: str) -> set[str]:
    tree = parsed(ROOT / path)
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_row_is_tried() -> None:
    """No threat stands there by assertion alone."""
    assert len(ROWS) > 30
    assert [row for row in ROWS if not NAMED.search(row.rpartition(" | ")[2])] == []


def test_every_test_is_there() -> None:
    """What a row names exists under this very name."""
    named = NAMED.findall(PAGE)
    assert [f"{path}::{name}" for path, name in named if name not in defined_in(path)] == []
