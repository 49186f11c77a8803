"""What befalls the daemon and its store, as causes: not now (`Unavailable`), or not as it was written (`Damaged`).

The families, and the causes that lie with a caller, stand in `safd.model.errors`.
"""

from typing import ClassVar

import attrs

from safd.model.errors import Damaged, Refused, Unavailable


@attrs.define(eq=False, kw_only=True)
class DiskFull(Unavailable):
    code: ClassVar[str] = "disk_full"
    path: str

    def __str__(self) -> str:
        return f"The store at {self.path} has no space left. Nothing was stored; free space, then send it again."


@attrs.define(eq=False, kw_only=True)
class StoreBusy(Unavailable):
    code: ClassVar[str] = "store_busy"
    retry_after_s: int = 1

    def __str__(self) -> str:
        return f"Too much is waiting to be stored. Nothing of this request was; try again in {self.retry_after_s} s."


@attrs.define(eq=False, kw_only=True)
class StoreFailed(Unavailable):
    code: ClassVar[str] = "store_failed"
    path: str
    reason: str

    def __str__(self) -> str:
        return f"The store at {self.path} failed: {self.reason}. Nothing of this request was stored."


@attrs.define(eq=False, kw_only=True)
class StoreNewer(Unavailable):
    code: ClassVar[str] = "store_newer"
    path: str
    found: int
    known: int

    def __str__(self) -> str:
        return (
            f"The store at {self.path} has schema {self.found}; this safd knows up to {self.known}. "
            "Run the newer safd, or restore a backup made before the upgrade."
        )


@attrs.define(eq=False, kw_only=True)
class StoreLocked(Unavailable):
    code: ClassVar[str] = "store_locked"
    path: str

    def __str__(self) -> str:
        return f"Another safd has the store at {self.path} open. A store has one daemon; stop the other first."


@attrs.define(eq=False, kw_only=True)
class StoreExists(Refused):
    code: ClassVar[str] = "store_exists"
    path: str

    def __str__(self) -> str:
        return f"There is already something at {self.path}, and it is not overwritten unasked. Name another path."


@attrs.define(eq=False, kw_only=True)
class Stopping(Unavailable):
    code: ClassVar[str] = "stopping"

    def __str__(self) -> str:
        return "safd is stopping. Connect again in a moment."


@attrs.define(eq=False, kw_only=True)
class Internal(Unavailable):
    """A fault of safd's own. The cause is in the daemon's log, not in the answer."""

    code: ClassVar[str] = "internal"

    def __str__(self) -> str:
        return "safd met a fault of its own and logged it. Nothing is known to be stored; report it with the log."


@attrs.define(eq=False, kw_only=True)
class RowUnreadable(Damaged):
    code: ClassVar[str] = "row_unreadable"
    conversation: str
    seq: int
    reason: str

    def __str__(self) -> str:
        return f"Message {self.seq} of {self.conversation} cannot be read: {self.reason}. Run safd check."


@attrs.define(eq=False, kw_only=True)
class ChainBroken(Damaged):
    code: ClassVar[str] = "chain_broken"
    conversation: str
    seq: int

    def __str__(self) -> str:
        return f"The hash chain of {self.conversation} breaks at message {self.seq}. The stored text was changed."
