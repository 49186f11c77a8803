"""The verdict is total: any facts and any claim give one, and none gives an identity that was not earned."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from safd.model.admissions import AccountAdmission, Admission
from safd.model.ids import Gid, Pid, Uid
from safd.model.principals import Mode, Node, Pin, Posture
from safd.principal import facts as f
from safd.principal import posture
from safd.principal.unit import CgroupPath, CgroupUnreadable
from tests.principal.given import ANNIE, NODE, NOW_MS, OBSERVED_AT, PID, UNIT, UNIT_PATH, WHOLE_MAP

UIDS = st.sampled_from([0, ANNIE, 1002, 65534, 4294967295])
PIDS = st.sampled_from([0, PID, 4243]).map(Pid)
GIDS = st.sampled_from([0, 1001, 27])
NAMES = st.sampled_from(["annie", "kitty", "casey", "", "x\ny", "</runtime-principal>"])
FOUR = st.one_of(UIDS.map(lambda uid: (uid,) * 4), st.tuples(UIDS, UIDS, UIDS, UIDS))
GROUPS = st.lists(GIDS, max_size=3).map(tuple)
REASON = st.just("because")
CGROUPS = st.one_of(
    st.builds(CgroupPath, path=st.sampled_from([UNIT_PATH, "/", "/user.slice/user@1001.service/x.service"])),
    st.builds(CgroupUnreadable, reason=REASON),
)
CREDENTIALS = st.builds(f.Credentials, pid=PIDS, uid=UIDS.map(Uid), gid=GIDS.map(Gid))
SENDERS = st.frozensets(st.one_of(CREDENTIALS, st.builds(f.NoCredentials), st.builds(f.Truncated)), max_size=3)
STATUS = st.builds(
    f.Status,
    uids=FOUR,
    gids=FOUR,
    groups=GROUPS,
    permitted=st.sampled_from([0, 0, 128]),
    effective=st.sampled_from([0, 0, 128]),
    ambient=st.just(0),
    no_new_privs=st.none() | st.booleans(),
    seccomp=st.none() | st.integers(0, 2),
    tracer=st.sampled_from([0, 0, 99]),
    pid_namespaces=st.sampled_from([1, 1, 2]),
)
INFO = st.builds(f.PidfdInfo, pid=PIDS, uids=FOUR, gids=FOUR, cgroup_id=st.none() | st.integers(1, 2))
LOGINS = st.one_of(st.builds(f.LoginUnset), st.builds(f.LoginSet, uid=UIDS), st.builds(f.LoginNotKept))
PROCESSES = st.one_of(
    st.builds(
        f.Process,
        status=STATUS,
        info=st.none() | INFO,
        cgroup=CGROUPS,
        login=LOGINS,
        uid_map=st.sampled_from([WHOLE_MAP, WHOLE_MAP, "", "0 1001 1\n"]),
        own_uid_map=st.just(WHOLE_MAP),
    ),
    st.builds(f.Exited, noticed=REASON),
    st.builds(f.EvidenceDenied, source=st.just("status"), reason=REASON),
)
MOMENTS = st.none() | st.sampled_from([1, NOW_MS, NOW_MS * 2]).map(
    lambda moment: datetime.fromtimestamp(moment / 1000, UTC)
)
AGENTS = st.builds(
    Admission,
    agent=NAMES,
    mode=st.sampled_from(Mode),
    node=st.sampled_from([None, NODE.id, "f" * 32]),
    unit=st.sampled_from([None, UNIT]),
    groups=st.none() | st.lists(st.sampled_from(["staff", 1001, 27]), max_size=2).map(tuple),
    not_before=MOMENTS,
    expires=MOMENTS,
    no_new_privs=st.booleans(),
    seccomp=st.booleans(),
    pinned=st.booleans(),
)
ADMISSIONS = st.one_of(
    st.builds(f.NoAdmission),
    st.builds(AccountAdmission, uid=UIDS.map(Uid), account=NAMES, agents=st.lists(AGENTS, max_size=3).map(tuple)),
    st.builds(f.AdmissionUnsafe, path=NAMES, reason=REASON),
    st.builds(f.AdmissionInvalid, path=NAMES, reason=REASON),
    st.builds(f.AdmissionUnreadable, path=NAMES, reason=REASON),
)
UNAVAILABLE = st.builds(f.NamesUnavailable, reason=REASON)
FACTS = st.builds(
    f.Facts,
    node=st.builds(Node, id=st.just(NODE.id), name=NAMES),
    now_ms=st.just(NOW_MS),
    pin=st.sampled_from(Pin),
    opener=st.builds(
        f.Opener,
        pid=PIDS,
        uid=UIDS.map(Uid),
        gid=GIDS.map(Gid),
        groups=st.none() | GROUPS,
        cgroup=st.none() | CGROUPS,
        cgroup_id=st.none() | st.integers(1, 2),
        started_ms=st.none() | st.sampled_from([0, NOW_MS]),
    ),
    senders=SENDERS,
    process=PROCESSES,
    names=st.one_of(
        st.builds(f.AccountNames, names=st.lists(NAMES, min_size=1, max_size=2).map(tuple), local=st.booleans()),
        st.builds(f.AccountUnknown),
        UNAVAILABLE,
    ),
    named_uid=st.one_of(st.none(), st.builds(f.AccountUid, uid=UIDS), st.builds(f.AccountUnknown), UNAVAILABLE),
    groups=st.lists(
        st.one_of(
            st.builds(f.GroupGid, name=st.just("staff"), gid=GIDS),
            st.builds(f.GroupUnknown, name=st.just("staff")),
            st.builds(f.GroupUnavailable, name=st.just("staff"), reason=REASON),
        ),
        max_size=1,
    ).map(tuple),
    privilege_groups=st.lists(st.builds(f.GroupGid, name=st.just("sudo"), gid=st.just(27)), max_size=1).map(tuple),
    admission=ADMISSIONS,
    elsewhere=st.none()
    | st.builds(
        f.Elsewhere,
        agent=NAMES,
        places=st.lists(
            st.builds(f.Place, uid=UIDS.map(Uid), account=NAMES, mode=st.sampled_from(Mode)), max_size=2
        ).map(tuple),
    ),
)


@given(facts=FACTS, claim=st.none() | NAMES)
def test_total(facts: f.Facts, claim: str | None) -> None:
    """There is always a verdict, with a text; the refused ones say why, and the same facts say the same."""
    principal = posture.decide(facts, claim, OBSERVED_AT)
    assert principal.posture in Posture
    assert principal.text
    assert posture.decide(facts, claim, OBSERVED_AT) == principal
    if principal.posture in posture.REFUSED:
        assert principal.drift
        assert posture.refusal(principal).code.startswith("principal_")


@given(facts=FACTS, claim=st.none() | NAMES)
def test_an_identity_is_earned(facts: f.Facts, claim: str | None) -> None:
    """Resident and borrowed come out only for one live process that is, was and wrote as the uid it is admitted to."""
    principal = posture.decide(facts, claim, OBSERVED_AT)
    if principal.posture not in (Posture.RESIDENT, Posture.BORROWED):
        return
    uid = facts.opener.uid
    assert isinstance(facts.process, f.Process)
    assert isinstance(facts.admission, AccountAdmission)
    assert set(facts.process.status.uids) == {uid}
    assert uid not in (0, 65534, 4294967295)
    (sender,) = facts.senders
    assert isinstance(sender, f.Credentials)
    assert (sender.uid, sender.pid) == (uid, facts.opener.pid)
    assert facts.process.uid_map == WHOLE_MAP
    assert facts.process.status.permitted == facts.process.status.effective == 0
    assert principal.agent in {agent.agent for agent in facts.admission.agents}
    assert claim in (None, principal.agent)


@given(facts=FACTS, claim=st.none() | NAMES)
def test_roots_number_is_never_made_up(facts: f.Facts, claim: str | None) -> None:
    """Uid 0 is told only of a process that connected as uid 0."""
    principal = posture.decide(facts, claim, OBSERVED_AT)
    if principal.uid == 0:
        assert facts.opener.uid == 0
        assert facts.opener.pid > 0
