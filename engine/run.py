"""What every stage of a run is given, and how it is decided whether a stage is already done."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from graphmill.engine.claim_prompts import ClaimPrompts, load_claim_prompts
from graphmill.engine.config import Config, ConfigError
from graphmill.engine.extract_phrases import PHRASES
from graphmill.engine.metered import MeteredGenerator, rest
from graphmill.engine.models import Embedder, Generator, Tokenizer
from graphmill.engine.order import sort_chunks
from graphmill.engine.profiles import Profile, load_profile
from graphmill.engine.progress import Progress
from graphmill.engine.prompt_language import language_of_sources
from graphmill.engine.run_folder import RunFolder
from graphmill.engine.texts import distinct_texts
from graphmill.kernels.backend import Backend
from graphmill.kernels.device_memory import is_out_of_memory, wanted_bytes

VERSION = 1
"""Raised when a stage's output changes for the same input, so that indexes made before are made again."""


LOWERED_BY = {
    "duplicates": "extract.near_duplicates = 0 leaves the stage out",
    "entities": "resolve.max_merge_bytes, which merges in smaller parts",
    "aliases": 'resolve.max_merge_bytes, or device = "cpu"',
    "communities": 'device = "cpu", which finds the communities in main memory',
    "vectors": "embedder.args (gpu_memory_utilization) where vLLM embeds, or an embedder on the CPU",
    "index": 'search.index = "ivf_pq", which compresses the vectors, or "exact"',
    "other": "llm.args (gpu_memory_utilization, max_model_len)",
}
"""What makes a stage take less of the device's memory; the others do by the embedder's or the model's arguments."""


class OutOfDeviceMemoryError(Exception):
    """A stage wants more of the device's memory than there is."""


@dataclass(frozen=True)
class Models:
    """What reads, what embeds and what counts. Without a generator the phrase finder reads."""

    generator: Generator | None
    embedder: Embedder
    tokenizer: Tokenizer


