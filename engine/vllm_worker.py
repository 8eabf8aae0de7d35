"""The model process: vLLM behind a socket. Run as a file by the Python of the model's environment.

That environment needs vLLM and not graphmill, so nothing here imports graphmill. A message is JSON with its length in
four bytes before it. The first one that comes in sets the engine up; then requests come in and replies go out as they
finish. The end of the socket ends the process, so that nothing is left on the GPU when the run that wanted it is gone.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import difflib
import functools
import inspect
import json
import math
import os
import re
import socket
import struct
import sys
from collections.abc import AsyncIterator
from typing import Any

LENGTH = struct.Struct("<I")
_STAND_IN = re.compile("\ue000(\\d+)\ue001")


class SetupError(Exception):
    """The engine can't be had as it was asked for; the message says why."""


class Worker:
    """One engine, one socket."""

    def __init__(self, engine: Any, tokenizer: Any, setup: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.engine, self.tokenizer, self.writer = engine, tokenizer, writer
        self.template_options = setup.get("chat_template_kwargs", {})
        self.task = setup["task"]
        self.template = setup.get("template")
        self.model_config = engine.vllm_config.model_config
        self.max_model_len: int = self.model_config.max_model_len
        self.special = re.compile("|".join(map(re.escape, tokenizer.all_special_tokens)) or "(?!)")
        self.number = 0

    async def answer(self, request: dict[str, Any]) -> None:
        """Settles one request, whatever happens to it; only the engine's own death ends the process."""
        self.number += 1
        try:
            work = {"generate": self.generate, "embed": self.embed, "score": self.score}[self.task]
            reply = await work(request)
        except Exception as error:
            if type(error).__name__ == "EngineDeadError":
                self.send({"fatal": f"the engine died: {error}"})
                await self.writer.drain()
                os._exit(1)
            reply = {"error": f"{type(error).__name__}: {error}"}
        self.send({"reply": {"id": request["id"], **reply}})

    async def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        prompt = self.prompt(request["messages"])
        room = self.max_model_len - len(prompt)
        if room < 1:
            return {"error": f"the prompt has {len(prompt)} tokens, too many for a context of {self.max_model_len}"}
        schema = request.get("schema")
        params = SamplingParams(
            max_tokens=min(request["max_tokens"], room),
            temperature=request["temperature"],
            output_kind=RequestOutputKind.DELTA if request.get("stream") else RequestOutputKind.FINAL_ONLY,
            structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
            **request.get("options", {}),
        )
        tokens, name = {"prompt_token_ids": prompt}, str(self.number)
        text, num_tokens = "", 0
        async for part in self.engine.generate(tokens, params, name, priority=request["priority"]):
            output = part.outputs[0]
            text += output.text
            num_tokens += len(output.token_ids)
            if request.get("stream") and output.text:
                self.send({"reply": {"id": request["id"], "piece": output.text}})
        return {
            "text": text,
            "finish_reason": output.finish_reason,
            "prompt_tokens": len(prompt),
            "completion_tokens": num_tokens,
            "cached_tokens": part.num_cached_tokens or 0,
        }

    async def embed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Vectors of many texts, float32, row after row."""
        import numpy as np

        rows = await asyncio.gather(*(self.embed_one(f"{self.number}-{n}", t) for n, t in enumerate(request["texts"])))
        matrix = np.asarray(rows, np.float32)
        return {"shape": matrix.shape, "vectors": base64.b64encode(matrix.tobytes()).decode()}

    async def embed_one(self, name: str, text: str) -> Any:
        from vllm import PoolingParams

        ids = self.tokenizer(text, split_special_tokens=True)["input_ids"][: self.max_model_len]
        final = await last(self.engine.encode({"prompt_token_ids": ids}, PoolingParams(task="embed"), name))
        return final.outputs.data.float().cpu().numpy()

    async def score(self, request: dict[str, Any]) -> dict[str, Any]:
        """Scores of a question's texts; null for one that can't be scored, with the reason of the first of these."""
        names = (f"{self.number}-{n}" for n in range(len(request["texts"])))
        pairs = [self.score_one(name, request["question"], t) for name, t in zip(names, request["texts"], strict=True)]
        found = await asyncio.gather(*pairs, return_exceptions=True)
        errors = [error for error in found if isinstance(error, BaseException)]
        for error in errors:
            if not isinstance(error, Exception) or type(error).__name__ == "EngineDeadError":
                raise error
        scores = [None if isinstance(score, BaseException) else score for score in found]
        return {"scores": scores, "error": f"{type(errors[0]).__name__}: {errors[0]}" if errors else ""}

    async def score_one(self, name: str, question: str, text: str) -> float:
        from vllm import PoolingParams

        inputs = self.pair(question, text)
        params = PoolingParams(task="classify")
        if types := inputs.get("token_type_ids"):
            # vLLM takes in their place where the ones begin, as its own score endpoint gives it.
            params.extra_kwargs = {"compressed_token_type_ids": types.index(1) if 1 in types else len(types)}
        final = await last(self.engine.encode({"prompt_token_ids": inputs["input_ids"]}, params, name))
        if getattr(final, "error", None):
            raise ValueError(final.error)
        score = float(final.outputs.data.float().cpu().numpy().reshape(()))
        if not math.isfinite(score):
            raise ValueError(f"the model gives {score}")
        return score

    def pair(self, question: str, text: str) -> Any:
        """The tokens of a pair. Where they are more than the context has room for, the text is cut at its end."""
        inputs = self.encode_pair(question, text)
        while (excess := len(inputs["input_ids"]) - self.max_model_len) > 0:
            tokens = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            kept = len(tokens) - excess
            text = text[: min(tokens[kept][0], len(text) - 1)] if kept > 0 else ""
            if not text.strip():
                raise ValueError(f"the question leaves no room for a text in a context of {self.max_model_len} tokens")
            inputs = self.encode_pair(question, text)
        return inputs

    def encode_pair(self, question: str, text: str) -> Any:
        """As vLLM's score endpoint puts the two together: by the template, as the tokenizer's pair, or in one."""
        if self.template:
            chat = [{"role": "query", "content": question}, {"role": "document", "content": text}]
            said = self.tokenizer.apply_chat_template(chat, chat_template=self.template, tokenize=False)
            return self.tokenizer(said)
        if self.model_config.use_sep_token:
            return self.tokenizer(text=question, text_pair=text, split_special_tokens=True)
        return self.tokenizer(question + text, split_special_tokens=True)

    async def check_scoring(self) -> str:
        """A warning about the model, or nothing; raises SetupError where it gives no scores of pairs."""
        tasks, config = sorted(await self.engine.get_supported_tasks()), self.model_config.hf_config
        if "classify" not in tasks:
            raise SetupError(
                f"the model is no cross-encoder: vLLM runs it for {', '.join(tasks)}, and scores of pairs take a model "
                "for sequence classification"
            )
        if (labels := getattr(config, "num_labels", 0)) != 1:
            raise SetupError(f"a model that scores pairs has 1 label, got one with {labels}")
        if self.template:
            return ""
        if self.model_config.is_multimodal_model:
            raise SetupError("a model that also reads images needs a template, [reranker] template")
        if not self.model_config.use_sep_token or getattr(config, "is_original_qwen3_reranker", False):
            return "a language model scores well only with the template that it was trained with: [reranker] template"
        return ""

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        """The chat as token numbers. What looks like a special token in a message is ordinary text."""
        if not getattr(self.tokenizer, "chat_template", None):
            text = "\n\n".join(message["content"] for message in messages)
            ids: list[int] = self.tokenizer(text, split_special_tokens=True)["input_ids"]
            return ids
        if not any(self.special.search(message["content"]) for message in messages):
            return self.encode(self.render(messages), False)
        # The template is rendered round stand-ins, and what stands in the messages is put to the tokenizer apart.
        rendered = self.render([{**message, "content": f"\ue000{n}\ue001"} for n, message in enumerate(messages)])
        ids = []
        for number, piece in enumerate(_STAND_IN.split(rendered)):
            is_content = number % 2 == 1
            ids += self.encode(messages[int(piece)]["content"].strip() if is_content else piece, is_content)
        return ids

    def render(self, messages: list[dict[str, str]]) -> str:
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self.template_options
            )
        except Exception:
            if len(messages) < 2 or messages[0]["role"] != "system":
                raise
            # Some templates know no system role: what it says then opens the user's message.
            first, second, *rest = messages
            return self.render([{**second, "content": f"{first['content']}\n\n{second['content']}"}, *rest])
        return text

    def encode(self, text: str, plain: bool) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, split_special_tokens=plain)["input_ids"]
        return ids

    def send(self, message: dict[str, Any]) -> None:
        send(self.writer, message)


async def last(outputs: AsyncIterator[Any]) -> Any:
    """The finished output: all before it are parts of it."""
    output = None
    async for output in outputs:  # noqa: B007
        pass
    return output


def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    writer.write(LENGTH.pack(len(data)) + data)


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None at the end."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        message: dict[str, Any] = json.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message


def make_engine(setup: dict[str, Any]) -> Any:
    """vLLM's asynchronous engine, with its own arguments by its own names."""
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as error:
        raise SetupError(
            f"vLLM can't be imported by {sys.executable}: {error}; install it there (pip install vllm), or name the "
            "Python that has it with --llm-python"
        ) from error

    arguments = setup["args"]
    known = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise SetupError(f"vLLM has no engine argument {name}{hint}")
    # As for its class LLM: vLLM then takes the scheduler's sizes for offline work, four times those of a server.
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), usage_context=UsageContext.LLM_CLASS)


