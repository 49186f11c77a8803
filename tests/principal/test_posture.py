"""The verdict as a table: facts and a claim in, posture and drift kinds out."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from safd.model.admissions import Admission
from safd.model.errors import PrincipalForeign, PrincipalInconsistent, PrincipalUnresolvable
from safd.model.ids import Gid, Pid, Uid
from safd.model.principals import DriftKind, ExpectedAccount, Mode, Pin, Posture
from safd.principal import posture
from safd.principal.facts import (
    AccountNames,
    AccountUid,
    AccountUnknown,
    AdmissionInvalid,
    AdmissionUnreadable,
    AdmissionUnsafe,
    Elsewhere,
    EvidenceDenied,
    Exited,
    Facts,
    GroupGid,
    GroupUnavailable,
    GroupUnknown,
    LoginNotKept,
    LoginSet,
    NamesUnavailable,
    NoAdmission,
    NoCredentials,
    Place,
    Truncated,
)
from safd.principal.unit import CgroupPath, CgroupUnreadable
from tests.principal.given import (
    ANNIE,
    BORROWER,
    CASEY,
    NOW_MS,
    RESIDENT,
    SESSION_PATH,
    UNIT,
    UNIT_PATH,
    admitted,
    borrower,
    elsewhere,
    kinds,
    person,
    resident,
    root,
    sender,
    verdict,
    with_agent,
    with_opener,
    with_process,
    with_status,
)

Make = Callable[[], Facts]
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
SECOND = timedelta(seconds=1)
BOB = Admission(agent="bob", mode=Mode.RESIDENT, unit="saf-agent@bob.service")


def _borrower_under_user_manager(name: str) -> Facts:
    path = f"/user.slice/user-1002.slice/user@1002.service/app.slice/{name}"
    facts = with_process(with_agent(borrower(), unit="saf-agent@kitty.service"), cgroup=CgroupPath(path=path))
    return with_opener(facts, cgroup=CgroupPath(path=path))


def _placed(facts: Facts, path: str) -> Facts:
    return with_opener(with_process(facts, cgroup=CgroupPath(path=path)), cgroup=CgroupPath(path=path))


ROWS: dict[str, tuple[Make, str | None, Posture, tuple[DriftKind, ...]]] = {
    # --- as admitted
    "resident": (resident, None, Posture.RESIDENT, ()),
    "resident by its own name": (resident, "annie", Posture.RESIDENT, ()),
    "resident in a child of its unit": (
        lambda: _placed(resident(), f"{UNIT_PATH}/sub/evil.service"),
        None,
        Posture.RESIDENT,
        (),
    ),
    "resident on a kernel without audit": (
        lambda: with_process(resident(), login=LoginNotKept()),
        None,
        Posture.RESIDENT,
        (),
    ),
    "resident on a kernel without pidfd information": (
        lambda: with_process(resident(), info=None),
        None,
        Posture.RESIDENT,
        (),
    ),
    "borrower": (borrower, None, Posture.BORROWED, ()),
    "borrower in its person's own unit": (
        lambda: _borrower_under_user_manager("saf-agent@kitty.service"),
        None,
        Posture.BORROWED,
        (),
    ),
    "person to whom nobody is admitted": (person, None, Posture.UNADMITTED, ()),
    "file that admits nobody any more": (
        lambda: attrs.evolve(resident(), admission=admitted()),
        None,
        Posture.UNADMITTED,
        (),
    ),
    "root": (root, None, Posture.PRIVILEGED, ()),
    "root that calls itself an agent": (root, "annie", Posture.PRIVILEGED, ()),
    # --- who asks is not known
    "no sender": (
        lambda: attrs.evolve(resident(), senders=frozenset()),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.CREDENTIALS_MISSING,),
    ),
    "no credentials": (
        lambda: attrs.evolve(resident(), senders=frozenset({NoCredentials()})),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.CREDENTIALS_MISSING,),
    ),
    "no credentials with one part": (
        lambda: attrs.evolve(resident(), senders=frozenset({sender(), NoCredentials()})),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.CREDENTIALS_MISSING,),
    ),
    "truncated": (
        lambda: attrs.evolve(resident(), senders=frozenset({Truncated()})),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.CREDENTIALS_TRUNCATED,),
    ),
    "two processes": (
        lambda: attrs.evolve(resident(), senders=frozenset({sender(), sender(pid=4243)})),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.MIXED_SENDERS,),
    ),
    "two groups of one process": (
        lambda: attrs.evolve(resident(), senders=frozenset({sender(), sender(gid=7)})),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.MIXED_SENDERS,),
    ),
    "opener without a process": (
        lambda: with_opener(resident(), pid=Pid(0)),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.CREDENTIALS_MISSING,),
    ),
    "exited": (
        lambda: attrs.evolve(resident(), process=Exited(noticed="it had ended")),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.PEER_EXITED,),
    ),
    "denied": (
        lambda: attrs.evolve(resident(), process=EvidenceDenied(source="status", reason="EACCES")),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.EVIDENCE_DENIED,),
    ),
    "unreadable cgroup where a unit is demanded": (
        lambda: with_process(resident(), cgroup=CgroupUnreadable(reason="removed")),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.UNIT_UNREADABLE,),
    ),
    "unreadable cgroup where none is demanded": (
        lambda: with_process(borrower(), cgroup=CgroupUnreadable(reason="removed")),
        None,
        Posture.BORROWED,
        (),
    ),
    "unsafe admission": (
        lambda: attrs.evolve(resident(), admission=AdmissionUnsafe(path="/x/1001.toml", reason="mode 0666")),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.RECORD_UNSAFE,),
    ),
    "invalid admission": (
        lambda: attrs.evolve(resident(), admission=AdmissionInvalid(path="/x/1001.toml", reason="not TOML")),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.RECORD_INVALID,),
    ),
    "unreadable admission": (
        lambda: attrs.evolve(resident(), admission=AdmissionUnreadable(path="/x/1001.toml", reason="EACCES")),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.RECORD_UNREADABLE,),
    ),
    "expired": (
        lambda: with_agent(resident(), expires=NOW),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.RECORD_EXPIRED,),
    ),
    "not yet in force": (
        lambda: with_agent(resident(), not_before=NOW + SECOND),
        None,
        Posture.UNRESOLVABLE,
        (DriftKind.RECORD_EXPIRED,),
    ),
    "in its last second": (lambda: with_agent(resident(), expires=NOW + SECOND), None, Posture.RESIDENT, ()),
    # --- who asks contradicts itself
    "another user wrote": (
        lambda: attrs.evolve(resident(), senders=frozenset({sender(uid=CASEY)})),
        None,
        Posture.INCONSISTENT,
        (DriftKind.SENDER_USER,),
    ),
    "another process wrote": (
        lambda: attrs.evolve(resident(), senders=frozenset({sender(pid=4243)})),
        None,
        Posture.INCONSISTENT,
        (DriftKind.SENDER_PROCESS,),
    ),
    "ids changed": (
        lambda: with_status(resident(), uids=(1001, 0, 0, 0)),
        None,
        Posture.INCONSISTENT,
        (DriftKind.IDS_CHANGED,),
    ),
    "saved id differs": (
        lambda: with_status(resident(), uids=(1001, 1001, 1002, 1001)),
        None,
        Posture.INCONSISTENT,
        (DriftKind.IDS_CHANGED,),
    ),
    "setuid program on somebody's socket": (
        lambda: with_status(
            attrs.evolve(resident(), senders=frozenset({sender(pid=4243, uid=0)})),
            uids=(0, 0, 0, 0),
            permitted=0x1FFFFFFFFFF,
            effective=0x1FFFFFFFFFF,
        ),
        None,
        Posture.INCONSISTENT,
        (DriftKind.SENDER_USER, DriftKind.SENDER_PROCESS, DriftKind.IDS_CHANGED),
    ),
    "setuid program of an agent, run by a person": (
        lambda: attrs.evolve(
            with_status(resident(), uids=(1002, 1001, 1001, 1001)), senders=frozenset({sender(uid=CASEY)})
        ),
        None,
        Posture.INCONSISTENT,
        (DriftKind.SENDER_USER, DriftKind.IDS_CHANGED),
    ),
    # --- who asks lives elsewhere
    "user namespace": (
        lambda: with_process(resident(), uid_map="0 1001 1\n"),
        None,
        Posture.FOREIGN,
        (DriftKind.FOREIGN_USERNS,),
    ),
    "unmapped user namespace": (
        lambda: with_process(resident(), uid_map=""),
        None,
        Posture.FOREIGN,
        (DriftKind.FOREIGN_USERNS,),
    ),
    "root of a user namespace": (
        lambda: with_status(
            with_process(resident(), uid_map="0 1001 1\n"), permitted=0x1FFFFFFFFFF, effective=0x1FFFFFFFFFF
        ),
        None,
        Posture.FOREIGN,
        (DriftKind.FOREIGN_USERNS,),
    ),
    "process namespace": (
        lambda: with_status(resident(), pid_namespaces=2),
        None,
        Posture.FOREIGN,
        (DriftKind.FOREIGN_PIDNS,),
    ),
    "overflow uid": (
        lambda: attrs.evolve(
            with_process(with_status(with_opener(person(), uid=Uid(65534)), uids=(65534,) * 4), info=None),
            senders=frozenset({sender(uid=65534)}),
        ),
        None,
        Posture.FOREIGN,
        (DriftKind.FOREIGN_USERNS,),
    ),
    # --- above admissions
    "ambient capability": (
        lambda: with_status(resident(), permitted=0x1000, effective=0x1000, ambient=0x1000),
        None,
        Posture.PRIVILEGED,
        (DriftKind.CAPABILITIES,),
    ),
    "permitted capability not in use": (
        lambda: with_status(resident(), permitted=0x80),
        None,
        Posture.PRIVILEGED,
        (DriftKind.CAPABILITIES,),
    ),
    # --- which agent
    "several, and no claim": (
        lambda: attrs.evolve(
            borrower(), admission=admitted(BORROWER, attrs.evolve(BORROWER, agent="mouse"), uid=CASEY)
        ),
        None,
        Posture.AMBIGUOUS,
        (),
    ),
    "several, told apart by the unit": (
        lambda: attrs.evolve(resident(), admission=admitted(BOB, RESIDENT)),
        None,
        Posture.RESIDENT,
        (),
    ),
    "several, and the unit of none": (
        lambda: _placed(attrs.evolve(resident(), admission=admitted(BOB, RESIDENT)), "/system.slice/cron.service"),
        None,
        Posture.AMBIGUOUS,
        (),
    ),
    "several in one unit": (
        lambda: attrs.evolve(resident(), admission=admitted(attrs.evolve(BOB, unit=UNIT), RESIDENT)),
        None,
        Posture.AMBIGUOUS,
        (),
    ),
    "several, and a claim": (
        lambda: attrs.evolve(resident(), admission=admitted(BOB, RESIDENT)),
        "annie",
        Posture.RESIDENT,
        (),
    ),
    "a claim against the unit": (
        lambda: attrs.evolve(resident(), admission=admitted(attrs.evolve(BOB, unit=None), RESIDENT)),
        "bob",
        Posture.DRIFTED,
        (DriftKind.CLAIM_MISMATCH,),
    ),
    "a claim of another agent's unit": (
        lambda: attrs.evolve(resident(), admission=admitted(BOB, RESIDENT)),
        "bob",
        Posture.DRIFTED,
        (DriftKind.UNIT_MISMATCH,),
    ),
    "a claim of nobody, with agents here": (resident, "mallory", Posture.DRIFTED, (DriftKind.CLAIM_MISMATCH,)),
    "a claim of nobody, with none here": (person, "mallory", Posture.UNADMITTED, ()),
    "resident under a person's uid": (
        lambda: attrs.evolve(person(), elsewhere=elsewhere()),
        "annie",
        Posture.DRIFTED,
        (DriftKind.ACCOUNT_MISMATCH,),
    ),
    "resident under the uid of a person with a borrower": (
        lambda: attrs.evolve(borrower(), elsewhere=elsewhere()),
        "annie",
        Posture.DRIFTED,
        (DriftKind.ACCOUNT_MISMATCH,),
    ),
    "somebody else looked for": (
        lambda: attrs.evolve(person(), elsewhere=elsewhere("annie")),
        "bob",
        Posture.UNADMITTED,
        (),
    ),
    # --- drifted
    "another node": (
        lambda: with_agent(resident(), node="f" * 32),
        None,
        Posture.DRIFTED,
        (DriftKind.NODE_MISMATCH,),
    ),
    "another unit": (
        lambda: _placed(resident(), "/system.slice/cron.service"),
        None,
        Posture.DRIFTED,
        (DriftKind.UNIT_MISMATCH,),
    ),
    "no unit": (lambda: _placed(resident(), "/"), None, Posture.DRIFTED, (DriftKind.UNIT_MISMATCH,)),
    "container with the unit's name inside": (
        lambda: _placed(resident(), f"/machine.slice/machine-x.scope/system.slice/{UNIT}"),
        None,
        Posture.DRIFTED,
        (DriftKind.UNIT_MISMATCH,),
    ),
    "unit's name invented below a person's manager": (
        lambda: _placed(resident(), f"/user.slice/user-1001.slice/user@1001.service/system.slice/{UNIT}"),
        None,
        Posture.DRIFTED,
        (DriftKind.UNIT_USER_MANAGED,),
    ),
    "session scope": (
        lambda: _placed(resident(), SESSION_PATH),
        None,
        Posture.DRIFTED,
        (DriftKind.UNIT_USER_MANAGED,),
    ),
    "borrower in another unit of its person": (
        lambda: _borrower_under_user_manager("other.service"),
        None,
        Posture.DRIFTED,
        (DriftKind.UNIT_USER_MANAGED,),
    ),
    "extra group": (
        lambda: attrs.evolve(
            with_opener(with_status(with_agent(resident(), groups=("annie",)), groups=(27,)), groups=(27,)),
            groups=(GroupGid(name="annie", gid=1001),),
        ),
        None,
        Posture.DRIFTED,
        (DriftKind.GROUPS_MISMATCH,),
    ),
    "missing group": (
        lambda: with_agent(resident(), groups=(1001, 44)),
        None,
        Posture.DRIFTED,
        (DriftKind.GROUPS_MISMATCH,),
    ),
    "the groups that are listed": (
        lambda: attrs.evolve(
            with_opener(with_status(with_agent(resident(), groups=("annie", 44)), groups=(44,)), groups=(44,)),
            groups=(GroupGid(name="annie", gid=1001),),
        ),
        None,
        Posture.RESIDENT,
        (),
    ),
    "a listed group that does not exist": (
        lambda: attrs.evolve(with_agent(resident(), groups=("annie",)), groups=(GroupUnknown(name="annie"),)),
        None,
        Posture.DRIFTED,
        (DriftKind.GROUPS_MISMATCH,),
    ),
    "a listed group that nobody answers for": (
        lambda: attrs.evolve(
            with_agent(resident(), groups=("annie",)), groups=(GroupUnavailable(name="annie", reason="silence"),)
        ),
        None,
        Posture.DRIFTED,
        (DriftKind.NSS_UNAVAILABLE,),
    ),
    "another primary group": (
        lambda: with_agent(
            with_opener(with_status(resident(), gids=(7, 7, 7, 7), groups=(1001,)), gid=Gid(7), groups=(1001,)),
            groups=(1001,),
        ),
        None,
        Posture.DRIFTED,
        (DriftKind.PRIMARY_GROUP, DriftKind.GROUPS_MISMATCH),
    ),
    "group changed since connect": (
        lambda: with_status(resident(), gids=(7, 7, 7, 7)),
        None,
        Posture.DRIFTED,
        (DriftKind.PRIMARY_GROUP,),
    ),
    "group that amounts to root": (
        lambda: with_opener(
            with_status(attrs.evolve(resident(), privilege_groups=(GroupGid(name="docker", gid=999),)), groups=(999,)),
            groups=(999,),
        ),
        None,
        Posture.DRIFTED,
        (DriftKind.PRIVILEGE_GROUP,),
    ),
    "group that amounts to root, listed": (
        lambda: with_agent(
            with_opener(
                with_status(
                    attrs.evolve(resident(), privilege_groups=(GroupGid(name="docker", gid=999),)), groups=(999,)
                ),
                groups=(999,),
            ),
            groups=(1001, 999),
        ),
        None,
        Posture.RESIDENT,
        (),
    ),
    "borrower of a person in such a group": (
        lambda: with_opener(
            with_status(attrs.evolve(borrower(), privilege_groups=(GroupGid(name="sudo", gid=27),)), groups=(27,)),
            groups=(27,),
        ),
        None,
        Posture.BORROWED,
        (DriftKind.PRIVILEGE_GROUP,),
    ),
    "could gain privileges": (
        lambda: with_agent(with_status(resident(), no_new_privs=False), no_new_privs=True),
        None,
        Posture.DRIFTED,
        (DriftKind.NO_NEW_PRIVS_ABSENT,),
    ),
    "could gain privileges, not demanded": (
        lambda: with_status(resident(), no_new_privs=False),
        None,
        Posture.RESIDENT,
        (),
    ),
    "no_new_privs demanded of a kernel that does not say": (
        lambda: with_agent(with_status(resident(), no_new_privs=None), no_new_privs=True),
        None,
        Posture.DRIFTED,
        (DriftKind.NO_NEW_PRIVS_ABSENT,),
    ),
    "no seccomp": (
        lambda: with_agent(with_status(resident(), seccomp=0), seccomp=True),
        None,
        Posture.DRIFTED,
        (DriftKind.SECCOMP_ABSENT,),
    ),
    "traced": (lambda: with_status(resident(), tracer=99), None, Posture.DRIFTED, (DriftKind.TRACED,)),
    "resident out of a login": (
        lambda: with_process(resident(), login=LoginSet(uid=1002)),
        None,
        Posture.DRIFTED,
        (DriftKind.LOGIN_LINEAGE,),
    ),
    "login set to root is a login": (
        lambda: with_process(resident(), login=LoginSet(uid=0)),
        None,
        Posture.DRIFTED,
        (DriftKind.LOGIN_LINEAGE,),
    ),
    "account missing": (
        lambda: attrs.evolve(resident(), names=AccountUnknown(), named_uid=AccountUnknown()),
        None,
        Posture.DRIFTED,
        (DriftKind.ACCOUNT_MISSING,),
    ),
    "account renamed": (
        lambda: attrs.evolve(resident(), names=AccountNames(names=("anna",), local=True), named_uid=AccountUnknown()),
        None,
        Posture.DRIFTED,
        (DriftKind.ACCOUNT_RENAMED,),
    ),
    "account renumbered": (
        lambda: attrs.evolve(resident(), names=AccountUnknown(), named_uid=AccountUid(uid=1005)),
        None,
        Posture.DRIFTED,
        (DriftKind.ACCOUNT_MISSING, DriftKind.ACCOUNT_RENUMBERED),
    ),
    "account shared": (
        lambda: attrs.evolve(resident(), names=AccountNames(names=("annie", "anna"), local=True)),
        None,
        Posture.DRIFTED,
        (DriftKind.ACCOUNT_SHARED,),
    ),
    "weak pin where pins are demanded": (
        lambda: attrs.evolve(with_agent(resident(), pinned=True), pin=Pin.LATE),
        None,
        Posture.DRIFTED,
        (DriftKind.WEAK_PIN,),
    ),
    # --- notes
    "weak pin": (lambda: attrs.evolve(resident(), pin=Pin.LATE), None, Posture.RESIDENT, (DriftKind.WEAK_PIN,)),
    "groups changed since connect": (
        lambda: with_status(resident(), groups=(8,)),
        None,
        Posture.RESIDENT,
        (DriftKind.GROUPS_CHANGED,),
    ),
    "cgroup moved": (
        lambda: with_opener(resident(), cgroup=CgroupPath(path="/system.slice/cron.service")),
        None,
        Posture.RESIDENT,
        (DriftKind.CGROUP_MOVED,),
    ),
    "another cgroup of the same name": (
        lambda: with_opener(resident(), cgroup_id=615),
        None,
        Posture.RESIDENT,
        (DriftKind.CGROUP_MOVED,),
    ),
    "borrower out of another's login": (
        lambda: with_process(borrower(), login=LoginSet(uid=1001)),
        None,
        Posture.BORROWED,
        (DriftKind.LOGIN_OTHER,),
    ),
    "borrower out of its person's login": (
        lambda: with_process(borrower(), login=LoginSet(uid=1002)),
        None,
        Posture.BORROWED,
        (),
    ),
    "name service silent": (
        lambda: attrs.evolve(resident(), names=NamesUnavailable(reason="silence")),
        None,
        Posture.RESIDENT,
        (DriftKind.NSS_UNAVAILABLE,),
    ),
    "started before it was admitted": (
        lambda: with_agent(resident(), not_before=NOW - SECOND),
        None,
        Posture.RESIDENT,
        (DriftKind.STARTED_BEFORE_ADMISSION,),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    """Each row of facts and claim has exactly this posture, for exactly these reasons."""
    make, claim, expected, drift = ROWS[name]
    principal = verdict(make(), claim)
    assert (principal.posture, kinds(principal)) == (expected, drift)


def test_every_posture_is_reached() -> None:
    """No posture is a word without a caller."""
    assert {row[2] for row in ROWS.values()} == set(Posture)


TROUBLES: tuple[tuple[Posture, Callable[[Facts], Facts]], ...] = (
    (Posture.UNRESOLVABLE, lambda facts: attrs.evolve(facts, senders=frozenset({NoCredentials()}))),
    (Posture.INCONSISTENT, lambda facts: with_status(facts, uids=(1, 2, 3, 4))),
    (Posture.FOREIGN, lambda facts: with_process(facts, uid_map="0 1 1\n")),
    (Posture.PRIVILEGED, lambda facts: with_status(facts, permitted=1)),
    (Posture.DRIFTED, lambda facts: with_status(facts, tracer=7)),
)


@pytest.mark.parametrize("first", range(len(TROUBLES)))
@pytest.mark.parametrize("second", range(len(TROUBLES)))
def test_precedence(first: int, second: int) -> None:
    """Of two reasons the earlier posture in the closed set's order wins, whichever came first."""
    facts = TROUBLES[second][1](TROUBLES[first][1](resident()))
    order = list(Posture)
    assert verdict(facts).posture is min(TROUBLES[first][0], TROUBLES[second][0], key=order.index)


