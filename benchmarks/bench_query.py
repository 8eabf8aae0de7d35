"""How long does it take to find the context of a question, with the models left out, beside the peers?

    python benchmarks/bench_query.py --chunks 1000 5000 --nano-python PEER_VENV/bin/python \
        --lightrag-python OTHER_VENV/bin/python --out results/query.json

One index of the seeded stub corpus (stub.py) a size, opened once; every mode gets the same seeded questions, in turn,
after some that warm it up; "clock" is a sum of 20,000 numbers between them, by which runs can be compared. The stub
embeds a question in well under a millisecond, and that is included. Of nano-graphrag global maps its reports with an
instant model; without a model graphmill ranks them by their vectors. LightRAG, whose indexing takes minutes at 2000
chunks and grows faster than they do, is asked at up to 1000, with the keywords that an instant model names; graphmill's
phrase finder looks for them in the question. "batch" is what bench_batch.py measures.
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

import bench_batch
import machine
import stub
from bench_index import HERE, VOCABULARIES

import graphmill
from graphmill.engine.query_param import MODES

WARM_UP, CLOCK = 10, 20_000
MOST_CHUNKS = {"nano-graphrag": 10**9, "LightRAG": 1000}
SCRIPTS = {"nano-graphrag": "peers/query_nano.py", "LightRAG": "peers/query_lightrag.py"}


def measure(index: Path, num_chunks: int, num_questions: int, num_batch: int) -> dict[str, Any]:
    """Medians and 95th percentiles in milliseconds, by mode, and what a batch of questions gains."""
    begin = time.perf_counter()
    found: dict[str, Any] = {"median_ms": {}, "p95_ms": {}, "context_chars": {}}
    with graphmill.open(index, **bench_batch.stub_models()) as kb:
        found["open_s"] = round(time.perf_counter() - begin, 2)
        params = {mode: graphmill.QueryParam(mode=mode, only_need_context=True) for mode in MODES}
        seconds: dict[str, list[float]] = {mode: [] for mode in ("clock", *MODES)}
        for question in stub.queries(num_chunks, WARM_UP + num_questions):
            # In turn, so that a machine whose speed wanders is as fast for one mode as for another.
            for mode, param in params.items():
                begin = time.perf_counter()
                answer = kb.query(question, param)
                seconds[mode].append(time.perf_counter() - begin)
                found["context_chars"][mode] = len(answer.context)
            begin = time.perf_counter()
            sum(range(CLOCK))
            seconds["clock"].append(time.perf_counter() - begin)
        for mode, taken in seconds.items():
            taken = sorted(taken[WARM_UP:])
            found["median_ms"][mode] = stub.median_ms(taken)
            found["p95_ms"][mode] = round(taken[int(0.95 * len(taken))] * 1000, 2)
        if num_batch:
            found["batch"] = bench_batch.measure(kb, stub.queries(num_chunks, num_batch), ["naive", "local", "mix"])
    return found


def ask_peer(python: str, script: str, num_chunks: int, num_questions: int) -> dict[str, Any]:
    """What a peer prints, in a process and an environment of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [python, script, str(num_chunks), f"{scratch}/index", str(num_questions)]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[5000])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1000, help="questions looked up together; 0 leaves it out")
    parser.add_argument("--index", type=Path, help="index that run_graphmill.py made; left out, one is made")
    parser.add_argument("--nano-python", help="Python of an environment with nano-graphrag; left out, it is not run")
    parser.add_argument("--lightrag-python", help="likewise with lightrag-hku")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    peers = {"nano-graphrag": options.nano_python, "LightRAG": options.lightrag_python}
    peer = Path(options.nano_python).parent.parent if options.nano_python else None
    cache = sorted(peer.glob(f"lib/python3*/{VOCABULARIES}")) if peer else []
    if cache:  # all sides read tiktoken's vocabularies there
        os.environ["TIKTOKEN_CACHE_DIR"] = str(cache[0])
    metrics = []
    for size in options.chunks:
        runs = {}
        with tempfile.TemporaryDirectory() as scratch:
            index = options.index or Path(scratch) / "index"
            if not options.index:
                made = [sys.executable, "run_graphmill.py", str(size), str(index), "all"]
                subprocess.run(made, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
            runs["graphmill"] = measure(index, size, options.questions, options.batch)
        for name, python in peers.items():
            if python and size <= MOST_CHUNKS[name]:
                runs[name] = ask_peer(python, SCRIPTS[name], size, options.questions)
        metrics.append({"num_chunks": size, "runs": runs})
        for name, run in runs.items():
            print(f"{size} chunks, {name}: {run['median_ms']} ms", flush=True)
        for mode, parts in runs["graphmill"].get("batch", {}).items():
            gains = {what: f"{part['together_ms']:.2f} ms, {part['times']:.1f} x" for what, part in parts.items()}
            print(f"{size} chunks, {options.batch} questions together, {mode}: {gains}", flush=True)
    if options.out:
        params = {
            "chunks": options.chunks, "questions": options.questions, "batch": options.batch, "warm_up": WARM_UP,
            "seed": stub.SEED,
        }  # fmt: skip
        document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": metrics}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
