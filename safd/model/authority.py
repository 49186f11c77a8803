"""Authority is never recorded: what only this daemon may say, at this request, is known in every spelling.

Letters in any case, width or style, with anything but letters and figures between them, over one text or several: a
model reads all of them as the block. Letters of other scripts that merely look alike are not told apart.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from safd.model.blocks import Block, Text
from safd.model.errors import PrincipalInRecord

_BETWEEN: Final = "[^a-z0-9<>]*"
_BLOCK: Final = re.compile("<" + _BETWEEN + _BETWEEN.join("runtimeprincipal"), re.IGNORECASE)


def imitates_principal(*texts: str) -> bool:
    """Whether these texts, read one after the other, hold the beginning or the end of a principal's block."""
    text = "".join(texts)
    return _BLOCK.search(text if text.isascii() else unicodedata.normalize("NFKD", text)) is not None


def refuse_principal(blocks: Iterable[Block], path: str) -> None:
    """Raises PrincipalInRecord, at the text that holds it or at the list over whose texts it is spread."""
    texts = {index: block.text for index, block in enumerate(blocks) if isinstance(block, Text)}
    for index, text in texts.items():
        if imitates_principal(text):
            raise PrincipalInRecord(path=f"{path}[{index}].text")
    if len(texts) > 1 and imitates_principal(*texts.values()):
        raise PrincipalInRecord(path=path)
