"""`saf import`: files and folders of transcripts into records, and what was taken, left out, and why."""

import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from saf_client import wire
from saf_client.cli.app import FAILED, NOTHING_FOUND
from saf_client.cli.asked import Asked, standard_input, with_asked
from saf_client.cli.printing import counted, heading, print_json, print_table, print_text
from saf_client.errors import Denied, SafdError, Unavailable
from saf_client.formats.detect import FORMATS, NotUnderstood, read_transcript
from saf_client.formats.transcript import BadLine, LeftOut, Said, Transcript
from saf_client.importing import Taken, import_thread
from saf_client.render import one_line
from saf_client.sync import Client

DEADLINE_S = 120.0
FILE_BYTES = 1024 * 1024 * 1024
"""A transcript is read whole; one that is larger would cost several times its size in memory."""
STANDARD_INPUT = Path("-")
_SNIFFED_BYTES = 64 * 1024
_SHOWN = 20


@attrs.define(kw_only=True)
class Outcome:
    """One file: what it was, what was taken, or why nothing was."""

    path: Path
    transcript: Transcript | None = None
    taken: list[Taken] = attrs.field(factory=list[Taken])
    problem: str | None = None
    code: str = "not_understood"
    """What the problem is, for programs."""
    named: bool = True
    """The person named this file; others were found in a folder."""

    @property
    def failed(self) -> bool:
        if self.problem is not None and (self.named or self.transcript is not None):
            return True
        return any(one.refused or one.differs for one in self.taken)


@click.command("import")
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, allow_dash=True, path_type=Path)
)
@with_asked
def import_command(asked: Asked, *, paths: tuple[Path, ...]) -> int | None:
    """Import transcripts: each conversation in a file becomes one here. Importing again adds only what is new.

    The format is told by the content: Claude Code session files and their subagents' files, and safd's own lines.
    Folders are searched for both; - is standard input.
    """
    outcomes: list[Outcome] = []
    try:
        untried = _import(asked, paths, outcomes)
    except KeyboardInterrupt:
        _print(outcomes, as_json=asked.as_json)
        click.echo("Interrupted. What was taken stays; the same command again takes the rest.", err=True)
        raise
    _print(outcomes, as_json=asked.as_json)
    if untried:
        click.echo(f"Not tried any more: {counted(untried, 'file')}.", err=True)
    if untried or any(outcome.failed for outcome in outcomes):
        return FAILED
    return None if any(outcome.taken for outcome in outcomes) else NOTHING_FOUND


def _import(asked: Asked, paths: Sequence[Path], outcomes: list[Outcome]) -> int:
    """File by file, each with its outcome; returns how many were not tried, because no other would do better."""
    found = list(_files(paths))
    with asked.connect(deadline_s=DEADLINE_S) as client, _progress() as progress:
        files = progress.add_task("files", total=len(found))
        for number, (path, named) in enumerate(found, 1):
            outcome = Outcome(path=path, named=named)
            outcomes.append(outcome)
            try:
                _import_file(client, outcome, asked.agent, progress)
            except SafdError as error:
                outcome.problem, outcome.code = error.detail, error.code
                if isinstance(error, Unavailable | Denied):
                    return len(found) - number
            progress.advance(files)
    return 0


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Each file once; of a folder those that look like lines of JSON, in order of their names."""
    seen: set[Path] = set()
    for path in paths:
        if path == STANDARD_INPUT:
            yield path, True
            continue
        within = _within(path) if path.is_dir() else iter([path])
        for file in within:
            real = file.resolve()
            if real not in seen:
                seen.add(real)
                yield file, not path.is_dir()


def _within(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(at, name)
            if path.is_file() and not path.is_symlink() and _may_be_lines(path):
                yield path


def _may_be_lines(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError:
        return True  # it is named in the report as unreadable
    return any(line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{") for line in head.split(b"\n"))


def _import_file(client: Client, outcome: Outcome, agent: str | None, progress: Progress) -> None:
    try:
        content, source = _read(outcome.path)
    except OSError as error:
        outcome.problem, outcome.code = f"it cannot be read: {error.strerror or error}", "os_error"
        return
    read = read_transcript(content, source)
    if isinstance(read, NotUnderstood):
        outcome.problem = read.reason
        return
    outcome.transcript = read
    threads = [thread for thread in read.threads if thread.units]
    bar = progress.add_task(one_line(outcome.path.name)[:30], total=sum(len(thread.units) for thread in threads))
    for thread in threads:
        import_thread(client, thread, agent=agent, begun=outcome.taken.append, progress=lambda: progress.advance(bar))
    progress.remove_task(bar)


def _read(path: Path) -> tuple[bytes, str]:
    if path == STANDARD_INPUT:
        return standard_input(), "standard input"
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file; - reads standard input", str(path))
        if found.st_size > FILE_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {FILE_BYTES >> 20} MiB; split it by lines", str(path))
        return file.read(), str(path.resolve())


def _progress() -> Progress:
    """On a terminal only, and beside the output."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def _print(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    if as_json:
        print_json(wire.json_text(_as_json(outcomes)))
        return
    taken = [one for outcome in outcomes for one in outcome.taken]
    if taken:
        rows = [(one.conversation, str(one.appended), str(one.already), str(one.continued), one.title) for one in taken]
        print_table(("conversation", "new", "known", "grown", "title"), rows, wide=4)
    _print_counts("Left out of the conversations", "lines", _sum(outcomes, "left_out"))
    _print_counts("Changed on the way", "times", _sum(outcomes, "changed"))
    for outcome in outcomes:
        _print_troubles(outcome)
    if taken:
        _print_summary(outcomes)
    elif not any(outcome.problem for outcome in outcomes):
        click.echo(f"Nothing was found to import. Known formats: {', '.join(FORMATS)}.", err=True)


