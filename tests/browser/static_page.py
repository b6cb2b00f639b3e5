"""A bare page that renders one of our anywidget modules with a fake model: no kernel, no server, no network.

Playwright answers every request from the `static` folder; anything else is refused, so a module that reaches
for the network fails its test. Time is Playwright's fake clock: a heartbeat of three seconds costs no seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from loomnb_widgets.assets import artifact_module, artifact_sheet, chat_module, chat_sheet, panel_module, panel_sheet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page, Route

STATIC = Path(__file__).parents[2] / "widgets" / "loomnb_widgets" / "static"
ORIGIN = "http://static.test"
PUT_TOGETHER = {  # what the notebook gets, not its parts
    "panel.js": panel_module,
    "panel.css": panel_sheet,
    "chat.js": chat_module,
    "chat.css": chat_sheet,
    "artifact.js": artifact_module,
    "artifact.css": artifact_sheet,
}
TYPES = {".js": "text/javascript", ".css": "text/css"}

# What anywidget gives a module: get, on, off, send. Everything sent is kept; `listeners` shows what is left behind.
PAGE = """<!doctype html><meta charset="utf-8"><title>static page</title>
<link rel="stylesheet" href="/panel.css"><link rel="stylesheet" href="/table.css">
<link rel="stylesheet" href="/artifact.css">
<style>body { margin: 16px; font-family: sans-serif; background: var(--jp-layout-color0, #fff); }</style>
<main></main>
<script type="module">
class Model {
  widget_manager = { kernel: { status: "idle" } };
  sent = [];
  listeners = [];
  constructor(traits) { this.traits = traits; }
  get(name) { return this.traits[name]; }
  set(name, value) { this.traits[name] = value; this.emit(`change:${name}`); }
  on(event, fn) { this.listeners.push([event, fn]); }
  off(event, fn) { this.listeners = this.listeners.filter((one) => !(one[0] === event && one[1] === fn)); }
  send(message) { this.sent.push(structuredClone(message)); }
  emit(event, ...args) { for (const [name, fn] of [...this.listeners]) if (name === event) fn(...args); }
}
window.mount = async (name, traits) => {
  const module = (await import(`/${name}.js`)).default;
  window.model = new Model(traits);
  window.again = () => {
    const el = document.querySelector("main").appendChild(document.createElement("div"));
    window.cleanup = module.render({ model: window.model, el });
  };
  window.again();
};
window.ready = true;
</script>
"""


class Stage:
    """One page with one rendered module."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.refused: list[str] = []
        self.console: list[str] = []
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.route("**/*", self._serve)
        page.clock.install(time=1_800_000_000)
        page.goto(ORIGIN)
        page.wait_for_function("window.ready")

    def _serve(self, route: Route) -> None:
        url = route.request.url
        name = url.removeprefix(ORIGIN).strip("/")
        if name == "":
            route.fulfill(body=PAGE, content_type="text/html")
        elif url.startswith(ORIGIN) and name in PUT_TOGETHER:
            route.fulfill(body=PUT_TOGETHER[name](), content_type=TYPES[Path(name).suffix])
        elif url.startswith(ORIGIN) and (STATIC / name).is_file():
            route.fulfill(path=STATIC / name)
        else:
            if name != "favicon.ico":
                self.refused.append(url)
            route.abort()

    def mount(self, module: str, traits: dict[str, Any]) -> None:
        if module == "chat":
            self.page.add_style_tag(content=chat_sheet())
        self.page.evaluate("([name, traits]) => mount(name, traits)", [module, traits])

    def render_again(self) -> None:
        """Replace the view, as running the cell again does."""
        self.page.evaluate("() => { cleanup(); again(); }")

    def say(self, message: dict[str, Any]) -> None:
        """A message from the kernel."""
        self.page.evaluate("(message) => model.emit('msg:custom', message)", message)

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """What the view sent, of one type, oldest first."""
        return self.page.evaluate("(kind) => model.sent.filter((one) => one.type === kind)", kind)

    def wait(self, seconds: float) -> None:
        """Let the page's clock run on."""
        self.page.clock.run_for(int(seconds * 1000))

    def find(self, selector: str) -> Locator:
        return self.page.locator(selector)

    # -- the kernel's side of the panel protocol

    def panel(self, head: dict[str, Any], **more: Any) -> None:
        """A panel whose kernel has answered its first hello."""
        self.mount("panel", {"head": {}})
        self.state(head, **more)

    def state(self, head: dict[str, Any] | None = None, *, ack: bool = True, **more: Any) -> None:
        message = {"type": "state", "head_rev": 1, "stamp": 0, **more}
        if ack:
            message["ack"] = self.sent("hello")[-1]["n"]
        if head is not None:
            message["head"] = head
        self.say(message)

    def answer(self) -> dict[str, Any]:
        """The one answer sent."""
        (message,) = self.sent("answer")
        return message

    def accept(self) -> None:
        last = self.sent("answer")[-1]
        self.say({"type": "accepted", "n": last["n"], "ask": last["ask"]})

    def refuse(self, fields: dict[str, str], message: str = "Not accepted.", advice: str = "") -> None:
        last = self.sent("answer")[-1]
        told = {"message": message, "advice": advice, "fields": fields}
        self.say({"type": "refused", "n": last["n"], "ask": last["ask"], **told})

    def active_key(self) -> str | None:
        return self.page.evaluate("document.activeElement.dataset.key ?? null")


@pytest.fixture
def stage(chromium: Browser) -> Iterator[Stage]:
    context = chromium.new_context(viewport={"width": 900, "height": 900}, reduced_motion="reduce")
    yield Stage(context.new_page())
    context.close()


# -- what the kernel would say -----------------------------------------------------------------------


def head(status: str = "running", **more: Any) -> dict[str, Any]:
    base = {
        "title": "Meeting notes", "workflow": "MeetingNotes", "run_id": "run-1", "status": status,
        "status_text": status,
        "place": "draft", "path": [{"place": "start", "name": ""}, {"place": "draft", "name": "write"}], "path_more": 0,
        "asks": [], "progress": None, "error": None, "can_cancel": False, "can_retry": False, "retry_text": "Retry",
        "notice": "",
    }  # fmt: skip
    return {**base, **more}


def ask(kind: str = "form", **more: Any) -> dict[str, Any]:
    base = {
        "id": "a1", "kind": kind, "label": "Review", "description_html": "", "enabled": True, "disabled_reason": "",
        "submit": "Submit", "fields": [], "questions": [], "context_html": "",
    }  # fmt: skip
    return {**base, **more}


def field(name: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    base = {
        "name": name, "label": name.capitalize(), "kind": kind, "required": True, "nullable": False, "default": None,
        "choices": [], "help_html": "", "minimum": None, "maximum": None, "max_length": None, "multiline": False,
    }  # fmt: skip
    return {**base, **more}


def question(qid: str, text: str, options: int | list[str] = 0, **more: Any) -> dict[str, Any]:
    labels = [f"Choice {n}" for n in range(1, options + 1)] if isinstance(options, int) else options
    listed = [{"id": f"o{n}", "label": label, "description_html": f"<p>about {n}</p>"} for n, label in enumerate(labels, 1)]
    return {"id": qid, "question": text, "description_html": "", "skippable": False, "options": listed, **more}


def doc(index: int, html: str, kind: str = "markdown", stamp: int | None = None, **more: Any) -> dict[str, Any]:
    base = {"index": index, "stamp": stamp or index + 1, "name": "d", "kind": kind, "title": "", "role": ""}
    return {**base, "html": html, **more}
