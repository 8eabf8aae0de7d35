"""The command line. Each command's work is in the module of its name; here are only the arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from graphmill.jobs.options import (
    LLM,
    Cache,
    Config,
    Device,
    Embedder,
    HighLevel,
    Index,
    Json,
    Level,
    Lexical,
    LLMArg,
    LLMPython,
    LowLevel,
    MaxTotalTokens,
    Mode,
    OnlyContext,
    OnlyPrompt,
    Permissive,
    Reranker,
    ResponseType,
    TopK,
    UserPrompt,
    given,
    model_settings,
)

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PARTIAL, EXIT_STOPPED = 0, 1, 2, 3, 130


def _examples(*lines: str) -> str:
    """The end of a command's help; \\b keeps click from making one paragraph of the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


app = typer.Typer(
    name="graphmill",
    help="Turn a corpus into a knowledge graph that answers questions, on your own hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command(
    epilog=_examples(
        "graphmill index docs/ kb",
        "graphmill index docs/ kb --llm http://localhost:8000/v1",
        "graphmill index docs/ kb --llm models/Qwen3-8B --llm-arg max_model_len=8192",
        "graphmill index tickets.jsonl kb --text-column body",
    ),
)
def index(
    corpus: Annotated[Path, typer.Argument(help="A file or a folder of txt, md, jsonl, csv, parquet.")],
    index: Index,
    config: Config = None,
    llm: LLM = None,
    llm_arg: LLMArg = None,
    llm_python: LLMPython = None,
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
    retry_failures: Annotated[
        bool, typer.Option("--retry-failures", help="Ask anew about texts that failed, whatever replies are kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Index CORPUS into INDEX. Run it again to go on from where it stopped, or to take in what changed."""
    from graphmill.jobs.index import run
    from graphmill.jobs.llm_args import llm_args

    options = {
        "llm.model": llm,
        "llm.args": llm_args(llm_arg),
        "llm.python": llm_python,
        "embedder.model": embedder,
        "extract.profile": profile,
        "extract.language": language,
        "device": device,
        "tokenizer": tokenizer,
        "corpus.text_column": text_column,
        "corpus.id_column": id_column,
        "corpus.title_column": title_column,
    }
    raise typer.Exit(run(corpus, index, config, given(**options), json, retry_failures))


@app.command(
    epilog=_examples(
        'graphmill query kb "Who founded the observatory?" --mode local',
        'graphmill query kb "What is this about?" --mode global --json',
        'graphmill query kb "How do they work?" --reranker http://localhost:8001/v1',
        "graphmill query kb --questions questions.jsonl --out answers.jsonl",
    ),
)
def query(
    index: Index,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="The question, in any language the corpus is in.")
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help='Many questions, a line each: {"question": "…", "id": …, "mode": …, "param": {"top_k": …}}.',
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl", help="Where their answers go; one that was begun is gone on with. [default: printed]"
        ),
    ] = None,
    mode: Mode = "mix",
    only_need_context: OnlyContext = False,
    only_need_prompt: OnlyPrompt = False,
    top_k: TopK = None,
    max_total_tokens: MaxTotalTokens = None,
    high_level: HighLevel = None,
    low_level: LowLevel = None,
    level: Level = None,
    response_type: ResponseType = None,
    user_prompt: UserPrompt = None,
    permissive: Permissive = False,
    lexical: Lexical = None,
    llm: LLM = None,
    llm_arg: LLMArg = None,
    llm_python: LLMPython = None,
    embedder: Embedder = None,
    reranker: Reranker = None,
    cache: Cache = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Ask INDEX a QUESTION, or the questions of a file."""
    from graphmill.jobs import query, query_file

    if (question is None) == (questions is None):
        raise typer.BadParameter("one is wanted, a QUESTION or --questions FILE.jsonl")
    if out is not None and questions is None:
        raise typer.BadParameter("--out is for the answers to --questions FILE.jsonl")
    param = given(
        mode=mode,
        only_need_context=only_need_context or None,
        only_need_prompt=only_need_prompt or None,
        top_k=top_k,
        chunk_top_k=top_k,
        max_total_tokens=max_total_tokens,
        hl_keywords=high_level,
        ll_keywords=low_level,
        level=level,
        response_type=response_type,
        user_prompt=user_prompt,
        strict=False if permissive else None,
        lexical=lexical,
    )
    settings = model_settings(llm, llm_arg, llm_python, embedder, reranker, cache)
    if questions is not None:
        raise typer.Exit(query_file.run(index, questions, out, param, config, settings, json))
    raise typer.Exit(query.run(index, question or "", param, config, settings, json))


@app.command(
    epilog=_examples(
        "graphmill chat kb --llm http://localhost:8000/v1",
        "graphmill chat kb --mode local --conversation harbour.jsonl",
    ),
)
def chat(
    index: Index,
    mode: Mode = "mix",
    conversation: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Keep the conversation in a file, and go on with what it holds."),
    ] = None,
    history_turns: Annotated[
        int | None, typer.Option(help="Turns before the question that the model is shown.")
    ] = None,
    top_k: TopK = None,
    max_total_tokens: MaxTotalTokens = None,
    level: Level = None,
    response_type: ResponseType = None,
    user_prompt: UserPrompt = None,
    permissive: Permissive = False,
    lexical: Lexical = None,
    llm: LLM = None,
    llm_arg: LLMArg = None,
    llm_python: LLMPython = None,
    embedder: Embedder = None,
    reranker: Reranker = None,
    cache: Cache = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Talk with INDEX: a question is understood with those before it. With --json, a document for each line read."""
    from graphmill.jobs.chat import run

    param = given(
        mode=mode,
        history_turns=history_turns,
        top_k=top_k,
        chunk_top_k=top_k,
        max_total_tokens=max_total_tokens,
        level=level,
        response_type=response_type,
        user_prompt=user_prompt,
        strict=False if permissive else None,
        lexical=lexical,
    )
    settings = model_settings(llm, llm_arg, llm_python, embedder, reranker, cache)
    raise typer.Exit(run(index, param, conversation, config, settings, json))


@app.command(
    epilog=_examples(
        "graphmill evaluate kb q.jsonl",
        "graphmill evaluate kb q.jsonl --mode naive --mode mix --out results.jsonl",
        "graphmill evaluate kb q.jsonl --llm http://localhost:8000/v1 --json",
    ),
)
def evaluate(
    index: Index,
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS.jsonl",
            help='A line a question: {"question": "…", "facts": ["…", ["spelling", "other"]], "documents": ["path"]}.',
        ),
    ],
    mode: Annotated[
        list[str] | None,
        typer.Option(metavar="MODE", help="A query mode; may be given again. [default: all but bypass]"),
    ] = None,
    top_k: TopK = None,
    max_total_tokens: MaxTotalTokens = None,
    level: Level = None,
    lexical: Lexical = None,
    llm: LLM = None,
    llm_arg: LLMArg = None,
    llm_python: LLMPython = None,
    embedder: Embedder = None,
    reranker: Reranker = None,
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl", help="Write a line a question and mode; as they come, into FILE.jsonl.part."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Ask INDEX questions with known answers: recall, precision of references, tokens and time, by mode."""
    from graphmill.jobs.evaluate import run

    param = given(top_k=top_k, chunk_top_k=top_k, max_total_tokens=max_total_tokens, level=level, lexical=lexical)
    settings = model_settings(llm, llm_arg, llm_python, embedder, reranker)
    raise typer.Exit(run(index, questions, mode or (), param, config, settings, out, json))


