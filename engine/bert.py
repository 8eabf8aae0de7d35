"""A BERT encoder over texts of many lengths without padding, from a folder's config.json and model.safetensors.

The tokens of a batch lie one after another, so that every matrix product is over real tokens only, and attention runs
over groups of equal length. A text's vector therefore does not depend on what it is batched with, up to rounding. On a
GPU, where many small products cost more than padding does, sequences are padded to one length instead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Linear = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weight and bias of each step."""

    queries_keys_values: Linear
    attended: Linear
    attended_norm: Linear
    widened: Linear
    narrowed: Linear
    narrowed_norm: Linear


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of several sequences, one after another.

    groups  (first token, number of sequences, length) of each run of sequences of one length
    """

    ids: Tensor
    positions: Tensor
    groups: list[tuple[int, int, int]]
    mask: Tensor | None


def is_supported(folder: Path) -> bool:
    """Whether the folder holds a plain BERT whose weights are in one safetensors file."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder", False)
        and (folder / "model.safetensors").is_file()
    )


class Bert:
    """The encoder of a BERT model; ``pooling`` is "mean" or "cls"."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype, pooling: str) -> None:
        import torch
        from safetensors.torch import load_file

        config = json.loads((folder / "config.json").read_text("utf-8"))
        self.device, self.pooling = device, pooling
        self.hidden, self.heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        self._eps = float(config.get("layer_norm_eps", 1e-12))
        loaded = load_file(folder / "model.safetensors")
        weights = {name.removeprefix("bert."): value.to(device, dtype) for name, value in loaded.items()}

        def pair(name: str) -> Linear:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        def layer(number: int) -> _Layer:
            own = f"encoder.layer.{number}"
            parts = [pair(f"{own}.attention.self.{part}") for part in ("query", "key", "value")]
            return _Layer(
                (torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])),
                pair(f"{own}.attention.output.dense"),
                pair(f"{own}.attention.output.LayerNorm"),
                pair(f"{own}.intermediate.dense"),
                pair(f"{own}.output.dense"),
                pair(f"{own}.output.LayerNorm"),
            )

        self._words = weights["embeddings.word_embeddings.weight"]
        # Every token is of the first segment, so that its embedding is part of the position's.
        types = weights["embeddings.token_type_embeddings.weight"]
        self._positions = weights["embeddings.position_embeddings.weight"] + types[0]
        self._norm = pair("embeddings.LayerNorm")
        self._layers = [layer(number) for number in range(int(config["num_hidden_layers"]))]

    def __call__(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Pooled last hidden states, float32 [n, hidden] on the CPU; sequences of one length should be neighbours."""
        import torch

        with torch.inference_mode():
            batch = pack(sequences) if self.device.type == "cpu" else pad(sequences, self.device)
            return self._pool(self._encode(batch), batch).float().cpu()

    def _encode(self, batch: Batch) -> Tensor:
        from torch.nn.functional import gelu, layer_norm, linear

        def normed(states: Tensor, norm: Linear) -> Tensor:
            return layer_norm(states, (self.hidden,), *norm, self._eps)

        states = normed(self._words[batch.ids] + self._positions[batch.positions], self._norm)
        for layer in self._layers:
            attended = self._attend(linear(states, *layer.queries_keys_values), batch)
            states = normed(states + linear(attended, *layer.attended), layer.attended_norm)
            widened = gelu(linear(states, *layer.widened))
            states = normed(states + linear(widened, *layer.narrowed), layer.narrowed_norm)
        return states

    def _attend(self, projected: Tensor, batch: Batch) -> Tensor:
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        attended: list[Tensor] = []
        for start, count, length in batch.groups:
            part = projected[start : start + count * length]
            queries, keys, values = part.view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            heads = scaled_dot_product_attention(queries, keys, values, attn_mask=batch.mask)
            attended.append(heads.transpose(1, 2).reshape(count * length, self.hidden))
        return attended[0] if len(attended) == 1 else torch.cat(attended)

    def _pool(self, states: Tensor, batch: Batch) -> Tensor:
        import torch

        pooled: list[Tensor] = []
        for start, count, length in batch.groups:
            group = states[start : start + count * length].view(count, length, self.hidden)
            if self.pooling == "cls":
                pooled.append(group[:, 0])
            elif batch.mask is None:
                pooled.append(group.float().mean(1))
            else:
                weights = batch.mask[:, 0, 0, :, None].float()
                pooled.append((group.float() * weights).sum(1) / weights.sum(1))
        return torch.cat(pooled)


def pack(sequences: Sequence[Sequence[int]]) -> Batch:
    """Sequences one after another, with no padding."""
    import torch

    ids = torch.tensor([token for sequence in sequences for token in sequence])
    positions = torch.cat([torch.arange(len(sequence)) for sequence in sequences])
    groups: list[tuple[int, int, int]] = []
    start = 0
    for length, run in groupby(len(sequence) for sequence in sequences):
        count = sum(1 for _ in run)
        groups.append((start, count, length))
        start += count * length
    return Batch(ids, positions, groups, None)


def pad(sequences: Sequence[Sequence[int]], device: Any) -> Batch:
    """Sequences padded to the longest, and a mask [n, 1, 1, length] of the tokens that count."""
    import torch

    length, count = max(map(len, sequences)), len(sequences)
    ids = torch.zeros(count, length, dtype=torch.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    positions = torch.arange(length)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    mask = (positions < lengths[:, None])[:, None, None, :]
    flat = positions.repeat(count)
    return Batch(ids.view(-1).to(device), flat.to(device), [(0, count, length)], mask.to(device))
