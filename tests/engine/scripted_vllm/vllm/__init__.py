"""Stands in for vLLM in tests of the model process: the same names, and an engine that does what its prompt says."""

import os
from types import SimpleNamespace

if os.environ.get("SCRIPTED_VLLM") == "missing":
    raise ImportError("No module named 'vllm'")

__version__ = os.environ.get("SCRIPTED_VLLM_VERSION", "0.32.0")


class SamplingParams(SimpleNamespace):
    """Takes no other names than vLLM's own, of which these are in use."""

    def __init__(self, *, max_tokens, temperature, output_kind, structured_outputs, top_p=1.0, ignore_eos=False, **no):
        if no:
            raise TypeError(f"Unexpected keyword argument '{next(iter(no))}'")
        super().__init__(
            max_tokens=max_tokens, temperature=temperature, output_kind=output_kind,
            structured_outputs=structured_outputs, top_p=top_p, ignore_eos=ignore_eos,
        )  # fmt: skip


class PoolingParams(SimpleNamespace):
    pass
