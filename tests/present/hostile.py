"""Texts that try to run, and a reader that finds whether they still could."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["HOSTILE", "executable"]

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    "[x](javascript:alert(1))",
    "[x](  JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    '<a href="d&#9;ata:text/html,x">x</a>',
    '<a href="&#10; d&#10;ata:text/html,x">x</a>',
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data='javascript:alert(1)'></object>",
    "<math><a xlink:href='javascript:alert(1)'>x</a></math>",
    "<style>@import 'https://example.org/x.css'</style>",
    "<p style=\"background:url('javascript:alert(1)')\">x</p>",
    "<form action=javascript:alert(1)><button>x</button></form>",
    "<details open ontoggle=alert(1)>x</details>",
    "<b onmouseover=alert(1)>x</b>",
    "</pre></div><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "a\n\n<script>alert(1)</script>\n\nb",
    "a\n\n[x](javascript:alert(1))\n\nb",
    "<!-- --><script>alert(1)</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<base href='https://example.org/'>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<input autofocus onfocus=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "```\n</code></pre><script>alert(1)</script>\n```",
]

_TAGS = {
    "script",
    "style",
    "iframe",
    "object",
    "embed",
    "svg",
    "math",
    "form",
    "button",
    "input",
    "base",
    "meta",
    "link",
    "noscript",
}
_LINKS = {"href", "src", "action", "data", "xlink:href", "formaction", "srcdoc"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _TAGS:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            scheme = "".join((value or "").split()).lower().partition(":")[0]
            if name.startswith("on") or (name == "style" and "url" in (value or "")):
                self.found.append(f"{tag} {name}")
            elif (
                name in _LINKS and scheme in ("javascript", "vbscript", "data") and not (value or "").startswith("data:image/png")
            ):
                self.found.append(f"{tag} {name}={value}")


def executable(html: str) -> list[str]:
    """What in this HTML could run, or could load something that runs."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.found
