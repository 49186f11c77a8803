"""The folder of admissions, opened the way sudo opens its rules: nothing counts that somebody else could have written.

One file per account, `UID.toml`, so that a request opens exactly one. Each time the path is walked from the root, every
folder on it checked by its own descriptor, then the file; it is parsed again only when its bytes changed, and only the
bytes decide that. A folder that is not there, in a parent that is safe, means that nobody is admitted.

A folder on the way may be world-writable if it is sticky, as /tmp is: then nobody but the owner can replace the entry
that is checked next.
"""

import errno
import os
import stat
from pathlib import Path
from typing import TypeAlias

from safd.model.admissions import (
    SIZE_LIMIT,
    SUFFIX,
    UIDS_REFUSED,
    AccountAdmission,
    Admission,
    file_name,
    parse_admission,
    uid_of_file,
)
from safd.model.errors import Malformed
from safd.model.ids import Uid
from safd.model.principals import Mode
from safd.principal.facts import (
    AdmissionFact,
    AdmissionInvalid,
    AdmissionTrouble,
    AdmissionUnreadable,
    AdmissionUnsafe,
    NoAdmission,
    Place,
)

_FOLDER = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PARSED_LIMIT = 1024
_READS = 3  # a file that changes under each of so many reads is not being administered, it is being played with
_ENTRIES_LIMIT = 65536

Found: TypeAlias = AccountAdmission | AdmissionTrouble


