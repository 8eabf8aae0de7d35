"""Options that several commands take: what each is called, and what its help says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Index = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Embedder = Annotated[
    str | None,
    typer.Option(help="Embedding model: minilm (packaged), a folder, vllm:FOLDER_OR_NAME, or a server's URL[#model]."),
]
LLM = Annotated[
    str | None,
    typer.Option(
        "--llm", help="Model: none, a folder or hub name for vLLM, the URL[#model] of a server, or replay:FILE."
    ),
]
LLMArg = Annotated[
    list[str] | None,
    typer.Option(
        "--llm-arg",
        metavar="KEY=VALUE",
        help="Engine argument of vLLM by its own name, such as max_model_len=8192; may be given again.",
    ),
]
LLMPython = Annotated[
    str | None, typer.Option("--llm-python", help="Python of the environment that holds vLLM. [default: this one]")
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings; the options here win over it.")
]
Device = Annotated[str | None, typer.Option(help="auto, cuda or cpu; cuda never falls back.")]
Mode = Annotated[
    str,
    typer.Option(
        help="naive, local, global, keywords-local, keywords-global, hybrid, mix, drift or bypass (no index)."
    ),
]
OnlyContext = Annotated[bool, typer.Option("--only-need-context", help="Print what the model would be given.")]
OnlyPrompt = Annotated[bool, typer.Option("--only-need-prompt", help="Print the whole prompt.")]
TopK = Annotated[int | None, typer.Option(help="Entities, relationships and chunks that are looked up, of each.")]
MaxTotalTokens = Annotated[int | None, typer.Option(help="Most tokens of the whole prompt.")]
HighLevel = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="A keyword for relationships, in place of the question's; may be given again."),
]
LowLevel = Annotated[
    list[str] | None,
    typer.Option(metavar="WORD", help="A keyword for entities, in place of the question's; may be given again."),
]
Level = Annotated[int | None, typer.Option(help="Deepest level of communities used; 0 is the coarsest.")]
ResponseType = Annotated[str | None, typer.Option(help='Form of the answer, such as "Single Sentence".')]
UserPrompt = Annotated[str | None, typer.Option(help="Further instructions about the answer.")]
Permissive = Annotated[bool, typer.Option("--permissive", help="Allow knowledge from outside the index, marked.")]
Lexical = Annotated[
    bool | None,
    typer.Option("--lexical/--no-lexical", help="Fuse word search with the vectors. [default: by language]"),
]
Reranker = Annotated[
    str | None,
    typer.Option(
        help="What puts chunks in order: none, vllm:FOLDER_OR_NAME of a cross-encoder, or the URL[#model] of a server."
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        help="Answers that are kept and given again: off, exact (the same question), or semantic (also one that the "
        "model says asks the same). [default: off]"
    ),
]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def model_settings(
    llm: str | None,
    llm_arg: list[str] | None,
    llm_python: str | None,
    embedder: str | None,
    reranker: str | None,
    cache: str | None = None,
) -> Mapping[str, Any]:
    """Settings that the options for models stand for, those that were given."""
    from graphmill.jobs.llm_args import llm_args

    settings = {
        "llm.model": llm,
        "llm.args": llm_args(llm_arg),
        "llm.python": llm_python,
        "embedder.model": embedder,
        "reranker.model": reranker,
        "cache.answers": cache,
    }
    return given(**settings)
