"""Every match over our closed sets is exhaustive: a new member must fail type checking, not fall through."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import parsed, pure_sources, shown


def swallowing_arms(tree: ast.Module) -> Iterator[int]:
    """Lines of irrefutable arms that neither call assert_never nor stand under literals alone.

    Sound because our unions are made of classes and enum members: a match whose other arms are all literal
    values (characters, tags of foreign text, None) cannot be over one of them.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Match):
            continue
        last = node.cases[-1]
        if not irrefutable(last) or calls_assert_never(last):
            continue
        if not all(literal(case.pattern) for case in node.cases[:-1]):
            yield last.pattern.lineno


def irrefutable(case: ast.match_case) -> bool:
    return case.guard is None and catches_all(case.pattern)


def catches_all(pattern: ast.pattern) -> bool:
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return catches_all(inner)
        case ast.MatchOr(patterns=patterns):
            return any(catches_all(each) for each in patterns)
        case _:
            return False


def calls_assert_never(case: ast.match_case) -> bool:
    name = case.pattern.name if isinstance(case.pattern, ast.MatchAs) else None
    match case.body:
        case [ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"), args=[ast.Name(id=argument)]))]:
            return argument == name
        case _:
            return False


def literal(pattern: ast.pattern) -> bool:
    match pattern:
        case ast.MatchValue(value=ast.Constant()) | ast.MatchSingleton():
            return True
        case ast.MatchOr(patterns=patterns):
            return all(literal(each) for each in patterns)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return literal(inner)
        case _:
            return False


@pytest.mark.parametrize("path", pure_sources(), ids=shown)
def test_no_arm_swallows_a_member(path: Path) -> None:
    """In the pure rooms an irrefutable arm calls assert_never with what it caught."""
    assert list(swallowing_arms(parsed(path))) == []


@pytest.mark.parametrize(
    ("arms", "swallows"),
    [
        ("case Text(): pass\n    case _: pass", True),
        ("case Text(): pass\n    case other: print(other)", True),
        ("case Text(): pass\n    case Image() | _: pass", True),
        ("case Posture.DRIFTED: pass\n    case _: pass", True),
        ("case str(): pass\n    case _: pass", True),
        ("case Text(): pass\n    case _ as never: log(never)", True),
        ("case Text(): pass\n    case never: assert_never(other)", True),
        ("case Text(): pass\n    case _ as never: assert_never(never)", False),
        ("case Text(): pass\n    case never: assert_never(never)", False),
        ("case Text(): pass\n    case Image(): pass", False),
        ("case '{' | '[': pass\n    case None: pass\n    case _: pass", False),
    ],
)
def test_the_rule_itself(arms: str, swallows: bool) -> None:
    """The rule finds what it is for, and leaves characters alone."""
    found = list(swallowing_arms(ast.parse(f"match subject:\n    {arms}")))
    assert bool(found) is swallows