@app.command(
    epilog=_examples(
        "graphmill inspect kb",
        'graphmill inspect kb --entity "Ada Lovelace"',
        "graphmill inspect kb --failures",
    )
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


@app.command(
    epilog=_examples(
        "graphmill aliases kb",
        'graphmill aliases kb --undo "Alice Smith"',
        "graphmill aliases kb --export a.csv",
        "graphmill aliases kb --edit a.csv",
    )
)
def aliases(
    index: Index,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write the table to a file that can be edited.")
    ] = None,
    edit: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Make the table what the file says.")] = None,
    undo: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Take a name out of its group; may be given again.")
    ] = None,
    undo_all: Annotated[bool, typer.Option("--undo-all", help="Take everything apart that was taken for one.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Forget what people changed.")] = False,
    json: Json = False,
) -> None:
    """Show or change which names of INDEX were taken for one thing. What is changed stays so in later runs."""
    from graphmill.jobs.aliases import run

    raise typer.Exit(run(index, export, edit, undo or (), undo_all, reset, json))


@app.command(
    epilog=_examples(
        "graphmill parse --profile graphrag --json < reply.txt",
    )
)
def parse(
    profile: Annotated[str, typer.Option(help="Profile whose format the reply is in.")] = "graphrag",
    finish_reason: Annotated[str | None, typer.Option(help="stop or length, where it is known.")] = None,
    json: Json = False,
) -> None:
    """Read one raw model reply on standard input and print what the engine makes of it."""
    from graphmill.jobs.parse import run

    raise typer.Exit(run(profile, finish_reason, json))


