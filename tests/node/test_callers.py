"""Real processes of several real users on a real socket, and what each comes out as."""

import os
import pwd
from pathlib import Path

import attrs
import pytest
import trio

from safd.model.ids import Uid
from safd.model.principals import ExpectedAccount, Mode, Pin, Posture
from safd.node.accounts import Accounts
from safd.node.peer import Credentials, Kernel, Truncated
from safd.node.process import own_place
from tests.node.callers import (
    ANNIE,
    BORROWER,
    CASEY,
    RESIDENT,
    World,
    descriptors,
    kinds,
    open_world,
    world,
)

__all__ = ["world"]

pytestmark = [pytest.mark.root, pytest.mark.trio]


async def test_resident(world: World) -> None:
    """An agent under its own account comes out as itself, without any drift."""
    world.admit(RESIDENT)
    principal = await world.asked(world.caller(ANNIE))
    assert (principal.posture, principal.agent, principal.mode) == (Posture.RESIDENT, "annie", Mode.RESIDENT)
    assert (principal.uid, principal.account, principal.drift) == (ANNIE, "annie", ())
    assert principal.expected == ExpectedAccount(uid=Uid(ANNIE), account="annie")
    assert principal.pin is Pin.PEERPIDFD


async def test_borrowed(world: World) -> None:
    """An agent under a person's account comes out as a borrower of that person."""
    world.admit(BORROWER)
    principal = await world.asked(world.caller(CASEY), "kitty")
    assert (principal.posture, principal.agent, principal.account) == (Posture.BORROWED, "kitty", "casey")


async def test_unadmitted(world: World) -> None:
    """A uid without a file is nobody's agent."""
    principal = await world.asked(world.caller(CASEY))
    assert (principal.posture, principal.agent, principal.account) == (Posture.UNADMITTED, None, "casey")


@pytest.mark.parametrize("person_admits", [False, True])
async def test_resident_agent_under_a_persons_uid(world: World, person_admits: bool) -> None:
    """It is told that it does not hold its account, and which account that is, whether or not the person admits one."""
    world.admit(RESIDENT)
    if person_admits:
        world.admit(BORROWER)
    principal = await world.asked(world.caller(CASEY), "annie")
    assert (principal.posture, kinds(principal)) == (Posture.DRIFTED, ("account_mismatch",))
    assert (principal.uid, principal.expected) == (CASEY, ExpectedAccount(uid=Uid(ANNIE), account="annie"))
    assert "does not hold that account" in principal.text
    assert f"annie (uid {ANNIE})" in principal.text


async def test_root(world: World) -> None:
    """Root comes out as root, whatever it calls itself."""
    world.admit(RESIDENT)
    principal = await world.asked(world.caller(), "annie")
    assert (principal.posture, principal.agent, principal.uid) == (Posture.PRIVILEGED, None, 0)


async def test_kept_capability(world: World) -> None:
    """A capability kept under an agent's uid puts it above its admission."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(
        "libc = ctypes.CDLL(None); libc.prctl(8, 1, 0, 0, 0)"  # PR_SET_KEEPCAPS
    )
    caller.become(ANNIE)
    principal = await world.asked(caller)
    assert (principal.posture, kinds(principal)) == (Posture.PRIVILEGED, ("capabilities",))


async def test_socket_passed_to_another_uid(world: World) -> None:
    """Who connected is not who writes: opener annie, sender casey."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(
        f"""
ours, theirs = socket.socketpair()
if os.fork() == 0:
    os.setgroups([]); os.setresgid(*[{ANNIE}] * 3); os.setresuid(*[{ANNIE}] * 3)
    opened = socket.socket(socket.AF_UNIX); opened.connect(path)
    socket.send_fds(theirs, [b"x"], [opened.fileno()])
    theirs.recv(1)
    os._exit(0)
_, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
connection = socket.socket(fileno=descriptors[0])
"""
    )
    caller.become(CASEY)
    caller.send()
    principal = await world.verdict(world.accept())
    assert (principal.posture, kinds(principal)) == (Posture.INCONSISTENT, ("sender_user", "sender_process"))
    assert (principal.drift[0].expected, principal.drift[0].seen) == (
        f"uid {ANNIE}, which connected",
        f"uid {CASEY} wrote",
    )


