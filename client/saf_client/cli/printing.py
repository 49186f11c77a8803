"""How commands print: JSON for programs, tables and coloured lines for people. Nothing foreign is printed raw."""

import sys
from collections.abc import Iterable, Sequence
from itertools import chain, islice

import attrs
import click
from rich.console import Console
from rich.text import Text

from saf_client import render, wire
from saf_client.render import Line, Style

LOOKS = {
    Style.PLAIN: "",
    Style.HEAD: "bold",
    Style.DIM: "dim",
    Style.CALL: "cyan",
    Style.ERROR: "red",
    Style.THOUGHT: "italic dim",
}
_PIPE_COLUMNS = 100
_GAP = 2
_LEAST = 12
"""Columns that a cut cell keeps, also where the line is then longer than the terminal."""


def console() -> Console:
    """For standard output. A pipe gets a fixed width and no colour."""
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    return Console(highlight=False, markup=False, emoji=False, width=width, legacy_windows=False)


def print_json(text: str | bytes) -> None:
    """One JSON text, as it stands, on a line of its own."""
    click.echo((text if isinstance(text, bytes) else text.encode("utf-8")) + b"\n", nl=False)


def print_result(result: attrs.AttrsInstance) -> None:
    print_json(wire.render_result(result))


def styled(line: Line) -> Text:
    text = Text(no_wrap=True, overflow="ignore")
    for piece in line:
        text.append(piece.text, style=LOOKS[piece.style])
    return text


def print_lines(lines: Iterable[Line], *, page: bool = False) -> None:
    """Line by line; on a terminal, `page` shows what is longer than the screen through the person's pager."""
    out = console()
    rest = iter(lines)
    if page and out.is_terminal:
        screen = list(islice(rest, out.height))
        if len(screen) == out.height:
            click.echo_via_pager((_rendered(out, line) for line in chain(screen, rest)), color=True)
            return
        rest = iter(screen)
    for line in rest:
        out.print(styled(line), soft_wrap=True)


def _rendered(out: Console, line: Line) -> str:
    with out.capture() as captured:
        out.print(styled(line), soft_wrap=True)
    return captured.get()


def print_text(text: str) -> None:
    """Words, broken between them at a terminal's edge; in a pipe as they stand."""
    out = console()
    for line in render.wrapped(text, out.width) if out.is_terminal else render.visible(text).split("\n"):
        out.print(Text(line), soft_wrap=True)


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[str | None]], *, wide: int | None = None, fold: int | None = None
) -> None:
    """On a terminal without room for all, the column `wide` is cut, and the last one, if it is `fold`, goes on below.

    Of other columns, and in a pipe, nothing is cut.
    """
    out = console()
    lines = [[render.one_line(cell or "-") for cell in row] for row in rows]
    widths = [max(map(render.width, column)) for column in zip(heads, *lines, strict=True)]
    flexible = wide if wide is not None else fold
    if flexible is not None and out.is_terminal:
        room = out.width - sum(widths) + widths[flexible] - _GAP * (len(widths) - 1)
        widths[flexible] = min(widths[flexible], max(room, _LEAST))
    for number, line in enumerate([list(heads), *lines]):
        more: list[str] = []
        if fold is not None:
            line[fold], *more = render.wrapped(line[fold], widths[fold])
        cells = [render.shortened(cell, size) for cell, size in zip(line, widths, strict=True)]
        padded = [cell + " " * (size - render.width(cell)) for cell, size in zip(cells, widths, strict=True)]
        indent = " " * (sum(widths[:fold]) + _GAP * (fold or 0))
        for text in ((" " * _GAP).join(padded).rstrip(), *(indent + piece for piece in more)):
            out.print(Text(text, style="" if number else "bold"), soft_wrap=True)


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values; on a terminal the values go on beside their names."""
    out = console()
    indent = max(len(name) for name, _ in pairs) + _GAP
    for name, value in pairs:
        first, *more = (
            render.wrapped(value, out.width - indent) if out.is_terminal else render.visible(value).split("\n")
        )
        out.print(Text.assemble((name.ljust(indent), "dim"), first), soft_wrap=True)
        for piece in more:
            out.print(Text(" " * indent + piece), soft_wrap=True)


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def heading(text: str) -> None:
    out = console()
    out.print()
    out.print(Text(render.one_line(text), style="bold reverse" if out.is_terminal else ""))
