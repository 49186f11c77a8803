"""Strict JSON for judges: no NaN, no key twice, UTF-8 and nothing else."""

import json
from collections.abc import Iterator

from safd.model.spans import JsonValue


def loaded(raw: bytes) -> JsonValue:
    """ValueError where a strict reader would refuse."""
    value: JsonValue = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refused)
    return value


def _once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def strings(value: JsonValue) -> Iterator[str]:
    """Every string in a value, keys included."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from strings(item)
        case _:
            return
