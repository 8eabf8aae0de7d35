"""nano-graphrag's own extract_entities over rounds of texts against a server: python extract_nano.py URL TEXTS.json.

Run by bench_extract.py in the peer's environment. No gleaning, replies of a fixed length, and as many calls at once as
the peer makes by default. Prints one JSON line: seconds of each round after the first, which warms up.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import nano_graphrag._op as op
from nano_graphrag import GraphRAG
from nano_graphrag._utils import compute_mdhash_id
from openai import AsyncOpenAI

DEFAULTS = {field.name: field.default for field in GraphRAG.__dataclass_fields__.values()}


class Graph:
    """Keeps what is merged in memory."""

    def __init__(self):
        self.nodes, self.edges = {}, {}

    async def get_node(self, name):
        return self.nodes.get(name)

    async def has_node(self, name):
        return name in self.nodes

    async def upsert_node(self, name, node_data):
        self.nodes[name] = node_data

    async def has_edge(self, source, target):
        return (source, target) in self.edges

    async def get_edge(self, source, target):
        return self.edges.get((source, target))

    async def upsert_edge(self, source, target, edge_data):
        self.edges[source, target] = edge_data


async def main(url, texts):
    work = json.loads(Path(texts).read_text())
    op.PROMPTS["entity_extraction"] = work["prompt"]
    client = AsyncOpenAI(base_url=url, api_key="none", timeout=3600)
    calls = asyncio.Semaphore(DEFAULTS["best_model_max_async"])
    completion_tokens = 0

    async def model(prompt, system_prompt=None, history_messages=(), **_):
        nonlocal completion_tokens
        async with calls:
            answer = await client.chat.completions.create(
                model="model",
                messages=[*history_messages, {"role": "user", "content": prompt}],
                temperature=0.0,
                max_tokens=work["output_tokens"],
                extra_body={"ignore_eos": True},
            )
        completion_tokens += answer.usage.completion_tokens
        return answer.choices[0].message.content

    config = {"best_model_func": model, "cheap_model_func": model, "entity_extract_max_gleaning": 0,
              "cheap_model_max_token_size": 32768, "entity_summary_to_max_tokens": 500,
              "tiktoken_model_name": "gpt-4o"}  # fmt: skip
    seconds = []
    for round_ in work["rounds"]:
        chunks = {
            compute_mdhash_id(text): {"content": text, "tokens": 0, "chunk_order_index": n, "full_doc_id": str(n)}
            for n, text in enumerate(round_)
        }
        begin = time.perf_counter()
        await op.extract_entities(chunks, Graph(), None, config)
        seconds.append(round(time.perf_counter() - begin, 3))
    print(json.dumps({"system": "nano-graphrag 0.0.8.2", "seconds": seconds[1:], "completion_tokens": completion_tokens,
                      "calls_at_once": DEFAULTS["best_model_max_async"]}))  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
