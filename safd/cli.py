"""The `safd` command: serve, check, backup, restore. Arguments become settings, outcomes become exit codes."""

import faulthandler
import json
import logging
import os
import pwd
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from safd import __version__
from safd.model.errors import SafError

if TYPE_CHECKING:
    from safd.store.check import Report

FAILED = 1
NOTHING_FOUND = 3
SYSTEM_STORE = Path("/var/lib/safd/record.db")
SYSTEM_SOCKET = Path("/run/safd/safd.sock")
SYSTEM_ADMISSIONS = Path("/etc/saf/admissions.d")


def main() -> None:
    cli(prog_name="safd")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="safd")
def cli() -> None:
    """Keep the one conversation record of every agent on this node."""


def is_system_daemon() -> bool:
    """Root, or the account `safd`: the node's own daemon. Anyone else runs a daemon of their own."""
    uid = os.geteuid()
    if uid == 0:
        return True
    try:
        return pwd.getpwuid(uid).pw_name == "safd"
    except KeyError:
        return False


def default_store() -> Path:
    state = os.environ.get("STATE_DIRECTORY")
    if state:
        return Path(state.split(":")[0]) / "record.db"
    if is_system_daemon():
        return SYSTEM_STORE
    from xdg import BaseDirectory

    return Path(BaseDirectory.xdg_data_home) / "safd" / "record.db"


def default_socket() -> Path:
    if is_system_daemon():
        return SYSTEM_SOCKET
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if not runtime:
        raise click.UsageError("XDG_RUNTIME_DIR is not set; name the socket with --socket PATH.")
    return Path(runtime) / "safd" / "safd.sock"


def default_admissions() -> Path:
    if is_system_daemon():
        return SYSTEM_ADMISSIONS
    from xdg import BaseDirectory

    return Path(BaseDirectory.xdg_config_home) / "saf" / "admissions.d"


_store_option = click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The record's file. Default: $STATE_DIRECTORY, /var/lib/safd, or the XDG data folder, and record.db in it.",
)


@cli.command()
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    help="Where to listen. Default: the socket that systemd passed, else /run/safd/safd.sock or "
    "$XDG_RUNTIME_DIR/safd/safd.sock.",
)
@_store_option
@click.option(
    "--admissions",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of admission files, owned by root or by you. Default: /etc/saf/admissions.d, or the XDG "
    "configuration folder.",
)
@click.option(
    "--shared/--private",
    default=None,
    help="Whether other accounts may connect to a socket made here. Default: only to the node's own daemon (run by "
    "root or the account safd).",
)
def serve(socket_path: Path | None, store: Path | None, admissions: Path | None, shared: bool | None) -> None:
    """Serve this node (or, for a person, this account) until SIGTERM."""
    faulthandler.enable()
    import trio

    from safd import daemon
    from safd.node import systemd
    from safd.settings import Settings

    passed = systemd.passed_sockets().get(daemon.SOCKET_NAME) if socket_path is None else None
    settings = Settings(
        socket=None if passed is not None else (socket_path or default_socket()).absolute(),
        shared=is_system_daemon() if shared is None else shared,
        store=(store or default_store()).absolute(),
        admissions=(admissions or default_admissions()).absolute(),
        user_mode=admissions is not None or not is_system_daemon(),
    )
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with _named():
        try:
            trio.run(daemon.run, settings, passed)
        except OSError as error:
            _fail("os_error", f"safd cannot start: {error}")


@cli.command()
@_store_option
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
def check(store: Path | None, as_json: bool) -> None:
    """Verify every hash chain of the record; works beside a running daemon."""
    from safd.store.check import check as check_store

    path = _existing(store or default_store())
    with _progress("checking") as progress, _named():
        report = check_store(path, progress)
    _show(report, as_json)


@cli.command()
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@_store_option
def backup(target: Path, store: Path | None) -> None:
    """Write a consistent copy of the record to TARGET; works beside a running daemon."""
    from safd.store.backup import backup as backup_store

    path = _existing(store or default_store())
    with _progress("copying") as progress, _named():
        backup_store(path, target.absolute(), progress)
    click.echo(f"{path} was copied to {target}.")


@cli.command()
@click.argument("saved", type=click.Path(path_type=Path, dir_okay=False))
@_store_option
@click.option("--replace", is_flag=True, help="Put it in place of a record that is there. What is there is lost.")
def restore(saved: Path, store: Path | None, replace: bool) -> None:
    """Verify the backup SAVED and, if it holds, make it the record. The daemon must not be running."""
    from safd.store.backup import restore as restore_store

    path = (store or default_store()).absolute()
    with _progress("restoring") as progress, _named():
        report = restore_store(_existing(saved), path, progress, replace=replace)
    _show(report, as_json=False)
    click.echo(f"{path} is the record that {saved} holds.")


def _show(report: "Report", as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        for line in report.lines():
            click.echo(line)
    if not report.clean:
        sys.exit(FAILED)


def _existing(path: Path) -> Path:
    if not path.exists():
        _fail("nothing_found", f"There is no record at {path}. Name it with --store PATH.", NOTHING_FOUND)
    return path.absolute()


@contextmanager
def _progress(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _named() -> Generator[None]:
    """A cause with a name is told as one sentence; a fault of our own keeps its traceback."""
    try:
        yield
    except SafError as error:
        _fail(error.code, str(error))


def _fail(code: str, sentence: str, status: int = FAILED) -> NoReturn:
    click.echo(f"safd: {sentence} [{code}]", err=True)
    sys.exit(status)
