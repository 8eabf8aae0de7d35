"""The section of references that a model writes all the same, at the end of its answer."""

from __future__ import annotations

import re

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

_MARKS = re.compile(r"[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*|__)?[ \t]*")
_NAMED = rf"(?P<name>{'|'.join(_NAMES)})(?:[ \t]*[(（][ \t]*\d{{1,4}}[ \t]*[)）])?"
_BOLD = r"[ \t]*(?:\*\*|__)?[ \t]*"
_HEADING = re.compile(
    rf"(?P<marks>{_MARKS.pattern}){_NAMED}{_BOLD}(?:(?P<colon>[:：]){_BOLD}#*[ \t]*(?P<listed>[^\n]*)|#*[ \t]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_NAME = re.compile("|".join(sorted(_NAMES, key=len, reverse=True)), re.IGNORECASE)
_ONE_LINE = re.compile(rf"^{_HEADING.pattern}", re.IGNORECASE | re.MULTILINE)
_NOT_YET = re.compile(
    r"[ \t]*(?:[(（][ \t]*\d{0,4}[ \t]*[)）]?)?[ \t]*[*_]{0,2}[ \t]*[:：]?[ \t]*[*_]{0,2}[ \t]*#*[ \t]*\Z"
)
_LISTED = re.compile(r"[-*+•–—][ \t]|\d{1,3}[.)、:：]|[\[［【]|[(（]\d|[-*+•]\Z")
_BULLET = re.compile(r"(?:[-*+•–—][ \t]+|\d{1,3}[.)、:：][ \t]*)?")
_NUMBERED = re.compile(r"[\[［【]\^?\d[\d\s,，、;；\-–—^]*[\]］】]")
_SURE = re.compile(rf"{_NUMBERED.pattern}|\[(?:KG|DC)\]")
_OPEN = re.compile(r"[\[［【][\d\s,，、;；\-–—^]*\Z")
_BETWEEN = re.compile(r"[\s,，、;；&]+")
_ANDS = ("and", "und", "et", "y", "和", "与")
_PLACE = re.compile(r"https?://\S+\Z|\S*\w\.[A-Za-z][A-Za-z0-9]{0,4}(?:#\S+)?\Z")
_MAX_PLACE = 300
_DEFINITION = re.compile(r"\[\^\d{1,6}\]:|\[\d{1,6}\]:[ \t]*(\S+)\Z")
_DEFINITION_BEGUN = re.compile(r"(?:\[\^?\d{0,6}|\[\^\d{1,6}\](?::.*)?|\[\d{1,6}\](?::[ \t]*\S*)?)\Z")


def split_own_references(text: str, may_go_on: bool = False) -> tuple[str, str]:
    """The answer, and the section of references that it ends with, "" where it has none.

    Such a section is a heading, and after it nothing but what lists references. Under a name that can mean nothing else
    ("References") that is any list, and lines that are nothing but a file's path. Under one that can be a matter of the
    answer too ("Sources") the lines have to begin with a number in brackets or be nothing but paths, so that a list
    of the sources of a river stays. What is listed may stand in the line of the heading, after a colon, where that is a
    paragraph of its own and no other has such a line. Definitions of footnotes are a section without a heading.

    may_go_on  the text isn't whole: what may become a section is split off too, if its lines are whole so far
    """
    text = text.rstrip()
    start = _begin_of_section(text, may_go_on)
    return (text, "") if start is None else (text[:start].rstrip(), text[start:])


def may_begin_section(line: str) -> bool:
    """Whether a line that is still being written may become the first of such a section."""
    line = line.strip()
    if _DEFINITION_BEGUN.match(line) or not line.strip("#*_ \t"):
        return True
    begun = _after(_MARKS, line)
    if any(name.startswith(begun.casefold()) for name in _NAMES):
        return True
    heading = _HEADING.match(line)
    if heading is not None:
        return not heading["listed"] or _may_list(heading["listed"])
    named = _NAME.match(begun)
    return named is not None and _NOT_YET.match(begun, named.end()) is not None


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


def _heading(line: str) -> re.Match[str] | None:
    """The match of a line that begins a section: a name, and what it lists itself."""
    match = _HEADING.match(line)
    if match is None or match["name"].casefold() not in _NAMES:  # a dotted capital I is taken for an i
        return None
    return None if match["listed"] and not _lists(match["listed"]) else match


def _begin_of_section(text: str, may_go_on: bool) -> int | None:
    """Where the section at the end begins, looked for line by line from the end."""
    begin, is_sure, has_items, only_definitions = None, True, False, True
    end = len(text) + 1
    while end > 0:
        start, end = text.rfind("\n", 0, end - 1) + 1, end - 1
        line, end = text[start:end].strip(), start
        if not line or (start and len(line) > 2 and set(line) <= {"-", "="}):
            continue
        if (heading := _heading(line)) is not None:
            if heading["listed"] and not _stands_alone(text, start):
                break
            is_marked = bool(heading["marks"] or heading["colon"])
            if not (_NAMES[heading["name"].casefold()] or (is_sure and (has_items or is_marked or may_go_on))):
                break
            begin, is_sure, has_items, only_definitions = start, True, False, False
            continue
        item = _after(_BULLET, line)
        is_sure_item = _SURE.match(item) is not None or _lists(item)
        if not (is_sure_item or _LISTED.match(line)):
            break
        is_sure, has_items = is_sure and is_sure_item, True
        definition = _DEFINITION.match(line)
        only_definitions = only_definitions and definition is not None and _is_place(definition[1] or "")
        if only_definitions:
            begin = start
    return begin


def _stands_alone(text: str, start: int) -> bool:
    """Whether the line at a place is a paragraph of its own, and no line before it lists references after a colon."""
    if text[text.rfind("\n", 0, max(0, start - 1)) + 1 : start].strip():
        return False
    before = _ONE_LINE.finditer(text, 0, start)
    return not any(match["listed"] and _lists(match["listed"].strip()) for match in before)
