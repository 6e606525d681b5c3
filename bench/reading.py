"""Reading speed: sessions from OpenAI chat JSONL, a conversation a line, beside a bare `json.loads` over the same lines.

    python bench/reading.py --size 1024        # MB of transcript, made in a temporary folder; 64 by default

Aims: at least 60 MB/s per core, at most 3 times the bare parse, at most 300 MB of memory at 1 GB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

WORDS = "order flight user status change address payment item refund gate window seat total credit code ticket region host".split()  # noqa: SIM905 - a list of words reads better as a text


def conversation(rng: random.Random, number: int) -> dict[str, Any]:
    """One support conversation: a system prompt of 6 kB, some ten calls, results from 60 characters to 6 kB."""
    say = lambda n: " ".join(rng.choices(WORDS, k=n))  # noqa: E731 - two uses, five lines below
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help users.\n" + say(1000)}]
    for turn in range(rng.randint(3, 8)):
        messages.append({"role": "user", "content": say(rng.randint(5, 60))})
        for step in range(rng.randint(0, 3)):
            call_id = f"call_{turn}_{step}" if number % 7 else f"call_{step}"
            arguments = json.dumps({"user_id": say(1), "note": say(rng.randint(2, 30)), "n": step})
            messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": {"name": f"get_{rng.choice(WORDS)}", "arguments": arguments}}]})  # fmt: skip
            rows = [
                {"id": f"R{n}", "status": "open", "text": say(6), "n": n}
                for n in range(rng.choice((0, 1, 8, 60)))
            ]
            failed = rng.random() < 0.05
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": call_id,
                    "content": "Error: no such user" if failed else json.dumps(rows),
                }
            )
        messages.append({"role": "assistant", "content": say(rng.randint(10, 120))})
    return {"id": f"conv-{number}", "model": "gpt-x", "messages": messages}


def make_file(path: Path, megabytes: int) -> int:
    """Write the transcript: 400 distinct conversations, repeated with new ids."""
    rng = random.Random(7)
    texts = [json.dumps(conversation(rng, number), ensure_ascii=False) for number in range(400)]
    lines = size = 0
    with path.open("w", encoding="utf-8") as out:
        while size < megabytes * 1_000_000:
            text = texts[lines % 400].replace(f'"conv-{lines % 400}"', f'"conv-{lines}"', 1)
            out.write(text + "\n")
            size += len(text) + 1
            lines += 1
    return lines


def _bare(path: str, pipe: Any) -> None:
    start = time.process_time()
    count = 0
    with Path(path).open("rb") as lines:
        for line in lines:
            json.loads(line)
            count += 1
    pipe.send((time.process_time() - start, count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def _ours(path: str, pipe: Any) -> None:
    from sitoolkit.transcripts import ReadReport, read_sessions

    report = ReadReport()
    start = time.process_time()
    for _ in read_sessions(path, report=report):
        pass
    took = time.process_time() - start
    pipe.send((took, report.to_json(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def _apart(job: Any, path: Path) -> Any:
    """Run in a process of its own, so that its peak memory is its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=job, args=(str(path), there))
    process.start()
    answer = here.recv()
    process.join()
    return answer


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--size", type=int, default=64, metavar="MB", help="size of the transcript (default 64)"
    )
    options.add_argument("--repeat", type=int, default=2, help="runs of each; the best counts (default 2)")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="sitoolkit-reading-") as folder:
        path = Path(folder) / "chat.jsonl"
        lines = make_file(path, asked.size)
        size = path.stat().st_size / 1e6
        bare = min((_apart(_bare, path) for _ in range(asked.repeat)), key=lambda run: run[0])
        ours = min((_apart(_ours, path) for _ in range(asked.repeat)), key=lambda run: run[0])
    told = ours[1]
    print(
        f"{size:,.0f} MB, {lines:,} conversations, {told['calls']:,} calls, {told['paired']:,} paired, {told['outcomes']}"
    )
    print(f"{'':24}{'CPU s':>8}{'MB/s':>8}{'peak MB':>9}{'times bare':>12}")
    print(f"{'json.loads of each line':24}{bare[0]:8.2f}{size / bare[0]:8.0f}{bare[2]:9.0f}{1:12.2f}")
    print(f"{'read_sessions':24}{ours[0]:8.2f}{size / ours[0]:8.0f}{ours[2]:9.0f}{ours[0] / bare[0]:12.2f}")
    good = ours[0] / bare[0] <= 3 and size / ours[0] >= 60 and ours[2] <= 300
    print("aims met" if good else "aims missed: at most 3 times bare, at least 60 MB/s, at most 300 MB")


if __name__ == "__main__":
    main()
