"""Chunk texts to records: what a model, or the phrase finder, reads in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Generator as Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from graphmill.engine.converse import batches, converse, says_yes, turn
from graphmill.engine.models import Generator, Message, Reply, Request
from graphmill.engine.profiles import Profile, messages
from graphmill.engine.prompt_language import NAMES, language_code
from graphmill.engine.read_replies import Told, can_wait, read_replies
from graphmill.engine.records import Layout, Reading, Record, reject
from graphmill.kernels.backend import Backend

EXTRACTIONS = pa.schema(
    [
        ("text_id", pa.string()),
        ("record", pa.int32()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("key", pa.string()),
        ("type", pa.string()),
        ("target", pa.string()),
        ("target_key", pa.string()),
        ("description", pa.string()),
        ("keywords", pa.list_(pa.string())),
        ("strength", pa.float64()),
    ]
)
"""One row a record: an entity, a relationship (name is its source) or a chunk's keywords. Unused fields are empty."""

READINGS = pa.schema(
    [
        ("text_id", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("rounds", pa.int32()),
        ("num_records", pa.int32()),
        ("num_rejected", pa.int32()),
        ("reasons", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
    ]
)
"""One row a distinct chunk text: "ok", "incomplete" (some records, the rest cut off) or "failed" (none to be had)."""

SAMPLES_SHOWN = 3
_NO_LAYOUT = Layout("none")
RETRY_TEMPERATURE = 0.3


@dataclass(frozen=True)
class ExtractConfig:
    """How chunks are read."""

    extractor: str = "auto"
    """"model", "phrases", or "auto": the model where there is one."""
    profile: str = "auto"
    """A packaged profile, a TOML file, or "auto": json where replies are held to a schema, else graphrag."""
    language: str = "auto"
    """Language of prompts and descriptions, an ISO 639-1 code; "auto" follows each document."""
    entity_types: tuple[str, ...] = ()
    """Types to look for; none stands for the profile's own."""
    max_gleanings: int = 1
    max_tokens: int = 4096
    """Most tokens of one reply."""
    temperature: float = 0.0
    near_duplicates: float = 0.0
    """Chunks that share at least this part of their wording are read once and cited everywhere. 0 is off: then only
    equal texts are."""
    grounding: bool = False
    """Drop entities whose name does not occur in the text, and the relationships that they are an end of."""
    retries: int = 1
    """How often a reply without a record, or cut off before its first, is asked for again."""
    stop_after: int = 20
    """Replies from the start that all hold no record before the run is stopped; 0 never stops."""
    shard_texts: int = 1024
    """Texts per shard, the unit of resume."""

    def __post_init__(self) -> None:
        if self.extractor not in ("auto", "model", "phrases"):
            raise ValueError(f"extract.extractor must be auto, model or phrases, got {self.extractor!r}")
        at_least = {"max_gleanings": 0, "max_tokens": 1, "retries": 0, "stop_after": 0, "shard_texts": 1}
        for name, minimum in at_least.items():
            if getattr(self, name) < minimum:
                raise ValueError(f"extract.{name} must be at least {minimum}, got {getattr(self, name)}")
        code = language_code(self.language)
        if not self.language.strip() or (len(code) <= 3 and code and code not in NAMES):
            raise ValueError(
                f"extract.language must be auto, an ISO 639-1 code (en, zh, …) or an English name, "
                f"got {self.language!r}"
            )
        if not 0 <= self.near_duplicates <= 1:
            raise ValueError(f"extract.near_duplicates must be in [0, 1], got {self.near_duplicates}")
        if not 0 <= self.temperature <= 2:
            raise ValueError(f"extract.temperature must be in [0, 2], got {self.temperature}")


class NoRecordsError(Exception):
    """The model's replies hold no records at all; going on would only cost time."""


@dataclass(slots=True)
class TextRead:
    """What came of one chunk text. What its replies hold is known once ``extraction_tables`` has read them."""

    text_id: str
    records: list[Record] = field(default_factory=list)
    """What was found without a model."""
    replies: list[Told] = field(default_factory=list)
    status: str = "ok"
    reason: str = ""
    rounds: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    last_reply: str = ""
    cut_off: bool = False
    """Whether the last reply ran into its limit."""


def extract(
    texts: Iterable[tuple[str, str, str]],
    generator: Generator,
    profiles: Mapping[str, Profile],
    config: ExtractConfig,
) -> Iterator[list[TextRead]]:
    """Reads (text id, text, language) triples with the model; yields batches of them as their replies come in.

    The generator is never drained between batches: gleaning rounds and retries go in ahead of new texts, while their
    prefix is still cached. Raises NoRecordsError when none of the first ``stop_after`` texts gave a record.
    """
    reading = (read_text(text_id, text, profiles[language], config) for text_id, text, language in texts)
    reads = _with_records(converse(reading, generator), config.stop_after)
    yield from batches(reads, config.shard_texts, but_not_after=(NoRecordsError,))


def read_text(text_id: str, text: str, profile: Profile, config: ExtractConfig) -> Coroutine[Request, Reply, TextRead]:
    """One conversation: extract, then up to ``max_gleanings`` rounds for what was missed."""
    read = TextRead(text_id)
    prompt = messages(profile, text)
    schema = profile.schema
    reply = yield _request(read, prompt, config, schema)
    told = _note(read, reply, profile)
    for attempt in range(1, config.retries + 1):
        if told is None or can_wait(told) or told.read().records or told.read().complete:
            break
        # Cut off or without a single record: the same prompt at the same temperature would only give it again.
        temperature = max(config.temperature, min(1.0, RETRY_TEMPERATURE * attempt))
        reply = yield _request(read, prompt, config, schema, temperature)
        told = _note(read, reply, profile)
    if told is None:
        return _failed(read, reply.error or "no reply")
    keep = _grounded(text) if config.grounding else None
    read.replies.append(keep(told) if keep else told)
    for round_number in range(config.max_gleanings):
        if round_number:
            answer = yield _request(read, [*prompt, *turn(reply, profile.more)], config, None, max_tokens=8)
            read.prompt_tokens += answer.prompt_tokens
            read.completion_tokens += answer.completion_tokens
            if not says_yes(answer.text):
                break
        prompt = [*prompt, *turn(reply, profile.continue_prompt)]
        reply = yield _request(read, prompt, config, schema)
        told = _note(read, reply, profile)
        if told is None:
            break  # What the first round gave is kept.
        read.replies.append(keep(told) if keep else told)
    return read


def extraction_tables(batch: Sequence[TextRead], backend: Backend) -> tuple[pa.Table, pa.Table]:
    """EXTRACTIONS and READINGS of a batch, in the order of text ids, whatever order the replies came in.

    Reads the replies that have waited for it, all at once, and settles the texts' status.
    """
    batch = sorted(batch, key=lambda read: read.text_id)
    told = [replies for read in batch for replies in _told(read)]
    owner = np.repeat(np.arange(len(batch)), [len(_told(read)) for read in batch])
    records = read_replies(told, backend)
    of = owner[records["reply"].to_numpy()]
    num_records = np.bincount(of, minlength=len(batch))
    begin = np.cumsum(num_records) - num_records
    text_ids = pa.array([read.text_id for read in batch], pa.string())
    extractions = pa.table(
        [
            text_ids.take(pa.array(of)),
            pa.array(np.arange(len(of)) - begin[of], pa.int32()),
            *(records[name] for name in EXTRACTIONS.names[2:]),
        ],
        schema=EXTRACTIONS,
    )
    reasons = [sum((reply.reasons for reply in read.replies), Counter[str]()) for read in batch]
    for read, found in zip(batch, num_records.tolist(), strict=True):
        _settle(read, found)
    readings = pa.table(
        [
            text_ids,
            [read.status for read in batch],
            [read.reason for read in batch],
            [read.rounds for read in batch],
            num_records,
            [found.total() for found in reasons],
            [json.dumps(dict(sorted(found.items()))) for found in reasons],
            [read.prompt_tokens for read in batch],
            [read.completion_tokens for read in batch],
        ],
        schema=READINGS,
    )
    return extractions, readings


def _told(read: TextRead) -> list[Told]:
    return read.replies or [Told("", _NO_LAYOUT, reading=Reading(read.records))]


def _settle(read: TextRead, num_records: int) -> None:
    """The status of a text whose replies have been read."""
    if not read.replies or read.replies[-1].complete:
        return
    if num_records:
        read.status, read.reason = "incomplete", "the last reply is cut off"
    else:
        _failed(read, "cut off before the first record" if read.cut_off else "no record")


def _with_records(reads: Iterator[TextRead], stop_after: int) -> Iterator[TextRead]:
    """Passes reads on; raises NoRecordsError where the first ``stop_after`` hold no record."""
    first: list[TextRead] = []
    for read in reads:
        if len(first) < stop_after:
            first.append(read)
            if read.records or any(reply.read().records for reply in read.replies):
                stop_after = 0
            elif len(first) == stop_after:
                raise NoRecordsError(_no_records(first))
        yield read


def _request(
    read: TextRead,
    prompt: Sequence[Message],
    config: ExtractConfig,
    schema: Mapping[str, Any] | None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> Request:
    read.rounds += 1
    return Request(
        f"extract/{read.text_id}/{read.rounds}",
        prompt,
        max_tokens=max_tokens or config.max_tokens,
        temperature=config.temperature if temperature is None else temperature,
        schema=schema,
    )


def _note(read: TextRead, reply: Reply, profile: Profile) -> Told | None:
    """A reply to be read, and what it cost; None when there is no reply to read."""
    read.prompt_tokens += reply.prompt_tokens
    read.completion_tokens += reply.completion_tokens
    read.last_reply, read.cut_off = reply.text, reply.finish_reason == "length"
    return None if reply.error is not None else Told(reply.text, profile.layout, reply.finish_reason)


def _grounded(text: str) -> Callable[[Told], Told]:
    """Keeps the records whose names occur in the text, whatever case and space they are written in; counts the rest."""
    said, run_together = " ".join(text.casefold().split()), "".join(text.casefold().split())

    def occurs(name: str) -> bool:
        words = name.casefold().split()
        # A line may break anywhere in a name of a script without spaces.
        return " ".join(words) in said or (not name.isascii() and "".join(words) in run_together)

    def keep(reply: Told) -> Told:
        reading = reply.read()
        kept = [
            record
            for record in reading.records
            if record.kind == "keywords" or (occurs(record.name) and (not record.target or occurs(record.target)))
        ]
        for _ in range(len(reading.records) - len(kept)):
            reject(reading, "not in the text")
        reading.records = kept
        return reply

    return keep


def _failed(read: TextRead, reason: str) -> TextRead:
    read.status, read.reason = "failed", reason
    return read


def _no_records(reads: Sequence[TextRead]) -> str:
    if not any(read.last_reply for read in reads):
        why = reads[-1].reason
        return f"the model answered none of the first {len(reads)} texts, so the run was stopped; last: {why}"
    shown = "\n".join(f"  {n}. {_short(r.last_reply or r.reason)}" for n, r in enumerate(reads[:SAMPLES_SHOWN], 1))
    return (
        f"{len(reads)} of the first {len(reads)} replies held no record, so the run was stopped. "
        f"The first {min(SAMPLES_SHOWN, len(reads))}:\n{shown}\n"
        "Look at the model and at the profile's format, or set extract.stop_after = 0 to go on regardless."
    )


def _short(text: str, limit: int = 300) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
