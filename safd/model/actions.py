"""What a caller may want to do, for the question whether it may."""

from enum import StrEnum


class Action(StrEnum):
    """OPEN: any caller whose principal is not refused; CREATE: the same, and it becomes the owner.

    READ and WRITE: on the conversation that the parameters name; ADMINISTER: root or the group saf-admin.
    """

    OPEN = "open"
    CREATE = "create"
    READ = "read"
    WRITE = "write"
    ADMINISTER = "administer"
