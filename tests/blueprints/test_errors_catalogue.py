"""Errors as the contract has them: one kind for all, known across copies of the library, with codes in catalogues."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import loomnb as loom
from loomnb.blueprints import KERNEL, RUNTIME
from loomnb.errors import is_loom_error

ENTRY = loom.ErrorEntry
CATALOG = loom.ErrorCatalog({"LOST": ENTRY("It is lost."), "LATER": ENTRY("Try later.", retryable=True)})


@pytest.mark.case("blueprints:ER-01")
def test_an_error_of_code_and_message_has_no_cause_and_is_not_to_be_tried_again() -> None:
    error = loom.LoomError("It is lost.", code="LOST")

    assert (error.code, error.message, error.retryable, error.cause, error.__cause__) == (
        "LOST",
        "It is lost.",
        False,
        None,
        None,
    )


@pytest.mark.case("blueprints:ER-01")
@pytest.mark.parametrize("cause", [object(), 0, "", False, {"a": 1}, ValueError("x"), SystemExit(1)])
def test_anything_may_be_a_cause(cause: Any) -> None:
    error = loom.LoomError("It is lost.", code="LOST", cause=cause)

    assert error.cause is cause
    assert error.__cause__ is (cause if isinstance(cause, BaseException) else None)


@pytest.mark.case("blueprints:ER-01")
def test_an_error_survives_being_copied_and_pickled() -> None:
    error = loom.LoomError("It is lost.", code="LOST", retryable=True, cause={"a": 1}, advice="Look.")
    told = [(e.code, e.message, e.retryable, e.cause, e.advice) for e in (copy.copy(error), pickle.loads(pickle.dumps(error)))]

    assert told == [("LOST", "It is lost.", True, {"a": 1}, "Look.")] * 2


@pytest.mark.case("blueprints:ER-02")
@pytest.mark.parametrize("cause", ["text", "", None, 0, 1, False, True, {}, [], object(), ValueError("x"), LookupError])
def test_anything_that_is_no_error_of_ours_is_made_one_with_it_as_cause(cause: Any) -> None:
    error = loom.LoomError.of(cause, code="LOST", message="It is lost.")

    assert isinstance(error, loom.LoomError)
    assert (error.code, error.message, error.retryable) == ("LOST", "It is lost.", False)
    assert error.cause is cause


@pytest.mark.case("blueprints:ER-03")
def test_an_error_of_the_code_is_itself() -> None:
    error = loom.LoomError("mine", code="LOST", retryable=True)

    again: Any = loom.LoomError.of(error, code="LOST", message="another", retryable=False)
    assert again is error
    assert (again.message, again.retryable) == ("mine", True)


@pytest.mark.case("blueprints:ER-03")
@pytest.mark.parametrize("code", ["OTHER", "lost", ""])
def test_an_error_of_another_code_becomes_the_cause_of_a_new_one(code: str) -> None:
    error = loom.LoomError("mine", code=code, retryable=True)
    again: Any = loom.LoomError.of(error, code="LOST", message="another")

    assert (again.code, again.message, again.retryable) == ("LOST", "another", False)
    assert again.cause is error
    assert again.__cause__ is error


class Foreign(Exception):
    """An error of another copy of the library: known by its brand."""

    __loom_error__ = True

    def __init__(self, **members: Any) -> None:
        super().__init__("foreign")
        for name, value in {"code": "LOST", "message": "foreign", "retryable": False, **members}.items():
            if value is not Foreign:
                setattr(self, name, value)


class Hostile(Exception):
    __loom_error__ = True
    message = "hostile"
    retryable = False

    def __init__(self, blow: BaseException) -> None:
        super().__init__("hostile")
        self.blow = blow

    @property
    def code(self) -> str:
        raise self.blow


class Watched(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.case("blueprints:ER-04")
def test_an_error_of_another_copy_is_recognised() -> None:
    error = Foreign()

    assert is_loom_error(error)
    assert loom.LoomError.of(error, code="LOST", message="another") is error
    assert CATALOG.recognises(error)


@pytest.mark.case("blueprints:ER-04")
@pytest.mark.parametrize(
    "members",
    [
        {"code": Foreign},
        {"message": Foreign},
        {"retryable": Foreign},
        {"code": 1},
        {"code": None},
        {"code": b"LOST"},
        {"message": None},
        {"message": 1},
        {"retryable": 0},
        {"retryable": 1},
        {"retryable": None},
        {"retryable": "no"},
    ],
    ids=range(12),
)
def test_an_error_with_a_member_that_does_not_fit_is_not_recognised(members: dict[str, Any]) -> None:
    error = Foreign(**members)
    again: Any = loom.LoomError.of(error, code="LOST", message="another")

    assert not is_loom_error(error)
    assert not CATALOG.recognises(error)
    assert again.cause is error


@pytest.mark.case("blueprints:ER-04")
@pytest.mark.parametrize("brand", [None, False, 1, "yes"])
def test_an_error_without_the_brand_is_not_recognised(brand: Any) -> None:
    error = Foreign()
    error.__loom_error__ = brand

    assert not is_loom_error(error)


@pytest.mark.case("blueprints:ER-04")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Hostile(RuntimeError("x")),
        lambda: Hostile(SystemExit(1)),
        lambda: Hostile(KeyboardInterrupt()),
        lambda: Watched("x"),
        lambda: Foreign,
        lambda: loom.LoomError,
        lambda: None,
    ],
    ids=range(7),
)
def test_whatever_it_is_given_recognition_raises_nothing(make: Any) -> None:
    value = make()

    assert not is_loom_error(value)
    assert not CATALOG.recognises(value)
    again: Any = loom.LoomError.of(value, code="LOST", message="another")
    assert again.cause is value


class Fickle(Exception):
    """Says its code once, and raises the second time."""

    __loom_error__ = True
    message = "fickle"
    retryable = False

    def __init__(self) -> None:
        super().__init__("fickle")
        self.asked = 0

    @property
    def code(self) -> str:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("again?")
        return "LOST"


@pytest.mark.case("blueprints:ER-04")
def test_an_error_that_changes_its_mind_lets_no_exception_escape() -> None:
    CATALOG.recognises(Fickle())
    again: Any = loom.LoomError.of(Fickle(), code="LOST", message="another")

    assert isinstance(again, (Fickle, loom.LoomError))


# -- ER-05: catalogues -------------------------------------------------------------------------------


@pytest.mark.case("blueprints:ER-05")
@pytest.mark.parametrize(("code", "message", "retryable"), [("LOST", "It is lost.", False), ("LATER", "Try later.", True)])
def test_an_error_of_a_catalogue_has_its_defaults(code: str, message: str, retryable: bool) -> None:
    error = CATALOG.create(code)

    assert (error.code, error.message, error.retryable, error.cause) == (code, message, retryable, None)


@pytest.mark.case("blueprints:ER-05")
@pytest.mark.parametrize("message", ["mine", ""])
@pytest.mark.parametrize("retryable", [True, False])
def test_what_is_given_wins_over_the_defaults(message: str, retryable: bool) -> None:
    for code in ("LOST", "LATER"):
        error = CATALOG.create(code, message=message, retryable=retryable, cause=0)

        assert (error.message, error.retryable, error.cause) == (message, retryable, 0)


@pytest.mark.case("blueprints:ER-05")
def test_a_catalogue_wraps_what_went_wrong() -> None:
    cause = ValueError("x")
    error: Any = CATALOG.wrap(cause, "LATER", message="")

    assert (error.code, error.message, error.retryable, error.cause) == ("LATER", "", True, cause)


@pytest.mark.case("blueprints:ER-05")
def test_a_catalogue_wraps_an_error_of_the_code_as_itself() -> None:
    error = CATALOG.create("LOST", message="mine")

    assert CATALOG.wrap(error, "LOST", message="another") is error
    again: Any = CATALOG.wrap(error, "LATER")
    assert again.cause is error


@pytest.mark.case("blueprints:ER-05")
def test_a_catalogue_throws() -> None:
    with pytest.raises(loom.LoomError, match="It is lost") as error:
        CATALOG.throw("LOST", cause="x")

    assert (error.value.code, error.value.cause) == ("LOST", "x")


UNDEFINED: list[Any] = [
    *("OTHER", "lost", "", "__class__", "get", "keys", "toString", "constructor", "__proto__"),
    *(None, 0, ["LOST"], {}),
]


@pytest.mark.case("blueprints:ER-05")
@pytest.mark.parametrize("code", UNDEFINED, ids=range(len(UNDEFINED)))
def test_a_code_that_is_not_defined_is_a_mistake_of_the_programmer(code: Any) -> None:
    for use in (CATALOG.create, CATALOG.throw, lambda c: CATALOG.wrap(ValueError(), c)):
        with pytest.raises(TypeError):
            use(code)
    assert code not in CATALOG


@pytest.mark.case("blueprints:ER-05")
@pytest.mark.parametrize("code", ["OTHER", "__class__", "get", ""])
def test_a_catalogue_recognises_its_own_codes_only(code: str) -> None:
    assert not CATALOG.recognises(loom.LoomError("x", code=code))
    assert CATALOG.recognises(loom.LoomError("x", code="LOST"))


@pytest.mark.case("blueprints:ER-05")
def test_a_catalogue_is_not_changed_by_the_map_it_was_made_of() -> None:
    entries = {"LOST": ENTRY("It is lost.")}
    catalog = loom.ErrorCatalog(entries)
    entries["MORE"] = ENTRY("More.")

    assert "MORE" not in catalog


@pytest.mark.case("blueprints:ER-05")
@pytest.mark.parametrize(
    ("code", "retryable"),
    [
        ("INVALID_REQUEST", False),
        ("NOT_FOUND", False),
        ("CONFLICT", False),
        ("BUSY", True),
        ("STORAGE_ERROR", False),
        ("KERNEL_UNAVAILABLE", True),
    ],
)
def test_what_is_told_to_a_caller(code: str, retryable: bool) -> None:
    assert KERNEL[code].retryable is retryable
    assert code not in RUNTIME


@pytest.mark.case("blueprints:ER-05")
@pytest.mark.parametrize(
    "code",
    [
        *("RUN_INITIALIZATION_FAILED", "STEP_EXECUTION_FAILED", "STEP_RESULT_INVALID", "STEP_OUTCOME_NOT_HANDLED"),
        *("INVALID_TRANSITION", "INVALID_CURSOR", "STEP_INTERACTION_INVALID"),
        *("STAGE_STATE_INVALID", "STAGE_STATE_EXISTS", "STAGE_STATE_NOT_FOUND", "STAGE_STATE_INACTIVE"),
        *("EXECUTION_OWNERSHIP_LOST", "RUN_STOPPED", "RUN_INTERRUPTED", "RUN_CHECKPOINT_FAILED", "RUN_STATE_INVALID"),
        *("LLM_REQUEST_FAILED", "LLM_RESPONSE_INVALID", "AGENT_OUTPUT_INVALID", "TOOL_EXECUTION_FAILED"),
        "RUNTIME_NOT_IMPLEMENTED",
    ],
)
def test_what_a_run_fails_with_is_never_to_be_tried_again_by_itself(code: str) -> None:
    assert RUNTIME[code].retryable is False
    assert RUNTIME[code].message
    assert code not in KERNEL
