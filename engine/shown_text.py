"""What of an answer can be shown while it is still being written, as it will stand in the whole answer."""

from __future__ import annotations

import re
from collections.abc import Collection

from graphmill.engine.cite import MAX_REFERENCES, held_to_numbers, without_own_references
from graphmill.engine.decode_text import clean
from graphmill.engine.strip_thoughts import strip_thoughts

_OPEN_BRACKET = re.compile(r"[ \t]*[\[【［][\d\s,，、;；\-–—]*\Z")
"""What may become a citation, which may have to go with the space before it."""
_OPEN_TAG = re.compile(r"(?:<[^<>\n]{0,40}|◁[^▷\n]{0,40}|\[/?[A-Z]*)\Z")
"""What may become the mark of a thought."""
_HEADING = re.compile(r"[#*\s]*(\w*)[\s:：*]*\Z")
_HALVES = "".join(map(chr, range(0xD800, 0xDC00)))
"""First halves of surrogate pairs."""
_REFERENCES = ("references", "参考资料", "参考文献")
STARTS_ANEW = "\n\n"
LOOKS = 256
"""The text is looked at anew when it has grown by one part in so many, so that a long one takes no square time."""


class ShownText:
    """Takes the pieces of a reply and gives out what is certain: without thoughts, citations of what is not in the
    context, and a section of references of the model's own.

    numbers  of the references that the context has
    What is shown is a beginning of the whole answer, unless the model says at a late point that all before it was
    thought: then the answer starts anew after a blank line.
    """

    def __init__(self, numbers: Collection[int] | None) -> None:
        self._numbers = numbers
        self._raw, self._looked_at = "", 0
        self.text = ""
        """What was shown."""

    def add(self, piece: str) -> str:
        """The text that can be shown in addition."""
        self._raw += piece
        if len(self._raw) - self._looked_at < len(self._raw) // LOOKS:
            return ""
        self._looked_at = len(self._raw)
        return self._show(self._cleaned(_certain(self._raw)))

    def rest(self, answer: str) -> str:
        """What is left to be shown of the whole answer."""
        if answer != self.text and self.text.startswith(answer):  # what went on there was thought, as it turned out
            self.text = ""
            return STARTS_ANEW + self._show(answer)
        return self._show(answer)

    def _show(self, text: str) -> str:
        if self.text.startswith(text):
            return ""
        more = text[len(self.text) :] if text.startswith(self.text) else STARTS_ANEW + text
        self.text = text
        return more

    def _cleaned(self, text: str) -> str:
        text, _ = strip_thoughts(clean(text), in_record="\0")
        if self._numbers is None:
            return text.strip()
        # Stripped, as the whole answer is: what a thought has left at the end would hide a section of references.
        return held_to_numbers(without_own_references(text.strip()), self._numbers, MAX_REFERENCES)


def _certain(text: str) -> str:
    """The text without its end, as far as what comes next may change how that reads."""
    head, newline, line = text.rpartition("\n")
    word = _HEADING.match(line)
    if "`" in line or (word is not None and any(name.startswith(word[1].casefold()) for name in _REFERENCES)):
        # Code or not, a section of references or not: that is known at the end of the line.
        line = newline = ""
    return _OPEN_BRACKET.sub("", _OPEN_TAG.sub("", head + newline + line)).rstrip().rstrip(_HALVES)
