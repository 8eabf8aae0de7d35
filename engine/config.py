"""The settings of a run, as one frozen dataclass a section; a TOML file has the same sections and keys.

Unknown sections and keys are refused with the nearest known one, and each section checks its own bounds, so that a
mistake shows before any work.
"""

from __future__ import annotations

import difflib
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from graphmill.engine.aliases import AliasesConfig
from graphmill.engine.chunk import ChunkConfig
from graphmill.engine.cluster import ClusterConfig
from graphmill.engine.embed import EmbedConfig
from graphmill.engine.extract import ExtractConfig
from graphmill.engine.extract_claims import ClaimsConfig
from graphmill.engine.report import ReportConfig
from graphmill.engine.resolve import ResolveConfig
from graphmill.engine.summarise import SummariseConfig
from graphmill.engine.vector_index import SearchConfig


class ConfigError(ValueError):
    """A setting is unknown or out of bounds; the message names the key, the bound and the value."""


@dataclass(frozen=True)
class CorpusConfig:
    """Where the text is in files of records (jsonl, csv, parquet); by default columns of the usual names."""

    text_column: str | None = None
    id_column: str | None = None
    title_column: str | None = None


@dataclass(frozen=True)
class LLMConfig:
    """What reads and writes: "none", a folder or a hub's name that vLLM loads, a server's URL, or "replay:FILE"."""

    model: str = "none"
    max_in_flight: int | None = None
    """Most requests open at once; None takes 256 for a server, and twice max_num_seqs a replica for vLLM."""
    timeout_s: float = 600.0
    max_retries: int = 5
    context_tokens: int | None = None
    """The model's context; None asks the server."""
    api_key_env: str = "GRAPHMILL_API_KEY"
    """Name of the environment variable that holds the key; the key itself is never written anywhere."""
    args: dict[str, Any] = field(default_factory=dict)
    """vLLM's engine arguments by its own names, such as tensor_parallel_size, max_model_len or quantization."""
    chat_template_kwargs: dict[str, Any] = field(default_factory=lambda: {"enable_thinking": False})
    """Variables of the model's chat template; by default thinking is off, where a model has it."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """vLLM's sampling parameters for every request, by its own names, such as top_p."""
    python: str | None = None
    """Python of the environment that holds vLLM; None for graphmill's own."""
    replicas: int = 1
    """vLLM engines beside each other, each on its own GPUs."""
    store_replies: bool = True
    """Keep replies in the index, so that a run that changes nothing a reply depends on asks for none again."""

    def __post_init__(self) -> None:
        if self.max_in_flight is not None and self.max_in_flight < 1:
            raise ValueError(f"llm.max_in_flight must be at least 1, got {self.max_in_flight}")
        if self.replicas < 1:
            raise ValueError(f"llm.replicas must be at least 1, got {self.replicas}")
        if not 0 < self.timeout_s < math.inf:
            raise ValueError(f"llm.timeout_s must be above 0 and finite, got {self.timeout_s}")
        if self.max_retries < 0:
            raise ValueError(f"llm.max_retries must be at least 0, got {self.max_retries}")
        if self.context_tokens is not None and self.context_tokens < 1024:
            raise ValueError(f"llm.context_tokens must be at least 1024, got {self.context_tokens}")


@dataclass(frozen=True)
class EmbedderConfig:
    """The embedding model: "minilm" (packaged), a folder, "vllm:FOLDER_OR_NAME", or the URL of an OpenAI-compatible
    server."""

    model: str = "minilm"
    args: dict[str, Any] = field(default_factory=dict)
    """vLLM's engine arguments, where it runs the model."""


@dataclass(frozen=True)
class RerankerConfig:
    """What puts chunks in order for a question: "none", the URL[#MODEL] of a server that scores texts, such as vLLM
    with a cross-encoder, or "vllm:FOLDER_OR_NAME" of a cross-encoder that is run here."""

    model: str = "none"
    args: dict[str, Any] = field(default_factory=dict)
    """vLLM's engine arguments, where it runs the model here. Beside another engine on one GPU, gpu_memory_utilization
    has to leave room for that."""
    template: str | None = None
    """File with the Jinja template of question and text, where vLLM runs a language model that scores with one."""


