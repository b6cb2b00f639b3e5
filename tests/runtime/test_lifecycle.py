"""The life of a run as a full table: every status × event, legal and not."""

from __future__ import annotations

import pytest

from loomnb.errors import Conflict
from loomnb.runtime import FINISHED, TABLE, Event, Status, after

# Written out by hand, so that the code's table is compared with something: rows are statuses, columns events, "-" is refused.
EVENTS = "moved rested ended backed_off broke answered retried woke canceled lost resumed rearmed abandoned".split()  # noqa: SIM905
GRID = """
pending     | running waiting completed retrying failed -       -       -       canceled  interrupted -       -        -
running     | running waiting completed retrying failed -       -       -       canceled  interrupted -       -        -
waiting     | -       -       -         -        failed running running -       canceled  waiting     -       -        interrupted
retrying    | -       -       -         -        -      -       running running canceled  interrupted -       -        -
completed   | -       -       -         -        -      -       -       -       completed completed   -       -        -
failed      | -       -       -         -        -      running running -       failed    failed      -       -        -
canceled    | -       -       -         -        -      -       -       -       canceled  canceled    -       -        -
interrupted | -       -       -         -        -      -       running -       canceled  interrupted running retrying -
"""
EXPECTED = {
    (line.split("|")[0].strip(), event): target
    for line in GRID.strip().splitlines()
    for event, target in zip(EVENTS, line.split("|")[1].split(), strict=True)
}
LEGAL = {key: target for key, target in EXPECTED.items() if target != "-"}
ILLEGAL = [key for key, target in EXPECTED.items() if target == "-"]


def test_the_grid_speaks_of_every_status_and_event() -> None:
    assert set(EXPECTED) == {(s, e) for s in Status for e in Event}


@pytest.mark.parametrize(("status", "event"), LEGAL, ids="-".join)
def test_a_legal_event_leads_where_the_table_says(status: str, event: str) -> None:
    assert after(Status(status), Event(event)) == LEGAL[status, event]


@pytest.mark.parametrize(("status", "event"), ILLEGAL, ids="-".join)
def test_an_illegal_event_is_refused_and_says_both(status: str, event: str) -> None:
    with pytest.raises(Conflict, match=f"{status}.*{event.replace('_', ' ')}"):
        after(Status(status), Event(event))


def test_the_table_has_nothing_else() -> None:
    assert {(s, e): t for s, row in TABLE.items() for e, t in row.items()} == LEGAL


def test_every_status_can_be_reached() -> None:
    reached = {Status.PENDING}
    while new := {t for s in reached for t in TABLE[s].values()} - reached:
        reached |= new

    assert reached == set(Status)


@pytest.mark.parametrize("status", Status)
def test_canceling_and_a_dying_kernel_may_happen_to_any_run(status: Status) -> None:
    assert {Event.CANCELED, Event.LOST} <= TABLE[status].keys()


@pytest.mark.parametrize("status", sorted(FINISHED))
def test_nothing_moves_a_finished_run_by_itself(status: Status) -> None:
    moving = {Event.MOVED, Event.RESTED, Event.ENDED, Event.BACKED_OFF, Event.BROKE, Event.WOKE, Event.RESUMED, Event.REARMED}

    assert TABLE[status].keys().isdisjoint(moving)


def test_the_words_are_those_of_the_contract() -> None:
    assert [str(s) for s in Status] == "pending running waiting retrying completed failed canceled interrupted".split()  # noqa: SIM905
