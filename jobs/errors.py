"""What a person is told of an error that we know, and the exit code that goes with it."""

from __future__ import annotations

USAGE_ERRORS = ("ConfigError", "UnknownModelError")
FAILURES = (
    "IndexFolderError",
    "NoRecordsError",
    "WrongEmbedderError",
    "GeneratorGone",
    "AnswerError",
    "EmptyCorpusError",
    "ServerError",
    "NotFoundError",
    "OutOfDeviceMemoryError",
)


def explain(error: Exception) -> tuple[str | None, int]:
    """Message and exit code of a known error; (None, 1) of one that deserves its traceback.

    Errors are told apart by class name, so that showing a message does not import the modules that define them.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & set(USAGE_ERRORS):
        return str(error), 2
    if names & set(FAILURES):
        return str(error), 1
    if isinstance(error, MemoryError):
        return "out of memory; a smaller extract.shard_texts lowers what a stage holds at once", 1
    if isinstance(error, ImportError | OSError | ValueError):
        return f"{error}", 1
    return None, 1
