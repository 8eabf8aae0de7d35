"""``graphmill index``: a corpus on disk into an index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphmill.engine.build import build_folder
from graphmill.engine.config import load_config
from graphmill.jobs.progress import make_progress
from graphmill.jobs.show import show_result


def run(
    corpus: Path,
    index: Path,
    config_file: Path | None,
    options: Mapping[str, Any],
    as_json: bool,
    retry_failures: bool = False,
) -> int:
    """Builds or updates the index and prints the summary; exit code 3 when some texts could not be read."""
    config = load_config(config_file, options)
    with make_progress(quiet=as_json) as progress:
        summary = build_folder(corpus, index, config, progress, retry_failures)
    summary = {**summary, "index": str(index), "warnings": progress.warnings}
    show_result(summary, render, as_json)
    return 3 if summary["status"] == "partial" else 0


def render(summary: Mapping[str, Any]) -> str:
    """The summary as text."""
    levels = ", ".join(f"{count:,} at level {level}" for level, count in summary["communities_by_level"].items())
    reports = ", ".join(f"{count:,} {source}" for source, count in summary["reports"].items())
    rows = [
        ("documents", f"{summary['documents']:,}"),
        (
            "chunks",
            f"{summary['chunks']:,} ({summary['distinct_texts']:,} distinct, {summary['chunk_tokens']:,} tokens)",
        ),
        *([("near duplicates", f"{summary['near_duplicates']:,}")] if "near_duplicates" in summary else []),
        ("entities", f"{summary['entities']:,}"),
        ("relationships", f"{summary['relationships']:,}"),
        *([("claims", f"{summary['claims']:,}")] if "claims" in summary else []),
        ("communities", f"{summary['communities']:,}" + (f" ({levels})" if levels else "")),
        ("reports", reports or "0"),
    ]
    for label, key in (("skipped files", "skipped"), ("failed texts", "failed"), ("rejected", "records_rejected")):
        if summary[key]:
            rows.append((label, ", ".join(f"{count:,} {reason}" for reason, count in summary[key].items())))
    tokens = {stage: used for stage, used in summary["tokens"].items() if used["prompt"]}
    if tokens:
        told = (f"{stage} {used['prompt']:,} in, {used['completion']:,} out" for stage, used in tokens.items())
        rows.append(("model tokens", "; ".join(told)))
    taken = {stage: seconds for stage, seconds in summary["seconds"].items() if seconds >= 0.05}
    rows.append(("seconds", ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in taken.items()) or "under 0.1"))
    lines = [f"{label:<14} {value}" for label, value in rows]
    if summary["skipped"] or summary["failed"]:
        lines.append(f"\n`graphmill inspect {summary['index']} --failures` lists what was skipped or failed.")
    return "\n".join(lines)
