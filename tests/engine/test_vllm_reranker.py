"""The cross-encoder in the model process, with a scripted stand-in for vLLM (tests/engine/scripted_vllm).

The stand-in's score of a pair is the number of characters of its text.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import graphmill
from graphmill.engine.config import Config, ConfigError, load_config
from graphmill.engine.function_models import HashingEmbedder
from graphmill.engine.rerank import Reranker, open_reranker
from graphmill.engine.tokenizers import WordTokenizer
from graphmill.engine.vllm_process import EngineGone
from graphmill.engine.vllm_reranker import VLLMReranker

Make = Callable[..., VLLMReranker]


@pytest.fixture(autouse=True)
def _scripted_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("scripted_vllm")))


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def make(warnings: list[str]) -> Iterator[Make]:
    made: list[VLLMReranker] = []

    def reranker(model: str = "org/cross", args: dict[str, object] | None = None, **options: str) -> VLLMReranker:
        made.append(VLLMReranker(model, args, warn=warnings.append, **options))
        return made[-1]

    yield reranker
    for one in made:
        one.close()


def pid_of(reranker: VLLMReranker) -> int:
    process = reranker._process._process
    assert process is not None
    return process._process.pid


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_scores_come_in_the_order_of_the_texts_over_many_messages(make: Make, warnings: list[str]) -> None:
    reranker = make()
    assert isinstance(reranker, Reranker)
    reranker.TEXTS_A_MESSAGE = 2
    scores = reranker.rank("who?", ["abc", "b", "", "灯塔", "eeeee"])
    assert scores.dtype == np.float32
    assert scores.tolist() == [3, 1, 0, 2, 5]
    assert reranker.rank("who?", []).tolist() == []
    assert warnings == []


def test_what_looks_like_a_special_token_in_a_pair_is_ordinary_text(make: Make) -> None:
    assert make().rank("<|end|>?", ["a<|end|>b"]).tolist() == [len("a<|end|>b")]


def test_one_bad_pair_is_not_a_number_and_the_others_have_their_scores(make: Make, warnings: list[str]) -> None:
    scores = make().rank("q", ["abc", "be refused", "be no number", "ab"])
    assert np.isnan(scores[1:3]).all()
    assert scores[[0, 3]].tolist() == [3, 2]
    (warning,) = warnings
    assert warning == "the reranker could not score 2 of 4 texts: ValueError: the text is refused"


def test_where_no_text_has_a_score_it_says_why(make: Make) -> None:
    with pytest.raises(ValueError, match="scores nothing: ValueError: the text is refused"):
        make().rank("q", ["be refused", "be refused twice"])


def test_a_pair_that_is_too_long_loses_the_end_of_its_text_and_nothing_of_the_question(make: Make) -> None:
    reranker = make(args={"max_model_len": 50})
    room = 50 - len("a question") - 3
    assert reranker.rank("a question", ["x" * room, "x" * (room + 1), "y" * 5000]).tolist() == [room] * 3
    with pytest.raises(ValueError, match="leaves no room for a text in a context of 50 tokens"):
        reranker.rank("q" * 50, ["short"])


def test_a_language_model_is_put_question_and_text_in_one_or_by_its_template(make: Make, warnings: list[str]) -> None:
    assert make("org/language").rank("q?", ["abc"]).tolist() == [-5]  # no pair, no types
    (warning,) = warnings
    assert "only with the template" in warning
    assert make("org/language", template="<{query}|{document}>").rank("q?", ["abc"]).tolist() == [-8]
    assert len(warnings) == 1
    cut = make("org/language", {"max_model_len": 20}, template="<{query}|{document}>")
    assert cut.rank("q?", ["abc", "x" * 99]).tolist() == [-8, -20]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("org/embedder", "no cross-encoder: vLLM runs it for embed"),
        ("org/two-labels", "has 1 label, got one with 2"),
        ("org/images", "needs a template"),
        ("org/too-big", "CUDA out of memory"),
    ],
)
def test_a_model_that_scores_no_pairs_is_refused_once_and_not_loaded_again(make: Make, model: str, says: str) -> None:
    reranker = make(model)
    with pytest.raises(EngineGone, match=says):
        reranker.rank("q", ["a"])
    assert reranker._process._process is None
    with pytest.raises(EngineGone, match=says):
        reranker.rank("q", ["a"])
    assert reranker._process._number == 0


def test_a_refusal_is_its_reason_and_nothing_of_what_vllm_has_logged(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EngineGone) as refusal:
        make("org/two-labels").rank("q", ["a"])
    assert str(refusal.value) == "a model that scores pairs has 1 label, got one with 2"
    assert not list(tmp_path.iterdir())  # no log is pointed to
    with pytest.raises(EngineGone, match="its log is") as failure:
        make("org/too-big").rank("q", ["a"])
    assert "CUDA out of memory" in str(failure.value)
    assert "WARNING" not in str(failure.value)


@pytest.mark.parametrize(("text", "says"), [("kill yourself", "exit code 3"), ("lose the engine", "EngineCore")])
def test_an_engine_that_dies_is_told_of_and_loaded_anew_for_the_next_question(make: Make, text: str, says: str) -> None:
    reranker = make()
    with pytest.raises(EngineGone, match=says):
        reranker.rank("q", ["abc", text])
    assert reranker.rank("q", ["abc"]).tolist() == [3]


def test_the_engine_is_loaded_when_it_is_asked_and_gone_when_the_index_is_closed(tmp_path: Path) -> None:
    documents = [(f"{n}.txt", "The ferry sails on Mondays. " * (n + 1)) for n in range(4)]
    embedder = HashingEmbedder(16)
    graphmill.index(documents, tmp_path / "kb", None, embedder, WordTokenizer())
    config = load_config(None, {"reranker.model": "vllm:org/cross", "reranker.args": {"max_model_len": 500}})
    assert config.reranker.args == {"max_model_len": 500}
    with graphmill.open(tmp_path / "kb", config, None, embedder, WordTokenizer()) as opened:
        reranker = opened.reranker
        assert isinstance(reranker, VLLMReranker)
        assert reranker._process._process is None
        param = graphmill.QueryParam(mode="naive", only_need_context=True)
        answer = opened.query("When does the ferry sail?", param)
        pid = pid_of(reranker)
        assert is_alive(pid)
        assert answer.warnings == []
        # Longest first: the reranker's order, not that of the vectors, which are all the same.
        assert [reference.document for reference in answer.references] == ["3.txt", "2.txt", "1.txt", "0.txt"]
    assert not is_alive(pid)


def test_a_reranker_that_can_not_be_loaded_leaves_the_question_its_answer(tmp_path: Path) -> None:
    embedder = HashingEmbedder(16)
    graphmill.index([("a.txt", "The ferry sails.")], tmp_path / "kb", None, embedder, WordTokenizer())
    config = load_config(None, {"reranker.model": "vllm:org/too-big"})
    with graphmill.open(tmp_path / "kb", config, None, embedder, WordTokenizer()) as opened:
        answer = opened.query("Does the ferry sail?", graphmill.QueryParam(mode="naive"))
    assert "The ferry sails." in answer.answer
    assert answer.warnings[0].startswith("the chunks could not be reranked: vLLM's process ended")
    with pytest.raises(ConfigError, match=r"reranker\.model: can't open the reranker"):
        graphmill.open(tmp_path / "kb", load_config(None, {"reranker.model": "bge"}), None, embedder, WordTokenizer())


def test_the_models_name_tells_what_shapes_its_scores(make: Make) -> None:
    assert make().model.startswith("org/cross@")
    assert make().model == make(args={"gpu_memory_utilization": 0.2}).model
    assert make().model != make(args={"dtype": "float16"}).model
    opened = open_reranker("vllm:org/cross", vllm_args={"dtype": "float16"})
    assert isinstance(opened, VLLMReranker)
    assert opened.model == make(args={"dtype": "float16"}).model
    assert Config().reranker.model == "none"


def test_questions_are_scored_beside_each_other_and_one_that_fails_stops_no_other(make: Make) -> None:
    reranker = make()
    reranker.TEXTS_A_MESSAGE = 2
    found = reranker.rank_each([("q", ["abc", "b", "ab"]), ("q", []), ("q", ["be refused"]), ("r", ["abcd"])])
    assert isinstance(found[2], ValueError)
    assert [np.asarray(found[n]).tolist() for n in (0, 1, 3)] == [[3, 1, 2], [], [4]]
    assert [np.asarray(scores).tolist() for scores in reranker.rank_each([("q", []), ("r", [])])] == [[], []]
