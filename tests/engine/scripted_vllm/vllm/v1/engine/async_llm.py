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

    def __call__(
        self, text, text_pair=None, add_special_tokens=True, split_special_tokens=False, return_offsets_mapping=False
    ):
        text = text if split_special_tokens else text.replace("<|end|>", "\x01")
        found = {"input_ids": [ord(character) for character in text]}
        if return_offsets_mapping:
            found["offset_mapping"] = [(n, n + 1) for n in range(len(text))]
        if text_pair is not None:
            second = [*map(ord, text_pair), 3]
            found["token_type_ids"] = [0] * (len(text) + 2) + [1] * len(second)
            found["input_ids"] = [2, *found["input_ids"], 3, *second]
        return found

    def apply_chat_template(self, messages, tokenize, add_generation_prompt=False, chat_template=None, **options):
        assert not tokenize
        if chat_template is not None:
            return chat_template.format(**{m["role"]: m["content"] for m in messages})
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


def score(text, params):
    """Tokens of the second text; where nothing says where it begins, minus those of all."""
    if "be no number" in text:
        return float("nan")
    extra = getattr(params, "extra_kwargs", None)
    return len(text) - extra["compressed_token_type_ids"] - 1 if extra else -len(text)


class AsyncLLM:
    def __init__(self, args):
        print("(EngineCore pid=7) WARNING 11-30 CustomError: could not use a fast path", flush=True)
        if args.model.endswith("too-big"):
            print("INFO 11-30 nothing to see here")
            print("torch.OutOfMemoryError: CUDA out of memory", flush=True)
            raise RuntimeError("Engine core initialization failed")
        self.args = args
        model_config = SimpleNamespace(
            max_model_len=args.max_model_len,
            use_sep_token="language" not in args.model,
            is_multimodal_model="images" in args.model,
            hf_config=SimpleNamespace(num_labels=2 if "two-labels" in args.model else 1),
        )
        self.vllm_config = SimpleNamespace(model_config=model_config)
        self.num_stopped = 0
        self.may_go = asyncio.Event()

    @staticmethod
    def from_engine_args(args, usage_context):
        assert usage_context == "LLM_CLASS"
        return AsyncLLM(args)

    def get_tokenizer(self):
        return Tokenizer()

    async def generate(self, prompt, params, request_id, *, priority):
        text = "".join("<END>" if number == 1 else chr(number) for number in prompt["prompt_token_ids"])
        if "let the slow go" in text:
            self.may_go.set()
        elif "be slow" in text:
            await self.may_go.wait()
        if "hang for ever" in text:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                self.num_stopped += 1
                raise
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
        answer = f"{text}|{said}|stopped: {self.num_stopped}|{params.max_tokens}|{os.getpid()}"
        if "say in three" in text and params.output_kind.name == "DELTA":
            try:
                for piece in (answer[:5], answer[5:9]):
                    yield SimpleNamespace(
                        outputs=[SimpleNamespace(text=piece, finish_reason=None, token_ids=[1])],
                        num_cached_tokens=0,
                    )
                if "then hang" in text:
                    await asyncio.sleep(600)
            except asyncio.CancelledError:
                self.num_stopped += 1
                raise
            yield SimpleNamespace(
                outputs=[SimpleNamespace(text=answer[9:], finish_reason="stop", token_ids=[3])], num_cached_tokens=0
            )
            return
        yield SimpleNamespace(
            outputs=[SimpleNamespace(text=answer, finish_reason="stop", token_ids=[1, 2, 3])],
            num_cached_tokens=len(text) // 2,
        )

    async def get_supported_tasks(self):
        return ("embed",) if "embedder" in self.args.model else ("classify", "token_classify")

    async def encode(self, prompt, params, request_id):
        text = "".join(map(chr, prompt["prompt_token_ids"]))
        assert len(text) <= self.args.max_model_len
        if "be refused" in text:
            raise ValueError("the text is refused")
        if "kill yourself" in text:
            os._exit(3)
        if "lose the engine" in text:
            raise EngineDeadError("EngineCore encountered an issue")
        if params.task == "classify":
            yield SimpleNamespace(outputs=SimpleNamespace(data=Vector([score(text, params)])))
            return
        yield SimpleNamespace(outputs=SimpleNamespace(data=Vector([len(text), ord(text[0]), 1.0])))

    def shutdown(self):
        pass
