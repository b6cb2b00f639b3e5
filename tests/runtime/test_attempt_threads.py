"""What threads of one move write at the same time, as the sync tools of one message of a model do: all of it is there."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import loomnb as loom
from loomnb.testing import at_rest

THREADS, TIMES = 8, 50


@pytest.fixture(autouse=True)
def _often_switched() -> Iterator[None]:
    """Threads take turns after microseconds, so that two of them do meet in the middle of something."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], None]) -> None:
    """Do something on several threads, each with the context of the move."""
    start = threading.Barrier(THREADS)

    def one(number: int) -> None:
        start.wait()
        for time in range(TIMES):
            work(number * TIMES + time)

    threads = [threading.Thread(target=contextvars.copy_context().run, args=(one, number)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@loom.workflow(name="many_threads_child")
class ChildWorkflow(loom.BaseWorkflow[Any]):
    @loom.transition(from_="start", to="end")
    def do(self) -> None: ...


@loom.workflow(name="many_threads")
class ManyWorkflow(loom.BaseWorkflow[Any]):
    """Writes from many threads."""

    @loom.transition(from_="start", to="started")
    def save(self) -> None:
        at_once(lambda number: self.document_store.save(loom.PlainDocument, {"text": str(number)}) and None)
        at_once(lambda number: self.assign_state({f"n{number}": number}))

    @loom.transition(from_="started", to="end")
    def start(self) -> None:
        at_once(lambda number: ChildWorkflow().run({}, show="hidden") and None if number % 5 == 0 else None)


def test_documents_state_and_sub_workflows_of_many_threads_are_all_there(session: loom.Loom) -> None:
    run = session.start(ManyWorkflow)
    at_rest(run)

    assert run.status == "completed", run.record.view.failure
    documents = session.sql(f"select index, content->>'text' from documents where run_id = '{run.id}' order by index").fetchall()
    assert [index for index, _ in documents] == list(range(THREADS * TIMES))
    assert sorted(int(text) for _, text in documents) == list(range(THREADS * TIMES))
    assert run.state == {f"n{number}": number for number in range(THREADS * TIMES)}
    children = session.sql("select count(distinct run_id) from runs where workflow = 'many_threads_child'").fetchall()
    assert children == [(THREADS * TIMES // 5,)]
