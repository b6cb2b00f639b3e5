"""A model of a file on this machine. The server here is a script that takes llama-server's arguments: no model is behind it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from loomnb.agents.providers import LocalServer, LocalServerFailed, ModelPackageMissing, local_model
from loomnb.errors import InvalidRequest
from tests.agents.local_servers import is_alive, model_file, server_program
from tests.agents.providing import asked

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server's stand-in is a script with a first line for Unix")


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return model_file(tmp_path)


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for llama-server that is found."""
    monkeypatch.setenv("PATH", str(server_program(tmp_path)), prepend=os.pathsep)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-for-a-local-server")


@pytest.mark.usefixtures("on_path")
def test_a_file_becomes_a_model(gguf: Path) -> None:
    with LocalServer(gguf) as server:
        model = server.model()

        assert asked(model).text == "I am tiny-model"
        assert server.url.startswith("http://127.0.0.1:")


@pytest.mark.usefixtures("on_path")
def test_its_process_ends_with_it(gguf: Path) -> None:
    with LocalServer(gguf) as server:
        pid = server.pid
        assert pid is not None
        assert is_alive(pid)

    assert not is_alive(pid)
    assert server.pid is None


@pytest.mark.usefixtures("on_path")
def test_it_ends_with_the_process_that_started_it(gguf: Path) -> None:
    code = textwrap.dedent(f"""
        import sys; sys.path.insert(0, {str(ROOT)!r})
        from loomnb.agents.providers.local import LocalServer
        print(LocalServer({str(gguf)!r}).start().pid)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert not is_alive(int(done.stdout))


@pytest.mark.usefixtures("on_path")
def test_starting_it_twice_starts_one(gguf: Path) -> None:
    with LocalServer(gguf) as server:
        assert server.start().pid == server.pid


@pytest.mark.usefixtures("on_path")
def test_its_progress_is_told(gguf: Path) -> None:
    told: list[tuple[float, str]] = []
    with LocalServer(gguf, context=99, on_progress=lambda seconds, line: told.append((seconds, line))):
        pass

    assert all(seconds >= 0 for seconds, _ in told)
    assert told[-1][1] == "loading tiny-model.gguf with 99"


@pytest.mark.usefixtures("on_path")
def test_one_that_ends_before_it_is_ready_tells_its_last_word(gguf: Path) -> None:
    server = LocalServer(gguf, arguments=("--mode", "broken"))
    with pytest.raises(LocalServerFailed, match="cannot read the tensors") as caught:
        server.start()

    assert caught.value.code == "LLM_LOCAL_FAILED"
    assert server.pid is None


@pytest.mark.usefixtures("on_path")
def test_one_that_never_gets_ready_is_ended_after_its_time(gguf: Path) -> None:
    pids: list[int | None] = []
    server = LocalServer(
        gguf, timeout=0.5, arguments=("--mode", "slow"), on_progress=lambda seconds, line: pids.append(server.pid)
    )
    with pytest.raises(LocalServerFailed, match=r"not ready after 0\.5 seconds"):
        server.start()

    assert pids[-1] is not None
    assert not is_alive(pids[-1])


def test_a_machine_without_a_server_says_how_to_get_one(gguf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelPackageMissing, match="llama-server") as caught:
        local_model(gguf)

    assert caught.value.extra == "loomnb[local]"


def test_what_is_no_model_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_text("no model")

    for path in (other, tmp_path / "nothing.gguf", tmp_path):
        with pytest.raises(InvalidRequest):
            LocalServer(path)


@pytest.mark.parametrize("options", [{"context": 0}, {"timeout": 0}], ids=repr)
def test_numbers_out_of_range_are_refused(gguf: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        LocalServer(gguf, **options)


def test_it_has_an_address_only_while_it_runs(gguf: Path) -> None:
    with pytest.raises(InvalidRequest, match="not started"):
        assert LocalServer(gguf).url
