"""The embedder in vLLM's process against torch, with the packaged model."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.engine.minilm import MiniLM, minilm_folder
from graphmill.engine.vllm_embedder import VLLMEmbedder

pytestmark = pytest.mark.vllm

TEXT = "Oona Tarrant directs the Kvarra Marine Institute in Port Merrow, and Bridget Aluko chairs the Harbour Trust."


def test_pooling_gives_the_vectors_that_torch_gives(vllm_python: str) -> None:
    ours = MiniLM()
    texts = [TEXT, "A short one.", "灯笼海带", "harbour " * 300]
    embedder = VLLMEmbedder(
        str(minilm_folder()), ours.tokenizer, {"dtype": "float32", "enforce_eager": True}, python=vllm_python
    )
    try:
        theirs = embedder.embed(texts[:3])
        assert embedder.dimension == 384
    finally:
        embedder.close()
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(np.sum(theirs * ours.embed(texts[:3]), axis=1), 1.0, atol=1e-4)
