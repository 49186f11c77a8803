"""Who may do what: a table over actions and relations."""

import pytest

from safd.model.actions import Action
from safd.model.ids import Uid
from safd.principal.access import Relation, may, may_any, relations

MAY: dict[Relation, set[Action]] = {
    Relation.OWNER: {Action.OPEN, Action.CREATE, Action.READ, Action.WRITE},
    Relation.OPERATOR: {Action.OPEN, Action.CREATE, Action.READ, Action.WRITE},
    Relation.READER: {Action.OPEN, Action.CREATE, Action.READ},
    Relation.ADMINISTRATOR: {Action.OPEN, Action.CREATE, Action.READ, Action.ADMINISTER},
    Relation.NONE: {Action.OPEN, Action.CREATE},
}


@pytest.mark.parametrize("relation", Relation)
def test_may(relation: Relation) -> None:
    """Each relation allows exactly this; an administrator looks and administers, and puts no words into a record."""
    assert {action for action in Action if may(action, relation)} == MAY[relation]


def test_several_relations_add_up() -> None:
    """An administrator who is also an operator may do what either may."""
    held = relations(Uid(7), owner=Uid(8), operator=True, reader=False, administrator=True)
    assert held == {Relation.OPERATOR, Relation.ADMINISTRATOR}
    assert {action for action in Action if may_any(action, held)} == set(Action)


def test_nobody_is_in_no_relation() -> None:
    """A stranger stands in none, and root always administers; owning goes by number alone."""
    assert relations(Uid(7), owner=Uid(8), operator=False, reader=False, administrator=False) == {Relation.NONE}
    assert relations(Uid(0), owner=Uid(8), operator=False, reader=False, administrator=False) == {
        Relation.ADMINISTRATOR
    }
    assert Relation.OWNER in relations(Uid(8), owner=Uid(8), operator=False, reader=False, administrator=False)
    assert relations(Uid(8), owner=None, operator=False, reader=False, administrator=False) == {Relation.NONE}
