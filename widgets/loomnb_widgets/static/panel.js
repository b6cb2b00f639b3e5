// The run panel: a window on one run. It decides nothing: it draws what the kernel says, keeps the text
// being typed, and sends one message per answer.
//
// Three rules shape the code:
// 1. Input never travels through synced traits (ipykernel 7.4 drops trait updates while a cell awaits);
//    a form lives here until it is submitted, in one custom message.
// 2. The panel must not look alive while nobody listens: every control stays disabled until the kernel
//    answered a hello, and goes back to disabled when it stops answering.
// 3. Only fields the kernel has sanitised (`html`, `*_html`) are parsed as HTML; see `sanitised`.
//
// Pieces are small objects made once ({ node, update }) and patched, never redrawn: a redraw would lose focus,
// selection and scroll position, and flicker.

import {
  REFOCUS_MS, REPLY_MS, duration, focusWithin, foldLine, foldPast, h, isAtEnd, isFree, isLowSurrogate, keep, pointIndex, points, quiet, recall,
  returnFocus, sanitised, setAttr, setDisabled, setText, showText,
} from "./base.js";
import { childModel, graphPiece, linkPiece } from "./children.js";
import { answering, askPiece } from "./forms.js";
import { messagesPiece } from "./parts.js";
import { holdingsPiece, stagesPiece } from "./stages.js";

const HELLO_MS = 3000;
const HELLO_ENDED_MS = 10000; // a finished run can still be retried, so it must still know whether it is heard
const ACK_MS = 2500;
const ARMED_MS = 4000; // how long "Cancel run?" waits for its second click
const LOG_KEEP = 200_000;
const LOG_SLACK = 40_000; // trim in large bites, not at every line
const MANY_DOCS = 200;
const ENDED = new Set(["completed", "failed", "canceled"]);
const MOVING = new Set(["pending", "running", "retrying"]);

export default { initialize, render };

/** The model is made before any view of it: this tells the kernel that the page knows anywidget, however long drawing takes. */
export function initialize({ model }) {
  try {
    model.send({ type: "here" });
  } catch {
    // A page opened from disk has nobody to tell.
  }
}

