"""What do questions gain by being looked up together, with the answering model left out?

    python benchmarks/bench_batch.py --index INDEX --questions 1000 --out results/batch.json

INDEX is the stub's, which run_graphmill.py made, or with ``--embedder minilm`` one that the packaged embedder made.
Every question is looked up by itself, and then all of them together: once with the embedder, and once with vectors that
are there already, so that only the searches are left. Last, the whole contexts, made of the one and of the other.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import machine
import stub

import graphmill
from graphmill.engine.build import OpenIndex
from graphmill.engine.contexts import Context
from graphmill.engine.function_models import FunctionEmbedder
from graphmill.engine.keywords import phrase_keywords
from graphmill.engine.modes import MODES
from graphmill.engine.question import Question
from graphmill.engine.retrieve_batch import look_up_each
from graphmill.engine.search import Search
from graphmill.engine.show_passages import show_passages
from graphmill.engine.tokenizers import TiktokenTokenizer


def stub_models() -> dict[str, Any]:
    """The models that the stub's index was made with."""
    tokenizer = TiktokenTokenizer("o200k_base")
    embedder = FunctionEmbedder(stub.embed, dimension=stub.DIM, model="stub", tokenizer=tokenizer, max_tokens=8192)
    return {"embedder": embedder, "tokenizer": tokenizer}


def measure(kb: OpenIndex, questions: Sequence[str], modes: Sequence[str] = tuple(MODES)) -> dict[str, Any]:
    """Milliseconds a question, by mode and by what is measured: alone, together, and how many times as fast."""
    return {mode: _measure(kb, questions, mode) for mode in modes}


def _measure(kb: OpenIndex, questions: Sequence[str], mode: str) -> dict[str, Any]:
    param = graphmill.QueryParam(mode=mode)
    asked = [Question.of(text, param) for text in questions]
    words = [phrase_keywords(question.text, question.language) for question in asked]

    def searches() -> list[Search]:
        return [Search(kb.index, question, param, keywords=found) for question, found in zip(asked, words, strict=True)]

    def alone(some: list[Search]) -> None:
        for search in some:
            look_up_each([search])

    def context(search: Search) -> None:
        made = Context(param.max_total_tokens)
        passages = MODES[mode](search, made)
        if passages is not None:
            deque(show_passages(search, made, passages), 0)
        made.render()

    def each(some: list[Search]) -> None:
        for search in some:
            look_up_each([search])
            context(search)

    def all_of(some: list[Search]) -> None:
        look_up_each(some)
        for search in some:
            context(search)

    look_up_each(embedded := searches())  # warms up, and leaves the vectors
    vectors = {text: vector for search in embedded for text, vector in search.found.vectors.items()}

    def with_vectors() -> list[Search]:
        some = searches()
        for search, one in zip(some, embedded, strict=True):
            search.found.vectors = {text: vectors[text] for text in one.found.vectors}
        return some

    return {
        "embed and search": _compare(searches, alone, look_up_each),
        "search": _compare(with_vectors, alone, look_up_each),
        "context": _compare(searches, each, all_of),
    }


def _compare(
    make: Callable[[], list[Search]], one: Callable[[list[Search]], None], many: Callable[[list[Search]], None]
) -> dict[str, float]:
    seconds = []
    for run in (one, many):
        some = make()
        begin = time.perf_counter()
        run(some)
        seconds.append((time.perf_counter() - begin) / len(some))
    return {"alone_ms": 1e3 * seconds[0], "together_ms": 1e3 * seconds[1], "times": seconds[0] / seconds[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--embedder", choices=["stub", "minilm"], default="stub")
    parser.add_argument("--chunks", type=int, default=5000, help="chunks of the stub's corpus, which its questions fit")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--mode", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    with graphmill.open(options.index, **(stub_models() if options.embedder == "stub" else {})) as kb:
        if options.embedder == "stub":
            questions = stub.queries(options.chunks, options.questions)
        else:
            names = kb.index.entities["name"].to_pylist()
            questions = [f"What is {names[n % len(names)]}, {n}?" for n in range(options.questions)]
        found = measure(kb, questions, options.mode)
    for mode, parts in found.items():
        told = (
            f"{what} {p['alone_ms']:.2f} / {p['together_ms']:.2f} ms ({p['times']:.1f} x)" for what, p in parts.items()
        )
        print(f"{mode}, {len(questions)} questions alone / together: {', '.join(told)}", flush=True)
    if options.out:
        params = {"questions": options.questions, "embedder": options.embedder, "seed": stub.SEED}
        document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": found}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
