"""The administrator's record that agents may run under one Unix account: its types, and the strict way from its text.

One file per account, named by the uid (`1001.toml`):

    uid = 1001
    account = "annie"

    [agents.annie]
    mode = "resident"                          # or "borrowed"
    node = "3f0c...32 hex digits"              # this machine-id only
    unit = "saf-agent@annie.service"           # where its process must be placed
    groups = ["annie", "video"]                # every group that its process holds, by name or by number
    readers = ["casey", "@staff"]              # accounts, and groups behind an @
    operators = ["casey"]
    not_before = 2026-01-01T00:00:00Z
    expires = 2027-01-01T00:00:00Z
    no_new_privs = true
    seccomp = true
    pinned = true

`mode` alone is required. What is not stated is not demanded. Anything unknown, of another type or said twice makes the
whole file invalid: half an admission is none.
"""

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import TypeAlias

import attrs

from safd.model.errors import FieldMissing, FieldType, FieldUnknown, Malformed, ValueNotAllowed
from safd.model.ids import Uid
from safd.model.principals import Mode

UID_OVERFLOW = 65534
UID_NONE = 4294967295
UIDS_REFUSED = frozenset({0, UID_OVERFLOW, UID_NONE})
"""root is no agent's account; 65534 stands for every uid that a namespace does not map; 4294967295 means none."""

SUFFIX = ".toml"
SIZE_LIMIT = 64 * 1024
"""Bytes: a thousand agents of one account fit, a mistake does not."""

TomlValue: TypeAlias = "str | int | float | bool | date | time | list[TomlValue] | dict[str, TomlValue]"

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}\Z")
_NAME = re.compile(r"[^\s:,/@\x00-\x1f\x7f][^\s:,/\x00-\x1f\x7f]{0,63}\Z")
_LISTED = re.compile(r"@?[^\s:,/@\x00-\x1f\x7f][^\s:,/\x00-\x1f\x7f]{0,63}\Z")
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.(?:service|scope)\Z")
_MACHINE_ID = re.compile(r"[0-9a-f]{32}\Z")


@attrs.frozen(kw_only=True)
class Admission:
    """One agent of an account. `groups` None: not stated; the last three are demands, off unless stated."""

    agent: str
    mode: Mode
    node: str | None = None
    unit: str | None = None
    groups: tuple[str | int, ...] | None = None
    readers: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    not_before: datetime | None = None
    expires: datetime | None = None
    no_new_privs: bool = False
    seccomp: bool = False
    pinned: bool = False


@attrs.frozen(kw_only=True)
class AccountAdmission:
    uid: Uid
    account: str
    agents: tuple[Admission, ...]

    def find(self, agent: str) -> Admission | None:
        for admission in self.agents:
            if admission.agent == agent:
                return admission
        return None


def file_name(uid: int) -> str:
    return f"{uid}{SUFFIX}"


def uid_of_file(name: str) -> Uid | None:
    """The uid that a file of this name may speak for; None where the name is not `UID.toml` in plain decimal."""
    number = name.removesuffix(SUFFIX)
    if number == name or not number.isascii() or not number.isdecimal() or len(number) > len(str(UID_NONE)):
        return None
    uid = int(number)
    return Uid(uid) if name == file_name(uid) and uid not in UIDS_REFUSED and uid < UID_NONE else None


def agent_name(text: str, path: str) -> str:
    """An agent's name as admissions may hold it: 1 to 64 letters, digits, `_ . @ -`, a letter or digit first."""
    if _AGENT.match(text) is None:
        expected = "1 to 64 letters, digits or _ . @ -, beginning with a letter or digit"
        raise ValueNotAllowed(path=path, expected=expected, seen=repr(text[:80]))
    return text


def parse_admission(text: str, path: str) -> AccountAdmission:
    """The types of one admission file. `path` ends in its name, which must be its uid.

    Raises a `Malformed` whose path is the file and the key inside it.
    """
    name = path.rpartition("/")[2]
    named = uid_of_file(name)
    if named is None:
        expected = "named UID.toml after an account's uid, and not after 0, 65534 or 4294967295"
        raise ValueNotAllowed(path=path, expected=expected, seen=repr(name))
    top = _Table(path=path, place="", values=_toml(text, path))
    top.only("uid", "account", "agents")
    uid = top.number("uid")
    if uid != named:
        raise ValueNotAllowed(path=top.at("uid"), expected=f"{named}, as the file is named", seen=str(uid))
    account = top.text("account")
    if _NAME.match(account) is None:
        raise ValueNotAllowed(path=top.at("account"), expected="an account's name", seen=repr(account[:80]))
    agents = top.table("agents")
    return AccountAdmission(
        uid=named,
        account=account,
        agents=tuple(_parse_agent(agents.table(agent), agent) for agent in agents.values),
    )


