"""Stands in for vLLM in tests of the model process: the same names, and an engine that does what its prompt says."""

import os
from types import SimpleNamespace

if os.environ.get("SCRIPTED_VLLM") == "missing":
    raise ImportError("No module named 'vllm'")

__version__ = os.environ.get("SCRIPTED_VLLM_VERSION", "0.32.0")


class SamplingParams(SimpleNamespace):
    pass


class PoolingParams(SimpleNamespace):
    pass