export function render({ model, el, signal, isNested = false }) {
  const uid = "loom-" + Math.random().toString(36).slice(2, 9);
  // Two views of one model hear each other's replies, so each counts in a range of its own.
  let n = Math.floor(Math.random() * 1e9) * 1000;
  let head = {};
  let headRev = 0;
  let stamp = 0;
  let synced = false; // a push seen before our own first reply does not contain what came before it
  let drawnFromMessage = false;
  let closed = ""; // what to do once the store is closed
  let lostFocus = null;
  let isParked = false; // the focus rests on the panel until the next question comes
  const asks = new Map();

  const ctx = {
    uid,
    isLive: () => pulse.state === "live",
    runId: () => head.run_id ?? "",
    say: (text) => void (voice.textContent = text),
    send(message) {
      n += 1;
      try {
        model.send({ ...message, n });
      } catch {
        // A closed comm throws in some front ends. The missing reply is noticed by the timers.
      }
      return n;
    },
  };

  const line = h("p", { class: "loom-line", role: "status" });
  const header = headerPiece(line);
  const warn = h("p", { class: "loom-warn", role: "status", hidden: true });
  const notice = h("p", { class: "loom-notice", hidden: true });
  const path = pathPiece();
  const stages = stagesPiece();
  const holdings = holdingsPiece();
  const answers = answering(ctx);
  const nested = new Set();
  const docs = docsPiece(answers, (runId, into) => {
    const close = render({ model: childModel(model, runId), el: into, isNested: true });
    nested.add(close);
    return () => (nested.delete(close), close());
  });
  const graph = graphPiece(ctx.send);
  const asksNode = h("div", { class: "loom-asks" });
  const progress = progressPiece(ctx);
  const result = resultPiece();
  const error = errorPiece();
  const log = logPiece();
  const actions = actionsPiece(ctx);
  const voice = h("div", { class: "loom-hidden", role: "status", "aria-live": "polite" });
  const root = h("section", { class: "loom-panel", "data-live": "connecting", tabindex: -1 },
    header.node, warn, notice, path.node, stages.node, graph.node, holdings.node, docs.node, asksNode, progress.node, result.node, error.node, log.node, actions.node, voice);
  const pulse = heartbeat({
    hello: () => ctx.send({ type: "hello", have: { stamp, log: log.end(), head: headRev } }),
    pace: () => (isNested || ENDED.has(head.status) ? HELLO_ENDED_MS : HELLO_MS),
    isBusy: () => isKernelBusy(model),
    changed: drawLiveness,
  });

  function drawLiveness() {
    const { state } = pulse;
    const focus = state === "live" ? null : focusWithin(root);
    root.dataset.live = state;
    setText(line, state === "closed" ? closed : livenessText(state, head.run_id, head.has_key ?? true));
    line.hidden = state === "live" || isNested; // the root says it once for all
    header.update(head, state === "closed");
    for (const piece of pieces()) piece.enable();
    progress.live(state === "live");
    actions.update(head);
    // Disabling a control takes its focus away; give it back when the kernel answers, if nobody moved on.
    if (focus) lostFocus = focus;
    else if (state === "live") {
      if (lostFocus) returnFocus(lostFocus, root);
      lostFocus = null;
      for (const piece of pieces()) piece.refocus();
    }
  }

  const pieces = () => [...asks.values(), ...answers.pieces()];

  function drawHead(next) {
    const before = head;
    const active = document.activeElement;
    const wasWaitingFocus = root.contains(active) && (active.matches(".loom-sent") || (isParked && active === root));
    head = next ?? {};
    setAttr(root, "aria-label", `Run: ${head.title || head.workflow || "run"}`);
    header.update(head, pulse.state === "closed");
    showText(notice, head.notice);
    const hasStages = head.stages?.length > 0; // they tell where the run is; the graph has the way it took
    path.update(hasStages ? [] : head.path ?? [], hasStages ? 0 : head.path_more ?? 0);
    stages.update(head.stages ?? []);
    holdings.update(head);
    graph.update(head);
    const inDocs = standDocs();
    const fresh = syncAsks((head.asks ?? []).filter((ask) => !ask.in_document && !ask.hidden)) ?? inDocs;
    // Keyboard users go straight on: from "Answer sent" to the next question, else to the panel, never to the page's top.
    if (wasWaitingFocus && (active === root || !root.contains(document.activeElement))) {
      isParked = !(fresh && ctx.isLive());
      (isParked ? root : fresh).focus();
    }
    progress.update(head.progress ?? null);
    result.update(head.result_html ?? "");
    error.update(head.error ?? null);
    log.status(head.status);
    actions.update(head, true);
    if (synced && (before.status !== head.status || fresh)) ctx.say(announcement(head));
  }

  function standDocs() {
    docs.hide(head.hidden_docs ?? []);
    return answers.stand(head.active_docs, head.notice);
  }

  function syncAsks(list) {
    const listed = new Set(list.map((ask) => ask.id));
    for (const [id, piece] of asks) if (!listed.has(id)) asks.delete(id), piece.remove();
    let fresh = null;
    list.forEach((ask, at) => {
      const def = JSON.stringify({ ...ask, enabled: null, disabled_reason: null });
      let piece = asks.get(ask.id);
      // An answer was accepted and the ask is still there: it asks again, with an empty form.
      if (!piece || piece.def !== def || piece.isSent()) {
        piece?.remove();
        piece = askPiece(ask, def, ctx);
        asks.set(ask.id, piece);
        fresh ??= piece;
      }
      piece.enable(ask);
      if (asksNode.children[at] !== piece.node) asksNode.insertBefore(piece.node, asksNode.children[at] ?? null);
    });
    if (ctx.isLive()) fresh?.refocus();
    return fresh;
  }

  function heard(message) {
    if (message?.run !== undefined && !isNested) return; // for the view of a sub-workflow
    if (message?.type === "graph") graph.draw(message.svg ?? "");
    if (message?.type === "state") onState(message);
    if (message?.type === "accepted") pieces().forEach((piece) => piece.accepted(message.n));
    if (message?.type === "refused") pieces().forEach((piece) => piece.refused(message));
  }

  /** A document that is replaced takes the focus of its "Answer sent" along: keep it on the panel. */
  function parkFocus() {
    const active = document.activeElement;
    if (!docs.node.contains(active) || !active.matches(".loom-sent")) return;
    isParked = true;
    root.focus({ preventScroll: true });
  }

  function onState(m) {
    const isOurs = pulse.isOurs(m.ack);
    if (isOurs) synced = true;
    if (m.docs?.length) {
      parkFocus();
      docs.upsert(m.docs);
      if (!m.head) standDocs();
    }
    if (synced && typeof m.stamp === "number") stamp = Math.max(stamp, m.stamp);
    const fits = typeof m.log === "string" ? log.place(m.log_from ?? log.end(), m.log, isOurs) : true;
    if (typeof m.warn === "string") showText(warn, m.warn);
    if (m.head) {
      drawnFromMessage = true;
      headRev = m.head_rev ?? headRev;
      drawHead(m.head);
    }
    if (m.closed) closed = m.closed;
    if (isOurs) pulse.ack(m.ack, Boolean(m.closed));
    if (!fits) pulse.beat(); // a piece of the log is missing: ask for it now
  }

  // The trait is what a new view, or a page opened from disk, has to start with. Messages are newer.
  const onTrait = () => void (drawnFromMessage || drawHead(model.get("head")));

  // A notebook draws the view anew when a run comes to rest, and the focus goes with the old one: hand it over to the new one.
  let isHeld = false;
  root.addEventListener("focusin", () => void (isHeld = true));
  root.addEventListener("focusout", (event) => {
    isHeld = !event.relatedTarget || root.contains(event.relatedTarget);
    setTimeout(() => void (isHeld && !root.isConnected && leave()));
  });
  const leave = () => keep(`loomnb:focus:${head.run_id}`, String(Date.now()));

  function takeOverFocus() {
    const left = isNested ? null : recall(`loomnb:focus:${head.run_id}`);
    if (!left || Date.now() - Number(left) > REFOCUS_MS || !isFree(document.activeElement, root)) return;
    if (root.contains(document.activeElement) && document.activeElement !== root) return;
    isParked = true;
    root.focus({ preventScroll: true });
  }

  function cleanup() {
    const at = document.activeElement;
    if (isHeld && (isFree(at, root) || root.contains(at))) leave();
    clearTimeout(late);
    pulse.stop();
    progress.stop();
    actions.stop();
    for (const piece of pieces()) piece.stop();
    for (const close of nested) close();
    model.off("msg:custom", heard);
    model.off("change:head", onTrait);
    signal?.removeEventListener?.("abort", cleanup);
    root.remove();
  }

  el.append(root);
  model.on("msg:custom", heard);
  model.on("change:head", onTrait);
  signal?.addEventListener?.("abort", cleanup);
  drawHead(model.get("head"));
  drawLiveness();
  takeOverFocus();
  const late = setTimeout(takeOverFocus, 400); // the old view may be taken away after the new one was made
  pulse.beat();
  return cleanup;
}

