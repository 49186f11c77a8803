"""The contract as documents, made from the method table and its types: OpenAPI 3.1 over HTTP, OpenRPC over lines.

Schemas are JSON Schema 2020-12. What has another shape on the wire than in Python (blocks, messages, marks) is
written down here, and a test holds it against the codec.
"""

from collections.abc import Callable
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, NewType, TypeAlias, Union, get_args, get_origin

import attrs

from safd import __version__
from safd.api import params, results
from safd.api.door import COUNT_LIMIT
from safd.api.events import GAP, MARK, MESSAGE_EVENTS, TURN
from safd.api.faults import FAULTS
from safd.api.methods import METHODS, Method
from safd.model import codec, ids
from safd.model.blocks import Block
from safd.model.marks import Mark
from safd.model.messages import Role
from safd.model.principals import Posture
from safd.model.spans import JsonObject, JsonValue

Schema: TypeAlias = JsonObject

_COMPONENTS = "#/components/schemas/"
_UUID7 = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_PREFIXES: dict[str, str] = {
    "ConversationId": ids.CONVERSATION,
    "MessageId": ids.MESSAGE,
    "MarkId": ids.MARK,
    "TurnId": ids.TURN,
}
_SPLICED = ("RawJson", "JsonText")
"""Types whose text is somebody else's: their members are not ours to describe."""
_STRING: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": COUNT_LIMIT}
_OBJECT: Schema = {"type": "object"}
_PROBLEM_REF: Schema = {"$ref": f"{_COMPONENTS}Problem"}


@cache
def openapi() -> bytes:
    """OpenAPI 3.1: every route, and the pages beside them."""
    schemas = _Schemas()
    paths: dict[str, JsonValue] = {}
    for method in METHODS:
        if method.route is not None:
            verbs = paths.setdefault(method.route.path, {})
            if isinstance(verbs, dict):
                verbs[method.route.verb.lower()] = _operation(method, schemas)
    for path, (summary, kind) in _PAGES.items():
        paths[path] = {
            "get": {
                "operationId": path.strip("/") or "root",
                "summary": summary,
                "responses": {"200": {"description": summary, "content": {kind: {"schema": _STRING}}}},
            }
        }
    return codec.dump(
        {
            "openapi": "3.1.0",
            "info": _info(),
            "servers": [{"url": "http://localhost", "description": "over safd's Unix socket"}],
            "paths": paths,
            "components": {"schemas": schemas.found()},
            "x-errors": _errors(),
        }
    )


@cache
def openrpc() -> bytes:
    """OpenRPC 1.3: every method of the table."""
    schemas = _Schemas()
    methods: list[JsonValue] = [
        {
            "name": method.name,
            "summary": method.summary,
            "paramStructure": "by-name",
            "params": [
                {"name": field.name, "required": _is_required(field), "schema": schemas.of(field.type)}
                for field in _fields(method.params)
            ],
            "result": {"name": "result", "schema": schemas.of(method.result)},
        }
        for method in METHODS
    ]
    return codec.dump(
        {
            "openrpc": "1.3.2",
            "info": _info(),
            "methods": methods,
            "components": {
                "schemas": schemas.found(),
                "errors": {
                    error.code: {"code": fault.number, "message": fault.title, "data": {"code": error.code}}
                    for error, fault in FAULTS.items()
                },
            },
        }
    )


_PAGES: dict[str, tuple[str, str]] = {
    "/": ("What this is", "text/plain"),
    "/healthz": ("Whether the daemon answers", "text/plain"),
    "/metrics": ("Numbers for Prometheus; administrators only", "text/plain"),
    "/openapi.json": ("This document", "application/json"),
}


def _info() -> Schema:
    return {
        "title": "safd",
        "version": __version__,
        "description": "The conversation record of this node's agents, and the runtime principal of each request.",
    }


def _errors() -> list[JsonValue]:
    return [
        {"code": error.code, "status": fault.status, "number": fault.number, "title": fault.title, "retry": fault.retry}
        for error, fault in FAULTS.items()
    ]