def _toml(text: str, path: str) -> Mapping[str, TomlValue]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueNotAllowed(path=path, expected="a flat TOML text", seen="one that nests without end") from error
    except ValueError as error:  # TOMLDecodeError is one; numbers beyond Python's limit raise the plain one
        raise ValueNotAllowed(path=path, expected="a TOML text", seen=f"one with a fault ({error})") from error


def _parse_agent(table: "_Table", agent: str) -> Admission:
    agent_name(agent, f"{table.path}: {table.place}")
    table.only(*(field.name for field in attrs.fields(Admission) if field.name != "agent"))
    mode = table.text("mode")
    if mode not in (Mode.RESIDENT, Mode.BORROWED):
        raise ValueNotAllowed(path=table.at("mode"), expected='"resident" or "borrowed"', seen=repr(mode[:80]))
    not_before, expires = table.moment("not_before"), table.moment("expires")
    if not_before is not None and expires is not None and expires <= not_before:
        raise ValueNotAllowed(path=table.at("expires"), expected="later than not_before", seen=expires.isoformat())
    return Admission(
        agent=agent,
        mode=Mode(mode),
        node=table.matching("node", _MACHINE_ID, "a machine-id of 32 lowercase hex digits"),
        unit=table.matching("unit", _UNIT, "the full name of a service or scope, such as saf-agent@annie.service"),
        groups=table.groups("groups"),
        readers=table.names("readers"),
        operators=table.names("operators"),
        not_before=not_before,
        expires=expires,
        no_new_privs=table.flag("no_new_privs"),
        seccomp=table.flag("seccomp"),
        pinned=table.flag("pinned"),
    )


@attrs.frozen(kw_only=True)
class _Table:
    """A TOML table while it is checked: every refusal names the file and the key."""

    path: str
    place: str
    values: Mapping[str, TomlValue]

    def at(self, key: str) -> str:
        return f"{self.path}: {self.place}.{key}" if self.place else f"{self.path}: {key}"

    def wrong(self, key: str, expected: str, seen: TomlValue) -> Malformed:
        return FieldType(path=self.at(key), expected=expected, seen=type(seen).__name__)

    def only(self, *allowed: str) -> None:
        for key in self.values:
            if key not in allowed:
                raise FieldUnknown(path=self.at(key), allowed=allowed)

    def required(self, key: str) -> TomlValue:
        if key not in self.values:
            raise FieldMissing(path=self.at(key))
        return self.values[key]

    def number(self, key: str) -> int:
        value = self.required(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, "an integer", value)
        return value

    def text(self, key: str) -> str:
        value = self.required(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a string", value)
        return value

    def table(self, key: str) -> "_Table":
        value = self.required(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "a table", value)
        place = f"{self.place}.{key}" if self.place else key
        return _Table(path=self.path, place=place, values=value)

    def matching(self, key: str, form: re.Pattern[str], expected: str) -> str | None:
        if key not in self.values:
            return None
        value = self.text(key)
        if form.match(value) is None:
            raise ValueNotAllowed(path=self.at(key), expected=expected, seen=repr(value[:80]))
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def moment(self, key: str) -> datetime | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise self.wrong(key, "a date and time with an offset, such as 2027-01-01T00:00:00Z", value)
        return value

    def entries(self, key: str) -> tuple[TomlValue, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, "a list", value)
        return tuple(value)

    def names(self, key: str) -> tuple[str, ...]:
        found: list[str] = []
        for index, entry in enumerate(self.entries(key)):
            place = f"{key}[{index}]"
            if not isinstance(entry, str):
                raise self.wrong(place, "a string", entry)
            if _LISTED.match(entry) is None:
                expected = "an account's name, or a group's name behind an @"
                raise ValueNotAllowed(path=self.at(place), expected=expected, seen=repr(entry[:80]))
            found.append(entry)
        return tuple(found)

    def groups(self, key: str) -> tuple[str | int, ...] | None:
        if key not in self.values:
            return None
        found: list[str | int] = []
        for index, entry in enumerate(self.entries(key)):
            place = f"{key}[{index}]"
            if not isinstance(entry, str | int) or isinstance(entry, bool):
                raise self.wrong(place, "a group's name or its number", entry)
            if isinstance(entry, str) and _NAME.match(entry) is None:
                raise ValueNotAllowed(path=self.at(place), expected="a group's name", seen=repr(entry[:80]))
            if isinstance(entry, int) and not 0 <= entry < UID_NONE:
                raise ValueNotAllowed(path=self.at(place), expected="a group's number", seen=str(entry))
            found.append(entry)
        return tuple(found)
