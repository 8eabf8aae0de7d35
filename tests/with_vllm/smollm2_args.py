"""Engine arguments for tests on a CPU."""

ARGS = {"dtype": "float32", "max_model_len": 4096, "max_num_seqs": 16, "enforce_eager": True}
"""Compiling would take longer than the tests; fp32, so that how requests are batched doesn't show in the replies."""
