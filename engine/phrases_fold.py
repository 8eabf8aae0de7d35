"""Puts the variants of a name together: titles, initials, surnames, short forms, acronyms, plurals, two scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from graphmill.engine.phrases_lexicon import chinese, english, singulars

_BRACKETED = re.compile(r"(.{2,}?) ?[(（]([^()（）]{2,40})[)）]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_OPEN = ("PERSON", "CONCEPT", "")


def fold_names(rows: Mapping[str, tuple[str, int]], aliases: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Variant key -> the key it goes with, within one scope (a text, a document, a corpus); only what is unambiguous there.

    rows     key -> (type, count); keys are casefolded names
    aliases  pairs of keys known to name one thing; "x (y)" keys bring their own

    The result holds no chains and doesn't depend on the order of the rows.
    """
    step = _aliases(rows, aliases)
    taken = set(step)
    for rule in (_same_but_for_dressing, _plurals, _short_persons, _short_organizations, _chinese_titles):
        for key, target in rule({key: row for key, row in rows.items() if key not in taken}).items():
            if key != target and key not in taken:
                step[key] = target
                taken.add(key)
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
        match = _BRACKETED.fullmatch(key) if key.endswith((")", "）")) else None
        if match:
            wholes[key] = (match.group(1).strip(), match.group(2).strip())
            pairs.add(wholes[key])
    others: dict[str, set[str]] = {}
    for one, two in pairs:
        others.setdefault(two, set()).add(one)
    step: dict[str, str] = {}
    for two, ones in sorted(others.items()):
        if len(ones) > 1:
            continue
        one = next(iter(ones))
        if _HAN.search(one + two) and rows.get(two, ("", 0))[1] > rows.get(one, ("", 0))[1] and one not in others:
            step.setdefault(one, two)
        else:
            step.setdefault(two, one)
    for whole, (one, _) in wholes.items():
        step[whole] = _end(step, one)
    return step


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


def _short_persons(rows: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """A surname, a given name or initials and surname -> the one full name in the scope that it can stand for."""
    lists = english()
    full = [key for key, (kind, _) in rows.items() if kind == "PERSON" and " " in key and key[1:2] != "."]
    by_surname: dict[str, list[str]] = {}
    by_given: dict[str, list[str]] = {}
    for key in full:
        words = key.split()
        surname, given = (words[0], words[-1]) if words[0] in lists["pinyin_surnames"] and len(words) == 2 else (words[-1], words[0])
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
        if kind not in _OPEN or key in lists["places"]:
            continue
        matches = by_surname.get(key) or (by_given.get(key, []) if key in lists["given"] else [])
        if len(matches) == 1:
            found[key] = matches[0]
    return found


def _short_organizations(rows: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """"the Trust", "Harbour Trust" -> "Port Merrow Harbour Trust"; "Sound Futures" -> "Sound Futures Ltd"."""
    lists = english()
    by_end: dict[str, set[str]] = {}
    by_start: dict[str, set[str]] = {}
    for key, (kind, _) in rows.items():
        words = key.split()
        if len(words) < 2 or kind in ("", "PERSON", "CONCEPT", "TECHNOLOGY"):
            continue
        for cut in range(1, len(words)):
            by_end.setdefault(" ".join(words[cut:]), set()).add(key)
        if words[-1] in lists["org_forms"] or "&" in words and words[-1] in lists["org_heads"]:
            by_start.setdefault(" ".join(words[:-1]).rstrip(","), set()).add(key)
    found: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        longer = by_start.get(key)
        if not longer:
            last = key.rsplit(" ", 1)[-1]
            longer = by_end.get(key) if last in lists["heads"] and (kind == "" or " " in key) else None
            longer = {name for name in longer or () if kind in ("", rows[name][0])}
        outer = {name for name in longer if not any(name != other and name.endswith(" " + other) for other in longer)} if len(longer) < 9 else longer
        if len(outer) == 1:
            found[key] = next(iter(outer))
    return found


def _chinese_titles(rows: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """林教授, 林博士 -> 林芷若, and 哈尔沃森 -> 英格丽·哈尔沃森, where one such person is in the scope."""
    titles = chinese()["titles"]
    by_surname: dict[str, list[str]] = {}
    by_part: dict[str, list[str]] = {}
    for key, (kind, _) in rows.items():
        if kind == "PERSON" and _HAN.match(key):
            if "·" in key:
                for part in key.split("·"):
                    by_part.setdefault(part, []).append(key)
            elif 2 <= len(key) <= 4:
                by_surname.setdefault(key[0], []).append(key)
    found: dict[str, str] = {}
    for key, (kind, _) in rows.items():
        if not _HAN.match(key) or kind not in _OPEN:
            continue
        bare = next((key[: -len(title)] for title in titles if key.endswith(title) and len(key) > len(title)), "")
        matches = by_part.get(key, []) or by_part.get(bare, []) or (by_surname.get(bare, []) if len(bare) == 1 else [])
        matches = [name for name in matches if name != key]
        if len(matches) == 1:
            found[key] = matches[0]
        elif bare in rows:
            found[key] = bare
    return found
