"""Search in a table of vectors: kinds, limits, files, filters, and that answers don't depend on the kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_cuvs import pretend

import graphmill
from graphmill.engine.config import Config, ConfigError, load_config
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.index_vectors import describe_searches, tell
from graphmill.engine.progress import Silent
from graphmill.engine.run_folder import RunFolder
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vector_index import SearchConfig, VectorIndex, choose_index
from graphmill.kernels.backend import NUMPY
from graphmill.kernels.topk import topk

HNSW = SearchConfig(index="hnsw", approximate_above=0, recall_k=20, recall_queries=100)


def embeddings(n: int, d: int, seed: int) -> np.ndarray:
    """Unit vectors in topics that run into each other."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((32, d))[rng.integers(0, 32, n)] + 1.2 * rng.standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return embeddings(2000, 24, seed=1)


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    return embeddings(50, 24, seed=2)


@pytest.fixture(scope="module")
def index(vectors: np.ndarray) -> VectorIndex:
    return VectorIndex.build(vectors, HNSW)


def found_share(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(one.tolist(), two.tolist(), strict=True)]))


def test_an_approximate_index_finds_what_it_says_it_finds(
    index: VectorIndex, vectors: np.ndarray, queries: np.ndarray
) -> None:
    told = index.describe()
    assert told["index"] == "hnsw"
    assert min(told["recall"].values()) >= 0.95
    assert told["library"].startswith("faiss 1.")
    scores, rows = index.search(queries, 20)
    exact_scores, exact_rows = topk(queries, vectors, 20)
    assert found_share(rows, exact_rows) >= 0.95
    assert scores.dtype == np.float32
    assert rows.dtype == np.int64
    assert (np.diff(scores, axis=1) <= 0).all()
    same = rows == exact_rows
    np.testing.assert_array_equal(scores[same], exact_scores[same])


@pytest.mark.parametrize("k", [1, 7, 499, 501, 2000, 5000])
def test_any_k_gives_as_many_rows_as_exact_search(
    index: VectorIndex, vectors: np.ndarray, queries: np.ndarray, k: int
) -> None:
    scores, rows = index.search(queries[:3], k)
    expected = topk(queries[:3], vectors, k)[1]
    assert scores.shape == rows.shape == expected.shape
    assert found_share(rows, expected) >= 0.95
    assert all(len(set(row)) == len(row) for row in rows.tolist())


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 0.99, 1.0])
def test_a_filter_lets_only_its_rows_through_and_loses_none(
    index: VectorIndex, vectors: np.ndarray, queries: np.ndarray, share: float
) -> None:
    allowed = np.random.default_rng(3).random(len(vectors)) < share
    _, rows = index.search(queries, 10, allowed)
    expected = topk(queries, vectors, 10, allowed)[1]
    assert rows.shape == expected.shape
    assert allowed[rows].all()
    assert not rows.size or found_share(rows, expected) >= 0.95


def test_a_filter_that_shuts_out_all_rows_near_the_query_still_finds_the_best_of_the_rest(
    index: VectorIndex, vectors: np.ndarray, queries: np.ndarray
) -> None:
    near = topk(queries[:1], vectors, 1000)[1][0]
    allowed = np.ones(len(vectors), np.bool_)
    allowed[near] = False
    _, rows = index.search(queries[:1], 10, allowed)
    np.testing.assert_array_equal(rows, topk(queries[:1], vectors, 10, allowed)[1])


def test_rows_that_are_not_finite_are_never_found(vectors: np.ndarray, queries: np.ndarray, tmp_path: Path) -> None:
    broken = vectors.copy()
    broken[::7] = np.nan
    broken[3, 2] = np.inf
    index = VectorIndex.build(broken, HNSW)
    index.save(tmp_path / "search")
    for made in (index, VectorIndex.load(tmp_path / "search", broken)):
        assert made.describe()["index"] == "hnsw"
        scores, rows = made.search(queries, 10)
        assert np.isfinite(scores).all()
        assert np.isfinite(broken[rows]).all()
        assert found_share(rows, topk(queries, broken, 10)[1]) >= 0.95
        assert made.search(queries, 2000)[1].shape == topk(queries, broken, 2000)[1].shape


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_tables_of_next_to_nothing_can_be_searched(n: int, queries: np.ndarray, tmp_path: Path) -> None:
    vectors = embeddings(n, 24, seed=4)
    index = VectorIndex.build(vectors, HNSW)
    index.save(tmp_path / "search")
    for made in (index, VectorIndex.load(tmp_path / "search", vectors)):
        assert made.search(queries, 10)[1].shape == (50, n)
    assert VectorIndex.build(np.full((4, 24), np.nan, np.float32), HNSW).search(queries, 3)[1].shape == (50, 0)


