"""`saf admit` and `dismiss`: the administrator's files, written here, atomically; the daemon only reads them."""

import grp
import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

import click

from saf_client import admissions_file, render, wire
from saf_client.cli.asked import Asked, without_daemon
from saf_client.cli.printing import print_json
from safd.model.admissions import (
    SUFFIX,
    UIDS_REFUSED,
    Admission,
    agent_name,
    file_name,
    parse_admission,
    uid_of_file,
)
from safd.model.errors import Malformed
from safd.model.ids import Uid
from safd.model.principals import Mode

SYSTEM_FOLDER = Path("/etc/saf/admissions.d")
_FOLDER_MODE = 0o755

_folder_option = click.option(
    "--admissions",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"The folder of admission files. Default: {SYSTEM_FOLDER}.",
)
_dry_option = click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")


@click.command("admit")
@click.argument("name", metavar="AGENT")
@click.option(
    "--account",
    metavar="NAME",
    required=True,
    help="The Unix account that it runs under; a number is a uid only where no account has it for a name.",
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    required=True,
    help="Whether the account is its own, or a person's.",
)
@click.option("--unit", metavar="UNIT", help="The systemd unit that its process must be in.")
@click.option("--node", metavar="ID", help="A machine-id: this machine only. `here` means this one.")
@click.option(
    "--group", "groups", metavar="GROUP", multiple=True, help="A group that its process holds; repeat for all of them."
)
@click.option(
    "--reader",
    "readers",
    metavar="WHO",
    multiple=True,
    help="An account, or @GROUP, that may read its conversations; may be repeated.",
)
@click.option(
    "--operator",
    "operators",
    metavar="WHO",
    multiple=True,
    help="An account, or @GROUP, that may also write to them; may be repeated.",
)
@click.option("--not-before", metavar="TIME", help="In force from then on, as 2027-01-01T00:00:00Z.")
@click.option("--expires", metavar="TIME", help="In force until then.")
@click.option("--no-new-privs", is_flag=True, help="Demand that its process cannot gain privileges.")
@click.option("--seccomp", is_flag=True, help="Demand that its process runs under a system call filter.")
@click.option("--pinned", is_flag=True, help="Demand that the kernel itself pins its process (SO_PEERPIDFD).")
@_folder_option
@_dry_option
@without_daemon
def admit_command(  # noqa: PLR0913  one parameter for each thing an admission can say
    asked: Asked,
    *,
    name: str,
    account: str,
    mode: str,
    unit: str | None,
    node: str | None,
    groups: tuple[str, ...],
    readers: tuple[str, ...],
    operators: tuple[str, ...],
    not_before: str | None,
    expires: str | None,
    no_new_privs: bool,
    seccomp: bool,
    pinned: bool,
    admissions: Path | None,
    dry_run: bool,
) -> None:
    """Admit AGENT to an account. What the account's file says of other agents stays as it is.

    resident: the agent has the account to itself. borrowed: it runs, on purpose, under a person's account.
    """
    held = _account(account)
    uid = Uid(held.pw_uid)
    admission = Admission(
        agent=name,
        mode=Mode(mode),
        node=_machine_id() if node == "here" else node,
        unit=unit,
        groups=tuple(map(_group, groups)) or None,
        readers=readers,
        operators=operators,
        not_before=_moment(not_before, "--not-before"),
        expires=_moment(expires, "--expires"),
        no_new_privs=no_new_privs,
        seccomp=seccomp,
        pinned=pinned,
    )
    try:
        agent_name(name, "AGENT")
        admissions_file.with_agent(None, uid=uid, account=held.pw_name, admission=admission)
    except Malformed as error:  # what was asked for is wrong, not what stands in a file
        raise click.UsageError(str(error)) from error
    folder = admissions or SYSTEM_FOLDER
    text = admissions_file.with_agent(
        admissions_file.read_text(folder, uid), uid=uid, account=held.pw_name, admission=admission
    )
    if not dry_run:
        _must_be_able(folder, admissions)
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        admissions_file.write(folder, uid, text)
    what = f"{name} is admitted to {held.pw_name} (uid {uid}) as {mode}"
    _report(asked, folder / file_name(uid), text, what, dry_run=dry_run)


