"""What of an answer can be shown while it is still being written, as it will stand in the whole answer."""

from __future__ import annotations

import re
from collections.abc import Collection

from graphmill.engine.cite import MAX_REFERENCES, held_to_numbers
from graphmill.engine.decode_text import clean
from graphmill.engine.own_references import may_begin_section, split_own_references, without_rule
from graphmill.engine.read_citations import ends_in_code, open_from
from graphmill.engine.strip_thoughts import strip_thoughts

_OPEN_TAG = re.compile(r"(?:<[^<>\n]{0,40}|◁[^▷\n]{0,40}|\[/?[A-Z]*)\Z")
"""What may become the mark of a thought."""
_HALVES = "".join(map(chr, range(0xD800, 0xDC00)))
"""First halves of surrogate pairs."""
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
        self._known = sorted(numbers or ())
        self._raw, self._looked_at = "", 0
        self._settled, self._settled_as = "", ""
        """Lines that were read for citations, and what they are shown as."""
        self._settled_cited: dict[int, None] = {}
        self.text = ""
        """What was shown."""
        self.cited: list[int] = []
        """The numbers that it cites, in that order, as long as the answer is not whole."""

    def add(self, piece: str) -> str:
        """The text that can be shown in addition."""
        self._raw += piece
        if len(self._raw) - self._looked_at < len(self._raw) // LOOKS:
            return ""
        self._looked_at = len(self._raw)
        # Less what may become the mark of a thought, or is half a character.
        return self._show(*self._cleaned(_OPEN_TAG.sub("", self._raw).rstrip().rstrip(_HALVES)))

    def rest(self, answer: str) -> str:
        """What is left to be shown of the whole answer."""
        if answer != self.text and self.text.startswith(answer):  # what went on there was thought, as it turned out
            self.text = ""
            return STARTS_ANEW + self._show(answer, self.cited)
        return self._show(answer, self.cited)

    def _show(self, text: str, cited: list[int]) -> str:
        if self.text.startswith(text):
            return ""
        more = text[len(self.text) :] if text.startswith(self.text) else STARTS_ANEW + text
        self.text, self.cited = text, cited
        return more

    def _cleaned(self, raw: str) -> tuple[str, list[int]]:
        text, _ = strip_thoughts(clean(raw), in_record="\0")
        if self._numbers is None:
            return text.strip(), []
        text = _certain(text.strip())
        return self._cited(text[: open_from(text, self._known)].rstrip())

    def _cited(self, text: str) -> tuple[str, list[int]]:
        """The text with its citations held to the numbers, and those; lines that are settled are not read again."""
        if not text.startswith(self._settled):
            self._settled, self._settled_as, self._settled_cited = "", "", {}
        rest = text[len(self._settled) :]
        if (end := rest.rfind("\n") + 1) and not ends_in_code(rest[:end]) and open_from(rest[:end], self._known) == end:
            self._settled_as += held_to_numbers(rest[:end], self._known, MAX_REFERENCES, self._settled_cited)
            self._settled, rest = self._settled + rest[:end], rest[end:]
        cited = dict(self._settled_cited)
        return self._settled_as + held_to_numbers(rest, self._known, MAX_REFERENCES, cited), list(cited)


def _certain(text: str) -> str:
    """The text without its last line or a section of references at its end, if what comes next decides about them."""
    head, _, line = text.rpartition("\n")
    body, section = split_own_references(head, may_go_on=True)
    if section:
        return body
    # Code or not, the heading of a section or not: that is known at the end of the line.
    if may_begin_section(line):
        return without_rule(head)
    return head if "`" in line else text