def test_what_exact_search_refuses_is_refused(index: VectorIndex, queries: np.ndarray) -> None:
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        index.search(queries, 0)
    with pytest.raises(ValueError, match="agree in d"):
        index.search(queries[:, :5], 3)
    with pytest.raises(ValueError, match="queries must be finite"):
        index.search(np.full((1, 24), np.nan, np.float32), 3)


def test_small_tables_stay_exact(vectors: np.ndarray) -> None:
    index = VectorIndex.build(vectors, SearchConfig())
    assert index.describe() == {"index": "exact", "vectors": 2000, "dimension": 24}
    assert VectorIndex.build(vectors, replace(HNSW, approximate_above=2000)).describe()["index"] == "exact"
    assert VectorIndex.build(vectors, replace(HNSW, index="exact")).describe()["index"] == "exact"


@pytest.mark.parametrize(
    ("config", "n", "kind"),
    [
        (SearchConfig(), 1_000, "exact"),
        (SearchConfig(), 10_000_000, "hnsw"),
        (SearchConfig(approximate_above=10), 11, "hnsw"),
        (SearchConfig(approximate_above=10), 10, "exact"),
        (SearchConfig(index="exact", approximate_above=0), 10_000_000, "exact"),
    ],
)
def test_the_kind_of_index_follows_the_settings_and_the_number_of_rows(config: SearchConfig, n: int, kind: str) -> None:
    assert choose_index(config, n, 384, NUMPY) == kind


def test_where_a_device_has_no_room_for_a_graph_vectors_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = pretend(monkeypatch)  # of 140 GB
    assert choose_index(SearchConfig(), 50_000_001, 384, device) == "cagra"
    assert choose_index(SearchConfig(), 500_000_000, 384, device) == "ivf_pq"
    assert choose_index(SearchConfig(), 5_000_000, 384, device) == "exact"
    assert choose_index(SearchConfig(index="hnsw", approximate_above=0), 5_000_000, 384, device) == "hnsw"


def test_an_index_that_needs_a_device_is_refused_without_one() -> None:
    with pytest.raises(ValueError, match=r'search.index = "cagra" needs a CUDA device, and the device is cpu'):
        choose_index(SearchConfig(index="cagra", approximate_above=0), 10, 8, NUMPY)


def test_a_recall_that_cannot_be_had_leaves_search_exact_and_says_so(
    monkeypatch: pytest.MonkeyPatch, queries: np.ndarray, vectors: np.ndarray, tmp_path: Path
) -> None:
    narrow = [({"links": 2}, [{"breadth": 1}, {"breadth": 2}])]
    monkeypatch.setattr("graphmill.kernels.approximate.ladder", lambda kind, d: narrow)
    index = VectorIndex.build(vectors, HNSW)
    told = index.describe()
    assert (told["index"], told["tried"], told["wanted"]) == ("exact", "hnsw", 0.95)
    assert min(told["recall"].values()) < 0.95
    np.testing.assert_array_equal(index.search(queries, 10)[1], topk(queries, vectors, 10)[1])
    index.save(tmp_path / "search")
    assert VectorIndex.load(tmp_path / "search", vectors).describe() == told


def test_what_was_saved_finds_the_same_and_holds_no_vectors(
    index: VectorIndex, vectors: np.ndarray, queries: np.ndarray, tmp_path: Path
) -> None:
    index.save(tmp_path / "search" / "chunks", "print", "table")
    loaded = VectorIndex.load(tmp_path / "search" / "chunks", vectors, table="table")
    assert loaded.describe() == index.describe()
    for got, expected in zip(loaded.search(queries, 10), index.search(queries, 10), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert sorted(file.name for file in (tmp_path / "search" / "chunks").iterdir()) == ["hnsw", "index.json"]
    assert [path.name for path in (tmp_path / "search").iterdir()] == ["chunks"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "hnsw").write_bytes((folder / "hnsw").read_bytes()[:-100]),
        lambda folder: (folder / "hnsw").write_bytes(b"x" + (folder / "hnsw").read_bytes()[1:]),
        lambda folder: (folder / "hnsw").unlink(),
        lambda folder: (folder / "index.json").write_text("{"),
        lambda folder: (folder / "index.json").write_text("[]"),
        lambda folder: (folder / "index.json").write_text('{"format": 0}'),
        lambda folder: (folder / "index.json").unlink(),
    ],
)
def test_a_damaged_index_is_not_used(
    index: VectorIndex, vectors: np.ndarray, queries: np.ndarray, tmp_path: Path, harm: object
) -> None:
    index.save(tmp_path / "search")
    harm(tmp_path / "search")  # type: ignore[operator]
    loaded = VectorIndex.load(tmp_path / "search", vectors)
    assert loaded.describe()["index"] == "exact"
    np.testing.assert_array_equal(loaded.search(queries, 5)[1], topk(queries, vectors, 5)[1])


