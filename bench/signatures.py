"""Prints grouping accuracy and speed beside drain3, and the scan of a large log, in one run.

Run: `python bench/signatures.py [--loghub FOLDER] [--mb 250]`. drain3-improved is installed for this bench alone. Grouping
accuracy is loghub's: a message is right when its predicted group is exactly its true group (corrected labels).
"""

from __future__ import annotations

import argparse
import csv
import random
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sitoolkit.grouping import group_messages
from sitoolkit.loops.signatures import scan_error_signatures

SYSTEMS = ("Android", "Apache", "HDFS", "Hadoop", "HealthApp", "Linux", "OpenSSH", "Zookeeper")
MASKS = (  # the masks of the comparison: what a careful user of drain3 would give it
    (r"https?://\S+", "URL"),
    (r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "UUID"),
    (r"(?<!\w)(/[\w.@~+-]+)+", "PATH"),
    (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b", "IP"),
    (r"\b0x[0-9a-fA-F]+\b", "HEX"),
    (r"\b[0-9a-f]*\d[0-9a-f]{5,}\b", "HEX"),
    (r"'[^']*'|\"[^\"]*\"", "QUOTED"),
    (r"\b\d+(\.\d+)?(ms|s|us|KB|MB|GB|%)?\b", "NUM"),
    (r"(?<=[A-Za-z_-])\d+\b", "NUM"),
)


def accuracy(predicted: Sequence[object], truth: Sequence[object]) -> float:
    groups: defaultdict[object, list[int]] = defaultdict(list)
    wanted: defaultdict[object, list[int]] = defaultdict(list)
    for place, (one, other) in enumerate(zip(predicted, truth, strict=True)):
        groups[one].append(place)
        wanted[other].append(place)
    exact = {tuple(places) for places in wanted.values()}
    return sum(len(places) for places in groups.values() if tuple(places) in exact) / len(truth)


def drain(masks: Sequence[tuple[str, str]]) -> Callable[[Sequence[str]], list[int]]:
    from drain3 import TemplateMiner
    from drain3.masking import MaskingInstruction
    from drain3.template_miner_config import TemplateMinerConfig

    def run(lines: Sequence[str]) -> list[int]:
        config = TemplateMinerConfig()
        config.masking_instructions = [MaskingInstruction(pattern, name) for pattern, name in masks]
        config.profiling_enabled = False
        miner = TemplateMiner(config=config)
        return [miner.add_log_message(line)["cluster_id"] for line in lines]

    return run


def timed(run: Callable[[Sequence[str]], object], lines: Sequence[str], times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        run(lines)
        best = min(best, time.process_time() - began)
    return len(lines) / best


def grouping(folder: Path) -> None:
    peers = {"sitoolkit": group_messages, "drain3 defaults": drain(()), "drain3 9 masks": drain(MASKS)}
    print(f"{'grouping accuracy':<20}" + "".join(f"{name:>17}" for name in peers))
    sums: defaultdict[str, float] = defaultdict(float)
    everything: list[str] = []
    for system in SYSTEMS:
        with (folder / f"{system}_2k.log_structured.csv").open() as file:
            lines = [row["Content"] for row in csv.DictReader(file)]
        with (folder / f"{system}_2k.labels_corrected.csv").open() as file:
            truth = [row["Group"] for row in csv.DictReader(file)]
        everything += lines
        row = f"{system:<20}"
        for name, run in peers.items():
            score = accuracy(run(lines), truth)
            sums[name] += score / len(SYSTEMS)
            row += f"{score:>17.3f}"
        print(row)
    print(f"{'mean':<20}" + "".join(f"{sums[name]:>17.3f}" for name in peers))
    print(
        f"{'lines/s, one core':<20}" + "".join(f"{timed(run, everything):>17,.0f}" for run in peers.values())
    )
    random.Random(1).shuffle(everything)
    many = everything * 5
    print(
        f"{'  in 80,000 lines':<20}" + "".join(f"{timed(run, many, 1):>17,.0f}" for run in peers.values()),
        "\n",
    )


def make_log(path: Path, megabytes: int) -> int:
    """A log of four loggers, twelve kinds of message and five levels; gives how many lines are errors."""
    rng = random.Random(1)
    kinds: list[Callable[[], str]] = [
        lambda: (
            f"lost connection to 10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}:{rng.randrange(65536)} after {rng.randrange(5000)}ms"
        ),
        lambda: (
            f"request {rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-{rng.getrandbits(16):04x}-{rng.getrandbits(16):04x}-{rng.getrandbits(48):012x} failed"
        ),
        lambda: (
            f"cannot open /var/lib/app/{rng.getrandbits(24):06x}/part-{rng.randrange(100)}.parquet: permission denied"
        ),
        lambda: f"user {rng.randrange(10**6)} not found in tenant 'acme-{rng.randrange(50)}'",
        lambda: f"checksum mismatch: expected 0x{rng.getrandbits(32):08x} got 0x{rng.getrandbits(32):08x}",
        lambda: (
            f"query took {rng.random() * 10:.2f}s, limit 5s, while the replica was {rng.randrange(90)} seconds behind"
        ),
        lambda: f"worker {rng.randrange(64)} died with signal {rng.randrange(1, 16)}",
        lambda: f"python3 interpreter not found for job job_{rng.randrange(10**6)}",
        lambda: f"KeyError: 'order_{rng.randrange(10**5)}'",
        lambda: (
            f"https://api.example.com/v1/items/{rng.randrange(10**6)} returned HTTP 429 Too Many Requests"
        ),
        lambda: (
            f"queue depth {rng.randrange(10**5)} over limit 10000 in partition {rng.randrange(12)} of topic orders"
        ),
        lambda: f"retrying in {rng.randrange(60)} seconds (attempt {rng.randrange(10)} of 10)",
    ]
    levels, weights = ("INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL"), (50, 15, 5, 28, 2)
    block: list[str] = []
    at = datetime(2026, 1, 1, tzinfo=UTC)
    errors = 0
    for _ in range(40_000):
        at += timedelta(milliseconds=rng.randrange(80))
        (level,) = rng.choices(levels, weights)
        errors += level in ("ERROR", "CRITICAL")
        block.append(
            f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03} {level} app.{rng.choice('abcd')}: {rng.choice(kinds)()}\n"
        )
    text = "".join(block)
    times = max(1, megabytes * 1_000_000 // len(text))
    with path.open("w") as file:
        for _ in range(times):
            file.write(text)
    return errors * times


def scan(megabytes: int) -> None:
    now = datetime(2026, 1, 1, 6, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app.log"
        errors = make_log(path, megabytes)
        size = path.stat().st_size / 1e6
        print(f"a log of {size:.0f} MB, {errors:,} error lines")
        began, busy = time.perf_counter(), time.process_time()
        tail = scan_error_signatures(logs=[path], now=now, hours=24)
        spent = time.perf_counter() - began
        print(
            f"  first scan (last 2 MB): {spent:.2f} s ({busy:.2f} s of processor time), {tail.total_events:,} errors, {tail.distinct_signatures} signatures, {_mb()} MB resident"
        )
        began, busy = time.perf_counter(), time.process_time()
        full = scan_error_signatures(logs=[path], now=now, hours=24, full=True)
        whole, busy = time.perf_counter() - began, time.process_time() - busy
        print(
            f"  full scan: {whole:.2f} s, {full.total_events:,} errors, {full.distinct_signatures} signatures, {errors / whole:,.0f} error lines/s ({busy:.1f} s of processor time), {_mb()} MB resident"
        )
        sample = []
        with path.open() as file:
            for line in file:
                if " ERROR " in line or " CRITICAL " in line:
                    sample.append(line.rstrip("\n"))
                    if len(sample) == 40_000:
                        break
        for name, masks in (("defaults", ()), ("9 masks", MASKS)):
            began, cpu = time.perf_counter(), time.process_time()
            drain(masks)(sample)
            rate, per_cpu = (
                len(sample) / (time.perf_counter() - began),
                len(sample) / (time.process_time() - cpu),
            )
            print(
                f"  drain3 {name}: {rate:,.0f} error lines/s (on {len(sample):,}); the full scan is {errors / whole / rate:.1f} times as fast, {errors / busy / per_cpu:.1f} times by processor time"
            )


def _mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--loghub",
        type=Path,
        default=Path(__file__).resolve().parents[1].parent / "shared" / "traces" / "loghub",
    )
    parser.add_argument("--mb", type=int, default=250)
    given = parser.parse_args()
    if given.loghub.is_dir():
        grouping(given.loghub)
    else:
        print(f"{given.loghub} is not there: no grouping accuracy")
    scan(given.mb)


if __name__ == "__main__":
    main()
