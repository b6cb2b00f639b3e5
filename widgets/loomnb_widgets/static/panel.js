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

const HELLO_MS = 3000;
const HELLO_ENDED_MS = 10000; // a finished run can still be retried, so it must still know whether it is heard
const ACK_MS = 2500;
const REPLY_MS = 6000;
const ARMED_MS = 4000; // how long "Cancel run?" waits for its second click
const REFOCUS_MS = 3000; // a view drawn again within this time takes over the focus of the one it replaces
const LOG_KEEP = 200_000;
const LOG_SLACK = 40_000; // trim in large bites, not at every line
const MANY_DOCS = 200;
const MOST_RADIOS = 6; // questions; above this a list reads better
const MOST_CHOICE_RADIOS = 4; // fields of a form, which tend to be many
const ENDED = new Set(["completed", "failed", "canceled"]);
const MOVING = new Set(["pending", "running", "retrying"]);

export default { render };

function render({ model, el, signal }) {
  const uid = "loom-" + Math.random().toString(36).slice(2, 9);
  // Two views of one model hear each other's replies, so each counts in a range of its own.
  let n = Math.floor(Math.random() * 1e9) * 1000;
  let head = {};
  let headRev = 0;
  let stamp = 0;
  let synced = false; // a push seen before our own first reply does not contain what came before it
  let drawnFromMessage = false;
  let lostFocus = null;
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
  const docs = docsPiece();
  const asksNode = h("div", { class: "loom-asks" });
  const progress = progressPiece(ctx);
  const result = resultPiece();
  const error = errorPiece();
  const log = logPiece();
  const actions = actionsPiece(ctx);
  const voice = h("div", { class: "loom-hidden", role: "status", "aria-live": "polite" });
  const root = h("section", { class: "loom-panel", "data-live": "connecting", tabindex: -1 },
    header.node, warn, notice, path.node, docs.node, asksNode, progress.node, result.node, error.node, log.node, actions.node, voice);
  const pulse = heartbeat({
    hello: () => ctx.send({ type: "hello", have: { stamp, log: log.end(), head: headRev } }),
    pace: () => (ENDED.has(head.status) ? HELLO_ENDED_MS : HELLO_MS),
    isBusy: () => isKernelBusy(model),
    changed: drawLiveness,
  });

  function drawLiveness() {
    const { state } = pulse;
    const focus = state === "live" ? null : focusWithin(root);
    root.dataset.live = state;
    setText(line, livenessText(state, head.run_id));
    line.hidden = state === "live";
    header.update(head);
    for (const piece of asks.values()) piece.enable();
    progress.live(state === "live");
    actions.update(head);
    // Disabling a control takes its focus away; give it back when the kernel answers, if nobody moved on.
    if (focus) lostFocus = focus;
    else if (state === "live") {
      if (lostFocus) returnFocus(lostFocus, root);
      lostFocus = null;
      for (const piece of asks.values()) piece.refocus();
    }
  }

  function drawHead(next) {
    const before = head;
    head = next ?? {};
    setAttr(root, "aria-label", `Run: ${head.title || head.workflow || "run"}`);
    header.update(head);
    showText(notice, head.notice);
    path.update(head.path ?? [], head.path_more ?? 0);
    const fresh = syncAsks(head.asks ?? []);
    progress.update(head.progress ?? null);
    result.update(head.result_html ?? "");
    error.update(head.error ?? null);
    log.status(head.status);
    actions.update(head, true);
    if (synced && (before.status !== head.status || fresh)) ctx.say(announcement(head));
  }

  function syncAsks(list) {
    const wasWaitingFocus = asksNode.contains(document.activeElement) && document.activeElement.matches(".loom-sent");
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
    // Keyboard users go straight on: from "Answer sent" to the next question, else to the panel, never to the page's top.
    if (wasWaitingFocus && !asksNode.contains(document.activeElement)) (fresh && ctx.isLive() ? fresh : root).focus();
    return fresh;
  }

  function heard(message) {
    if (message?.type === "state") onState(message);
    if (message?.type === "accepted") asks.get(message.ask)?.accepted(message.n);
    if (message?.type === "refused") asks.get(message.ask)?.refused(message);
  }

  function onState(m) {
    const isOurs = pulse.isOurs(m.ack);
    if (isOurs) synced = true;
    if (m.docs?.length) docs.upsert(m.docs);
    if (synced && typeof m.stamp === "number") stamp = Math.max(stamp, m.stamp);
    const fits = typeof m.log === "string" ? log.place(m.log_from ?? log.end(), m.log, isOurs) : true;
    if (typeof m.warn === "string") showText(warn, m.warn);
    if (m.head) {
      drawnFromMessage = true;
      headRev = m.head_rev ?? headRev;
      drawHead(m.head);
    }
    if (isOurs) pulse.ack(m.ack);
    if (!fits) pulse.beat(); // a piece of the log is missing: ask for it now
  }

  // The trait is what a new view, or a page opened from disk, has to start with. Messages are newer.
  const onTrait = () => void (drawnFromMessage || drawHead(model.get("head")));

  function cleanup() {
    pulse.stop();
    progress.stop();
    actions.stop();
    for (const piece of asks.values()) piece.stop();
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
  pulse.beat();
  return cleanup;
}

// ---- connection ------------------------------------------------------------------------------

function heartbeat({ hello, pace, isBusy, changed }) {
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
  function ack(n) {
    acked = Math.max(acked, n);
    become("live");
  }
  function stop() {
    clearTimeout(next);
    timers.forEach(clearTimeout);
  }
  return self;
}

function isKernelBusy(model) {
  try {
    return model.widget_manager?.kernel?.status === "busy"; // JupyterLab only and undocumented: a hint, no more
  } catch {
    return false;
  }
}

function livenessText(state, runId) {
  if (state === "busy") return "kernel busy: answers wait until the running cell ends";
  if (state === "gone") return `kernel gone: loom.run("${runId ?? ""}") or loom.pending() brings this back`;
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
    update(head) {
      setText(title, head.title || head.workflow || "Run");
      setAttr(title, "title", [head.workflow, head.run_id].filter(Boolean).join(" · "));
      setText(chip, head.status_text || head.status || "unknown");
      setAttr(chip, "data-status", head.status ?? "");
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

function docsPiece() {
  const node = h("div", { class: "loom-docs", role: "group", "aria-label": "Documents" });
  const byIndex = new Map();
  const order = []; // the indexes on show, ascending

  function docNode(doc) {
    const isMessage = doc.kind === "message";
    const by = isMessage ? doc.role || "message" : doc.title || (doc.kind === "error" ? "Error" : "");
    const attrs = { "data-role": isMessage ? doc.role : null, "data-index": doc.index };
    return h("article", { class: `loom-doc loom-doc-${doc.kind}`, ...attrs },
      by && h("div", { class: "loom-doc-by" }, by, isMessage && doc.title ? h("span", {}, ` · ${doc.title}`) : null),
      sanitised(doc.html));
  }
  function put(doc) {
    const old = byIndex.get(doc.index);
    if (old && old.stamp >= doc.stamp) return; // replies to another view repeat what we have
    if (doc.gone) {
      old?.node.remove();
      byIndex.delete(doc.index);
      const at = order.indexOf(doc.index);
      if (at >= 0) order.splice(at, 1);
      return;
    }
    const made = docNode(doc);
    if (old) old.node.replaceWith(made);
    else {
      let at = order.length;
      while (at > 0 && order[at - 1] > doc.index) at -= 1; // nearly always the end
      node.insertBefore(made, at < order.length ? byIndex.get(order[at]).node : null);
      order.splice(at, 0, doc.index);
    }
    byIndex.set(doc.index, { stamp: doc.stamp, node: made });
  }
  return {
    node,
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

function errorPiece() {
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
  const node = h("div", { class: "loom-actions", role: "group", "aria-label": "Run" }, retry, cancel);
  let head = {};
  let sent = ""; // "cancel" or "retry" while the kernel has not shown its effect
  let isArmed = false;
  let timer = 0;

  function draw() {
    const isDead = !ctx.isLive();
    node.hidden = !head.can_cancel && !head.can_retry;
    cancel.hidden = !head.can_cancel;
    retry.hidden = !head.can_retry;
    setDisabled(cancel, isDead || sent !== "");
    setDisabled(retry, isDead || sent !== "");
    cancel.classList.toggle("loom-danger", isArmed);
    setText(cancel, sent === "cancel" ? "Canceling…" : isArmed ? "Cancel run?" : "Cancel");
    setText(retry, sent === "retry" ? "Retrying…" : head.retry_text || "Retry");
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

// ---- asks ------------------------------------------------------------------------------------

function askPiece(ask, def, ctx) {
  const id = `${ctx.uid}-${hash(ask.id)}`;
  const controls = controlsOf(ask, id);
  const buttons = buttonsOf(ask);
  const alert = h("div", { class: "loom-alert", role: "alert", hidden: true });
  const reason = h("p", { class: "loom-reason", hidden: true });
  const foot = h("div", { class: "loom-foot" }, ...buttons);
  const box = h("fieldset", { class: "loom-box", "aria-labelledby": `${id}-h` },
    ask.kind !== "button" && h("h4", { class: "loom-ask-label", id: `${id}-h` }, ask.label ?? ""),
    sanitised(ask.description_html, "loom-about"), sanitised(ask.context_html, "loom-context"),
    ...controls.map((control) => control.node), alert, reason, foot);
  const form = h("form", { class: `loom-ask loom-ask-${ask.kind}`, novalidate: true, autocomplete: "off",
    "aria-label": ask.label ?? "", "data-ask": ask.id }, box);
  const draft = draftOf(ctx.runId(), ask.id);
  let inFlight = null; // the pressed button while a submit is on its way
  let lastN = null;
  let isSent = false;
  let isTouched = false;
  let timer = 0;
  let state = ask;
  let focus = null;

  // A single short answer reads best as one line: the field and its button.
  const only = ask.kind === "form" && controls.length === 1 && controls[0].row;
  if (only) only.append(foot.firstChild), foot.remove();
  else if (form.querySelector("textarea")) foot.append(h("span", { class: "loom-hint" }, `${commandKey()}+Enter sends`));

  const piece = {
    node: form, def, accepted, refused, enable, stop,
    isSent: () => isSent,
    remove: () => (clearTimeout(timer), piece.node.remove()),
    focus: () => (controls[0] ?? { focus: () => buttons[0].focus() }).focus(),
    refocus() {
      if (!focus) return;
      returnFocus({ node: form.querySelector(`[data-key="${CSS.escape(focus.key)}"]`), caret: focus.caret }, form);
      focus = null;
    },
  };

  function submit(pressed, values) {
    if (inFlight || isSent || !ctx.isLive() || state.enabled === false) return;
    controls.forEach((control) => control.fail(""));
    showText(alert, "");
    const missing = controls.filter((control) => control.isMissing?.());
    if (missing.length) {
      missing.forEach((control) => control.fail("Please answer this question."));
      showText(alert, "An answer is missing.");
      return missing[0].focus();
    }
    inFlight = pressed;
    drawButtons();
    timer = setTimeout(() => settle("The kernel did not answer. Your text is kept: try again."), REPLY_MS);
    lastN = ctx.send({ type: "answer", ask: ask.id, values: values() });
  }
  function drawButtons() {
    for (const button of buttons) {
      setDisabled(button, inFlight !== null);
      setText(button, button === inFlight ? "Sending…" : button.dataset.text);
    }
  }
  function settle(trouble) {
    clearTimeout(timer);
    const pressed = inFlight;
    inFlight = null;
    drawButtons();
    showText(alert, trouble);
    if (pressed && isFree(document.activeElement, form)) pressed.focus();
  }
  function accepted(n) {
    if (n !== lastN) return; // another view's answer; the next state takes this form away
    clearTimeout(timer);
    const hadFocus = form.contains(document.activeElement) || (inFlight && isFree(document.activeElement, form));
    isSent = true;
    draft.clear();
    piece.node = h("p", { class: "loom-sent", tabindex: -1, role: "status" }, "Answer sent");
    form.replaceWith(piece.node);
    if (hadFocus) piece.node.focus({ preventScroll: true });
  }
  function refused({ n, message, advice, fields = {} }) {
    if (n !== lastN) return;
    const known = controls.filter((control) => fields[control.key]);
    const rest = Object.entries(fields)
      .filter(([key]) => !known.some((control) => control.key === key))
      .map(([key, text]) => (key ? `${key}: ${text}` : text));
    settle([message, advice, ...rest.filter((text) => text !== message)].filter(Boolean).join(" "));
    known.forEach((control) => control.fail(fields[control.key]));
    known[0]?.focus();
  }
  function enable(next) {
    state = next ?? state;
    const isOff = !ctx.isLive() || state.enabled === false;
    box.disabled = isOff;
    setAttr(form, "aria-disabled", isOff ? "true" : null);
    showText(reason, state.enabled === false ? state.disabled_reason || "This cannot be answered now." : "");
    form.querySelectorAll("textarea").forEach(grow);
  }
  function stop() {
    clearTimeout(timer);
    if (isTouched && !isSent) draft.save(form, true);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault(); // never leaves the page
    if (ask.kind !== "confirm") submit(buttons[0], () => valuesOf(ask, controls));
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    if (event.target.matches("textarea") && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    } else if (ask.kind === "confirm" && event.target.matches("input")) {
      // A reason is as likely a "no" as a "yes": Enter leads to the choice, it does not make it.
      event.preventDefault();
      buttons[0].focus();
    }
  });
  if (ask.kind === "confirm") {
    buttons.forEach((button, at) => button.addEventListener("click", () => submit(button, () => {
      const feedback = controls[0].read();
      return { isConfirmed: at === 0, ...(feedback ? { feedback } : {}) };
    })));
  }
  for (const kind of ["input", "change", "focusin", "focusout", "keyup", "pointerup"]) {
    form.addEventListener(kind, (event) => {
      if (kind === "input" && event.target.matches("textarea")) grow(event.target);
      isTouched = true;
      if (!isSent) draft.save(form, kind === "focusout");
    });
  }
  focus = draft.restore(form);
  controls.forEach((control) => control.sync?.());
  return piece;
}

function controlsOf(ask, id) {
  const { fields = [], questions = [] } = ask;
  if (ask.kind === "form") return fields.map((field, at) => fieldControl(field, `${id}-${at}`, fields.length === 1));
  if (ask.kind === "questions") return questions.map((question, at) => questionControl(question, `${id}-${at}`));
  if (ask.kind === "confirm") return [boxField({ name: "feedback", label: "Feedback (optional)", kind: "text" }, `${id}-f`)];
  return [];
}

function valuesOf(ask, controls) {
  if (ask.kind === "questions") return controls.map((control) => control.read());
  return Object.fromEntries(controls.map((control) => [control.key, control.read()]));
}

function buttonsOf(ask) {
  const button = (text, cls, type) => quiet(h("button", { type, class: cls, "data-text": text }, text));
  if (ask.kind === "confirm") return [button("Confirm", "loom-main", "button"), button("Decline", "loom-plain", "button")];
  return [button(ask.kind === "button" ? ask.label || "Go on" : ask.submit || "Submit", "loom-main", "submit")];
}

// ---- controls: { key, node, read(), fail(text), focus() } --------------------------------------

function fieldControl(field, id, isOnly) {
  const few = (field.choices ?? []).length <= MOST_CHOICE_RADIOS;
  if (field.kind === "boolean" && !field.nullable && (field.required || hasDefault(field))) return tickField(field, id);
  if (field.kind === "choice" && field.required && few) return radioField(field, id);
  return boxField(field, id, isOnly);
}

const hasDefault = (field) => field.default !== undefined && field.default !== null;

const isNeeded = (field) => Boolean(field.required && !field.nullable);

const nameOf = (field) => field.label || field.name;

/** What an empty field is sent as. The kernel is the one judge of what a needed field may hold. */
const blankOf = (field) => (isNeeded(field) ? "" : null);

function attrsOf(field, id, key = "") {
  return { name: id, "data-key": `f:${field.name}${key}`, "aria-required": isNeeded(field) ? "true" : null };
}

function tickField(field, id) {
  const box = quiet(h("input", { ...attrsOf(field, id), id, type: "checkbox", "aria-required": null }));
  box.checked = field.default === true;
  const node = h("div", { class: "loom-field" }, option(box, nameOf(field)));
  return shell(field, id, { node, inputs: [box], read: () => box.checked });
}

function radioField(field, id) {
  const choices = field.choices ?? [];
  const radios = choices.map((choice, at) => {
    const radio = quiet(h("input", { ...attrsOf(field, id, `:${choice.value}`), id: `${id}-${at}`, type: "radio" }));
    radio.checked = hasDefault(field) && choice.value === field.default;
    return radio;
  });
  const node = h("fieldset", { class: "loom-field" },
    h("legend", {}, nameOf(field), mark(field.required)),
    ...radios.map((radio, at) => option(radio, choices[at].label)));
  const read = () => choices[radios.findIndex((radio) => radio.checked)]?.value ?? blankOf(field);
  return shell(field, id, { node, inputs: radios, read });
}

function boxField(field, id, isOnly) {
  const isList = field.kind === "choice" || field.kind === "boolean";
  const { input, read } = isList ? listBox(field, id) : textBox(field, id);
  const row = h("div", { class: "loom-row" }, input);
  const label = h("label", { for: id }, nameOf(field), mark(isNeeded(field)));
  const control = shell(field, id, { node: h("div", { class: "loom-field" }, label, row), inputs: [input], read });
  return isOnly && field.kind === "text" && !field.multiline ? { ...control, row } : control;
}

function listBox(field, id) {
  const yesNo = [{ value: true, label: "Yes" }, { value: false, label: "No" }];
  const entries = field.kind === "choice" ? field.choices ?? [] : yesNo;
  const hasBlank = !isNeeded(field) || !hasDefault(field);
  const input = quiet(h("select", { ...attrsOf(field, id), id },
    hasBlank && h("option", { value: "" }, "–"),
    ...entries.map((entry, at) =>
      h("option", { value: at, selected: hasDefault(field) && entry.value === field.default }, entry.label))));
  return { input, read: () => (input.value === "" ? blankOf(field) : entries[Number(input.value)].value) };
}

function textBox(field, id) {
  const isLong = field.multiline || field.kind === "json";
  // Numbers are text too: type=number hides what was typed when it is not a number, and the kernel must see it.
  const input = h(isLong ? "textarea" : "input", {
    ...attrsOf(field, id), id, ...(isLong ? { rows: 2 } : { type: "text" }),
    spellcheck: field.kind === "text" ? null : "false",
    inputmode: { integer: "numeric", number: "decimal" }[field.kind],
    class: field.kind === "json" ? "loom-code" : null,
  });
  const initial = hasDefault(field) ? field.default : "";
  input.value = typeof initial === "string" ? initial : JSON.stringify(initial, null, 2);
  return { input, read: () => (input.value === "" ? blankOf(field) : input.value) };
}

function questionControl(question, id) {
  const options = question.options ?? [];
  const kind = options.length === 0 ? freeAnswer : options.length <= MOST_RADIOS ? radioAnswer : listAnswer;
  const inner = h("fieldset", { class: "loom-inner" });
  const { inputs, answer, redraw } = kind(question, id, inner);
  const skip = question.skippable
    ? quiet(h("input", { id: `${id}-k`, name: `${id}-k`, type: "checkbox", "data-key": `q:${question.id}:skip` }))
    : null;
  const isEmpty = () => answer().trim() === "";
  const sync = () => {
    redraw?.();
    inner.disabled = Boolean(skip?.checked);
  };
  const control = shell({ name: question.id }, id, {
    node: h("fieldset", { class: "loom-field loom-question" },
      h("legend", { id: `${id}-l` }, question.question, mark(!question.skippable)),
      sanitised(question.description_html, "loom-about"), inner,
      skip && option(skip, "Skip this question", "loom-skip")),
    inputs,
    read: () =>
      skip && (skip.checked || isEmpty())
        ? { questionId: question.id, isSkipped: true }
        : { questionId: question.id, isSkipped: false, answer: answer() },
  });
  skip?.addEventListener("change", () => (control.fail(""), sync()));
  return { ...control, sync, isMissing: () => !skip && isEmpty() };
}

function freeAnswer(question, id, inner) {
  const key = `q:${question.id}:text`;
  const area = h("textarea", { id: `${id}-t`, name: id, rows: 1, "data-key": key, "aria-labelledby": `${id}-l` });
  inner.append(area);
  return { inputs: [area], answer: () => area.value };
}

function radioAnswer(question, id, inner) {
  const { options } = question;
  const other = otherBox(question, id);
  const radioOf = (at, key) =>
    quiet(h("input", { id: `${id}-${at}`, name: id, type: "radio", "data-key": `q:${question.id}:${key}` }));
  const radios = options.map((one, at) => radioOf(at, `o:${one.id}`));
  const last = radioOf("x", "x");
  options.forEach((one, at) => {
    const about = sanitised(one.description_html, "loom-about");
    if (about) about.id = `${id}-${at}-d`;
    setAttr(radios[at], "aria-describedby", about?.id);
    const label = h("label", { for: radios[at].id }, one.label);
    inner.append(h("div", { class: "loom-option" }, radios[at], h("div", {}, label, about)));
  });
  const otherRow = option(last, "Other", "loom-other");
  otherRow.append(other);
  inner.append(otherRow);
  other.addEventListener("input", () => void (other.value && (last.checked = true)));
  last.addEventListener("change", () => other.focus());
  const answer = () => (last.checked ? other.value : options[radios.findIndex((one) => one.checked)]?.label ?? "");
  return { inputs: [...radios, last], answer };
}

function listAnswer(question, id, inner) {
  const { options } = question;
  const other = otherBox(question, id);
  const about = h("div", { id: `${id}-d` });
  const aria = { "aria-labelledby": `${id}-l`, "aria-describedby": about.id };
  const list = quiet(h("select", { id: `${id}-s`, name: id, "data-key": `q:${question.id}:list`, ...aria },
    h("option", { value: "" }, "Choose…"),
    ...options.map((one, at) => h("option", { value: at }, one.label)),
    h("option", { value: "x" }, "Other")));
  const chosen = () => options[Number(list.value || NaN)];
  const redraw = () => about.replaceChildren(...[sanitised(chosen()?.description_html, "loom-about")].filter(Boolean));
  list.addEventListener("change", () => {
    redraw();
    if (list.value === "x") other.focus();
  });
  other.addEventListener("input", () => {
    if (other.value) list.value = "x";
    redraw();
  });
  inner.append(h("div", { class: "loom-row" }, list, other), about);
  return { inputs: [list], answer: () => (list.value === "x" ? other.value : chosen()?.label ?? ""), redraw };
}

const otherBox = (question, id) =>
  h("input", { id: `${id}-o`, name: `${id}-o`, type: "text", "data-key": `q:${question.id}:other`,
    "aria-label": "Other answer", placeholder: "Other answer" });

const option = (input, label, cls = "") =>
  h("div", { class: `loom-option ${cls}` }, input, h("label", { for: input.id }, label));

/** What every control has around it: help, an error line tied to its inputs, and the way to the first of them. */
function shell(field, id, { node, inputs, read }) {
  const limit = limits(field);
  const hint = [sanitised(field.help_html), limit && h("div", {}, limit)].filter(Boolean);
  const help = hint.length ? h("div", { class: "loom-about", id: `${id}-help` }, ...hint) : null;
  const error = h("div", { class: "loom-field-error", id: `${id}-err`, hidden: true });
  const described = inputs.map((input) => [input.getAttribute("aria-describedby"), help?.id].filter(Boolean));
  if (help) node.append(help);
  node.insertBefore(error, node.querySelector(".loom-skip"));
  const fail = (text) => {
    showText(error, text);
    inputs.forEach((input, at) => {
      setAttr(input, "aria-invalid", text ? "true" : null);
      setAttr(input, "aria-describedby", [...described[at], ...(text ? [error.id] : [])].join(" "));
    });
  };
  fail("");
  const focus = () => (inputs.find((input) => input.checked) ?? inputs[0])?.focus();
  return { key: field.name, node, read, fail, focus };
}

const mark = (isRequired) => (isRequired ? h("span", { class: "loom-req" }, " required") : null);

function limits({ minimum: low, maximum: high, max_length: most }) {
  const has = (value) => value !== undefined && value !== null;
  if (has(low) && has(high)) return `${low} to ${high}`;
  if (has(low)) return `at least ${low}`;
  if (has(high)) return `at most ${high}`;
  return has(most) ? `at most ${most} characters` : "";
}

// ---- drafts ----------------------------------------------------------------------------------

// Running a cell again, or scrolling far away, replaces the view. What was typed must outlive it (not the tab).
function draftOf(runId, askId) {
  const key = `loomnb:draft:${runId}:${askId}`;
  let focus = null;
  const storage = (use) => {
    try {
      return use(window.sessionStorage);
    } catch {
      return null; // blocked, full or absent: drafts are a courtesy
    }
  };
  return {
    save(form, isLeaving = false) {
      const at = document.activeElement;
      if (form.contains(at) && at.dataset.key) focus = { key: at.dataset.key, caret: caretOf(at), at: Date.now() };
      else if (isLeaving && focus && !focus.isLeft) Object.assign(focus, { at: Date.now(), isLeft: true });
      const values = {};
      for (const input of form.querySelectorAll("[data-key]"))
        values[input.dataset.key] = isTick(input) ? input.checked : input.value;
      storage((store) => store.setItem(key, JSON.stringify({ values, focus })));
    },
    restore(form) {
      const draft = storage((store) => JSON.parse(store.getItem(key)));
      if (!draft?.values) return null;
      for (const input of form.querySelectorAll("[data-key]")) {
        const value = draft.values[input.dataset.key];
        if (isTick(input) && typeof value === "boolean") input.checked = value;
        else if (typeof value === "string" && !isTick(input)) input.value = value;
      }
      return draft.focus && Date.now() - draft.focus.at < REFOCUS_MS ? draft.focus : null;
    },
    clear: () => storage((store) => store.removeItem(key)),
  };
}

// ---- focus -----------------------------------------------------------------------------------

/** True when nothing in particular has the focus: taking it would not pull a person away from anything. */
const isFree = (active, node) => !active || active.contains(node);

const isTick = (input) => input.type === "checkbox" || input.type === "radio";

function caretOf(input) {
  return typeof input.selectionStart === "number" && !isTick(input) ? [input.selectionStart, input.selectionEnd] : null;
}

function focusWithin(root) {
  const node = document.activeElement;
  return node && node !== root && root.contains(node) ? { node, caret: caretOf(node) } : null;
}

function returnFocus({ node, caret }, root) {
  if (!node?.isConnected || !isFree(document.activeElement, root)) return;
  node.focus({ preventScroll: true });
  if (caret && document.activeElement === node) node.setSelectionRange(...caret);
}

// ---- small things ----------------------------------------------------------------------------

/** An element. Strings become text nodes, so nothing given here can be markup. */
function h(tag, attrs, ...kids) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...kids.filter((kid) => kid !== null && kid !== undefined && kid !== false && kid !== ""));
  return node;
}

/** The only place where a string is parsed as HTML: fields the kernel has already sanitised. */
function sanitised(html, cls = "") {
  if (!html) return null;
  const node = h("div", { class: `loom-html ${cls}` });
  node.innerHTML = html;
  for (const link of node.querySelectorAll("a[href]")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  node.querySelectorAll("a, summary").forEach(quiet);
  return node;
}

/** JupyterLab's one-key commands also fire from buttons, boxes and lists inside an output (an arrow key on a radio
 *  moves to the next cell); only text inputs are exempt. The attribute must be on the focused element itself. */
function quiet(node) {
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function showText(node, text) {
  setText(node, text ?? "");
  node.hidden = !text;
}

/** Nothing to say removes the attribute; a mutation that changes nothing is not made (screen readers hear them). */
function setAttr(node, name, value) {
  if (value === null || value === undefined || value === "") node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

function setDisabled(button, isOff) {
  button.disabled = isOff;
  setAttr(button, "aria-disabled", isOff ? "true" : null);
}

function grow(area) {
  if (CSS.supports("field-sizing", "content")) return; // the CSS does it
  area.style.height = "auto";
  if (area.scrollHeight) area.style.height = `${area.scrollHeight + 2}px`;
}

const isAtEnd = (node) => node.scrollHeight - node.scrollTop - node.clientHeight < 12;

const commandKey = () => (/Mac|iPhone|iPad/.test(navigator.platform ?? "") ? "⌘" : "Ctrl");

function duration(seconds) {
  const whole = Math.floor(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** Ids may hold any character, an id attribute referred to by aria may not hold spaces. */
function hash(text) {
  return [...String(text)].reduce((sum, char) => (Math.imul(sum, 31) + char.codePointAt(0)) >>> 0, 7).toString(36);
}

/** A terminal's "\r": what was written after it covers the line. A last "\r" covers nothing yet. */
function foldPast(line) {
  let stop = line.length;
  while (stop > 0 && line[stop - 1] === "\r") stop -= 1;
  return stop > 0 ? line.slice(line.lastIndexOf("\r", stop - 1) + 1) : line;
}

// Colours of a terminal would show as noise here.
const foldLine = (line) => foldPast(line).replace(/\r+$/, "").replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "");

const isLowSurrogate = (code) => code >= 0xdc00 && code <= 0xdfff;

function points(text) {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) if (isLowSurrogate(text.charCodeAt(at))) count -= 1;
  return count;
}

function pointIndex(text, count) {
  let at = 0;
  for (let left = count; left > 0 && at < text.length; left -= 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}
