"""The documents of a run: saved in a move, found again, replaced under their key, dropped when the move fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import loomnb as loom
from loomnb.documents import DocumentSaveOptions
from tests.helpers import StillSource, at_rest


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    n: int = 0


@loom.document(tags=["loud"])
class Shout(BaseModel):
    text: str


@loom.document(internal=True)
class Secret(BaseModel):
    text: str


Body = Callable[[Any], Any]


def run_of(session: loom.Loom, *bodies: Body, waits: bool = False) -> loom.Run:
    """A run whose moves are these bodies; with `waits`, the second one is a wait transition."""
    assert 1 <= len(bodies) <= 2

    @loom.workflow(name="documents_test")
    class Flow(loom.BaseWorkflow):
        @loom.transition(to="middle")
        def first(self) -> None:
            bodies[0](self.document_store)

        if waits:

            @loom.transition(from_="middle", to="end", wait=True)
            def second(self) -> None:
                bodies[1](self.document_store)
        else:

            @loom.transition(from_="middle", to="end")
            def second(self) -> None:
                if len(bodies) > 1:
                    bodies[1](self.document_store)

    run = session.start(Flow)
    at_rest(run)
    return run


def contents(run: loom.Run) -> list[Any]:
    return [d.content for d in run.documents]


# -- finding what was saved ---------------------------------------------------------------------------


@pytest.mark.case("workflows:J02")
def test_a_save_is_found_in_its_own_move_as_an_instance(session: loom.Loom) -> None:
    found: list[Any] = []

    def body(store: Any) -> None:
        store.save(Note, {"text": "a"})
        found.extend(store.find_all(Note))

    run_of(session, body)

    assert found == [Note(text="a")]


@pytest.mark.case("workflows:J02")
def test_a_save_is_found_by_its_tag_at_once(session: loom.Loom) -> None:
    found: list[Any] = []

    def body(store: Any) -> None:
        store.save(Shout(text="a"))
        store.save(Note(text="b"))
        found.extend(store.find_by_tag("loud"))

    run_of(session, body)

    assert [d.content["text"] for d in found] == ["a"]


def test_tags_of_a_save_are_instead_of_the_types(session: loom.Loom) -> None:
    found: dict[str, int] = {}

    def body(store: Any) -> None:
        store.save(Shout(text="a"), tags=["quiet"])
        found.update({tag: len(store.find_by_tag(tag)) for tag in ("loud", "quiet")})

    run_of(session, body)

    assert found == {"loud": 0, "quiet": 1}


def test_the_next_move_finds_it_too(session: loom.Loom) -> None:
    found: list[Any] = []
    run_of(session, lambda s: s.save(Note(text="a")), lambda s: found.extend(s.find_all(Note)))

    assert found == [Note(text="a")]


def test_another_type_is_not_found(session: loom.Loom) -> None:
    found: list[Any] = []

    def body(store: Any) -> None:
        store.save(Note(text="a"))
        found.extend(store.find_all(Shout))

    run_of(session, body)

    assert found == []


def test_a_run_sees_only_its_own_documents(session: loom.Loom) -> None:
    run_of(session, lambda s: s.save(Note(text="a")))
    found: list[Any] = []
    run_of(session, lambda s: found.extend(s.find_all_documents()))

    assert found == []


def test_documents_come_in_the_order_they_were_saved(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        for text in "abc":
            store.save(Note(text=text))

    assert [c["text"] for c in contents(run_of(session, body))] == ["a", "b", "c"]


@pytest.mark.case("workflows:J11")
def test_the_four_built_in_types_are_four_documents(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        store.save(loom.MessageDocument(role="assistant", text="hi"))
        store.save(loom.ErrorDocument(error="oh"))
        store.save(loom.MarkdownDocument(markdown="# hi"))
        store.save(loom.PlainDocument(text="hi"))

    run = run_of(session, body)

    assert [d.document_name for d in run.documents] == ["message", "error", "markdown", "plain"]
    assert all(not d.is_invalidated and d.error is None for d in run.documents)


@pytest.mark.case("workflows:J12")
def test_an_internal_document_is_found_by_code_and_in_no_list_for_people(session: loom.Loom) -> None:
    found: list[Any] = []

    def body(store: Any) -> None:
        store.save(Secret(text="key"))
        store.save(Note(text="shown"))
        found.extend(d.document_name for d in store.find_all_documents())

    run = run_of(session, body)

    assert found == ["secret", "note"]
    assert [d.document_name for d in run.documents] == ["note"]
    assert "key" not in str(run._repr_mimebundle_())


# -- what is stored of it -----------------------------------------------------------------------------


def test_content_is_copied_at_the_save(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        data = {"text": "before"}
        store.save(Note, data)
        data["text"] = "after"

    assert contents(run_of(session, body)) == [{"text": "before", "n": 0}]


def test_what_is_stored_is_what_the_schema_parsed(session: loom.Loom) -> None:
    assert contents(run_of(session, lambda s: s.save(Note, {"text": "a"}))) == [{"text": "a", "n": 0}]


@pytest.mark.case("workflows:J10")
def test_a_documents_place_is_the_target_of_its_move(session: loom.Loom) -> None:
    (document,) = run_of(session, lambda s: s.save(Note(text="a"))).documents

    assert (document.place, document.transition) == ("middle", "first")


@pytest.mark.case("workflows:J09")
def test_empty_meta_is_stored_as_none(session: loom.Loom) -> None:
    (document,) = run_of(session, lambda s: s.save(Note(text="a"), meta={})).documents

    assert document.meta is None


def test_meta_is_kept(session: loom.Loom) -> None:
    (document,) = run_of(session, lambda s: s.save(Note(text="a"), meta={"data": [1], "mine": True})).documents

    assert document.meta == {"data": [1], "mine": True}


def test_a_document_says_whose_it_is(here: Any) -> None:
    with loom.open(here / "s.duckdb", source=StillSource()) as session:
        run = run_of(session, lambda s: s.save(Note(text="a")))
        (document,) = run.documents

        assert (document.workflow_id, document.created_by, document.created_at) == (run.id, "local", StillSource().time)


def test_a_document_takes_the_labels_of_its_run(session: loom.Loom) -> None:
    @loom.workflow
    class Labelled(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None:
            self.document_store.save(Note(text="a"))

    run = session.start(Labelled, labels=["q3"])
    at_rest(run)

    assert run.documents[0].labels == ("q3",)


def test_options_may_be_one_object(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        store.save(Note, {"text": "a"}, DocumentSaveOptions(key="k", meta={"m": 1}))
        store.save(Note(text="b"), DocumentSaveOptions(key="k2"))

    assert [(d.key, d.meta) for d in run_of(session, body).documents] == [("k", {"m": 1}), ("k2", None)]


def test_saving_gives_the_entity_at_once(session: loom.Loom) -> None:
    keys: list[str] = []
    run_of(session, lambda s: keys.append(s.save(Note(text="a"), key="k").key))

    assert keys == ["k"]


def test_a_save_may_be_awaited(session: loom.Loom) -> None:
    @loom.workflow
    class Awaiting(loom.BaseWorkflow):
        @loom.transition(to="end")
        async def go(self) -> None:
            entity = await self.document_store.save(Note(text="a"), key="k")
            self.set_result(entity.key)

    run = session.start(Awaiting)
    at_rest(run)

    assert run.result == "k"


def test_creating_saves_nothing(session: loom.Loom) -> None:
    made: list[Any] = []
    run = run_of(session, lambda s: made.append(s.create(Note, {"text": "a"})))

    assert made == [Note(text="a")]
    assert run.documents == []


def test_saving_outside_a_move_is_refused(session: loom.Loom) -> None:
    @loom.workflow
    class Outside(loom.BaseWorkflow):
        @loom.transition(to="end")
        def go(self) -> None: ...

    with pytest.raises(loom.Refused, match="inside a transition"):
        Outside().document_store.save(Note(text="a"))


# -- validation ---------------------------------------------------------------------------------------


@pytest.mark.case("workflows:J07")
def test_strict_fails_the_move_naming_document_and_path(session: loom.Loom) -> None:
    run = run_of(session, lambda s: s.save(Note, {"text": 3}))

    assert (run.status, run.error_code) == ("failed", "INVALID_DOCUMENT")
    assert "note" in (run.error or "")
    assert "text" in (run.traceback or "")
    assert run.documents == []


@pytest.mark.case("workflows:J05")
def test_skip_stores_raw_content_with_unknown_keys(session: loom.Loom) -> None:
    assert contents(run_of(session, lambda s: s.save(Note, {"text": 3, "more": [1]}, validate="skip"))) == [
        {"text": 3, "more": [1]}
    ]


def test_safe_keeps_the_raw_content_beside_the_error(session: loom.Loom) -> None:
    (document,) = run_of(session, lambda s: s.save(Note, {"text": 3, "more": 1}, validate="safe")).documents

    assert document.content == {"text": 3, "more": 1}
    assert set(document.error or {}) == {"text", "more"}


def test_safe_parses_content_that_fits(session: loom.Loom) -> None:
    (document,) = run_of(session, lambda s: s.save(Note, {"text": "a"}, validate="safe")).documents

    assert (document.content, document.error) == ({"text": "a", "n": 0}, None)


def test_an_unknown_way_to_validate_is_refused(session: loom.Loom) -> None:
    assert "'maybe'" in (run_of(session, lambda s: s.save(Note(text="a"), validate="maybe")).error or "")


def test_content_that_is_no_json_is_refused_even_unchecked(session: loom.Loom) -> None:
    run = run_of(session, lambda s: s.save(Note, {"text": object()}, validate="skip"))

    assert run.error_code == "INVALID_JSON"


# -- keys ---------------------------------------------------------------------------------------------


def save_under(store: Any, text: str, **options: Any) -> None:
    store.save(Note(text=text), key="k", **options)


def test_the_same_type_under_the_same_key_is_replaced_in_its_place(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        save_under(store, "old")
        store.save(Note(text="beside"))
        save_under(store, "new")

    run = run_of(session, body)

    assert [(d.content["text"], d.index) for d in run.documents] == [("new", 0), ("beside", 1)]


def test_another_type_under_the_same_key_is_another_document(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        save_under(store, "note")
        store.save(Shout(text="shout"), key="k")

    assert [d.document_name for d in run_of(session, body).documents] == ["note", "shout"]


def test_without_a_key_nothing_is_replaced(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        store.save(Note(text="a"))
        store.save(Note(text="a"))

    assert len(run_of(session, body).documents) == 2


@pytest.mark.case("workflows:J04")
@pytest.mark.parametrize("waits", [False, True], ids=["same pass", "after a resume"])
def test_a_document_to_be_kept_stays_beside_the_new_one(session: loom.Loom, waits: bool) -> None:
    found: list[Any] = []

    def second(store: Any) -> None:
        save_under(store, "second")
        found.extend(n.text for n in store.find_all(Note))

    run = run_of(session, lambda s: save_under(s, "first", meta={"invalidate": False}), second, waits=waits)
    if waits:
        run.answer("second")
        at_rest(run)

    assert found == ["first", "second"]
    assert [c["text"] for c in contents(run)] == ["first", "second"]


@pytest.mark.case("workflows:J04")
def test_of_several_under_a_key_only_those_not_to_be_kept_are_replaced(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        save_under(store, "kept", meta={"invalidate": False})
        save_under(store, "second")
        save_under(store, "third")

    assert [c["text"] for c in contents(run_of(session, body))] == ["kept", "third"]


def test_a_replaced_document_stays_in_the_store_marked_as_such(session: loom.Loom) -> None:
    def body(store: Any) -> None:
        save_under(store, "old")
        save_under(store, "new")

    run = run_of(session, body)
    rows = session.sql("select content->>'text', is_invalidated from documents where run_id = ? order by seq", [run.id])

    assert rows.fetchall() == [("old", True), ("new", False)]


# -- failing moves ------------------------------------------------------------------------------------


def fail_after(save: Body) -> Body:
    def body(store: Any) -> None:
        save(store)
        raise RuntimeError("no")

    return body


@pytest.mark.case("workflows:E15")
def test_a_document_of_a_failing_move_does_not_exist(session: loom.Loom) -> None:
    run = run_of(session, fail_after(lambda s: s.save(Note(text="lost"))))

    assert run.documents == []
    assert session.sql("select count(*) from documents").fetchall() == [(0,)]


@pytest.mark.case("workflows:E15")
def test_what_a_failing_move_replaced_is_valid_again(session: loom.Loom) -> None:
    run = run_of(session, lambda s: save_under(s, "old"), fail_after(lambda s: save_under(s, "new")))

    assert contents(run) == [{"text": "old", "n": 0}]


@pytest.mark.case("workflows:E15")
def test_a_retry_finds_the_documents_as_they_were_before_the_failure(session: loom.Loom) -> None:
    seen: list[list[str]] = []

    def second(store: Any) -> None:
        seen.append([n.text for n in store.find_all(Note)])
        save_under(store, "new")
        store.save(Note(text="more"))
        if len(seen) == 1:
            raise RuntimeError("no")

    run = run_of(session, lambda s: save_under(s, "old"), second)
    run.retry()
    at_rest(run)

    assert seen == [["old"], ["old"]]
    assert [(d.content["text"], d.index) for d in run.documents] == [("new", 0), ("more", 1)]


@pytest.mark.case("workflows:E22")
def test_a_failed_run_makes_no_error_document(session: loom.Loom) -> None:
    run = run_of(session, fail_after(lambda s: None))

    assert (run.status, run.error, run.documents) == ("failed", "no", [])


# -- after a restart ----------------------------------------------------------------------------------


def test_documents_are_the_same_after_the_store_was_opened_again(here: Any) -> None:
    def body(store: Any) -> None:
        save_under(store, "old", meta={"invalidate": False})
        save_under(store, "new")
        store.save(Shout(text="a"), tags=["t"], meta={"m": 1})
        store.save(Note, {"bad": 1}, validate="safe")
        store.save(Secret(text="x"))

    with loom.open(here / "s.duckdb") as session:
        run = run_of(session, body)
        before, run_id = run.documents, run.id
    with loom.open(here / "s.duckdb") as session:
        after = session.run(run_id).documents

    def told(documents: list[Any]) -> list[Any]:
        return [dataclasses.replace(d, created_at=None) for d in documents]

    assert told(after) == told(before)


def test_a_resumed_run_replaces_what_was_stored_before_the_restart(here: Any) -> None:
    def first(store: Any) -> None:
        save_under(store, "old")
        store.save(Note(text="beside"))

    def second(store: Any) -> None:
        save_under(store, "new")

    with loom.open(here / "s.duckdb") as session:
        run_id = run_of(session, first, second, waits=True).id
    with loom.open(here / "s.duckdb") as session:
        run = session.run(run_id)
        run.answer("second")
        at_rest(run)

        assert [c["text"] for c in contents(run)] == ["new", "beside"]