@pytest.mark.parametrize("trouble", TROUBLES, ids=[row[0] for row in TROUBLES])
def test_an_unadmitted_caller_is_first_asked_the_earlier_questions(
    trouble: tuple[Posture, Callable[[Facts], Facts]],
) -> None:
    """Being unadmitted hides no graver trouble, and outranks drift, which needs an admission."""
    order = list(Posture)
    expected = min(trouble[0], Posture.UNADMITTED, key=order.index)
    assert verdict(trouble[1](person())).posture is expected


def test_a_wrong_account_is_told_where_the_agent_belongs() -> None:
    """A resident started under a person's uid learns the account it was meant to have; so does its administrator."""
    principal = verdict(attrs.evolve(person(), elsewhere=elsewhere()), "annie")
    assert (principal.agent, principal.mode, principal.uid, principal.account) == (
        "annie",
        Mode.RESIDENT,
        CASEY,
        "casey",
    )
    assert principal.expected == ExpectedAccount(uid=ANNIE, account="annie")
    assert (principal.drift[0].expected, principal.drift[0].seen) == ("account annie (uid 1001)", "uid 1002")


def test_several_places_are_all_named() -> None:
    """An agent admitted to several accounts is told all of them, the first being the one expected."""
    places = (
        Place(uid=ANNIE, account="annie", mode=Mode.RESIDENT),
        Place(uid=Uid(1007), account="dora", mode=Mode.BORROWED),
    )
    principal = verdict(attrs.evolve(person(), elsewhere=Elsewhere(agent="annie", places=places)), "annie")
    assert principal.expected == ExpectedAccount(uid=ANNIE, account="annie")
    assert principal.drift[0].expected == "account annie (uid 1001) or dora (uid 1007)"


