"""``graphmill evaluate``: what a file of questions with known answers says of the query modes."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from graphmill.engine.build import open_index
from graphmill.engine.config import ConfigError, load_config
from graphmill.engine.evaluate import DEFAULT_MODES, evaluate, summarise, unknown_documents
from graphmill.engine.query_param import QueryParam
from graphmill.engine.question_file import read_questions
from graphmill.jobs.progress import LiveProgress, PlainProgress, make_progress

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
    try:
        parameters, *_ = [QueryParam(**param, mode=mode) for mode in modes]
    except ValueError as error:
        raise ConfigError(str(error)) from error
    config = load_config(config_file, settings)
    questions = read_questions(questions_file)
    results: list[dict[str, Any]] = []
    with (
        _writing(out, questions_file) as rows,
        make_progress(as_json) as progress,
        open_index(index, config, progress=progress) as opened,
    ):
        if unknown := unknown_documents(opened.index, questions):
            progress.warn(f"the index has no {_some(unknown)}, so no reference to them counts")
        progress.start("evaluation", len(questions) * len(modes), "questions")
        for result in evaluate(opened, questions, modes, parameters):
            results.append(result)
            _tell(result, results, progress)
            if rows is not None:
                rows.write(json.dumps(result, ensure_ascii=False) + "\n")
                rows.flush()  # what is done stays, whatever comes
            progress.advance(1, result["mode"])
        num_failed = sum(result["error"] is not None for result in results)
        progress.finish(f"{num_failed:,} failed" if num_failed else "")
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
    return 0 if not num_failed else 1 if num_failed == len(results) else 3


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
        "refs right: references that bear on their question; tokens are means, seconds medians"
    )


def _writing(out: Path | None, questions_file: Path) -> Any:
    """The file of results, opened before any work, or nothing."""
    from contextlib import nullcontext

    if out is None:
        return nullcontext()
    if out.exists() and out.samefile(questions_file):
        raise ConfigError(f"--out {out} is the file of the questions")
    try:
        file: IO[str] = out.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"can't write --out {out}: {error.strerror}") from error
    return file


def _tell(
    result: Mapping[str, Any], results: Sequence[Mapping[str, Any]], progress: PlainProgress | LiveProgress
) -> None:
    """Says why a question failed, of the first few."""
    if result["error"] is not None and sum(row["error"] is not None for row in results) <= MAX_SHOWN:
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
