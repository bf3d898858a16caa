"""Text from a file made harmless to show: on a terminal, in a picture, in a file's name."""

from __future__ import annotations

import hashlib
import unicodedata
from functools import lru_cache
from typing import Any

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # controls, direction marks, surrogates, unknown
LONGEST = 80  # letters a name keeps: a file's name holds 255 bytes
LONGEST_TEXT = 400  # letters a sentence keeps


@lru_cache(maxsize=2**14)  # rows say the same over and over
def visible(text: str, longest: int = LONGEST_TEXT) -> str:
    """One line of letters that show themselves: escape sequences lose their force.

    What is longer than ``longest`` is cut, and a hash of the whole keeps it apart from its like.
    """
    if not text.isprintable():
        text = "".join(map(_shown, " ".join(text.split())))
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: longest - 10]}… {digest}"


def shown(value: Any) -> Any:
    """The same for all texts of a JSON value, each line of them."""
    if isinstance(value, str):
        return "\n".join(visible(line) for line in value.split("\n"))
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {visible(str(name), LONGEST): shown(one) for name, one in value.items()}
    return value


def _shown(letter: str) -> str:
    if letter.isprintable() or letter == "\u2009":  # the thin space sets numbers apart
        return letter
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in HIDDEN else " "
