"""Finds names and noun phrases in Chinese sentences, by the endings of noun compounds and by what stands around."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from graphmill.engine.phrases_found import Found, Reading
from graphmill.engine.phrases_lexicon import chinese, english
from graphmill.engine.phrases_text import FILL
from graphmill.engine.phrases_types import type_of_name
from graphmill.engine.phrases_zh_people import Word, defines, find_persons, join_sounds
from graphmill.engine.phrases_zh_words import cut, cutter

_BLOCK = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff]+|[A-Za-z][A-Za-z0-9.+#'’-]*(?: (?:& )?[A-Za-z][A-Za-z0-9.+#'’-]*)*|[0-9]+|\\S"
)
_WORK = re.compile("《([^《》\n\x01]{1,40})》")
_QUOTED = re.compile('[“「"]([^“”「」"\n，。；：！？、]{1,10})[”」"]\\s*(号|轮)?')
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_NO_TERM = ("的", "了", "吗", "呢", "吧", "啊")
MAX_CONTEXT_CHARS = 20_000
MAX_RUN_WORDS = 8
_NOUN_TAGS = frozenset(["n", "nr", "nrt", "nrfg", "ns", "nt", "nz", "j", "x", "vn", "b", "ng", "nw"])

_PROPER_TAGS = frozenset(["nr", "nrt", "ns", "nt", "nz", "x"])


def read_chinese(sentence: str, heading: bool, text: str) -> Reading:
    """Names and noun phrases of one sentence; the text around it tells how long a person's name is."""
    names: list[Found] = []
    rest = _titles(sentence, names)
    words = join_sounds(_words(rest))
    words = find_persons(words, names, text[:MAX_CONTEXT_CHARS])
    nouns = _compounds(words, names)
    if heading and len(sentence) < 24:
        nouns = []
    return Reading(_with_aliases(names, sentence), nouns)


def _titles(sentence: str, names: list[Found]) -> str:
    """Takes out works in 《》 and ships and coined words in quotation marks."""

    def work(match: re.Match[str]) -> str:
        names.append(Found(match.group(1).strip(), "WORK", 4.0, True))
        return FILL * len(match.group())

    def quoted(match: re.Match[str]) -> str:
        inner, ship = match.group(1).strip(), match.group(2) or ""
        if (
            (ship and re.search("[\u4e00-\u9fff]|[A-Za-z]{2}", inner))
            or (len(inner) > 2 and inner[-1] in "号轮")
            or re.fullmatch("[\u4e00-\u9fff]{2,6}[0-9]{1,4}", inner)
        ):
            names.append(Found(inner + ship, "VESSEL", 3.0, True))
            return FILL * len(match.group())
        if 2 < len(inner) < 9 and _HAN.match(inner) and not inner.endswith(_NO_TERM):
            names.append(Found(inner, "CONCEPT", 0.3, False))
        return match.group()

    return _QUOTED.sub(quoted, _WORK.sub(work, sentence))


def _words(sentence: str) -> list[Word]:
    tags = cutter().tags
    words: list[Word] = []
    for block in _BLOCK.findall(sentence):
        if _HAN.match(block):
            words.extend(Word(text, tag, text in tags) for text, tag in cut(block))
        else:
            words.append(Word(block, "eng" if block[0].isalpha() else "m" if block[0].isdigit() else "w"))
    return words


def _compounds(words: list[Word], names: list[Found]) -> list[str]:
    """Runs of nouns: those that end in a telling word are names, of the others two or three nouns make a concept."""
    lists = chinese()
    nouns: list[str] = []
    run: list[Word] = []
    for at, word in enumerate([*words, Word("", "w")]):
        if _in_compound(word, lists):
            run.append(word)
            if len(run) < MAX_RUN_WORDS:
                continue
        if run:
            _run(run, names, nouns, defines(words, at))
            run = []
        if word.tag == "eng":
            _latin(word.text, names)
    return nouns


def _in_compound(word: Word, lists: Mapping[str, frozenset[str]]) -> bool:
    tail = word.text in lists["tails"]
    if word.text in lists["generic"] and not tail:
        return False
    return word.tag in _NOUN_TAGS or tail


def tail_type(text: str) -> str:
    """Type that a word's ending gives a name, "" for none; longest ending first."""
    tails = _tails()
    for size in range(min(4, len(text)), 0, -1):
        kind = tails.get(text[-size:])
        if kind:
            return kind
    return ""


@cache
def _tails() -> dict[str, str]:
    lists = chinese()
    tails: dict[str, str] = {}
    for kind, key in (
        ("TECHNOLOGY", "tech_tails"),
        ("EVENT", "event_tails"),
        ("GEO", "geo_tails"),
        ("ORGANIZATION", "org_tails"),
        ("VESSEL", "vessel_tails"),
    ):
        tails.update(dict.fromkeys(sorted(lists[key]), kind))
    return tails


def _is_proper(word: Word) -> bool:
    lists = chinese()
    if word.text in lists["not_places"] or word.text in lists["generic"] or len(word.text) < 2:
        return False
    return (
        word.tag in ("ns", "nt", "nrt")
        or (word.tag in _PROPER_TAGS and not word.known)
        or (word.tag == "nz" and len(word.text) > 2)
    )


