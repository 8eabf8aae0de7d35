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
LOOKS_AT_OPEN = 16
"""The same for the part of it that is not settled, as a block of code or a list of references: each look reads it."""
_WORD = re.compile(r"(?<=[ \t。，、；！？])(?=[^\W\d_]{2})")
"""Where a word begins: what comes after it is read for citations without a look at what stands before it."""


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
        """The beginning that was read for citations, and what it is shown as."""
        self._settled_cited: dict[int, None] = {}
        self._num_open = 0
        self._head, self._body_and_section = "", ("", "")
        """The lines that are whole, and what they are split into."""
        self.text = ""
        """What was shown."""
        self.cited: list[int] = []
        """The numbers that it cites, in that order, as long as the answer is not whole."""

    def add(self, piece: str) -> str:
        """The text that can be shown in addition."""
        self._raw += piece
        if len(self._raw) - self._looked_at < max(len(self._raw) // LOOKS, self._num_open // LOOKS_AT_OPEN):
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
        text = text.strip()
        cited = self._cited(self._certain(text))
        self._num_open = len(text) - len(self._settled)
        return cited

    def _certain(self, text: str) -> str:
        """The text without its last line or a section of references at its end, if what comes next decides on them."""
        head, _, line = text.rpartition("\n")
        if head != self._head:
            self._head, self._body_and_section = head, split_own_references(head, may_go_on=True)
        body, section = self._body_and_section
        if section:
            return body
        # The heading of a section or not, code or not: that is known at the end of the line.
        if may_begin_section(line):
            return without_rule(head)
        return head if "`" in line else text

    def _cited(self, text: str) -> tuple[str, list[int]]:
        """The text with its citations held to the numbers, and those; what is settled is not read again."""
        if self._settled.startswith(text):
            return self.text, self.cited
        if not text.startswith(self._settled):
            self._settled, self._settled_as, self._settled_cited = "", "", {}
        rest = text[len(self._settled) :]
        rest = rest[: open_from(rest, self._known)].rstrip()
        end = _end_of_settled(rest)
        if end and not ends_in_code(rest[:end]) and open_from(rest[:end], self._known) == end:
            self._settled_as += held_to_numbers(rest[:end], self._known, MAX_REFERENCES, self._settled_cited)
            self._settled, rest = self._settled + rest[:end], rest[end:]
        cited = dict(self._settled_cited)
        shown = self._settled_as + held_to_numbers(rest, self._known, MAX_REFERENCES, cited)
        return shown.rstrip(), list(cited)


def _end_of_settled(text: str) -> int:
    """The last place in a text that no code and no formula within a line goes beyond, 0 if there is none."""
    line = text.rfind("\n") + 1
    if "`" in text[line:]:
        return line
    *_, place = (line, *(match.start() for match in _WORD.finditer(text, line)))
    return line if text.count("$", line, place) % 2 else place