prompts = typer.Typer(no_args_is_help=True, help="Show the extraction prompts.")
app.add_typer(prompts, name="prompts")


@prompts.command(
    epilog=_examples(
        "graphmill prompts show lightrag",
        "graphmill prompts show json --language zh --text note.txt",
        "graphmill prompts show my.toml --json",
    )
)
def show(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="A packaged profile's name, or a TOML file.")],
    language: Annotated[str, typer.Option(help="auto, or the language of prompts and descriptions.")] = "auto",
    text: Annotated[
        Path | None, typer.Option(metavar="FILE|-", help="The text; - is standard input. [default: a line for it]")
    ] = None,
    entity_types: Annotated[
        str | None, typer.Option(metavar="TYPE,TYPE", help="Entity types to look for. [default: the profile's]")
    ] = None,
    json: Json = False,
) -> None:
    """Print the messages that a model would be sent about a text with PROFILE."""
    from graphmill.jobs.prompts import show as run

    types = [name.strip() for name in (entity_types or "").split(",") if name.strip()]
    raise typer.Exit(run(profile, language, text, types, json))


@prompts.command(
    "list",
    epilog=_examples(
        "graphmill prompts list --json",
    ),
)
def list_prompts(json: Json = False) -> None:
    """List the packaged profiles with their languages and entity types."""
    from graphmill.jobs.prompts import list_prompts as run

    raise typer.Exit(run(json))


bench = typer.Typer(no_args_is_help=True, help="Measure this machine.")
app.add_typer(bench, name="bench")


@bench.command(
    epilog=_examples(
        "graphmill bench extract models/Qwen3-8B",
        "graphmill bench extract models/Qwen3-8B --num-prompts 1000 --json",
    ),
)
def extract(
    model: Annotated[str, typer.Argument(help="A folder with the model's files.")],
    num_prompts: Annotated[int, typer.Option(help="Prompts a round.")] = 256,
    prompt_tokens: Annotated[int, typer.Option(help="Tokens of each prompt's own text.")] = 1200,
    output_tokens: Annotated[int, typer.Option(help="Tokens of each reply.")] = 256,
    profile: Annotated[
        str, typer.Option(help="Extraction profile, whose instructions all prompts share.")
    ] = "graphrag",
    repeats: Annotated[int, typer.Option(help="Rounds that are measured, after one that warms up.")] = 3,
    llm_arg: LLMArg = None,
    llm_python: LLMPython = None,
    json: Json = False,
) -> None:
    """Put the same prompts through plain vLLM and through the whole extraction stage."""
    from graphmill.jobs.bench import Workload, run
    from graphmill.jobs.llm_args import llm_args

    workload = Workload(num_prompts, prompt_tokens, output_tokens, profile, repeats)
    raise typer.Exit(run(model, llm_args(llm_arg) or {}, llm_python, workload, json))


@app.command()
def doctor(llm_python: LLMPython = None, json: Json = False) -> None:
    """Say what this machine has, which backends will be used, and what installs what is missing."""
    from graphmill.jobs.doctor import run

    raise typer.Exit(run(json, llm_python))


def _version(is_asked: bool) -> None:
    if is_asked:
        from graphmill import __version__
        from graphmill.jobs.show import show

        show(f"graphmill {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def _goes_on() -> bool:
    """Whether what was stopped is kept: an index that is made, or answers or results that go to a file."""
    command, *rest = [*sys.argv[1:], ""]
    return command == "index" or (command in ("query", "evaluate") and any(word.startswith("--out") for word in rest))


def main() -> None:
    """Runs the command line; known errors are one line on standard error and an exit code, not a traceback."""
    from graphmill.jobs.errors import explain
    from graphmill.jobs.show import reader_is_gone, show, to_nowhere

    try:
        app(prog_name="graphmill")
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, KeyboardInterrupt) or stop.code == EXIT_STOPPED:
            show("stopped" + ("; the same command goes on from here" if _goes_on() else ""), file=sys.stderr)
            sys.exit(EXIT_STOPPED)
        if isinstance(stop.__context__, BrokenPipeError):  # which Typer makes a failure without a word
            if not reader_is_gone():
                raise stop.__context__ from None
            to_nowhere(sys.stdout)
            sys.exit(EXIT_DONE)
        raise
    except Exception as error:
        message, code = explain(error)
        if message is None:
            raise
        show(f"graphmill: {message}", file=sys.stderr)
        sys.exit(code)
