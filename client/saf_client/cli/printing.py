"""How commands print: JSON for programs, tables and coloured lines for people. Nothing foreign is printed raw."""

import sys
from collections.abc import Iterable, Sequence

import attrs
import click
from rich.console import Console
from rich.table import Table
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
    """Line by line; on a terminal, `page` shows them through the person's pager."""
    out = console()
    if not (page and out.is_terminal):
        for line in lines:
            out.print(styled(line), soft_wrap=True)
        return
    with out.capture() as captured:
        for line in lines:
            out.print(styled(line), soft_wrap=True)
    click.echo_via_pager(captured.get(), color=True)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str | None]], *, wide: int | None = None) -> None:
    """On a terminal the column `wide` is cut where there is no room for it; in a pipe, and of others, nothing is."""
    out = console()
    lines = [[render.one_line(cell or "-") for cell in row] for row in rows]
    widths = [max(map(render.width, column)) for column in zip(heads, *lines, strict=True)]
    if wide is not None and out.is_terminal:
        room = out.width - sum(widths) + widths[wide] - _GAP * (len(widths) - 1)
        widths[wide] = min(widths[wide], max(room, _LEAST))
    for number, line in enumerate([list(heads), *lines]):
        cells = [render.shortened(cell, size) for cell, size in zip(line, widths, strict=True)]
        padded = [cell + " " * (size - render.width(cell)) for cell, size in zip(cells, widths, strict=True)]
        text = (" " * _GAP).join(padded).rstrip()
        out.print(Text(text, style="" if number else "bold"), soft_wrap=True)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, the values wrapped beside their names."""
    out = console()
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, Text(render.visible(value)))
    out.print(table)


def heading(text: str) -> None:
    out = console()
    out.print()
    out.print(Text(render.one_line(text), style="bold reverse" if out.is_terminal else ""))
