"""Which unit a cgroup path proves, and which it only seems to prove."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.principal.unit import (
    CgroupPath,
    CgroupUnreadable,
    Layout,
    MachineScope,
    NoUnit,
    SessionScope,
    SystemUnit,
    UnitOf,
    UserUnit,
    cgroup_of,
    layout_of,
    unit_of,
)

UNIT = "saf-agent@annie.service"

PATHS: tuple[tuple[str, UnitOf], ...] = (
    (f"/system.slice/{UNIT}", SystemUnit(name=UNIT)),
    (f"/system.slice/system-saf\\x2dagent.slice/{UNIT}", SystemUnit(name=UNIT)),
    (f"/system.slice/{UNIT}/sub/evil.service", SystemUnit(name=UNIT)),
    (f"/a.slice/a-b.slice/a-b-c.slice/{UNIT}", SystemUnit(name=UNIT)),
    ("/system.slice/_cgroup.foo.service", SystemUnit(name="cgroup.foo.service")),
    ("/system.slice/__x.service", SystemUnit(name="_x.service")),
    ("/init.scope", SystemUnit(name="init.scope")),
    (
        "/user.slice/user-1001.slice/user@1001.service/app.slice/agent.service",
        UserUnit(manager="user@1001.service", name="agent.service"),
    ),
    (
        f"/user.slice/user-1001.slice/user@1001.service/system.slice/{UNIT}",
        UserUnit(manager="user@1001.service", name=UNIT),
    ),
    ("/user.slice/user-1001.slice/user@1001.service", UserUnit(manager="user@1001.service", name=None)),
    ("/user.slice/user-1001.slice/session-3.scope", SessionScope(name="session-3.scope")),
    ("/user.slice/user-999.slice/session-c1.scope", SessionScope(name="session-c1.scope")),
    (f"/machine.slice/machine-x.scope/system.slice/{UNIT}", MachineScope(name="machine-x.scope")),
    (f"/machine.slice/{UNIT}", MachineScope(name=UNIT)),
    ("/system.slice/docker-0123.scope", MachineScope(name="docker-0123.scope")),
    ("/", NoUnit(path="/")),
    ("/system.slice", NoUnit(path="/system.slice")),
    (f"/docker/0123/system.slice/{UNIT}", NoUnit(path=f"/docker/0123/system.slice/{UNIT}")),
    (f"/folder/{UNIT}", NoUnit(path=f"/folder/{UNIT}")),
    ("/system.slice/ann ie.service", NoUnit(path="/system.slice/ann ie.service")),
)


@pytest.mark.parametrize(("path", "unit"), PATHS, ids=[path for path, _ in PATHS])
def test_unit(path: str, unit: UnitOf) -> None:
    """The first component that is no slice is the unit; nothing below it, and nothing that a person made, can be."""
    assert unit_of(path) == unit


@given(below=st.lists(st.sampled_from([UNIT, "system.slice", "x", "user@7.service", "..."]), max_size=5))
def test_nothing_below_a_persons_manager_becomes_a_system_unit(below: list[str]) -> None:
    """Whatever a person makes inside their own subtree, it stays theirs."""
    path = "/".join(["/user.slice/user-1001.slice/user@1001.service", *below])
    assert isinstance(unit_of(path), UserUnit)


HYBRID = "9:name=systemd:/system.slice/a.service\n4:memory:/x\n0::/system.slice/b.service\n"


@pytest.mark.parametrize(
    ("own", "layout"),
    [
        ("0::/system.slice/safd.service\n", Layout.UNIFIED),
        ("9:name=systemd:/\n0::/system.slice/safd.service\n", Layout.UNIFIED),
        ("9:name=systemd:/system.slice/safd.service\n0::/\n", Layout.NAMED),
        ("9:name=systemd:/system.slice/safd.service\n", Layout.NAMED),
        ("9:name=systemd:/\n", Layout.NAMED),
        ("9:name=systemd:/\n0::/\n", Layout.UNIFIED),
        (HYBRID, Layout.UNIFIED),
        ("", Layout.UNIFIED),
    ],
)
def test_layout(own: str, layout: Layout) -> None:
    """The manager's tree is the one in which the daemon has a place; in doubt the unified one."""
    assert layout_of(own) is layout


def test_each_layout_reads_its_own_line() -> None:
    """The line is settled by the layout, not tried one after the other."""
    assert cgroup_of(HYBRID, Layout.UNIFIED) == CgroupPath(path="/system.slice/b.service")
    assert cgroup_of(HYBRID, Layout.NAMED) == CgroupPath(path="/system.slice/a.service")
    assert isinstance(cgroup_of("4:memory:/x\n", Layout.UNIFIED), CgroupUnreadable)
    assert isinstance(cgroup_of("0::/x\n", Layout.NAMED), CgroupUnreadable)


@pytest.mark.parametrize(
    "text",
    [
        "0::/system.slice/x.service (deleted)\n",
        "0::/../a.service\n",
        "0::/..\n",
        "0::/../../system.slice/saf-agent@annie.service\n",
        "0::relative\n",
        "",
        "garbage",
    ],
)
def test_unreadable(text: str) -> None:
    """A removed cgroup, one outside of the namespace and an unknown form are no paths."""
    assert isinstance(cgroup_of(text, Layout.UNIFIED), CgroupUnreadable)


@given(
    name=st.text(alphabet=st.characters(exclude_characters="\n/\0", exclude_categories=["Cs"]), min_size=1, max_size=30)
)
def test_a_folders_name_cannot_add_a_line(name: str) -> None:
    """Only the line end that the kernel refuses in names ends a line; colons and odd separators stay in the path."""
    for prefix in ("", "\x0c0::", "\x850::", "\u20280::", ":0::", "\r0::"):
        path = f"/user.slice/user@1001.service/{prefix}{name}/system.slice"
        assert cgroup_of(f"3:cpu:/\n0::{path}\n", Layout.UNIFIED) == CgroupPath(path=path)
        assert cgroup_of(f"1:name=systemd:{path}\n0::/\n", Layout.NAMED) == CgroupPath(path=path)
