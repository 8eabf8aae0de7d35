"""Asks LightRAG for context, on an index that it makes first: python query_lightrag.py N OUTDIR NUM_QUESTIONS.

Run by bench_query.py in the peer's own environment, with lightrag-hku 1.5.7. It gets the chunks as they are, the same
oracle and the same embedder as graphmill, the keywords that a perfect model would name, and no limit on calls at once.
"""

import asyncio
import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import stub
from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc

logging.disable(logging.WARNING)
NO_LIMIT, AT_ONCE = 256, 8


def keyword_model(pairs):
    """What the instant model says: keywords of a question that is known, and what the oracle reads elsewhere."""

    async def model(prompt, system_prompt=None, history_messages=None, **_):
        for question, (one, other) in pairs.items() if "keyword" in prompt[:200].lower() else ():
            if question in prompt:
                return json.dumps({"high_level_keywords": [f"{one} and {other}"], "low_level_keywords": [one, other]})
        if history_messages:
            return "<|COMPLETE|>"
        entities, relations = stub.oracle(prompt)
        if not entities:
            return prompt[-400:]
        rows = [f"entity<|#|>{n}<|#|>{t}<|#|>{d}" for n, t, d in entities]
        rows += [f"relation<|#|>{a}<|#|>{b}<|#|>partnership<|#|>{d}" for a, b, d, _ in relations]
        return "\n".join(rows) + "\n<|COMPLETE|>"

    return model


async def embed(texts):
    return stub.embed(texts)


def cut(tokenizer, content, *_, **__):
    """The stub's own chunks."""
    return [{"tokens": 640, "content": c, "chunk_order_index": n} for n, c in enumerate(content.split(stub.SEP))]


async def ask(num_chunks, out, num_questions, modes):
    questions, pairs = stub.queries(num_chunks, num_questions), stub.query_pairs(num_chunks, num_questions)
    rag = LightRAG(
        working_dir=out, llm_model_func=keyword_model(dict(zip(questions, pairs, strict=True))), chunking_func=cut,
        llm_model_max_async=NO_LIMIT, embedding_func_max_async=NO_LIMIT, max_parallel_insert=AT_ONCE,
        embedding_func=EmbeddingFunc(embedding_dim=stub.DIM, max_token_size=8192, func=embed),
    )  # fmt: skip
    await rag.initialize_storages()
    documents = stub.make_corpus(num_chunks)
    await rag.ainsert(documents, file_paths=[f"doc{n}.txt" for n in range(len(documents))])
    medians, chars = {}, {}
    for mode in modes:
        param = QueryParam(mode=mode, only_need_context=True, enable_rerank=False)
        seconds = []
        for question in questions:
            begin = time.perf_counter()
            context = await rag.aquery(question, param)
            seconds.append(time.perf_counter() - begin)
        medians[mode], chars[mode] = stub.median_ms(seconds), len(str(context or ""))
    await rag.finalize_storages()
    return {"system": "lightrag-hku 1.5.7", "median_ms": medians, "context_chars": chars}


def main(num_chunks, out, num_questions):
    shutil.rmtree(out, ignore_errors=True)
    shown, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: PTH123, SIM115
    found = asyncio.run(ask(num_chunks, out, num_questions, ("mix",)))
    sys.stdout = shown
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
