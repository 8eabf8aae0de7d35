"""Cuts Chinese into words with parts of speech, by jieba's dictionary and its hidden Markov model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LEAST = -3.14e100


class Cutter(NamedTuple):
    """jieba's word graph, and the tag of each word of its dictionary."""

    graph: Any
    tags: dict[str, str]


class Model(NamedTuple):
    """jieba's tagging model over s states (a position within a word and a tag), in falling order of the states."""

    states: list[tuple[str, str]]
    start: NDArray[np.float64]
    """[s], logarithms as everywhere here"""
    steps: NDArray[np.float64]
    """[s, s], from the row's state to the column's; -inf where there is none"""
    emissions: dict[tuple[str, str], dict[str, float]]
    allowed: dict[str, list[tuple[str, str]]]


@cache
def cutter() -> Cutter:
    """The dictionary, read on first use (about a second).

    jieba keeps a pickled dictionary in the shared temporary folder and loads whatever lies there; so its dictionary is
    read here, from its package alone, which also needs no lock between processes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba
    tags: dict[str, str] = {}
    frequencies: dict[str, int] = {}
    total = 0
    graph = jieba.Tokenizer()
    with graph.get_dict_file() as lines:
        for line in lines.read().decode("utf-8").splitlines():
            word, count, tag = line.split(" ")
            tags[word] = tag
            frequencies[word] = number = int(count)
            total += number
            for end in range(1, len(word)):
                frequencies.setdefault(word[:end], 0)
    graph.FREQ, graph.total, graph.initialized = frequencies, total, True
    return Cutter(graph, tags)


@cache
def _model() -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import logging

        import jieba
        import jieba.posseg as posseg

        jieba.default_logger.setLevel(logging.CRITICAL)
    # Falling, so that argmax settles a tie as jieba's max() over (score, state) does.
    states = sorted(posseg.start_P, reverse=True)
    place = {state: at for at, state in enumerate(states)}
    steps = np.full((len(states), len(states)), -np.inf)
    for state, following in posseg.trans_P.items():
        for other, chance in following.items():
            steps[place[state], place[other]] = chance
    start = np.array([posseg.start_P[state] for state in states])
    return Model(states, start, steps, posseg.emit_P, posseg.char_state_tab_P)


@lru_cache(maxsize=20_000)
def _emissions(character: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """States that a character can be in, and how likely each brings it forth."""
    model = _model()
    allowed = set(model.allowed.get(character, model.states))
    rows = [at for at, state in enumerate(model.states) if state in allowed]
    chances = [model.emissions[model.states[at]].get(character, _LEAST) for at in rows]
    return np.array(rows, dtype=np.int64), np.array(chances)


def likeliest_states(run: str) -> list[tuple[str, str]]:
    """What jieba.posseg.viterbi gives, ten times faster: ("B" | "M" | "E" | "S", tag) of each character."""
    model = _model()
    rows, chances = _emissions(run[0])
    scores = model.start[rows] + chances
    path: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = [(rows, rows)]
    for character in run[1:]:
        following, chances = _emissions(character)
        through = scores[:, None] + model.steps[np.ix_(rows, following)]
        best = through.argmax(axis=0)
        reached = through[best, np.arange(len(following))]
        if not (reached > -np.inf).any():
            # No state that the character is known in can follow: any that can.
            following = np.arange(len(model.states))
            chances = np.array([model.emissions[state].get(character, _LEAST) for state in model.states])
            through = scores[:, None] + model.steps[rows]
            best = through.argmax(axis=0)
            reached = through[best, following]
        kept = reached > -np.inf
        path.append((following[kept], best[kept]))
        rows, scores = following[kept], reached[kept] + chances[kept]
    at = int(scores.argmax())
    states: list[tuple[str, str]] = []
    for rows, best in reversed(path):
        states.append(model.states[rows[at]])
        at = int(best[at]) if len(states) < len(run) else 0
    return states[::-1]


@lru_cache(maxsize=100_000)
def _unknown(run: str) -> tuple[tuple[str, str], ...]:
    """Words and tags of a run of characters that the dictionary has no words for."""
    tags = cutter().tags
    words: list[tuple[str, str]] = []
    begin = 0
    for at, (position, tag) in enumerate(likeliest_states(run)):
        if position == "B":
            begin = at
        elif position == "E":
            word = run[begin : at + 1]
            words.append((word, tags.get(word, tag)))
        elif position == "S":
            words.append((run[at], tags.get(run[at], tag)))
    if "".join(word for word, _ in words) != run:
        return tuple((character, tags.get(character, "x")) for character in run)
    return tuple(words)


def cut(block: str) -> Iterator[tuple[str, str]]:
    """Words of a run of Han characters with jieba's tags, the same as jieba.posseg's."""
    graph, tags = cutter()
    route: dict[int, tuple[float, int]] = {}
    graph.calc(block, graph.get_DAG(block), route)
    at, singles = 0, ""
    while at < len(block):
        end = route[at][1] + 1
        if end - at == 1:
            singles += block[at]
        else:
            yield from _flush(singles, tags)
            singles = ""
            yield block[at:end], tags.get(block[at:end], "x")
        at = end
    yield from _flush(singles, tags)


def _flush(singles: str, tags: dict[str, str]) -> Iterator[tuple[str, str]]:
    if len(singles) == 1:
        yield singles, tags.get(singles, "x")
    elif singles:
        yield from _unknown(singles)
