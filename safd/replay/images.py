"""Whether an image can be seen by a provider, and in which spelling: decided from its own bytes, nothing fetched."""

import binascii
import re
from typing import Final, TypeAlias, assert_never

import attrs

from safd.model.blocks import Image, ImageData, ImageUrl

_DATA_URL: Final = re.compile(r"data:([a-zA-Z0-9.+/-]+);base64,", re.IGNORECASE)
_WEB: Final = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_SPACE: Final = re.compile(r"[ \t\r\n]+")

# how much of a file holds its sides
_PNG_HEADER: Final = 24
_GIF_HEADER: Final = 10
_WEBP_HEADER: Final = 30

# JPEG: every marker begins with FF; the sides stand in a start-of-frame, whose numbers leave out DHT, JPG and DAC
_MARKER: Final = 0xFF
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD9)})


@attrs.frozen
class Native:
    """Base64 that decodes. `sides` is None where the header does not tell; `respelled`: not exactly as recorded."""

    media_type: str
    data: str
    sides: tuple[int, int] | None
    respelled: bool


@attrs.frozen
class Address:
    """An image that the provider fetches itself."""

    url: str


@attrs.frozen
class Damaged:
    """Not base64, or nothing."""


@attrs.frozen
class NoAddress:
    """Somewhere no provider can look: a file, a scheme of its own."""


Look: TypeAlias = Native | Address | Damaged | NoAddress


def look(image: Image) -> Look:
    source = image.source
    match source:
        case ImageData(media_type=media_type, data=data):
            found = _DATA_URL.match(data)
            if found is None:
                return _native(media_type, data, respelled=False)
            return _native(found[1], data[found.end() :], respelled=True)
        case ImageUrl(url=url):
            found = _DATA_URL.match(url)
            if found is not None:
                return _native(found[1], url[found.end() :], respelled=False)
            return Address(url) if _WEB.fullmatch(url) else NoAddress()
        case _ as never:
            assert_never(never)


def _native(media_type: str, data: str, *, respelled: bool) -> Native | Damaged:
    kind = media_type.strip().lower()
    kind = "image/jpeg" if kind == "image/jpg" else kind
    text = _SPACE.sub("", data)
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return Damaged()
    if not raw:
        return Damaged()
    return Native(kind, text, _sides(raw), respelled or text != data or kind != media_type)


def _sides(raw: bytes) -> tuple[int, int] | None:
    """Width and height as the file's own header states them (PNG, GIF, WebP, JPEG)."""
    if raw.startswith(b"\x89PNG\r\n\x1a\n") and len(raw) >= _PNG_HEADER:
        return _big(raw, 16, 4), _big(raw, 20, 4)
    if raw[:6] in (b"GIF87a", b"GIF89a") and len(raw) >= _GIF_HEADER:
        return _little(raw, 6, 2), _little(raw, 8, 2)
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP" and len(raw) >= _WEBP_HEADER:
        return _webp_sides(raw)
    if raw.startswith(b"\xff\xd8"):
        return _jpeg_sides(raw)
    return None


def _webp_sides(raw: bytes) -> tuple[int, int] | None:
    kind = raw[12:16]
    if kind == b"VP8X":
        return _little(raw, 24, 3) + 1, _little(raw, 27, 3) + 1
    if kind == b"VP8L":
        packed = _little(raw, 21, 4)
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return _little(raw, 26, 2) & 0x3FFF, _little(raw, 28, 2) & 0x3FFF
    return None


def _jpeg_sides(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(raw) and raw[at] == _MARKER:
        marker = raw[at + 1]
        if marker == _MARKER:
            at += 1
        elif marker in _FRAMES:
            return _big(raw, at + 7, 2), _big(raw, at + 5, 2)
        elif marker in _BARE:
            at += 2
        else:
            at += 2 + max(2, _big(raw, at + 2, 2))
    return None


def _big(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "big")


def _little(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")
