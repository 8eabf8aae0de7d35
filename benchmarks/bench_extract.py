"""How much of the model's own speed does extraction keep? Plain vLLM, graphmill's extraction stage, and a peer's.

    python benchmarks/bench_extract.py MODEL --nano-python PEER_VENV/bin/python --out results/extract.json

(a) ``LLM.generate`` over all prompts at once, (b) graphmill's whole extraction stage over the same prompts, its tables
and kept replies written to disk; (c) nano-graphrag's own extract_entities, 16 calls at once as it
comes, against ``vllm serve`` of the same model with the same arguments: the same texts, with the profile's
instructions in the place of its own.
Replies have a fixed length (ignore_eos), and no side's time holds the loading of the model. (b)/(a) is the median over
pairs.
The peer's environment: pip install nano-graphrag==0.0.8.2.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

from graphmill.engine.profiles import load_profile, messages
from graphmill.engine.tokenizers import HFTokenizer
from graphmill.jobs.bench import Workload, texts_of_round
from graphmill.jobs.llm_args import llm_args

HERE = Path(__file__).parent
TEXT = "\ue000text\ue000"
"""Stands for the text until the peer's own placeholder does."""


def graphmill(options: argparse.Namespace) -> dict[str, Any]:
    """(a) and (b), by the command that anyone can run."""
    command = [
        sys.executable,
        "-c",
        "from graphmill.jobs.cli import main; main()",
        "bench",
        "extract",
        options.model,
        "--json",
    ]
    for name in ("num_prompts", "prompt_tokens", "output_tokens", "repeats"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    command += ["--profile", options.profile]
    command += [part for pair in options.llm_arg for part in ("--llm-arg", pair)]
    command += ["--llm-python", options.llm_python] if options.llm_python else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def nano(options: argparse.Namespace) -> dict[str, Any]:
    """(c): seconds of each round."""
    work = Workload(options.num_prompts, options.prompt_tokens, options.output_tokens, options.profile, options.repeats)
    tokenizer = HFTokenizer(options.model)
    rounds = [texts_of_round(work, tokenizer, number) for number in range(options.repeats + 1)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--port", str(port), "--host", "127.0.0.1", "--served-model-name", "model", "--enable-prefix-caching"]
    for name, value in (llm_args(options.llm_arg) or {}).items():
        flag = f"--{name.replace('_', '-')}"
        arguments += [flag] if value is True else [] if value is False else [f"{flag}={value}"]
    with tempfile.TemporaryDirectory() as scratch:
        texts = Path(scratch) / "texts.json"
        prompt = "\n\n".join(m["content"] for m in messages(load_profile(options.profile, "en"), TEXT))
        prompt = prompt.replace("{", "{{").replace("}", "}}").replace(TEXT, "{input_text}")
        asked = {"rounds": rounds, "output_tokens": options.output_tokens, "prompt": prompt}
        texts.write_text(json.dumps(asked))
        with (Path(scratch) / "server.log").open("w+") as log:
            python = options.llm_python or sys.executable
            command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", options.model, *arguments]
            server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            try:
                while socket.socket().connect_ex(("127.0.0.1", port)):
                    if server.poll() is not None:
                        log.seek(0)
                        raise SystemExit(f"vllm serve ended:\n{log.read()[-2000:]}")
                    time.sleep(0.5)
                done = subprocess.run(
                    [
                        options.nano_python,
                        str(HERE / "peers" / "extract_nano.py"),
                        f"http://127.0.0.1:{port}/v1",
                        str(texts),
                    ],
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
            finally:
                os.killpg(server.pid, signal.SIGKILL)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder with the model's files")
    parser.add_argument("--num-prompts", type=int, default=48)
    parser.add_argument("--prompt-tokens", type=int, default=300)
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", default="graphrag", help="a packaged profile or a TOML file; short.toml is short")
    parser.add_argument("--llm-arg", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--llm-python", help="Python of the environment that holds vLLM")
    parser.add_argument("--nano-python", help="Python of an environment with nano-graphrag; left out, it is not run")
    parser.add_argument("--out", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    result = graphmill(options)
    document = {"machine": machine.describe(), "commit": machine.commit(), "seed": 0, "extract": result}
    print(f"graphmill / plain vLLM: {result['ratio']} ({result['prompts_per_s']} prompts/s)", flush=True)
    if options.nano_python:
        document["nano-graphrag"] = taken = nano(options)
        rate = options.num_prompts / sorted(taken["seconds"])[len(taken["seconds"]) // 2]
        print(f"nano-graphrag 0.0.8.2 through vllm serve: {rate:.2f} prompts/s")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
