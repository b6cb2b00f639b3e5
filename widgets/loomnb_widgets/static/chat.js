// The chat panel: a window on one conversation. Like the run panel, it decides nothing, keeps what is being typed, and sends one
// message per thing a person does; the same three rules hold (see panel.js).

import { REFOCUS_MS, focusWithin, h, isFree, keep, quiet, recall, returnFocus, setAttr, setDisabled, setText, showText } from "./base.js";
import { childModel } from "./children.js";
import { composerPiece } from "./composer.js";
import { askPiece } from "./forms.js";
import { copying, transcriptPiece } from "./messages.js";
import { errorPiece, heartbeat, initialize, isKernelBusy, render } from "./panel.js";
import { elsewherePiece, threadsPiece } from "./threads.js";

const CHAT_HELLO_MS = 3000;
const SAVE_MS = 1500; // who saves waits no longer than this for the kernel
const IDLE_MS = 1500; // since the last key: then nobody is in the middle of a word

/** What a model's views were told: a notebook draws a view anew when its cell's output changes, and that must not be seen. */
const TOLD = new WeakMap();

export default { initialize, render: renderChat };

function renderChat({ model, el, signal }) {
  const uid = "loom-" + Math.random().toString(36).slice(2, 9);
  let n = Math.floor(Math.random() * 1e9) * 1000;
  let head = {};
  let headRev = 0;
  let stamp = 0;
  let closed = ""; // what to do once the store is closed
  let lostFocus = null;
  let lastKey = 0; // when a person last pressed a key in here, since something was sent
  let greeting = 0;
  const asks = new Map();
  const told = TOLD.get(model) ?? { items: new Map(), order: [], head: null, headRev: 0, stamp: 0, open: new Set(), files: [], top: null };
  TOLD.set(model, told);

  const act = (type, more = {}) => {
    n += 1;
    try {
      model.send({ type, ...more, n });
    } catch {
      // A closed comm throws in some front ends. The missing reply is noticed by the timers.
    }
    return n;
  };
  const ctx = {
    uid, act, told,
    isLive: () => pulse.state === "live",
    runId: () => head.thread_id ?? "",
    say: (text) => void (voice.textContent = text),
    send: ({ type, ...more }) => act(type, more),
    sent() {
      lastKey = 0;
      transcript.toEnd();
    },
  };

  const line = h("p", { class: "loom-line", role: "status" });
  const title = h("h3", { class: "loom-title" });
  const chip = h("span", { class: "loom-chip", hidden: true });
  const list = quiet(h("button", { type: "button", class: "loom-quiet", "aria-expanded": "false" }, "Conversations"));
  const fresh = quiet(h("button", { type: "button", class: "loom-quiet" }, "New"));
  const header = h("header", { class: "loom-header" }, title, chip, h("span", { class: "loom-chat-tools" }, list, fresh), line);
  const warn = h("p", { class: "loom-warn", role: "status", hidden: true });
  const notice = h("p", { class: "loom-notice", hidden: true });
  const elsewhere = elsewherePiece(act);
  const threads = threadsPiece(act, ctx.isLive);
  const copies = copying(act);
  const transcript = transcriptPiece(doing, (runId, into) => render({ model: childModel(model, runId), el: into, isNested: true }), copies.copy, told);
  const work = h("div", { class: "loom-work", role: "status", hidden: true });
  const asksNode = h("div", { class: "loom-asks" });
  const error = errorPiece();
  const again = quiet(h("button", { type: "button", class: "loom-main loom-retry", hidden: true }));
  const trouble = h("div", { class: "loom-trouble" }, error.node, again);
  const refused = h("div", { class: "loom-alert", role: "alert", hidden: true });
  const chips = h("div", { class: "loom-suggestions", role: "group", "aria-label": "What to ask next" });
  const composer = composerPiece(ctx);
  const used = h("p", { class: "loom-used loom-chat-used" });
  const voice = h("div", { class: "loom-hidden", role: "status", "aria-live": "polite" });
  const root = h("section", { class: "loom-panel loom-chat", "data-live": "connecting", tabindex: -1 },
    header, warn, notice, elsewhere.node, threads.node, transcript.node, work, asksNode, trouble, refused, chips, composer.node, used, voice);

  // The messages are as high as the rest leaves room for in the window; the sheet says when that counts.
  const fitting = typeof ResizeObserver === "function"
    ? new ResizeObserver(() => root.style.setProperty("--loom-rest", `${root.offsetHeight - transcript.height()}px`)) : null;
  for (const piece of [asksNode, composer.node, trouble]) fitting?.observe(piece);

  const doings = new Set(); // what was asked for and may be refused
  function doing(type, more) {
    showText(refused, "");
    const number = act(type, more);
    doings.add(number);
    return number;
  }
  const pulse = heartbeat({
    hello: () => act("hello", { have: { stamp, head: headRev }, held: root.contains(document.activeElement) }),
    pace: () => CHAT_HELLO_MS,
    isBusy: () => isKernelBusy(model),
    changed: drawLiveness,
  });

  function drawLiveness() {
    const { state } = pulse;
    const focus = state === "live" ? null : focusWithin(root);
    root.dataset.live = state;
    setText(line, { busy: "kernel busy: it answers when the running cell ends", connecting: "connecting…", closed,
      gone: `kernel gone: run the cell that makes the agent, then agent.chat("${head.thread_id ?? ""}") brings this back` }[state] ?? "");
    line.hidden = state === "live";
    for (const piece of asks.values()) piece.enable();
    composer.enable();
    threads.enable();
    transcript.live(state === "live");
    drawChip();
    drawControls();
    drawWork();
    if (focus) lostFocus = focus;
    else if (state === "live") {
      if (lostFocus) returnFocus(lostFocus, root);
      lostFocus = null;
      for (const piece of asks.values()) piece.refocus();
    }
  }
  function drawChip() {
    const isClosed = pulse.state === "closed";
    setText(chip, isClosed ? "store closed" : head.status_text ?? "");
    setAttr(chip, "data-status", isClosed ? "" : head.status ?? "");
    chip.hidden = !isClosed && !head.status_text;
  }
  function drawControls() {
    const isOff = !ctx.isLive();
    for (const button of [again, list, fresh, ...chips.children, ...elsewhere.node.querySelectorAll("button")]) setDisabled(button, isOff);
    list.hidden = fresh.hidden = !head.can_say;
    again.hidden = !head.can_retry;
    setText(again, head.retry_text || "Try again");
  }

  let waitTimer = 0;
  let waitUntil = 0;
  let waitNumber = 0;
  /** What goes on where nothing is written: that the model works, or that its server wants a pause. */
  function drawWork() {
    clearInterval(waitTimer);
    const isAtWork = ctx.isLive() && ["running", "pending", "retrying"].includes(head.status);
    work.hidden = !isAtWork;
    if (!isAtWork) return;
    const { waiting } = head;
    if (waiting && waiting.number !== waitNumber) {
      waitNumber = waiting.number;
      waitUntil = Date.now() + waiting.seconds * 1000;
    }
    if (!waiting) waitNumber = 0;
    const draw = () => {
      const left = Math.max(0, Math.ceil((waitUntil - Date.now()) / 1000));
      const why = waiting?.reason === "unavailable" ? "The model's server does not answer as it should. It is asked again in" : "The model's server asks to wait:";
      setText(work, waiting ? `${why} ${left} s` : `${head.agent} is at work`);
    };
    if (waiting) waitTimer = setInterval(draw, 1000);
    draw();
    setAttr(work, "data-waiting", waiting ? "yes" : null);
  }

  function drawHead(next) {
    const before = head;
    head = next ?? {};
    const isOther = before.thread_id !== undefined && before.thread_id !== head.thread_id;
    setAttr(root, "aria-label", `Conversation with ${head.agent ?? "an agent"}`);
    setText(title, head.title || head.agent || "Conversation");
    setAttr(title, "title", head.thread_id);
    drawChip();
    showText(notice, head.notice);
    elsewhere.update(head.elsewhere ?? []);
    const first = syncAsks(head.asks ?? []);
    error.update(head.error ?? null);
    transcript.head(head);
    composer.update(head);
    const offered = head.suggestions ?? [];
    if (JSON.stringify(offered) !== JSON.stringify(before.suggestions ?? [])) {
      chips.replaceChildren(...offered.map((text) => {
        const button = quiet(h("button", { type: "button", class: "loom-suggestion" }, text));
        button.addEventListener("click", () => (composer.say(text), composer.focus()));
        return button;
      }));
    }
    setText(used, head.used ? `This conversation: ${head.used}` : "");
    if (isOther) {
      showText(refused, "");
      transcript.toEnd();
      if (!threads.isOpen()) composer.focus();
    }
    drawControls();
    drawWork();
    if (before.thread_id === undefined || (before.status === head.status && !first)) return;
    if (first) greet(first);
    if (head.asks?.length) ctx.say(`waiting for your answer: ${head.asks.map((ask) => ask.label).join("; ")}`);
    else if (head.error) ctx.say(`failed: ${head.error.message}`);
    else if (!head.status && before.status) ctx.say(lastWords());
    if (first) transcript.toEnd();
  }
  /** What is newly asked takes the focus of who is in the panel with nothing in their hands: the next key would go there anyway. */
  function greet(piece) {
    clearTimeout(greeting);
    const at = document.activeElement;
    if (!ctx.isLive() || ![...asks.values()].includes(piece) || asksNode.contains(at) || threads.node.contains(at)) return;
    const isHere = root.contains(at) ? composer.isIdle() || !at.matches("input, textarea, select") : isHeld && isFree(at, root);
    if (!isHere || !document.getSelection()?.isCollapsed) return;
    if (Date.now() - lastKey < IDLE_MS) return void (greeting = setTimeout(() => greet(piece), IDLE_MS));
    piece.node.scrollIntoView({ block: "nearest" });
    piece.greet();
  }
  const lastWords = () => [...transcript.node.querySelectorAll(".loom-turn[data-role='assistant'] .loom-words")].pop()?.textContent ?? "";

  function syncAsks(wanted) {
    const listed = new Set(wanted.map((ask) => ask.id));
    let hadFocus = false;
    for (const [id, piece] of asks) {
      if (listed.has(id)) continue;
      hadFocus ||= piece.node.contains(document.activeElement);
      asks.delete(id);
      piece.remove();
    }
    let made = null;
    for (const ask of wanted) {
      const def = JSON.stringify({ ...ask, enabled: null, disabled_reason: null });
      let piece = asks.get(ask.id);
      if (!piece || piece.def !== def) {
        piece?.remove();
        piece = askPiece(ask, def, ctx);
        asks.set(ask.id, piece);
        asksNode.append(piece.node);
        made ??= piece;
      }
      piece.enable(ask);
    }
    // Keyboard users go straight on: from "Answer sent" to the next question, else to the composer.
    if (hadFocus && (document.activeElement === document.body || !root.contains(document.activeElement))) made ? made.greet() : composer.focus();
    return made;
  }

  function heard(message) {
    if (message?.run !== undefined) return; // for the view of a run that a tool started
    if (message?.type === "state") return onState(message);
    if (message?.type !== "accepted" && message?.type !== "refused") return;
    if (message.type === "accepted") asks.forEach((piece) => piece.accepted(message.n));
    else asks.forEach((piece) => piece.refused(message));
    composer.heard(message);
    threads.heard(message);
    copies.heard(message);
    if (doings.delete(message.n) && message.type === "refused") showText(refused, [message.message, message.advice].filter(Boolean).join(" "));
  }

  function onState(m) {
    const isOurs = pulse.isOurs(m.ack);
    if (typeof m.stamp === "number" && m.stamp >= stamp && (m.since <= stamp || isOurs)) {
      for (const item of m.items ?? []) merge(item);
      if (m.order) told.order = m.order;
      transcript.update(m.items, m.order);
      told.stamp = stamp = m.stamp;
    } else if (m.since > stamp) pulse.beat(); // something between is missing: ask for it now
    if (typeof m.warn === "string") showText(warn, m.warn);
    if (m.head && m.head_rev >= headRev) {
      told.headRev = headRev = m.head_rev;
      told.head = m.head;
      drawHead(m.head);
    }
    if (m.closed) closed = m.closed;
    if (isOurs) pulse.ack(m.ack, Boolean(m.closed));
  }

  /** What another view of this model would need to draw the item whole. */
  function merge(item) {
    const olds = new Map((told.items.get(item.uid)?.parts ?? []).map((part) => [part.key, part]));
    const parts = item.parts.map((part) => {
      const old = olds.get(part.key);
      if (!part.kind) return old ?? part;
      return part.blocks && old ? { ...part, blocks: { ...old.blocks, ...part.blocks } } : part;
    });
    told.items.set(item.uid, { ...item, parts });
  }

  again.addEventListener("click", () => doing("retry"));
  list.addEventListener("click", () => {
    threads.toggle();
    setAttr(list, "aria-expanded", threads.isOpen() ? "true" : "false");
  });
  fresh.addEventListener("click", () => {
    doing("new");
    threads.toggle(false);
  });
  root.addEventListener("keydown", (event) => {
    lastKey = Date.now();
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "s") save(event);
  }, { capture: true });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (threads.isOpen()) {
      threads.toggle(false);
      list.focus();
    } else if (!composer.halt()) return;
    event.preventDefault();
    event.stopPropagation();
  });

  // What the notebook has of the conversation is said anew when nobody is in the panel. Who saves from within it, with nothing
  // begun, waits a moment for that; JupyterLab hears nothing of this key from a field.
  function save(event) {
    if (!root.closest(".jp-Notebook") || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    const { key, code, keyCode, ctrlKey, metaKey } = event;
    const go = () => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, code, keyCode, ctrlKey, metaKey, bubbles: true, cancelable: true }));
    if (!ctx.isLive() || !isEmptyHanded()) return void go();
    let number = null;
    const done = (message) => {
      if (message && message.n !== number) return;
      model.off("msg:custom", done); // not the view's: it may be gone by then
      clearTimeout(timer);
      go();
    };
    const timer = setTimeout(done, SAVE_MS);
    model.on("msg:custom", done);
    number = act("rest");
  }
  const isEmptyHanded = () => composer.isBlank() && !root.querySelector(".loom-edit") && !threads.isOpen() && !asksNode.contains(document.activeElement);

  // The focus goes with a view that is drawn anew: hand it over, as the run panel does.
  let isHeld = false;
  root.addEventListener("focusin", (event) => {
    isHeld = true;
    if (!event.relatedTarget || !root.contains(event.relatedTarget)) pulse.beat(); // so that the kernel knows it at once
  });
  root.addEventListener("focusout", (event) => {
    isHeld = !event.relatedTarget || root.contains(event.relatedTarget);
    setTimeout(() => {
      if (!root.isConnected) return void (isHeld && leave());
      if (!root.contains(document.activeElement)) pulse.beat(); // who leaves may be about to save
    });
  });
  const leave = () => keep(`loomnb:focus:${head.thread_id}`, String(Date.now()));

  function takeOverFocus() {
    const left = recall(`loomnb:focus:${head.thread_id}`);
    if (!left || Date.now() - Number(left) > REFOCUS_MS || !isFree(document.activeElement, root) || root.contains(document.activeElement)) return;
    const [waiting] = asks.values();
    if (waiting) root.focus({ preventScroll: true });
    else composer.focus();
  }

  function cleanup() {
    const at = document.activeElement;
    if (isHeld && (isFree(at, root) || root.contains(at))) leave();
    late.forEach(clearTimeout);
    clearTimeout(greeting);
    clearInterval(waitTimer);
    pulse.stop();
    threads.stop();
    composer.stop();
    transcript.stop();
    fitting?.disconnect();
    for (const piece of asks.values()) piece.stop();
    model.off("msg:custom", heard);
    signal?.removeEventListener?.("abort", cleanup);
    root.remove();
  }

  el.append(root);
  model.on("msg:custom", heard);
  signal?.addEventListener?.("abort", cleanup);
  if (told.head) {
    transcript.update([...told.items.values()], told.order);
    stamp = told.stamp;
    headRev = told.headRev;
  }
  drawHead(told.head ?? model.get("head"));
  drawLiveness();
  transcript.restore();
  takeOverFocus();
  const late = [30, 90, 200, 400].map((ms) => setTimeout(takeOverFocus, ms)); // the old view may be taken away after this one was made
  pulse.beat();
  return cleanup;
}
