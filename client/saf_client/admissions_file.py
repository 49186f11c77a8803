"""The text of an admission file, changed without losing what people wrote around it, and its atomic writing.

`saf admit` and `saf dismiss` run as root and write the file themselves: the daemon reads admissions and has no right to
write them. Each text is parsed by the daemon's own strict reader before it is written.
"""

import os
import secrets
from pathlib import Path

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from safd.model import spans
from safd.model.admissions import AccountAdmission, Admission, file_name, parse_admission
from safd.model.errors import TextNotUtf8, ValueNotAllowed
from safd.model.ids import Uid

_MODE = 0o644


def with_agent(text: str | None, *, uid: Uid, account: str, admission: Admission) -> str:
    """The file with this agent admitted, in place of what it said of the agent before.

    `text` None: there is no file yet. Raises a `Malformed` where the old text or the new one is no admission, or where
    the file is of another account.
    """
    path = file_name(uid)
    if text is None:
        document = tomlkit.document()
        document.add("uid", tomlkit.item(int(uid)))
        document.add("account", tomlkit.item(account))
        document.add("agents", tomlkit.table(is_super_table=True))
    else:
        held = parse_admission(text, path)
        if held.account != account:
            raise ValueNotAllowed(path=f"{path}: account", expected=repr(held.account), seen=repr(account))
        document = _document(text, path)
    agents = _agents(document, path)
    agents[admission.agent] = _table(admission)
    changed = tomlkit.dumps(document)
    parse_admission(changed, path)
    _must_be_utf8(changed, path)
    return changed


def without_agent(text: str, *, uid: Uid, agent: str) -> str | None:
    """The file without this agent; None where it was the last one, and the file goes.

    Raises a `Malformed` where the text is no admission, or does not admit the agent.
    """
    path = file_name(uid)
    held = parse_admission(text, path)
    if held.find(agent) is None:
        known = ", ".join(admission.agent for admission in held.agents) or "none"
        raise ValueNotAllowed(path=f"{path}: agents", expected=f"an admitted agent ({known})", seen=repr(agent))
    if len(held.agents) == 1:
        return None
    document = _document(text, path)
    del _agents(document, path)[agent]
    changed = tomlkit.dumps(document)
    parse_admission(changed, path)
    return changed


def read_text(folder: Path, uid: Uid) -> str | None:
    """The file as it is, None where there is none. Raises TextNotUtf8 and OSError."""
    path = folder / file_name(uid)
    try:
        return spans.decode_utf8(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None


def write(folder: Path, uid: Uid, text: str) -> AccountAdmission:
    """Put the text in place in one step that survives a power cut; a reader sees the old file or the new one.

    Raises a `Malformed` for a text that is no admission, and OSError.
    """
    admission = parse_admission(text, file_name(uid))
    target = folder / file_name(uid)
    waiting = folder / f".{file_name(uid)}.{secrets.token_hex(8)}"
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), _MODE)  # whatever the umask says
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(target)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise
    _sync_folder(folder)
    return admission


def remove(folder: Path, uid: Uid) -> None:
    """Take the file away, durably. Raises FileNotFoundError where there is none, and OSError."""
    (folder / file_name(uid)).unlink()
    _sync_folder(folder)


def _must_be_utf8(text: str, path: str) -> None:
    """What came from a command line may hold bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextNotUtf8(path=path, offset=len(text[: error.start].encode())) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _document(text: str, path: str) -> TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ValueNotAllowed(path=path, expected="a TOML text", seen=f"one with a fault ({error})") from error


def _agents(document: TOMLDocument, path: str) -> Table:
    agents = document["agents"]
    if not isinstance(agents, Table):
        raise ValueNotAllowed(path=f"{path}: agents", expected="written as [agents.NAME] tables", seen="another form")
    return agents


def _table(admission: Admission) -> Table:
    """Only what is stated: an absent key demands nothing."""
    table = tomlkit.table()
    table.add("mode", str(admission.mode))
    for key, value in (("node", admission.node), ("unit", admission.unit)):
        if value is not None:
            table.add(key, value)
    for key, names in (
        ("groups", admission.groups),
        ("readers", admission.readers or None),
        ("operators", admission.operators or None),
    ):
        if names is not None:
            table.add(key, list(names))
    for key, moment in (("not_before", admission.not_before), ("expires", admission.expires)):
        if moment is not None:
            table.add(key, tomlkit.item(moment))
    for key in ("no_new_privs", "seccomp", "pinned"):
        if getattr(admission, key):
            table.add(key, tomlkit.item(True))
    return table
