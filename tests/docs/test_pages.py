"""The pages describe what there is: every method, code, setting, event, verdict and command; links lead somewhere."""

import ast
import re
from enum import StrEnum
from pathlib import Path

import attrs
import click
import pytest

from saf_client.cli import app
from safd import cli as safd_cli
from safd.api import events
from safd.api.faults import FAULTS
from safd.api.methods import METHODS
from safd.model import codec
from safd.model.messages import Role
from safd.model.principals import DriftKind, Mode, Pin, Posture, Strength
from safd.model.projections import PrefixBreak, ReasoningCapability, RepairKind, Target
from safd.model.turns import TurnState
from safd.settings import Limits
from tests.checkout import CLIENT, ROOT, SAFD, parsed, sources

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def missing(words: list[str], text: str) -> list[str]:
    """Words that do not stand in the text as code."""
    return [word for word in words if not re.search(rf"`[^`\n]*(?<![\w.]){re.escape(word)}(?!\w)[^`\n]*`", text)]


def test_methods() -> None:
    """Each method has its line in the protocol's page, with its route."""
    text = page("protocol.md")
    assert missing([method.name for method in METHODS], text) == []
    routes = [f"{method.route.verb} {method.route.path}" for method in METHODS if method.route is not None]
    assert [route for route in routes if route not in text] == []


def test_events() -> None:
    """Each live event is described in the protocol's page."""
    names = [*events.MESSAGE_EVENTS, events.TURN, events.MARK, events.GAP]
    assert missing(names, page("protocol.md")) == []


def test_error_codes() -> None:
    """Each code has a heading of its own, with its HTTP status and JSON-RPC number below."""
    text = page("errors.md")
    sections = dict(re.findall(r"^#{2,4} `([a-z0-9_]+)`\n(.*?)(?=^#|\Z)", text, flags=re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(error.code for error in FAULTS)
    for error, fault in FAULTS.items():
        assert str(fault.status) in sections[error.code], error.code
        assert str(fault.number) in sections[error.code], error.code


def test_settings() -> None:
    """Each limit has its row, with its default."""
    rows = dict(
        re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page("operations.md").partition("## Settings")[2], re.MULTILINE)
    )
    assert list(rows) == [field.name for field in attrs.fields(Limits)]
    for field in attrs.fields(Limits):
        number, _, unit = rows[field.name].strip().partition(" ")
        assert float(number) * (1024 * 1024 if unit == "MiB" else 1) == field.default, field.name


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("record.md", Role),
        ("record.md", codec.BLOCK_TYPES),
        ("record.md", codec.MESSAGE_FIELDS),
        ("record.md", codec.DAEMON_FIELDS),
        ("record.md", codec.USAGE_FIELDS),
        ("principal.md", Posture),
        ("principal.md", DriftKind),
        ("principal.md", Mode),
        ("principal.md", Pin),
        ("principal.md", Strength),
        ("replay.md", Target),
        ("replay.md", RepairKind),
        ("replay.md", PrefixBreak),
        ("replay.md", ReasoningCapability),
    ],
)
def test_closed_sets(name: str, members: type[StrEnum] | tuple[str, ...]) -> None:
    """Each member of a closed set is named on the page of its subject."""
    assert missing([str(member) for member in members], page(name)) == []


def test_turn_states() -> None:
    """The words page names each state that a turn can be in."""
    assert [state for state in TurnState if state.value not in page("words.md")] == []


def commands(group: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, group)]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            found += commands(command, f"{path} {name}")
    return found


def all_commands() -> list[tuple[str, click.Command]]:
    return commands(safd_cli.cli, "safd") + commands(app.saf, "saf")


def test_commands() -> None:
    """Each command and each of its options is described, and says what it does when asked for help."""
    text = page("commands.md")
    found = all_commands()
    assert missing([path for path, _ in found], text) == []
    for path, command in found:
        assert command.help, path
        options = [option for each in command.params if isinstance(each, click.Option) for option in each.opts]
        long = [option for option in options if option.startswith("--")]
        assert missing(long, text) == [], path


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links(path: Path) -> None:
    """Each link to a file of the checkout leads to one, and each anchor to a heading."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    """No page is an island: README names each."""
    readme = PAGES[0].read_text(encoding="utf-8")
    assert [path.name for path in DOCS.glob("*.md") if f"docs/{path.name}" not in readme] == []


def test_files_that_pages_name_exist() -> None:
    """Where a page names a module or a test, it is there."""
    named = re.compile(r"`((?:safd|tests|client|systemd|docs|\.ci)/[\w./-]+)`")
    for path in PAGES:
        for name in named.findall(path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_class_names_are_words() -> None:
    """No class is a manager, a helper, a base or a handler: such names say nothing."""
    banned = re.compile(r"Manager|Helper|Util|^Base|Base$|Handler|Processor|Info$|Data$")
    allowed = {"ImageData", "PidfdInfo"}  # an image's bytes, against its URL; the kernel's struct pidfd_info
    found = [
        node.name
        for path in sources(SAFD, CLIENT)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef) and banned.search(node.name) and node.name not in allowed
    ]
    assert found == []