def _operation(method: Method, schemas: "_Schemas") -> Schema:
    route = method.route
    if route is None:
        raise AssertionError("a method without a route has no operation")
    in_path = [field for field in _fields(method.params) if f"{{{field.name}}}" in route.path]
    others = [field for field in _fields(method.params) if field not in in_path]
    parameters: list[JsonValue] = [
        {"name": field.name, "in": "path", "required": True, "schema": schemas.of(field.type)} for field in in_path
    ]
    parameters.append({"name": "X-Saf-Agent", "in": "header", "required": False, "schema": _STRING})
    if method.streams:
        parameters.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": _COUNT})
    operation: Schema = {"operationId": method.name, "summary": method.summary, "parameters": parameters}
    if route.verb == "GET":
        parameters.extend(
            {"name": field.name, "in": "query", "required": _is_required(field), "schema": schemas.of(field.type)}
            for field in others
        )
    elif others:
        operation["requestBody"] = {
            "required": any(map(_is_required, others)),
            "content": {"application/json": {"schema": _object(others, schemas, closed=True)}},
        }
    operation["responses"] = {
        "200": _answered(method, schemas),
        "default": {
            "description": "Refused or failed; `code` says why",
            "content": {"application/problem+json": {"schema": _PROBLEM_REF}},
        },
    }
    return operation


def _answered(method: Method, schemas: "_Schemas") -> Schema:
    if method.streams:
        names = ", ".join((*MESSAGE_EVENTS, TURN, MARK, GAP))
        return {"description": f"Events: {names}", "content": {"text/event-stream": {"schema": _STRING}}}
    return {"description": "Done", "content": {"application/json": {"schema": schemas.of(method.result)}}}


# --- types to schemas


def _fields(cls: type[attrs.AttrsInstance]) -> tuple["attrs.Attribute[object]", ...]:
    return tuple(attrs.fields(attrs.resolve_types(cls)))


def _is_required(field: "attrs.Attribute[object]") -> bool:
    return field.default is attrs.NOTHING


def _object(given: "list[attrs.Attribute[object]]", schemas: "_Schemas", *, closed: bool) -> Schema:
    """`closed`: what a caller sends, where unknown members are refused and a default may be left out."""
    found: Schema = {
        "type": "object",
        "properties": {field.name: schemas.of(field.type) for field in given},
        "required": [field.name for field in given if not closed or _is_required(field)],
    }
    if closed:
        found["additionalProperties"] = False
    return found


