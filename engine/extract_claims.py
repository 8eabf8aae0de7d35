"""Chunk texts to claims: what they assert about the entities of one's choice. Off unless it is asked for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from graphmill.engine.claim_prompts import ClaimPrompts, claim_messages
from graphmill.engine.claims import NONE, Claim, ClaimsRead, read_claims
from graphmill.engine.converse import Conversation, batches, converse, says_yes, turn
from graphmill.engine.ids import content_id
from graphmill.engine.models import Generator, Reply, Request
from graphmill.engine.names import name_key

CLAIMS = pa.schema(
    [
        ("claim_id", pa.string()),
        ("text_id", pa.string()),
        ("subject", pa.string()),
        ("subject_key", pa.string()),
        ("object", pa.string()),
        ("object_key", pa.string()),
        ("type", pa.string()),
        ("status", pa.string()),
        ("start", pa.string()),
        ("end", pa.string()),
        ("description", pa.string()),
        ("source", pa.string()),
    ]
)
"""One row a claim. Keys are those of ENTITIES; an object that is not known is "NONE" with the key ""."""

CLAIM_READINGS = pa.schema(
    [
        ("text_id", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("num_claims", pa.int32()),
        ("num_rejected", pa.int32()),
        ("reasons", pa.string()),
    ]
)
"""One row a distinct chunk text that was read for claims: "ok", "incomplete" or "failed"."""


@dataclass(frozen=True)
class ClaimsConfig:
    """Whether texts are read for claims, and for which."""

    enabled: bool = False
    entity_specs: str = "organization, person, geo, event"
    """Names of entities, or kinds of them, whose claims are wanted."""
    description: str = "what someone did, decided, caused, promised or is accused of, and that could be checked"
    """Which claims are wanted."""
    prompts: str = "claims"
    """Name of the packaged prompts, or path of a TOML file."""
    max_gleanings: int = 1
    max_tokens: int = 4096
    shard_texts: int = 1024
    """Texts per shard, the unit of resume."""

    def __post_init__(self) -> None:
        for name, minimum in (("max_gleanings", 0), ("max_tokens", 1), ("shard_texts", 1)):
            if getattr(self, name) < minimum:
                raise ValueError(f"claims.{name} must be at least {minimum}, got {getattr(self, name)}")
        for name in ("entity_specs", "description"):
            if not getattr(self, name).strip():
                raise ValueError(f"claims.{name} must not be empty")


@dataclass(slots=True)
class ClaimsOfText:
    """What came of one text."""

    text_id: str
    claims: list[Claim] = field(default_factory=list)
    status: str = "ok"
    reason: str = ""
    reasons: Counter[str] = field(default_factory=Counter)


def extract_claims(
    texts: Iterable[tuple[str, str, str]],
    generator: Generator,
    prompts: Mapping[str, ClaimPrompts],
    config: ClaimsConfig,
) -> Iterator[list[ClaimsOfText]]:
    """Reads (text id, text, language) triples for claims; yields batches as their replies come in."""
    reading = (_read(text_id, text, prompts[language], config) for text_id, text, language in texts)
    yield from batches(converse(reading, generator), config.shard_texts)


def claim_tables(batch: Sequence[ClaimsOfText]) -> tuple[pa.Table, pa.Table]:
    """CLAIMS and CLAIM_READINGS of a batch, in the order of text ids."""
    batch = sorted(batch, key=lambda read: read.text_id)
    rows = [
        {
            "claim_id": content_id("claim", read.text_id, str(number)),
            "text_id": read.text_id,
            "subject_key": name_key(claim.subject),
            "object_key": "" if claim.object == NONE else name_key(claim.object),
            **{name: getattr(claim, name) for name in Claim.__slots__},
        }
        for read in batch
        for number, claim in enumerate(read.claims)
    ]
    readings = [
        {
            "text_id": read.text_id,
            "status": read.status,
            "reason": read.reason,
            "num_claims": len(read.claims),
            "num_rejected": sum(read.reasons.values()),
            "reasons": json.dumps(dict(sorted(read.reasons.items()))),
        }
        for read in batch
    ]
    return pa.Table.from_pylist(rows, schema=CLAIMS), pa.Table.from_pylist(readings, schema=CLAIM_READINGS)


def _read(text_id: str, text: str, prompts: ClaimPrompts, config: ClaimsConfig) -> Conversation[ClaimsOfText]:
    """One conversation: the claims, then up to ``max_gleanings`` rounds for what was missed."""
    read = ClaimsOfText(text_id)
    asked = claim_messages(prompts, text, config.entity_specs, config.description)
    reply = yield Request(f"claims/{text_id}/1", asked, config.max_tokens)
    found = _note(read, reply, prompts)
    if found is None:
        read.status, read.reason = "failed", reply.error or "no reply"
        return read
    for number in range(config.max_gleanings if prompts.continue_prompt else 0):
        if number and prompts.more:
            answer = yield Request(f"claims/{text_id}/{2 * number + 1}", [*asked, *turn(reply, prompts.more)], 8)
            if not says_yes(answer.text):
                break
        asked = [*asked, *turn(reply, prompts.continue_prompt)]
        reply = yield Request(f"claims/{text_id}/{2 * number + 2}", asked, config.max_tokens)
        more = _note(read, reply, prompts)
        if more is None:
            break
        found = more
    if not found.complete:
        read.status, read.reason = "incomplete", "the last reply is cut off"
    return read


def _note(read: ClaimsOfText, reply: Reply, prompts: ClaimPrompts) -> ClaimsRead | None:
    """Reads a reply; None when there is none."""
    if reply.error is not None:
        return None
    found = read_claims(reply.text, prompts.delimiters, reply.finish_reason)
    read.claims.extend(found.claims)
    read.reasons += found.reasons
    return found
