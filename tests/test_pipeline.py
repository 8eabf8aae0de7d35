"""Whole runs with scripted models: what is made, what is made again, what a failure costs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.engine.chunk import ChunkConfig
from graphmill.engine.config import Config, ConfigError, LLMConfig
from graphmill.engine.embed import EmbedConfig
from graphmill.engine.extract import ExtractConfig, NoRecordsError
from graphmill.engine.extract_claims import ClaimsConfig
from graphmill.engine.function_models import FunctionEmbedder, FunctionGenerator, HashingEmbedder
from graphmill.engine.models import Reply, Request
from graphmill.engine.pipeline import EmptyCorpusError
from graphmill.engine.progress import Silent
from graphmill.engine.run_folder import IndexFolderError, RunFolder
from graphmill.engine.server import ServerError
from graphmill.engine.tokenizers import WordTokenizer

REPORT = json.dumps(
    {
        "title": "T", "summary": "S", "rating": 6, "rating_explanation": "why",
        "findings": [{"summary": "f", "explanation": "e"}],
    }
)  # fmt: skip
TABLES = ("documents", "chunks", "entities", "relationships", "communities", "reports", "vectors_entities")


class Model:
    """Reads "A knows B." lines of a text as records, and notes every request."""

    def __init__(self, break_on: Callable[[str], Reply | str | None] = lambda text: None) -> None:
        self.requests: list[Request] = []
        self.break_on = break_on

    def __call__(self, request: Request) -> Reply | str:
        self.requests.append(request)
        if request.id.startswith("report"):
            return REPORT
        if not request.id.startswith("extract"):
            return "A summary."
        text = request.messages[0]["content"].rsplit("Passage:", 1)[-1]
        broken = self.break_on(text)
        if broken is not None:
            return broken
        if len(request.messages) > 1:
            return "<|COMPLETE|>"
        rows = []
        for line in text.splitlines():
            one, verb, other = [*line.rstrip(".").split(), "", "", ""][:3]
            if verb == "knows":
                rows += [f'("entity"<|>{n}<|>person<|>{n} is in the text)' for n in (one, other)]
                rows.append(f'("relationship"<|>{one}<|>{other}<|>{line}<|>7)')
        return "##".join([*rows, "<|COMPLETE|>"]).replace("##<|", "<|")

    def count(self, kind: str) -> int:
        return sum(request.id.startswith(kind) for request in self.requests)


def run(
    documents: Any,
    path: Path,
    model: Model | None,
    config: Config | None = None,
    progress: Silent | None = None,
    **options: bool,
) -> dict[str, Any]:
    generator = None if model is None else FunctionGenerator(model, model="scripted", max_in_flight=8)
    return graphmill.index(
        documents, path, generator, HashingEmbedder(32), WordTokenizer(), config, progress, **options
    )


def people(num: int) -> list[tuple[str, str]]:
    return [(f"d{n:03d}.txt", f"Document {n}.\nAda{n} knows Bob{n}.\nAda{n} knows Cy.") for n in range(num)]


def _times(path: Path) -> dict[Path, int]:
    """When each table's files were written; an iterator's documents are read, and written, in every run."""
    files = (p for p in path.rglob("*.parquet") if p.parent.name not in ("documents", "skipped"))
    return {p: p.stat().st_mtime_ns for p in files}


def contents(path: Path) -> dict[str, list[dict[str, Any]]]:
    folder = RunFolder.open(path)
    return {
        name: folder.read(name).drop_columns(["created_at"] if name == "documents" else []).to_pylist()
        for name in TABLES
    }


def test_a_corpus_becomes_an_index_whose_parts_fit_together(tmp_path: Path) -> None:
    model = Model()
    summary = run(people(5), tmp_path / "kb", model)
    assert (summary["status"], summary["documents"], summary["chunks"]) == ("complete", 5, 5)
    assert (summary["entities"], summary["relationships"]) == (11, 10)
    assert model.count("extract") == 10  # one gleaning round a chunk
    tables = contents(tmp_path / "kb")
    chunk_ids = {row["chunk_id"] for row in tables["chunks"]}
    entity_ids = {row["entity_id"] for row in tables["entities"]}
    assert all(set(row["chunk_ids"]) <= chunk_ids for row in tables["entities"] + tables["relationships"])
    assert {row["source_id"] for row in tables["relationships"]} <= entity_ids
    assert {e for row in tables["communities"] for e in row["entity_ids"]} == entity_ids
    assert [row["community"] for row in tables["reports"]] == [row["community"] for row in tables["communities"]]
    assert {row["id"] for row in tables["vectors_entities"]} == entity_ids
    for chunk in tables["chunks"]:
        text = next(d["text"] for d in tables["documents"] if d["document_id"] == chunk["document_id"])
        assert text[chunk["start"] : chunk["end"]] == chunk["text"]


def test_the_same_corpus_gives_the_same_tables_whatever_the_order_it_comes_in(tmp_path: Path) -> None:
    documents = people(12)
    run(documents, tmp_path / "one", Model())
    run(documents[::-1], tmp_path / "two", Model(), Config(extract=ExtractConfig(shard_texts=3)))
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    for name in ("entities", "relationships", "communities", "reports", "vectors_entities"):
        assert one[name] == two[name], name


def test_running_again_makes_no_call_and_changes_no_file(tmp_path: Path) -> None:
    run(people(6), tmp_path / "kb", Model())
    before = _times(tmp_path / "kb")
    model = Model()
    run(people(6), tmp_path / "kb", model)
    assert model.requests == []
    assert before == _times(tmp_path / "kb")


def test_a_new_document_costs_only_its_own_reading_and_a_removed_one_leaves_no_trace(tmp_path: Path) -> None:
    run(people(6), tmp_path / "kb", Model())
    model = Model()
    run(people(7), tmp_path / "kb", model)
    assert model.count("extract") == 2
    run(people(3), tmp_path / "kb", Model())
    run(people(3), tmp_path / "fresh", Model())
    assert contents(tmp_path / "kb") == contents(tmp_path / "fresh")


def test_one_text_in_two_files_is_read_once_and_both_are_cited(tmp_path: Path) -> None:
    text = "Ada knows Bob."
    model, progress = Model(), Silent()
    summary = run([("a.txt", text), ("b.txt", text), ("c.txt", "  \n ")], tmp_path / "kb", model, None, progress)
    assert model.count("extract") == 2  # one text and its gleaning
    assert (summary["chunks"], summary["distinct_texts"], summary["skipped"]) == (2, 1, {"empty": 1})
    with graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer()) as kb:
        answer = kb.query("Ada knows Bob", graphmill.QueryParam(mode="naive", only_need_context=True))
    assert {r.document for r in answer.references} == {"a.txt", "b.txt"}
    ada = next(row for row in contents(tmp_path / "kb")["entities"] if row["name"] == "Ada")
    assert len(ada["chunk_ids"]) == 2


def test_a_chunk_that_fails_on_every_try_fails_alone_and_is_all_that_is_asked_again(tmp_path: Path) -> None:
    def timeout(text: str) -> Reply | None:
        return Reply("", error="deadline of 600 s exceeded") if "Document 82." in text else None

    summary = run(people(120), tmp_path / "kb", Model(timeout))
    assert summary["status"] == "partial"
    assert summary["texts_read"] == {"failed": 1, "ok": 119}
    assert summary["failed"] == {"deadline of 600 s exceeded": 1}
    model = Model()
    summary = run(people(120), tmp_path / "kb", model)
    assert summary["status"] == "complete"
    assert model.count("extract") == 2
    assert all("Document 82." in r.messages[0]["content"] for r in model.requests if r.id.startswith("extract"))


def test_retrying_failures_asks_anew_what_a_kept_reply_would_answer(tmp_path: Path) -> None:
    def nothing(text: str) -> Reply | None:
        return Reply("", "There is nothing to be found here.", None) if "Document 2." in text else None

    config = Config(extract=ExtractConfig(max_gleanings=0))
    assert run(people(4), tmp_path / "kb", Model(nothing), config)["failed"] == {"no record": 1}
    kept = Model()
    assert run(people(4), tmp_path / "kb", kept, config)["status"] == "partial"  # the kept reply fails again
    assert kept.count("extract") == 0
    model = Model()
    assert run(people(4), tmp_path / "kb", model, config, retry_failures=True)["status"] == "complete"
    assert model.count("extract") == 1


def test_entities_that_the_text_does_not_name_are_dropped_and_counted_where_grounding_is_on(tmp_path: Path) -> None:
    def invented(text: str) -> str:
        return (
            '("entity"<|>ADA LOVELACE<|>person<|>a)##("entity"<|>Elvis<|>person<|>b)##("entity"<|>李白<|>person<|>c)##'
            '("relationship"<|>Ada Lovelace<|>Elvis<|>met<|>9)##'
            '("relationship"<|>Ada Lovelace<|>李白<|>met<|>9)<|COMPLETE|>'
        )

    documents = [("a.txt", "Ada\n  Lovelace read 李\n白.")]
    config = Config(extract=ExtractConfig(max_gleanings=0, grounding=True))
    summary = run(documents, tmp_path / "kb", Model(invented), config)
    assert (summary["entities"], summary["relationships"]) == (2, 1)
    assert summary["records_rejected"] == {"not in the text": 2}


def test_a_cut_off_reply_is_marked_and_is_not_kept_for_later_runs(tmp_path: Path) -> None:
    def cut(text: str) -> Reply | None:
        half = '("entity"<|>Ada<|>person<|>One)##("entity"<|>Bob<|>per'
        return Reply("", half, "length") if "Document 1." in text else None

    summary = run(people(3), tmp_path / "kb", Model(cut))
    assert summary["texts_read"] == {"incomplete": 1, "ok": 2}
    other = Config(extract=ExtractConfig(max_gleanings=0))
    model = Model()
    run(people(3), tmp_path / "kb", model, other)
    assert model.count("extract") == 1  # the two whole replies come from the store


def test_a_model_that_answers_nonsense_stops_the_run_early_and_is_quoted(tmp_path: Path) -> None:
    model = Model(lambda text: "As an AI I like turtles.")
    with pytest.raises(NoRecordsError, match="20 of the first 20 replies held no record") as caught:
        run(people(200), tmp_path / "kb", model)
    assert str(caught.value).count("turtles") == 3
    assert model.count("extract") < 120


def test_a_mended_model_is_asked_again_after_a_stop_for_nonsense(tmp_path: Path) -> None:
    with pytest.raises(NoRecordsError):
        run(people(30), tmp_path / "kb", Model(lambda text: "As an AI I like turtles."))
    assert run(people(30), tmp_path / "kb", Model())["entities"] == 61


def test_a_model_that_fails_on_everything_stops_the_run_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(NoRecordsError, match=r"answered none of the first 20 texts.*no such key"):
        run(people(30), tmp_path / "kb", Model(lambda text: Reply("", error="no such key")))


def test_what_was_read_is_kept_when_the_model_goes_away(tmp_path: Path) -> None:
    class Dying(FunctionGenerator):
        def collect(self) -> Sequence[Reply]:
            if model.count("extract") >= 40:
                raise ServerError("gone")
            return super().collect()

    config, model = Config(llm=LLMConfig(store_replies=False)), Model()
    dying = Dying(model, model="scripted", max_in_flight=8)
    with pytest.raises(ServerError, match="gone"):
        graphmill.index(people(40), tmp_path / "kb", dying, HashingEmbedder(32), WordTokenizer(), config)
    again = Model()
    run(people(40), tmp_path / "kb", again, config)
    assert model.count("extract") + again.count("extract") <= 80 + 8


def test_an_index_whose_update_was_stopped_is_not_opened_for_questions(tmp_path: Path) -> None:
    run(people(4), tmp_path / "kb", Model())

    class Stop(Silent):
        def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
            if stage == "communities":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(people(6)[1:], tmp_path / "kb", Model(), progress=Stop())
    with pytest.raises(IndexFolderError, match="update was stopped half-way"):
        graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer())
    run(people(6)[1:], tmp_path / "kb", Model())
    graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer()).close()


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("six") / "kb"
    run(people(6), path, Model())
    return path


@pytest.mark.parametrize("table", [*TABLES, "extractions", "readings", "skipped", "words"])
def test_what_is_missing_or_broken_is_named_and_made_again(six: Path, tmp_path: Path, table: str) -> None:
    shutil.copytree(six, tmp_path / "kb")
    before = contents(tmp_path / "kb")
    files = sorted((tmp_path / "kb" / table).rglob("meta.json" if table == "words" else "*.parquet"))
    files[0].unlink() if len(table) % 2 else files[0].write_bytes(files[0].read_bytes()[:100])
    if table not in ("extractions", "readings", "skipped"):
        with pytest.raises(IndexFolderError, match=f"{table}.*graphmill index"):
            graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer())
    model = Model()
    run(people(6), tmp_path / "kb", model)
    assert not model.requests
    assert contents(tmp_path / "kb") == before
    graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer()).close()


def test_a_reader_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"extract\.extractor"):
        run(people(2), tmp_path / "kb", None, Config(extract=ExtractConfig(extractor="model")))
    assert not RunFolder.open(tmp_path / "kb").tables


def test_a_small_corpus_of_nonsense_is_indexed_without_entities_and_says_why(tmp_path: Path) -> None:
    progress = Silent()
    summary = run(people(3), tmp_path / "kb", Model(lambda text: "<|COMPLETE|>"), None, progress)
    assert (summary["entities"], summary["communities"]) == (0, 0)
    assert any("no entities" in warning and "no records" in warning for warning in progress.warnings)
    with graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer()) as kb:
        for mode in ("naive", "local", "global"):
            kb.query("Who knows Bob?", graphmill.QueryParam(mode=mode))


@pytest.mark.parametrize(
    ("documents", "message"),
    [([], "is empty"), ([("a.txt", ""), ("b.txt", " \n")], "holds no text that can be read; 2 files")],
)
def test_an_empty_corpus_is_refused_with_what_was_skipped(tmp_path: Path, documents: Any, message: str) -> None:
    with pytest.raises(EmptyCorpusError, match=message):
        run(documents, tmp_path / "kb", Model())


def test_an_interrupted_run_goes_on_to_the_same_tables_without_reading_twice(tmp_path: Path) -> None:
    calls = 0

    def interrupt(text: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 60:
            raise KeyboardInterrupt

    config = Config(extract=ExtractConfig(shard_texts=4))
    with pytest.raises(KeyboardInterrupt):
        run(people(40), tmp_path / "kb", Model(interrupt), config)
    assert 0 < RunFolder.open(tmp_path / "kb").tables["readings"].rows < 40
    model = Model()
    run(people(40), tmp_path / "kb", model, config)
    assert model.count("extract") <= 80 - 59 + 8  # what was in flight is asked again
    run(people(40), tmp_path / "fresh", Model())
    assert contents(tmp_path / "kb") == contents(tmp_path / "fresh")


def test_documents_may_be_an_iterator_that_is_read_once(tmp_path: Path) -> None:
    def stream() -> Iterator[tuple[str, str]]:
        yield from people(4)

    assert run(stream(), tmp_path / "kb", Model())["documents"] == 4


def test_created_at_stays_that_of_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000")
    run(people(2), tmp_path / "kb", Model())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2000")
    run(people(3), tmp_path / "kb", Model())
    rows = RunFolder.open(tmp_path / "kb").read("documents").to_pylist()
    assert [int(row["created_at"].timestamp()) for row in sorted(rows, key=lambda r: r["path"])] == [1000, 1000, 2000]


def test_vectors_that_are_not_finite_are_left_out_and_told_of(tmp_path: Path) -> None:
    hashing = HashingEmbedder(32)

    def embed(texts: list[str]) -> np.ndarray:
        vectors = hashing.embed(texts)
        vectors[[n for n, text in enumerate(texts) if text.startswith("Ada1\n")]] = np.nan
        return vectors

    progress = Silent()
    embedder = FunctionEmbedder(embed, 32, model="flaky")
    generator = FunctionGenerator(Model(), model="scripted")
    graphmill.index(people(4), tmp_path / "kb", generator, embedder, WordTokenizer(), None, progress)
    assert any("1 of 9 entities could not be embedded" in warning for warning in progress.warnings)
    with graphmill.open(tmp_path / "kb", embedder=embedder, tokenizer=WordTokenizer()) as kb:
        answer = kb.query("Ada1", graphmill.QueryParam(mode="local", only_need_context=True))
    assert '"entity":"Ada1"' not in answer.context


def test_another_embedder_is_refused_before_any_work(tmp_path: Path) -> None:
    run(people(2), tmp_path / "kb", Model())
    with pytest.raises(ValueError, match=r"hashing-32 \(32 dimensions\).*hashing-16 \(16 dimensions\).*rebuild"):
        graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(16), tokenizer=WordTokenizer())


def test_an_unfinished_index_is_not_opened_for_questions(tmp_path: Path) -> None:
    with pytest.raises(NoRecordsError):
        run(people(30), tmp_path / "kb", Model(lambda text: "nothing"))
    with pytest.raises(IndexFolderError, match="is not finished"):
        graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32))


def test_chinese_documents_are_read_described_and_reported_with_chinese_prompts(tmp_path: Path) -> None:
    entity, relationship = "林芷若<|>person<|>林芷若是海洋学家", "林芷若<|>北岭大学<|>任教<|>8"
    model = Model(lambda text: f'("entity"<|>{entity})##("relationship"<|>{relationship})<|COMPLETE|>')
    run([("一.txt", "林芷若是北岭大学的海洋学家。" * 20)], tmp_path / "kb", model)
    for kind in ("extract", "report"):
        prompts = [r.messages[0]["content"] for r in model.requests if r.id.startswith(kind)]
        assert prompts
        assert all("中文" in prompt for prompt in prompts)


def test_a_changed_report_setting_costs_only_reports(tmp_path: Path) -> None:
    from graphmill.engine.report import ReportConfig

    run(people(6), tmp_path / "kb", Model())
    model = Model()
    run(people(6), tmp_path / "kb", model, Config(report=ReportConfig(max_tokens=500)))
    assert model.count("extract") == 0
    assert model.count("report") > 0


def test_chunks_cut_otherwise_are_read_anew_and_the_old_graph_is_gone(tmp_path: Path) -> None:
    run([("a.txt", "Ada knows Bob.\n" * 30)], tmp_path / "kb", Model())
    summary = run([("a.txt", "Ada knows Bob.\n" * 30)], tmp_path / "kb", Model(), Config(chunk=ChunkConfig(20, 0)))
    assert summary["chunks"] > 1
    assert summary["status"] == "complete"


def test_the_summary_tells_tokens_by_stage_and_kept_replies_cost_none(tmp_path: Path) -> None:
    model = Model(lambda text: Reply("", '("entity"<|>Ada<|>person<|>x)<|COMPLETE|>', "stop", 100, 10))
    tokens = run(people(3), tmp_path / "kb", model)["tokens"]
    assert tokens["extractions"] == {"prompt": 600, "completion": 60}
    again = run(people(3), tmp_path / "kb", Model())["tokens"]
    assert again == tokens


def test_an_entity_without_relationships_is_still_found_and_shown(tmp_path: Path) -> None:
    model = Model(lambda text: '("entity"<|>Zed<|>person<|>Zed lives alone)<|COMPLETE|>' if "Zed" in text else None)
    run([*people(2), ("z.txt", "Zed lives alone.")], tmp_path / "kb", model)
    with graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer()) as kb:
        answer = kb.query("Who is Zed?", graphmill.QueryParam(mode="local", only_need_context=True))
    assert '"entity":"Zed"' in answer.context
    assert "Zed lives alone" in answer.context


def test_a_global_answer_is_reduced_from_the_best_points_of_all_groups_of_reports(tmp_path: Path) -> None:
    run(people(6), tmp_path / "kb", Model())
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        if request.id.startswith("query/map"):
            point = {"description": f"point {len(asked)} [1]", "score": len(asked)}
            return json.dumps({"points": [point, {"description": "no", "score": 0}]})
        return "In the end [1], and [999]."

    generator = FunctionGenerator(answer, model="scripted")
    with graphmill.open(tmp_path / "kb", None, generator, HashingEmbedder(32), WordTokenizer()) as kb:
        param = graphmill.QueryParam(mode="global", global_max_token_for_community_report=120)
        found = kb.query("Who knows whom?", param)
    maps = [request for request in asked if request.id.startswith("query/map")]
    assert len(maps) > 1
    reduce = asked[-1].messages[0]["content"]
    assert '"description": "no"' not in reduce
    # The first group alone was shown the report that all of them cite.
    assert reduce.index(f'point {len(maps)}"') < reduce.index("point 1 [1]")
    assert "[999]" not in found.answer
    assert [reference.number for reference in found.references] == [1]
    assert found.answer.endswith(f"[KG] {found.references[0].label}")


def test_a_lexical_index_that_is_switched_off_goes_and_comes_back(tmp_path: Path) -> None:
    words = tmp_path / "kb" / "words"
    run(people(3), tmp_path / "kb", Model())
    assert (words / "chunks").is_dir()
    run(people(3), tmp_path / "kb", Model(), Config(embed=EmbedConfig(lexical=False)))
    assert not list(words.iterdir())
    with graphmill.open(tmp_path / "kb", embedder=HashingEmbedder(32), tokenizer=WordTokenizer()) as index:
        assert index.query("Who knows Bob1?").references
    run(people(3), tmp_path / "kb", Model())
    assert (words / "chunks").is_dir()


def test_claims_are_read_kept_and_put_into_the_material_of_reports(tmp_path: Path) -> None:
    class Claiming(Model):
        def __call__(self, request: Request) -> Reply | str:
            if not request.id.startswith("claims"):
                return super().__call__(request)
            self.requests.append(request)
            if len(request.messages) > 1:
                return "<|COMPLETE|>"
            text = request.messages[0]["content"]
            name = next(f"ADA{n}" for n in range(4) if f"Ada{n} knows" in text)
            claim = f"({name}<|>NONE<|>FRAUD<|>SUSPECTED<|>2031-03-01<|>NONE<|>{name} is accused of fraud<|>it says so)"
            return claim + "<|COMPLETE|>"

    config = Config(claims=ClaimsConfig(enabled=True, entity_specs="person", description="accusations"))
    model = Claiming()
    run(people(4), tmp_path / "kb", model, config)
    assert model.count("claims") == 8
    assert "accusations" in next(r for r in model.requests if r.id.startswith("claims")).messages[0]["content"]
    claims = RunFolder.open(tmp_path / "kb").read("claims").to_pylist()
    assert {(c["subject"], c["object_key"], c["status"], c["start"]) for c in claims} == {
        (f"ADA{n}", "", "SUSPECTED", "2031-03-01") for n in range(4)
    }
    reports = [r.messages[0]["content"] for r in model.requests if r.id.startswith("report")]
    material = "\n".join(report.rpartition("Claims:")[2] for report in reports)
    shown = '{{"subject":"ADA{}","type":"FRAUD","status":"SUSPECTED","start":"2031-03-01"'
    assert all(shown.format(n) in material for n in range(4))
    again = Claiming()
    run(people(4), tmp_path / "kb", again, config)
    assert not again.requests
    without = Claiming()
    run(people(4), tmp_path / "kb", without)
    assert without.count("claims") == 0


def test_near_duplicates_are_read_once_and_cited_everywhere_where_a_threshold_is_set(tmp_path: Path) -> None:
    filler = " ".join(f"word{n}" for n in range(80))
    documents = [(f"{name}.txt", f"Ada knows Bob.\n{filler} {name}") for name in ("a", "b", "c")]
    documents.append(("d.txt", "Cy knows Di."))
    model = Model()
    run(documents, tmp_path / "off", model)
    assert model.count("extract") == 8
    model = Model()
    summary = run(documents, tmp_path / "kb", model, Config(extract=ExtractConfig(near_duplicates=0.8)))
    assert model.count("extract") == 4
    assert (summary["near_duplicates"], summary["distinct_texts"], summary["status"]) == (2, 4, "complete")
    ada = next(row for row in contents(tmp_path / "kb")["entities"] if row["name"] == "Ada")
    assert len(ada["chunk_ids"]) == 3
    again = Model()
    run(documents, tmp_path / "kb", again)  # without the threshold the others are read after all
    assert again.count("extract") == 4
