"""Asks nano-graphrag for context, on an index that it makes first: python query_nano.py N OUTDIR NUM_QUESTIONS."""

import json
import logging
import os
import sys
import time

import run_nano  # sets the peer up as indexing is measured with
from nano_graphrag import GraphRAG, QueryParam

stub = run_nano.stub
logging.disable(logging.WARNING)


async def points(prompt, system_prompt=None, history_messages=(), **_):
    """What the instant model says of a group of reports."""
    return stub.POINTS_JSON


def main(num_chunks, out, num_questions):
    shown, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: PTH123, SIM115
    run_nano.main(num_chunks, out)
    rag = GraphRAG(
        working_dir=out, enable_naive_rag=True, chunk_func=run_nano.cut, best_model_func=points,
        cheap_model_func=points, embedding_func=run_nano.embed,
    )  # fmt: skip
    medians, chars = {}, {}
    for mode in ("naive", "local", "global"):
        param = QueryParam(mode=mode, only_need_context=True)
        seconds = []
        for question in stub.queries(num_chunks, num_questions):
            begin = time.perf_counter()
            context = rag.query(question, param)
            seconds.append(time.perf_counter() - begin)
        medians[mode], chars[mode] = stub.median_ms(seconds), len(context or "")
    sys.stdout = shown
    print(json.dumps({"system": "nano-graphrag 0.0.8.2", "median_ms": medians, "context_chars": chars}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
