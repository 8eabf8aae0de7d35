from enum import Enum
from types import SimpleNamespace


class RequestOutputKind(Enum):
    DELTA = 1
    FINAL_ONLY = 2


class StructuredOutputsParams(SimpleNamespace):
    pass
