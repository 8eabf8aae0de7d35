from dataclasses import dataclass


@dataclass
class AsyncEngineArgs:
    model: str = ""
    runner: str = "auto"
    seed: int = 0
    max_model_len: int = 1000
    max_num_seqs: int = 4
    tensor_parallel_size: int = 1
    enable_prefix_caching: bool = False
    scheduling_policy: str = "fcfs"
