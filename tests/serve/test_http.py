"""HTTP without a socket: no bytes raise anything, and however they are cut they mean the same."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safd.api.methods import METHODS
from safd.model.errors import SafError
from safd.model.ids import Gid, Pid, Uid
from safd.principal.facts import Credentials
from safd.serve import http
from safd.serve.http import Asked, Face, GoOn, Page, Refused, Step, Wanted

SENDER = Credentials(pid=Pid(1), uid=Uid(1), gid=Gid(1))
POST = b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GOOD = POST + b'Content-Length: 13\r\n\r\n{"title":"x"}'
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def answered(parts: list[bytes]) -> tuple[list[Step], bytes]:
    """Everything that the bytes ask for, and all that is sent for it, as a connection would."""
    face = Face(1000)
    steps: list[Step] = []
    sent: list[bytes] = []
    for part in [*parts, b""]:
        if part:
            face.receive(part, SENDER)
        else:
            face.receive_end()
        while (step := face.next()) is not Wanted.BYTES:
            steps.append(step)
            match step:
                case Asked():
                    try:
                        http.given(step)
                        sent += face.answer(200, http.JSON, [b"{", b"}"])
                    except SafError as error:
                        sent += face.refuse(Refused(error))
                    goes_on = face.start_next()
                case Refused():
                    sent += face.refuse(step)
                    goes_on = step.whole and face.start_next()
                case GoOn(pieces=pieces):
                    sent += pieces
                    goes_on = True
                case _:
                    goes_on = step is Wanted.TURN
            if not goes_on:
                return steps, b"".join(sent)
    return steps, b"".join(sent)


def cut(raw: bytes, cuts: list[int]) -> list[bytes]:
    points = sorted({point % (len(raw) + 1) for point in cuts} | {0, len(raw)})
    return [raw[at:end] for at, end in pairwise(points) if end > at]


@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=4))
@example(b"GET", [])
@example(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [])
def test_any_bytes(raw: bytes, cuts: list[int]) -> None:
    """Whatever comes is a request, a refusal or an end: nothing is raised."""
    answered(cut(raw, cuts))


@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.binary(max_size=12), st.lists(st.integers(0, 400), max_size=4))
def test_damaged_requests(at: int, gone: int, put: bytes, cuts: list[int]) -> None:
    """A request with some bytes replaced, and a good one behind it, never raises; all answers are whole."""
    _, sent = answered(cut(GOOD[:at] + put + GOOD[at + gone :] + GOOD, cuts))
    assert not sent or sent.startswith(b"HTTP/1.1 ")


@given(
    st.lists(
        st.sampled_from(
            [
                GOOD,
                GOOD.replace(b'"x"', b"xxx"),
                GOOD.replace(b"/v1/", b"/v2/"),
                HEALTH,
            ]
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.integers(0, 900), max_size=6),
)
def test_cutting_changes_nothing(requests: list[bytes], cuts: list[int]) -> None:
    """Whole, split and glued bytes ask for the same and are answered the same."""
    raw = b"".join(requests)
    _, whole = answered([raw])
    _, pieces = answered(cut(raw, cuts))
    assert pieces == whole
    # a refused request with a body ends the connection, every other leaves it
    ended = next((n for n, one in enumerate(requests) if b"/v2/" in one), len(requests) - 1)
    assert whole.count(b"HTTP/1.1 ") == ended + 1


@pytest.mark.parametrize("method", [method for method in METHODS if method.route], ids=lambda method: method.name)
def test_every_route_leads_to_its_method(method: object) -> None:
    """Each path and verb of the table is found, with the parameters that stand in the path."""
    (found,) = [one for one in METHODS if one is method]
    assert found.route is not None
    names = [part[1:-1] for part in found.route.path.split("/") if part.startswith("{")]
    path = found.route.path
    for name in names:
        path = path.replace(f"{{{name}}}", f"the-{name}")
    (step,), _ = answered(
        [f"{found.route.verb} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()]
    )
    assert isinstance(step, Asked)
    assert step.target is found
    assert {word.path: word.text for word in step.words} == {name: f"the-{name}" for name in names}


def test_pages_are_no_methods() -> None:
    """The paths beside the table do not stand in it."""
    assert not {page.value for page in Page} & {method.route.path for method in METHODS if method.route}


def test_tiny_chunks_do_not_hold_the_loop() -> None:
    """A body in chunks of a byte is taken a stretch at a time, and is whole in the end."""
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    body = json.dumps({"title": "x" * 800}).encode()
    steps, _ = answered([head + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"])
    assert steps.count(Wanted.TURN) == len(body) // http.EVENTS
    (asked,) = [step for step in steps if isinstance(step, Asked)]
    assert asked.body == body