async def test_setuid_deputy_is_not_privileged(world: World) -> None:
    """A process that changes to root after it connected as a person is inconsistent, never privileged."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(f"os.setgroups([]); os.setresgid(*[{ANNIE}] * 3); os.setresuid({ANNIE}, {ANNIE}, 0)")
    caller.connect()
    caller.run("os.setresuid(0, 0, 0)")
    caller.send()
    principal = await world.verdict(world.accept())
    assert principal.posture is Posture.INCONSISTENT
    assert set(kinds(principal)) == {"sender_user", "ids_changed"}


async def test_setuid_agent_program(world: World) -> None:
    """A person who runs with an agent's effective uid only is not that agent."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(f"os.setgroups([]); os.setresgid(*[{ANNIE}] * 3); os.setresuid({CASEY}, {ANNIE}, {ANNIE})")
    principal = await world.asked(caller)
    assert principal.uid == ANNIE
    assert principal.posture is Posture.INCONSISTENT
    assert set(kinds(principal)) == {"sender_user", "ids_changed"}


async def test_forged_credentials(world: World) -> None:
    """A sender without privilege cannot name another uid or pid; one saved uid that it may name is noticed."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(f"os.setgroups([]); os.setresgid(*[{ANNIE}] * 3); os.setresuid({ANNIE}, {ANNIE}, {CASEY})")
    caller.connect()
    explicit = (
        "connection.sendmsg([b'x'], "
        "[(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack('iII', {pid}, {uid}, {gid}))])"
    )
    for forged in ({"pid": 1, "uid": ANNIE}, {"pid": "os.getpid()", "uid": 0}):
        assert "PermissionError" in str(caller.attempt(explicit.format(gid=ANNIE, **forged)))
    caller.run(explicit.format(pid="os.getpid()", uid=CASEY, gid=ANNIE))
    principal = await world.verdict(world.accept())
    assert (principal.posture, kinds(principal)[0]) == (Posture.INCONSISTENT, "sender_user")


async def test_user_namespace(world: World) -> None:
    """Who made a user namespace of its own, and is root in it, is foreign; its capabilities count for nothing."""
    world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    # who dropped its ids itself is not dumpable, and could not write its own maps: PR_SET_DUMPABLE
    caller.run("libc = ctypes.CDLL(None, use_errno=True); libc.prctl(4, 1, 0, 0, 0)")
    if caller.run("out = ctypes.get_errno() if libc.unshare(0x10000000) else 0") != 0:
        pytest.skip("this system permits no unprivileged user namespaces")
    unmapped = await world.asked(caller)
    assert (unmapped.posture, kinds(unmapped), unmapped.uid) == (Posture.FOREIGN, ("foreign_userns",), ANNIE)
    caller.run(f"open('/proc/self/uid_map', 'w').write('0 {ANNIE} 1')")
    mapped = await world.asked(caller)
    assert (mapped.posture, kinds(mapped), mapped.uid) == (Posture.FOREIGN, ("foreign_userns",), ANNIE)


async def test_process_namespace(world: World) -> None:
    """Who lives in a process namespace of its own is foreign."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(
        f"""
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x20000000):
    raise OSError(ctypes.get_errno(), "unshare")
ready, done = os.pipe()
child = os.fork()
if child == 0:
    os.setgroups([]); os.setresgid(*[{ANNIE}] * 3); os.setresuid(*[{ANNIE}] * 3)
    opened = socket.socket(socket.AF_UNIX); opened.connect(path); opened.sendall(b"x")
    os.write(done, b"x")
    signal.pause()
os.read(ready, 1)
"""
    )
    try:
        principal = await world.verdict(world.accept())
    finally:
        caller.run("os.kill(child, 9); os.waitpid(child, 0)")
    assert (principal.posture, kinds(principal)) == (Posture.FOREIGN, ("foreign_pidns",))


async def test_revoked_on_an_open_connection(world: World) -> None:
    """The next request after a dismissal, a change or a loosened mode sees it; nothing is remembered."""
    path = world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    caller.connect()
    accepted = world.accept()

    async def next_request() -> tuple[Posture, tuple[str, ...]]:
        caller.send()
        principal = await world.verdict(accepted)
        return principal.posture, kinds(principal)

    assert await next_request() == (Posture.RESIDENT, ())
    path.chmod(0o666)
    assert await next_request() == (Posture.UNRESOLVABLE, ("record_unsafe",))
    path.unlink()
    assert await next_request() == (Posture.UNADMITTED, ())
    world.admit(RESIDENT + 'node = "ffffffffffffffffffffffffffffffff"\n')
    assert await next_request() == (Posture.DRIFTED, ("node_mismatch",))
    world.admit(RESIDENT)
    assert await next_request() == (Posture.RESIDENT, ())


async def test_groups(world: World) -> None:
    """Groups are held against the list, and a root-equivalent one counts unless it is listed."""
    world.admit(RESIDENT + 'groups = ["annie", "video"]\n')
    assert (await world.asked(world.caller(ANNIE, groups=(61044,)))).posture is Posture.RESIDENT
    assert kinds(await world.asked(world.caller(ANNIE))) == ("groups_mismatch",)
    assert kinds(await world.asked(world.caller(ANNIE, groups=(61044, 61999)))) == (
        "groups_mismatch",
        "privilege_group",
    )


