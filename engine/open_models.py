"""Models by what a person writes for them: a name, a folder, a server's URL, or a recording."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from graphmill.engine.models import Embedder, Generator, Tokenizer

if TYPE_CHECKING:
    from graphmill.engine.server import Server
    from graphmill.engine.vllm_generator import VLLMOptions

MINILM_NAMES = frozenset({"minilm", "all-minilm-l6-v2"})
_SCHEMES = ("http://", "https://")
_HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+")
_VLLM = "vllm:"


class UnknownModelError(ValueError):
    """What was written names no model that can be opened; the message says what can be."""


def open_generator(
    spec: str,
    *,
    max_in_flight: int | None = None,
    timeout_s: float = 600.0,
    max_retries: int = 5,
    context_tokens: int | None = None,
    api_key_env: str = "GRAPHMILL_API_KEY",
    vllm: VLLMOptions | None = None,
    warn: Callable[[str], None] = lambda message: None,
    note: Callable[[str], None] = lambda message: None,
) -> Generator | None:
    """The language model of "none", a folder or a hub's name, "http://HOST:PORT/v1[#MODEL]", or "replay:FILE"; None for
    "none".

    vllm  how a model of ours is run
    warn  is told what a person should know
    note  is told of what takes long
    Raises UnknownModelError for anything else, and ServerError where a server does not answer.
    """
    spec = spec.strip()
    if spec.lower() in ("", "none"):
        return None
    if spec.startswith("replay:"):
        from graphmill.engine.replay import ReplayGenerator

        recording = Path(spec.removeprefix("replay:"))
        if not recording.exists():
            raise UnknownModelError(f"no recording at {recording}: there is no such file or folder")
        file = spec.removeprefix("replay:")
        return ReplayGenerator(file, context_tokens=context_tokens, max_in_flight=max_in_flight or 256)
    if spec.lower().startswith(_SCHEMES):
        from graphmill.engine.openai_generator import OpenAIGenerator

        url, model = _split(spec)
        return OpenAIGenerator(
            url,
            model,
            api_key_env=api_key_env,
            max_in_flight=max_in_flight or 256,
            timeout_s=timeout_s,
            max_retries=max_retries,
            context_tokens=context_tokens,
            warn=warn,
        )
    if (Path(spec) / "config.json").is_file() or (_HUB_NAME.fullmatch(spec) and not Path(spec).exists()):
        from graphmill.engine.vllm_generator import VLLMGenerator

        return VLLMGenerator(
            spec, vllm, context_tokens=context_tokens, max_in_flight=max_in_flight, warn=warn, note=note
        )
    raise UnknownModelError(
        f"can't open the language model {spec!r}: expected none, a folder with config.json, a name on a model hub "
        "(OWNER/NAME), the address of a server, http://HOST:PORT/v1[#MODEL], or replay:FILE"
    )


def open_embedder(
    spec: str = "minilm",
    *,
    device: Literal["auto", "cuda", "cpu"] = "auto",
    api_key_env: str = "GRAPHMILL_API_KEY",
    tokenizer: Tokenizer | None = None,
    vllm_args: Mapping[str, Any] | None = None,
    vllm_python: str | None = None,
    warn: Callable[[str], None] = lambda message: None,
) -> Embedder:
    """The embedding model of "minilm", "http://HOST:PORT/v1[#MODEL]", a folder, or "vllm:FOLDER_OR_NAME".

    A server's texts are measured by ``tokenizer``, else by its own /tokenize, else by the packaged model's.
    """
    from graphmill.engine import minilm

    spec = spec.strip()
    if spec.lower() in MINILM_NAMES:
        return minilm.MiniLM(device=device)
    if spec.lower().startswith(_SCHEMES):
        from graphmill.engine.openai_embedder import OpenAIEmbedder
        from graphmill.engine.server import Server

        url, model = _split(spec)
        if tokenizer is None:
            server = Server(url, api_key_env=api_key_env)
            tokenizer = _server_tokenizer(server, model) or packaged_tokenizer()
        return OpenAIEmbedder(url, tokenizer, model, api_key_env=api_key_env)
    if spec.lower().startswith(_VLLM):
        from graphmill.engine.tokenizers import HFTokenizer
        from graphmill.engine.vllm_embedder import VLLMEmbedder

        model = spec[len(_VLLM) :]
        own = HFTokenizer(model) if (Path(model) / "tokenizer.json").is_file() else packaged_tokenizer()
        return VLLMEmbedder(model, own, vllm_args, python=vllm_python, warn=warn)
    if Path(spec).is_dir():
        return minilm.TransformersEmbedder(spec, device=device)
    raise UnknownModelError(
        f"can't open the embedding model {spec!r}: expected minilm, a folder with config.json and tokenizer.json, "
        "vllm:FOLDER_OR_NAME, or the address of a server, http://HOST:PORT/v1[#MODEL]"
    )


def open_tokenizer(path: str | None, generator: Generator | None, embedder: Embedder) -> Tokenizer:
    """The tokenizer to count with: that of ``path``, else the reading model's, else the embedder's if it is local.

    path  a tokenizer.json, a folder that holds one, or "tiktoken:NAME"
    A model server is asked whether it has /tokenize; where it has not, the packaged embedder's tokenizer counts.
    """
    from graphmill.engine.openai_generator import OpenAIGenerator
    from graphmill.engine.tokenizers import HFTokenizer, TiktokenTokenizer

    if path is not None:
        name = path.removeprefix("tiktoken:")
        return HFTokenizer(path) if name == path else TiktokenTokenizer(name)
    if generator is not None and generator.tokenizer is not None:
        return generator.tokenizer
    if isinstance(generator, OpenAIGenerator):
        generator.tokenizer = _server_tokenizer(generator.server, generator.model)
        if generator.tokenizer is not None:
            return generator.tokenizer
    return embedder.tokenizer


def packaged_tokenizer() -> Tokenizer:
    """The tokenizer that comes with the default embedder."""
    from graphmill.engine.minilm import minilm_folder
    from graphmill.engine.tokenizers import HFTokenizer

    return HFTokenizer(minilm_folder(), name="all-MiniLM-L6-v2")


def _server_tokenizer(server: Server, model: str | None) -> Tokenizer | None:
    from graphmill.engine.server_tokenizer import ServerTokenizer

    tokenizer = ServerTokenizer(server, model)
    try:
        if tokenizer.is_there():
            return tokenizer
    except BaseException:
        tokenizer.close()
        raise
    tokenizer.close()
    return None


def _split(spec: str) -> tuple[str, str | None]:
    url, _, model = spec.partition("#")
    return url, model or None
