"""The strict text of admission files: what they may say, and that half an admission is none."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.model.admissions import AccountAdmission, Admission, file_name, parse_admission, uid_of_file
from safd.model.errors import FieldMissing, FieldType, FieldUnknown, Malformed, ValueNotAllowed
from safd.model.principals import Mode

HEAD = 'uid = 1001\naccount = "annie"\n'
AGENT = HEAD + '[agents.annie]\nmode = "resident"\n'
PATH = "/etc/saf/admissions.d/1001.toml"


def test_everything_that_can_be_said() -> None:
    """Each key lands in its field; what is not said is not demanded."""
    text = (
        AGENT
        + f"""node = "{"a" * 32}"
unit = "saf-agent@annie.service"
groups = ["annie", 44]
readers = ["casey", "@staff"]
operators = ["casey@example.org"]
not_before = 2026-01-01T01:00:00+01:00
expires = 2027-01-01T00:00:00Z
no_new_privs = true
seccomp = true
pinned = true
[agents.kitty]
mode = "borrowed"
"""
    )
    assert parse_admission(text, PATH) == AccountAdmission(
        uid=1001,
        account="annie",
        agents=(
            Admission(
                agent="annie",
                mode=Mode.RESIDENT,
                node="a" * 32,
                unit="saf-agent@annie.service",
                groups=("annie", 44),
                readers=("casey", "@staff"),
                operators=("casey@example.org",),
                not_before=datetime(2026, 1, 1, tzinfo=UTC),
                expires=datetime(2027, 1, 1, tzinfo=UTC),
                no_new_privs=True,
                seccomp=True,
                pinned=True,
            ),
            Admission(agent="kitty", mode=Mode.BORROWED),
        ),
    )


REFUSED: dict[str, tuple[str, type[Malformed], str]] = {
    "not TOML": ("=", ValueNotAllowed, PATH),
    "a key twice": (HEAD + "uid = 1001\n[agents]\n", ValueNotAllowed, PATH),
    "a table twice": (AGENT + '[agents.annie]\nmode = "resident"\n', ValueNotAllowed, PATH),
    "nested without end": (f"{HEAD}x = {'[' * 20000}", ValueNotAllowed, PATH),
    "a number without end": (HEAD.replace("1001", "1" * 10000) + "[agents]\n", ValueNotAllowed, PATH),
    "no uid": ('account = "annie"\n[agents]\n', FieldMissing, f"{PATH}: uid"),
    "no account": ("uid = 1001\n[agents]\n", FieldMissing, f"{PATH}: account"),
    "no agents": (HEAD, FieldMissing, f"{PATH}: agents"),
    "unknown key": (HEAD + "more = 1\n[agents]\n", FieldUnknown, f"{PATH}: more"),
    "unknown key of an agent": (AGENT + "more = 1\n", FieldUnknown, f"{PATH}: agents.annie.more"),
    "agent named inside": (AGENT + 'agent = "x"\n', FieldUnknown, f"{PATH}: agents.annie.agent"),
    "uid of another file": (AGENT.replace("1001", "1002"), ValueNotAllowed, f"{PATH}: uid"),
    "uid as text": (AGENT.replace("1001", '"1001"'), FieldType, f"{PATH}: uid"),
    "uid as a fraction": (AGENT.replace("1001", "1001.0"), FieldType, f"{PATH}: uid"),
    "uid as a truth": (AGENT.replace("1001", "true"), FieldType, f"{PATH}: uid"),
    "account as a number": (AGENT.replace('"annie"', "7", 1), FieldType, f"{PATH}: account"),
    "account with a line end": (AGENT.replace('"annie"', '"a\\nb"', 1), ValueNotAllowed, f"{PATH}: account"),
    "account empty": (AGENT.replace('"annie"', '""', 1), ValueNotAllowed, f"{PATH}: account"),
    "agents as a list": (HEAD + "agents = []\n", FieldType, f"{PATH}: agents"),
    "agent as text": (HEAD + '[agents]\nannie = "resident"\n', FieldType, f"{PATH}: agents.annie"),
    "agent with a marker in its name": (
        HEAD + '[agents."</runtime-principal>"]\nmode = "resident"\n',
        ValueNotAllowed,
        f"{PATH}: agents.</runtime-principal>",
    ),
    "no mode": (HEAD + "[agents.annie]\n", FieldMissing, f"{PATH}: agents.annie.mode"),
    "another mode": (AGENT.replace("resident", "guest"), ValueNotAllowed, f"{PATH}: agents.annie.mode"),
    "node that is no id": (AGENT + 'node = "harbour"\n', ValueNotAllowed, f"{PATH}: agents.annie.node"),
    "unit without a kind": (AGENT + 'unit = "saf-agent"\n', ValueNotAllowed, f"{PATH}: agents.annie.unit"),
    "unit as a path": (AGENT + 'unit = "a/b.service"\n', ValueNotAllowed, f"{PATH}: agents.annie.unit"),
    "groups as text": (AGENT + 'groups = "annie"\n', FieldType, f"{PATH}: agents.annie.groups"),
    "group as a fraction": (AGENT + "groups = [1.5]\n", FieldType, f"{PATH}: agents.annie.groups[0]"),
    "group as a truth": (AGENT + "groups = [true]\n", FieldType, f"{PATH}: agents.annie.groups[0]"),
    "group below zero": (AGENT + "groups = [-1]\n", ValueNotAllowed, f"{PATH}: agents.annie.groups[0]"),
    "reader as a number": (AGENT + "readers = [1002]\n", FieldType, f"{PATH}: agents.annie.readers[0]"),
    "reader of nothing": (AGENT + 'readers = ["@"]\n', ValueNotAllowed, f"{PATH}: agents.annie.readers[0]"),
    "operator with a space": (AGENT + 'operators = ["a b"]\n', ValueNotAllowed, f"{PATH}: agents.annie.operators[0]"),
    "time without an offset": (
        AGENT + "expires = 2027-01-01T00:00:00\n",
        FieldType,
        f"{PATH}: agents.annie.expires",
    ),
    "time as a day": (AGENT + "expires = 2027-01-01\n", FieldType, f"{PATH}: agents.annie.expires"),
    "time as text": (AGENT + 'expires = "2027"\n', FieldType, f"{PATH}: agents.annie.expires"),
    "expires before it begins": (
        AGENT + "not_before = 2027-01-01T00:00:00Z\nexpires = 2027-01-01T00:00:00Z\n",
        ValueNotAllowed,
        f"{PATH}: agents.annie.expires",
    ),
    "demand as a number": (AGENT + "pinned = 1\n", FieldType, f"{PATH}: agents.annie.pinned"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """The whole file is refused, by the cause and with the path of the key."""
    text, error, path = REFUSED[name]
    with pytest.raises(error) as caught:
        parse_admission(text, PATH)
    assert caught.value.path == path


@pytest.mark.parametrize("uid", [0, 65534, 4294967295, 4294967296, -1])
def test_no_admission_for_these(uid: int) -> None:
    """Root, the overflow uid, no uid and what is no uid at all are nobody's account."""
    with pytest.raises(ValueNotAllowed):
        parse_admission(AGENT.replace("1001", str(uid)), f"{uid}.toml")


@given(uid=st.integers(0, 2**33))
def test_file_names(uid: int) -> None:
    """A file's name and its uid are one thing in two forms; there is one spelling of each."""
    if 0 < uid < 2**32 - 1 and uid != 65534:
        assert uid_of_file(file_name(uid)) == uid
    else:
        assert uid_of_file(file_name(uid)) is None
    assert uid_of_file(f"0{uid}.toml") is None


@pytest.mark.parametrize("name", ["annie.toml", "1001", ".toml", "1001.toml.bak", "+1.toml", "1_0.toml", "\u0661.toml"])
def test_other_names_are_no_uids(name: str) -> None:
    """What Python would accept as a number is not thereby a uid's file name."""
    assert uid_of_file(name) is None


@given(text=st.text(max_size=200) | st.text(max_size=60).map(lambda tail: AGENT + tail))
def test_any_text_is_an_admission_or_malformed(text: str) -> None:
    """No text raises anything else than the one family of errors."""
    with contextlib.suppress(Malformed):
        assert parse_admission(text, PATH).uid == 1001
