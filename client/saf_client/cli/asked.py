"""What every command is asked with: the output's form, the socket, the agent; and how a command gets its client."""

import functools
import sys
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TextIO

import attrs
import click

from saf_client import sync, wire
from safd.model.errors import IdMalformed
from safd.model.ids import ConversationId, parse_conversation_id

P = ParamSpec("P")


@attrs.frozen(kw_only=True)
class Asked:
    as_json: bool = False
    socket: str | None = None
    agent: str | None = None

    def connect(self, *, deadline_s: float = sync.DEADLINE_S) -> sync.Client:
        """Raises NoDaemon, which says what was tried."""
        return sync.connect(self.socket, agent=self.agent, deadline_s=deadline_s)


_form = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
_socket = click.option("--socket", metavar="PATH", help="The daemon's socket.")
_agent = click.option("--agent", metavar="NAME", help="The agent that you say you are.")


def with_asked(command: Callable[Concatenate[Asked, P], int | None]) -> Callable[P, int | None]:
    """Give a command the common options, before or after its name, as its first argument."""
    return _form(_socket(_agent(_called(command))))


def without_daemon(command: Callable[Concatenate[Asked, P], int | None]) -> Callable[P, int | None]:
    """The same for a command that speaks to no daemon of the node."""
    return _form(_called(command))


def _called(command: Callable[Concatenate[Asked, P], int | None]) -> Callable[P, int | None]:
    @click.pass_context
    @functools.wraps(command)
    def called(ctx: click.Context, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
        found: object = ctx.obj
        outer = found if isinstance(found, Asked) else Asked()
        asked = Asked(
            as_json=bool(kwargs.pop("as_json", False)) or outer.as_json,
            socket=_text(kwargs.pop("socket", None)) or outer.socket,
            agent=_text(kwargs.pop("agent", None)) or outer.agent,
        )
        return command(asked, *args, **kwargs)

    return called


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def conversation_id(ctx: click.Context, param: click.Parameter, value: str) -> ConversationId:
    """A callback for an argument that names a conversation: what is no id is wrong use."""
    try:
        return parse_conversation_id(value)
    except IdMalformed as error:
        raise click.BadParameter(str(error), ctx, param) from error


def utf8(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A callback for what becomes part of a record: bytes of the command line that are no text are wrong use."""
    if value is not None and not wire.fits_utf8(value):
        raise click.BadParameter("it is not UTF-8. What is no text can be sent as JSON with escapes.", ctx, param)
    return value


def standard_input() -> bytes:
    """All of it; nothing where it was closed."""
    found: TextIO | None = sys.stdin
    return b"" if found is None else found.buffer.read()


conversation_argument = click.argument("conversation", metavar="CONV", callback=conversation_id)
