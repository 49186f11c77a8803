"""The name service through libc, with its three answers kept apart: found, not found, failed.

Python's `pwd` and `grp` report a failed backend as an unknown name, which would turn a broken directory into a missing
account. These calls block for as long as the backend does: they belong into a thread.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LIBC = ctypes.CDLL(None, use_errno=True)
_BUFFER_START = 4096
_BUFFER_LIMIT = 1 << 22
_NOT_FOUND = (0, errno.ENOENT, errno.ESRCH)


class _Passwd(ctypes.Structure):
    """`struct passwd` of libc on Linux."""


_Passwd._fields_ = [
    ("name", ctypes.c_char_p),
    ("password", ctypes.c_char_p),
    ("uid", ctypes.c_uint32),
    ("gid", ctypes.c_uint32),
    ("gecos", ctypes.c_char_p),
    ("home", ctypes.c_char_p),
    ("shell", ctypes.c_char_p),
]


class _Group(ctypes.Structure):
    """`struct group` of libc on Linux; its members are not asked for."""


_Group._fields_ = [
    ("name", ctypes.c_char_p),
    ("password", ctypes.c_char_p),
    ("gid", ctypes.c_uint32),
    ("members", ctypes.c_void_p),
]


def name_of_uid(uid: int) -> str | None:
    """The name of a uid, None where every backend says that there is none. Raises OSError where one failed."""
    entry = _Passwd()
    return _ask(_LIBC.getpwuid_r, ctypes.c_uint32(uid), entry, lambda: os.fsdecode(entry.name))


def uid_of_name(name: str) -> int | None:
    entry = _Passwd()
    return _ask(_LIBC.getpwnam_r, ctypes.c_char_p(os.fsencode(name)), entry, lambda: int(entry.uid))


def gid_of_name(name: str) -> int | None:
    entry = _Group()
    return _ask(_LIBC.getgrnam_r, ctypes.c_char_p(os.fsencode(name)), entry, lambda: int(entry.gid))


def _ask(
    call: Callable[..., int], key: ctypes.c_uint32 | ctypes.c_char_p, entry: ctypes.Structure, take: Callable[[], T]
) -> T | None:
    """`take` reads the entry while the buffer that its strings lie in still stands."""
    size = _BUFFER_START
    while True:
        buffer = ctypes.create_string_buffer(size)
        found = ctypes.c_void_p()
        code = call(key, ctypes.byref(entry), buffer, ctypes.c_size_t(size), ctypes.byref(found))
        if code == errno.ERANGE and size < _BUFFER_LIMIT:
            size *= 4
            continue
        if found.value is not None:
            return take()
        if code in _NOT_FOUND:
            return None
        raise OSError(code, os.strerror(code))
