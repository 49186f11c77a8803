"""Copies of a store: made from one moment while the daemon runs, put back only after they were verified."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from safd.model.errors import SafError
from safd.model.failures import StoreExists
from safd.store import files, schema
from safd.store.check import Progress, Report, check

_STEP_PAGES = 2048


def backup(path: Path, target: Path, progress: Progress) -> None:
    """Write the store at `path`, as it is now, to the one file `target`; `progress(done, total)` counts pages.

    Raises StoreExists, StoreFailed, DiskFull.
    """
    if os.path.lexists(target):
        raise StoreExists(path=str(target))
    with files.reading(path) as source:
        schema.known_version(source, path)
        with _whole_or_not_at_all(target) as part:
            _copy(source, part, progress)


def restore(saved: Path, path: Path, progress: Progress, *, replace: bool = False) -> Report:
    """Verify the backup `saved`; if it is clean, make it the store at `path`. Nothing is touched if it is not.

    `progress(done, total)` counts messages, then pages. Raises StoreLocked, StoreExists, StoreNewer, StoreFailed,
    DiskFull.
    """
    with files.locked(path):
        if os.path.lexists(path) and not replace:
            raise StoreExists(path=str(path))
        report = check(saved, progress)
        if not report.clean:
            return report
        with files.reading(saved) as source, _whole_or_not_at_all(path) as part:
            _copy(source, part, progress)
            _discard_log(path)
            _hand_over(part, path.parent)
        return report


def _copy(source: sqlite3.Connection, part: Path, progress: Progress) -> None:
    def told(_: int, remaining: int, total: int) -> None:
        progress(total - remaining, total)

    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            source.execute("BEGIN")  # one snapshot for all steps: what the daemon writes meanwhile restarts nothing
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(copy, pages=_STEP_PAGES, progress=told)
            source.execute("COMMIT")
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()  # one file, readable from any medium
    except sqlite3.Error as error:
        raise files.translate(error, part) from error


@contextmanager
def _whole_or_not_at_all(target: Path) -> Generator[Path, None, None]:
    """A new file beside the target; at the end of the block it takes the target's name, durably."""
    part = target.with_name(f".{target.name}.part")
    try:
        descriptor = _fresh(part)
        try:
            yield part
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.rename(target)
        files.sync_folder(target.parent)
    except OSError as error:
        raise files.translate_os(error, target) from error
    finally:
        part.unlink(missing_ok=True)


def _hand_over(part: Path, folder: Path) -> None:
    descriptor = os.open(part, os.O_RDONLY)
    try:
        files.hand_over(descriptor, folder)
    finally:
        os.close(descriptor)


def _fresh(part: Path) -> int:
    part.unlink(missing_ok=True)
    return files.private(part)


def _discard_log(path: Path) -> None:
    """The log of a store that is about to be replaced; beside another file it would be taken for that file's.

    It is emptied first, so that a crash before the new file has the name leaves the old store whole.
    """
    if path.exists():
        # a store that is replaced because it is broken has no log worth keeping
        with suppress(sqlite3.Error, SafError), closing(files.connect_writer(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