def _run(run: list[Word], names: list[Found], nouns: list[str], defines: bool) -> None:
    """One run of nouns: cut after its last telling word; what stands before its first proper word is left out."""
    lists = chinese()
    first = next((at for at, word in enumerate(run) if _is_proper(word)), -1)
    last = max((at for at, word in enumerate(run) if _ends_name(run, at, first)), default=-1)
    while 0 <= first < last and run[first].text in lists["countries"] and _is_proper(run[first + 1]):
        names.append(Found(run[first].text, "GEO", 3.0, True))
        first += 1
    text = "".join(word.text for word in run[max(first, 0) : last + 1])
    if last < 0 or first > last or not 2 < len(text) <= 20 or text in lists["generic"]:
        _run_rest(run, names, nouns)
        return
    kind = tail_type(run[last].text)
    if first >= 0:
        names.append(Found(text, kind, 3.0, True, defines))
    elif last > 0 and len(text) > 3 and len(run[0].text) > 1 and kind in ("ORGANIZATION", "GEO"):
        names.append(Found(text, kind, 1.0, True, defines))
    else:
        _run_rest(run[: last + 1], names, nouns)
    _run_rest(run[last + 1 :], names, nouns)


def _ends_name(run: list[Word], at: int, first: int) -> bool:
    """Whether the word ends a name; a single character does so only right after a proper word, or inside one."""
    word = run[at]
    if not tail_type(word.text):
        return False
    if len(word.text) == 1:
        return at > 0 and at - 1 == first
    if word.known and word.tag not in ("ns", "nt") and not any(word.text[-size:] in _tails() for size in (2, 3, 4)):
        return False  # 挂旗 ends in 旗, and is no county
    return at != first or word.tag not in ("nrt",)


def _run_rest(run: list[Word], names: list[Found], nouns: list[str]) -> None:
    lists = chinese()
    plain: list[Word] = []
    for word in [*run, Word("", "w")]:
        proper = bool(word.text) and _is_proper(word)
        if word.text and not proper and len(word.text) > 1:
            plain.append(word)
            continue
        if proper:
            kind = tail_type(word.text) or (
                "GEO" if word.tag == "ns" else "ORGANIZATION" if word.tag == "nt" else "CONCEPT"
            )
            sure = (
                _is_common_place(word)
                if word.tag == "ns"
                else word.tag == "nt" or (len(word.text) > 2 and word.tag != "nz")
            )
            names.append(Found(word.text, kind, 2.0 if sure and kind != "CONCEPT" else 0.5, sure))
        _plain_run(plain, names, nouns, lists)
        plain = []


def _is_common_place(word: Word) -> bool:
    """Whether a word tagged as a place is one by our own list or by its end."""
    lists = chinese()
    return (
        word.text in lists["countries"]
        or word.text in lists["places"]
        or (len(word.text) > 2 and tail_type(word.text) == "GEO")
    )


def _plain_run(run: list[Word], names: list[Found], nouns: list[str], lists: Mapping[str, frozenset[str]]) -> None:
    if not run:
        return
    text = "".join(word.text for word in run)
    last = run[-1].text
    if (
        1 < len(run) < 4
        and 3 < len(text) < 10
        and run[-1].tag in ("n", "nz", "vn", "ng", "x")
        and not last.endswith(tuple(lists["no_concept"]))
        and run[0].text not in lists["generic"]
        and not all(word.text in lists["generic"] for word in run)
    ):
        nouns.append(text)
        return
    for word in run:
        if (
            word.tag in ("n", "nz", "vn", "l")
            and word.text not in lists["generic"]
            and not word.text.endswith(tuple(lists["no_concept"]))
        ):
            if tail_type(word.text) in ("ORGANIZATION", "GEO", "EVENT") and len(word.text) < 5:
                names.append(Found(word.text, tail_type(word.text), 0.2, False))
            elif len(word.text) > 1:
                nouns.append(word.text)


def _latin(text: str, names: list[Found]) -> None:
    """A Latin name within Chinese text."""
    words = text.split()
    plain = english()["plain"]
    if not text[0].isupper() or len(words) > 6 or len(text) < 2 or all(word.lower() in plain for word in words):
        return
    kind, weight = type_of_name(tuple(words))
    if kind == "PERSON" and weight < 2 and len(words) > 1:
        kind, weight = "CONCEPT", 0.1
    if kind == "ORGANIZATION" and weight < 1:
        kind = "TECHNOLOGY"
    names.append(Found(text, kind, weight, len(words) > 1 or text.lower() not in plain))


@cache
def _after_name() -> str:
    titles = "|".join(sorted(chinese()["titles"], key=lambda title: (-len(title), title)))
    latin = "[A-Z][A-Za-z.'’& -]{1,38}"
    short = "(?:(?<=简称)|(?<=简称“))[\u4e00-\u9fff]{2,8}"
    return f'(?:{titles})?[（(](?:以下)?(?:简称|又称|英文名)?[“"]?({latin}|{short})[”"]?[）)，,]'


def _with_aliases(names: list[Found], sentence: str) -> list[Found]:
    """Second names in brackets: 英格丽·哈尔沃森博士（Ingrid Halvorsen）, 世界气象组织（WMO）, 北岭大学（简称岭大）."""
    aliased: list[Found] = []
    for found in names:
        match = (
            re.search(re.escape(found.name) + _after_name(), sentence) if "（" in sentence or "(" in sentence else None
        )
        other = match[1].strip() if match and _HAN.search(found.name) else ""
        aliased.append(
            found._replace(alias=other, defines=True) if 1 < len(other) < 40 and other != found.name else found
        )
    return aliased
