"""Whether an image is seen, and the marker that stands where it is not."""

from typing import Final, TypeAlias, assert_never

from safd.model.blocks import Image
from safd.model.projections import RepairKind
from safd.replay import markers
from safd.replay.images import Address, Damaged, Native, NoAddress, look
from safd.replay.notes import Notes
from safd.replay.wire import Picture, Place, Rules

Heard: TypeAlias = str | Picture
"""What stands on the user's side: a text, or an image that is seen."""
MANY_SIDE: Final = 2000
"""Pixels: above it an image is large, and not taken in a request of many images (AM15)."""


def show(notes: Notes, parts: list[Heard], index: int, image: Image) -> None:
    """The image at the end of `parts`, or why it is not seen."""
    request = notes.request
    if not request.capabilities.vision:
        notes.repair(RepairKind.IMAGE_UNSEEN, index, "images are off for this request")
        parts.append(markers.NO_VISION)
        return
    seen = look(image)
    match seen:
        case Native():
            marker = _refused(request.rules, seen)
            if marker is not None:
                _unsupported(notes, parts, index, marker)
                return
            if seen.respelled:
                notes.repair(RepairKind.IMAGE_UNWRAPPED, index, "the same image, its data or type spelled plainly")
            large = seen.sides is not None and max(seen.sides) > MANY_SIDE
            parts.append(Picture(seen, Place(notes.stored_id, index), large))
        case Address():
            parts.append(Picture(seen, Place(notes.stored_id, index), large=False))
        case Damaged():
            _unsupported(notes, parts, index, markers.IMAGE_DAMAGED)
        case NoAddress():
            _unsupported(notes, parts, index, markers.IMAGE_ADDRESS)
        case _ as never:
            assert_never(never)


def _refused(rules: Rules, seen: Native) -> str | None:
    if seen.media_type not in rules.image_types:
        return markers.IMAGE_FORMAT
    if rules.image_chars is not None and len(seen.data) > rules.image_chars:
        return markers.IMAGE_LARGE
    if rules.image_side is not None and seen.sides is not None and max(seen.sides) > rules.image_side:
        return markers.IMAGE_LARGE
    return None


def _unsupported(notes: Notes, parts: list[Heard], index: int, marker: str) -> None:
    notes.repair(RepairKind.IMAGE_UNSUPPORTED, index, marker)
    parts.append(marker)