// ---- connection ------------------------------------------------------------------------------

export function heartbeat({ hello, pace, isBusy, changed }) {
  const timers = new Set();
  let next = 0;
  let first = Infinity;
  let last = 0;
  let acked = 0;
  const self = { state: "connecting", beat, ack, stop, isOurs: (n) => n >= first && n <= last };

  function become(state) {
    if (self.state === state) return;
    self.state = state;
    changed();
  }
  function beat() {
    clearTimeout(next);
    const n = hello();
    first = Math.min(first, n);
    last = n;
    const timer = setTimeout(() => {
      timers.delete(timer);
      if (acked < n) become(isBusy() ? "busy" : "gone");
    }, ACK_MS);
    timers.add(timer);
    next = setTimeout(beat, pace());
  }
  function ack(n, isClosed = false) {
    acked = Math.max(acked, n);
    become(isClosed ? "closed" : "live");
  }
  function stop() {
    clearTimeout(next);
    timers.forEach(clearTimeout);
  }
  return self;
}

export function isKernelBusy(model) {
  try {
    return model.widget_manager?.kernel?.status === "busy"; // JupyterLab only and undocumented: a hint, no more
  } catch {
    return false;
  }
}

function livenessText(state, runId, hasKey) {
  if (state === "busy") return "kernel busy: answers wait until the running cell ends";
  if (state === "gone") return `kernel gone: loom.run("${runId ?? ""}") or loom.pending() brings this back${hasKey ? "; so does running this cell again" : ""}`;
  return state === "connecting" ? "connecting…" : "";
}

