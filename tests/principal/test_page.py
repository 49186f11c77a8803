"""The administrators' page and the closed sets say the same."""

import re
from pathlib import Path

from safd.model.admissions import parse_admission
from safd.model.principals import BLOCK_CLOSING, BLOCK_OPENING, DriftKind, Posture, Strength

PAGE = (Path(__file__).parents[2] / "docs/principal.md").read_text()


def _rows(heading: str) -> list[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)


def test_postures_stand_in_their_order() -> None:
    """The table's order is the order in which the questions are asked."""
    assert _rows("Postures") == list(Posture)


def test_each_kind_has_one_row() -> None:
    """No drift kind is unexplained, or explained twice."""
    rows = _rows("Drift")
    assert len(rows) == len(set(rows))
    assert set(rows) == set(DriftKind)


def test_strengths_and_markers() -> None:
    """The words of an answer stand on the page as they are."""
    for word in (*Strength, BLOCK_OPENING, BLOCK_CLOSING):
        assert f"`{word}`" in PAGE


def test_the_example_is_an_admission() -> None:
    """The file that the page shows is one that the daemon reads."""
    text = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    assert parse_admission(text.group(1), "1001.toml").find("annie") is not None
