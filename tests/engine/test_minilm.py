from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill.engine import bert
from graphmill.engine.minilm import MiniLM, TransformersEmbedder, minilm_folder
from graphmill.engine.models import Embedder

SENTENCES = [
    "The council opened the river gate in March.",
    "The gate on the river was opened by the council in spring.",
    "A recipe for lemon cake with almonds.",
    "",
    "[CLS] <|im_end|> 北岭大学 naïve café 🙂",
    "word",
    "The harbour company sued the shipyard over a contract. " * 20,
]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM(device="cpu", num_threads=2)


@pytest.fixture(scope="module")
def expected() -> np.ndarray[Any, Any]:
    """What transformers gives: one text at a time, mean over all tokens, unit length."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(minilm_folder()))
    network = AutoModel.from_pretrained(str(minilm_folder()), dtype=torch.float32).eval()
    rows = []
    for text in SENTENCES:
        # The tokenizer of transformers would take "[CLS]" in a text for the token.
        encoded = tokenizer(text.replace("[CLS]", "[ cls ]"), truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            rows.append(network(**encoded).last_hidden_state[0].mean(0))
    return torch.nn.functional.normalize(torch.stack(rows), dim=1).numpy()


def test_vectors_are_those_of_the_plain_model(minilm: MiniLM, expected: np.ndarray[Any, Any]) -> None:
    vectors = minilm.embed(SENTENCES)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(SENTENCES), minilm.dimension)
    assert (np.einsum("ij,ij->i", vectors, expected) > 0.99999).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_it_says_what_it_is(minilm: MiniLM) -> None:
    assert isinstance(minilm, Embedder)
    assert (minilm.model, minilm.dimension, minilm.max_tokens) == ("all-MiniLM-L6-v2", 384, 254)
    assert minilm.languages == {"en"}
    assert minilm.embed([]).shape == (0, 384)


def test_a_text_has_one_vector_whatever_it_is_batched_with(minilm: MiniLM) -> None:
    texts = [f"{sentence} {n}" for n in range(12) for sentence in SENTENCES]
    together = minilm.embed(texts)
    alone = np.concatenate([minilm.embed([text]) for text in texts[:8]])
    backwards = minilm.embed(texts[::-1])[::-1]
    single = MiniLM(device="cpu", num_threads=1).embed(texts[:20])
    assert np.abs(together[:8] - alone).max() < 1e-5
    assert np.abs(together - backwards).max() < 1e-5
    assert np.abs(together[:20] - single).max() < 1e-5


def test_similar_sentences_are_nearer_than_others(minilm: MiniLM) -> None:
    first, second, other = minilm.embed(SENTENCES[:3])
    assert first @ second > 0.7 > 0.3 > first @ other


def test_padding_changes_nothing(minilm: MiniLM) -> None:
    """The way that a GPU takes, here on the CPU."""
    import torch

    encoder = bert.Bert(minilm_folder(), torch.device("cpu"), torch.float32, "mean")
    sequences = [[101, 2023, 102], [101, *range(2000, 2040), 102], [101, 102]]
    with torch.inference_mode():
        batch = bert.pad(sequences, torch.device("cpu"))
        padded = encoder._pool(encoder._encode(batch), batch)
    assert torch.allclose(padded, encoder(sequences), atol=1e-5)


def test_embedding_leaves_torch_as_it_was_and_brings_in_no_hub_and_no_noise() -> None:
    program = (
        "import sys, threading\n"
        "from graphmill.engine.minilm import MiniLM\n"
        "embedder = MiniLM(device='cpu', num_threads=2)\n"
        "assert 'torch' not in sys.modules\n"
        "import torch\n"
        "torch.set_num_threads(3)\n"
        "embedder.embed(['a b c'] * 200)\n"
        "assert torch.get_num_threads() == 3\n"
        "seen = []\n"
        "other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))\n"
        "other.start(); other.join()\n"
        "assert seen == [3], seen\n"
        "assert not {'transformers', 'sentence_transformers', 'huggingface_hub'} & set(sys.modules)\n"
        "embedder.close()\n"
        "print(embedder.embed(['again']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("(1, 384)\n", "")


INTERRUPT = """
import signal, sys
class AtImport:
    # Hits Ctrl-C where a module is about to be imported, in the middle of the import of another.
    def __init__(self, name):
        self.name = name
        sys.meta_path.insert(0, self)
    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def test_an_interrupt_while_torch_is_imported_comes_when_it_is_there_and_the_embedder_works_after_it() -> None:
    program = (
        f"{INTERRUPT}\n"
        "from graphmill.engine.minilm import MiniLM\n"
        "embedder = MiniLM(device='cpu', num_threads=2)\n"
        "AtImport('torch.nn')\n"
        "try:\n"
        "    embedder.embed(['a'])\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
        "print(embedder.embed(['a']).shape, embedder._threads is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n(1, 384) True\n", "")


