"""Which machine this is, and what a machine without an id is called."""

from pathlib import Path

import pytest

from safd.model.admissions import parse_admission
from safd.model.errors import ValueNotAllowed
from safd.node.identity import UNIDENTIFIED, read_node

ID = "0123456789abcdef0123456789abcdef"


def test_first_file_that_holds_an_id(tmp_path: Path) -> None:
    """A file that is missing, empty or not yet initialised is passed over."""
    empty, fresh, good = tmp_path / "empty", tmp_path / "fresh", tmp_path / "good"
    empty.write_text("")
    fresh.write_text("uninitialized\n")
    good.write_text(f"{ID}\n")
    assert read_node((tmp_path / "missing", empty, fresh, good)).id == ID


def test_no_id_can_be_admitted() -> None:
    """Without an id the node's is a word that no admission may write, so none that names a node holds here."""
    assert read_node(()).id == UNIDENTIFIED
    with pytest.raises(ValueNotAllowed):
        parse_admission(f'uid = 7\naccount = "a"\n[agents.x]\nmode = "resident"\nnode = "{UNIDENTIFIED}"\n', "7.toml")