async def test_groups_changed_after_connect_are_noted(world: World) -> None:
    """What the groups were at connect is kept by the kernel; a change is told and changes no posture."""
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(
        """
libc = ctypes.CDLL(None)
def keep(capabilities):
    header = struct.pack("Ii", 0x20080522, 0)
    assert libc.capset(header, struct.pack("6I", capabilities, capabilities, 0, 0, 0, 0)) == 0
libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
"""
    )
    caller.become(ANNIE, (61044,))
    caller.run("keep(1 << 6)")  # CAP_SETGID
    caller.connect()
    caller.run("os.setgroups([]); keep(0)")
    caller.send()
    accepted = world.accept()
    assert accepted.pin.groups == (61044,)
    principal = await world.verdict(accepted)
    assert (principal.posture, kinds(principal)) == (Posture.RESIDENT, ("groups_changed",))


async def test_demands(world: World) -> None:
    """no_new_privs is demanded only where the admission says so, and is seen where it is set."""
    world.admit(RESIDENT + "no_new_privs = true\n")
    caller = world.caller(ANNIE)
    assert kinds(await world.asked(caller)) == ("no_new_privs_absent",)
    caller.run("libc = ctypes.CDLL(None); libc.prctl(38, 1, 0, 0, 0)")
    assert kinds(await world.asked(caller)) == ()


async def test_traced(world: World) -> None:
    """A process under a debugger has drifted for as long as the debugger holds it."""
    world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    caller.connect()
    caller.send()
    accepted = world.accept()
    tracer = world.caller()
    tracer.run("libc = ctypes.CDLL(None, use_errno=True)")
    seized = tracer.run(f"out = libc.ptrace(0x4206, {caller.pid}, None, None)")  # PTRACE_SEIZE does not stop it
    if seized != 0:
        pytest.skip("ptrace is not permitted here")
    principal = await world.verdict(accepted)
    assert (principal.posture, kinds(principal)) == (Posture.DRIFTED, ("traced",))
    tracer.end()
    caller.send()
    assert (await world.verdict(accepted)).posture is Posture.RESIDENT


async def test_login_lineage(world: World) -> None:
    """A resident whose process went through a login has drifted, whoever set it."""
    if not own_place().audit:
        pytest.skip("this kernel keeps no login uids")
    world.admit(RESIDENT)
    caller = world.caller()
    caller.run(f"open('/proc/self/loginuid', 'w').write('{CASEY}')")
    caller.become(ANNIE)
    principal = await world.asked(caller)
    assert (principal.posture, kinds(principal)) == (Posture.DRIFTED, ("login_lineage",))
    assert principal.drift[0].seen == f"loginuid {CASEY}"


CGROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


@pytest.mark.parametrize(
    ("place", "posture", "drift"),
    [
        ("system.slice/saf-agent@annie.service", Posture.RESIDENT, ()),
        ("system.slice/saf-agent@annie.service/sub", Posture.RESIDENT, ()),
        ("system.slice/other.service", Posture.DRIFTED, ("unit_mismatch",)),
        (
            "user.slice/user@61001.service/system.slice/saf-agent@annie.service",
            Posture.DRIFTED,
            ("unit_user_managed",),
        ),
        ("machine.slice/machine-x.scope/saf-agent@annie.service", Posture.DRIFTED, ("unit_mismatch",)),
    ],
)
async def test_placement(world: World, place: str, posture: Posture, drift: tuple[str, ...]) -> None:
    """The kernel's cgroup, made for this test under a name of its own, proves the unit or its absence."""
    root = next((path for path in CGROUPS if (path / "cgroup.controllers").exists()), None)
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("no cgroup tree to write to")
    name = f"saftest{os.getpid()}.slice"
    made: list[Path] = []
    path = root / name
    for component in (None, *place.split("/")):
        path = path if component is None else path / component
        try:
            path.mkdir()
        except OSError:
            pytest.skip("cgroups cannot be made here")
        made.append(path)
    world.admit(RESIDENT + 'unit = "saf-agent@annie.service"\n')
    caller = world.caller(ANNIE)
    try:
        (path / "cgroup.procs").write_text(str(caller.pid))
        principal = await world.asked(caller)
    finally:
        (root / "cgroup.procs").write_text(str(caller.pid))
        for path in reversed(made):
            path.rmdir()
    assert (principal.posture, kinds(principal)) == (posture, drift)


