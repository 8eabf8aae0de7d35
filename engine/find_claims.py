"""The claims step of a run: what texts assert, read by the model where it is asked for."""

from __future__ import annotations

from functools import partial

import pyarrow.compute as pc

from graphmill.engine.extract_claims import ClaimsOfText, claim_tables, extract_claims
from graphmill.engine.run import Run, fingerprint
from graphmill.engine.texts import texts_to_read
from graphmill.engine.write_behind import WriteBehind


def find_claims(run: Run) -> None:
    """Chunks -> claims, claim_readings, where they are asked for. Texts that were read before are not read again."""
    folder, settings, generator = run.folder, run.config.claims, run.generator
    if not settings.enabled or generator is None:
        if settings.enabled:
            run.progress.warn("claims are read by a model, and there is none: none were looked for")
        return
    languages = run.texts()
    prompts = run.claim_prompts(languages.values())
    print_ = fingerprint("claims", generator.model, settings, run.config.extract.language, run.claim_prints())
    claims, readings = folder.start("claims", print_), folder.start("claim_readings", print_)
    done: set[str] = set()
    if readings.table.shards:
        before = folder.read("claim_readings", ["text_id", "status"])
        done = set(before.filter(pc.not_equal(before["status"], "failed"))["text_id"].to_pylist())
    wanted = languages.keys() - done
    if not wanted and folder.is_finished("claims", print_):
        run.progress.skip("claims")
        return
    with run.stage("claims", len(languages), "texts", len(languages) - len(wanted)):

        def write(batch: list[ClaimsOfText]) -> None:
            found, read = claim_tables(batch)
            with folder.together():
                claims.append(found)
                readings.append(read)
            run.progress.advance(len(batch))

        with WriteBehind() as behind:
            for batch in extract_claims(texts_to_read(folder, wanted, languages), generator, prompts, settings):
                behind.do(partial(write, batch))
        with folder.together():
            claims.finish()
            readings.finish()
