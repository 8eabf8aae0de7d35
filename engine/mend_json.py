"""Reads one JSON object that isn't quite JSON, as it was meant.

json-repair was looked at first: it closes what was cut off without a word, where we must know it, and raises on deep
nesting. This reader is iterative and looks at each character a bounded number of times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_MAX_DEPTH = 64
"""Values nested deeper are read over: no reply has a use for them, and their readers recurse."""

_SPACE = re.compile(r"(?:[\s\ufeff\u200b]+|//[^\n]*|/\*.*?\*/|/\*.*\Z)*+", re.DOTALL)
_BARE = re.compile(r"[^\s,，:：{}｛｝\[\]［］\"“”]+")
_BARE_VALUE = re.compile(r"[^,，{}｛｝\[\]［］\"“”\n]+")
_KEY_AHEAD = re.compile(
    r"""\s*(?:"(?:[^"\\\n]|\\.){0,300}"|["“”'‘][^"“”\n]{0,80}["“”'’]|[A-Za-z_]\w{0,60})\s{0,8}[:：]"""
)
_VALUE_AHEAD = re.compile(r"\s*(?:[\"“”'‘{｛\[［\]］}｝\d-]|true|false|null|None\b|\Z)")
_END_AHEAD = re.compile(r"\s*(?:[}｝\]］]|/[/*]|```|\Z)")
_COLON = re.compile(r"\s*(?:[:：]|=>?)")
_NUMBER = re.compile(r"[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?")
ROOT_GOES_ON = re.compile(r"\s*,\s*(?=\"[^\"\n]{1,60}\"\s{0,8}:)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", '"': '"', "\\": "\\", "'": "'", "\n": "\n"}
_WORDS: dict[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "undefined": None,
    "nan": None,
}
_QUOTES = {
    opener: re.compile(rf"[{closers}\\]")
    for opener, closers in {'"': '"', "“": '"“”', "”": '"“”', "'": "'", "‘": "'‘’", "’": "'‘’", "`": "`"}.items()
}
_STRUCTURE = re.compile(r"[{}\[\]]|\"(?:[^\"\\]|\\.)*+\"?", re.DOTALL)


@dataclass(slots=True)
class FoundObject:
    """An object of the reply."""

    value: dict[str, Any]
    end: int
    """Where in the text it ends."""
    closed: bool
    """False if the text ended first; the value then holds its whole members only."""
    num_cut: int
    """Objects in lists that the end of the text cut off; the value doesn't hold them."""


