"""The tables, made by named migrations; each is applied in one transaction together with the row that records it.

Versions count from 0, the empty database. A released migration is never edited: what changes is appended.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import attrs

from safd.model.failures import StoreFailed, StoreNewer
from safd.store import files

APPLICATION_ID = 0x73616664
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100  # https://www.sqlite.org/fileformat2.html, section 1.3
"""`safd` in ASCII, in the header of every store: no other program's database is taken for one."""

SEQ_BITS = 32
"""A message's row number is its conversation's number, then these bits of seq: records lie together, in order."""


@attrs.frozen(kw_only=True)
class Migration:
    name: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        name="conversations, messages, marks, turns",
        statements=(
            """CREATE TABLE conversations (
                number INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 2147483647),
                id TEXT NOT NULL UNIQUE,
                agent, owner_uid INTEGER NOT NULL, owner_account NOT NULL,
                title, metadata, created_at TEXT NOT NULL)""",
            # what moves with each append stands apart: its rows stay small whatever title and metadata hold
            """CREATE TABLE heads (
                conversation INTEGER PRIMARY KEY,
                seq INTEGER NOT NULL CHECK (seq BETWEEN 0 AND 4294967295), hash TEXT NOT NULL,
                updated_at TEXT NOT NULL, archived_at TEXT,
                mark_count INTEGER NOT NULL, mark_hash TEXT NOT NULL,
                turn INTEGER)""",
            """CREATE TABLE messages (
                number INTEGER PRIMARY KEY, id TEXT NOT NULL, hash TEXT NOT NULL, text BLOB NOT NULL)""",
            """CREATE TABLE marks (
                number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, text BLOB NOT NULL)""",
            """CREATE TABLE turns (
                number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, conversation INTEGER NOT NULL,
                state TEXT NOT NULL, agent, uid INTEGER NOT NULL, after_seq INTEGER NOT NULL,
                opened_at TEXT NOT NULL, ended_at TEXT, reason,
                pid INTEGER, start_ticks INTEGER, boot_id TEXT)""",
            "CREATE UNIQUE INDEX turns_live ON turns (conversation) WHERE state IN ('open', 'waiting')",
            """CREATE TABLE append_keys (
                conversation INTEGER NOT NULL, key NOT NULL, body BLOB NOT NULL,
                first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
                PRIMARY KEY (conversation, key)) WITHOUT ROWID""",
            """CREATE TABLE create_keys (
                owner_uid INTEGER NOT NULL, key NOT NULL, body BLOB NOT NULL, conversation INTEGER NOT NULL,
                PRIMARY KEY (owner_uid, key)) WITHOUT ROWID""",
            """CREATE TABLE totals (
                one INTEGER PRIMARY KEY CHECK (one = 1),
                conversations INTEGER NOT NULL, messages INTEGER NOT NULL)""",
            "INSERT INTO totals VALUES (1, 0, 0)",
        ),
    ),
)

SCHEMA_VERSION = len(MIGRATIONS)


def refuse_others(path: Path) -> None:
    """Raises StoreFailed where the file at `path` is plainly not a store, before anything beside it is made."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise files.translate_os(error, path) from error
    if head and not head.startswith(_MAGIC):
        raise StoreFailed(path=str(path), reason="it is no database")
    if head and int.from_bytes(head[68:72], "big") not in (0, APPLICATION_ID):
        raise StoreFailed(path=str(path), reason="it is a database of another program")


def version(connection: sqlite3.Connection, path: Path) -> int:
    """How many migrations a database has seen. Raises StoreFailed for another program's database."""
    (found,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found == 0:
        return 0
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise StoreFailed(path=str(path), reason="it is a database of another program")
    (number,) = connection.execute("SELECT max(number) FROM migrations").fetchone()
    return int(number)


def known_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a store that is there. Raises StoreNewer, StoreFailed."""
    found = version(connection, path)
    if found == 0:
        raise StoreFailed(path=str(path), reason="it is an empty file, not a store")
    if found > SCHEMA_VERSION:
        raise StoreNewer(path=str(path), found=found, known=SCHEMA_VERSION)
    return found


def migrate(
    connection: sqlite3.Connection, path: Path, applied_at: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring a database to the newest schema. Raises StoreNewer where a newer safd has been here."""
    found = version(connection, path)
    if found > len(migrations):
        raise StoreNewer(path=str(path), found=found, known=len(migrations))
    for number, migration in enumerate(migrations[found:], start=found + 1):
        _apply(connection, number, migration, applied_at)


def _apply(connection: sqlite3.Connection, number: int, migration: Migration, applied_at: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if number == 1:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(
                "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)"
            )
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (number, migration.name, applied_at))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
