"""What a move that prints 2,000 tokens of 6 characters sends to the page, in messages and bytes.

A real kernel, and a front end that does what the panel's module does: it says hello every three seconds and takes what
comes. Bytes are those of the messages as a page gets them (header, parent header, metadata and content as JSON), from
the moment the tokens start to the moment the run is over. The comparison is the text itself, and the same prints from a
plain cell.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import rounds

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the kernel client of the tests is used here too

from tests.kernel import matrix
from tests.kernel.client import Kernel

TOKENS, TOKEN = 2000, "token "
SETUP = """
import threading, time
import loomnb as loom
loom.open({store!r})
go = threading.Event()

@loom.workflow()
class Talk(loom.BaseWorkflow):
    @loom.transition(to="end")
    def talk(self, state, ctx):
        go.wait()
        for _ in range({tokens}):
            print({token!r}, end="", flush=True)
            if {pause}: time.sleep({pause})

run = loom.start(Talk, {{}})
run
"""
PLAIN = """
import time
for _ in range({tokens}):
    print({token!r}, end="", flush=True)
    if {pause}: time.sleep({pause})
"""


def size(message: dict[str, Any]) -> int:
    parts = ("header", "parent_header", "metadata", "content")
    return sum(len(json.dumps(message[part], default=str)) for part in parts) + sum(map(len, message["buffers"]))


def traffic(messages: list[dict[str, Any]], kinds: set[str]) -> tuple[int, int]:
    sizes = [size(message) for message in messages if message["msg_type"] in kinds]
    return len(sizes), sum(sizes)


def panel(kernel: Kernel, folder: Path, pause: float) -> tuple[int, int, float]:
    """The messages, their bytes, and the seconds until the run was over, of one streaming run."""
    store = str(folder / f"loom-{pause}.duckdb")
    shown = kernel.run(SETUP.format(store=store, tokens=TOKENS, token=TOKEN, pause=pause), timeout=60)
    (model_id, *_) = shown.model_ids or [""]
    if not model_id:
        raise RuntimeError(f"the run showed no panel, only {shown.text!r}")

    heard = 0

    def hello() -> None:
        nonlocal heard
        heard += 1
        have = {"stamp": 0, "log": 0, "head": 0}
        kernel.comm_msg(model_id, {"type": "hello", "have": have, "n": heard})

    hello()
    kernel.until(lambda: any(m.get("ack") == heard for m in kernel.custom.get(model_id, [])), what="the panel's ack")
    start, before, said = time.monotonic(), len(kernel.iopub), time.monotonic()
    kernel.send("go.set()")

    def over() -> bool:
        nonlocal said
        if time.monotonic() - said > 3:
            said = time.monotonic()
            hello()
        heads = [m["head"] for m in kernel.custom.get(model_id, []) if m.get("head")]
        return bool(heads) and heads[-1].get("status") == "completed"

    kernel.until(over, timeout=120, what="the end of the run in the panel")
    took = time.monotonic() - start
    kernel.pump(0.5)
    logs = "".join(m.get("log") or "" for m in kernel.custom[model_id])
    if TOKEN * 3 not in logs:
        raise RuntimeError(f"the tokens never reached the panel's log: {logs[:200]!r}")
    count, total = traffic(kernel.iopub[before:], {"comm_msg", "comm_open", "display_data", "update_display_data", "stream"})
    kernel.run("loom.close()")
    return count, total, took


def plain(kernel: Kernel, pause: float) -> tuple[int, int, float]:
    start, before = time.monotonic(), len(kernel.iopub)
    kernel.run(PLAIN.format(tokens=TOKENS, token=TOKEN, pause=pause), timeout=120)
    return *traffic(kernel.iopub[before:], {"stream"}), time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default=matrix.VERSIONS[-1], help=f"one of {', '.join(matrix.VERSIONS)}")
    version = parser.parse_args().kernel
    matrix.install(version)
    text = TOKENS * len(TOKEN)
    print(f"{TOKENS} tokens, {text} bytes of text, ipykernel {version}\n")
    print("| way | messages | bytes | x text | s |\n|---|---|---|---|---|")
    worst: float | None = None
    for pause in (0, 0.002):  # a burst, and about the pace of a fast model, where fewer tokens share a message
        pace = f"one every {pause * 1e3:.0f} ms" if pause else "as fast as it goes"
        with tempfile.TemporaryDirectory(prefix="loomnb-bench-") as folder:
            for way in ("panel", "plain cell"):
                kernel = Kernel(version, Path(folder)).start()
                try:
                    count, total, took = panel(kernel, Path(folder), pause) if way == "panel" else plain(kernel, pause)
                except (AssertionError, RuntimeError, TimeoutError) as failure:
                    print(f"| {way}, {pace} | FAILED: {str(failure).splitlines()[-1]} |")
                    worst = float("inf") if way == "panel" else worst
                    continue
                finally:
                    kernel.shutdown()
                print(f"| {way}, {pace} | {count} | {total} | {total / text:.1f} | {took:.2f} |")
                if way == "panel":
                    worst = max(worst or 0, total / text)
    print("\nTargets:")
    return 0 if rounds.verdict("bytes to the page, as multiples of the text", worst, 10, at_least=False) else 1


if __name__ == "__main__":
    sys.exit(main())
