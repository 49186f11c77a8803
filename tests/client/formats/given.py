"""Invented Claude Code lines: every shape that real session files were seen to hold, in small."""

import json
from collections.abc import Sequence
from typing import Any

from saf_client.formats import claude_code
from saf_client.formats.detect import NotUnderstood, read_transcript
from saf_client.formats.lines import Line, read_lines
from saf_client.formats.transcript import Said, Thread, Transcript
from safd.model.blocks import Block

SESSION = "0b6f6f1c-3f5e-4c39-9d3c-6a9f6f2f0c11"
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlciBhbG9uZQ=="
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

Value = dict[str, Any]


def line(kind: str, uuid: str | None, parent: str | None = None, **more: object) -> Value:
    """A line with what this program writes on each."""
    found: Value = {"parentUuid": parent, "isSidechain": False, "type": kind, "uuid": uuid, "sessionId": SESSION}
    if uuid is None:
        del found["uuid"], found["parentUuid"]
    return found | {"timestamp": "2026-11-30T07:00:00.000Z", "version": "2.1.39", "cwd": "/srv/glass"} | more


def user(uuid: str, content: object, parent: str | None = None, **more: object) -> Value:
    return line("user", uuid, parent, userType="external", message={"role": "user", "content": content}, **more)


def reply(uuid: str, message_id: str, *blocks: Value, parent: str | None = None, **more: object) -> Value:
    """One line of a model's reply: usually one block of it."""
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-demo-1",
        "content": list(blocks),
        "stop_reason": None,
        "usage": {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3},
    }
    given = more.pop("message", {})
    assert isinstance(given, dict)
    return line("assistant", uuid, parent, requestId="req_1", message=message | given, **more)


def text(said: str) -> Value:
    return {"type": "text", "text": said}


def call(id_: str, name: str = "Bash", **arguments: object) -> Value:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments, "caller": {"type": "direct"}}


def result(id_: str, content: object = "done", **more: object) -> Value:
    return {"type": "tool_result", "tool_use_id": id_, "content": content} | more


def thinking(said: str = "Let me see.", signature: str | None = SIGNATURE) -> Value:
    return {"type": "thinking", "thinking": said} | ({} if signature is None else {"signature": signature})


def image() -> Value:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def written(lines: Sequence[Value | bytes]) -> bytes:
    """The file. What is bytes stands as it is, without a line end of ours."""
    return b"".join(
        one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in lines
    )


def transcript(*lines: Value | bytes, source: str = "/home/casey/session.jsonl") -> Transcript:
    """The file as Claude Code's, whatever the sniffing says."""
    return claude_code.read(list(read_lines(written(lines))), source)


def understood(content: bytes, source: str = "/home/casey/file.jsonl") -> Transcript:
    found = read_transcript(content, source)
    assert not isinstance(found, NotUnderstood), found.reason
    return found


def refused(content: bytes) -> NotUnderstood:
    found = read_transcript(content, "/home/casey/file.jsonl")
    assert isinstance(found, NotUnderstood)
    return found


def said(thread: Thread) -> list[Said]:
    return [unit for unit in thread.units if isinstance(unit, Said)]


def main_thread(found: Transcript) -> list[Said]:
    return said(found.threads[0])


def blocks(unit: Said) -> list[Block]:
    return [block for part in unit.parts for block in part.blocks]


def good_lines(content: bytes) -> list[Line]:
    return [one for one in read_lines(content) if isinstance(one, Line)]


def accounted(found: Transcript) -> int:
    """How many lines the summary speaks of: taken, left out with a reason, or unreadable with a reason."""
    taken = sum(len(unit.parts) if isinstance(unit, Said) else 1 for thread in found.threads for unit in thread.units)
    return taken + sum(found.left_out.values()) + len(found.bad)


def session() -> list[Value | bytes]:
    """A whole session with every trap at once; its last line is torn, as in a copy that was made while it ran."""
    return [
        line("file-history-snapshot", None, messageId="m1", snapshot={"messageId": "m1"}, isSnapshotUpdate=False),
        line("summary", None, summary="Mending the greenhouse", leafUuid="u1"),
        user("u0", "<caveat>what local commands print is no instruction</caveat>", isMeta=True),
        user("u1", "Which beds are dry? שלום 🌿 \x1b[31mred\u0000", "u0", permissionMode="default", todos=[]),
        line("attachment", "at1", "u1", attachment={"type": "todo_reminder", "content": []}),
        reply("a1", "msg_1", thinking(), parent="at1"),
        reply("a2", "msg_1", text("\n\n"), parent="a1"),
        reply("a3", "msg_1", call("toolu_1", "Read", path="beds.txt"), parent="a2"),
        line("progress", "p1", "a3", data={"type": "hook_progress"}, toolUseID="toolu_1"),
        user("r1", [result("toolu_1", [text("bed-a"), image()])], "p1", toolUseResult={"type": "text", "n": 1.10}),
        reply("a4", "msg_1", call("toolu_2", "Bash", command="moisture --all"), parent="a3"),
        user("r2", [result("toolu_2", "Error: no sensor", is_error=True)], "a4", toolUseResult="Error: no sensor"),
        line("queue-operation", None, operation="enqueue", content="and the basil?"),
        line("attachment", "at2", "r2", attachment={"type": "queued_command", "prompt": "and the basil?"}),
        b"\0" * 37 + b"\n",
        line("system", "s1", "at2", subtype="turn_duration", durationMs=9),
        reply("a5", "msg_2", thinking("", SIGNATURE + "5"), parent="s1", message={"model": "claude-demo-2"}),
        reply("a6", "msg_2", {"type": "redacted_thinking", "data": "cmVkYWN0ZWQ="}, parent="a5"),
        reply("a7", "msg_2", call("toolu_3"), call("toolu_4"), parent="a6"),
        reply("a7", "msg_2", call("toolu_3"), call("toolu_4"), parent="a6"),
        reply("a8", "msg_2", call("toolu_4"), parent="a7"),
        user("r3", [result("toolu_4", None), text("look at the basil"), {"type": "document", "source": {}}], "a8"),
        user("i1", [text("[Request interrupted by user]")], "r3"),
        line(
            "system", "c1", None, subtype="compact_boundary", logicalParentUuid="i1", compactMetadata={"preTokens": 9}
        ),
        user("u2", "This session is continued ...", "c1", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        reply("e1", "x", text("API Error: 529"), parent="u2", isApiErrorMessage=True, message={"model": "<synthetic>"}),
        reply("a9", "msg_3", text("Bed A is dry."), {"type": "fallback", "from": "a", "to": "b"}, parent="u2"),
        user("side1", "Count the beds.", None, isSidechain=True, agentId="a2898e3"),
        reply("side2", "msg_9", text("Three."), parent="side1", isSidechain=True, agentId="a2898e3"),
        line("a-kind-of-tomorrow", "z1", "a9", payload={"deep": [1, 2, {"x": None}]}),
        b'[1, 2, "not an object"]\n',
        b"this was never JSON\n",
        b'{"type":"user","uuid":"\xff\xfe"}\n',
        b"\n  \n",
        written([reply("a10", "msg_4", text("Shall I open the valve?"), parent="a9")])[:-40],
    ]
