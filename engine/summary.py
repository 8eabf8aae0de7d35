"""What a run made, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow.compute as pc

from graphmill.engine.run import Run
from graphmill.engine.run_folder import RunFolder

STAGES = {"claims": "claims", "aliases": "aliases", "summary": "entities", "report": "reports"}
"""Stage of each kind of request; extractions are added up from the readings."""


def summarise_run(run: Run) -> dict[str, Any]:
    """Counts, failures by reason, seconds and tokens by stage; kept in the index's manifest as ``summary``."""
    summary = counts(run.folder)
    before = run.folder.facts.get("summary", {})
    summary["seconds"] = before.get("seconds", {}) | run.seconds
    summary["tokens"] = before.get("tokens", {}) | _tokens(run) | summary["tokens"]
    if run.config.extract.near_duplicates:
        summary["near_duplicates"] = run.folder.tables["duplicates"].rows
    summary["models"] = {
        "generator": run.models.generator.model if run.models.generator else None,
        "embedder": run.models.embedder.model,
        "tokenizer": run.models.tokenizer.name,
    }
    run.folder.put_facts({"summary": summary, "state": run.folder.state})
    return summary


def _tokens(run: Run) -> dict[str, dict[str, int]]:
    """Tokens of the model by stage, of the stages that asked it anything in this run."""
    used = run.meter.used if run.meter is not None else {}
    return {
        stage: {"prompt": used[kind].prompt_tokens, "completion": used[kind].completion_tokens}
        | ({"cached": used[kind].cached_tokens} if used[kind].cached_tokens else {})
        for kind, stage in STAGES.items()
        if kind in used
    }


def counts(folder: RunFolder) -> dict[str, Any]:
    """What the tables hold. ``status`` is "partial" when a text could not be read, else "complete"."""
    chunks = folder.read("chunks", ["num_tokens", "text_id"])
    wanted = pc.unique(chunks["text_id"])
    readings = latest_readings(folder)
    readings = readings.filter(pc.is_in(readings["text_id"], value_set=wanted))
    status = Counter(readings["status"].to_pylist())
    rejected: Counter[str] = Counter()
    for reasons in pc.unique(readings["reasons"]).to_pylist():
        if reasons != "{}":
            times = pc.sum(pc.equal(readings["reasons"], reasons)).as_py()
            rejected.update({reason: count * times for reason, count in json.loads(reasons).items()})
    skipped = folder.read("skipped", ["reason"])
    levels = Counter(folder.read("communities", ["level"])["level"].to_pylist())
    sources = Counter(folder.read("reports", ["source"])["source"].to_pylist())
    failures = Counter(readings.filter(pc.equal(readings["status"], "failed"))["reason"].to_pylist())
    return {
        "status": "partial" if status["failed"] else "complete",
        "documents": folder.tables["documents"].rows,
        "chunks": chunks.num_rows,
        "distinct_texts": len(wanted),
        "chunk_tokens": pc.sum(chunks["num_tokens"]).as_py() or 0,
        "texts_read": dict(sorted(status.items())),
        "records": pc.sum(readings["num_records"]).as_py() or 0,
        "records_rejected": dict(rejected.most_common()),
        "entities": folder.tables["entities"].rows,
        "relationships": folder.tables["relationships"].rows,
        **({"claims": folder.tables["claims"].rows} if "claims" in folder.tables else {}),
        "communities": sum(levels.values()),
        "communities_by_level": {str(level): levels[level] for level in sorted(levels)},
        "reports": dict(sorted(sources.items())),
        "skipped": dict(Counter(skipped["reason"].to_pylist()).most_common()),
        "failed": dict(failures.most_common()),
        "tokens": {
            "extractions": {
                "prompt": pc.sum(readings["prompt_tokens"]).as_py() or 0,
                "completion": pc.sum(readings["completion_tokens"]).as_py() or 0,
            }
        },
    }


def latest_readings(folder: RunFolder) -> Any:
    """READINGS with one row a text: that of its last reading."""
    readings = folder.read("readings")
    last = {text_id: row for row, text_id in enumerate(readings["text_id"].to_pylist())}
    return readings if len(last) == readings.num_rows else readings.take(sorted(last.values()))