class AdmissionsDir:
    """`path` is resolved once, here; a link that appears on it later makes it unsafe.

    `owners` are the uids that may own the files and every folder above them: root, and in user mode the daemon's own.
    Blocking, but with system calls on local files only; for one task at a time.
    """

    def __init__(self, path: Path, owners: frozenset[int]) -> None:
        self.path = os.path.realpath(path)
        self._owners = owners
        self._components = [component for component in self.path.split("/") if component]
        self._parsed: dict[Uid, tuple[bytes, AccountAdmission | AdmissionInvalid]] = {}

    def read(self, uid: Uid) -> AdmissionFact:
        """The admission of this uid as it is now."""
        if uid in UIDS_REFUSED:
            return NoAdmission()
        folder = self._open_folder()
        if not isinstance(folder, int):
            return folder
        try:
            return self._read_file(folder, uid)
        finally:
            os.close(folder)

    def read_all(self) -> tuple[Found, ...]:
        """Every admission and every file that fails to be one, by uid; editors' copies and hidden files aside."""
        folder = self._open_folder()
        if isinstance(folder, NoAdmission):
            return ()
        if not isinstance(folder, int):
            return (folder,)
        try:
            return tuple(self._each(folder))
        finally:
            os.close(folder)

    def places_of(self, agent: str, besides: Uid, node_id: str) -> tuple[Place, ...]:
        """The other accounts that this agent is admitted to on this node, resident first, then by uid."""
        found: list[tuple[Admission, AccountAdmission]] = []
        for account in self.read_all():
            if isinstance(account, AccountAdmission) and account.uid != besides:
                admission = account.find(agent)
                if admission is not None and admission.node in (None, node_id):
                    found.append((admission, account))
        found.sort(key=lambda pair: (pair[0].mode is not Mode.RESIDENT, pair[1].uid))
        return tuple(
            Place(uid=account.uid, account=account.account, mode=admission.mode) for admission, account in found
        )

    def _each(self, folder: int) -> list[Found]:
        try:
            listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            try:
                names = os.listdir(listing)  # noqa: PTH208 - of the descriptor that was checked
            finally:
                os.close(listing)
        except OSError as error:
            return [AdmissionUnreadable(path=self.path, reason=_reason(error))]
        if len(names) > _ENTRIES_LIMIT:
            return [AdmissionUnreadable(path=self.path, reason=f"more than {_ENTRIES_LIMIT} entries")]
        found: list[Found] = []
        for name in sorted(names, key=lambda name: (len(name), name)):
            if name.startswith(".") or not name.endswith(SUFFIX):
                continue
            uid = uid_of_file(name)
            if uid is None:
                reason = "the name is not UID.toml of an account that may be admitted"
                found.append(AdmissionInvalid(path=f"{self.path}/{name}", reason=reason))
                continue
            fact = self._read_file(folder, uid)
            if not isinstance(fact, NoAdmission):  # removed since it was listed
                found.append(fact)
        return found

    # --- folders

    def _open_folder(self) -> int | NoAdmission | AdmissionTrouble:
        """A descriptor of the folder, every component checked on the way."""
        walked = "/"
        descriptor = os.open("/", _FOLDER)
        last = len(self._components) - 1
        for index, component in enumerate(("", *self._components)):
            if component:
                walked = f"{walked.rstrip('/')}/{component}"
                try:
                    below = os.open(component, _FOLDER, dir_fd=descriptor)
                except FileNotFoundError:
                    return NoAdmission()
                except OSError as error:
                    if error.errno in (errno.ENOTDIR, errno.ELOOP):
                        return AdmissionUnsafe(path=walked, reason="it is a link or no folder")
                    return AdmissionUnreadable(path=walked, reason=_reason(error))
                finally:
                    os.close(descriptor)
                descriptor = below
            wrong = self._wrong_folder(os.fstat(descriptor), final=index == last + 1)
            if wrong is not None:
                os.close(descriptor)
                return AdmissionUnsafe(path=walked, reason=wrong)
        return descriptor

    def _wrong_folder(self, found: os.stat_result, *, final: bool) -> str | None:
        if found.st_uid not in self._owners:
            return f"the folder belongs to uid {found.st_uid}"
        if found.st_mode & _OTHERS_WRITE and (final or not found.st_mode & stat.S_ISVTX):
            return f"others than its owner may write to the folder (mode {stat.S_IMODE(found.st_mode):04o})"
        return None

    # --- files

    def _read_file(self, folder: int, uid: Uid) -> AdmissionFact:
        path = f"{self.path}/{file_name(uid)}"
        for _ in range(_READS):
            try:
                descriptor = os.open(file_name(uid), _FILE, dir_fd=folder)
            except FileNotFoundError:
                return NoAdmission()
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    return AdmissionUnsafe(path=path, reason="it is a link or no regular file")
                return AdmissionUnreadable(path=path, reason=_reason(error))
            try:
                before = os.fstat(descriptor)
                wrong = self._wrong_file(before)
                if wrong is not None:
                    return AdmissionUnsafe(path=path, reason=wrong)
                if before.st_size > SIZE_LIMIT:
                    return AdmissionInvalid(path=path, reason=f"it is larger than {SIZE_LIMIT} bytes")
                body = os.read(descriptor, SIZE_LIMIT + 1)
                after = os.fstat(descriptor)
            except OSError as error:
                return AdmissionUnreadable(path=path, reason=_reason(error))
            finally:
                os.close(descriptor)
            if _same(before, after) and len(body) == before.st_size:
                return self._parse(uid, body, path)
        return AdmissionUnreadable(path=path, reason="it changed while it was read")

    def _wrong_file(self, found: os.stat_result) -> str | None:
        if not stat.S_ISREG(found.st_mode):
            return "it is no regular file"
        if found.st_uid not in self._owners:
            return f"it belongs to uid {found.st_uid}"
        if found.st_mode & _OTHERS_WRITE:
            return f"others than its owner may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
        if found.st_nlink != 1:
            return f"it has {found.st_nlink} names"
        return None

    def _parse(self, uid: Uid, body: bytes, path: str) -> AdmissionFact:
        """Pure in the bytes, so the result of the same bytes is kept; each file's last only, and a bounded number."""
        held = self._parsed.get(uid)
        if held is not None and held[0] == body:
            return held[1]
        parsed = _parsed(body, path)
        if held is None and len(self._parsed) >= _PARSED_LIMIT:
            self._parsed.pop(next(iter(self._parsed)))
        self._parsed[uid] = (body, parsed)
        return parsed


def _parsed(body: bytes, path: str) -> AccountAdmission | AdmissionInvalid:
    try:
        return parse_admission(body.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        return AdmissionInvalid(path=path, reason=f"it is not UTF-8 at byte {error.start}")
    except Malformed as error:
        return AdmissionInvalid(path=path, reason=str(error))


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    """Of one descriptor: the modification time can be set back, the change time cannot."""
    return (
        before.st_ctime_ns == after.st_ctime_ns
        and before.st_mtime_ns == after.st_mtime_ns
        and before.st_size == after.st_size
    )


def _reason(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))
