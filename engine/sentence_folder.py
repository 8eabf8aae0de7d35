"""What the files of a sentence-embedding model say: where its network is, how its states are pooled, what it takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_LENGTH = 8192
"""Bound for models that name none or an absurd one."""
_POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "lasttoken": "lasttoken"}


@dataclass(frozen=True, slots=True)
class SentenceFolder:
    """A folder in the layout of sentence-transformers, or of transformers, which then is pooled by the mean."""

    network: Path
    pooling: str
    dimension: int
    max_length: int
    """In tokens, start and end tokens counted."""


def read_sentence_folder(path: Path) -> SentenceFolder:
    """Reads the settings; raises ValueError on a folder that is none, or has steps that are not known here."""
    network, pooling = path, "mean"
    modules = _read(path / "modules.json") if (path / "modules.json").is_file() else []
    for module in modules:
        kind, place = str(module["type"]).rpartition(".")[2], path / module["path"]
        if kind == "Transformer":
            network = place
        elif kind == "Pooling":
            pooling = _pooling(_read(place / "config.json"), place)
        elif kind != "Normalize":
            raise ValueError(f"{path} has a step {kind}, expected only Transformer, Pooling and Normalize")
    config = _read(network / "config.json")
    if not isinstance(config, dict) or "hidden_size" not in config:
        raise ValueError(f"{network / 'config.json'} names no hidden_size, so it is not an embedding model's")
    return SentenceFolder(network, pooling, int(config["hidden_size"]), _max_length([network, path], config))


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"no embedding model at {file.parent}: can't read {file.name}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{file} is not valid JSON: {error}") from error


def _pooling(config: dict[str, Any], place: Path) -> str:
    prefix = "pooling_mode_"
    chosen = [key.removeprefix(prefix) for key, is_on in config.items() if key.startswith(prefix) and is_on]
    if isinstance(config.get("pooling_mode"), str):
        chosen = [config["pooling_mode"]]
    found = _POOLINGS.get(chosen[0], chosen[0]) if len(chosen) == 1 else ""
    if found not in _POOLINGS.values():
        known = ", ".join(_POOLINGS.values())
        raise ValueError(f"{place} pools by {' and '.join(chosen) or 'nothing'}, expected one of {known}")
    return found


def _max_length(places: list[Path], config: dict[str, Any]) -> int:
    """The least of what the files say."""
    bounds = [MAX_LENGTH]
    for place in places:
        for name, key in (
            ("sentence_bert_config.json", "max_seq_length"),
            ("tokenizer_config.json", "model_max_length"),
        ):
            if (place / name).is_file():
                bounds.append(int(_read(place / name).get(key) or MAX_LENGTH))
    positions = config.get("max_position_embeddings")
    if positions:
        # Models of the RoBERTa kind number positions from the one after the padding token's.
        is_roberta = "roberta" in str(config.get("model_type"))
        bounds.append(int(positions) - (int(config.get("pad_token_id") or 0) + 1 if is_roberta else 0))
    return min(bounds)
