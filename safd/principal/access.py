"""May this caller do this? Decided by uid and groups alone; what its posture is, is another question.

The owner and the operators read and write. Readers read. An administrator (root, or a member of `saf-admin`) reads and
administers, so that whoever answers for the node can look at what stands on it; but words in somebody else's
conversation are put there by its owner and operators only. One caller may stand in several relations at once.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never

from safd.model.actions import Action
from safd.model.ids import Uid

ADMINISTRATORS = "saf-admin"
"""The group whose members administer the node, beside root."""


class Relation(StrEnum):
    OWNER = "owner"
    OPERATOR = "operator"
    READER = "reader"
    ADMINISTRATOR = "administrator"
    NONE = "none"


_READS = frozenset({Relation.OWNER, Relation.OPERATOR, Relation.READER, Relation.ADMINISTRATOR})
_WRITES = frozenset({Relation.OWNER, Relation.OPERATOR})


def relations(uid: Uid, *, owner: Uid | None, operator: bool, reader: bool, administrator: bool) -> frozenset[Relation]:
    """`owner` None: the question is not about a conversation. root is always an administrator."""
    held = {
        Relation.OWNER: owner is not None and uid == owner,
        Relation.OPERATOR: operator,
        Relation.READER: reader,
        Relation.ADMINISTRATOR: administrator or uid == 0,
    }
    return frozenset(relation for relation, holds in held.items() if holds) or frozenset({Relation.NONE})


def may(action: Action, relation: Relation) -> bool:
    match action:
        case Action.OPEN | Action.CREATE:
            return True
        case Action.READ:
            return relation in _READS
        case Action.WRITE:
            return relation in _WRITES
        case Action.ADMINISTER:
            return relation is Relation.ADMINISTRATOR
        case _ as never:
            assert_never(never)


def may_any(action: Action, held: Iterable[Relation]) -> bool:
    return any(may(action, relation) for relation in held)
