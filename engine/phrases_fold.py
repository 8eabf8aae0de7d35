"""Puts the variants of a name together: titles, initials, surnames, short forms, acronyms, plurals, two scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from graphmill.engine.phrases_lexicon import chinese, english, singulars

BRACKETED = re.compile(r"(.{2,}?) ?[(（]([^()（）]{2,40})[)）]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
CONCEPT = "CONCEPT"
_OPEN = ("PERSON", CONCEPT, "")


def fold_names(
    rows: Mapping[str, tuple[str, int]], aliases: Iterable[tuple[str, str]] = (), wide: bool = False
) -> dict[str, str]:
    """Variant key -> the key it goes with, within one scope (text, document, corpus); only what is unambiguous.

    rows     key -> (type, count); keys are casefolded names
    aliases  pairs of keys known to name one thing; "x (y)" keys bring their own
    wide     the scope is a whole corpus: "the Trust" may be anybody's there, though only one has its full name in it

    The result holds no chains and doesn't depend on the order of the rows.
    """
    step = _aliases(rows, aliases)
    proposals = [
        _same_but_for_dressing(rows),
        _plurals(rows),
        _short_persons(rows, wide),
        _short_organizations(rows, wide),
        _short_chinese(rows, wide),
        _chinese_titles(rows),
    ]
    for proposal in proposals:
        for key, target in sorted(proposal.items()):
            if key not in step and _end(step, target) != key:
                step[key] = target
    return {key: end for key in step if (end := _end(step, key)) != key}


def _end(step: Mapping[str, str], key: str) -> str:
    seen = {key}
    while key in step and step[key] not in seen:
        key = step[key]
        seen.add(key)
    return key


def _aliases(rows: Mapping[str, tuple[str, int]], aliases: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Both halves of "x (y)" and the whole under one key: the long form of an acronym, else the more frequent name."""
    pairs = set(aliases)
    wholes: dict[str, tuple[str, str]] = {}
    for key in rows:
        match = BRACKETED.fullmatch(key) if key.endswith((")", "）")) else None
        if match:
            wholes[key] = (match.group(1).strip(), match.group(2).strip())
            pairs.add(wholes[key])
    partners: dict[str, set[str]] = {}
    for one, two in pairs:
        if one != two:
            partners.setdefault(one, set()).add(two)
            partners.setdefault(two, set()).add(one)
    step: dict[str, str] = {}
    for one in sorted(partners):
        # 哈尔沃森 and 英格丽·哈尔沃森 both stand for Ingrid Halvorsen; two long forms of one acronym don't.
        longest = {two for two in partners[one] if not any(two != other and two in other for other in partners[one])}
        if len(longest) != 1:
            continue
        two = next(iter(longest))
        if _is_better(two, one, rows):
            step[one] = two
    for whole, (one, two) in wholes.items():
        step[whole] = _end(step, one) if _end(step, two) in (two, _end(step, one)) else _end(step, two)
    return step


def _is_better(two: str, one: str, rows: Mapping[str, tuple[str, int]]) -> bool:
    """Whether to keep ``two`` of two names for one thing: the long form, or of two scripts the more frequent name."""
    if bool(_HAN.search(one)) == bool(_HAN.search(two)):
        return (-len(two), two) < (-len(one), one)
    return (-rows.get(two, ("", 0))[1], two) < (-rows.get(one, ("", 0))[1], one)


