"""Mean pairwise similarity of outputs, side by side with subset2evaluate's `diversity`.

Run with subset2evaluate on the path: `PYTHONPATH=... python benchmarks/bench_diversity.py`.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aliquot.stats.text_similarity import Similarity, mean_pairwise_similarity

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "wmt23-en-de.jsonl.gz"
SIMILARITIES: list[Similarity] = ["unigram", "bleu", "chrf"]
LEAST_SECONDS = 1.0


def measure() -> list[tuple[str, float, float]]:
    """Name, our seconds and the peer's seconds for each similarity; nothing without the peer."""
    try:
        import subset2evaluate.methods as peer
    except ImportError as error:
        print(f"subset2evaluate cannot be imported ({error}); nothing to compare with")
        return []
    items = _items()
    texts = [list(item["tgt"].values()) for item in items]
    return [
        (
            f"diversity {similarity}",
            _seconds(lambda kind=similarity: mean_pairwise_similarity(texts, kind)),  # type: ignore[misc]
            _seconds(lambda kind=similarity: peer.diversity(items, kind)),  # type: ignore[misc]
        )
        for similarity in SIMILARITIES
    ]


def _seconds(run: Callable[[], object]) -> float:
    """Best time of as many runs as fit in about a second, at least one: the same rule for both sides."""
    times: list[float] = []
    while sum(times) < LEAST_SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def _items() -> list[dict[str, Any]]:
    if DATA.exists():
        with gzip.open(DATA, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    return _made_up_items(items=200, systems=14, words=60)


def _made_up_items(items: int, systems: int, words: int) -> list[dict[str, Any]]:
    """Outputs that share most words with each other, as translations of one source do."""
    draw = random.Random(0)
    vocabulary = ["".join(draw.choices("enirtsahduäöü", k=draw.randint(2, 12))) for _ in range(5000)]

    def variant(base: list[str]) -> str:
        changed = [draw.choice(vocabulary) if draw.random() < 0.3 else word for word in base]
        return " ".join(changed) + draw.choice([".", "!", " (so)."])

    bases = [draw.choices(vocabulary, k=draw.randint(words // 3, words * 2)) for _ in range(items)]
    return [{"tgt": {f"system{s}": variant(base) for s in range(systems)}} for base in bases]


if __name__ == "__main__":
    for name, ours, theirs in measure():
        print(f"{name:20} ours {ours:8.3f} s   subset2evaluate {theirs:8.2f} s   ratio {theirs / ours:6.1f}")
