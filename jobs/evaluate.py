"""``graphmill evaluate``: what a file of questions with known answers says of the query modes."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphmill.engine.build import OpenIndex, open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.evaluate import DEFAULT_MODES, evaluate, summarise, unknown_documents
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import QuestionRow, read_questions
from graphmill.jobs.progress import LiveProgress, PlainProgress, make_progress

PART = ".part"
"""What the file of results is called, after its name, until it is whole."""
MAX_SHOWN = 5
"""Failures, warnings and names of each kind that are shown; of more there is the count."""
COLUMNS = {
    "context_recall": ("context recall", "{:.3f}"),
    "complete": ("all facts", "{:.3f}"),
    "answer_recall": ("answer recall", "{:.3f}"),
    "reference_precision": ("refs right", "{:.3f}"),
    "context_tokens": ("context tokens", "{:,.0f}"),
    "prompt_tokens": ("prompt tokens", "{:,.0f}"),
    "model_tokens": ("model tokens", "{:,.0f}"),
    "seconds": ("seconds", "{:.3f}"),
    "num_failed": ("failed", "{:,}"),
}
"""What the table shows of each mode's measures; a column that says nothing in any row is left out."""


def run(
    index: Path,
    questions_file: Path,
    modes: Sequence[str],
    param: Mapping[str, Any],
    config_file: Path | None,
    settings: Mapping[str, Any],
    out: Path | None,
    as_json: bool,
) -> int:
    """Asks all questions in all modes and prints a table, or one JSON document.

    Exit code 3 when some questions failed, 1 when all did.
    """
    modes = list(dict.fromkeys(modes or DEFAULT_MODES))
    parameters = _parameters(modes, param)
    config = load_config(config_file, settings)
    questions = read_questions(questions_file)
    _check(out, questions_file)
    with (
        make_progress(as_json) as progress,
        open_index(index, config, progress=progress) as opened,
        _writing(out, progress) as write,
    ):
        results = _results(opened, questions, modes, parameters, progress, write)
        model = None if opened.generator is None else opened.generator.model
    report = {
        "index": str(index),
        "questions": str(questions_file),
        "model": model,
        "num_questions": len(questions),
        "num_without_facts": sum(not row.facts for row in questions),
        "modes": summarise(results),
    }
    if as_json:
        print(json.dumps(report | {"results": results}, ensure_ascii=False, indent=2))
    else:
        _warn(results)
        show(report)
    num_failed = _num_failed(results)
    return 0 if not num_failed else 1 if num_failed == len(results) else 3


def _parameters(modes: Sequence[str], param: Mapping[str, Any]) -> QueryParam:
    """The parameters of all modes, whose own is put in later."""
    try:
        parameters, *_ = [QueryParam(**param, mode=mode) for mode in modes]
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return parameters


def _results(
    opened: OpenIndex,
    questions: Sequence[QuestionRow],
    modes: Sequence[str],
    parameters: QueryParam,
    progress: PlainProgress | LiveProgress,
    write: Callable[[Mapping[str, Any]], None],
) -> list[dict[str, Any]]:
    """Asks all questions, writes each result as it comes, and tells how far it is."""
    if unknown := unknown_documents(opened.index, questions):
        progress.warn(f"the index has no {_some(unknown)}, so no reference to them counts")
    progress.start("evaluation", len(questions) * len(modes), "questions")
    results: list[dict[str, Any]] = []
    for result in evaluate(opened, questions, modes, parameters):
        results.append(result)
        _tell(result, results, progress)
        write(result)
        progress.advance(1, result["mode"])
    num_failed = _num_failed(results)
    progress.finish(f"{num_failed:,} failed" if num_failed else "")
    return results


def _num_failed(results: Sequence[Mapping[str, Any]]) -> int:
    return sum(result["error"] is not None for result in results)