function announcement(head) {
  if (head.asks?.length) return `waiting for your answer: ${head.asks.map((ask) => ask.label).join("; ")}`;
  if (head.status === "failed") return `failed: ${head.error?.message ?? ""}`;
  return head.status_text || head.status || "";
}

// ---- plain pieces ----------------------------------------------------------------------------

function headerPiece(line) {
  const title = h("h3", { class: "loom-title" });
  const chip = h("span", { class: "loom-chip" });
  const place = h("span", { class: "loom-place" });
  return {
    node: h("header", { class: "loom-header" }, title, chip, place, line),
    update(head, isClosed) {
      setText(title, head.title || head.workflow || "Run");
      setAttr(title, "title", [head.workflow, head.run_id].filter(Boolean).join(" · "));
      const isCut = isClosed && !ENDED.has(head.status); // how it stands will be known when the store is open again
      setText(chip, isCut ? "store closed" : head.status_text || head.status || "unknown");
      setAttr(chip, "data-status", isCut ? "" : head.status ?? "");
      setText(place, head.place ? `at ${head.place}` : "");
    },
  };
}

function pathPiece() {
  const node = h("ol", { class: "loom-path", "aria-label": "Path taken", hidden: true });
  let drawn = "";
  return {
    node,
    update(path, more) {
      const now = JSON.stringify([path, more]);
      if (now === drawn) return;
      drawn = now;
      node.hidden = path.length === 0;
      node.replaceChildren(
        ...(more > 0 ? [h("li", { class: "loom-more" }, h("span", { class: "loom-stop" }, `+${more} earlier`))] : []),
        ...path.map((stop, at) => {
          const isLast = at === path.length - 1;
          return h("li", { "aria-current": isLast && "step" },
            h("span", { class: "loom-stop", title: stop.name || null }, stop.place ?? ""));
        }));
    },
  };
}

function docsPiece(answers, openChild) {
  const node = h("div", { class: "loom-docs", role: "group", "aria-label": "Documents" });
  const byIndex = new Map();
  const order = []; // the indexes on show, ascending

  const message = messagesPiece();

  function docNode(doc) {
    if (doc.parts) return message(doc);
    const isMessage = doc.kind === "message";
    const by = isMessage ? doc.role || "message" : doc.title || (doc.kind === "error" ? "Error" : "");
    const attrs = { "data-role": isMessage ? doc.role : null, "data-index": doc.index };
    return h("article", { class: `loom-doc loom-doc-${doc.kind}`, ...attrs },
      by && h("div", { class: "loom-doc-by" }, by, isMessage && doc.title ? h("span", {}, ` · ${doc.title}`) : null),
      answers.body(doc));
  }
  function cardNode(doc) {
    const card = linkPiece(doc.link, openChild);
    return { node: h("article", { class: "loom-doc loom-doc-link", "data-index": doc.index }, card.node), card };
  }
  function put(doc) {
    const old = byIndex.get(doc.index);
    if (old && old.stamp >= doc.stamp) return; // replies to another view repeat what we have
    if (old?.card && doc.link) { // the child goes on: its panel stays as it is
      old.stamp = doc.stamp;
      old.card.update(doc.link);
      return;
    }
    old?.card?.stop();
    if (doc.gone) {
      answers.drop(doc.index);
      old?.node.remove();
      byIndex.delete(doc.index);
      const at = order.indexOf(doc.index);
      if (at >= 0) order.splice(at, 1);
      return;
    }
    const { node: made, card } = doc.link ? cardNode(doc) : { node: docNode(doc), card: null };
    if (old) old.node.replaceWith(made);
    else {
      let at = order.length;
      while (at > 0 && order[at - 1] > doc.index) at -= 1; // nearly always the end
      node.insertBefore(made, at < order.length ? byIndex.get(order[at]).node : null);
      order.splice(at, 0, doc.index);
    }
    byIndex.set(doc.index, { stamp: doc.stamp, node: made, card });
  }
  return {
    node,
    hide(indexes) {
      for (const [index, { node: one }] of byIndex) if (one.hidden !== indexes.includes(index)) one.hidden = !one.hidden;
    },
    upsert(list) {
      const stick = isAtEnd(node);
      list.forEach(put);
      // Many documents scroll in a frame of their own and skip layout while off screen (see the CSS).
      const isMany = order.length > MANY_DOCS;
      node.classList.toggle("loom-many", isMany);
      if (isMany) quiet(node).tabIndex = 0;
      if (isMany && stick) node.scrollTop = node.scrollHeight;
    },
  };
}

