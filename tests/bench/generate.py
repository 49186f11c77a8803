"""A record like those that agents make: 2.3 KB a message on average, calls and results, reasoning, a few images."""

import base64
import json
import random
from collections.abc import Iterator

VOCABULARY = (
    "the record file test daemon agent reads writes line error value returns function socket kernel message "
    "because under which before after result output change check path queue state commit order bytes"
)
WORDS = VOCABULARY.split()
IMAGE_EVERY = 335  # rounds: ten images in 10,000 messages
IMAGE_BYTES = 37_500  # 50 KB as base64


def text(rng: random.Random, size: int) -> str:
    """About `size` characters of prose with line breaks, as code and logs have."""
    parts: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(WORDS)
        parts.append(word)
        length += len(word) + 1
        if rng.random() < 0.08:
            parts.append("\n")
    return " ".join(parts)


def messages(count: int, seed: int = 7) -> Iterator[bytes]:
    """`count` offered messages as JSON texts, the same for the same seed."""
    rng = random.Random(seed)
    made = rounds = 0
    pending: list[tuple[str, str]] = []
    while made < count:
        made += 1
        if pending:
            rounds += 1
            message, pending = results(rng, pending, image=rounds % IMAGE_EVERY == 0), []
        elif made % 2:
            message = {"role": "user", "blocks": [{"type": "text", "text": text(rng, rng.randint(40, 1200))}]}
        else:
            message, pending = answer(rng)
        yield json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def answer(rng: random.Random) -> tuple[dict[str, object], list[tuple[str, str]]]:
    blocks: list[dict[str, object]] = [
        {"type": "reasoning", "reasoning": text(rng, rng.randint(100, 900)), "signature": rng.randbytes(96).hex()},
        {"type": "text", "text": text(rng, rng.randint(60, 1200))},
    ]
    calls: list[tuple[str, str]] = []
    if rng.random() < 2 / 3:
        for _ in range(rng.randint(1, 4)):
            call = (f"call_{rng.randbytes(9).hex()}", rng.choice(["read_file", "write_file", "run", "search"]))
            calls.append(call)
            arguments = {"path": f"/srv/{rng.choice(WORDS)}/{rng.choice(WORDS)}.py", "lines": [1, rng.randint(2, 900)]}
            blocks.append({"type": "tool_use", "id": call[0], "name": call[1], "input": arguments})
    usage = {"input_tokens": rng.randint(500, 90_000), "output_tokens": rng.randint(20, 4000)}
    return {"role": "assistant", "blocks": blocks, "usage": usage, "model": "model-1", "provider": "example"}, calls


def results(rng: random.Random, calls: list[tuple[str, str]], *, image: bool) -> dict[str, object]:
    blocks: list[dict[str, object]] = []
    for call, name in calls:
        output: object = text(rng, int(200 * 20 ** rng.random()))
        if image:
            data = base64.b64encode(rng.randbytes(IMAGE_BYTES)).decode()
            output = [{"type": "text", "text": "seen"}, {"type": "image", "media_type": "image/png", "data": data}]
        blocks.append({"type": "tool_result", "tool_use_id": call, "tool_name": name, "output": output})
    return {"role": "tool", "blocks": blocks}
