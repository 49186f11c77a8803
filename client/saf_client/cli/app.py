"""The command tree, and the one place where errors become sentences and exit codes.

Exit codes: 0 fine, 1 failed, 2 wrong use, 3 nothing found, 4 drift found; 130 interrupted and 141 reader gone, as
shells know them.
"""

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click
from click.exceptions import Exit

from safd import __version__

FAILED = 1
NOTHING_FOUND = 3
DRIFT_FOUND = 4
INTERRUPTED = 130
SIGNALLED = 128
READER_GONE = 141
COMPLETION = "_SAF_COMPLETE"
"""Set by the shell's completion (`eval "$(_SAF_COMPLETE=bash_source saf)"`)."""

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Show everything on a private daemon that leaves nothing behind."),
    "whoami": ("node", "Who you are to safd right now, and what a model would be told."),
    "ls": ("record", "List the conversations that you may read."),
    "show": ("record", "Show a conversation's record."),
    "tail": ("record", "Follow a conversation as it grows."),
    "append": ("record", "Append messages to a conversation."),
    "replay": ("replay", "The record as a provider's payload, with every repair."),
    "import": ("imports", "Import transcripts: files, or folders of them."),
    "export": ("record", "Write a conversation's stored lines."),
    "compact": ("replay", "Let the model see less of a record; the record keeps all."),
    "admit": ("admissions", "Admit an agent to a Unix account of this node."),
    "dismiss": ("admissions", "Take an agent's admission back."),
    "admissions": ("admissions", "Who is admitted to which account."),
    "drift": ("node", "Agents that are not what they were admitted as."),
    "status": ("node", "The daemon in numbers."),
}
"""Each command, the module that holds it, and its line in the help: the module is loaded when it is called."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  the same
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"saf_client.cli.{COMMANDS[cmd_name][0]}")
        found = getattr(module, f"{cmd_name}_command")
        return found if isinstance(found, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  the same
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text, for every command.")
@click.option("--socket", metavar="PATH", help="The daemon's socket.")
@click.option("--agent", metavar="NAME", help="The agent that you say you are: a choice among those admitted to you.")
@click.version_option(__version__, "--version", "-V", prog_name="saf", message="%(prog)s %(version)s")
@click.pass_context
def saf(ctx: click.Context, *, as_json: bool, socket: str | None, agent: str | None) -> None:
    """Look at and work on the conversations that safd keeps on this node.

    The daemon is found by --socket, $SAFD_SOCKET, /run/safd/safd.sock or $XDG_RUNTIME_DIR/safd/safd.sock, in this
    order.
    """
    from saf_client.cli.asked import Asked

    ctx.obj = Asked(as_json=as_json, socket=socket, agent=agent)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. No traceback reaches a person for anything that is foreseen."""
    as_json = "--json" in arguments
    try:
        return _run(list(arguments), as_json=as_json)
    except BrokenPipeError:
        return _reader_gone()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _run(arguments: list[str], *, as_json: bool) -> int:
    from saf_client import render
    from saf_client.errors import Missing, SafdError, from_cause
    from safd.model.errors import SafError

    try:
        code = _called(arguments)
        sys.stdout.flush()
    except Exit as left:
        return left.exit_code
    except click.ClickException as error:
        if as_json:
            _fail("usage", error.format_message(), {}, as_json=True)
        else:
            said = io.StringIO()
            error.show(said)
            click.echo(render.visible(said.getvalue()), err=True, nl=False)
        return error.exit_code
    except SafdError as error:
        _fail(error.code, error.detail, error.fields, as_json=as_json)
        return NOTHING_FOUND if isinstance(error, Missing) else FAILED
    except SafError as error:
        _fail(error.code, str(error), from_cause(error).fields, as_json=as_json)
        return FAILED
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise BrokenPipeError from error
        where = f"{error.filename}: " if error.filename else ""
        _fail("os_error", f"{where}{error.strerror or error}.", {}, as_json=as_json)
        return FAILED
    return code if isinstance(code, int) else 0


def _called(arguments: list[str]) -> object:
    if COMPLETION in os.environ:
        return saf.main(arguments, prog_name="saf")
    # not click's `main`, which would end the process where a pipe breaks, with a code that says nothing of it
    with saf.make_context("saf", arguments) as context:
        return saf.invoke(context)


def _fail(code: str, detail: str, fields: dict[str, object], *, as_json: bool) -> None:
    from saf_client import render, wire

    if as_json:
        click.echo(wire.json_text({"error": {"code": code, "detail": detail, **fields}}), err=True)
    else:
        click.echo(f"saf: {render.visible(detail)} [{code}]", err=True)


def _reader_gone() -> int:
    """Whoever read our output has left; what Python would still flush goes nowhere, quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return READER_GONE


def stop_on(number: signal.Signals) -> None:
    """Leave in order on this signal: what a command has begun it also ends."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  a handler's signature
        raise SystemExit(SIGNALLED + number)

    signal.signal(number, stop)
