"""Indexes N stub chunks with nano-graphrag 0.0.8.2 in this process and prints one JSON line (N OUTDIR).

Run by bench_index.py in the peer's own environment. The peer gets the chunks as they are, the same replies and the same
embedder as graphmill, and no limit on calls at once, so that nothing waits.
"""

import asyncio
import json
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import graspologic.partition
import graspologic.utils  # noqa: F401  (so that its import is not billed to clustering)
import nano_graphrag._op as op
import stub
from nano_graphrag import GraphRAG
from nano_graphrag._utils import wrap_embedding_func_with_attrs

FIELD, RECORD, END = (op.PROMPTS[f"DEFAULT_{name}_DELIMITER"] for name in ("TUPLE", "RECORD", "COMPLETION"))
NO_LIMIT = 10**6


async def model(prompt, system_prompt=None, history_messages=(), **_):
    """What the oracle answers."""
    begin, kind = time.perf_counter(), "summary"
    try:
        if prompt.startswith("-Goal-"):
            kind = "extract"
            entities, relations = stub.oracle(prompt)
            rows = [f'("entity"{FIELD}"{n}"{FIELD}"{t}"{FIELD}"{d}")' for n, t, d in entities]
            rows += [f'("relationship"{FIELD}"{a}"{FIELD}"{b}"{FIELD}"{d}"{FIELD}{s})' for a, b, d, s in relations]
            return RECORD.join(rows) + END
        if history_messages:
            kind = "glean"
            return END
        if "community" in prompt[:400].lower():
            kind = "report"
            return stub.REPORT_JSON
        at = prompt.find("Description List:")
        return prompt[at + 18 : at + 400]
    finally:
        stub.METER.add(kind, begin)


@wrap_embedding_func_with_attrs(embedding_dim=stub.DIM, max_token_size=8192)
async def embed(texts):
    return stub.embed(texts)


def cut(tokens_list, doc_keys, tiktoken_model, overlap_token_size=0, max_token_size=0):
    """The stub's own chunks."""
    texts = zip(doc_keys, tiktoken_model.decode_batch(tokens_list), strict=True)
    return [
        {"tokens": 640, "content": chunk, "chunk_order_index": number, "full_doc_id": key}
        for key, text in texts
        for number, chunk in enumerate(text.split(stub.SEP))
    ]


def main(num_chunks, out):
    shutil.rmtree(out, ignore_errors=True)
    rag = GraphRAG(
        working_dir=out, enable_naive_rag=True, chunk_func=cut, best_model_func=model, cheap_model_func=model,
        best_model_max_async=NO_LIMIT, cheap_model_max_async=NO_LIMIT, embedding_func_max_async=NO_LIMIT,
        embedding_func=embed,
    )  # fmt: skip
    documents = stub.make_corpus(num_chunks)
    shown, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: PTH123, SIM115
    cpu, _ = stub.usage()
    begin = time.perf_counter()
    rag.insert(documents)
    wall = time.perf_counter() - begin
    sys.stdout = shown
    used, rss = stub.usage()
    metered = stub.METER.report()
    graph = rag.chunk_entity_relation_graph._graph
    communities = asyncio.run(rag.chunk_entity_relation_graph.community_schema())
    result = {
        "system": "nano-graphrag 0.0.8.2",
        "num_chunks": num_chunks,
        "wall_s": round(wall, 2),
        "without_stub_s": round(wall - sum(metered["secs"].values()), 2),
        "cpu_s": round(used - cpu, 2),
        "rss_mb": round(rss),
        "stub": metered,
        "entities": graph.number_of_nodes(),
        "relationships": graph.number_of_edges(),
        "communities": len(communities),
        "disk_mb": stub.du_mb(out),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
