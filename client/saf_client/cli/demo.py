"""`saf demo`: everything at once, on a private daemon that leaves nothing behind."""

import os
import pwd
import signal
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any, cast

import attrs
import click
from rich.text import Text

from saf_client import admissions_file, render, sync, wire
from saf_client.cli.app import stop_on
from saf_client.cli.asked import Asked, without_daemon
from saf_client.cli.printing import console, counted, heading, print_json, print_lines, print_text
from saf_client.cli.private_daemon import PrivateDaemon, private_daemon
from saf_client.cli.replay import print_explained
from safd.api.results import Replayed
from safd.model.admissions import UIDS_REFUSED, Admission
from safd.model.ids import ConversationId, Uid
from safd.model.principals import Mode
from safd.model.projections import Capabilities, StablePrefix, Target
from safd.model.spans import JsonValue

AGENT = "demo"
KEEP = 3
TARGETS: dict[Target, tuple[str, str, Capabilities]] = {
    Target.OPENAI_CHAT: ("openai", "gpt-demo-1", Capabilities()),
    Target.ANTHROPIC: ("anthropic", "claude-demo-1", Capabilities(vision=True, thinking=True)),
}
"""Each target as a caller would ask for it: the one cannot see, the other can, and thinks."""
HISTORY = ("messages", "input", "contents")
"""The member of a payload that holds what was said, whichever the target."""
CLEARED = "[Result cleared"
"""How the marker in place of a cleared result begins."""


@attrs.frozen(kw_only=True)
class Shown:
    """All that the demonstration shows."""

    conversation: ConversationId
    record: tuple[bytes, ...]
    replays: tuple[Replayed, ...]
    cleared: bytes
    after: Replayed


@click.command("demo")
@without_daemon
def demo_command(asked: Asked) -> None:
    """Play a conversation on a private daemon: record, payloads, repairs, principal, and what clearing does.

    It runs on a temporary store, as the account that you are, and leaves nothing running and nothing on disk.
    """
    stop_on(signal.SIGHUP)
    with private_daemon() as daemon:
        agent = _admit_myself(daemon)
        with sync.connect(str(daemon.socket), agent=agent) as client:
            shown = _play(client)
            if asked.as_json:
                print_json(_as_json(shown))
            else:
                _show(shown)


def _admit_myself(daemon: PrivateDaemon) -> str | None:
    """The agent `demo` borrows the person's account; root is nobody's account to borrow, and plays as itself."""
    uid = Uid(os.getuid())
    if uid in UIDS_REFUSED:
        return None
    try:
        account = pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
    admission = Admission(agent=AGENT, mode=Mode.BORROWED)
    text = admissions_file.with_agent(None, uid=uid, account=account, admission=admission)
    admissions_file.write(daemon.admissions, uid, text)
    return AGENT


def _lines() -> Sequence[str]:
    return resources.files("saf_client").joinpath("demo.jsonl").read_text(encoding="utf-8").splitlines()


def _play(client: sync.Client) -> Shown:
    made = client.create(title="Greenhouse two").conversation
    client.append(made.id, *_lines())
    replays = tuple(_replay(client, made.id, target) for target in TARGETS)
    cleared = client.microcompact(made.id, keep_recent=KEEP)
    return Shown(
        conversation=made.id,
        record=tuple(client.record(made.id)),
        replays=replays,
        cleared=wire.render_result(cleared),
        after=_replay(client, made.id, Target.ANTHROPIC, since=replays[-1].stable_prefix),
    )


def _replay(
    client: sync.Client, conversation: ConversationId, target: Target, *, since: StablePrefix | None = None
) -> Replayed:
    provider, model, capabilities = TARGETS[target]
    return client.replay(
        conversation,
        target,
        provider=provider,
        model=model,
        capabilities=capabilities,
        system="You tend the greenhouse.",
        since=since,
    )


def _as_json(shown: Shown) -> bytes:
    replays = b",".join(wire.render_result(replay) for replay in shown.replays)
    return b'{"conversation":"%b","record":[%b],"replays":[%b],"microcompact":%b,"replay_after":%b}' % (
        shown.conversation.encode(),
        b",".join(shown.record),
        replays,
        shown.cleared,
        wire.render_result(shown.after),
    )


def _show(shown: Shown) -> None:
    out = console()
    heading(f"1  The record: {len(shown.record)} messages, kept as they came")
    for raw in shown.record:
        print_lines([*render.message_lines(wire.stored_message(raw), out.width), ()])
    for number, replay in enumerate(shown.replays, 2):
        provider, model, capabilities = TARGETS[replay.target]
        sees = "sees images" if capabilities.vision else "sees no images"
        heading(f"{number}  The payload for {replay.target.value} ({provider}, {model}, {sees})")
        print_payload(replay.payload.text)
        out.print()
        print_explained(replay)
    number = len(shown.replays) + 2
    heading(f"{number}  Who is asking, as the model is told at every request")
    print_text(shown.replays[0].principal.text)
    heading(f"{number + 1}  Microcompact: only the {KEEP} newest tool results stay whole for the model")
    _show_cleared(shown)


def _show_cleared(shown: Shown) -> None:
    out = console()
    before, after = shown.replays[-1], shown.after
    reason = "the prefix still stands" if after.prefix_break is None else f"the prefix broke: {after.prefix_break}"
    count = len(cast("list[Any]", wire.decoded(shown.cleared)["cleared"]))
    print_text(f"{counted(count, 'result')} cleared; {reason}. The record did not change by a byte.")
    print_text(
        f"Payload: {len(before.payload.text):,} bytes before, {len(after.payload.text):,} after. In place of them:"
    )
    for line in payload_lines(after.payload.text):
        at = line.find(CLEARED)
        if at >= 0:
            out.print(Text(render.shortened(line[at:].partition("]")[0] + "]", out.width)), soft_wrap=True)
    out.print()
    print_text(
        "Nothing is left running, and nothing on disk.\n"
        "Begin with `safd serve` in one terminal and `saf append new --text hello` in another."
    )


def print_payload(payload: bytes) -> None:
    out = console()
    for line in payload_lines(payload):
        out.print(Text(render.shortened(line, out.width)), soft_wrap=True)


def payload_lines(payload: bytes) -> Iterator[str]:
    """A payload of any target, a line for each part of each message."""
    found = cast("dict[str, Any]", wire.decoded(payload))
    for name, value in found.items():
        if name not in HISTORY:
            yield from _parts(name, value)
            continue
        for message in cast("list[dict[str, Any]]", value):
            role = str(message.get("role", message.get("type", "-")))
            for key, part in message.items():
                if key != "role":
                    yield from _parts(f"{role:<9} {key}", part)


def _parts(name: str, value: JsonValue) -> Iterator[str]:
    for part in value if isinstance(value, list) else [value]:
        yield render.one_line(f"{name}: {part if isinstance(part, str) else wire.json_text(part)}")
