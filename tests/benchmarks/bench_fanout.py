"""A FanOut of 1,000 children: how long, and how much longer than the same bodies under a plain asyncio.gather.

Two kinds of body. An empty one shows what a child costs by itself: two durable commits and a callback. One that waits for
50 ms, as for a service, shows what is left of that cost where there is something to wait for: the commits of some children
fall into the waiting of others.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rounds import Engine, main, median, verdict

import loomnb as loom


async def body(seconds: float, n: int) -> dict[str, int]:
    await asyncio.sleep(seconds)
    return {"n": n}


def fan_out(seconds: float, concurrency: int | None) -> Engine:
    def engine(options: argparse.Namespace) -> Iterator[None]:
        @loom.workflow
        class ChildWorkflow(loom.BaseWorkflow[dict[str, Any]]):
            @loom.transition(to="end")
            async def go(self, state: Mapping[str, Any], ctx: loom.RunContext[dict[str, Any]]) -> None:
                self.set_result(await body(seconds, ctx.args["n"]))

        def run(count: int) -> None:
            items = [{"workflow": ChildWorkflow, "args": {"n": n}, "show": "hidden"} for n in range(count)]
            args = {"items": items, "concurrency": concurrency or count}
            assert session.start(loom.FanOutWorkflow, args).wait(600)["errorCount"] == 0

        session = loom.open(options.folder / "s.duckdb")
        run(10)
        yield
        run(options.children)
        yield
        session.close()

    return engine


def gather(seconds: float, concurrency: int | None) -> Engine:
    def engine(options: argparse.Namespace) -> Iterator[None]:
        async def run(count: int) -> None:
            room = asyncio.Semaphore(concurrency or count)

            async def one(n: int) -> dict[str, int]:
                async with room:
                    return await body(seconds, n)

            assert len(await asyncio.gather(*(one(n) for n in range(count)))) == count

        asyncio.run(run(10))
        yield
        asyncio.run(run(options.children))
        yield

    return engine


KINDS = {"empty, 16 at once": (0.0, 16), "50 ms, 16 at once": (0.05, 16), "50 ms, all at once": (0.05, None)}

ENGINES = {
    **{f"loomnb: {name}": fan_out(*kind) for name, kind in KINDS.items()},
    **{f"gather: {name}": gather(*kind) for name, kind in KINDS.items()},
}


def report(figures: dict[str, list[dict[str, Any]]], children: int) -> int:
    print(f"\n{children:,} children\n\n{'':32}{'seconds':>10}{'min..max':>18}{'ms a child':>12}")
    for name, rows in sorted(figures.items()):
        walls = [row["wall"] for row in rows]
        wall = median(rows, "wall")
        print(f"{name:32}{wall:10.2f}{f'{min(walls):.2f}..{max(walls):.2f}':>18}{wall / children * 1000:12.2f}")
    ratios: dict[str, float | None] = {}
    for name in KINDS:
        ours, plain = figures.get(f"loomnb: {name}"), figures.get(f"gather: {name}")
        ratios[name] = median(ours, "wall") / median(plain, "wall") if ours and plain else None
    empty = figures.get("loomnb: empty, 16 at once")
    print("\ntargets")
    met = [
        verdict("ms an empty child", median(empty, "wall") / children * 1000 if empty else None, 2.0, at_least=False),
        verdict("50 ms, 16 at once, x gather", ratios["50 ms, 16 at once"], 2.0, at_least=False),
        verdict("50 ms, all at once, x gather", ratios["50 ms, all at once"], 20.0, at_least=False),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=1000)
    found = main(__file__, ENGINES, parser)
    if found is not None:
        sys.exit(report(found, parser.parse_args().children))
