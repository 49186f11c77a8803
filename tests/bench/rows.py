"""The rows: each measures safd and its floor by turns in one run, and yields their medians."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TypeAlias

import attrs

from tests.bench.generate import messages
from tests.bench.parts import ENVIRONMENT, Daemon, Load, append_params, daemon, floor_server, request

ROOMY = 1 << 27  # the largest answer a client reads: 128 MB


@attrs.frozen(kw_only=True)
class Size:
    """How much a run does. Rounds are what medians are taken over."""

    rounds: int
    requests: int
    appends: int
    record: int
    long_answers: int
    stored: int
    followers: int


FULL = Size(rounds=7, requests=2000, appends=600, record=10_000, long_answers=3, stored=20_000, followers=1000)
QUICK = Size(rounds=3, requests=500, appends=200, record=2_000, long_answers=2, stored=5_000, followers=200)


@attrs.frozen(kw_only=True)
class Row:
    """`ratio` is safd's median by the floor's; `span` the smallest and largest ratio of a round."""

    work: str
    unit: str
    floor: float
    safd: float
    ratio: float
    span: tuple[float, float]
    goal: str
    met: bool
    note: str


def row(
    work: str,
    unit: str,
    pairs: list[tuple[float, float]],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    note: str = "",
) -> Row:
    """`pairs` are (floor, safd) of each round."""
    floor, ours = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    ratios = [mine / theirs for theirs, mine in pairs]
    ratio = ours / floor
    goal = "-"
    met = True
    if at_most is not None:
        goal, met = f"at most {at_most:g}x", ratio <= at_most
    elif at_least is not None:
        goal, met = f"at least {at_least:g}x", ratio >= at_least
    span = (min(ratios), max(ratios))
    return Row(work=work, unit=unit, floor=floor, safd=ours, ratio=ratio, span=span, goal=goal, met=met, note=note)


@attrs.frozen(kw_only=True)
class Bench:
    folder: Path
    size: Size
    load: Load
    daemon: Daemon
    record: list[bytes]
    target: str


Rows: TypeAlias = Callable[[Bench], Iterator[Row]]


def observing(bench: Bench) -> Iterator[Row]:
    """`principal.observe` against an echo of the same bytes."""
    line = request("principal.observe", {})
    answer = bench.daemon.line("principal.observe", {})
    with floor_server(bench.folder / "observe", answer) as floor:
        one: list[tuple[float, float]] = []
        many: list[tuple[float, float]] = []
        for _ in range(bench.size.rounds):
            alone = [
                bench.load("one_by_one", path=path, lines=[line], count=bench.size.requests, largest=1 << 16)["p50"]
                for path in (floor, bench.daemon.socket)
            ]
            one.append((alone[0], alone[1]))
            crowd = [
                bench.load("side_by_side", path=path, lines=[[line]] * 16, count=bench.size.requests * 4)["per_second"]
                for path in (floor, bench.daemon.socket)
            ]
            many.append((crowd[0], crowd[1]))
    note = f"{len(line)} bytes asked, {len(answer)} answered"
    yield row("principal.observe, 1 client, p50", "us", one, at_most=3, note=f"floor: trio echo; {note}")
    yield row("principal.observe, 16 clients", "requests/s", many, at_least=0.35, note=f"floor: trio echo; {note}")


def appending(bench: Bench) -> Iterator[Row]:
    """Durable appends against single SQLite commits of the same messages on a grown WAL."""
    size, run = bench.size, bench.load
    texts = [text for text in bench.record if len(text) < 20_000][:256]
    names = [bench.daemon.conversation() for _ in range(64)]

    def lines(name: str, offset: int, each: int) -> list[bytes]:
        found = [texts[(offset + start) % len(texts)] for start in range(32 * each)]
        batches = [found[start : start + each] for start in range(0, len(found), each)]
        return [request("conversation.append", append_params(name, batch)) for batch in batches]

    single = lines(names[0], 0, 1)
    crowd = [lines(name, 4 * index, 1) for index, name in enumerate(names)]
    eights = [lines(name, 4 * index, 8) for index, name in enumerate(names)]
    floor = bench.folder / "floor.db"
    run("commits", path=floor, rows=texts, count=50)
    run("side_by_side", path=bench.daemon.socket, lines=crowd, count=1500)  # the daemon's WAL reaches its size
    walled = bench.daemon.wal_bytes()
    one: list[tuple[float, float]] = []
    many: list[tuple[float, float]] = []
    batch: list[tuple[float, float]] = []
    logs: set[float] = set()
    for _ in range(size.rounds):
        commit = run("commits", path=floor, rows=texts, count=size.appends)
        logs |= {commit["wal_before"], commit["wal_after"]}
        alone = run("one_by_one", path=bench.daemon.socket, lines=single, count=size.appends, largest=1 << 16)
        one.append((commit["p50"], alone["p50"]))
        appends = run("side_by_side", path=bench.daemon.socket, lines=crowd, count=size.appends * 8)["per_second"]
        many.append((commit["per_second"], appends))
        by_eight = run("side_by_side", path=bench.daemon.socket, lines=eights, count=size.appends * 2)["per_second"]
        batch.append((commit["per_second"], by_eight * 8))
    state = (
        f"WAL grown: floor {'..'.join(f'{log / 1e6:.1f}' for log in sorted(logs))} MB, "
        f"safd {walled / 1e6:.1f} MB before, {bench.daemon.wal_bytes() / 1e6:.1f} MB after"
    )
    yield row("durable append, 1 client, p50", "us", one, at_most=2, note=f"floor: one commit; {state}")
    yield row("durable append, 64 clients", "appends/s", many, at_least=3, note=f"floor: commits/s; {state}")
    yield row("the same, 8 messages an append", "messages/s", batch, at_least=9, note=f"floor: commits/s; {state}")


def replaying(bench: Bench) -> Iterator[Row]:
    """Replay of a long record: warm against sending those bytes, cold against loading and dumping the record."""
    size, run = bench.size, bench.load
    name = bench.daemon.conversation(bench.record)

    def replay(model: str) -> bytes:
        asked = {"conversation": name, "target": bench.target, "provider": "example", "model": model}
        return request("conversation.replay", asked | {"capabilities": {"vision": True}})

    asked = json.loads(replay("warm"))["params"]
    answer = bench.daemon.line("conversation.replay", asked)
    warm: list[tuple[float, float]] = []
    cold: list[tuple[float, float]] = []
    with floor_server(bench.folder / "replay", answer) as floor:
        for turn in range(size.rounds):
            paths = (floor, bench.daemon.socket)
            count = size.long_answers
            both = [
                run("one_by_one", path=path, lines=[replay("warm")], count=count, largest=ROOMY)["p50"]
                for path in paths
            ]
            warm.append((both[0], both[1]))
            loaded = run("load_and_dump", rows=bench.record)["p50"]
            # a model never asked for before: nothing is kept for it
            line = replay(f"cold-{turn}")
            cold.append(
                (loaded, run("one_by_one", path=bench.daemon.socket, lines=[line], count=1, largest=ROOMY)["p50"])
            )
    shape = f"{len(bench.record)} messages, {len(answer) / 1e6:.1f} MB answered, target {bench.target}"
    yield row("replay, warm", "us", warm, at_most=1.1, note=f"floor: bare trio send of the answer; {shape}")
    yield row("replay, cold", "us", cold, at_most=1.2, note=f"floor: orjson loads + dumps of the record; {shape}")
    yield from hydrating(bench, name)
    yield from resuming(bench, name)


def hydrating(bench: Bench, name: str) -> Iterator[Row]:
    asked = {"conversation": name, "limit": len(bench.record)}
    answer = bench.daemon.line("conversation.messages", asked)
    line = request("conversation.messages", asked)
    pairs: list[tuple[float, float]] = []
    with floor_server(bench.folder / "hydrate", answer) as floor:
        for _ in range(bench.size.rounds):
            both = [
                bench.load("one_by_one", path=path, lines=[line], count=bench.size.long_answers, largest=ROOMY)["p50"]
                for path in (floor, bench.daemon.socket)
            ]
            pairs.append((both[0], both[1]))
    shape = f"{len(bench.record)} messages, {len(answer) / 1e6:.1f} MB"
    yield row("hydration", "us", pairs, at_most=1.5, note=f"floor: bare trio send of the answer; {shape}")


def resuming(bench: Bench, long: str) -> Iterator[Row]:
    short = bench.daemon.conversation(bench.record[:100])
    texts = [b'{"role":"user","blocks":[{"type":"text","text":"next %d"}]}' % number for number in range(64)]
    pairs: list[tuple[float, float]] = []
    for _ in range(bench.size.rounds):
        both: list[float] = []
        for name in (short, long):
            asked = {"conversation": name, "target": bench.target, "provider": "example", "model": "warm"}
            asked |= {"capabilities": {"vision": True}, "since": "SINCE"}
            lines = [request("conversation.append", append_params(name, [text])) for text in texts]
            replay = request("conversation.replay", asked)
            took = bench.load("turns", path=bench.daemon.socket, append=lines, replay=replay, rounds=60)
            both.append(took["p50"])
        pairs.append((both[0], both[1]))
    note = f"floor: the same on 100 messages; {len(bench.record)} messages"
    yield row("append one + replay with since", "us", pairs, at_most=1.3, note=note)


def following(bench: Bench) -> Iterator[Row]:
    """From the writer's send to the last follower's read, against as many bare sends."""
    name = bench.daemon.conversation()
    count = bench.size.followers
    attach = request("conversation.attach", {"conversation": name})
    append = request("conversation.append", append_params(name, [bench.record[0]]))
    pairs: list[tuple[float, float]] = []
    for _ in range(bench.size.rounds):
        bare = bench.load("bare_sends", size=len(bench.record[0]) + 300, count=count, rounds=10)["p50"]
        fresh = bench.daemon.conversation()
        lines = {"attach": attach.replace(name.encode(), fresh.encode())}
        ours = bench.load(
            "followers",
            path=bench.daemon.socket,
            attach=lines["attach"],
            append=[append.replace(name.encode(), fresh.encode())],
            count=count,
            rounds=10,
        )["p50"]
        pairs.append((bare, ours))
    yield row(f"{count} followers, append to last read", "us", pairs, at_most=2, note=f"floor: {count} bare sends")


def starting(bench: Bench) -> Iterator[Row]:
    """Imports and starts, as whole processes."""
    rounds = bench.size.rounds + 4
    python = sys.executable
    imports = [
        (ran(python, "-c", "import trio"), ran(python, "-c", "import safd.cli, safd.daemon")) for _ in range(rounds)
    ]
    yield row("imports of the daemon", "ms", imports, at_most=1.3, note="floor: import trio, whole process")
    script = "from saf_client.__main__ import main; main()"  # what the installed command does
    versions = [(ran(python, "-c", "pass"), ran(python, "-c", script, "--version")) for _ in range(rounds)]
    yield row("saf --version", "ms", versions, at_most=4, note="floor: python -c pass")
    empty, full = bench.folder / "empty", bench.folder / "full"
    for folder in (empty, full):
        with daemon(folder) as here:
            stored = 0
            while folder == full and stored < bench.size.stored:
                part = list(messages(min(2000, bench.size.stored - stored), seed=stored))
                here.conversation(part)
                stored += len(part)
    pairs = [(started(empty), started(full)) for _ in range(bench.size.rounds)]
    yield row(
        "start, to the first answer", "ms", pairs, at_most=1.2, note=f"floor: none stored; {bench.size.stored} messages"
    )


def ran(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=os.environ | ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1e3


def started(folder: Path) -> float:
    start = time.perf_counter()
    with daemon(folder) as here:
        here.call("principal.observe", {})
        return (time.perf_counter() - start) * 1e3


GROUPS: dict[str, Rows] = {
    "observe": observing,
    "append": appending,
    "replay": replaying,
    "follow": following,
    "start": starting,
}
