"""How long does it take to find the context of a question, with the models left out, beside nano-graphrag?

    python benchmarks/bench_query.py --chunks 5000 --nano-python PEER_VENV/bin/python --out results/query.json

One index of the seeded stub corpus (stub.py), opened once; every mode gets the same seeded questions, one after the
other, after some that warm it up. The stub embeds a question in well under a millisecond, and that is included. Of
nano-graphrag global maps its reports with an instant model; without a model graphmill ranks them by their vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import stub
from bench_index import HERE, VOCABULARIES

import graphmill
from graphmill.engine.function_models import FunctionEmbedder
from graphmill.engine.query_param import MODES
from graphmill.engine.tokenizers import TiktokenTokenizer

WARM_UP = 10


def measure(index: Path, num_chunks: int, num_questions: int) -> dict[str, Any]:
    """Medians and 95th percentiles in milliseconds, by mode."""
    tokenizer = TiktokenTokenizer("o200k_base")
    embedder = FunctionEmbedder(stub.embed, dimension=stub.DIM, model="stub", tokenizer=tokenizer, max_tokens=8192)
    begin = time.perf_counter()
    found: dict[str, Any] = {"median_ms": {}, "p95_ms": {}, "context_chars": {}}
    with graphmill.open(index, None, None, embedder, tokenizer) as kb:
        found["open_s"] = round(time.perf_counter() - begin, 2)
        for mode in (mode for mode in MODES if mode != "bypass"):
            param = graphmill.QueryParam(mode=mode, only_need_context=True)
            seconds = []
            for question in stub.queries(num_chunks, WARM_UP + num_questions):
                begin = time.perf_counter()
                answer = kb.query(question, param)
                seconds.append(time.perf_counter() - begin)
            seconds = sorted(seconds[WARM_UP:])
            found["median_ms"][mode] = stub.median_ms(seconds)
            found["p95_ms"][mode] = round(seconds[int(0.95 * len(seconds))] * 1000, 2)
            found["context_chars"][mode] = len(answer.context)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--index", type=Path, help="index that run_graphmill.py made; left out, one is made")
    parser.add_argument("--nano-python", help="Python of an environment with nano-graphrag; left out, it is not run")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    peer = Path(options.nano_python).parent.parent if options.nano_python else None
    cache = sorted(peer.glob(f"lib/python3*/{VOCABULARIES}")) if peer else []
    if cache:  # both sides read tiktoken's vocabularies there
        os.environ["TIKTOKEN_CACHE_DIR"] = str(cache[0])
    runs = {}
    with tempfile.TemporaryDirectory() as scratch:
        index = options.index or Path(scratch) / "index"
        if not options.index:
            made = [sys.executable, "run_graphmill.py", str(options.chunks), str(index), "all"]
            subprocess.run(made, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
        runs["graphmill"] = measure(index, options.chunks, options.questions)
        if options.nano_python:
            asked = ["peers/query_nano.py", str(options.chunks), f"{scratch}/nano", str(options.questions)]
            done = subprocess.run(
                [options.nano_python, *asked], cwd=HERE, check=True, stdout=subprocess.PIPE, text=True
            )
            runs["nano-graphrag"] = json.loads(done.stdout.strip().splitlines()[-1])
    for name, run in runs.items():
        print(f"{options.chunks} chunks, {name}: {run['median_ms']} ms", flush=True)
    if options.out:
        params = {"chunks": options.chunks, "questions": options.questions, "warm_up": WARM_UP, "seed": stub.SEED}
        document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": runs}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