def test_a_claim_reaches_no_agent_of_another_uid() -> None:
    """Whatever is claimed, the identity told is one admitted to this uid, or the posture says that it is not held."""
    for claim in (None, "annie", "bob", "mallory", ""):
        principal = verdict(attrs.evolve(borrower(), elsewhere=elsewhere()), claim)
        assert principal.uid == CASEY
        assert principal.posture is Posture.DRIFTED or principal.agent == "kitty"


REFUSALS = {
    Posture.UNRESOLVABLE: (TROUBLES[0][1], PrincipalUnresolvable),
    Posture.INCONSISTENT: (TROUBLES[1][1], PrincipalInconsistent),
    Posture.FOREIGN: (TROUBLES[2][1], PrincipalForeign),
}


def test_the_refused_postures_are_exactly_those_with_an_error() -> None:
    """Who is refused gets an error of its own that names the reason; for the others there is none."""
    assert set(REFUSALS) == posture.REFUSED
    for trouble, error in REFUSALS.values():
        principal = verdict(trouble(resident()))
        refusal = posture.refusal(principal)
        assert type(refusal) is error
        assert principal.drift[0].kind in str(refusal)
    with pytest.raises(ValueError, match="not refused"):
        posture.refusal(verdict(resident()))


def test_no_uid_is_told_where_the_kernel_gave_none() -> None:
    """A missing opener is never given a number, least of all root's."""
    facts = with_opener(resident(), pid=Pid(0), uid=Uid(0), gid=Gid(0))
    assert verdict(facts).uid is None
    assert verdict(with_opener(resident(), uid=Uid(4294967295))).uid is None


