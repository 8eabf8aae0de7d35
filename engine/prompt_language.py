"""Which prompts serve a language, what it is called in them, and which language a row of a table is to be told in."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.language import detect_language

NAMES = {
    "af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali",
    "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian",
    "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "la": "Latin",
    "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian",
    "mr": "Marathi", "ms": "Malay", "my": "Burmese", "nb": "Norwegian", "ne": "Nepali", "nl": "Dutch",
    "nn": "Norwegian", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "yi": "Yiddish",
    "zh": "Chinese",
}  # fmt: skip
"""English names by ISO 639-1 code."""

_CODES = {name.lower(): code for code, name in NAMES.items()} | {"中文": "zh", "汉语": "zh", "漢語": "zh"}
_UNKNOWN = frozenset(["", "auto", "und", "unknown"])


def language_code(language: str) -> str:
    """ISO 639-1 code of a language given as a code ("zh", "zh-CN") or a name ("Chinese"); what is unknown stays."""
    wanted = language.strip().lower()
    if wanted in _UNKNOWN:
        return ""
    if wanted in _CODES:
        return _CODES[wanted]
    code = re.split("[-_]", wanted)[0]
    return code if code in NAMES else language.strip()


def prompt_language(language: str) -> str:
    """Language of the prompts to use: "zh" for Chinese, "en" for every other."""
    return "zh" if language_code(language) == "zh" else "en"


def language_name(language: str, prompts: str) -> str:
    """How prompts written in ``prompts`` ("en" or "zh") call a language; the text's own where it is not known."""
    code = language_code(language)
    if prompts == "zh":
        return {"zh": "中文", "en": "英文", "": "与原文相同的语言"}.get(code, NAMES.get(code, code))
    return NAMES.get(code, code) or "the language of the source text"


def language_of_text(text: str) -> str:
    """Code of the language that a text shows itself to be in; "" where it does not, or is English.

    English is what detect_language answers when in doubt, and a model told nothing keeps to the language it reads.
    """
    found = detect_language(text)
    return "" if found == "en" else found


def language_of_sources(chunk_ids: Any, chunks: pa.Table) -> list[str]:
    """Language of most of each row's chunks; ties go to the first in sort order, "" where none is known.

    chunk_ids  list<string> array, one row an entity, relationship or community
    chunks     CHUNKS, of which chunk_id and language are used
    """
    lists = chunk_ids.combine_chunks() if isinstance(chunk_ids, pa.ChunkedArray) else chunk_ids
    languages = pc.fill_null(chunks["language"], "").combine_chunks().dictionary_encode()
    names = np.array(["", *languages.dictionary.to_pylist()], dtype=object)
    code_of_chunk = np.concatenate([languages.indices.to_numpy(zero_copy_only=False) + 1, [0]])
    row = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    place = pc.fill_null(pc.index_in(pc.list_flatten(lists), value_set=chunks["chunk_id"]), -1)
    code = code_of_chunk[np.asarray(place)]
    known = names[code] != ""
    # One key a (row, language), with languages in sort order, so that the first of the best wins a tie.
    order = np.argsort(names)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    keys, counts = np.unique(row[known] * len(names) + rank[code[known]], return_counts=True)
    best = np.lexsort((keys, -counts, keys // len(names)))
    rows, first = np.unique(keys[best] // len(names), return_index=True)
    found = np.full(len(lists), "", dtype=object)
    found[rows] = names[order[keys[best][first] % len(names)]]
    return [str(name) for name in found]
