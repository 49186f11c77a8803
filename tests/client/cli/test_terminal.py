"""What a person sees on terminals of several widths: nothing that matters is cut, nothing runs over the edge."""

import json
from pathlib import Path

import pytest

from saf_client.render import width
from tests.client.cli.conftest import Saf
from tests.client.cli.terminal import shown
from tests.client.formats.given import line, session, written
from tests.daemon import Daemon

WIDTHS = (60, 80, 120)
BROKEN = [
    {"role": "assistant", "blocks": [{"type": "reasoning", "reasoning": "hm"}], "timestamp": "2026-11-30T06:58:00Z"},
    {
        "role": "assistant",
        "blocks": [
            {"type": "text", "text": "\n\n"},
            {"type": "tool_use", "id": "a b", "name": "a name with spaces", "input": "no object"},
            {"type": "tool_use", "id": "a b", "name": "x" * 90, "input": {}},
        ],
    },
    {"role": "tool", "blocks": [{"type": "tool_result", "tool_use_id": "lost", "output": "where from? " * 40}]},
    {"role": "user", "blocks": [{"type": "text", "text": "a word " * 60}]},
]


@pytest.fixture(scope="module")
def broken(served: Daemon) -> str:
    made = Saf(served)(
        "--json", "append", "new", "--title", "a title that goes on and on " * 5, stdin=json.dumps(BROKEN)
    )
    assert made.code == 0, made.err
    return str(made.json["conversation"])


def over(lines: list[str], columns: int) -> list[str]:
    return [line for line in lines if width(line) > columns]


def bare(*lines: str) -> str:
    """Without any space: what was broken at an edge is one again."""
    return "".join("".join(lines).split())


@pytest.mark.parametrize("columns", WIDTHS)
def test_repairs_are_whole(saf: Saf, broken: str, columns: int) -> None:
    """Every kind of repair stands whole, and every reason too, below itself where there is no room beside."""
    lines = shown(saf, "replay", broken, "-t", "anthropic", "--explain", columns=columns)
    answer = saf("--json", "replay", broken, "-t", "anthropic").json
    assert over(lines, columns) == []
    assert answer["repairs"]
    for repair in answer["repairs"]:
        assert any(line.startswith(repair["kind"] + " ") for line in lines), repair
        assert bare(repair["detail"]) in bare(*lines)
    assert not any("…" in line.split(maxsplit=2)[-1] for line in lines if line)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("command", [["whoami"], ["status"]])
def test_pairs_fit(saf: Saf, command: list[str], columns: int) -> None:
    """Names and values, the block that a model is told: broken between words, no line over the edge, none padded."""
    lines = shown(saf, *command, columns=columns)
    assert [one for one in over(lines, columns) if "/" not in one] == []
    assert [one for one in lines if one != one.rstrip()] == []


@pytest.mark.parametrize("columns", WIDTHS)
def test_lists_are_cut_in_their_title_alone(saf: Saf, broken: str, columns: int) -> None:
    """Ids are whole on the narrowest terminal; the title takes what room there is."""
    lines = [one for one in shown(saf, "ls", columns=columns) if broken in one]
    assert len(lines) == 1
    assert lines[0].startswith(broken + "  ")
    if columns >= 100:
        assert over(lines, columns) == []


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_record_fits(saf: Saf, broken: str, columns: int) -> None:
    """Long words are broken, blank texts are named, and a message has its writer's own time."""
    lines = shown(saf, "show", broken, columns=columns)
    assert over(lines, columns) == []
    assert "  (blank text)" in lines
    assert "#1 assistant  2026-11-30 06:58:00" in lines


def test_a_short_record_needs_no_pager(saf: Saf, broken: str) -> None:
    """What fits on the screen is printed; what does not goes through the pager, whole."""
    environment = Saf(saf.daemon, {**saf.env, "MANPAGER": "", "LESS": ""})
    short = shown(environment, "show", broken, "--after", "3", columns=80, lines=200)
    long = shown(environment, "show", broken, columns=80, lines=5)
    assert any("#4 user" in one for one in short)
    assert all(any(f"#{number} " in one for one in long) for number in (1, 2, 3, 4))


@pytest.mark.parametrize("columns", WIDTHS)
def test_an_imports_summary_is_whole(saf: Saf, tmp_path: Path, columns: int) -> None:
    """Every reason stands whole; the table of conversations is cut in its title alone."""
    file = tmp_path / "session.jsonl"
    odd = [line("x" * 200, f"z{number}", None) for number in range(3)]
    file.write_bytes(written([*session(), *odd]).replace(b"0b6f6f1c-3f5e-4c39", tmp_path.name.encode()))
    lines = shown(saf, "import", str(file), columns=columns)
    told = saf("--json", "import", str(file)).json["files"][0]
    for one in told["left_out"] + told["changed"]:
        assert bare(one["why"]) in bare(*lines), one
    assert "known before" in " ".join(lines)


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_demo_fits(saf: Saf, columns: int) -> None:
    """The whole demonstration stays inside the terminal; clearing makes the payload smaller, as it is meant to."""
    lines = shown(saf, "demo", columns=columns)
    assert [one for one in over(lines, columns) if not one.startswith("#")] == []
    assert sum(one.startswith("[Result cleared") for one in lines) == 6
    before, after = next(one for one in lines if one.startswith("Payload: ")).split(" bytes before, ")
    assert int(before.removeprefix("Payload: ").replace(",", "")) > int(after.split()[0].replace(",", ""))
