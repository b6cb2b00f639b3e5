// The messages of a conversation: each made once and patched, piece by piece, as the kernel tells what changed.

import { grow, h, keep, quiet, setAttr, setDisabled, setText } from "./base.js";
import { partPiece } from "./parts.js";

const STICK = 48; // pixels from the end within which the reader is taken to be at the end

/** The scrolling list of messages. `act(type, more)` sends; `openRun(runId, el)` draws a run's panel; `told` outlives the view. */
export function transcriptPiece(act, openRun, copy, told) {
  const earlier = quiet(h("button", { type: "button", class: "loom-small loom-earlier", hidden: true }));
  const list = h("div", { class: "loom-turns", role: "log", "aria-label": "Conversation", "aria-live": "off" });
  const empty = h("p", { class: "loom-empty", hidden: true });
  const box = quiet(h("div", { class: "loom-transcript", tabindex: 0, role: "group", "aria-label": "Messages" }, earlier, empty, list));
  const latest = quiet(h("button", { type: "button", class: "loom-small loom-latest", hidden: true }, "↓ Latest"));
  const node = h("div", { class: "loom-scroll" }, box, latest);
  const items = new Map();
  let isAtBottom = true;
  let anchor = null; // after "show earlier", what was on top stays where it was

  box.addEventListener("scroll", () => {
    isAtBottom = box.scrollHeight - box.scrollTop - box.clientHeight < STICK;
    latest.hidden = isAtBottom;
    told.top = isAtBottom ? null : box.scrollTop;
  }, { passive: true });
  latest.addEventListener("click", () => toEnd());
  earlier.addEventListener("click", () => {
    anchor = { height: box.scrollHeight, top: box.scrollTop };
    setDisabled(earlier, true);
    act("earlier");
  });
  // What opens or loads below the fold must not push the end away from who reads there.
  const watcher = typeof ResizeObserver === "function" ? new ResizeObserver(() => isAtBottom && stick()) : null;
  watcher?.observe(list);
  watcher?.observe(box); // while something is asked it is lower

  function stick() {
    box.scrollTop = box.scrollHeight;
  }
  function toEnd() {
    isAtBottom = true;
    latest.hidden = true;
    stick();
  }
  return {
    node,
    toEnd,
    height: () => box.offsetHeight,
    /** Where the reader was before the view was drawn anew. */
    restore() {
      if (told.top === null) return toEnd();
      isAtBottom = false;
      box.scrollTop = told.top;
    },
    update(changed, order) {
      for (const item of changed ?? []) {
        const known = items.get(item.uid);
        if (known) known.update(item);
        else items.set(item.uid, itemPiece(item, { act, openRun, copy, told }));
      }
      if (order) {
        const wanted = new Set(order);
        for (const [uid, piece] of items) if (!wanted.has(uid)) piece.stop(), piece.node.remove(), items.delete(uid);
        order.forEach((uid, at) => {
          const piece = items.get(uid);
          if (piece && list.children[at] !== piece.node) list.insertBefore(piece.node, list.children[at] ?? null);
        });
      }
      if (anchor && order) {
        box.scrollTop = anchor.top + box.scrollHeight - anchor.height;
        anchor = null;
      } else if (isAtBottom) stick();
    },
    head(head) {
      earlier.hidden = !(head.earlier > 0);
      setText(earlier, `Show earlier messages (${(head.earlier ?? 0).toLocaleString("en")})`);
      setDisabled(earlier, false);
      empty.hidden = head.count > 0 || items.size > 0;
      setText(empty, head.can_say ? `Say something to ${head.agent}.` : head.why_not);
    },
    live(isLive) {
      setDisabled(earlier, !isLive);
      items.forEach((piece) => piece.live(isLive));
    },
    stop() {
      watcher?.disconnect();
      items.forEach((piece) => piece.stop());
    },
  };
}

