"""What tells the files of one model from those of another without reading all of their gigabytes."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

PART = 1 << 16


def file_prints(folder: Path) -> list[str]:
    """Name, size and a hash of four parts of each file of a folder: two trainings of one model differ in it."""
    prints = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        size = path.stat().st_size
        digest = blake2b(digest_size=8)
        with path.open("rb") as file:
            for place in (0, size // 4, size // 2, size - PART):
                file.seek(max(0, place))
                digest.update(file.read(PART))
        prints.append(f"{path.name} {size} {digest.hexdigest()}")
    return prints
