"""The section of references that a model writes all the same, at the end of its answer."""

from __future__ import annotations

import re
from typing import NamedTuple

from graphmill.engine.read_citations import ends_in_code

_STRICT = """
references|reference list|list of references|references used|references cited|works cited|参考资料|参考文献
参考文献列表|参考资料列表|引用文献|referenzen|literaturverzeichnis|quellenverzeichnis|quellenangaben|références
références bibliographiques|referencias|riferimenti|referências|referenties
"""
_LOOSE = """
sources|sources used|sources cited|source documents|citations|bibliography|引用|引用来源|来源|资料来源|参考来源
信息来源|数据来源|出处|参考|参照|出典|quellen|literatur|bibliographie|fuentes|bibliografía|fonti|bibliografia|fontes
bronnen|источники|ссылки
"""
_NAMES = dict.fromkeys(_STRICT.strip().replace("\n", "|").split("|"), True)
_NAMES |= dict.fromkeys(_LOOSE.strip().replace("\n", "|").split("|"), False)
"""Names of such a section in lower case, and whether they can mean nothing else."""
_LONGEST = max(map(len, _NAMES))

# Runs of spaces are possessive: of two of them side by side each would try all lengths of the other.
_NAMED = re.compile(
    r"(?P<hashes>#{1,6}[ \t]*+)?(?P<number>\d{1,2}[.)][ \t]++)?(?P<bold>[*_]{1,3}(?![ \t]))?"
    rf"(?P<name>{'|'.join(sorted(_NAMES, key=len, reverse=True))})"
    r"(?:[ \t]*+[(（][ \t]*+\d{1,4}[ \t]*+[)）])?",
    re.IGNORECASE,
)
"""The beginning of a heading: its marks, one of the names, and how many are listed: ## References (3)."""
_MARKS = re.compile(_NAMED.pattern.partition("(?P<name>")[0])
_COUNT_BEGUN = re.compile(r"[(（][ \t]*+\d{0,4}")
_MARKS_ONLY = "#*_- \t.)0123456789"
_LISTED = re.compile(r"[-*+•–—][ \t]|\d{1,3}[.)、:：]|[\[［【]|[(（]\d|[-*+•]\Z")
"""The beginning of what any list has."""
_BULLET = re.compile(r"(?:[-*+•–—][ \t]+|\d{1,3}[.)、:：][ \t]*)?")
_NUMBERED = re.compile(r"[\[［【]\^?\d[\d\s,，、;；\-–—^]*[\]］】]")
"""References: [1], [2-4], [^1]."""
_SURE = re.compile(rf"{_NUMBERED.pattern}|\[(?:KG|DC)\]")
"""The beginning of what only a list of references has."""
_OPEN = re.compile(r"[\[［【][\d\s,，、;；\-–—^]*\Z")
"""A reference that is still being written."""
_BETWEEN = re.compile(r"[\s,，、;；&]+")
_ANDS = ("and", "und", "et", "y", "和", "与")
_PLACE = re.compile(r"https?://\S+\Z|\S*\w\.[A-Za-z][A-Za-z0-9]{0,4}(?:#\S+)?\Z")
"""An address, or a path that ends in the extension of a file."""
_MAX_PLACE = 300
_DEFINITION = re.compile(r"\[\^\d{1,6}\]:|\[\d{1,6}\]:[ \t]*(\S+)\Z")
_DEFINITION_BEGUN = re.compile(r"(?:\[\^?\d{0,6}|\[\^\d{1,6}\](?::.*)?|\[\d{1,6}\](?::[ \t]*\S*)?)\Z")
"""The definition of a footnote, and one that is still being written."""


class _Heading(NamedTuple):
    is_sure: bool
    """Its name can mean nothing else."""
    is_marked: bool
    """It is set off from the text by marks of a heading, bold type or a colon."""
    is_item: bool
    """It may as well be an item of a numbered list."""
    listed: str
    """What stands after the colon."""


def split_own_references(text: str, may_go_on: bool = False) -> tuple[str, str]:
    """The answer, and the section of references that it ends with, "" where it has none.

    Such a section is a heading, and after it nothing but what lists references. Under a name that can mean nothing else
    ("References") that is any list, and lines that are nothing but a file's path. Under one that can be a matter of the
    answer too ("Sources") the lines have to begin with a number in brackets or be nothing but paths, so that a list
    of the sources of a river stays. What is listed may stand in the line of the heading, after a colon, where that is a
    paragraph of its own and no other has such a line. Definitions of footnotes are a section without a heading.
    A bare name that lists nothing is content, unless it can mean nothing else and is a paragraph of its own; so is all
    that stands in code. A rule right before the section goes with it, into neither.

    may_go_on  the text isn't whole: what may become a section is split off too, if its lines are whole so far
    """
    text = text.rstrip()
    start = _begin_of_section(text, may_go_on)
    if start is None or ends_in_code(text[:start]):
        return text, ""
    return without_rule(text[:start]), text[start:]