class ObjectReader:
    """Reads one object from the text, containers on a stack of our own. A container joins its parent when it closes."""

    def __init__(self, text: str, keep_open: bool) -> None:
        self.text = text
        self.keep_open = keep_open
        self.root: dict[str, Any] = {}
        self.containers: list[dict[str, Any] | list[Any]] = [self.root]
        self.keys: list[str | None] = [None]
        """Of each container that is an object, the key that waits for its value."""

    def read(self, at: int) -> FoundObject | None:
        """Reads on from behind the opening brace; None if it opens no object."""
        text = self.text
        while True:
            at = _skip_space(text, at)
            if at >= len(text) or text.startswith("```", at):
                return self._end_of_text(at)
            char = text[at]
            if char in ",，;；:：":
                if char not in ":：":
                    self.keys[-1] = None  # A key without its value.
                at += 1
            elif char in "}｝":
                at = self._close_object(at)
                if not self.containers:
                    goes_on = ROOT_GOES_ON.match(text, at)
                    if not goes_on:
                        return FoundObject(self.root, at, True, 0)
                    self.containers, self.keys, at = [self.root], [None], goes_on.end()
            elif char in "]］":
                self._close_list()
                at += 1
            elif isinstance(self.containers[-1], dict) and self.keys[-1] is None:
                at = self._read_key(at)
                if self.keys[-1] is None and not self.root and len(self.containers) == 1:
                    return None
            else:
                at = self._read_value(at)

    def _read_key(self, at: int) -> int:
        if self.text[at] in _QUOTES:
            key, end, _ = self._read_string(at, is_key=True)
        else:
            bare = _BARE.match(self.text, at)
            key, end = (bare[0], bare.end()) if bare else ("", at + 1)
        colon = _COLON.match(self.text, end)
        if not colon or not key:
            return end
        self.keys[-1] = key
        return colon.end()

    def _read_value(self, at: int) -> int:
        text, char = self.text, self.text[at]
        if char in "{｛[［":
            if len(self.containers) >= _MAX_DEPTH:
                self._attach(None)
                return _skip_nested(text, at)
            self.containers.append({} if char in "{｛" else [])
            self.keys.append(None)
            return at + 1
        if char in _QUOTES:
            value, end, whole = self._read_string(at)
            if isinstance(self.containers[-1], list) and (colon := _COLON.match(text, end)):
                self._close_list()  # A key where an item should be: the list's bracket was forgotten.
                self.keys[-1] = value
                return colon.end()
            if whole or self.keep_open:
                self._attach(value)
            return end
        bare = _BARE_VALUE.match(text, at)
        if not bare:
            return at + 1
        if bare[0].strip(" .…") and (bare.end() < len(text) or self.keep_open):
            self._attach(_bare_value(bare[0].strip()))
        return bare.end()

    def _read_string(self, at: int, is_key: bool = False) -> tuple[str, int, bool]:
        """(text, end, whole). A quote that nothing fitting follows is part of the string."""
        text, quotes = self.text, _QUOTES[self.text[at]]
        search = at + 1
        while found := quotes.search(text, search):
            if found[0] == "\\":
                search = found.end() + 1
            elif is_key or self._closes_string(found.end()):
                return _decode_string(text[at + 1 : found.start()]), found.end(), True
            else:
                search = found.end()
        return _decode_string(text[at + 1 :]), len(text), False

    def _closes_string(self, at: int) -> bool:
        text = self.text
        if _END_AHEAD.match(text, at):
            return True
        while at < len(text) and text[at].isspace():
            at += 1
        in_list = isinstance(self.containers[-1], list)
        if text[at] in ",，":
            follows = _VALUE_AHEAD if in_list else _KEY_AHEAD
            return bool(follows.match(text, at + 1) or _END_AHEAD.match(text, at + 1))
        if in_list:
            return text[at] in ":："
        return text[at] in _QUOTES and _KEY_AHEAD.match(text, at) is not None

    def _attach(self, value: Any) -> None:
        container = self.containers[-1]
        if isinstance(container, list):
            container.append(value)
            return
        key, self.keys[-1] = self.keys[-1], None
        if key is not None:
            before = container.get(key)
            if isinstance(before, list) and isinstance(value, list):
                before.extend(value)  # The model wrote the key twice.
            else:
                container[key] = value

    def _pop(self) -> None:
        container = self.containers.pop()
        self.keys.pop()
        if self.containers:
            self._attach(container)

    def _close_object(self, at: int) -> int:
        if isinstance(self.containers[-1], list):
            following = _skip_space(self.text, at + 1)
            if len(self.containers) == 2 and self.text[following : following + 1] in (",", "]"):
                return at + 1  # One brace too many after an item of the outermost list.
            while isinstance(self.containers[-1], list):
                self._pop()
        self._pop()
        return at + 1

    def _close_list(self) -> None:
        if any(isinstance(container, list) for container in self.containers):
            while isinstance(self.containers[-1], dict):
                self._pop()
            self._pop()

    def _end_of_text(self, at: int) -> FoundObject:
        num_cut = 0
        while len(self.containers) > 1:
            if isinstance(self.containers[-1], dict) and isinstance(self.containers[-2], list) and not self.keep_open:
                self.containers.pop()
                self.keys.pop()
                num_cut += 1
            else:
                self._pop()
        return FoundObject(self.root, at, False, num_cut)


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _skip_nested(text: str, at: int) -> int:
    """End of the value at ``at``, whatever is in it."""
    depth = 0
    for found in _STRUCTURE.finditer(text, at):
        if found[0] in "{[":
            depth += 1
        elif found[0] in "}]":
            depth -= 1
            if depth == 0:
                return found.end()
    return len(text)


def _bare_value(text: str) -> Any:
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _NUMBER.fullmatch(text):
        return float(text) if any(mark in lowered for mark in ".e") or len(text) > 300 else int(text)
    return text


def _decode_string(raw: str) -> str:
    if "\\" not in raw:
        return raw
    text = _ESCAPE.sub(lambda found: _decode_escape(found[1]), raw)
    # Escaped pairs of surrogates become the character they stand for.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decode_escape(escape: str) -> str:
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, "\\" + escape)  # An unknown one is TeX or a path rather than JSON.
