"""Plain vLLM, for comparison: ``LLM.generate`` over whole lists of prompts, each round as it is asked for.

Run as a file by the Python of the model's environment, as vllm_worker.py is. One JSON object a line comes in on
standard input, {"args": …, "chat_template_kwargs": …} first and then {"prompts": [[message, …], …], "sampling": …} a
round; one goes out on the file descriptor given, {"ready": true} and then the round's seconds and tokens.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    out = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    lines = iter(sys.stdin.readline, "")
    setup: dict[str, Any] = json.loads(next(lines))
    from vllm import LLM, SamplingParams

    model = LLM(**setup["args"])
    tokenizer = model.get_tokenizer()
    print(json.dumps({"ready": True}), file=out)
    for line in lines:
        asked = json.loads(line)
        begin = time.perf_counter()
        prompts = [
            tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **setup["chat_template_kwargs"]
            )
            for messages in asked["prompts"]
        ]
        ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
        outputs = model.generate(
            [{"prompt_token_ids": numbers} for numbers in ids], SamplingParams(**asked["sampling"]), use_tqdm=False
        )
        seconds = time.perf_counter() - begin
        measured = {
            "seconds": seconds,
            "prompt_tokens": sum(len(output.prompt_token_ids) for output in outputs),
            "completion_tokens": sum(len(output.outputs[0].token_ids) for output in outputs),
        }
        print(json.dumps(measured), file=out)


if __name__ == "__main__":
    main()
