"""Indexes N stub chunks in this process and prints one JSON line: python run_graphmill.py N OUTDIR MODE [DEVICE].

MODE: "like" does what nano-graphrag does here: it embeds chunks and entities, keeps no replies and makes no lexical
index; "all", graphmill's default, does all that, and embeds relationships and reports too.
The models are instant: an oracle that reads a chunk's records out of its text, and a hashing embedder; tokens are
counted by tiktoken with the vocabulary that nano-graphrag uses.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Literal, cast

import stub

import graphmill
import graphmill.engine.build  # its import is not billed to indexing, as the peer's is not
from graphmill.engine.chunk import ChunkConfig
from graphmill.engine.config import Config, LLMConfig
from graphmill.engine.embed import EmbedConfig
from graphmill.engine.function_models import FunctionEmbedder, FunctionGenerator
from graphmill.engine.models import Request
from graphmill.engine.tokenizers import TiktokenTokenizer

ENCODING = "o200k_base"


def reply(request: Request) -> str:
    """What the oracle answers."""
    begin = time.perf_counter()
    kind = request.id.split("/")[0]
    try:
        if kind == "extract" and len(request.messages) > 1:
            kind = "glean"
            return "<|COMPLETE|>"
        prompt = request.messages[-1]["content"]
        if kind == "extract":
            entities, relations = stub.oracle(prompt)
            rows = [f'("entity"<|>"{n}"<|>"{t}"<|>"{d}")' for n, t, d in entities]
            rows += [f'("relationship"<|>"{a}"<|>"{b}"<|>"{d}"<|>{s})' for a, b, d, s in relations]
            return "##".join(rows) + "<|COMPLETE|>"
        return stub.REPORT_JSON if kind == "report" else prompt[-400:]
    finally:
        stub.METER.add(kind, begin)


def main(num_chunks: int, out: Path, mode: str, device: Literal["auto", "cuda", "cpu"] = "cpu") -> None:
    shutil.rmtree(out, ignore_errors=True)
    tokenizer = TiktokenTokenizer(ENCODING)
    tokenizer.count(["warm"])
    generator = FunctionGenerator(reply, model="oracle", context_tokens=128_000, tokenizer=tokenizer)
    embedder = FunctionEmbedder(stub.embed, dimension=stub.DIM, model="stub", tokenizer=tokenizer, max_tokens=8192)
    config = Config(
        chunk=ChunkConfig(tokens=1000, overlap=0, by="separators", separators=(stub.SEP,)),
        embed=EmbedConfig(relationships=mode == "all", reports=mode == "all", lexical=mode == "all"),
        llm=LLMConfig(store_replies=mode == "all"),
        device=device,
    )
    documents = [(f"doc-{n:06d}.txt", text) for n, text in enumerate(stub.make_corpus(num_chunks))]
    cpu, _ = stub.usage()
    begin = time.perf_counter()
    summary = graphmill.index(documents, out, generator, embedder, tokenizer, config)
    wall = time.perf_counter() - begin
    cpu, rss = stub.usage()[0] - cpu, stub.usage()[1]
    metered = stub.METER.report()
    stub_s = sum(metered["secs"].values())
    print(
        json.dumps(
            {
                "system": f"graphmill {graphmill.__version__} ({mode})",
                "num_chunks": summary["chunks"],
                "wall_s": round(wall, 2),
                "without_stub_s": round(wall - stub_s, 2),
                "cpu_s": round(cpu, 2),
                "rss_mb": round(rss),
                "phases_s": summary["seconds"],
                "stub": metered,
                "entities": summary["entities"],
                "relationships": summary["relationships"],
                "communities": summary["communities"],
                "levels": summary["communities_by_level"],
                "disk_mb": stub.du_mb(out),
            }
        )
    )


if __name__ == "__main__":
    mode, device = (sys.argv[3:] + ["all", "cpu"][len(sys.argv) - 3 :])[:2]
    main(int(sys.argv[1]), Path(sys.argv[2]), mode, cast(Literal["cuda", "cpu"], device))
