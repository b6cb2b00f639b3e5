"""A stand-in for llama.cpp's server: a script that takes llama-server's arguments, with no model behind it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["is_alive", "model_file", "server_program"]

SERVER = """\
#!{python}
import argparse, http.server, json, os, sys
parser = argparse.ArgumentParser()
for name in ("--model", "--alias", "--ctx-size", "--host", "--port"):
    parser.add_argument(name, required=True)
parser.add_argument("--mode", default="good")
said = parser.parse_args()
assert not any("KEY" in name for name in os.environ), "it was given a key"
print("loading", os.path.basename(said.model), "with", said.ctx_size, flush=True)
if said.mode == "broken":
    sys.exit("error: cannot read the tensors")
looks = 0

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, told):
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        global looks
        looks += 1
        ready = said.mode == "good" and looks > 2
        self.answer(200 if ready else 503, {{"status": "ok" if ready else "loading"}})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {{"role": "assistant", "content": "I am " + asked["model"]}}
        choice = {{"index": 0, "message": message, "finish_reason": "stop"}}
        self.answer(200, {{"id": "1", "object": "chat.completion", "created": 1, "model": said.alias, "choices": [choice]}})

http.server.ThreadingHTTPServer((said.host, int(said.port)), Handler).serve_forever()
"""


def model_file(folder: Path) -> Path:
    """What looks like a GGUF file."""
    path = folder / "tiny-model.gguf"
    path.write_bytes(b"GGUF" + bytes(20))
    return path


def server_program(folder: Path) -> Path:
    """The folder that has to be on the PATH."""
    program = folder / "bin" / "llama-server"
    program.parent.mkdir()
    program.write_text(SERVER.format(python=sys.executable))
    program.chmod(0o755)
    return program.parent


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
