"""The form of the tree: sizes, names, docstrings, one version, a changelog that is kept."""

import ast
import importlib.metadata
import re
import tokenize
from pathlib import Path

import pytest

import safd
from tests.checkout import CLIENT, ROOT, SAFD, parsed, shown, sources

SOFT_LINES = 400
HARD_LINES = 600
ROOMS = sources(SAFD, CLIENT)
TESTS = sources(ROOT / "tests")
PACKAGES = [path for path in ROOMS if path.name == "__init__.py"]
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager"}


@pytest.mark.parametrize("path", ROOMS, ids=shown)
def test_size(path: Path) -> None:
    """A module is one idea: above 600 lines it is several."""
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= HARD_LINES


def test_sizes_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Modules above the soft limit are named in the run's output, so that they are seen before they are too large."""
    long = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ROOMS}
    named = [f"{name}: {lines} lines" for name, lines in long.items() if lines > SOFT_LINES]
    with capsys.disabled():
        for line in named:
            print(f"\n  above {SOFT_LINES} lines: {line}", end="")
    assert len(named) < len(ROOMS)


@pytest.mark.parametrize("path", PACKAGES, ids=shown)
def test_package_says_what_it_is(path: Path) -> None:
    """A package's `__init__` says in one sentence what the package is, and holds nothing more (but the version)."""
    tree = parsed(path)
    docstring = ast.get_docstring(tree)
    assert docstring is not None
    assert re.fullmatch(r"[A-Z`][^\n]*[^.\n]\.", docstring), docstring
    rest = [node for node in tree.body[1:] if not (isinstance(node, ast.Assign) and path == SAFD / "__init__.py")]
    assert rest == []


@pytest.mark.parametrize("path", ROOMS + TESTS, ids=shown)
def test_name_says_something(path: Path) -> None:
    """No module is named for holding whatever was left over."""
    assert path.stem not in EMPTY_NAMES
    assert path.parent.name not in EMPTY_NAMES


@pytest.mark.parametrize("path", ROOMS + TESTS, ids=shown)
def test_nothing_is_left_for_later(path: Path) -> None:
    """What is missing stands in an issue, not in the code."""
    with tokenize.open(path) as file:
        comments = [t.string for t in tokenize.generate_tokens(file.readline) if t.type == tokenize.COMMENT]
    assert [comment for comment in comments if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", comment)] == []
    names = {node.id for node in ast.walk(parsed(path)) if isinstance(node, ast.Name)}
    assert "NotImplementedError" not in names


@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=shown)
def test_every_test_says_what_must_hold(path: Path) -> None:
    """Each test has a docstring that states the law it shows."""
    silent = [
        node.name
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_one_version() -> None:
    """The version stands once, in `safd/__init__.py`; metadata and everything else take it from there."""
    assert importlib.metadata.version("safd") == safd.__version__
    literal = re.compile(rf"""['"]{re.escape(safd.__version__)}['"]""")
    assert [shown(path) for path in ROOMS if literal.search(path.read_text(encoding="utf-8"))] == ["safd/__init__.py"]


def test_changelog_is_kept() -> None:
    """The changelog has a place for what is not released yet, and its kinds stand in order."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n## [Unreleased]\n" in text
    order = ["Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"]
    for release in text.split("\n## ")[1:]:
        kinds = re.findall(r"^### (\w+)$", release, flags=re.MULTILINE)
        assert kinds == sorted(kinds, key=order.index)


def test_typed_packages_say_so() -> None:
    """Both packages ship `py.typed`."""
    assert (SAFD / "py.typed").exists()
    assert (CLIENT / "py.typed").exists()
