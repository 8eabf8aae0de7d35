"""How long does indexing take when the models cost nothing, beside nano-graphrag in the same run?

    python benchmarks/bench_index.py --chunks 5000 --nano-python PEER_VENV/bin/python --out results/index.json

Both sides get the same seeded stub corpus (stub.py: some 635 tokens, 12 entities and 10 relations a chunk), the same
instant oracle and hashing embedder, and count tokens with tiktoken's o200k_base; communities, reports, vectors and all
that is written to disk are included. Each run is a process of its own. "like" does what the peer does: it embeds chunks
and entities, keeps no replies and makes no lexical index; "all" is graphmill's default, which does all of that.
The peer's environment: pip install nano-graphrag==0.0.8.2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).parent
VOCABULARIES = "site-packages/litellm/litellm_core_utils/tokenizers"


def run(python: str, script: str, *arguments: str, cache: str) -> dict[str, Any]:
    """One measurement in a fresh process; its last line is JSON."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [python, str(HERE / script), arguments[0], str(Path(scratch) / "index"), *arguments[1:]]
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"TIKTOKEN_CACHE_DIR": cache}, cwd=HERE
        )
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run of median wall time."""
    return sorted(runs, key=lambda run: run["wall_s"])[len(runs) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[5000])
    parser.add_argument(
        "--nano-python", help="Python of an environment with nano-graphrag; left out, the peer is not run"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="cuda runs both, turn by turn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    # litellm, which nano-graphrag brings, ships tiktoken's vocabularies; without a network both sides read them there.
    peer = Path(options.nano_python).parent.parent if options.nano_python else None
    found = sorted(peer.glob(f"lib/python3*/{VOCABULARIES}")) if peer else []
    cache = str(found[0]) if found else os.environ.get("TIKTOKEN_CACHE_DIR", "")
    results = []
    for num_chunks in options.chunks:
        # Turn by turn, so that a machine that slows down does so for all.
        taken: dict[str, list[dict[str, Any]]] = {}
        for _ in range(options.repeats):
            for mode in ("like", "all"):
                ours = (sys.executable, "run_graphmill.py", str(num_chunks), mode)
                if options.device == "cuda":  # beside its CPU twin
                    measured = run(*ours, "cuda", cache=cache)
                    taken.setdefault(f"graphmill {mode}, cuda", []).append(measured)
                measured = run(*ours, cache=cache)
                taken.setdefault(f"graphmill {mode}", []).append(measured)
            if options.nano_python:
                measured = run(options.nano_python, "peers/run_nano.py", str(num_chunks), cache=cache)
                taken.setdefault("nano-graphrag", []).append(measured)
        rows = {name: median(runs) for name, runs in taken.items()}
        walls = {name: [one["wall_s"] for one in runs] for name, runs in taken.items()}
        if options.nano_python:
            ratios = {
                key: round(rows["nano-graphrag"][key] / rows["graphmill like"][key], 2)
                for key in ("wall_s", "without_stub_s")
            }
            print(
                f"{num_chunks} chunks: {ratios['wall_s']} times as fast as nano-graphrag, "
                f"{ratios['without_stub_s']} without the stub's own seconds",
                end="; ",
            )
        print(", ".join(f"{name} {row['wall_s']} s {row['rss_mb']} MB" for name, row in rows.items()), flush=True)
        results.append({"num_chunks": num_chunks, "runs": rows, "walls_s": walls})
    if options.out:
        document = {
            "params": {
                "chunks": options.chunks,
                "repeats": options.repeats,
                "device": options.device,
                "statistic": "run of median wall time",
                "seed": 20250101,
            },
            "machine": machine.describe(),
            "commit": machine.commit(),
            "metrics": results,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
