"""An encoder of any architecture that transformers knows: padded batches in, pooled states out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.engine.bert import pad

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def transformers_encoder(
    folder: Path, device: torch.device, dtype: torch.dtype, pooling: str
) -> Callable[[Sequence[Sequence[int]]], Tensor]:
    """Token sequences to float32 [n, hidden] on the CPU, pooled by "mean", "cls", "max" or "lasttoken"."""
    import torch

    network = _load(folder, dtype).to(device).eval()

    def encode(sequences: Sequence[Sequence[int]]) -> Tensor:
        batch = pad(sequences, device)
        assert batch.mask is not None
        mask = batch.mask[:, 0, 0, :]
        with torch.inference_mode():
            output = network(input_ids=batch.ids.view(len(sequences), -1), attention_mask=mask.long())
            states: Tensor = output.last_hidden_state.float()
            return _pool(states, mask, pooling).cpu()

    return encode


def _load(folder: Path, dtype: torch.dtype) -> Any:
    """The network, read with no bar on the terminal and no look at a hub."""
    from transformers import AutoModel
    from transformers.utils import logging as notes

    progress: Any = notes
    shows_progress = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        return AutoModel.from_pretrained(str(folder), local_files_only=True, dtype=dtype)
    finally:
        if shows_progress:
            progress.enable_progress_bar()


def _pool(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    import torch

    if pooling == "cls":
        return states[:, 0]
    if pooling == "lasttoken":
        return states[torch.arange(len(states)), mask.sum(1) - 1]
    if pooling == "max":
        return states.masked_fill(~mask[..., None], -torch.inf).amax(1)
    weights = mask[..., None].float()
    return (states * weights).sum(1) / weights.sum(1)
