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
import inspect
import json
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
        self.max_model_len: int = engine.vllm_config.model_config.max_model_len
        self.special = re.compile("|".join(map(re.escape, tokenizer.all_special_tokens)) or "(?!)")
        self.number = 0

    async def answer(self, request: dict[str, Any]) -> None:
        """Settles one request, whatever happens to it; only the engine's own death ends the process."""
        self.number += 1
        try:
            work = self.generate(request) if self.task == "generate" else self.embed(request)
            reply = await work
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
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
            **request.get("options", {}),
        )
        tokens, name = {"prompt_token_ids": prompt}, str(self.number)
        final = await last(self.engine.generate(tokens, params, name, priority=request["priority"]))
        output = final.outputs[0]
        return {
            "text": output.text,
            "finish_reason": output.finish_reason,
            "prompt_tokens": len(prompt),
            "completion_tokens": len(output.token_ids),
            "cached_tokens": final.num_cached_tokens or 0,
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
    except Exception as error:
        why = str(error) if isinstance(error, SetupError) else f"{type(error).__name__}: {error}"
        send(writer, {"fatal": why})
        await writer.drain()
        if isinstance(error, SetupError):
            raise SystemExit(why) from error
        raise
    import vllm

    ready: dict[str, Any] = {"version": vllm.__version__, "max_model_len": worker.max_model_len}
    if setup["task"] == "embed":
        ready["dimension"] = len(await worker.embed_one("dimension", "a"))
    send(writer, {"ready": ready})
    tasks: set[asyncio.Task[None]] = set()
    try:
        while (message := await receive(reader)) is not None:
            task = asyncio.create_task(worker.answer(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        engine.shutdown()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and processes that vLLM leaves behind are not waited for
