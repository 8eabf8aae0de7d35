from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_server import Answer, models, serving

from graphmill.engine.function_models import FunctionGenerator, HashingEmbedder
from graphmill.engine.minilm import MiniLM, minilm_folder
from graphmill.engine.open_models import UnknownModelError, open_embedder, open_generator, open_tokenizer
from graphmill.engine.openai_embedder import OpenAIEmbedder
from graphmill.engine.openai_generator import OpenAIGenerator
from graphmill.engine.replay import ReplayGenerator
from graphmill.engine.server import ServerError
from graphmill.engine.server_tokenizer import ServerTokenizer
from graphmill.engine.vllm_generator import VLLMGenerator, VLLMOptions


def vllm(path: str, body: Any) -> Answer:
    """The parts of a model server that opening one asks for."""
    if path == "/v1/models":
        return models("big", max_model_len=5000)
    if path == "/tokenize":
        return Answer({"count": len(body["prompt"].split()), "token_strs": None})
    if path == "/v1/embeddings":
        return Answer({"data": [{"embedding": [0.0, 1.0]} for _ in body["input"]]})
    return Answer({}, 404)


def without_tokenize(path: str, body: Any) -> Answer:
    return Answer({}, 404) if path == "/tokenize" else vllm(path, body)


@pytest.mark.parametrize("spec", ["none", "None", "", " none "])
def test_no_model_is_no_generator(spec: str) -> None:
    assert open_generator(spec) is None


def test_a_url_opens_the_model_served_or_the_one_named_after_it() -> None:
    with serving(vllm) as server:
        generator = open_generator(server.url, max_in_flight=3, timeout_s=9.0, max_retries=1)
        named = open_generator(f"{server.url}#org/other", context_tokens=2048)
    assert isinstance(generator, OpenAIGenerator)
    assert isinstance(named, OpenAIGenerator)
    assert (generator.model, generator.context_tokens, generator.max_in_flight) == ("big", 5000, 3)
    assert (generator.server.timeout_s, generator.server.max_retries) == (9.0, 1)
    assert (named.model, named.context_tokens) == ("org/other", 2048)


def test_a_dead_server_is_an_error_at_once() -> None:
    with serving(vllm) as server:
        url = server.url
    with pytest.raises(ServerError, match="Connection refused"):
        open_generator(url)
    with pytest.raises(ServerError, match="Connection refused"):
        open_embedder(url)


def test_a_recording_is_opened(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"messages": [], "text": "x"}\n')
    generator = open_generator(f"replay:{tmp_path / 'r.jsonl'}", context_tokens=77)
    assert isinstance(generator, ReplayGenerator)
    assert generator.context_tokens == 77


@pytest.mark.parametrize("spec", ["./folder", "localhost:8000", "gpt-9"])
def test_what_names_no_model_is_refused_with_what_does(spec: str) -> None:
    with pytest.raises(UnknownModelError, match=f"'{spec}': expected none, a folder with config.json"):
        open_generator(spec)


def test_a_folder_is_a_model_for_vllm_which_is_not_loaded_before_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"text_config": {"max_position_embeddings": 4096}}')
    generator = open_generator(str(tmp_path), vllm=VLLMOptions({"max_num_seqs": 64}))
    assert isinstance(generator, VLLMGenerator)
    assert (generator.context_tokens, generator.max_in_flight, generator.starts) == (4096, 128, 0)


def test_the_packaged_embedder_goes_by_two_names_and_by_its_folder() -> None:
    for spec in ("minilm", "all-MiniLM-L6-v2"):
        embedder = open_embedder(spec, device="cpu")
        assert isinstance(embedder, MiniLM)
        assert embedder.model == "all-MiniLM-L6-v2"
    assert open_embedder(str(minilm_folder())).dimension == 384


def test_an_embedder_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownModelError, match="no-such-model"):
        open_embedder("no-such-model")


def test_a_server_embedder_is_measured_by_its_own_tokenizer_or_the_packaged_one() -> None:
    with serving(vllm) as server:
        own = open_embedder(server.url)
    with serving(without_tokenize) as server:
        packaged = open_embedder(server.url)
    assert isinstance(own, OpenAIEmbedder)
    assert isinstance(own.tokenizer, ServerTokenizer)
    assert packaged.tokenizer.name.startswith("all-MiniLM-L6-v2:")


def test_the_tokenizer_is_the_given_one_before_the_models_and_the_models_before_the_embedders(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    with serving(vllm) as server:
        generator = open_generator(server.url)
        found = open_tokenizer(None, generator, embedder)
        assert isinstance(found, ServerTokenizer)
        assert found.count(["one two"]).tolist() == [2]
        assert open_tokenizer(None, generator, embedder) is found
        assert open_tokenizer(str(minilm_folder()), generator, embedder).name.startswith("model:")
    with serving(without_tokenize) as server:
        assert open_tokenizer(None, open_generator(server.url), embedder) is embedder.tokenizer
    assert open_tokenizer(None, None, embedder) is embedder.tokenizer
    assert open_tokenizer(None, FunctionGenerator(lambda request: "x"), embedder) is embedder.tokenizer
    with pytest.raises(ValueError, match="no tokenizer at"):
        open_tokenizer(str(tmp_path), None, embedder)
