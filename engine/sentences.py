"""Sentences of a text: splitting, joining without repeats, and cutting to a number of tokens at a sentence's end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from graphmill.engine.models import Tokenizer

_END = re.compile(r"[.!?。．｡！？…\n]+[\"'”’」』）)\]]*")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'“‘])(?:[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]|Mrs?|Ms|Dr|Prof|St|Sr|Jr|vs|etc|cf|approx|ca|no|No|vol|pp?|"
    r"fig|Fig|eq|Inc|Ltd|Co|Corp|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)$"
)
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f]")
_ENDED = re.compile(r"[.!?。．｡！？…:：;；][\"'”’」』）)\]]*$")


def sentence_ends(text: str) -> Iterator[int]:
    """Offsets just after the end of each sentence but the last, ascending."""
    for found in _END.finditer(text):
        end = found.end()
        if end >= len(text):
            return
        if found[0][0] in ".!?" and "\n" not in found[0]:
            # A stop within a number or a name, or one that the sentence goes on after.
            if not text[end].isspace() or text[end : end + 40].lstrip()[:1].islower():
                continue
            if found[0][0] == "." and _ABBREVIATION.search(text[max(0, found.start() - 12) : found.start()]):
                continue
        yield end


def split_sentences(text: str) -> list[str]:
    """The sentences of a text without the space around them; none is empty."""
    starts = [0, *sentence_ends(text)]
    pieces = (text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True))
    return [piece for piece in pieces if piece]


def sentence_key(sentence: str) -> str:
    """What two sentences have in common that say the same: case, spaces and the final stop do not count."""
    return " ".join(sentence.casefold().split()).rstrip(".。．｡!！ ")


def join_sentences(sentences: Iterable[str]) -> str:
    """Running text; a stop is put after what has none, and a space where the script uses it."""
    pieces: list[str] = []
    last = ""
    for sentence in sentences:
        if last:
            stop = "" if _ENDED.search(last[-4:]) else "。" if _WIDE.match(last[-1]) else "."
            pieces.append(stop if _WIDE.match((last + stop)[-1]) else stop + " ")
        pieces.append(sentence)
        last = sentence
    return "".join(pieces)


def join_distinct(texts: Sequence[str], max_chars: int | None = None) -> str:
    """The texts as one, each sentence once, in order; texts that begin beyond ``max_chars`` are left out.

    A single text stays as it is.
    """
    if len(texts) == 1:
        return texts[0].strip()
    distinct: dict[str, str] = {}
    num_chars = 0
    for text in texts:
        if max_chars is not None and num_chars > max_chars:
            break
        for sentence in split_sentences(text):
            if distinct.setdefault(sentence_key(sentence), sentence) is sentence:
                num_chars += len(sentence)
    return join_sentences(distinct.values())


def cut_to_tokens(texts: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> list[str]:
    """Texts of at most ``max_tokens`` tokens: longer ones end with the last whole sentence that fits.

    Where not even one sentence fits, the text ends after a word (or a character), with "…" if there is room for it.
    """
    result = list(texts)
    # A tokenizer makes at most one token of a byte: only what is longer has to be counted.
    maybe = [row for row, text in enumerate(texts) if len(text) * 4 > max_tokens and len(text.encode()) > max_tokens]
    counts = tokenizer.count([texts[row] for row in maybe])
    long = [row for row, count in zip(maybe, counts.tolist(), strict=True) if count > max_tokens]
    for row, spans in zip(long, tokenizer.spans([texts[row] for row in long]), strict=True):
        result[row] = _cut(texts[row], [int(end) for end in spans[:max_tokens, 1]], max_tokens, tokenizer)
    return result


def _cut(text: str, ends: list[int], max_tokens: int, tokenizer: Tokenizer) -> str:
    """``ends``: where the first ``max_tokens`` tokens end."""
    while ends:
        room = text[: ends[-1]]
        stops = [end for end in sentence_ends(text[: ends[-1] + 1]) if end <= ends[-1]]
        if stops and text[: stops[-1]].strip():
            cut = text[: stops[-1]].strip()
        else:
            splits_word = text[len(room) : len(room) + 1].strip() and not _WIDE.match(room[-1:])
            cut = (room.rsplit(None, 1)[0] if splits_word else room).rstrip() + "…"
        # A piece may count more tokens than it had within the whole text.
        if int(tokenizer.count([cut])[0]) <= max_tokens:
            return cut
        ends = ends[:-1]
    return ""


def split_to_tokens(text: str, max_tokens: int, tokenizer: Tokenizer) -> list[str]:
    """The text in pieces of at most ``max_tokens`` tokens, cut where sentences end if possible; only space is lost."""
    pieces, rest = [], text.strip()
    while rest:
        head = cut_to_tokens([rest], max_tokens, tokenizer)[0]
        if head.endswith("…") and not rest.startswith(head):
            head = head[:-1]
        if not head:
            raise ValueError(f"max_tokens must leave room for one character, got {max_tokens}")
        pieces.append(head)
        rest = rest[len(head) :].strip()
    return pieces
