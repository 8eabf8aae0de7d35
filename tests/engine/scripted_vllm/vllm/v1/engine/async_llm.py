import asyncio
import os
import sys
from types import SimpleNamespace

import numpy as np


class EngineDeadError(Exception):
    pass


class Tokenizer:
    """A token a character, but that <|end|> is one where special tokens count."""

    all_special_tokens = ("<|end|>",)
    chat_template = "the one below"

    def get_added_vocab(self):
        return {"<|end|>": 1}

    def __call__(self, text, add_special_tokens=True, split_special_tokens=False):
        text = text if split_special_tokens else text.replace("<|end|>", "\x01")
        return {"input_ids": [ord(character) for character in text]}

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, **options):
        assert not tokenize
        assert add_generation_prompt
        if messages[0]["role"] == "system":
            raise ValueError("System role not supported")
        said = "".join(f"{m['role']}:{m['content']}<|end|>" for m in messages)
        return said + ("thinking" if options.get("enable_thinking", True) else "")


class Vector:
    def __init__(self, values):
        self.values = np.array(values, np.float32)

    def float(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values


class AsyncLLM:
    def __init__(self, args):
        if args.model.endswith("too-big"):
            print("INFO 11-30 nothing to see here")
            print("torch.OutOfMemoryError: CUDA out of memory", flush=True)
            raise RuntimeError("Engine core initialization failed")
        self.args = args
        self.vllm_config = SimpleNamespace(model_config=SimpleNamespace(max_model_len=args.max_model_len))
        self.num_done = 0

    @staticmethod
    def from_engine_args(args, usage_context):
        assert usage_context == "LLM_CLASS"
        return AsyncLLM(args)

    def get_tokenizer(self):
        return Tokenizer()

    async def generate(self, prompt, params, request_id, *, priority):
        text = "".join("<END>" if number == 1 else chr(number) for number in prompt["prompt_token_ids"])
        if "be slow" in text:
            await asyncio.sleep(0.3)
        if "be refused" in text:
            raise ValueError("the prompt is refused")
        if "kill yourself" in text:
            print("CUDA error: an illegal memory access was encountered", file=sys.stderr, flush=True)
            os._exit(3)
        if "lose the engine" in text:
            raise EngineDeadError("EngineCore encountered an issue")
        said = {
            "where": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "schema": getattr(params.structured_outputs, "json", 0),
        }
        answer = f"{text}|{said}|{params.max_tokens}|{os.getpid()}"
        yield SimpleNamespace(
            outputs=[SimpleNamespace(text=answer, finish_reason="stop", token_ids=[1, 2, 3])],
            num_cached_tokens=len(text) // 2,
        )

    async def encode(self, prompt, params, request_id):
        text = "".join(map(chr, prompt["prompt_token_ids"]))
        if "be refused" in text:
            raise ValueError("the text is refused")
        yield SimpleNamespace(outputs=SimpleNamespace(data=Vector([len(text), ord(text[0]), 1.0])))

    def shutdown(self):
        pass
