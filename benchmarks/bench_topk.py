"""How near does exact top-k come to reading the matrix once, and what do others take for the same?

    python benchmarks/bench_topk.py --device cuda --n 5000000 --out results/topk_cuda.json
    python benchmarks/bench_topk.py --device cpu --out results/topk_cpu.json

On a GPU, by CUDA events: kernels.topk_triton (float16, and int8 codes), cuVS brute force, torch's matmul and topk, and
half of a copy of the matrix. On a CPU: kernels.topk, faiss and NumPy, and the matrix's maximum. Milliseconds, medians.
``--plan rows=128,warps=8`` tries another plan of the Triton programs beside the default.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numpy as np

from graphmill.kernels import topk_matmul, topk_triton
from graphmill.kernels.topk import topk

Runs = dict[str, Callable[[], Any]]


def on_cuda(options: argparse.Namespace) -> tuple[float, Callable[[int], Runs]]:
    import torch

    random = torch.Generator("cuda").manual_seed(options.seed)
    matrix = torch.empty((options.n, options.d), dtype=torch.float16, device="cuda")
    for part in matrix.split(1 << 18):
        part.copy_(torch.nn.functional.normalize(torch.randn(part.shape, generator=random, device="cuda")))
    spare = [torch.empty_like(matrix)]
    read_once = timed(lambda: spare[0].copy_(matrix), options) / 2
    spare.clear()
    coded, index = topk_triton.encode(matrix), None
    if find_spec("cuvs"):
        from cuvs.neighbors import brute_force

        index = brute_force.build(matrix, metric="inner_product")

    def runs(q: int) -> Runs:
        queries = torch.randn((q, options.d), generator=random, device="cuda")
        half = queries.half()
        found: Runs = {
            "graphmill": lambda: topk_triton.search(queries, matrix, options.k),
            "graphmill int8": lambda: topk_triton.search(queries, coded, options.k),
            "torch": lambda: (half @ matrix.T).topk(options.k),
        }
        if q > 1:
            found["graphmill by product"] = lambda: topk_matmul.search(queries, matrix, options.k)
        if index is not None:
            found["cuVS"] = lambda: brute_force.search(index, half, options.k)
        processors = torch.cuda.get_device_properties("cuda").multi_processor_count
        base = topk_triton.make_plan(q, options.n, options.d, options.k, 2, processors)
        for text in options.plan:
            plan = replace(base, **{key: int(value) for key, value in (pair.split("=") for pair in text.split(","))})
            found[text] = lambda plan=plan: topk_triton.search(queries, matrix, options.k, None, plan)
        return found

    return read_once, runs


def on_cpu(options: argparse.Namespace) -> tuple[float, Callable[[int], Runs]]:
    random = np.random.default_rng(options.seed)
    matrix = random.standard_normal((options.n, options.d), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    half, index = matrix.astype(np.float16), None
    if find_spec("faiss"):
        import faiss

        index = faiss.IndexFlatIP(options.d)
        index.add(matrix)

    def runs(q: int) -> Runs:
        queries = random.standard_normal((q, options.d), dtype=np.float32)
        found: Runs = {
            "graphmill": lambda: topk(queries, matrix, options.k),
            "graphmill float16": lambda: topk(queries, half, options.k),
            "NumPy": lambda: np.argpartition(queries @ matrix.T, -options.k, axis=1)[:, -options.k :],
        }
        return found if index is None else found | {"faiss": lambda: index.search(queries, options.k)}

    return timed(matrix.max, options), runs


def timed(run: Callable[[], Any], options: argparse.Namespace) -> float:
    """Milliseconds, median: by CUDA events, or by the clock."""
    taken = []
    for number in range(options.warm_up + options.repeats):
        if options.device == "cuda":
            import torch

            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            passed = begin.elapsed_time(end)
        else:
            start = time.perf_counter()
            run()
            passed = (time.perf_counter() - start) * 1e3
        taken += [passed] if number >= options.warm_up else []
    return median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    for name, value in (("n", 200_000), ("d", 384), ("k", 10), ("warm-up", 3), ("repeats", 20), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--plan", action="append", default=[], metavar="KEY=VALUE,...")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    read_once, runs = (on_cuda if options.device == "cuda" else on_cpu)(options)
    metrics: dict[str, Any] = {"read once": read_once}
    print(f"reading the matrix once: {read_once:.3f} ms")
    for q in options.queries:
        metrics[f"{q} queries"] = taken = {name: timed(run, options) for name, run in runs(q).items()}
        print(f"{q} queries:", ", ".join(f"{name} {ms:.3f} ms ({read_once / ms:.0%})" for name, ms in taken.items()))
    params = {key: value for key, value in vars(options).items() if key != "out"}
    document = {"params": params, "machine": machine.describe(), "commit": machine.commit(), "metrics": metrics}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