@dataclass(frozen=True)
class CacheConfig:
    """``[cache]``: answers of a model that are kept in the index and given again."""

    answers: Literal["off", "exact", "semantic"] = "off"
    """exact: to the same question, word for word; semantic: also to one that is near, where the model says that the old
    answer serves."""
    min_similarity: float = 0.8
    """Cosine similarity from which on the model is asked about an earlier question."""
    min_score: float = 0.8
    """The model's score from 0 to 1 from which on the old answer is given."""
    max_answers: int = 10_000
    """Answers that are kept; those that were not given for the longest time make way."""

    def __post_init__(self) -> None:
        for name in ("min_similarity", "min_score"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"cache.{name} must be in [0, 1], got {getattr(self, name)}")
        if self.max_answers < 1:
            raise ValueError(f"cache.max_answers must be at least 1, got {self.max_answers}")


@dataclass(frozen=True)
class Config:
    """Everything that can be set."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    chunk: ChunkConfig = field(default_factory=ChunkConfig)
    extract: ExtractConfig = field(default_factory=ExtractConfig)
    claims: ClaimsConfig = field(default_factory=ClaimsConfig)
    aliases: AliasesConfig = field(default_factory=AliasesConfig)
    resolve: ResolveConfig = field(default_factory=ResolveConfig)
    summarise: SummariseConfig = field(default_factory=SummariseConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    llm: LLMConfig = field(default_factory=LLMConfig)
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    tokenizer: str | None = None
    """Folder or file of the tokenizer that counts; None takes the model's own, or else the embedder's."""
    device: Literal["auto", "cuda", "cpu"] = "auto"


def load_config(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Settings from a TOML file, over the defaults, and ``overrides`` ("section.key" to value) over both."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"can't read the config {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from error
    for key, value in (overrides or {}).items():
        *sections, name = key.split(".")
        section = values
        for part in sections:
            section = section.setdefault(part, {})
        before = section.get(name)
        # A table on the command line, of engine arguments, adds to the file's.
        section[name] = {**before, **value} if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    where = f"{path}: " if path is not None else ""
    return typing.cast(Config, _fill(Config, values, where, ""))


def _fill(kind: type, values: Mapping[str, Any], where: str, prefix: str) -> Any:
    hints = typing.get_type_hints(kind)
    known = [f.name for f in fields(kind)]
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        key = prefix + name
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known: {', '.join(prefix + k for k in known)}"
            raise ConfigError(f"{where}unknown setting {key}{hint}")
        hint_type = hints[name]
        if is_dataclass(hint_type):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{where}{key} is a section, got {value!r}")
            arguments[name] = _fill(typing.cast(type, hint_type), value, where, key + ".")
        else:
            arguments[name] = _convert(hint_type, value, where + key)
    try:
        return kind(**arguments)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where}{error}") from error


def _convert(kind: Any, value: Any, key: str) -> Any:
    """The value as the field's type, or a ConfigError that names the key, the type and the value."""
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        if value not in choices:
            raise ConfigError(f"{key} must be one of {', '.join(map(repr, choices))}, got {value!r}")
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        kind = next(choice for choice in choices if choice is not type(None))
        return _convert(kind, value, key)
    if origin is dict and isinstance(value, Mapping):
        return dict(value)
    if origin is tuple and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    wanted = (
        "a list of strings"
        if origin is tuple
        else "a table"
        if origin is dict
        else {"str": "a string", "int": "an integer", "bool": "true or false", "float": "a number"}.get(
            kind.__name__, kind.__name__
        )
    )
    raise ConfigError(f"{key} must be {wanted}, got {value!r}")