def _same_but_for_dressing(rows: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """A leading "the" or title and a final possessive dropped, where what is left is a key of its own."""
    titles = english()["titles"]
    found: dict[str, str] = {}
    for key in rows:
        bare = re.sub(r"['’]s?$", "", key)
        words = bare.split()
        while len(words) > 1 and (words[0] == "the" or words[0] in titles):
            words = words[1:]
        bare = " ".join(words)
        if bare != key and bare in rows:
            found[key] = bare
    return found


def _plurals(rows: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    return {
        key: single
        for key, (kind, _) in rows.items()
        if kind in ("CONCEPT", "", "TECHNOLOGY")
        for single in singulars(key)[:2]
        if single in rows and rows[single][0] in ("CONCEPT", "", "TECHNOLOGY")
    }


def _short_persons(rows: Mapping[str, tuple[str, int]], wide: bool) -> dict[str, str]:
    """A surname, a given name or initials and surname -> the one full name in the scope that it can stand for."""
    lists = english()
    full = [key for key, (kind, _) in rows.items() if kind == "PERSON" and _is_full_name(key, rows, wide)]
    by_surname: dict[str, list[str]] = {}
    by_given: dict[str, list[str]] = {}
    for key in full:
        words = key.split()
        surname, given = (
            (words[0], words[-1]) if words[0] in lists["pinyin_surnames"] and len(words) == 2 else (words[-1], words[0])
        )
        by_surname.setdefault(surname, []).append(key)
        by_given.setdefault(given, []).append(key)
    found: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        if " " in key:
            if key[1:2] == "." and kind in _OPEN:
                matches = [name for name in by_surname.get(key.rsplit(" ", 1)[1], ()) if name[0] == key[0]]
                if len(matches) == 1:
                    found[key] = matches[0]
            continue
        if kind not in (*_OPEN, "GEO") or key in lists["places"] or key in lists["plain"] or key in lists["everyday"]:
            continue
        matches = by_surname.get(key) or (by_given.get(key, []) if key in lists["given"] else [])
        if len(matches) == 1:
            found[key] = matches[0]
    return found


def _is_full_name(key: str, rows: Mapping[str, tuple[str, int]], wide: bool) -> bool:
    """Whether a person's key is a whole name, not a place and a person that ran together ("Kronstadt Lenin").

    A first name that no list has is believed within a document only.
    """
    first = key.split(" ", 1)[0]
    if first == key or key[1:2] == "." or key[-1] in ")）" or first in english()["titles"]:
        return False
    if first.split("-", 1)[0] in english()["given"] or first in english()["pinyin_surnames"]:
        return True
    return not wide and "-" not in first and rows.get(first, ("PERSON", 0))[0] in ("PERSON", "")


def _short_organizations(rows: Mapping[str, tuple[str, int]], wide: bool) -> dict[str, str]:
    """ "the Trust", "Harbour Trust" -> "Port Merrow Harbour Trust"; "Sound Futures" -> "Sound Futures Ltd"."""
    lists = english()
    by_end: dict[str, set[str]] = {}
    by_start: dict[str, set[str]] = {}
    for key, (kind, _) in rows.items():
        words = key.split()
        if len(words) < 2 or words[0] == "the" or kind in ("", "PERSON", "CONCEPT", "TECHNOLOGY"):
            continue
        for cut in range(1, len(words)):
            by_end.setdefault(" ".join(words[cut:]), set()).add(key)
        if words[-1] in lists["org_forms"] or ("&" in words and words[-1] in lists["org_heads"]):
            by_start.setdefault(" ".join(words[:-1]).rstrip(","), set()).add(key)
    found: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        if wide and kind == "":
            continue
        longer = by_start.get(key) if kind not in ("TECHNOLOGY", "GEO", "WORK") else None
        if not longer:
            last = key.rsplit(" ", 1)[-1]
            longer = by_end.get(key) if last in lists["heads"] and (kind == "" or " " in key) else None
            longer = {name for name in longer or () if kind in ("", rows[name][0])}
        shortest = _shortest(longer, " ")
        if shortest:
            found[key] = shortest
    return found


def _shortest(names: set[str], gap: str) -> str:
    """The one name that all the others end in, "" where there is none."""
    shortest = min(names, key=lambda name: (len(name), name), default="")
    return shortest if all(name == shortest or name.endswith(gap + shortest) for name in names) else ""


def _short_chinese(rows: Mapping[str, tuple[str, int]], wide: bool) -> dict[str, str]:
    """海洋学院 -> 北岭大学海洋学院, 沧屿航运 -> 沧屿航运股份有限公司, where one such name is in the scope."""
    by_end: dict[str, set[str]] = {}
    by_start: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        if kind not in ("ORGANIZATION", "GEO", "EVENT", "VESSEL") or not _HAN.match(key) or len(key) > 24:
            continue
        for cut in range(1, len(key) - 1):
            by_end.setdefault(key[cut:], set()).add(key)
        bare = _CHINESE_FORMS.sub("", key)
        if bare != key:
            by_start[bare] = key if bare not in by_start else ""
    found: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        if not _HAN.match(key) or len(key) < 2 or (wide and kind == ""):
            continue
        if by_start.get(key):
            found[key] = by_start[key]
            continue
        longer = (
            {name for name in by_end.get(key, ()) if kind in ("", rows[name][0])}
            if kind not in ("PERSON", "CONCEPT", "WORK")
            else set()
        )
        shortest = _shortest(longer, "")
        if shortest and (kind == "" or len(key) > 3):
            found[key] = shortest
    return found


_CHINESE_FORMS = re.compile("(?:股份有限公司|有限责任公司|集团有限公司|有限公司|集团公司|公司|集团)$")


@cache
def _title() -> re.Pattern[str]:
    titles = sorted(chinese()["titles"], key=lambda title: (-len(title), title))
    return re.compile("(?<=.)(?:" + "|".join(titles) + ")$")


def _chinese_titles(rows: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """林教授, 林博士 -> 林芷若, and 哈尔沃森 -> 英格丽·哈尔沃森, where one such person is in the scope."""
    by_surname: dict[str, list[str]] = {}
    by_part: dict[str, list[str]] = {}
    for key, (kind, _) in rows.items():
        if kind == "PERSON" and _HAN.match(key) and not _title().search(key):
            if "·" in key:
                for part in key.split("·"):
                    by_part.setdefault(part, []).append(key)
            elif 2 <= len(key) <= 4:
                by_surname.setdefault(key[0], []).append(key)
                if len(key) == 3:
                    by_part.setdefault(key[:2], []).append(key)  # 沈鹤 cut out of 沈鹤年
    found: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        if not _HAN.match(key) or kind not in _OPEN:
            continue
        title = _title().search(key)
        bare = key[: title.start()] if title else ""
        parts = by_part.get(key, []) if kind != CONCEPT or len(key) > 2 else []
        matches = parts or by_part.get(bare, []) or (by_surname.get(bare, []) if len(bare) == 1 else [])
        if len(matches) == 1:
            found[key] = matches[0]
        elif bare in rows:
            found[key] = bare
    return found
