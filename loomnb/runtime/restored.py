"""What a restart found, told: which runs went on, which wait, which stand still, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loomnb.present import STATUS_TEXT, ask_example, escape, markdown_safe
from loomnb.runtime.handle import Run
from loomnb.runtime.lifecycle import FINISHED, Status

__all__ = ["Restored"]

_HEADINGS: Mapping[str, str] = {
    "changed": "Changed: the blueprint known here is another version",
    "interrupted": "Interrupted: stands still until you say how to go on",
    "waiting": "Waiting for somebody",
    "resumed": "Went on by itself",
    "unrecoverable": "Unreadable, and left as it is",
}


class Restored(list[Run]):
    """The runs that are not finished. As a cell's last line it says of each what becomes of it and what you can do.

    Attributes:
        resumed: those that were taken up again in this kernel; some may be over already, and are no items then.
        waiting: those that wait for an answer (or a sub-workflow).
        interrupted: those that stand still: their definition is not known here yet, or only you can say whether the step that
            was under way may be made again.
        changed: those whose blueprint is another version here than the one they began with.
        unrecoverable: the id of each run that cannot be read → why.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        resumed: Sequence[Run] = (),
        unrecoverable: Mapping[str, str] | None = None,
        heading: str = "",
    ) -> None:
        super().__init__(runs)
        self.resumed = list(resumed)
        self.changed = [run for run in runs if run.record.changed]
        self.interrupted = [run for run in runs if run.status is Status.INTERRUPTED and not run.record.changed]
        self.waiting = [run for run in runs if (run.status is Status.WAITING or run.pending) and not run.record.changed]
        self.unrecoverable = dict(unrecoverable or {})
        self.heading = heading

    def _told(self) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
        """Each group that is not empty: its heading, and (title, handle, what to do) of each run, told once."""
        seen: set[str] = set()
        for name, heading in _HEADINGS.items():
            lines: list[tuple[str, str, str]] = []
            if name == "unrecoverable":
                lines = [(run_id, "", why) for run_id, why in self.unrecoverable.items()]
            else:
                for run in getattr(self, name):
                    if run.id not in seen:
                        seen.add(run.id)
                        lines.append((run.title, f"run = loom.run({run.id!r})", _what_next(run)))
            if lines:
                yield heading, lines
        rest = [run for run in self if run.id not in seen]
        if rest:
            yield "Under way", [(run.title, f"run = loom.run({run.id!r})", _what_next(run)) for run in rest]

    def _first_line(self) -> str:
        found = len(self) + len(self.unrecoverable)
        count = "No run is unfinished." if not found else f"{found} run{'s are' if found > 1 else ' is'} unfinished."
        return f"{self.heading} {count}".strip()

    def __repr__(self) -> str:
        lines = [self._first_line()]
        for heading, told in self._told():
            lines.append(f"{heading}:")
            for title, handle, what in told:
                lines += [f"  {title}{'   ' + handle if handle else ''}", *(f"    {line}" for line in what.splitlines())]
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        html, markdown = [f"<p>{escape(self._first_line())}</p>"], [markdown_safe(self._first_line())]
        for heading, told in self._told():
            items, lines = [], []
            for title, handle, what in told:
                code = f" <code>{escape(handle)}</code>" if handle else ""
                items.append(f"<li><strong>{escape(title)}</strong>{code}<br>{escape(what)}</li>")
                lines.append(f"- **{markdown_safe(title)}** {markdown_safe(handle)}".rstrip() + f": {markdown_safe(what)}")
            html.append(f"<p>{escape(heading)}</p><ul>{''.join(items)}</ul>")
            markdown += [f"**{markdown_safe(heading)}**", "\n".join(lines)]
        return {"text/plain": repr(self), "text/html": "".join(html), "text/markdown": "\n\n".join(markdown)}


def _what_next(run: Run) -> str:
    """How a run stands, and what a person can do about it."""
    if run.advice:
        return run.advice
    if run.pending:
        many = len(run.pending) > 1
        how = [
            f"It asks {ask.label!r}: run.answer({f'{ask.name!r}, ' if many else ''}{ask_example(ask)})." for ask in run.pending
        ]
        return "\n".join([*how, "loom.pending() shows its form."])
    match run.status:
        case Status.WAITING:
            return "It waits for a sub-workflow, and goes on by itself."
        case Status.RETRYING:
            return "It is tried again by itself; run.retry() tries now."
        case Status.FAILED:
            return "It went on, and failed: run shows why, and run.retry() tries again."
        case status if status in FINISHED:
            return f"It went on, and is {STATUS_TEXT[status.value]}."
        case _:
            return "It goes on: await run gives its result."
