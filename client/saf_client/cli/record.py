"""`saf ls`, `show`, `tail`, `append`, `export`: the record itself."""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from saf_client import render, wire
from saf_client.cli.app import NOTHING_FOUND
from saf_client.cli.asked import Asked, conversation_argument, standard_input, utf8, with_asked
from saf_client.cli.printing import console, print_json, print_lines, print_result, print_table, styled
from safd.model.ids import ConversationId
from safd.model.messages import Role

EXPORT_DEADLINE_S = 120.0


@click.command("ls")
@click.option("--of", metavar="AGENT", help="Only this agent's conversations.")
@click.option("--archived", is_flag=True, help="Archived ones, instead of the others.")
@click.option("--limit", metavar="N", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--after", metavar="CONV", help="Go on after this one.")
@with_asked
def ls_command(asked: Asked, *, of: str | None, archived: bool, limit: int, after: str | None) -> int | None:
    """List the conversations that you may read, newest first."""
    with asked.connect() as client:
        found = client.list(agent=of, archived=archived, limit=limit, after=after)
    if asked.as_json:
        print_result(found)
    elif found.data:
        rows = [
            (one.id, str(one.head_seq), one.owner.account, one.agent, one.updated_at[:16].replace("T", " "), one.title)
            for one in found.data
        ]
        print_table(("conversation", "seq", "owner", "agent", "updated", "title"), rows, wide=5)
        if found.has_more:
            click.echo(f"There are more: saf ls --after {found.data[-1].id}", err=True)
    else:
        click.echo("No conversation that you may read. `saf append new --text ...` begins one.", err=True)
    return None if found.data else NOTHING_FOUND


@click.command("show")
@conversation_argument
@click.option("--after", metavar="SEQ", type=click.IntRange(0), help="Only what is stored after this seq.")
@click.option("--whole", is_flag=True, help="Long tool outputs too.")
@with_asked
def show_command(asked: Asked, *, conversation: ConversationId, after: int | None, whole: bool) -> int | None:
    """Show a conversation's record: what was said, thought, called and answered."""
    with asked.connect() as client:
        if asked.as_json:
            head = client.get(conversation)
            texts = b",".join(client.record(conversation, after=after))
            print_json(wire.render_result(head)[:-1] + b',"data":[' + texts + b"]}")
            return None
        client.get(conversation)
        columns = console().width
        lines = (
            line
            for raw in client.record(conversation, after=after)
            for line in (*render.message_lines(wire.stored_message(raw), columns, whole=whole), ())
        )
        print_lines(lines, page=True)
    return None


@click.command("tail")
@conversation_argument
@click.option(
    "--after", metavar="SEQ", type=click.IntRange(0), help="Begin after this seq. Default: with the last ten messages."
)
@click.option("--whole", is_flag=True, help="Long tool outputs too.")
@with_asked
def tail_command(asked: Asked, *, conversation: ConversationId, after: int | None, whole: bool) -> None:
    """Follow a conversation until interrupted; a daemon that restarts is waited for."""
    out = console()
    with asked.connect() as client:
        head = client.get(conversation).conversation.head_seq
        start = max(0, head - 10) if after is None else after
        with client.attach(conversation, after=start) as events:
            for event in events:
                if asked.as_json:
                    number = b"" if event.seq is None else b'"id":%d,' % event.seq
                    name = wire.json_text(event.name).encode()
                    print_json(b'{"event":%b,%b"data":%b}' % (name, number, event.data))
                elif event.seq is not None:
                    for line in render.message_lines(wire.stored_message(event.data), out.width, whole=whole):
                        out.print(styled(line), soft_wrap=True)
                else:
                    text = render.event_text(event.name, event.data)
                    out.print(styled((render.Piece(f"· {text}", render.Style.DIM),)), soft_wrap=True)
                sys.stdout.flush()


@click.command("append")
@click.argument("conversation", metavar="CONV|new")
@click.option("--text", callback=utf8, help="One text, instead of JSON from standard input.")
@click.option("--role", type=click.Choice([role.value for role in Role]), default="user", show_default=True)
@click.option("--title", callback=utf8, help="With `new`: the conversation's title.")
@click.option("--key", metavar="KEY", help="An idempotency key: the same key and body are appended once.")
@click.option("--expected-seq", metavar="SEQ", type=click.IntRange(0), help="Append only if the record ends here.")
@with_asked
def append_command(
    asked: Asked,
    *,
    conversation: str,
    text: str | None,
    role: str,
    title: str | None,
    key: str | None,
    expected_seq: int | None,
) -> None:
    """Append to CONV, or to a new conversation.

    Standard input holds one message, a list of messages, or a message a line, as JSON; they are appended together or
    not at all, byte for byte. With --text, one text message.
    """
    if key == "":
        raise click.UsageError("--key must not be empty.")
    messages = tuple(_offered(text, role))
    with asked.connect() as client:
        if conversation == "new":
            made = client.create(
                agent=asked.agent, title=title, idempotency_key=None if key is None else f"{key}:conversation"
            )
            target = made.conversation.id
        else:
            target = ConversationId(conversation)
        answer = client.append(target, *messages, idempotency_key=key, expected_seq=expected_seq)
    if asked.as_json:
        print_json(b'{"conversation":"%b",%b' % (target.encode(), wire.render_result(answer)[1:]))
    else:
        seqs = f"{answer.first_seq}" if len(answer.ids) == 1 else f"{answer.first_seq} to {answer.last_seq}"
        click.echo(f"{target}: stored as {seqs}")


def _offered(text: str | None, role: str) -> Iterator[str]:
    if text is not None:
        yield wire.json_text({"role": role, "blocks": [{"type": "text", "text": text}]})
        return
    from safd.model import spans

    content = spans.decode_utf8(standard_input(), "standard input").removeprefix("\ufeff").strip()
    if not content:
        raise click.UsageError("Standard input is empty. Pipe JSON in, or give --text.")
    if content.startswith("["):
        yield from map(str, spans.elements(spans.whole(content, "standard input")))
        return
    lines = [line for line in content.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in lines):
        yield from (str(spans.whole(line, f"line {number}")) for number, line in enumerate(lines, 1))
        return
    yield str(spans.whole(content, "standard input"))


@click.command("export")
@conversation_argument
@click.option("--after", metavar="SEQ", type=click.IntRange(0), help="Only what is stored after this seq.")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="A file to write.")
@with_asked
def export_command(asked: Asked, *, conversation: ConversationId, after: int | None, output: Path | None) -> int | None:
    """Write a conversation's stored messages, one a line, byte for byte; `saf import` reads them."""
    count = 0
    with asked.connect(deadline_s=EXPORT_DEADLINE_S) as client, _opened(output) as file:
        for raw in client.record(conversation, after=after):
            file.write(raw + b"\n")
            count += 1
        file.flush()
    if not count:
        click.echo("Nothing is stored there.", err=True)
    return None if count else NOTHING_FOUND


@contextmanager
def _opened(output: Path | None) -> Generator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
    else:
        with output.open("wb") as file:
            yield file