def without_rule(text: str) -> str:
    """The text without a rule at its end, which sets off the section after it."""
    text = text.rstrip()
    while _is_rule(text[text.rfind("\n") + 1 :].strip()) and _begins_paragraph(text, text.rfind("\n") + 1):
        text = text[: text.rfind("\n") + 1].rstrip()
    return text


def may_begin_section(line: str) -> bool:
    """Whether a line that is still being written may become the first of such a section, or a rule before it."""
    line = line.strip()
    if not line.strip(_MARKS_ONLY) or _DEFINITION_BEGUN.match(line):
        return True
    begun = _after(_MARKS, line)[: _LONGEST + 1].casefold()
    if any(name.startswith(begun) for name in _NAMES):
        return True
    if (heading := _heading(line)) is not None:
        return not heading.listed or _may_list(heading.listed)
    named = _NAMED.match(line)
    return named is not None and _COUNT_BEGUN.fullmatch(line[named.end() :].strip()) is not None


def _lists(text: str) -> bool:
    """Whether a text is nothing but numbers in brackets, paths and addresses."""
    parts = _parts(text)
    return text.strip() != "" and all(map(_is_place, parts)) and not all(part in _ANDS for part in parts if part)


def _may_list(text: str) -> bool:
    """Whether a text that is still being written may become such a one: whether it is, but for its last word."""
    *parts, _ = _parts(_OPEN.sub("", text))
    return all(map(_is_place, parts))


def _parts(text: str) -> list[str]:
    return [part.strip("*_`<>.。") for part in _BETWEEN.split(_NUMBERED.sub(" [] ", text))]


def _is_place(part: str) -> bool:
    return part in ("", "[]", *_ANDS) or (len(part) <= _MAX_PLACE and _PLACE.match(part) is not None)


def _after(pattern: re.Pattern[str], text: str) -> str:
    """What comes after a match at the beginning of a text, if there is one."""
    match = pattern.match(text)
    return text if match is None else text[match.end() :]


def _heading(line: str) -> _Heading | None:
    """The heading that a line is: a name, its marks, and what may stand after a colon."""
    named = _NAMED.match(line)
    if named is None or (name := named["name"].casefold()) not in _NAMES:  # a dotted capital I is taken for an i
        return None
    rest = line[named.end() :].lstrip("*_ \t")
    has_colon = rest.startswith((":", "："))
    if not has_colon and rest.strip("# \t"):
        return None
    is_marked = bool(named["hashes"] or named["bold"] or has_colon)
    return _Heading(_NAMES[name], is_marked, bool(named["number"] and not named["hashes"]), rest[1:].strip("*_# \t"))


def _begin_of_section(text: str, may_go_on: bool) -> int | None:
    """Where the section at the end begins, looked for line by line from the end."""
    begin, is_sure, has_items, only_definitions = None, True, False, True
    is_continued = False
    """Whether the line below goes on with an item that has to stand above."""
    end = len(text) + 1
    while end > 0:
        start, end = text.rfind("\n", 0, end - 1) + 1, end - 1
        is_indented = text.startswith(("  ", "\t"), start)
        line, end = text[start:end].strip(), start
        if not line or (start and _is_rule(line)):
            continue
        heading = None if is_continued else _heading(line)
        if heading is not None and not (heading.listed and not _lists(heading.listed)):
            if not _is_one(heading, text, start, is_sure, has_items, may_go_on):
                break
            begin, is_sure, has_items, only_definitions = start, True, False, False
            continue
        item = _after(_BULLET, line)
        is_sure_item = _SURE.match(item) is not None or _lists(item)
        if not (is_sure_item or _LISTED.match(line)):
            if not is_indented:
                break
            is_continued = True
            continue
        is_sure, has_items, is_continued = is_sure and is_sure_item, True, False
        definition = _DEFINITION.match(line)
        only_definitions = only_definitions and definition is not None and _is_place(definition[1] or "")
        if only_definitions:
            begin = start
    return begin


def _is_one(heading: _Heading, text: str, start: int, is_sure: bool, has_items: bool, may_go_on: bool) -> bool:
    """Whether a heading at a place, with what was found below it, begins a section."""
    if heading.listed and not _stands_alone(text, start):
        return False
    if heading.is_item:
        return is_sure and (has_items or may_go_on) and _begins_paragraph(text, start)
    if has_items or heading.is_marked or may_go_on:
        return heading.is_sure or is_sure
    return heading.is_sure and _begins_paragraph(text, start)


def _is_rule(line: str) -> bool:
    return len(line) > 2 and line[0] in "-=*_" and not line.strip(line[0])


def _begins_paragraph(text: str, start: int) -> bool:
    """Whether the line before a place is blank, or there is none."""
    return not text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start].strip()


def _stands_alone(text: str, start: int) -> bool:
    """Whether the line at a place is a paragraph of its own, and no line before it lists references after a colon."""
    if not _begins_paragraph(text, start):
        return False
    headings = (_heading(line.strip()) for line in text[:start].split("\n") if ":" in line or "：" in line)
    return not any(heading is not None and _lists(heading.listed) for heading in headings)