async def test_moved_after_connect(world: World) -> None:
    """A move to another cgroup is noted by its path."""
    root = next((path for path in CGROUPS if (path / "cgroup.controllers").exists()), None)
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("no cgroup tree to write to")
    world.admit(RESIDENT)
    caller = world.caller(ANNIE)
    caller.connect()
    accepted = world.accept()
    folder = root / f"saftest{os.getpid()}.slice"
    folder.mkdir()
    try:
        (folder / "cgroup.procs").write_text(str(caller.pid))
        caller.send()
        principal = await world.verdict(accepted)
    finally:
        (root / "cgroup.procs").write_text(str(caller.pid))
        folder.rmdir()
    assert (principal.posture, kinds(principal)) == (Posture.RESIDENT, ("cgroup_moved",))


@pytest.mark.parametrize(
    ("without", "pin"),
    [
        ({"peer_pidfd": False}, Pin.LATE),
        ({"pidfd_info": False}, Pin.PEERPIDFD),
        ({"peer_pidfd": False, "pidfd_info": False}, Pin.LATE),
        ({"peer_pidfd": False, "pidfd": False, "pidfd_info": False}, Pin.PROCDIR),
        ({"peer_groups": False, "pass_rights": False}, Pin.PEERPIDFD),
    ],
)
async def test_older_kernels(without: dict[str, bool], pin: Pin) -> None:
    """Without a feature the verdict stays the same, and the weaker pin is said."""
    with open_world(attrs.evolve(Kernel.probe(), **without)) as world:
        world.admit(RESIDENT)
        caller = world.caller(ANNIE)
        caller.connect()
        accepted = world.accept()
        caller.send()
        principal = await world.verdict(accepted)
        assert (principal.posture, principal.pin) == (Posture.RESIDENT, pin)
        assert kinds(principal) == (() if pin is Pin.PEERPIDFD else ("weak_pin",))
        world.admit(RESIDENT + "pinned = true\n")
        caller.send()
        demanded = (await world.verdict(accepted)).posture
        assert demanded is (Posture.RESIDENT if pin is Pin.PEERPIDFD else Posture.DRIFTED)
        caller.send()
        senders = accepted.senders()
        caller.end()
        ended = await world.verdict(accepted, senders=senders)
        assert (ended.posture, kinds(ended)) == (Posture.UNRESOLVABLE, ("peer_exited",))


async def test_real_account_by_name(world: World) -> None:
    """An account made by useradd is known by its name at the next request, and missing once it is deleted."""
    name = f"saft{os.getpid()}"
    made = await trio.run_process(
        ["useradd", "--system", "--no-create-home", name], check=False, capture_stdout=True, capture_stderr=True
    )
    if made.returncode != 0:
        pytest.skip("useradd does not work here")
    accounts = Accounts(5)
    try:
        uid = pwd.getpwnam(name).pw_uid
        world.observer._accounts = accounts
        world.admit(f'uid = {uid}\naccount = "{name}"\n[agents.real]\nmode = "resident"\n')
        caller = world.caller(uid)
        caller.connect()
        accepted = world.accept()
        caller.send()
        principal = await world.verdict(accepted)
        assert (principal.posture, principal.account) == (Posture.RESIDENT, name)
    finally:
        await trio.run_process(["userdel", "--force", name], check=False, capture_stdout=True, capture_stderr=True)
    caller.send()
    principal = await world.verdict(accepted)
    assert (principal.posture, kinds(principal)) == (Posture.DRIFTED, ("account_missing",))


async def test_hostile_descriptors_gain_nothing(world: World) -> None:
    """A flood of descriptors is refused at its sender or cut off and noticed; none ever arrives."""
    for kernel in (world.kernel, attrs.evolve(world.kernel, pass_rights=False)):
        with open_world(kernel) as one:
            one.admit(RESIDENT)
            caller = one.caller(ANNIE)
            caller.connect()
            accepted = one.accept()
            held = descriptors()
            flood = caller.attempt("socket.send_fds(connection, [b'x'], [0] * 8)")
            if kernel.pass_rights:
                assert "PermissionError" in str(flood)
                continue
            senders = accepted.senders()
            assert senders == {Truncated()}
            assert descriptors() == held
            principal = await one.verdict(accepted, senders=senders)
            assert (principal.posture, kinds(principal)) == (Posture.UNRESOLVABLE, ("credentials_truncated",))


async def test_credentials_of_messages_sent_before_accept(world: World) -> None:
    """What was queued before the connection was accepted bears its sender all the same."""
    caller = world.caller(ANNIE)
    caller.connect()
    caller.send("early")
    assert world.accept().senders(5) == {Credentials(pid=caller.pid, uid=Uid(ANNIE), gid=ANNIE)}
