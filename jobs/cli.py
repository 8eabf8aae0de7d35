"""The command line. Each command's work is in the module of its name; here are only the arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PARTIAL, EXIT_STOPPED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="graphmill",
    help="Turn a corpus into a knowledge graph that answers questions, on your own hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Index = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of the index.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Embedder = Annotated[
    str | None, typer.Option(help="Embedding model: minilm (packaged), a folder, or a server's URL[#model].")
]
LLM = Annotated[
    str | None,
    typer.Option("--llm", help="Model: none, the URL[#model] of an OpenAI-compatible server, or replay:FILE."),
]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings; the options here win over it.")
]
Device = Annotated[str | None, typer.Option(help="auto, cuda or cpu; cuda never falls back.")]


@app.command(
    epilog="Examples:  graphmill index docs/ kb    graphmill index docs/ kb --llm http://localhost:8000/v1    "
    "graphmill index tickets.jsonl kb --text-column body",
)
def index(
    corpus: Annotated[Path, typer.Argument(help="A file or a folder of txt, md, jsonl, csv, parquet.")],
    index: Index,
    config: Config = None,
    llm: LLM = None,
    embedder: Embedder = None,
    profile: Annotated[str | None, typer.Option(help="Extraction profile: a name or a TOML file.")] = None,
    language: Annotated[
        str | None, typer.Option(help="auto, or the language of prompts and descriptions (en, zh, …).")
    ] = None,
    device: Device = None,
    tokenizer: Annotated[str | None, typer.Option(help="Folder or file of the tokenizer that counts.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the text in jsonl, csv and parquet files.")] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of a record's id.")] = None,
    title_column: Annotated[str | None, typer.Option(help="Column of a record's title.")] = None,
    json: Json = False,
) -> None:
    """Index CORPUS into INDEX. Run it again to go on from where it stopped, or to take in what changed."""
    from graphmill.jobs.index import run

    options = {
        "llm.model": llm,
        "embedder.model": embedder,
        "extract.profile": profile,
        "extract.language": language,
        "device": device,
        "tokenizer": tokenizer,
        "corpus.text_column": text_column,
        "corpus.id_column": id_column,
        "corpus.title_column": title_column,
    }
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    raise typer.Exit(run(corpus, index, config, given, json))


@app.command(
    epilog='Examples:  graphmill query kb "Who founded the observatory?" --mode local    '
    'graphmill query kb "What is this about?" --mode global --json',
)
def query(
    index: Index,
    question: Annotated[str, typer.Argument(help="The question, in any language the corpus is in.")],
    mode: Annotated[str, typer.Option(help="naive, local or global.")] = "local",
    only_need_context: Annotated[
        bool, typer.Option("--only-need-context", help="Print what the model would be given.")
    ] = False,
    only_need_prompt: Annotated[bool, typer.Option("--only-need-prompt", help="Print the whole prompt.")] = False,
    top_k: Annotated[int | None, typer.Option(help="Entities (local) or chunks (naive) that are looked up.")] = None,
    level: Annotated[int | None, typer.Option(help="Deepest level of communities used; 0 is the coarsest.")] = None,
    response_type: Annotated[str | None, typer.Option(help='Form of the answer, such as "Single Sentence".')] = None,
    user_prompt: Annotated[str | None, typer.Option(help="Further instructions about the answer.")] = None,
    permissive: Annotated[
        bool, typer.Option("--permissive", help="Allow knowledge from outside the index, marked.")
    ] = False,
    lexical: Annotated[
        bool | None,
        typer.Option("--lexical/--no-lexical", help="Fuse word search with the vectors. [default: by language]"),
    ] = None,
    llm: LLM = None,
    embedder: Embedder = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Ask INDEX a QUESTION."""
    from graphmill.jobs.query import run

    options = {
        "only_need_context": only_need_context,
        "only_need_prompt": only_need_prompt,
        "top_k": top_k,
        "chunk_top_k": top_k,
        "level": level,
        "response_type": response_type,
        "user_prompt": user_prompt,
        "strict": not permissive,
        "lexical": lexical,
    }
    settings = {"llm.model": llm, "embedder.model": embedder}
    raise typer.Exit(
        run(
            index,
            question,
            {"mode": mode} | {key: value for key, value in options.items() if value is not None},
            config,
            {key: value for key, value in settings.items() if value is not None},
            json,
        )
    )


@app.command(
    epilog='Examples:  graphmill inspect kb    graphmill inspect kb --entity "Ada Lovelace"    '
    "graphmill inspect kb --failures"
)
def inspect(
    index: Index,
    entity: Annotated[
        str | None, typer.Option(metavar="NAME", help="One entity with its relationships and sources.")
    ] = None,
    community: Annotated[
        int | None, typer.Option(metavar="ID", help="One community with its report and members.")
    ] = None,
    failures: Annotated[bool, typer.Option("--failures", help="What was skipped or failed, with reasons.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Rows of each list.")] = 10,
    json: Json = False,
) -> None:
    """Show what INDEX holds."""
    from graphmill.jobs.inspect import run

    raise typer.Exit(run(index, entity, community, failures, top, json))


@app.command(epilog="Example:  graphmill parse --profile graphrag --json < reply.txt")
def parse(
    profile: Annotated[str, typer.Option(help="Profile whose format the reply is in.")] = "graphrag",
    finish_reason: Annotated[str | None, typer.Option(help="stop or length, where it is known.")] = None,
    json: Json = False,
) -> None:
    """Read one raw model reply on standard input and print what the engine makes of it."""
    from graphmill.jobs.parse import run

    raise typer.Exit(run(profile, finish_reason, json))


@app.command()
def doctor(json: Json = False) -> None:
    """Say what this machine has, which backends will be used, and what installs what is missing."""
    from graphmill.jobs.doctor import run

    raise typer.Exit(run(json))


def _version(show: bool) -> None:
    if show:
        from graphmill import __version__

        print(f"graphmill {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Runs the command line; known errors are one line on standard error and an exit code, not a traceback."""
    from graphmill.jobs.errors import explain

    try:
        app(prog_name="graphmill")
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, KeyboardInterrupt) or stop.code == EXIT_STOPPED:
            print("stopped; the same command goes on from here", file=sys.stderr)
            sys.exit(EXIT_STOPPED)
        raise
    except BrokenPipeError:
        # The reader of our output, `head` say, has had enough.
        sys.stderr.close()
        sys.exit(EXIT_DONE)
    except Exception as error:
        message, code = explain(error)
        if message is None:
            raise
        print(f"graphmill: {message}", file=sys.stderr)
        sys.exit(code)
