"""The documents: complete, closed under reference, and true to the codec and the door."""

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from safd.api import describe
from safd.api.faults import FAULTS
from safd.api.methods import METHODS
from safd.model import codec

OPENAPI = json.loads(describe.openapi())
OPENRPC = json.loads(describe.openrpc())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def resolved(document: Any, reference: str) -> Any:
    found = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


@pytest.mark.parametrize("document", [OPENAPI, OPENRPC], ids=["openapi", "openrpc"])
def test_every_reference_leads_somewhere(document: Any) -> None:
    """No schema is named that is not there, and none is there that says nothing."""
    found = set(references(document))
    assert found
    for reference in found:
        assert resolved(document, reference), reference


def test_every_route_is_there() -> None:
    """Each method with a route has its operation, and nothing else claims to be one."""
    operations = {
        operation["operationId"]: (verb.upper(), path)
        for path, verbs in OPENAPI["paths"].items()
        for verb, operation in verbs.items()
        if path.startswith("/v1/")
    }
    assert operations == {
        method.name: (method.route.verb, method.route.path) for method in METHODS if method.route is not None
    }


def test_every_method_is_there() -> None:
    """OpenRPC has each method once, with each of its parameters and which of them are needed."""
    assert [method["name"] for method in OPENRPC["methods"]] == [method.name for method in METHODS]
    for described, method in zip(OPENRPC["methods"], METHODS, strict=True):
        fields = attrs.fields(method.params)
        assert [(each["name"], each["required"]) for each in described["params"]] == [
            (field.name, field.default is attrs.NOTHING) for field in fields
        ]


def test_every_path_parameter_is_declared() -> None:
    """What stands in braces in a path is a required parameter of that path."""
    for path, verbs in OPENAPI["paths"].items():
        for operation in verbs.values():
            declared = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
            assert declared == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_every_error_is_there() -> None:
    """Both documents list every code with its number."""
    assert {each["code"]: (each["status"], each["number"]) for each in OPENAPI["x-errors"]} == {
        error.code: (fault.status, fault.number) for error, fault in FAULTS.items()
    }
    assert {code: each["code"] for code, each in OPENRPC["components"]["errors"].items()} == {
        error.code: fault.number for error, fault in FAULTS.items()
    }


def test_blocks_are_those_of_the_codec() -> None:
    """The schemas written by hand have the fields that the codec reads, no more and no fewer."""
    schemas = OPENAPI["components"]["schemas"]
    blocks = {each["properties"]["type"]["const"]: set(each["properties"]) for each in schemas["Block"]["oneOf"]}
    assert blocks == {kind: set(fields) for kind, fields in codec.BLOCK_FIELDS.items()}
    assert set(schemas["Message"]["properties"]) == set(codec.MESSAGE_FIELDS)
    assert set(schemas["StoredMessage"]["properties"]) == {*codec.MESSAGE_FIELDS, *codec.DAEMON_FIELDS}
