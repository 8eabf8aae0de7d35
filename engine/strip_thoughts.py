"""Takes a model's reasoning out of its reply."""

from __future__ import annotations

import re

_WORDS = r"(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)"
_TAG = re.compile(
    rf"<[ ]{{0,2}}(?P<close>/?)[ ]{{0,2}}(?:\w{{1,12}}:)?{_WORDS}[ ]{{0,2}}>"
    rf"|◁(?P<close2>/?){_WORDS}▷|(?-i:\[(?P<close3>/?)THINK\])",
    re.IGNORECASE,
)
_FINAL_CHANNEL = "<|channel|>final<|message|>"
_WINDOW = 2000
"""Characters a tag's line is looked at for a delimiter, both ways."""


def strip_thoughts(text: str, in_record: str = "<|>") -> tuple[str, bool]:
    """The reply without its reasoning blocks, and whether the last of them was never closed (it is gone to the end).

    A closing tag alone means that the opening one was in the prompt: all before it is reasoning. A tag inside a record,
    that is after ``in_record`` on its line, is text that the record is about.
    """
    if _FINAL_CHANNEL in text:
        text = text.rpartition(_FINAL_CHANNEL)[2]
    kept: list[str] = []
    kept_to = 0
    is_open = False
    num_inline = 0
    for tag in _TAG.finditer(text):
        closes = any(tag.group("close", "close2", "close3"))
        if is_open:
            # Models that quote their own tag while thinking don't nest: the first closing tag ends the block.
            is_open = not closes
            kept_to = tag.end()
        elif not closes:
            if _is_inline(text, kept_to, tag.start(), in_record):
                num_inline += 1
            else:
                kept.append(text[kept_to : tag.start()])
                is_open = True
        elif num_inline:
            num_inline -= 1
        elif not (_is_inline(text, kept_to, tag.start(), in_record) and _line_goes_on(text, tag.end())):
            kept.clear()
            kept_to = tag.end()
    if not is_open:
        kept.append(text[kept_to:])
    return "".join(kept), is_open


def _is_inline(text: str, start: int, end: int, in_record: str) -> bool:
    start = max(start, end - _WINDOW)
    return text.find(in_record, max(start, text.rfind("\n", start, end) + 1), end) >= 0


def _line_goes_on(text: str, start: int) -> bool:
    """True if more of a sentence or record follows on the line, as it does after a tag that is only mentioned."""
    rest = text[start : start + _WINDOW].partition("\n")[0].strip()
    return bool(rest) and rest[0] not in '(（[{"“`*'
