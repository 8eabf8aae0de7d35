"""What only a corpus can tell of phrases: which are variants, which are junk, what type they have, who goes with whom.

Pure functions over the set of all extractions: the order of rows doesn't matter, and extracting more only adds rows.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import pandas as pd

from graphmill.engine.phrases_fold import BRACKETED, fold_names
from graphmill.engine.phrases_lexicon import chinese, english
from graphmill.engine.phrases_types import type_of_name
from graphmill.kernels.pmi import pmi

CONCEPT, UNCERTAIN = "CONCEPT", ""
MIN_TYPED_SHARE = 0.25
MIN_TEXTS_FOR_SHARES = 500
MAX_CONCEPT_SHARE, MAX_NAME_SHARE = 0.1, 0.5
_HAN_START = "^[\u3400-\u4dbf\u4e00-\u9fff]"


def fold_variants(names: pd.DataFrame) -> pd.DataFrame:
    """Variants of a name, first within each document, then over the corpus where that leaves no doubt.

    names    document_id, key, type, count; any number of rows a key and document. Keys are casefolded names.
    returns  document_id, key, canonical: one row for each document and key whose canonical key is another one, sorted.

    The canonical key may have no row of its own ("x" of "x (y)").
    """
    rows = names.groupby(["document_id", "key", "type"], sort=True)["count"].sum().reset_index()
    # The type with the largest count speaks for the key, and any type before none.
    rows["sure"] = rows["type"] != UNCERTAIN
    rows = rows.sort_values(["document_id", "key", "sure", "count", "type"], ascending=[True, True, False, False, True])
    sums = (
        rows.groupby(["document_id", "key"], sort=True)
        .agg(type=("type", "first"), count=("count", "sum"))
        .reset_index()
    )
    documents = sums["document_id"].tolist()
    keys = sums["key"].tolist()
    local = _fold_documents(documents, keys, sums["type"].tolist(), sums["count"].tolist())
    sums["local"] = local
    over = rows.merge(sums[["document_id", "key", "local"]], on=["document_id", "key"])
    wide = over.groupby(["local", "type"], sort=True)["count"].sum().reset_index()
    wide["specific"] = wide["type"].map(lambda kind: 0 if kind == UNCERTAIN else 1 if kind == CONCEPT else 2)
    wide = wide.sort_values(["local", "specific", "count", "type"], ascending=[True, False, False, True])
    everywhere = wide.groupby("local", sort=True).agg(type=("type", "first"), count=("count", "sum"))
    # "x (y)" names its other half in whatever document, though it has been folded there.
    matches = [BRACKETED.fullmatch(key) for key in sorted(set(keys)) if key.endswith((")", "）"))]
    brackets = [(match[1].strip(), match[2].strip()) for match in matches if match]
    merged = fold_names({key: (kind, count) for key, kind, count in everywhere.itertuples()}, brackets, wide=True)
    canonical = [merged.get(key, key) for key in local]
    result = pd.DataFrame({"document_id": documents, "key": keys, "canonical": canonical})
    return result[result["key"] != result["canonical"]].reset_index(drop=True)


def _fold_documents(documents: list[str], keys: list[str], kinds: list[str], counts: list[int]) -> list[str]:
    """Canonical key of each row within its document; rows are sorted by document."""
    canonical: list[str] = []
    start = 0
    for at in range(1, len(documents) + 1):
        if at == len(documents) or documents[at] != documents[start]:
            here = fold_names({keys[row]: (kinds[row], counts[row]) for row in range(start, at)})
            canonical.extend(here.get(key, key) for key in keys[start:at])
            start = at
    return canonical


def rank_phrases(names: pd.DataFrame, num_texts: int) -> pd.DataFrame:
    """The keys worth a node, with the type that the corpus as a whole gives them.

    names    text_id, key, name, type, count; keys already folded
    returns  key, name (the most frequent sure spelling), type, num_texts, count; sorted by key

    Left out: names that no text is sure of (in Chinese: and fewer than three texts have); concepts mentioned once, or
    single words in one text only; technical terms in one text, once or twice; single capitalised words that the corpus
    uses more often in lower case; and what stands in so many texts that it tells none apart (concepts in over 10 %,
    names in over half of the texts, from 500 texts on).
    """
    sure = names[names["type"] != UNCERTAIN]
    totals = names.groupby("key", sort=True).agg(count=("count", "sum"), num_texts=("text_id", "nunique"))
    totals["sure_texts"] = sure.groupby("key", sort=True)["text_id"].nunique().reindex(totals.index, fill_value=0)
    totals["type"] = _types(sure).reindex(totals.index, fill_value=CONCEPT)
    totals["name"] = _spellings(names)
    totals = totals.reset_index()
    is_han = totals["key"].str.contains(_HAN_START)
    totals["type"] = _inferred(totals)
    is_concept = totals["type"] == CONCEPT
    is_single = ~totals["key"].str.contains(" ", regex=False) & ~is_han
    keep = (totals["sure_texts"] > 0) | is_han & (totals["num_texts"] >= 3)
    keep &= ~is_concept | (totals["count"] > 1)
    keep &= ~(is_concept & is_single) | (totals["num_texts"] > 1)
    keep &= ~((totals["type"] == "TECHNOLOGY") & is_single) | (totals["num_texts"] > 1) | (totals["count"] > 2)
    keep &= ~(is_single & is_concept & _is_ordinary(names, totals))
    if num_texts >= MIN_TEXTS_FOR_SHARES:
        keep &= totals["num_texts"] <= num_texts * is_concept.map({True: MAX_CONCEPT_SHARE, False: MAX_NAME_SHARE})
    return totals[keep][["key", "name", "type", "num_texts", "count"]].reset_index(drop=True)


def _types(sure: pd.DataFrame) -> pd.Series:
    """Type with the most mentions, of the key's own spelling where there are any ("Ingrid Halvorsen" tells more than a
    bare "Halvorsen"); CONCEPT, which a name gets for want of a better one, only where it has over three quarters."""
    votes = sure.assign(own=_is_own(sure)).groupby(["key", "own", "type"], sort=True)["count"].sum().reset_index()
    votes = votes[votes["own"] == votes.groupby("key")["own"].transform("max")]
    votes["share"] = votes["count"] / votes.groupby("key")["count"].transform("sum")
    votes["specific"] = (votes["type"] != CONCEPT) & (votes["share"] >= MIN_TYPED_SHARE)
    votes = votes.sort_values(["key", "specific", "count", "type"], ascending=[True, False, False, True])
    return votes.groupby("key", sort=True)["type"].first()


def _is_own(names: pd.DataFrame) -> pd.Series:
    """Whether a row's name is a spelling of its key, and not of a variant that has been folded into it."""
    return names["name"].str.casefold().str.split().str.join(" ") == names["key"]


