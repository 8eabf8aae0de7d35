from enum import Enum
from types import SimpleNamespace


class RequestOutputKind(Enum):
    FINAL_ONLY = 2


class StructuredOutputsParams(SimpleNamespace):
    pass
