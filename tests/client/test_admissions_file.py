"""Writing admissions: what people wrote stays, every text is one that the daemon reads, a file is old or new."""

import os
import secrets
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saf_client import admissions_file
from safd.model.admissions import Admission, parse_admission
from safd.model.errors import Malformed, ValueNotAllowed
from safd.model.ids import Uid
from safd.model.principals import Mode

UID = Uid(1001)
RESIDENT = Admission(agent="annie", mode=Mode.RESIDENT)
KITTY = Admission(agent="kitty", mode=Mode.BORROWED, readers=("casey",))
COMMENTED = """# asked for by dora, ticket 7
uid = 1001
account = "annie"   # the harbour's agent

[agents.annie]
mode = "resident"
# only here
unit = "saf-agent@annie.service"
"""


def test_a_first_agent_makes_the_file() -> None:
    """Without a file the text holds the account and the one agent."""
    text = admissions_file.with_agent(None, uid=UID, account="annie", admission=RESIDENT)
    assert parse_admission(text, "1001.toml").agents == (RESIDENT,)


def test_comments_stay() -> None:
    """Another agent is added below; what stood there stays as it was written."""
    text = admissions_file.with_agent(COMMENTED, uid=UID, account="annie", admission=KITTY)
    assert text.startswith(COMMENTED.rstrip("\n"))
    assert [agent.agent for agent in parse_admission(text, "1001.toml").agents] == ["annie", "kitty"]


def test_admitting_again_replaces() -> None:
    """The same agent admitted anew is what was said last, and no more."""
    text = admissions_file.with_agent(COMMENTED, uid=UID, account="annie", admission=RESIDENT)
    assert parse_admission(text, "1001.toml").agents == (RESIDENT,)
    assert text.startswith("# asked for by dora")


def test_dismissing() -> None:
    """One of several goes and the rest stays; the last takes the file with it; a stranger is an error."""
    both = admissions_file.with_agent(COMMENTED, uid=UID, account="annie", admission=KITTY)
    left = admissions_file.without_agent(both, uid=UID, agent="kitty")
    assert left is not None
    assert parse_admission(left, "1001.toml") == parse_admission(COMMENTED, "1001.toml")
    assert "# only here" in left
    assert admissions_file.without_agent(left, uid=UID, agent="annie") is None
    with pytest.raises(ValueNotAllowed):
        admissions_file.without_agent(left, uid=UID, agent="kitty")


def test_a_file_of_another_account_is_not_touched() -> None:
    """A uid that the file gives to another name is a mistake to be looked at, not overwritten."""
    with pytest.raises(ValueNotAllowed):
        admissions_file.with_agent(COMMENTED, uid=UID, account="anna", admission=KITTY)
    with pytest.raises(Malformed):
        admissions_file.with_agent("broken", uid=UID, account="annie", admission=KITTY)


NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
MOMENTS = st.none() | st.integers(0, 4_000_000_000).map(lambda second: datetime.fromtimestamp(second, UTC))
ADMISSIONS = st.builds(
    Admission,
    agent=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,8}", fullmatch=True),
    mode=st.sampled_from(Mode),
    node=st.none() | st.just("a" * 32),
    unit=st.none() | st.just("saf-agent@x.service"),
    groups=st.none() | st.lists(NAMES | st.integers(0, 70000), max_size=3).map(tuple),
    readers=st.lists(NAMES | NAMES.map("@{}".format), max_size=3).map(tuple),
    operators=st.lists(NAMES, max_size=3).map(tuple),
    not_before=MOMENTS,
    no_new_privs=st.booleans(),
    seccomp=st.booleans(),
    pinned=st.booleans(),
)


@given(admissions=st.lists(ADMISSIONS, min_size=1, max_size=4))
def test_what_is_written_is_read(admissions: list[Admission]) -> None:
    """Whatever is admitted in whatever order, the daemon reads exactly the last word on each agent."""
    text: str | None = None
    said: dict[str, Admission] = {}
    for admission in admissions:
        text = admissions_file.with_agent(text, uid=UID, account="annie", admission=admission)
        said[admission.agent] = admission
    assert text is not None
    read = parse_admission(text, "1001.toml")
    assert {agent.agent: agent for agent in read.agents} == said
    for agent in list(said)[:-1]:
        text = admissions_file.without_agent(text, uid=UID, agent=agent)
        assert text is not None
    assert [agent.agent for agent in parse_admission(text, "1001.toml").agents] == [list(said)[-1]]


def test_written_for_all_to_read_and_one_to_write(tmp_path: Path) -> None:
    """The file is 0644 under any umask, one name only, and leaves nothing beside it."""
    old = os.umask(0o077)
    try:
        admissions_file.write(tmp_path, UID, COMMENTED)
        admissions_file.write(tmp_path, UID, COMMENTED)
    finally:
        os.umask(old)
    (path,) = tmp_path.iterdir()
    found = path.stat()
    assert (path.name, stat.S_IMODE(found.st_mode), found.st_nlink) == ("1001.toml", 0o644, 1)
    assert admissions_file.read_text(tmp_path, UID) == COMMENTED
    admissions_file.remove(tmp_path, UID)
    assert admissions_file.read_text(tmp_path, UID) is None
    with pytest.raises(FileNotFoundError):
        admissions_file.remove(tmp_path, UID)


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a text that is no admission nor a full disk touches the file that stands, or leaves a part behind."""
    admissions_file.write(tmp_path, UID, COMMENTED)
    with pytest.raises(Malformed):
        admissions_file.write(tmp_path, UID, "broken")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        admissions_file.write(tmp_path, UID, COMMENTED.replace("dora", "casey"))
    assert [path.name for path in tmp_path.iterdir()] == ["1001.toml"]
    assert admissions_file.read_text(tmp_path, UID) == COMMENTED


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits under the temporary name, it is not written through."""
    target = tmp_path / "target"
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".1001.toml.guessed").symlink_to(target)
    with pytest.raises(FileExistsError):
        admissions_file.write(tmp_path, UID, COMMENTED)
    assert not target.exists()