def _spellings(names: pd.DataFrame) -> pd.Series:
    """Most frequent spelling, sure ones before others and those not all in capitals before shouted ones."""
    rows = (
        names.assign(sure=names["type"] != UNCERTAIN)
        .groupby(["key", "name", "sure"], sort=True)["count"]
        .sum()
        .reset_index()
    )
    rows["own"] = _is_own(rows)
    rows = rows.sort_values(["key", "own", "sure", "count", "name"], ascending=[True, False, False, False, False])
    return rows.groupby("key", sort=True)["name"].first()


def _inferred(totals: pd.DataFrame) -> list[str]:
    """Types, mended by what the words of a name and the other names say: a surname is a person's, the Kvarra of Kvarra
    Islands a place, and a name that ends in Ltd a company whatever stood around it."""
    lists, keys = english(), dict(zip(totals["key"], totals["type"], strict=True))
    people = {
        key.rsplit(" ", 1)[1]
        for key, kind in keys.items()
        if kind == "PERSON" and " " in key and (key[1] == "." or key.split(" ", 1)[0] in lists["given"])
    }
    people -= lists["plain"]
    places: set[str] = set()
    tails = tuple(sorted(chinese()["geo_tails"]))
    for key, kind in keys.items():
        if kind == "GEO" and key.count(" ") == 1:
            one, two = key.split(" ")
            places.add(one if two in lists["geo_heads"] else two if one in lists["geo_first"] else "")
        elif kind == "GEO" and key.endswith(tails):
            places.update(key[: -len(tail)] for tail in tails if key.endswith(tail) and len(key) > len(tail) + 1)
    types: list[str] = []
    for key, name in zip(totals["key"], totals["name"], strict=True):
        kind = keys[key]
        if kind == CONCEPT and " " not in key:
            if name != key and key in people:
                kind = "PERSON"
            elif key in places and (name != key or not key.isascii()):
                kind = "GEO"
        elif name != key and (key.rsplit(" ", 1)[-1] in lists["org_forms"] or " of " in key):
            own, weight = type_of_name(tuple(name.split()))
            kind = own if weight >= 4.0 else kind
        types.append(kind)
    return types