def _print_summary(outcomes: Sequence[Outcome]) -> None:
    """One line that accounts for every line of every file."""
    read = [outcome.transcript for outcome in outcomes if outcome.transcript is not None]
    units = [unit for transcript in read for thread in transcript.threads for unit in thread.units]
    lines = sum(len(unit.parts) if isinstance(unit, Said) else 1 for unit in units)
    taken = [one for outcome in outcomes for one in outcome.taken]
    left_out, bad = _sum(outcomes, "left_out").total(), sum(len(transcript.bad) for transcript in read)
    print_text(
        f"\n{counted(lines, 'line')} made {counted(len(units), 'message')} in {counted(len(taken), 'conversation')}: "
        f"{sum(one.appended for one in taken):,} new, {sum(one.already for one in taken):,} known before, "
        f"{sum(len(one.refused) for one in taken):,} refused. "
        f"{counted(left_out, 'line')} left out, {bad:,} unreadable."
    )


def _sum(outcomes: Sequence[Outcome], which: str) -> Counter[LeftOut]:
    total: Counter[LeftOut] = Counter()
    for outcome in outcomes:
        if outcome.transcript is not None:
            total.update(outcome.transcript.left_out if which == "left_out" else outcome.transcript.changed)
    return total


def _print_counts(title: str, unit: str, counts: Counter[LeftOut]) -> None:
    if counts:
        heading(title)
        rows = [(str(count), one.what, one.why) for one, count in counts.most_common(_SHOWN)]
        print_table((unit, "what", "why"), rows, fold=2)
        if len(counts) > _SHOWN:
            click.echo(f"and {len(counts) - _SHOWN} more kinds; --json lists all")


def _print_troubles(outcome: Outcome) -> None:
    name = "standard input" if outcome.path == STANDARD_INPUT else one_line(str(outcome.path))
    bad: Sequence[BadLine] = () if outcome.transcript is None else outcome.transcript.bad
    troubles = [f"byte {one.offset}: {one.reason}" for one in bad]
    for one in outcome.taken:
        troubles += [f"byte {refused.offset}: {refused.detail} [{refused.code}]" for refused in one.refused]
        troubles += [f"byte {offset}: differs from what was imported before, which stays" for offset in one.differs]
    if outcome.problem is not None and (outcome.named or outcome.transcript is not None):
        what = "was not imported" if outcome.transcript is None else "was not imported to its end"
        click.echo(f"saf: {name} {what}: {one_line(outcome.problem).rstrip('.')}. [{outcome.code}]", err=True)
    elif outcome.problem is not None:
        click.echo(f"passed over {name}: {one_line(outcome.problem)}", err=True)
    for trouble in troubles[:_SHOWN]:
        click.echo(f"{name}: {one_line(trouble)}", err=True)
    if len(troubles) > _SHOWN:
        click.echo(f"{name}: and {len(troubles) - _SHOWN} more; --json lists all", err=True)


def _as_json(outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "files": [
            {
                "path": str(outcome.path),
                "format": None if outcome.transcript is None else outcome.transcript.format,
                "problem": outcome.problem,
                "code": None if outcome.problem is None else outcome.code,
                "conversations": [attrs.asdict(one) for one in outcome.taken],
                "left_out": _counts(outcome, "left_out"),
                "changed": _counts(outcome, "changed"),
                "bad_lines": [] if outcome.transcript is None else list(map(attrs.asdict, outcome.transcript.bad)),
            }
            for outcome in outcomes
        ]
    }


def _counts(outcome: Outcome, which: str) -> list[dict[str, object]]:
    return [{"what": one.what, "why": one.why, "count": count} for one, count in _sum([outcome], which).items()]
