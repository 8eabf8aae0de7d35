"""Citations in what a model wrote, in the forms that models use, told from brackets that are the text's own."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MAX_GUESSED = 999
"""A greater number that was not shown, nor any as great, is a year or a code, and no citation of nothing."""

_WORDS = """
reference references ref refs source sources citation citations cite passage passages referenz referenzen quelle quellen
référence références referencia referencias fuente fuentes riferimento riferimenti fonte fonti fontes referência
referências referentie referenties bron bronnen источник источники
参考 参考资料 参考文献 文献 来源 引用 出处 编号 参考编号 引用编号 来源编号 片段 参照 出典
""".split()
_SUFFIXES = "id ids no nr nrs number numbers".split()
_ANDS = "and und et y e en и".split()
_KNOWN_WORDS = (*_WORDS, *_SUFFIXES, *_ANDS, "和", "与", "及")


def _any_of(words: Sequence[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_KEY = rf"""["“'‘]?(?:{_any_of(_WORDS)})(?:[\s_]{{1,2}}(?:{_any_of(_SUFFIXES)}))?["”'’.:：#=\s]{{0,6}}"""
_NUMBER = r"\d{1,6}(?:\s{0,2}[-–—]\s{0,2}\d{1,6})?(?!\d)"
_AND = rf"(?:{_any_of(_ANDS)})\s{{1,8}}"
_COMMA = rf"(?:\s{{1,8}}{_AND}|\s{{0,8}}(?:[,，、;；&]|和|与|及)\s{{0,8}}(?:{_AND})?)"
_NUMBERS = rf"{_NUMBER}(?:{_COMMA}\^?(?:{_KEY})?{_NUMBER})*\s{{0,8}}"
_LIST = rf"\s{{0,2}}\^?(?:{_KEY})?{_NUMBERS}"
_MAX_MARK = 80
_MARK = rf"(?::\d{{1,4}})?†[^\[\]【】［］()（）\n]{{0,{_MAX_MARK}}}"
_CITATION = re.compile(
    # Spaces are taken from the first of them on, or a long run of them would be looked at from each.
    r"(?P<space>(?:(?<![ \t])[ \t]+)?)(?:"
    rf"\[\[(?P<double>{_LIST})\]\]|[\[【［](?P<list>{_LIST})(?P<mark>{_MARK})?[\]】］]|[(（](?P<round>{_KEY}{_NUMBERS})[)）])",
    re.IGNORECASE,
)
_RANGES = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")
_FENCE = r"^[ \t>]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?`{3,}"
_CODE = re.compile(
    rf"{_FENCE}[^`\n]*+$(?:.*?^[ \t>]*+`{{3,}}[ \t]*+$|(?P<open>.*\Z))"
    r"|(?<!`)(?P<ticks>`++)[^\n]*?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
"""A block of code between lines that begin with a fence, to the end where it isn't closed, and code within a line."""
_NAME = re.compile(r"(?:[^\W_]_\w*[^\W_]|\\)\Z")
"""A name with an underscore, and the backslash of a formula: what is right after it is an index."""
_LETTER = re.compile(r"(?:(?P<operated>[=+<>^≤≥≠∈][ \t]*+|[(\[{$])|(?<![^\W_])(?<![/°.·'’])(?<!\d\s))[a-z]\Z")
"""A single small letter, which may be a variable, and no unit of what is counted before it."""
_OPERATES = re.compile(r"[ \t]*+[=+/^>≤≥≠∈]")
_CURRENCY = re.compile(r"\d\s?\$\Z")
_INTERVAL = re.compile(r"(?:\b(?:intervals?|range|between|intervall|bereich|zwischen)|区间|范围)\s*\Z", re.IGNORECASE)
_WITHIN = re.compile(r"\b(?:in|within|from|over)\s*\Z", re.IGNORECASE)
_LOOKS_BACK = 24

_OPENERS, _CLOSERS = "[【［(（", "]】］)）"
_OPEN_LIST = re.compile(r"""[\w\s,，、;；\-–—&.:：#="“”'‘’^]*\Z""")
_LETTERS = re.compile(r"[和与及]|[^\W\d_和与及]+")


class Citation(NamedTuple):
    """Brackets in a text: the span [start, end) with the spaces before them, and these spaces."""

    start: int
    end: int
    space: str
    numbers: list[int]
    """Those of the known ones that are cited; none stands for a citation of nothing."""
    is_certain: bool
    """All that it names is known, and nothing that comes after it can make it the text's own."""


def citations(text: str, known: Sequence[int]) -> Iterator[Citation]:
    """The citations of a text, in order; all other brackets are the text's own and not to be touched.

    known  numbers that can be cited, ascending

    A citation is a list of numbers and ranges in square brackets, of any script, or in double ones: [3], [1, 2 and 3],
    [1-3], 【1】, [[2]]. It is one whatever its numbers where it says so by a word, a caret or a dagger: [reference 3],
    [参考 3], [^1], 【1†source】; (reference 3) is one if all its numbers are known. A number that is not known is a
    citation of nothing. But these are the text's own:

    - what stands in code, and an index: right after a name with an underscore, and right after a single small letter
      where one of the numbers is not known or an operator stands beside it, as in a[1] = 2
    - what can be no list of references: with a 0 or leading zeros, or with a number above MAX_GUESSED that is above
      all that are known too (a year, a code), or with a range that goes beyond the last one known or backwards
    - values and intervals: lists within lists, what is after = or ∈ or the dollar sign that begins a formula, two
      numbers after "between" or "interval", and two after "in" of which one is not known
    - the text of a link, [9](page), and a definition, [9]: text, where one of the numbers is not known
    """
    for part, place in _parts(text):
        for found in _in_prose(part, known):
            yield found._replace(start=found.start + place, end=found.end + place)


def open_from(text: str, known: Sequence[int]) -> int:
    """Where the end of a text begins that what comes next may make another citation of, or none."""
    start = max(map(text.rfind, _OPENERS))
    content = text[start + 1 :]
    if start < 0 or any(closer in content[:-1] for closer in _CLOSERS):
        return len(text)
    is_inner = text[:start].endswith("[")
    if content[-1:] in tuple("]】］"):
        # What follows may make it a link, a definition or the inner one of two.
        line = text.rfind("\n", 0, start) + 1
        ends = (one.is_certain for one in citations(text[line:], known) if line + one.end == len(text))
        if next(ends, False) and not is_inner:
            return len(text)
    elif content[-1:] in tuple(_CLOSERS) or not _may_become_one(content, text[start] in "(（"):
        return len(text)
    return len(text[:start].removesuffix("[").rstrip(" \t"))


def ends_in_code(text: str) -> bool:
    """Whether a text breaks off within a block of code."""
    return any(code["open"] is not None for code in _CODE.finditer(text))


def _may_become_one(content: str, is_round: bool) -> bool:
    head, dagger, tail = content.partition("†")
    if not _OPEN_LIST.match(head) or (is_round and (dagger or head[:1].isdigit())):
        return False
    if dagger:
        return len(tail) <= _MAX_MARK and "\n" not in tail
    *words, last = [word.casefold() for word in _LETTERS.findall(head)] or [""]
    return all(word in _KNOWN_WORDS for word in words) and any(word.startswith(last) for word in _KNOWN_WORDS)


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """Stretches of prose between code, each with its place."""
    place = 0
    for code in _CODE.finditer(text):
        yield text[place : code.start()], place
        place = code.end()
    yield text[place:], place


def _in_prose(text: str, known: Sequence[int]) -> Iterator[Citation]:
    # Where the last index, or list within a list, ended, and what may stand before one more of it.
    own_end, own_gap = -1, ""
    for match in _CITATION.finditer(text):
        (start, end), content = match.span(), match["list"] or match["double"] or match["round"]
        pairs = [(int(first), int(last or first)) for first, last in _RANGES.findall(content)]
        numbers = [n for a, b in pairs for n in known[bisect_left(known, a) : bisect_right(known, b)]]
        if match["mark"] and match["mark"][0] == ":":  # 【4:2†source】, of what was never shown here
            numbers = []
        is_whole = all(a in numbers and b in numbers for a, b in pairs)
        is_certain = True
        if not (match["mark"] or match["round"] or _says_so(content)):
            before = text[max(0, start - _LOOKS_BACK) : start].rpartition("\n")[2]
            is_inner = not match["space"] and before.endswith("[")
            is_index = not match["space"] and _is_index(text, start, end, before, is_whole)
            goes_on = own_end >= 0 and not text[own_end : match.end("space")].strip(own_gap)
            if match["double"] is None and (is_inner or is_index or goes_on):
                own_end, own_gap = end, own_gap if goes_on else ", \t" if is_inner else "\0"
                continue
            if _is_own(content, pairs, known, before, is_whole):
                continue
            is_certain = bool(match["space"]) or not _LETTER.search(before)  # else an operator may come yet
        if is_whole or (match["round"] is None and _is_free(text, start, end)):
            yield Citation(start, end, match["space"], list(dict.fromkeys(numbers)), is_whole and is_certain)


def _says_so(content: str) -> bool:
    return "^" in content or any(word.casefold() in _WORDS for word in _LETTERS.findall(content))


def _is_index(text: str, start: int, end: int, before: str, is_whole: bool) -> bool:
    """Whether a bracket with nothing between it and what is before it is an index, or begins a formula."""
    if before.endswith("$"):
        line = text.rfind("\n", 0, start) + 1
        return text.count("$", line, start) % 2 == 1 and not _CURRENCY.search(before)
    if _NAME.search(before):
        return True
    letter = _LETTER.search(before)
    if letter is None:
        return False
    return not is_whole or letter["operated"] is not None or _OPERATES.match(text, end) is not None


def _is_own(content: str, pairs: list[tuple[int, int]], known: Sequence[int], before: str, is_whole: bool) -> bool:
    """Whether a bracket holds what can be no list of references, or values."""
    top = known[-1] if known else 0
    if any(n and (int(n) == 0 or len(str(int(n))) < len(n)) for pair in _RANGES.findall(content) for n in pair):
        return True
    if any(b > max(MAX_GUESSED, top) or a > b or (a < b and b > top) for a, b in pairs):
        return True
    if before.endswith(("=", "∈")):
        return True
    if len(pairs) > 1 and _INTERVAL.search(before):
        return True
    return len(pairs) == 2 and not is_whole and _WITHIN.search(before) is not None


def _is_free(text: str, start: int, end: int) -> bool:
    """Whether a bracket is neither the text of a link nor the name of a definition."""
    after, is_first = text[end : end + 1], text[max(0, start - 1) : start] in ("", "\n")
    return after != "(" and not (is_first and after in tuple(":："))
