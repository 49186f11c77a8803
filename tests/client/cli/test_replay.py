"""`saf replay` and `compact`: the payload on standard output, the repairs on request."""

import json

import pytest

from tests.client.cli.conftest import Saf

RECORD = [
    {"role": "user", "blocks": [{"type": "text", "text": "Read both."}]},
    {
        "role": "assistant",
        "blocks": [
            {"type": "reasoning", "reasoning": "private"},
            {"type": "tool_use", "id": "a", "name": "read", "input": {"n": 1.10}},
            {"type": "tool_use", "id": "b", "name": "read", "input": {"n": 2}},
        ],
    },
    {"role": "tool", "blocks": [{"type": "tool_result", "tool_use_id": "a", "output": "first"}]},
]


@pytest.fixture
def conversation(saf: Saf) -> str:
    made = saf("--json", "append", "new", stdin=json.dumps(RECORD).replace("1.1}", "1.10}"))
    assert made.code == 0, made.err
    return str(made.json["conversation"])


@pytest.mark.parametrize(("target", "keys"), [("openai-chat", {"messages"}), ("anthropic", {"system", "messages"})])
def test_the_payload_alone(saf: Saf, conversation: str, target: str, keys: set[str]) -> None:
    """Standard output is what a program would send, and nothing else."""
    done = saf("replay", conversation, "--target", target, "--system", "You are terse.")
    assert (done.code, done.err) == (0, "")
    assert set(done.json) == keys
    assert '"n":1.10' in done.out.replace(" ", "").replace("\\", "")
    assert "You are terse." in done.out
    assert "did not complete" in done.out
    assert "private" not in done.out


def test_the_whole_answer(saf: Saf, conversation: str) -> None:
    """--json gives payload, principal, repairs and stable prefix as the daemon answered."""
    answer = saf("--json", "replay", conversation, "-t", "openai-chat").json
    assert {"payload", "principal", "repairs", "stable_prefix", "prefix_break", "head_seq"} <= set(answer)
    assert [repair["kind"] for repair in answer["repairs"]] == ["reasoning_omitted", "call_unanswered"]
    assert answer["payload"] == saf("replay", conversation, "-t", "openai-chat").json


def test_explained(saf: Saf, conversation: str) -> None:
    """--explain names every repair, whole, and who the caller is."""
    out = saf("replay", conversation, "-t", "anthropic", "--explain").out
    assert "reasoning_omitted" in out
    assert "no result was recorded before the turn ended" in out
    assert "principal" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["replay", "CONV"], 2, "--target"),
        (["replay", "CONV", "-t", "smoke-signals"], 2, "smoke-signals"),
        (["replay", "CONV", "-t", "anthropic", "--reasoning", "loud"], 2, "loud"),
        (["replay", "CONV", "-t", "anthropic", "--system", "<runtime-principal>x"], 1, "principal_in_record"),
        (["compact", "CONV"], 2, "--through"),
        (["compact", "CONV", "--through", "1"], 2, "--summary"),
        (["compact", "CONV", "--through", "99", "--summary", "x"], 1, "99"),
        (["compact", "CONV", "--micro", "--through", "1"], 2, "--micro"),
        (["compact", "CONV", "--restore", "mark_x"], 1, "mark_x"),
    ],
)
def test_bad_input(saf: Saf, conversation: str, arguments: list[str], code: int, said: str) -> None:
    """A sentence that names what is wrong."""
    done = saf(*[conversation if one == "CONV" else one for one in arguments])
    assert (done.code, done.out) == (code, ""), done.err
    assert said in done.err


def test_microcompact_and_back(saf: Saf, conversation: str) -> None:
    """Cleared, the payload names where the result is kept; restored, it is what it was; the record never changes."""
    record, before = saf("export", conversation).out, saf("replay", conversation, "-t", "anthropic").out
    cleared = saf("--json", "compact", conversation, "--micro", "--keep", "0")
    assert cleared.code == 0, cleared.err
    during = saf("replay", conversation, "-t", "anthropic").out
    assert "first" not in during
    assert "Result cleared from view" in during
    assert saf("compact", conversation, "--restore", cleared.json["mark"]["id"]).code == 0
    assert saf("replay", conversation, "-t", "anthropic").out == before
    assert saf("export", conversation).out == record


def test_compact(saf: Saf, conversation: str) -> None:
    """The summary, from standard input, stands for the history; the record is whole."""
    done = saf("compact", conversation, "--through", "3", "--summary", "-", stdin="They read files.")
    assert done.code == 0, done.err
    out = saf("replay", conversation, "-t", "openai-chat").out
    assert "They read files." in out
    assert "Read both." not in out
    assert len(saf("export", conversation).out.splitlines()) == 3
