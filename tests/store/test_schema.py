"""Migrations: every earlier version becomes the newest, and becomes exactly what a new store is."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from safd.model.failures import StoreFailed, StoreNewer
from safd.store import schema
from safd.store.schema import MIGRATIONS, SCHEMA_VERSION, Migration

PATH = Path("/where/s.db")
SECOND = Migration(
    name="a second one", statements=("ALTER TABLE conversations ADD COLUMN colour", "CREATE TABLE more (x)")
)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def _shape(connection: sqlite3.Connection) -> list:
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()


@pytest.mark.parametrize("start", range(SCHEMA_VERSION + 1))
def test_every_earlier_version_becomes_the_newest(connection: sqlite3.Connection, start: int) -> None:
    """From each version on, the same tables stand as in a new store, and each migration is recorded once, by name."""
    schema.migrate(connection, PATH, "then", MIGRATIONS[:start])
    assert schema.version(connection, PATH) == start
    schema.migrate(connection, PATH, "now")
    assert schema.version(connection, PATH) == SCHEMA_VERSION
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(fresh, PATH, "now")
    assert _shape(connection) == _shape(fresh)
    fresh.close()
    recorded = connection.execute("SELECT number, name FROM migrations ORDER BY number").fetchall()
    assert recorded == [(number, one.name) for number, one in enumerate(MIGRATIONS, start=1)]


def test_a_new_migration_finds_the_stored_rows_in_place(connection: sqlite3.Connection) -> None:
    """What was stored under the version before is there under the next."""
    schema.migrate(connection, PATH, "then")
    connection.execute("INSERT INTO conversations VALUES (1, 'conv_1', NULL, 0, 'root', NULL, NULL, 'then')")
    schema.migrate(connection, PATH, "now", (*MIGRATIONS, SECOND))
    assert connection.execute("SELECT id, colour FROM conversations").fetchall() == [("conv_1", None)]
    assert schema.version(connection, PATH) == SCHEMA_VERSION + 1


def test_a_migration_that_fails_leaves_no_trace(connection: sqlite3.Connection) -> None:
    """Its statements and the row that records it are one transaction; the ones before it stay."""
    broken = Migration(name="broken", statements=("CREATE TABLE half (x)", "CREATE TABLE half (x)"))
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection, PATH, "now", (*MIGRATIONS, SECOND, broken))
    assert not connection.in_transaction
    assert schema.version(connection, PATH) == SCHEMA_VERSION + 1
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []


def test_a_newer_store_is_refused(connection: sqlite3.Connection) -> None:
    """Both versions are named, and nothing is changed."""
    schema.migrate(connection, PATH, "now", (*MIGRATIONS, SECOND))
    before = _shape(connection)
    with pytest.raises(StoreNewer) as caught:
        schema.migrate(connection, PATH, "now")
    assert (caught.value.found, caught.value.known) == (SCHEMA_VERSION + 1, SCHEMA_VERSION)
    assert _shape(connection) == before


def test_another_programs_database_is_not_taken_over(connection: sqlite3.Connection) -> None:
    """A database without our mark in its header is refused, even if it has a table of migrations."""
    connection.execute("CREATE TABLE migrations (number)")
    with pytest.raises(StoreFailed, match="another program"):
        schema.migrate(connection, PATH, "now")


def test_names_of_migrations_are_distinct() -> None:
    """A name says one thing."""
    assert len({one.name for one in MIGRATIONS}) == len(MIGRATIONS)
