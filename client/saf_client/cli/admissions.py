"""`saf admit`, `dismiss`, `admissions`: the administrator's files, written here atomically; the daemon only reads."""

import grp
import os
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import click

from saf_client import admissions_file, render, wire
from saf_client.cli import accounts
from saf_client.cli.accounts import uid_of_admission
from saf_client.cli.asked import Asked, without_daemon
from saf_client.cli.printing import print_json, print_table
from safd.model.admissions import (
    SUFFIX,
    AccountAdmission,
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
@click.option("--any-account", is_flag=True, help="A resident also in an account of the system's or of a person.")
@click.option("--share", is_flag=True, help="A resident also where another one has the account.")
@click.option("--create-account", is_flag=True, help="Make the account, if it is not there (systemd-sysusers).")
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
    any_account: bool,
    share: bool,
    create_account: bool,
    admissions: Path | None,
    dry_run: bool,
) -> None:
    """Admit AGENT to an account. What the account's file says of other agents stays as it is.

    resident: the agent has the account to itself. borrowed: it runs, on purpose, under a person's account.
    """
    folder = admissions or SYSTEM_FOLDER
    if not dry_run:
        _must_be_able(folder, admissions)
    if create_account and accounts.find(account) is None:
        line = accounts.sysusers_line(account, name)
        if dry_run:
            click.echo(f"Would create the account {account}: systemd-sysusers --inline {shlex.quote(line)}")
            click.echo(f"Would write {folder}/UID{SUFFIX}, with the uid that it gets: {name} as {mode}.")
            return
        accounts.create(line)
    held = accounts.admissible(account)
    uid = Uid(held.pw_uid)
    unfit = accounts.unfit_for_resident(held) if mode == Mode.RESIDENT and not any_account else None
    if unfit is not None:
        raise click.UsageError(
            f"{unfit}: a resident has its account to itself. Make one with --create-account, "
            "admit it as borrowed, or say --any-account if this is what you want."
        )
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
    before = admissions_file.read_text(folder, uid)
    if mode == Mode.RESIDENT and not share:
        _must_be_alone(before, uid, held.pw_name, name)
    text = admissions_file.with_agent(before, uid=uid, account=held.pw_name, admission=admission)
    if not dry_run:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        admissions_file.write(folder, uid, text)
    what = f"{name} is admitted to {held.pw_name} (uid {uid}) as {mode}"
    _report(asked, folder / file_name(uid), text, what, dry_run=dry_run)


@click.command("admissions")
@_folder_option
@without_daemon
def admissions_command(asked: Asked, *, admissions: Path | None) -> int | None:
    """List who is admitted to which account, and files that admit nobody because something is wrong with them."""
    from saf_client.cli.app import FAILED, NOTHING_FOUND

    folder = admissions or SYSTEM_FOLDER
    found = list(_read_all(folder))
    if asked.as_json:
        print_json(wire.json_text({"folder": str(folder), "files": [_as_json(path, held) for path, held in found]}))
    else:
        _print_admissions(folder, [held for _, held in found])
    if any(isinstance(held, str) for _, held in found):
        return FAILED
    return None if found else NOTHING_FOUND


def _as_json(path: Path, held: AccountAdmission | str) -> dict[str, object]:
    if isinstance(held, str):
        return {"path": str(path), "problem": held}
    agents = [
        {name: value.isoformat() if isinstance(value, datetime) else value for name, value in attrs.asdict(one).items()}
        for one in held.agents
    ]
    return {"path": str(path), "uid": held.uid, "account": held.account, "agents": agents}


def _print_admissions(folder: Path, found: Sequence[AccountAdmission | str]) -> None:
    rows = [
        (one.agent, one.mode.value, held.account, str(held.uid), one.unit, _in_force(one), _people(one))
        for held in found
        if isinstance(held, AccountAdmission)
        for one in held.agents
    ]
    if rows:
        print_table(("agent", "mode", "account", "uid", "unit", "in force", "readers and operators"), rows, wide=6)
    elif not found:
        click.echo(f"Nobody is admitted in {folder}.", err=True)
    for held in found:
        if isinstance(held, str):
            click.echo(f"saf: admits nobody: {render.visible(held)}", err=True)


def _in_force(admission: Admission) -> str | None:
    begin, end = admission.not_before, admission.expires
    words = [f"from {begin:%Y-%m-%d %H:%M}"] if begin is not None else []
    words += [f"until {end:%Y-%m-%d %H:%M}"] if end is not None else []
    return " ".join(words) or None


def _people(admission: Admission) -> str | None:
    return ", ".join([*admission.readers, *(f"{one} (writes)" for one in admission.operators)]) or None


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
    uids: list[Uid] = []
    for path, held in _read_all(folder):
        if account is not None and path.name != file_name(uid_of_admission(account)):
            continue
        if isinstance(held, str):
            unreadable.append(held)
        elif held.find(name) is not None:
            uids.append(held.uid)
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
    text = admissions_file.without_agent(admissions_file.read_text(folder, uid) or "", uid=uid, agent=name)
    if not dry_run:
        _must_be_able(folder, admissions)
        if text is None:
            admissions_file.remove(folder, uid)
        else:
            admissions_file.write(folder, uid, text)
    _report(asked, folder / file_name(uid), text, f"{name} is dismissed from uid {uid}", dry_run=dry_run)
    return None


def _group(group: str) -> str | int:
    """By name; a number is one only where no group has it for a name."""
    try:
        return grp.getgrnam(group).gr_name
    except (KeyError, ValueError):
        return int(group) if group.isascii() and group.isdecimal() else group


def _read_all(folder: Path) -> Iterator[tuple[Path, AccountAdmission | str]]:
    """Each admission by uid, or why its file is none."""
    named = [(uid_of_file(path.name), path) for path in folder.glob(f"*{SUFFIX}")] if folder.is_dir() else []
    for uid, path in sorted((uid, path) for uid, path in named if uid is not None):
        try:
            text = admissions_file.read_text(folder, uid)
            if text is not None:
                yield path, parse_admission(text, str(path))
        except Malformed as error:
            yield path, str(error)
        except OSError as error:
            yield path, f"{path}: {error.strerror}"


def _must_be_alone(text: str | None, uid: Uid, account: str, name: str) -> None:
    """Raises click.UsageError where another agent is a resident of the account."""
    if text is None:
        return
    held = parse_admission(text, file_name(uid))
    others = [one.agent for one in held.agents if one.mode is Mode.RESIDENT and one.agent != name]
    if others:
        raise click.UsageError(
            f"{account} is the account of {', '.join(others)}: the kernel does not tell two residents of one account "
            "apart. Give it another account, or say --share if they may act for each other."
        )


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