FAILURES: dict[str, Callable[[Facts], Facts]] = {
    "process gone": lambda facts: attrs.evolve(facts, process=Exited(noticed="gone")),
    "no credentials": lambda facts: attrs.evolve(facts, senders=frozenset({NoCredentials()})),
    "truncated": lambda facts: attrs.evolve(facts, senders=frozenset({Truncated()})),
    "no sender": lambda facts: attrs.evolve(facts, senders=frozenset()),
    "admission unsafe": lambda facts: attrs.evolve(facts, admission=AdmissionUnsafe(path="x", reason="y")),
    "admission invalid": lambda facts: attrs.evolve(facts, admission=AdmissionInvalid(path="x", reason="y")),
    "admission unreadable": lambda facts: attrs.evolve(facts, admission=AdmissionUnreadable(path="x", reason="y")),
    **{
        f"{source} denied": lambda facts, source=source: attrs.evolve(
            facts, process=EvidenceDenied(source=source, reason="EACCES")
        )
        for source in ("pidfd", "status", "cgroup", "loginuid", "uid_map", "/proc directory")
    },
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("make", [resident, borrower, person, root], ids=lambda make: make.__name__)
def test_a_failed_source_is_unresolvable_for_everybody(failure: str, make: Make) -> None:
    """A fact that cannot be read makes nobody better, not even root: there is no default."""
    principal = verdict(FAILURES[failure](make()))
    assert principal.posture is Posture.UNRESOLVABLE
    assert principal.drift


def test_a_missing_name_is_never_a_number() -> None:
    """An account without a name has no name; it does not get the admission's, nor its uid as text."""
    assert verdict(attrs.evolve(resident(), names=AccountUnknown())).account is None
    assert verdict(attrs.evolve(resident(), names=NamesUnavailable(reason="silence"))).account is None


def test_no_admission_is_no_trouble() -> None:
    """The absence of a file is an answer; only an unsafe, invalid or unreadable one is a failure."""
    assert verdict(attrs.evolve(resident(), admission=NoAdmission())).posture is Posture.UNADMITTED
