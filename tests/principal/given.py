"""Facts as they stand when everything is right, and the ways in which a test changes them."""

from datetime import UTC, datetime

import attrs

from safd.model.admissions import AccountAdmission, Admission
from safd.model.ids import Gid, Pid, Uid
from safd.model.principals import Mode, Node, Pin, Principal
from safd.principal.facts import (
    AccountNames,
    AccountUid,
    Credentials,
    Elsewhere,
    Facts,
    LoginUnset,
    NoAdmission,
    Opener,
    PidfdInfo,
    Place,
    Process,
    Status,
)
from safd.principal.posture import decide
from safd.principal.unit import CgroupPath

NODE = Node(id="0123456789abcdef0123456789abcdef", name="harbour")
OBSERVED_AT = "2026-12-01T10:00:00.000Z"
NOW_MS = round(datetime(2026, 12, 1, 10, tzinfo=UTC).timestamp() * 1000)
WHOLE_MAP = "         0          0 4294967295\n"
PID = Pid(4242)
ANNIE = Uid(1001)
CASEY = Uid(1002)
GID = Gid(1001)
UNIT = "saf-agent@annie.service"
UNIT_PATH = f"/system.slice/system-saf\\x2dagent.slice/{UNIT}"
SESSION_PATH = "/user.slice/user-1002.slice/session-3.scope"

RESIDENT = Admission(agent="annie", mode=Mode.RESIDENT, node=NODE.id, unit=UNIT)
BORROWER = Admission(agent="kitty", mode=Mode.BORROWED)


def admitted(*agents: Admission, uid: Uid = ANNIE, account: str = "annie") -> AccountAdmission:
    return AccountAdmission(uid=uid, account=account, agents=agents)


def status(uid: int = ANNIE, gid: int = GID) -> Status:
    return Status(
        uids=(uid, uid, uid, uid),
        gids=(gid, gid, gid, gid),
        groups=(),
        permitted=0,
        effective=0,
        ambient=0,
        no_new_privs=True,
        seccomp=2,
        tracer=0,
        pid_namespaces=1,
    )


def process(uid: int = ANNIE, gid: int = GID, path: str = UNIT_PATH) -> Process:
    return Process(
        status=status(uid, gid),
        info=PidfdInfo(pid=PID, uids=(uid, uid, uid, uid), gids=(gid, gid, gid, gid), cgroup_id=614),
        cgroup=CgroupPath(path=path),
        login=LoginUnset(),
        uid_map=WHOLE_MAP,
        own_uid_map=WHOLE_MAP,
    )


def sender(pid: int = PID, uid: int = ANNIE, gid: int = GID) -> Credentials:
    return Credentials(pid=Pid(pid), uid=Uid(uid), gid=Gid(gid))


def facts_of(uid: Uid, gid: Gid, account: str, path: str) -> Facts:
    return Facts(
        node=NODE,
        now_ms=NOW_MS,
        pin=Pin.PEERPIDFD,
        opener=Opener(
            pid=PID,
            uid=uid,
            gid=gid,
            groups=(),
            cgroup=CgroupPath(path=path),
            cgroup_id=614,
            started_ms=NOW_MS - 60_000,
        ),
        senders=frozenset({sender(PID, uid, gid)}),
        process=process(uid, gid, path),
        names=AccountNames(names=(account,), local=True),
        named_uid=AccountUid(uid=uid),
        groups=(),
        privilege_groups=(),
        admission=NoAdmission(),
        elsewhere=None,
    )


def resident() -> Facts:
    """Annie in her own unit, all as admitted."""
    return attrs.evolve(facts_of(ANNIE, GID, "annie", UNIT_PATH), admission=admitted(RESIDENT))


def borrower() -> Facts:
    """kitty, who borrows casey's account, in casey's session."""
    return attrs.evolve(
        facts_of(CASEY, Gid(1002), "casey", SESSION_PATH), admission=admitted(BORROWER, uid=CASEY, account="casey")
    )


def person() -> Facts:
    """casey, to whom nobody is admitted."""
    return facts_of(CASEY, Gid(1002), "casey", SESSION_PATH)


def root() -> Facts:
    facts = facts_of(Uid(0), Gid(0), "root", "/system.slice/cron.service")
    return with_status(facts, permitted=0x1FFFFFFFFFF, effective=0x1FFFFFFFFFF)


def with_process(facts: Facts, **changes: object) -> Facts:
    assert isinstance(facts.process, Process)
    return attrs.evolve(facts, process=attrs.evolve(facts.process, **changes))


def with_status(facts: Facts, **changes: object) -> Facts:
    assert isinstance(facts.process, Process)
    return with_process(facts, status=attrs.evolve(facts.process.status, **changes))


def with_opener(facts: Facts, **changes: object) -> Facts:
    return attrs.evolve(facts, opener=attrs.evolve(facts.opener, **changes))


def with_agent(facts: Facts, **changes: object) -> Facts:
    """The first admitted agent, changed."""
    assert isinstance(facts.admission, AccountAdmission)
    first, *others = facts.admission.agents
    return attrs.evolve(
        facts, admission=attrs.evolve(facts.admission, agents=(attrs.evolve(first, **changes), *others))
    )


def elsewhere(agent: str = "annie", mode: Mode = Mode.RESIDENT) -> Elsewhere:
    return Elsewhere(agent=agent, places=(Place(uid=ANNIE, account="annie", mode=mode),))


def verdict(facts: Facts, claim: str | None = None) -> Principal:
    return decide(facts, claim, OBSERVED_AT)


def kinds(principal: Principal) -> tuple[str, ...]:
    return tuple(entry.kind for entry in principal.drift)