function progressPiece(ctx) {
  const text = h("span", { class: "loom-progress-text" });
  const time = h("span", { class: "loom-progress-time" });
  const fill = h("span", { class: "loom-fill" });
  const bar = h("div", { class: "loom-bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const above = h("div", { class: "loom-progress-line" }, text, time);
  const node = h("div", { class: "loom-progress", hidden: true }, above, bar);
  let now = null;
  let since = 0;
  let timer = 0;

  function tick() {
    const seconds = now ? (performance.now() - since) / 1000 : 0;
    node.hidden = !(now && seconds >= 1 && ctx.isLive()); // quick moves should not flash a bar
    setText(time, duration(seconds));
  }
  function schedule() {
    clearInterval(timer);
    timer = now && ctx.isLive() ? setInterval(tick, 250) : 0; // a dead panel must not go on counting
    tick();
  }
  return {
    node,
    stop: () => clearInterval(timer),
    live: schedule,
    update(progress) {
      now = progress;
      if (now) {
        since = performance.now() - (now.since ?? 0) * 1000;
        const part = typeof now.fraction === "number" ? Math.min(1, Math.max(0, now.fraction)) : null;
        setText(text, now.text || "Working");
        setAttr(bar, "aria-label", now.text || "Working");
        setAttr(bar, "aria-valuenow", part === null ? null : Math.round(part * 100));
        fill.style.width = part === null ? "" : `${part * 100}%`;
        bar.classList.toggle("loom-endless", part === null);
      }
      schedule();
    },
  };
}

function resultPiece() {
  const node = h("div", { class: "loom-result", hidden: true });
  let drawn = "";
  return {
    node,
    update(html) {
      if (html === drawn) return;
      drawn = html;
      node.hidden = !html;
      node.replaceChildren(...(html ? [h("div", { class: "loom-doc-by" }, "Result"), sanitised(html)] : []));
    },
  };
}

export function errorPiece() {
  const node = h("div", { class: "loom-error", hidden: true });
  let drawn = "null";
  return {
    node,
    update(error) {
      const now = JSON.stringify(error);
      if (now === drawn) return; // keeps the frames folded if the reader folded them
      drawn = now;
      node.hidden = !error;
      if (!error) return node.replaceChildren();
      node.replaceChildren(...[
        h("div", { class: "loom-error-title" }, error.title || "Error"),
        error.message && h("div", { class: "loom-error-message" }, error.message),
        error.advice && h("div", { class: "loom-advice" }, error.advice),
        error.frames && h("details", { open: true }, quiet(h("summary", {}, "Where in your code")),
          quiet(h("pre", { tabindex: 0, "aria-label": "Traceback" }, error.frames))),
      ].filter(Boolean));
    },
  };
}

// What the run printed. Offsets count Unicode code points, as Python's len() does.
function logPiece() {
  const count = h("span", { class: "loom-log-count" });
  const summary = quiet(h("summary", {}, "Log ", count));
  const pre = quiet(h("pre", { tabindex: 0, "aria-label": "Log of the run" }));
  const node = h("details", { class: "loom-log", hidden: true }, summary, pre);
  let raw = ""; // the kept end of the log as received, to answer "replace from there"
  let start = 0; // where `raw` begins
  let end = 0; // how much of the log this view has seen
  let open = ""; // the last, unfinished line
  let tail = null; // its text node
  let lines = 0;
  let isTouched = false; // once the reader opened or closed it, it is theirs
  let status = "";

  summary.addEventListener("click", () => void (isTouched = true));
  node.addEventListener("toggle", () => void (node.open && (pre.scrollTop = pre.scrollHeight)));

  function write(text) {
    const cut = text.lastIndexOf("\n") + 1;
    if (cut > 0) {
      const done = (open + text.slice(0, cut)).split("\n");
      lines += done.length - 1;
      tail.before(done.map(foldLine).join("\n"));
      open = "";
    }
    open = foldPast(open + text.slice(cut));
    tail.data = foldLine(open);
  }
  function rebuild() {
    if (raw.length > LOG_KEEP) {
      let from = raw.length - LOG_KEEP;
      from = raw.indexOf("\n", from) + 1 || from;
      if (isLowSurrogate(raw.charCodeAt(from))) from += 1;
      start += points(raw.slice(0, from));
      raw = raw.slice(from);
    }
    tail = document.createTextNode("");
    pre.replaceChildren(tail);
    if (start > 0) pre.prepend(h("div", { class: "loom-cut" }, "… earlier output is left out here"));
    lines = 0;
    open = "";
    write(raw);
  }
  return {
    node,
    end: () => end,
    /** False when text before `from` is missing. Only a reply to our own hello may leap: the kernel keeps an end too. */
    place(from, text, mayLeap) {
      if (from > end && !mayLeap) return false;
      const stick = isAtEnd(pre);
      if (from === end && tail && raw.length + text.length < LOG_KEEP + LOG_SLACK) {
        raw += text;
        end += points(text);
        write(text);
      } else {
        const keep = from <= start || from > end ? 0 : pointIndex(raw, from - start);
        if (from <= end && from >= start && raw.slice(keep) === text) return true; // meant for another view
        if (keep === 0) start = from;
        raw = raw.slice(0, keep) + text;
        end = from + points(text);
        rebuild();
      }
      setText(count, lines === 1 ? "1 line" : lines > 1 ? `${lines.toLocaleString("en")} lines` : "");
      this.status(status);
      if (stick) pre.scrollTop = pre.scrollHeight;
      return true;
    },
    status(next) {
      status = next ?? "";
      node.hidden = raw === "";
      if (isTouched || node.hidden) return;
      if (MOVING.has(status)) node.open = true;
      else if (status === "completed") node.open = false;
    },
  };
}

function actionsPiece(ctx) {
  const cancel = quiet(h("button", { type: "button", class: "loom-plain loom-cancel" }));
  const retry = quiet(h("button", { type: "button", class: "loom-main loom-retry" }));
  const restart = quiet(h("button", { type: "button", class: "loom-plain loom-restart" }));
  const node = h("div", { class: "loom-actions", role: "group", "aria-label": "Run" }, retry, restart, cancel);
  let head = {};
  let sent = ""; // "cancel", "retry" or "restart" while the kernel has not shown its effect
  let isArmed = false;
  let timer = 0;

  function draw() {
    const isDead = !ctx.isLive();
    node.hidden = !head.can_cancel && !head.can_retry && !head.can_restart;
    cancel.hidden = !head.can_cancel;
    retry.hidden = !head.can_retry;
    restart.hidden = !head.can_restart;
    setDisabled(cancel, isDead || sent !== "");
    setDisabled(retry, isDead || sent !== "");
    setDisabled(restart, isDead || sent !== "");
    cancel.classList.toggle("loom-danger", isArmed);
    setText(cancel, sent === "cancel" ? "Canceling…" : isArmed ? "Cancel run?" : "Cancel");
    setText(retry, sent === "retry" ? "Retrying…" : head.retry_text || "Retry");
    setText(restart, sent === "restart" ? "Starting anew…" : "Begin the step anew");
  }
  function until(ms) {
    clearTimeout(timer);
    timer = setTimeout(() => ((isArmed = false), (sent = ""), draw()), ms);
  }
  function send(type) {
    isArmed = false;
    sent = type;
    until(REPLY_MS);
    ctx.send({ type });
    draw();
  }
  cancel.addEventListener("click", (event) => {
    if (sent || event.detail > 1) return; // a double click is one intention, not two
    if (isArmed) return send("cancel");
    isArmed = true;
    until(ARMED_MS);
    ctx.say("Press again to cancel the run");
    draw();
  });
  retry.addEventListener("click", () => void (sent || send("retry")));
  restart.addEventListener("click", () => void (sent || send("restart")));
  return {
    node,
    stop: () => clearTimeout(timer),
    update(next, isNews = false) {
      head = next;
      if (isNews && sent) clearTimeout(timer), (sent = "");
      draw();
    },
  };
}
