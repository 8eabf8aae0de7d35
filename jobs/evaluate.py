"""``graphmill evaluate``: what a file of questions with known answers says of the query modes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from graphmill.engine.build import OpenIndex, open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.evaluate import DEFAULT_MODES, Result, evaluate, summarise, unknown_documents
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import QuestionRow, read_questions
from graphmill.engine.run_folder import RunFolder
from graphmill.jobs.made_with import asked, made_with
from graphmill.jobs.progress import LiveProgress, PlainProgress, make_progress
from graphmill.jobs.result_file import ResultFile, check
from graphmill.jobs.show import show, show_json

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

    What an earlier run has left beside ``out`` is gone on with. Exit code 3 when some questions failed, 1 when all did.
    """
    modes = list(dict.fromkeys(modes or DEFAULT_MODES))
    parameters = _parameters(modes, param)
    config = load_config(config_file, settings)
    questions = read_questions(questions_file)
    if out is not None:
        check(out, questions_file)
    with ExitStack() as stack:
        progress = make_progress(as_json)
        stack.enter_context(progress)
        file = None
        if out is not None:
            how = {"index": RunFolder.open(index).state, "asked": asked(param, config)}
            file = stack.enter_context(ResultFile(out, questions, modes, how, progress.warn))
        opened = stack.enter_context(open_index(index, config, progress=progress))
        results = _results(opened, questions, modes, parameters, progress, file)
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
        show_json(report | {"results": results}, indent=2)
    else:
        _warn(results)
        show_table(report)
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
    file: ResultFile | None,
) -> list[Result]:
    """Asks all questions but those that an earlier run has results of, writes each result as it comes, and tells how
    far it is."""
    found = {} if file is None else dict(file.kept)
    if file is not None:
        file.begin(made_with(opened))
    if unknown := unknown_documents(opened.index, questions):
        progress.warn(f"the index has no {_some(unknown)}, so no reference to them counts")
    progress.start("evaluation", len(questions) * len(modes), "questions", len(found))
    for result in evaluate(opened, questions, modes, parameters, found.copy()):
        found[result["id"], result["mode"]] = result
        _tell(result, found.values(), progress)
        if file is not None:
            file.write(result)
        progress.advance(1, result["mode"])
    results = [found[row.id, mode] for mode in modes for row in questions]
    if file is not None:
        file.finish(results)
    num_failed = _num_failed(results)
    progress.finish(f"{num_failed:,} failed" if num_failed else "")
    return results


def _num_failed(results: Iterable[Mapping[str, Any]]) -> int:
    return sum(result["error"] is not None for result in results)


def show_table(report: Mapping[str, Any]) -> None:
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
        show(plain(heads, rows))
    show(footnote(report))


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


def _tell(
    result: Mapping[str, Any], results: Iterable[Mapping[str, Any]], progress: PlainProgress | LiveProgress
) -> None:
    """Says why a question failed, of the first few."""
    if result["error"] is not None and _num_failed(results) <= MAX_SHOWN:
        progress.warn(f"question {result['id']} in {result['mode']}: {result['error']}")


def _warn(results: Sequence[Mapping[str, Any]]) -> None:
    """What went wrong on the way to answers, the commonest first."""
    counts = Counter(warning for result in results for warning in result["warnings"] or ())
    for warning, times in counts.most_common(MAX_SHOWN):
        show(f"warning: {warning}" + (f" ({times:,} times)" if times > 1 else ""), file=sys.stderr)
    if len(counts) > MAX_SHOWN:
        show(f"and {len(counts) - MAX_SHOWN:,} warnings more; --json and --out hold them all", file=sys.stderr)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN:,} more" if len(names) > MAX_SHOWN else ""
    return f"{'document' if len(names) == 1 else 'documents'} {', '.join(names[:MAX_SHOWN])}{more}"