async def serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    setup = await receive(reader)
    if setup is None:
        return
    try:
        engine = make_engine(setup)
        tokenizer = engine.get_tokenizer()
        tokenizer = await tokenizer if inspect.isawaitable(tokenizer) else tokenizer
        worker = Worker(engine, tokenizer, setup, writer)
        warning = await worker.check_scoring() if setup["task"] == "score" else ""
    except Exception as error:
        is_refusal = isinstance(error, SetupError)
        why = str(error) if is_refusal else f"{type(error).__name__}: {error}"
        send(writer, {"fatal": why, "refusal": is_refusal})
        await writer.drain()
        if is_refusal:
            raise SystemExit(why) from error
        raise
    import vllm

    ready: dict[str, Any] = {"version": vllm.__version__, "max_model_len": worker.max_model_len}
    if warning:
        ready["warning"] = warning
    if setup["task"] == "embed":
        ready["dimension"] = len(await worker.embed_one("dimension", "a"))
    send(writer, {"ready": ready})
    tasks: dict[str, asyncio.Task[None]] = {}
    try:
        while (message := await receive(reader)) is not None:
            if "abort" in message:
                if message["abort"] in tasks:
                    tasks[message["abort"]].cancel()  # vLLM then takes the request out of its batch
                continue
            name = message["id"]
            tasks[name] = asyncio.create_task(worker.answer(message))
            tasks[name].add_done_callback(functools.partial(tasks.pop, name))
    finally:
        engine.shutdown()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and processes that vLLM leaves behind are not waited for
