"""Which Unix account an agent is admitted to: found by name or number, judged, or made."""

import pwd
import re
import subprocess
from pathlib import PurePath

import click

from saf_client.render import one_line
from safd.model.admissions import SUFFIX, UIDS_REFUSED, uid_of_file
from safd.model.ids import Uid

NO_LOGIN = frozenset({"nologin", "false", "true", "sync"})
"""Shells (their last names) that nobody works in."""
RESERVED_END = 100
PEOPLE_FROM = 1000
"""Uids below the first are given out by the distribution, each for one purpose; people's begin with the second
(Debian Policy, section 9.2.2). Between them stand the system accounts of one machine, whatever shell they name.
"""
_NEW_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")


def find(account: str) -> pwd.struct_passwd | None:
    """By name, or by number where no account has it for a name."""
    try:
        return pwd.getpwnam(account)
    except (KeyError, ValueError):  # ValueError: a NUL in it
        pass
    try:
        return pwd.getpwuid(int(account)) if account.isascii() and account.isdecimal() else None
    except (KeyError, OverflowError):
        return None


def admissible(account: str) -> pwd.struct_passwd:
    """The account. root, nobody and the uids that stand for no one are refused: nothing is an agent there."""
    found = find(account)
    if found is None:
        raise click.UsageError(f"There is no account {account!r} on this node. --create-account makes it.")
    if found.pw_uid in UIDS_REFUSED or found.pw_name == "nobody":
        raise click.UsageError(
            f"{found.pw_name} (uid {found.pw_uid}) is nobody's own account. "
            "Name another; with --create-account it is made."
        )
    return found


def unfit_for_resident(account: pwd.struct_passwd) -> str | None:
    """Why the account is not one that an agent could have to itself; None where nothing speaks against it."""
    if account.pw_uid < RESERVED_END:
        return f"{account.pw_name} (uid {account.pw_uid}) is one of the system's own accounts"
    if account.pw_uid >= PEOPLE_FROM and account.pw_shell and PurePath(account.pw_shell).name not in NO_LOGIN:
        return f"people can log in as {account.pw_name} (its shell is {account.pw_shell})"
    return None


def uid_of_admission(account: str) -> Uid:
    """Whose file is meant: an account's, or that of a uid whose account is gone."""
    if find(account) is None:
        uid = uid_of_file(f"{account}{SUFFIX}")
        if uid is not None:
            return uid
    return Uid(admissible(account).pw_uid)


def sysusers_line(account: str, agent: str) -> str:
    """What systemd-sysusers is asked for: a system account and group without home and shell."""
    if _NEW_NAME.match(account) is None:
        raise click.UsageError(
            f"{account!r} cannot be the name of a new account: "
            "small letters, digits, - and _ only, a letter first, at most 31."
        )
    return f'u {account} - "safd agent {agent}" - -'


def create(line: str) -> None:
    """Raises click.ClickException with what systemd-sysusers said."""
    command = ["systemd-sysusers", "--inline", line]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  no shell, and the name was judged
    except FileNotFoundError as error:
        raise click.ClickException(
            "systemd-sysusers is not there. Make the account by hand: useradd --system NAME."
        ) from error
    if done.returncode != 0:
        raise click.ClickException(f"systemd-sysusers failed: {one_line(done.stderr.strip() or 'without a word')}")
