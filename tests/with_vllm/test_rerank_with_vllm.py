"""The cross-encoder in vLLM's process against transformers and torch, with a small model made of packaged weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill.engine.minilm import minilm_folder
from graphmill.engine.vllm_reranker import VLLMReranker

pytestmark = pytest.mark.vllm

QUESTION = "Who directs the institute?"
TEXTS = [
    "Oona Tarrant directs the Kvarra Marine Institute in Port Merrow.",
    "The ferry sails on Mondays.",
    "Oona [SEP] Tarrant",
    "灯笼海带 grows at nineteen metres.",
    "harbour light " * 400,
    "a",
]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The packaged MiniLM with a seeded head, large enough that pairs differ, and token types that count."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("models") / "cross"
    torch.manual_seed(7)
    model = BertForSequenceClassification.from_pretrained(minilm_folder(), num_labels=1)
    with torch.no_grad():
        model.classifier.weight.normal_(0, 0.5)
        model.bert.embeddings.token_type_embeddings.weight.normal_(0, 0.2)
        model.bert.pooler.dense.weight.normal_(0, 0.1)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(minilm_folder()).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def reranker(cross_encoder: str, vllm_python: str) -> Iterator[VLLMReranker]:
    made = VLLMReranker(cross_encoder, {"dtype": "float32", "enforce_eager": True}, python=vllm_python)
    yield made
    made.close()


def torch_scores(folder: str, question: str, texts: list[str], **other: Any) -> np.ndarray:
    """Sigmoids of the logits, as sentence-transformers gives them, pair by pair."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertForSequenceClassification.from_pretrained(folder)
    scores = []
    for text in texts:
        inputs = tokenizer(
            question, text, truncation="only_second", max_length=512, return_tensors="pt", split_special_tokens=True
        )
        with torch.no_grad():
            scores.append(torch.sigmoid(model.eval()(**(dict(inputs) | other)).logits).item())
    return np.array(scores)


def test_pairs_have_the_scores_that_torch_gives_them(reranker: VLLMReranker, cross_encoder: str) -> None:
    expected = torch_scores(cross_encoder, QUESTION, TEXTS)
    assert np.ptp(expected) > 0.1  # so that it shows where pairs are mixed up
    untyped = torch_scores(cross_encoder, QUESTION, TEXTS, token_type_ids=None)
    assert np.abs(expected - untyped).max() > 0.02  # and where types of tokens are lost
    np.testing.assert_allclose(reranker.rank(QUESTION, TEXTS), expected, atol=1e-3)


def test_many_pairs_in_one_batch_have_the_scores_of_each_alone(reranker: VLLMReranker) -> None:
    texts = [f"{text} {n}" for n in range(12) for text in TEXTS]
    together = reranker.rank(QUESTION, texts)
    alone = np.concatenate([reranker.rank(QUESTION, [text]) for text in texts[::9]])
    np.testing.assert_allclose(together[::9], alone, atol=1e-3)


def test_a_question_that_leaves_no_room_is_refused_and_the_next_is_answered(reranker: VLLMReranker) -> None:
    with pytest.raises(ValueError, match="leaves no room for a text in a context of 512 tokens"):
        reranker.rank("harbour light " * 400, ["a"])
    assert np.isfinite(reranker.rank(QUESTION, ["a"])).all()


def test_an_embedding_model_is_refused_with_the_reason(vllm_python: str) -> None:
    made = VLLMReranker(str(minilm_folder()), {"dtype": "float32", "enforce_eager": True}, python=vllm_python)
    try:
        with pytest.raises(RuntimeError, match=r"no cross-encoder: vLLM runs it for embed"):
            made.rank(QUESTION, ["a"])
    finally:
        made.close()


@pytest.fixture
def language_model(smollm2: str, tmp_path: Path) -> str:
    """A tiny seeded language model with a head for one label, and SmolLM2's tokenizer."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, num_labels=1, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    LlamaForSequenceClassification(config).save_pretrained(tmp_path / "llama")
    tokenizer.save_pretrained(tmp_path / "llama")
    return str(tmp_path / "llama")


def test_a_language_model_scores_what_its_template_makes_of_a_pair(language_model: str, vllm_python: str) -> None:
    import torch
    from transformers import AutoTokenizer, LlamaForSequenceClassification

    roles = ("query", "document")
    role = "{{{{ messages | selectattr('role', 'eq', '{}') | map(attribute='content') | first }}}}"
    template = "<|im_start|>Is it about " + role.format(roles[0]) + "?<|im_end|>" + role.format(roles[1]) + " Answer:"
    args = {"dtype": "float32", "enforce_eager": True, "max_model_len": 256, "max_num_seqs": 8}
    made = VLLMReranker(language_model, args, template=template, python=vllm_python)
    try:
        scores = made.rank(QUESTION, [*TEXTS[:4], "harbour light " * 400])
    finally:
        made.close()
    tokenizer = AutoTokenizer.from_pretrained(language_model)
    model = LlamaForSequenceClassification.from_pretrained(language_model, dtype=torch.float32).eval()
    expected = []
    for text in TEXTS[:4]:
        ids = tokenizer(f"<|im_start|>Is it about {QUESTION}?<|im_end|>{text} Answer:", return_tensors="pt")[
            "input_ids"
        ]
        with torch.no_grad():
            expected.append(torch.sigmoid(model(ids).logits).item())
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(scores[:4], expected, atol=1e-3)
    assert np.isfinite(scores[4])