def test_an_index_of_other_vectors_is_not_used(index: VectorIndex, vectors: np.ndarray, tmp_path: Path) -> None:
    index.save(tmp_path / "search", table="one")
    assert VectorIndex.load(tmp_path / "search", vectors, table="one").describe()["index"] == "hnsw"
    assert VectorIndex.load(tmp_path / "search", vectors, table="two").describe()["index"] == "exact"


def test_a_file_that_the_library_cannot_read_leaves_search_exact(
    index: VectorIndex, vectors: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.save(tmp_path / "search")
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    assert VectorIndex.load(tmp_path / "search", vectors).describe()["index"] == "exact"


def test_settings_are_checked(tmp_path: Path) -> None:
    config = tmp_path / "graphmill.toml"
    config.write_text('[search]\nindex = "hnsw"\napproximate_above = 0\nrecall = 0.9\n')
    assert load_config(config).search == SearchConfig("hnsw", 0, 0.9)
    for line, told in [
        ("recall = 1.5", r"search.recall must be in \(0, 1\], got 1.5"),
        ('index = "x"', "search.index"),
    ]:
        config.write_text(f"[search]\n{line}\n")
        with pytest.raises(ConfigError, match=told):
            load_config(config)


# A run folder.

NAMES = ["Ada Thornbury", "Elias Wren", "Hugo Vance", "Nina Grimm", "Oona Tarrant", "Pavel Kerr"]
PLACES = ["Saltmere Castle", "Fenwick Quay", "Harrow Mill", "Coldbrook Abbey"]
FORCED = Config(search=replace(HNSW, recall_k=5))


def documents(n: int) -> list[tuple[str, str]]:
    return [
        (f"d{i}.txt", f"{NAMES[i % 6]} met {NAMES[(i * 5 + 1) % 6]} at {PLACES[i % 4]} on day {i} of year {i // 7}.")
        for i in range(n)
    ]


class Told(Silent):
    """Keeps what a person is told."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.stages: list[str] = []
        self.skipped: list[str] = []

    def start(self, stage: str, total: int | None, unit: str, done: int = 0) -> None:
        self.stages.append(stage)

    def skip(self, stage: str) -> None:
        self.skipped.append(stage)

    def note(self, message: str) -> None:
        self.notes.append(message)


def run(path: Path, config: Config, n: int = 60) -> Told:
    told = Told()
    graphmill.index(documents(n), path, None, HashingEmbedder(32), WordTokenizer(), config, told)
    return told


def context_of(path: Path, mode: str) -> str:
    with graphmill.open(path, None, None, HashingEmbedder(32), WordTokenizer()) as kb:
        param = graphmill.QueryParam(mode=mode, only_need_context=True, top_k=5, chunk_top_k=5)
        return str(kb.query("Whom did Hugo Vance meet at Harrow Mill?", param).context)


def test_questions_are_answered_alike_by_an_approximate_index(tmp_path: Path) -> None:
    told = run(tmp_path / "one", FORCED)
    run(tmp_path / "two", Config())
    assert {"chunks index", "entities index"} <= set(told.stages)
    assert any(note.startswith("chunks: HNSW over 60 vectors (links 32, breadth 64), recall@5 ") for note in told.notes)
    assert describe_searches(RunFolder.open(tmp_path / "one"))["chunks"]["index"] == "hnsw"
    assert describe_searches(RunFolder.open(tmp_path / "two"))["chunks"] == {"index": "exact", "vectors": 60}
    for mode in ("naive", "local", "global"):
        assert context_of(tmp_path / "one", mode) == context_of(tmp_path / "two", mode)


def test_below_the_limit_no_index_is_made_and_nothing_said(tmp_path: Path) -> None:
    told = run(tmp_path / "kb", Config())
    assert not any("index" in stage for stage in told.stages + told.skipped)
    assert not told.notes
    assert not (tmp_path / "kb" / "search").exists()


def test_an_index_is_made_again_when_its_vectors_or_settings_change_or_its_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "kb"
    run(path, FORCED)
    assert "chunks index" in run(path, FORCED).skipped
    assert "chunks index" in run(path, replace(FORCED, search=replace(FORCED.search, recall=0.9))).stages
    assert "chunks index" in run(path, FORCED, n=61).stages
    (path / "search" / "chunks" / "hnsw").write_bytes(b"broken")
    assert context_of(path, "naive")
    assert "chunks index" in run(path, FORCED, n=61).stages
    assert describe_searches(RunFolder.open(path))["chunks"]["index"] == "hnsw"
    run(path, Config(), n=61)
    assert not (path / "search" / "chunks").exists()


def test_what_a_kill_left_half_made_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "kb"
    run(path, FORCED)
    (path / "search" / "chunks").rename(path / "search" / "chunks.part")
    assert "chunks index" in run(path, FORCED).stages
    assert not list(path.glob("search/*.part"))


def test_a_line_tells_what_an_exact_table_is_searched_by() -> None:
    assert tell("chunks", {"index": "exact", "vectors": 1234}) == "chunks: exact search over 1,234 vectors"


def test_a_saved_index_says_what_was_measured(index: VectorIndex, tmp_path: Path) -> None:
    index.save(tmp_path / "search")
    facts = json.loads((tmp_path / "search" / "index.json").read_text())
    assert {"recall", "build", "search", "build_s", "k", "wanted", "library", "files"} <= set(facts)


@pytest.mark.parametrize("kind", ["cagra", "ivf_pq"])
def test_what_a_device_made_is_kept_and_opened_there_and_a_graph_on_a_cpu_too(
    kind: str, vectors: np.ndarray, queries: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = pretend(monkeypatch)
    broken = vectors.copy()
    broken[5] = np.nan
    made = VectorIndex.build(broken, replace(HNSW, index=kind), device)  # type: ignore[arg-type]
    told = made.describe()
    assert (told["index"], told["device"], told["library"]) == (kind, "cuda", "cuvs 26.10.00")
    made.save(tmp_path / "search")
    exact = topk(queries, broken, 10)[1]
    for opened in (made, VectorIndex.load(tmp_path / "search", broken, device)):
        assert opened.describe() == told
        assert found_share(opened.search(queries, 10)[1], exact) >= 0.95
    on_cpu = VectorIndex.load(tmp_path / "search", broken, NUMPY)
    assert on_cpu.describe()["index"] == ("cagra" if kind == "cagra" else "exact")
    assert found_share(on_cpu.search(queries, 10)[1], exact) >= 0.95


def test_on_a_device_what_a_cpu_made_makes_way_for_a_scan(
    index: VectorIndex, vectors: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.save(tmp_path / "search")
    assert VectorIndex.load(tmp_path / "search", vectors, pretend(monkeypatch)).describe()["index"] == "exact"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["cagra", "ivf_pq"])
def test_an_index_made_on_a_device_is_saved_and_opened_there_and_on_a_cpu(kind: str, tmp_path: Path) -> None:
    from graphmill.kernels.backend import backend

    device = backend("auto")
    if device.name != "cuda":
        pytest.skip("needs a CUDA device")
    vectors, queries = embeddings(20_000, 100, seed=5), embeddings(50, 100, seed=6)
    config = SearchConfig(index=kind, approximate_above=0, recall_k=20, recall_queries=200)  # type: ignore[arg-type]
    made = VectorIndex.build(vectors, config, device)
    assert made.describe()["index"] == kind
    made.save(tmp_path / "search")
    exact = topk(queries, vectors, 10)[1]
    for opened in (made, VectorIndex.load(tmp_path / "search", vectors, device)):
        assert opened.describe()["index"] == kind
        assert found_share(opened.search(queries, 10)[1], exact) >= 0.93
    on_cpu = VectorIndex.load(tmp_path / "search", vectors, NUMPY)
    assert on_cpu.describe()["index"] == ("cagra" if kind == "cagra" else "exact")
    assert found_share(on_cpu.search(queries, 10)[1], exact) >= 0.93