def test_threads_that_come_first_together_share_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, real, all_there = MiniLM(device="cpu", num_threads=2), bert.Bert, threading.Barrier(3)
    made: list[bert.Bert] = []
    monkeypatch.setattr(bert, "Bert", lambda *arguments: made.append(real(*arguments)) or made[-1])

    def embed() -> np.ndarray[Any, Any]:
        all_there.wait()
        return embedder.embed(["a b c"])

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(embed) for _ in range(3)]
    assert len({future.result().tobytes() for future in found}) == 1
    assert len(made) == 1


def test_an_interrupt_while_another_thread_loads_the_model_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken:
        """Hits Ctrl-C where the lock is waited for."""

        def __enter__(self) -> None:
            signal.raise_signal(signal.SIGINT)

        def __exit__(self, *error: object) -> None: ...

    embedder, loaded = MiniLM(device="cpu"), list[str]()
    monkeypatch.setattr(embedder, "_loading", Taken())
    monkeypatch.setattr(embedder, "_loaded", lambda: loaded.append("after the wait"))
    with pytest.raises(KeyboardInterrupt):
        embedder.embed(["a"])
    assert not loaded


def copy_of_minilm(folder: Path) -> Path:
    shutil.copytree(minilm_folder(), folder / "copy")
    return folder / "copy"


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_any_folder_is_read_by_its_own_settings(tmp_path: Path, minilm: MiniLM) -> None:
    folder = copy_of_minilm(tmp_path)
    change(folder / "sentence_bert_config.json", max_seq_length=16)
    embedder = TransformersEmbedder(folder, device="cpu")
    assert (embedder.model, embedder.max_tokens, embedder.languages) == ("copy", 14, None)
    assert np.allclose(embedder.embed(SENTENCES[:3]), minilm.embed(SENTENCES[:3]), atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "max", "lasttoken", "mean"])
def test_other_architectures_and_poolings_run_through_transformers(
    tmp_path: Path, pooling: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of_minilm(tmp_path)
    change(folder / "1_Pooling" / "config.json", pooling_mode=pooling)
    if pooling == "cls":
        fast = TransformersEmbedder(folder, device="cpu").embed(SENTENCES)
    monkeypatch.setattr(bert, "is_supported", lambda folder: False)
    embedder = TransformersEmbedder(folder, device="cpu", num_threads=2)
    vectors = embedder.embed(SENTENCES)
    assert np.allclose(vectors[::-1], embedder.embed(SENTENCES[::-1]), atol=1e-5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    if pooling == "cls":
        assert np.allclose(vectors, fast, atol=1e-5)
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_is_no_embedding_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no embedding model at .*config\.json"):
        TransformersEmbedder(tmp_path)
    folder = copy_of_minilm(tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="has a step Dense"):
        TransformersEmbedder(folder)


def test_cuda_that_is_not_there_is_refused() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(RuntimeError, match="torch sees no GPU"):
        MiniLM(device="cuda").embed(["a"])
