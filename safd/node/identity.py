"""Which machine this is."""

import os
from pathlib import Path

from safd.model.principals import Node

_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_HEX_DIGITS = frozenset("0123456789abcdef")

UNIDENTIFIED = "none"
"""The id of a machine without a machine-id. No admission can name it, so none that names a node holds there."""


def read_node(files: tuple[Path, ...] = _MACHINE_ID_FILES) -> Node:
    """The machine-id, from the first file that holds one, and the host name."""
    for path in files:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) == 32 and set(text) <= _HEX_DIGITS:  # noqa: PLR2004 - machine-id(5): 32 hex digits
            return Node(id=text, name=os.uname().nodename)
    return Node(id=UNIDENTIFIED, name=os.uname().nodename)