def _is_ordinary(names: pd.DataFrame, totals: pd.DataFrame) -> pd.Series:
    """Whether a single word is found in lower case, alone or in noun phrases, in more texts than with a capital."""
    lower = names[(names["type"] == CONCEPT) & (names["name"] == names["key"])][["text_id", "name"]].drop_duplicates()
    words = lower.assign(word=lower["name"].str.split()).explode("word").drop_duplicates(["text_id", "word"])
    seen = words.groupby("word")["text_id"].count()
    capital = names[(names["name"] != names["key"])].groupby("key")["text_id"].nunique()
    has_capital = totals["key"].map(capital).fillna(0)
    return (has_capital > 0) & (totals["key"].map(seen).fillna(0) > has_capital)


class Settled(NamedTuple):
    """What settle() returns."""

    mentions: pd.DataFrame
    entities: pd.DataFrame
    pairs: pd.DataFrame
    places: pd.DataFrame


def settle(mentions: pd.DataFrame, pairs: pd.DataFrame, max_per_entity: int = 16, xd: ModuleType | Any = pd) -> Settled:
    """All of the above in order: folds the variants, drops the junk, weighs the pairs.

    mentions  text_id, document_id, key, name, type, count[, further columns, which are kept]; a text that several
              documents share has one row, under any one of them, always the same
    pairs     text_id, source_key, target_key, count
    xd        the frame library that weighs the pairs

    returns   mentions    the rows that stay, with canonical key, the corpus's type and spelling, one row a text and key
              entities    key, name, type, num_texts, count; sorted by key
              pairs       source, target (canonical keys, source < target), count, weight; sorted
              places      text_id, source, target: the texts in which each of these pairs stands
    """
    folded = fold_variants(mentions[["document_id", "key", "type", "count"]])
    mentions = _with_canonical(mentions, folded, "document_id", "key")
    entities = rank_phrases(mentions, int(mentions["text_id"].nunique()))
    kept = mentions[mentions["key"].isin(entities["key"])].drop(columns=["name", "type"])
    kept = kept.merge(entities[["key", "name", "type"]], on="key").sort_values(
        ["text_id", "key", "count"], ascending=[True, True, False]
    )
    counts = kept.groupby(["text_id", "key"], sort=True)["count"].transform("sum")
    kept = kept.assign(count=counts).drop_duplicates(["text_id", "key"]).reset_index(drop=True)
    document_of = mentions.drop_duplicates("text_id").set_index("text_id")["document_id"]
    pairs = pairs.assign(document_id=pairs["text_id"].map(document_of))
    for end in ("source_key", "target_key"):
        pairs = _with_canonical(pairs, folded, "document_id", end)
        pairs = pairs[pairs[end].isin(entities["key"])]
    pairs = pairs[pairs["source_key"] != pairs["target_key"]]
    ids = pd.Series(range(len(entities)), index=entities["key"])
    numbered = xd.DataFrame(
        {
            "source": pairs["source_key"].map(ids).to_numpy(),
            "target": pairs["target_key"].map(ids).to_numpy(),
            "count": pairs["count"].to_numpy(),
        }
    )
    weighed = pmi(xd, numbered, max_per_entity)
    weighed = weighed if isinstance(weighed, pd.DataFrame) else weighed.to_pandas()
    key_of = entities["key"].to_numpy()
    weighed = weighed.assign(
        source=key_of[weighed["source"].to_numpy(dtype="int64")],
        target=key_of[weighed["target"].to_numpy(dtype="int64")],
    )
    swapped = pairs["source_key"] > pairs["target_key"]
    places = pd.DataFrame(
        {
            "text_id": pairs["text_id"],
            "source": pairs["source_key"].where(~swapped, pairs["target_key"]),
            "target": pairs["target_key"].where(~swapped, pairs["source_key"]),
        }
    ).drop_duplicates()
    places = places.merge(weighed[["source", "target"]], on=["source", "target"])
    return Settled(kept, entities, weighed, places)


def _with_canonical(frame: pd.DataFrame, folded: pd.DataFrame, document: str, key: str) -> pd.DataFrame:
    joined = frame.merge(folded.rename(columns={"document_id": document, "key": key}), on=[document, key], how="left")
    joined[key] = joined["canonical"].fillna(joined[key])
    return joined.drop(columns="canonical")
