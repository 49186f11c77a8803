"""One look at one caller, in the one right order: alive, ids, evidence, admission, names, and alive once more.

Nothing of it is kept for the next request. Everything is a handful of system calls made inline; a thread is entered
only for a name that the passwd file does not hold, and to look for a claimed agent among the other admissions.
"""

import os
from collections.abc import Callable
from pathlib import Path

import trio

from safd.model.admissions import UID_NONE, AccountAdmission
from safd.model.ids import Uid
from safd.model.principals import Node
from safd.node.accounts import Accounts
from safd.node.admissions_dir import AdmissionsDir, Found
from safd.node.kernel import Kernel
from safd.node.peer import PeerPin
from safd.node.process import own_place
from safd.principal.access import ADMINISTRATORS
from safd.principal.facts import (
    AccountNames,
    AdmissionFact,
    Elsewhere,
    Exited,
    Facts,
    GroupFact,
    GroupGid,
    NamesFact,
    Place,
    Process,
    Sender,
)
from safd.settings import Limits


class Observer:
    """`user_mode`: admissions may belong to the daemon's own user as well as to root.

    `clock_ms` gives unix milliseconds, against which admissions begin and end.
    """

    def __init__(
        self,
        kernel: Kernel,
        admissions: Path,
        user_mode: bool,
        node: Node,
        limits: Limits,
        clock_ms: Callable[[], int],
        *,
        accounts: Accounts | None = None,
    ) -> None:
        owners = frozenset({0, os.geteuid()}) if user_mode else frozenset({0})
        self.node = node
        self._kernel = kernel
        self._clock_ms = clock_ms
        self._accounts = Accounts(limits.name_service_s) if accounts is None else accounts
        self._admissions = AdmissionsDir(admissions, owners)
        self._survey = AdmissionsDir(admissions, owners)  # the thread's own; it shares no state with the loop's
        self._survey_limiter = trio.CapacityLimiter(1)

    @property
    def contained(self) -> bool:
        """Whether the daemon itself lives in a namespace, where outer users and processes have no number."""
        return own_place().contained

    async def observe(self, pin: PeerPin, senders: frozenset[Sender], claim: str | None) -> Facts:
        """The facts about the caller now. `claim` decides nothing here; it says for whom to look elsewhere."""
        process = pin.read(self._kernel)
        admission = self._admissions.read(pin.uid)
        account = admission if isinstance(admission, AccountAdmission) else None
        names, named_uid = await self._accounts.names_and_uid(pin.uid, None if account is None else account.account)
        groups = () if account is None else await self._groups(account)
        elsewhere = await self._elsewhere(pin.uid, account, claim)
        if isinstance(process, Process) and not pin.is_alive():
            process = Exited(noticed="it ended while it was examined")
        return Facts(
            node=self.node,
            now_ms=self._clock_ms(),
            pin=pin.pin,
            opener=pin.opener,
            senders=senders,
            process=process,
            names=names,
            named_uid=named_uid,
            groups=groups,
            privilege_groups=() if account is None else self._accounts.privilege_groups(),
            admission=admission,
            elsewhere=elsewhere,
        )

    def admission(self, uid: Uid) -> AdmissionFact:
        """The admission of any uid as it is now: whose readers and operators a conversation's owner has."""
        return self._admissions.read(uid)

    async def read_all(self) -> tuple[Found, ...]:
        """Every admission, and every file that fails to be one."""
        return await trio.to_thread.run_sync(self._survey.read_all, limiter=self._survey_limiter)

    async def accounts_match(self, names: tuple[str, ...], uid: int, gids: frozenset[int]) -> bool:
        """Whether a list of accounts and `@groups` includes a process with this uid and these groups.

        A name that nobody answers for includes nobody.
        """
        for name in names:
            if name.startswith("@"):
                group = await self._accounts.group(name[1:])
                if isinstance(group, GroupGid) and group.gid in gids:
                    return True
            elif await self._is_account(name, uid):
                return True
        return False

    async def is_administrator(self, uid: int, gids: frozenset[int]) -> bool:
        return uid == 0 or await self.accounts_match((f"@{ADMINISTRATORS}",), uid, gids)

    async def names(self, uid: int) -> NamesFact:
        return await self._accounts.names(uid)

    async def _is_account(self, name: str, uid: int) -> bool:
        names = await self._accounts.names(uid)
        return isinstance(names, AccountNames) and name in names.names

    async def _groups(self, account: AccountAdmission) -> tuple[GroupFact, ...]:
        wanted = {name for agent in account.agents for name in agent.groups or () if isinstance(name, str)}
        return tuple([await self._accounts.group(name) for name in sorted(wanted)]) if wanted else ()

    async def _elsewhere(self, uid: Uid, account: AccountAdmission | None, claim: str | None) -> Elsewhere | None:
        if claim is None or uid in (0, UID_NONE) or (account is not None and account.find(claim) is not None):
            return None

        def places() -> tuple[Place, ...]:
            return self._survey.places_of(claim, uid, self.node.id)

        found = await trio.to_thread.run_sync(places, limiter=self._survey_limiter)
        return Elsewhere(agent=claim, places=found)