function itemPiece(first, ctx) {
  const isUser = first.role === "user";
  const said = h("div", { class: "loom-said" });
  const foot = h("div", { class: "loom-turn-foot", role: "group", "aria-label": isUser ? "Your message" : "Answer" });
  const node = h("article", { class: "loom-turn", "data-role": first.role, "aria-label": isUser ? "You" : "Answer" }, said, foot);
  const parts = new Map();
  let item = first;
  let isLive = true;
  let editor = null;

  const button = (text, act, more = {}) => {
    const made = quiet(h("button", { type: "button", class: "loom-quiet", ...more }, text));
    made.addEventListener("click", () => act(made));
    return made;
  };
  const buttons = isUser
    ? { copy: button("Copy", (made) => ctx.copy(made, item.text)), edit: button("Edit", () => edit()),
      fork: button("Branch", () => ctx.act("fork", { message: item.id }), { title: "Go on from here in a new conversation" }) }
    : { copy: button("Copy", (made) => (isLive ? ctx.copy(made, null, item.id) : ctx.copy(made, wordsOf(said)))), again: button("Again", () => ctx.act("retry"), { title: "Answer once more" }),
      fork: button("Branch", () => ctx.act("fork", { message: item.id }), { title: "Go on from here in a new conversation" }),
      up: button("Good", () => rate("up"), { "aria-pressed": "false" }), down: button("Poor", () => rate("down"), { "aria-pressed": "false" }) };
  const used = h("span", { class: "loom-used" });
  foot.append(used, ...Object.values(buttons));

  function rate(value) {
    ctx.act("feedback", { message: item.id, value: item.feedback === value ? "" : value });
  }

  function edit() {
    if (editor) return editor.area.focus();
    const area = quiet(h("textarea", { rows: 2, "aria-label": "Say instead" }));
    area.value = item.text;
    const send = quiet(h("button", { type: "submit", class: "loom-main" }, "Send instead"));
    const leave = quiet(h("button", { type: "button", class: "loom-plain" }, "Leave it"));
    const form = h("form", { class: "loom-edit", novalidate: true }, area,
      h("div", { class: "loom-foot" }, send, leave, h("span", { class: "loom-hint" }, "What came after it is taken away")));
    const close = () => {
      form.replaceWith(said);
      editor = null;
      buttons.edit.focus();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = area.value.trim();
      if (!text) return area.focus();
      ctx.act("edit", { message: item.id, text: area.value });
      close();
    });
    leave.addEventListener("click", close);
    area.addEventListener("input", () => grow(area));
    area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey) event.preventDefault(), form.requestSubmit();
      if (event.key === "Escape") event.preventDefault(), event.stopPropagation(), close();
    });
    said.replaceWith(form);
    editor = { area };
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
    grow(area);
  }

  function drawUser() {
    const files = (item.files ?? []).map((file) => h("li", { class: "loom-file" }, file.name));
    said.replaceChildren(...[item.text && h("div", { class: "loom-words" }, item.text),
      files.length && h("ul", { class: "loom-files", "aria-label": "Attached" }, ...files)].filter(Boolean));
  }
  function drawParts() {
    const wanted = new Set(item.parts.map((part) => part.key));
    for (const [key, piece] of parts) if (!wanted.has(key)) piece.stop?.(), piece.node.remove(), parts.delete(key);
    item.parts.forEach((part, at) => {
      let piece = parts.get(part.key);
      if (part.kind) {
        if (!piece) {
          parts.set(part.key, (piece = partPiece(part, ctx)));
          keepFold(piece.node.matches("details") ? piece.node : piece.node.querySelector("details"), `${item.uid}/${part.key}`, ctx.told.open);
        }
        piece.update(part);
      }
      if (piece && said.children[at] !== piece.node) said.insertBefore(piece.node, said.children[at] ?? null);
    });
  }
  function draw() {
    if (isUser) drawUser();
    else drawParts();
    setAttr(node, "aria-busy", item.live ? "true" : null);
    node.dataset.ends = item.ends ? "yes" : "no";
    if (item.lost) node.dataset.lost = "";
    else delete node.dataset.lost;
    setText(used, item.lost ? "stopped here; this is not kept in the conversation" : item.used ?? "");
    const isOver = Boolean(item.id) && item.ends && !item.open;
    foot.hidden = !(isOver || item.lost);
    node.hidden = !isUser && item.parts.length === 0; // of an answer that has only begun there is nothing to see
    for (const [name, one] of Object.entries(buttons)) {
      one.hidden = !isOver;
      setDisabled(one, !isLive && name !== "copy");
      if (name === "up" || name === "down") setAttr(one, "aria-pressed", item.feedback === name ? "true" : "false");
    }
  }
  draw();
  return {
    node,
    update(next) {
      item = next;
      draw();
    },
    live(now) {
      isLive = now;
      draw();
    },
    stop: () => parts.forEach((piece) => piece.stop?.()),
  };
}

/** What a message shows as text: for who cannot ask the kernel how it was written. */
const wordsOf = (said) => [...said.querySelectorAll(".loom-words")].map((one) => one.innerText).join("\n\n");

/** What the reader opened stays open when the view is drawn anew. */
function keepFold(fold, key, opened) {
  if (!fold) return;
  fold.open = opened.has(key);
  fold.addEventListener("toggle", () => void (fold.open ? opened.add(key) : opened.delete(key)));
}

/** Copies a text, or the source of a message, which the kernel has. */
export function copying(ask) {
  const waiting = new Map();
  const done = (made, text) => {
    navigator.clipboard?.writeText(text).then(() => flash(made, "Copied"), () => flash(made, "Not allowed"));
    if (!navigator.clipboard) flash(made, "Not allowed");
  };
  const flash = (made, text) => {
    const before = made.dataset.text ?? (made.dataset.text = made.textContent);
    setText(made, text);
    setTimeout(() => setText(made, before), 1500);
  };
  return {
    copy: (made, text, id) => (text === null || text === undefined ? waiting.set(ask("source", { message: id }), made) : done(made, text)),
    heard(message) {
      const made = waiting.get(message.n);
      if (made && message.type === "accepted") done(made, message.text ?? "");
      waiting.delete(message.n);
    },
  };
}

export const keepDraft = (id, text) => keep(`loomnb:chat:${id}`, text || null);