@click.command("dismiss")
@click.argument("name", metavar="AGENT")
@click.option("--account", metavar="NAME", help="Which account's file, where the agent is admitted to several.")
@_folder_option
@_dry_option
@without_daemon
def dismiss_command(
    asked: Asked, *, name: str, account: str | None, admissions: Path | None, dry_run: bool
) -> int | None:
    """Take AGENT's admission back; its file goes with the last agent in it."""
    from saf_client.cli.app import FAILED, NOTHING_FOUND

    folder = admissions or SYSTEM_FOLDER
    unreadable: list[str] = []
    uids = _admitting(folder, name, unreadable) if account is None else [_uid_in_file(account)]
    uids = [uid for uid in uids if _admits(folder, uid, name)]
    for trouble in unreadable:
        click.echo(f"saf: passed over, as it admits nobody: {render.visible(trouble)}", err=True)
    if not uids:
        where = f"in {folder}" if account is None else f"to {account}"
        click.echo(f"saf: {name} is not admitted {where}. [admission_missing]", err=True)
        return FAILED if unreadable else NOTHING_FOUND
    if len(uids) > 1:
        names = ", ".join(map(str, uids))
        raise click.UsageError(f"{name} is admitted to several accounts (uids {names}). Say which one with --account.")
    uid = uids[0]
    held = admissions_file.read_text(folder, uid) or ""
    text = admissions_file.without_agent(held, uid=uid, agent=name)
    if not dry_run:
        _must_be_able(folder, admissions)
        if text is None:
            admissions_file.remove(folder, uid)
        else:
            admissions_file.write(folder, uid, text)
    _report(asked, folder / file_name(uid), text, f"{name} is dismissed from uid {uid}", dry_run=dry_run)
    return None


def _account(account: str) -> pwd.struct_passwd:
    """By name, or by number where no account has it for a name.

    root, nobody and the uids that stand for no one are refused: nothing is an agent there.
    """
    found = _found(account)
    if found is None:
        raise click.UsageError(f"There is no account {account!r} on this node.")
    if found.pw_uid in UIDS_REFUSED or found.pw_name == "nobody":
        raise click.UsageError(
            f"{found.pw_name} (uid {found.pw_uid}) is nobody's own account. Make one: useradd --system NAME."
        )
    return found


def _found(account: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(account)
    except (KeyError, ValueError):  # ValueError: a NUL in it
        pass
    try:
        return pwd.getpwuid(int(account)) if account.isascii() and account.isdecimal() else None
    except (KeyError, OverflowError):
        return None


def _uid_in_file(account: str) -> Uid:
    """Whose file is meant: an account's, or that of a uid whose account is gone."""
    if _found(account) is None:
        uid = uid_of_file(f"{account}{SUFFIX}")
        if uid is not None:
            return uid
    return Uid(_account(account).pw_uid)


def _group(group: str) -> str | int:
    """By name; a number is one only where no group has it for a name."""
    try:
        return grp.getgrnam(group).gr_name
    except (KeyError, ValueError):
        return int(group) if group.isascii() and group.isdecimal() else group


def _admits(folder: Path, uid: Uid, name: str) -> bool:
    text = admissions_file.read_text(folder, uid)
    return text is not None and parse_admission(text, str(folder / file_name(uid))).find(name) is not None


def _admitting(folder: Path, name: str, unreadable: list[str]) -> list[Uid]:
    """The accounts that admit the agent; files that are no admission are told, and hide no other."""
    found: list[Uid] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        uid = uid_of_file(path.name)
        if uid is None:
            continue
        try:
            if _admits(folder, uid, name):
                found.append(uid)
        except Malformed as error:
            unreadable.append(str(error))
        except OSError as error:
            unreadable.append(f"{path}: {error.strerror}")
    return found


def _must_be_able(folder: Path, asked_for: Path | None) -> None:
    if asked_for is None and os.geteuid() != 0:
        raise click.UsageError(
            f"{folder} belongs to root: run this with sudo. "
            "A daemon of your own reads another folder: name it with --admissions DIR."
        )


def _moment(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{option} must be a date and time, as 2027-01-01T00:00:00Z, not {text!r}.") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _machine_id() -> str:
    return Path("/etc/machine-id").read_text(encoding="ascii").strip()


def _report(asked: Asked, path: Path, text: str | None, what: str, *, dry_run: bool) -> None:
    if asked.as_json:
        print_json(wire.json_text({"path": str(path), "written": not dry_run, "text": text}))
        return
    click.echo(
        f"{'Would write' if dry_run else 'Wrote'} {path}: {what}."
        if text is not None
        else f"{'Would remove' if dry_run else 'Removed'} {path}: {what}."
    )
    if text is not None:
        click.echo()
        click.echo(text, nl=False)
