"""Tolerant reader of delimited records: finds the tags, then where each record ends, then what its fields are.

Everything hangs on the delimiters: a record begins where a tag stands before one. So what is around and between the
records (prose, fences, bullets, separators or none) needs no grammar. Each step looks at a character a bounded number
of times; a megabyte of brackets is read in linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
