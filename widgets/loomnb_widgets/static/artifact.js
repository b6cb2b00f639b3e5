// An artifact and its revisions. The kernel renders and sanitises every form; this file shows what it gets and asks for the
// next. The current revision in its first form travels in a trait, so it can be read, and returned to, without a kernel.

import { h, quiet, sanitised, setAttr, setText, showText } from "./base.js";

const WAIT_MS = 4000;
const GONE = "The kernel does not answer: run the cell again.";
const NAMES = { markdown: "Markdown", table: "Table", tree: "Tree", diff: "Diff", raw: "Raw" };

export default { render };

function render({ model, el, signal }) {
  const uid = "loom-" + Math.random().toString(36).slice(2, 9);
  // Two views of one model hear each other's replies, so each counts in a range of its own.
  let n = Math.floor(Math.random() * 1e9) * 1000;
  const waiting = new Map(); // n → { timer, then }: what to do with the reply
  let shown = {};
  let asked = 0; // the last `show` sent: only its reply counts

  const title = h("h3", { class: "loom-title" });
  const revision = quiet(h("select", {}));
  const against = quiet(h("select", {}));
  const compare = h("label", { hidden: true }, "Compare with", against);
  const tabs = h("div", { class: "loom-tabs", role: "tablist", "aria-label": "Form" });
  const copy = quiet(h("button", { type: "button" }, "Copy"));
  const body = quiet(h("div", { class: "loom-body", role: "tabpanel", tabindex: 0, id: `${uid}-body` }));
  const previous = quiet(h("button", { type: "button" }, "Prev"));
  const next = quiet(h("button", { type: "button" }, "Next"));
  const range = h("span", { class: "loom-range", role: "status" });
  const pager = h("div", { class: "loom-pager", role: "group", "aria-label": "Pages", hidden: true }, previous, next, range);
  const trouble = h("p", { class: "loom-trouble", role: "status", hidden: true });
  const voice = h("div", { class: "loom-hidden", role: "status", "aria-live": "polite" });
  const root = h("section", { class: "loom-artifact" },
    h("header", { class: "loom-header" }, title, h("label", {}, "Revision", revision)),
    h("div", { class: "loom-forms" }, tabs, h("div", { class: "loom-tools" }, compare, copy)),
    body, pager, trouble, voice);

  const revisions = () => model.get("head")?.revisions ?? [];
  const first = () => model.get("head")?.shown ?? {};

  // ---- asking --------------------------------------------------------------------------------

  function ask(message, then) {
    n += 1;
    const mine = n;
    const timer = setTimeout(() => {
      waiting.delete(mine);
      root.removeAttribute("aria-busy");
      revision.value = String(shown.revision); // the pickers say what is shown
      against.value = String(shown.against);
      showText(trouble, GONE);
    }, WAIT_MS);
    waiting.set(mine, { timer, then });
    try {
      model.send({ ...message, n: mine });
    } catch {
      // A closed comm throws in some front ends; the timer says what that means.
    }
    return mine;
  }
  function heard(message) {
    const one = waiting.get(message?.n);
    if (!one) return;
    waiting.delete(message.n);
    clearTimeout(one.timer);
    showText(trouble, "");
    one.then(message);
  }
  function show(wanted) {
    const start = first();
    asked = 0;
    showText(trouble, "");
    const isFirst = wanted.revision === start.revision && (wanted.form ?? start.form) === start.form && !wanted.start;
    if (isFirst) return draw(start);
    root.setAttribute("aria-busy", "true");
    const mine = ask({ type: "show", ...wanted }, (reply) => reply.n === asked && draw(reply));
    asked = mine;
  }

  // ---- drawing -------------------------------------------------------------------------------

  function draw(reply) {
    root.removeAttribute("aria-busy");
    shown = reply;
    revision.value = String(reply.revision);
    drawTabs(reply.forms ?? [], reply.form);
    compare.hidden = reply.form !== "diff";
    if (reply.form === "diff") {
      const others = revisions().filter((one) => one.n !== reply.revision);
      fill(against, others);
      against.value = String(reply.against);
    }
    const total = reply.form === "table" ? reply.total ?? 0 : 0;
    const page = sanitised(reply.html, total ? "loom-paged" : "");
    body.replaceChildren(...(page ? [page] : []));
    page?.querySelectorAll(".loom-left[data-path]").forEach(offer);
    page?.querySelectorAll("details pre").forEach((pre) => void (quiet(pre).tabIndex = 0)); // they scroll
    body.scrollTop = 0;
    drawPager(total, reply.start ?? 0, reply.size ?? 50);
    setText(voice, `Revision ${reply.revision}, ${NAMES[reply.form] ?? reply.form}`);
  }
  function drawTabs(forms, current) {
    const had = tabs.contains(document.activeElement);
    const same = [...tabs.children].map((tab) => tab.dataset.form).join() === forms.join();
    if (!same) tabs.replaceChildren(...forms.map(tabNode));
    for (const tab of tabs.children) {
      const isOn = tab.dataset.form === current;
      setAttr(tab, "aria-selected", String(isOn));
      tab.tabIndex = isOn ? 0 : -1;
      if (isOn) setAttr(body, "aria-labelledby", tab.id);
      if (isOn && had) tab.focus();
    }
  }
  function tabNode(form) {
    const attrs = { type: "button", role: "tab", id: `${uid}-${form}`, "aria-controls": `${uid}-body`, "data-form": form };
    const tab = quiet(h("button", attrs, NAMES[form] ?? form));
    tab.addEventListener("click", () => show({ revision: shown.revision, form }));
    return tab;
  }
  tabs.addEventListener("keydown", (event) => {
    const all = [...tabs.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const tab = all[to % all.length];
    tab.focus();
    tab.click();
  });

  function fill(select, list) {
    const newest = revisions().at(-1)?.n;
    const options = [...list].reverse().map((one) => {
      const when = one.at ? new Date(one.at) : null;
      const at = when && !Number.isNaN(when.valueOf()) ? when.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "";
      const text = [`${one.n}${one.n === newest ? " (current)" : ""}`, at].filter(Boolean).join(" · ");
      return h("option", { value: one.n }, text);
    });
    select.replaceChildren(...options);
  }

  function drawPager(total, start, size) {
    pager.hidden = total <= size;
    if (pager.hidden) return;
    const count = (value) => value.toLocaleString("en");
    setText(range, `rows ${count(start + 1)}-${count(Math.min(total, start + size))} of ${count(total)}`);
    // aria-disabled, not disabled: at the last page a focused "Next" would otherwise drop the focus.
    setAttr(previous, "aria-disabled", String(start <= 0));
    setAttr(next, "aria-disabled", String(start + size >= total));
  }
  function turn(by) {
    const start = Math.max(0, (shown.start ?? 0) + by * (shown.size ?? 50));
    show({ revision: shown.revision, form: "table", start });
  }
  previous.addEventListener("click", () => previous.getAttribute("aria-disabled") === "true" || turn(-1));
  next.addEventListener("click", () => next.getAttribute("aria-disabled") === "true" || turn(1));

  /** A branch of the tree that was left out can be had. */
  function offer(left) {
    const button = quiet(h("button", { type: "button" }, "Show"));
    button.addEventListener("click", () => {
      const start = Number(left.dataset.from);
      const path = JSON.parse(left.dataset.path);
      ask({ type: "branch", revision: shown.revision, path, start }, (reply) => {
        const more = sanitised(reply.html, start === 0 ? "loom-branch" : "");
        if (!more || !left.isConnected) return;
        more.querySelectorAll(".loom-left[data-path]").forEach(offer);
        if (start === 0) {
          button.remove();
          left.after(more);
        } else left.replaceWith(more);
        more.tabIndex = -1;
        more.focus({ preventScroll: true });
      });
    });
    left.append(button);
  }

  // ---- controls ------------------------------------------------------------------------------

  revision.addEventListener("change", () => {
    const isDiff = shown.form === "diff";
    const keepsAgainst = isDiff && shown.isChosen && shown.against !== Number(revision.value);
    show({ revision: Number(revision.value), form: shown.form, ...(keepsAgainst ? { against: shown.against } : {}) });
  });
  against.addEventListener("change", () =>
    show({ revision: shown.revision, form: "diff", against: Number(against.value) }));
  copy.addEventListener("click", () => {
    ask({ type: "raw", revision: shown.revision }, async ({ text }) => {
      const isDone = await put(text ?? "");
      setText(voice, isDone ? `Revision ${shown.revision} is copied` : "It could not be copied");
      setText(copy, isDone ? "Copied" : "Not copied");
      setTimeout(() => setText(copy, "Copy"), 2000);
    });
  });

  function redraw() {
    const name = model.get("head")?.title ?? "";
    setText(title, name);
    setAttr(root, "aria-label", `Artifact: ${name}`);
    fill(revision, revisions());
    revision.parentNode.hidden = revisions().length === 0;
    draw(first());
  }
  function cleanup() {
    for (const { timer } of waiting.values()) clearTimeout(timer);
    model.off("msg:custom", heard);
    model.off("change:head", redraw);
    signal?.removeEventListener?.("abort", cleanup);
    root.remove();
  }

  el.append(root);
  model.on("msg:custom", heard);
  model.on("change:head", redraw);
  signal?.addEventListener?.("abort", cleanup);
  redraw();
  return cleanup;
}

/** Text to the clipboard; false where the page may not. */
async function put(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.body.appendChild(h("textarea", { "aria-hidden": "true", style: "position:fixed;opacity:0" }));
    const had = document.activeElement;
    area.value = text;
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    had?.focus?.({ preventScroll: true });
    return isDone;
  }
}