@attrs.define
class _Schemas:
    """Schemas by name, as far as they were asked for; a name stands before its own parts are looked at."""

    _found: dict[str, Schema] = attrs.field(factory=dict[str, Schema])

    def found(self) -> Schema:
        self._component("Problem", _problem)
        return dict(sorted(self._found.items()))

    def of(self, declared: Any) -> Schema:
        """The schema of a type that stands in parameters or results."""
        if isinstance(declared, NewType):
            return self._named(declared)
        if declared == Block:
            return self._component("Block", _block)
        if declared == Mark:
            return self._component("Mark", self._mark)
        origin: object = get_origin(declared)
        if origin is tuple:
            return {"type": "array", "items": self.of(get_args(declared)[0])}
        if origin is Union or origin is UnionType:
            return {"anyOf": [self.of(option) for option in get_args(declared)]}
        if declared in _PLAIN:
            return _PLAIN[declared]
        return self._class(declared)

    def _named(self, declared: NewType) -> Schema:
        if declared.__name__ == "OfferedText":
            return self._component("Message", self._message)
        if declared.__name__ in _SPLICED:
            return _OBJECT
        prefix = _PREFIXES.get(declared.__name__)
        if prefix is not None:
            return self._component(declared.__name__, lambda: {"type": "string", "pattern": f"^{prefix}_{_UUID7}$"})
        return self.of(declared.__supertype__)

    def _class(self, declared: Any) -> Schema:
        if issubclass(declared, Enum):
            return self._component(
                declared.__name__, lambda: {"type": "string", "enum": [member.value for member in declared]}
            )
        suffix = "Params" if declared in get_args(params.Params) else "Result" if declared in _RESULTS else ""
        closed = declared.__module__ in _SENT
        return self._component(
            declared.__name__ + suffix,
            lambda: self._members(declared, _object(list(_fields(declared)), self, closed=closed)),
        )

    def _members(self, declared: Any, made: Schema) -> Schema:
        """`data` of a page is what was stored; a row that cannot be read says so in its place."""
        if declared is results.Messages and isinstance(made["properties"], dict):
            stored = self._component("StoredMessage", self._stored)
            made["properties"]["data"] = {"type": "array", "items": {"anyOf": [stored, _DAMAGED]}}
        return made

    def _component(self, name: str, make: Callable[[], Schema]) -> Schema:
        if name not in self._found:
            self._found[name] = {}
            self._found[name] = make()
        return {"$ref": _COMPONENTS + name}

    def _message(self) -> Schema:
        return {
            "type": "object",
            "properties": self._message_members(),
            "required": ["role", "blocks"],
            "additionalProperties": False,
        }

    def _message_members(self) -> Schema:
        return {
            "role": self.of(Role),
            "blocks": {"type": "array", "items": self.of(Block)},
            "usage": {"type": "object", "properties": dict.fromkeys(codec.USAGE_FIELDS, _COUNT)},
            "model": _STRING,
            "provider": _STRING,
            "timestamp": {"type": ["string", "number"]},
            "metadata": _OBJECT,
        }

    def _stored(self) -> Schema:
        return {
            "type": "object",
            "properties": {
                "id": self.of(ids.MessageId),
                "seq": _COUNT,
                "recorded_at": {"type": "string", "format": "date-time"},
                "writer": {
                    "type": "object",
                    "properties": {"uid": _COUNT, "agent": {"type": ["string", "null"]}, "posture": self.of(Posture)},
                    "required": ["uid", "agent", "posture"],
                },
                "prev_hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                **self._message_members(),
            },
            "required": [*codec.DAEMON_FIELDS, "role", "blocks"],
        }

    def _mark(self) -> Schema:
        kinds: list[JsonValue] = []
        for kind in get_args(Mark):
            made = _object(list(_fields(kind)), self, closed=False)
            if isinstance(made["properties"], dict) and isinstance(made["required"], list):
                made["properties"] = {"type": {"const": kind.__name__.lower()}, **made["properties"]}
                made["required"] = ["type", *made["required"]]
            kinds.append(made)
        return {"oneOf": kinds}


_PLAIN: dict[object, Schema] = {
    str: _STRING,
    int: _COUNT,
    bool: {"type": "boolean"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    results.Spliced: _OBJECT,
}
_SENT = {"safd.api.params", "safd.model.projections"}
_RESULTS = get_args(results.Result)
_DAMAGED: Schema = {
    "type": "object",
    "properties": {"seq": _COUNT, "damaged": {"type": "string"}},
    "required": ["seq", "damaged"],
}


def _problem() -> Schema:
    return {
        "type": "object",
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": _STRING,
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": [error.code for error in FAULTS]},
            "detail": _STRING,
        },
        "required": ["type", "title", "status", "code", "detail"],
    }


def _block() -> Schema:
    text = _tagged("text", {"text": _STRING}, ["text"])
    image = _tagged("image", {"media_type": _STRING, "data": _STRING, "url": _STRING}, [])
    reasoning = _tagged(
        "reasoning",
        dict.fromkeys(codec.BLOCK_FIELDS["reasoning"][1:], _STRING),
        ["reasoning"],
    )
    tool_use = _tagged(
        "tool_use",
        {"id": _STRING, "name": _STRING, "input": {"type": ["object", "string"]}, "signature": _STRING},
        ["id", "name", "input"],
    )
    tool_result = _tagged(
        "tool_result",
        {
            "tool_use_id": _STRING,
            "tool_name": _STRING,
            "output": {"anyOf": [_STRING, {"type": "array", "items": {"anyOf": [text, image]}}]},
            "is_error": {"type": "boolean"},
        },
        ["tool_use_id", "output"],
    )
    return {"oneOf": [text, reasoning, tool_use, tool_result, image]}


def _tagged(kind: str, members: Schema, required: list[JsonValue]) -> Schema:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **members},
        "required": ["type", *required],
        "additionalProperties": False,
    }
