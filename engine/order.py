"""The one order that counts where order counts: document path, then position in the document."""

from __future__ import annotations

import pyarrow as pa


def sort_chunks(chunks: pa.Table) -> pa.Table:
    """Chunks in the order of their documents' paths and of their positions; equal paths go by document id."""
    return chunks.sort_by([("path", "ascending"), ("document_id", "ascending"), ("position", "ascending")])
