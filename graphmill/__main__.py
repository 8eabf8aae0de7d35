"""``python -m graphmill``: the command line."""

from __future__ import annotations

from graphmill.jobs.cli import main

if __name__ == "__main__":
    main()