def show(report: Mapping[str, Any]) -> None:
    """Prints the modes as a table: drawn on a terminal, plain columns elsewhere."""
    heads, rows = cells(report["modes"])
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        console = Console()
        # Heads are broken, so that with single spaces between them all columns there can be fit 80 characters.
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2 if console.width > 90 else 1, 0, 0))
        for number, head in enumerate(heads):
            table.add_column(
                head.replace(" ", "\n"), justify="right" if number else "left", vertical="bottom", no_wrap=True
            )
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        print(plain(heads, rows))
    print(footnote(report))


def cells(modes: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The heads and the rows of the table as texts."""
    nothing = {"num_failed": 0}  # a recall of 0 says something
    shown = [name for name in COLUMNS if any(mode[name] not in (None, nothing.get(name)) for mode in modes)]
    heads = ["mode", *(COLUMNS[name][0] for name in shown)]
    rows = [
        [mode["mode"], *("–" if mode[name] is None else COLUMNS[name][1].format(mode[name]) for name in shown)]
        for mode in modes
    ]
    return heads, rows


def plain(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns beside each other, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first.lstrip().ljust(widths[0]), *others]))
    return "\n".join(lines)


def footnote(report: Mapping[str, Any]) -> str:
    """What the numbers are of."""
    answered = "answers are the model's" if report["model"] else "answers are passages, as there is no model"
    without = report["num_without_facts"]
    left_out = f", {without:,} without facts, which no recall counts" if without else ""
    plural = "question" if report["num_questions"] == 1 else "questions"
    return (
        f"{report['num_questions']:,} {plural}{left_out}; {answered}.\n"
        "refs right: references whose text holds a fact, or whose document is one of the question's; "
        "tokens are means, seconds medians"
    )


def _check(out: Path | None, questions_file: Path) -> None:
    """Raises ConfigError where the results can't be written, before any work."""
    if out is None:
        return
    for path in (out, out.with_name(out.name + PART)):
        if path.exists() and path.samefile(questions_file):
            raise ConfigError(f"--out {out}: {path} is the file of the questions")
    if out.is_dir():
        raise ConfigError(f"can't write --out {out}: it is a folder")
    if not out.parent.is_dir():
        raise ConfigError(f"can't write --out {out}: there is no folder {out.parent}")


@contextmanager
def _writing(out: Path | None, progress: PlainProgress | LiveProgress) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What writes a result to ``out``, which is replaced when all are there; else they stay beside it."""
    if out is None:
        yield lambda result: None
        return
    is_file = out.is_file() or not out.exists()  # else a pipe, which has no place beside it
    target = out.resolve() if is_file else out  # a link stays one
    part = target.with_name(target.name + PART) if is_file else target
    num_written = 0

    def write(result: Mapping[str, Any]) -> None:
        nonlocal num_written
        file.write(json.dumps(result, ensure_ascii=False) + "\n")
        file.flush()  # what is done stays, whatever comes
        num_written += 1

    try:
        file = part.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't write --out {part}: {error.strerror}") from error
    try:
        with file:
            yield write
    except BaseException:
        if is_file and num_written:
            progress.warn(f"{part} holds the {num_written:,} results so far")
        elif is_file:
            part.unlink()
        raise
    if is_file:
        part.replace(target)


def _tell(
    result: Mapping[str, Any], results: Sequence[Mapping[str, Any]], progress: PlainProgress | LiveProgress
) -> None:
    """Says why a question failed, of the first few."""
    if result["error"] is not None and _num_failed(results) <= MAX_SHOWN:
        progress.warn(f"question {result['id']} in {result['mode']}: {result['error']}")


def _warn(results: Sequence[Mapping[str, Any]]) -> None:
    """What went wrong on the way to answers, the commonest first."""
    counts = Counter(warning for result in results for warning in result["warnings"] or ())
    for warning, times in counts.most_common(MAX_SHOWN):
        print(f"warning: {warning}" + (f" ({times:,} times)" if times > 1 else ""), file=sys.stderr)
    if len(counts) > MAX_SHOWN:
        print(f"and {len(counts) - MAX_SHOWN:,} warnings more; --json and --out hold them all", file=sys.stderr)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN:,} more" if len(names) > MAX_SHOWN else ""
    return f"{'document' if len(names) == 1 else 'documents'} {', '.join(names[:MAX_SHOWN])}{more}"
