"""A sixth block kind fails type checking wherever blocks are matched, and nowhere else: the page says where."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT, tool

PAGE = ROOT / "docs" / "adding-a-block.md"
SIXTH = """

@attrs.frozen(kw_only=True)
class Sketch:
    strokes: str


Block: TypeAlias = Text | Reasoning | ToolUse | ToolResult | Image | Sketch
"""


def modules_on_the_page() -> set[str]:
    listed = PAGE.read_text(encoding="utf-8").partition("<!-- the type checker points at -->")[2].partition("\n\n#")[0]
    return set(re.findall(r"^\* `([^`]+\.py)`", listed, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout with one more block kind, and nothing else changed."""
    there = tmp_path_factory.mktemp("sixth")
    for folder in ("safd", "client"):
        shutil.copytree(ROOT / folder, there / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", there)
    blocks = there / "safd" / "model" / "blocks.py"
    text = blocks.read_text(encoding="utf-8")
    before, union, after = text.partition("\nBlock: TypeAlias = Text | Reasoning | ToolUse | ToolResult | Image\n")
    assert union, "the union of blocks is spelled otherwise now: say so here"
    blocks.write_text(before + SIXTH + after, encoding="utf-8")
    return there


def test_mypy_points_at_each_place(tree: Path) -> None:
    """Errors of mypy that name the new kind stand in exactly the modules that the page names."""
    done = subprocess.run(
        [tool("mypy"), "--no-incremental", "--hide-error-context", "--no-error-summary"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    found = set(re.findall(r"^([^\s:]+\.py):\d+: error:.*\bSketch\b", done.stdout, flags=re.MULTILINE))
    assert found == modules_on_the_page(), done.stdout + done.stderr


def test_pyright_points_at_each_place(tree: Path) -> None:
    """Errors of pyright that name the new kind stand in exactly the modules that the page names."""
    done = subprocess.run(
        [tool("pyright"), "--outputjson", "--pythonpath", sys.executable],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    errors = [each for each in report["generalDiagnostics"] if "Sketch" in each["message"]]
    found = {Path(each["file"]).relative_to(tree.resolve()).as_posix() for each in errors}
    assert found == modules_on_the_page(), json.dumps(errors, indent=1)