@dataclass
class Run:
    """One run of the pipeline over one folder."""

    folder: RunFolder
    models: Models
    config: Config
    backend: Backend
    progress: Progress
    meter: MeteredGenerator | None = None
    """Counts what the model is asked; kept replies cost nothing and don't count."""
    retry_failures: bool = False
    """Texts that failed are put to the model itself again, whatever replies are kept of them."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader()  # refuses, before any work, a reader that is not there

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str, done: int = 0) -> Iterator[None]:
        """Times a stage and tells the progress of it."""
        self.progress.start(name, total, unit, done)
        begin = time.perf_counter()
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if self.backend.name == "cpu" or not is_out_of_memory(error):
                raise
            raise OutOfDeviceMemoryError(_out_of_memory(name, error)) from error
        finally:
            self.seconds[name] = round(time.perf_counter() - begin, 3)
        self.progress.finish()

    @property
    def generator(self) -> Generator | None:
        """The model that reads and writes; None where the phrase finder is to read."""
        wanted = self.config.extract.extractor
        if wanted == "model" and self.models.generator is None:
            raise ConfigError('extract.extractor = "model" needs a model: give --llm, or leave it at "auto"')
        return None if wanted == "phrases" else self.models.generator

    def rest(self) -> None:
        """Ends a stage of the model: it gives its memory back where the stages that follow want the GPU."""
        wanted = self.backend.name == "cuda" or getattr(self.models.embedder, "loads_engine", False)
        if wanted and self.models.generator is not None:
            rest(self.models.generator)

    @property
    def profile_name(self) -> str:
        """The extraction profile; "auto" is json where the model's replies are held to a schema, else graphrag."""
        chosen = self.config.extract.profile
        if chosen != "auto":
            return chosen
        return "json" if getattr(self.models.generator, "enforces_schema", False) else "graphrag"

    def reader(self) -> list[Any]:
        """What shapes extractions, for fingerprints."""
        generator, settings = self.generator, self.config.extract
        if generator is None:
            return ["phrases", PHRASES]
        profile = self.profiles(["en"])["en"]
        shaping = (
            settings.max_gleanings, settings.max_tokens, settings.temperature, settings.retries, settings.grounding,
        )  # fmt: skip
        return ["model", generator.model, profile.content_hash, settings.language, *shaping]

    def profiles(self, languages: Iterable[str]) -> dict[str, Profile]:
        """The extraction profile for each language: its own, or the one that is set for all."""
        settings = self.config.extract
        return {
            language: load_profile(
                self.profile_name,
                language if settings.language == "auto" else settings.language,
                entity_types=settings.entity_types,
            )
            for language in set(languages)
        }

    def claim_prompts(self, languages: Iterable[str]) -> dict[str, ClaimPrompts]:
        """The claim prompts for each language: its own, or the one that is set for all."""
        chosen = self.config.extract.language
        return {
            language: load_claim_prompts(self.config.claims.prompts, language if chosen == "auto" else chosen)
            for language in set(languages)
        }

    def claim_prints(self) -> list[str]:
        """What shapes claims beside the settings, for fingerprints."""
        return [prompts.content_hash for _, prompts in sorted(self.claim_prompts(["en", "zh"]).items())]

    def languages(self, chunk_ids: Any, chunks: pa.Table) -> list[str]:
        """Language in which each row, an entity or community with these chunks, is to be described."""
        chosen = self.config.extract.language
        return language_of_sources(chunk_ids, chunks) if chosen == "auto" else [chosen] * len(chunk_ids)

    def chunks(self, *columns: str) -> pa.Table:
        """Chunks in the order of their documents, with their ids and places and the columns named.

        The text of a near duplicate is, by its id, the one that is read in its place.
        """
        chunks = sort_chunks(self.folder.read("chunks", ["chunk_id", "document_id", "path", "position", *columns]))
        duplicates = self.duplicates() if "text_id" in columns else None
        if duplicates is None:
            return chunks
        place = pc.index_in(chunks["text_id"], value_set=duplicates["text_id"].combine_chunks())
        read = pc.coalesce(duplicates["same_as"].combine_chunks().take(place.combine_chunks()), chunks["text_id"])
        return chunks.set_column(chunks.schema.get_field_index("text_id"), "text_id", read)

    def duplicates(self) -> pa.Table | None:
        """DUPLICATES, where near duplicates are looked for and there are any."""
        if not self.config.extract.near_duplicates:
            return None
        duplicates = self.folder.read("duplicates")
        return duplicates if duplicates.num_rows else None

    def claims(self) -> pa.Table | None:
        """CLAIMS of the texts that the corpus holds now, ordered by text; None where none are looked for."""
        if not self.config.claims.enabled or self.generator is None:
            return None
        wanted = pc.unique(self.chunks("text_id")["text_id"])
        claims = self.folder.read("claims")
        # Ordered by what they are, whatever order the replies came in.
        order = [("text_id", "ascending"), ("claim_id", "ascending")]
        found: pa.Table = claims.filter(pc.is_in(claims["text_id"], value_set=wanted)).sort_by(order)
        return found

    def texts(self) -> dict[str, str]:
        """Language of each text that is to be read, by text id."""
        languages, duplicates = distinct_texts(self.folder), self.duplicates()
        for text_id in duplicates["text_id"].to_pylist() if duplicates is not None else ():
            del languages[text_id]
        return languages

    def is_done(self, stage: str, table: str, print_: str) -> bool:
        """Whether the table was finished before from the same input and settings."""
        done = self.folder.is_finished(table, print_)
        if done:
            self.progress.skip(stage)
        return done


def _out_of_memory(stage: str, error: BaseException) -> str:
    """The stage, the size and the setting."""
    size = wanted_bytes(error)
    wanted = "" if size is None else f" for {size / 2**30:,.2f} GiB more"
    # "chunks vectors" and the like are of one kind, whatever the table.
    setting = LOWERED_BY.get(stage) or LOWERED_BY.get(stage.rpartition(" ")[2]) or LOWERED_BY["other"]
    return (
        f"the stage {stage!r} ran out of the GPU's memory, asking{wanted or ' for more'}; lowered by: {setting}. "
        f"The same command goes on from here. ({(str(error).splitlines() or [type(error).__name__])[0]})"
    )


def fingerprint(*parts: Any) -> str:
    """Hash of settings and content hashes: of anything that JSON can hold."""
    return blake2b(json.dumps([VERSION, *parts], sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
