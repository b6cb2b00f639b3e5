// Asks: a form for each open question, and for each document that takes an answer.

import {
  REPLY_MS, commandKey, draftOf, duration, grow, h, hash, isFree, quiet, returnFocus, sanitised, setAttr, setDisabled,
  setText, showText,
} from "./base.js";
import { areTwo, boxField, fieldControl, mark, option, shell } from "./fields.js";

const MOST_RADIOS = 6; // questions; above this a list reads better

// ---- asks ------------------------------------------------------------------------------------

export function askPiece(ask, def, ctx) {
  const id = `${ctx.uid}-${hash(ask.id)}`;
  const controls = controlsOf(ask, id, ctx.say);
  const buttons = buttonsOf(ask);
  const alert = h("div", { class: "loom-alert", role: "alert", hidden: true });
  const reason = h("p", { class: "loom-reason", hidden: true });
  const foot = h("div", { class: "loom-foot" }, ...buttons);
  const clock = expiryPiece(ask.expires);
  if (clock) foot.append(clock.node);
  const hasHeading = ask.kind !== "button" && ask.widget !== "prompt-input" && Boolean(ask.label) && !ask.untitled;
  const box = h("fieldset", { class: "loom-box", "aria-labelledby": hasHeading && `${id}-h`, "aria-label": !hasHeading && ask.label },
    hasHeading && h("h4", { class: "loom-ask-label", id: `${id}-h` }, ask.label),
    sanitised(ask.description_html, "loom-about"), sanitised(ask.context_html, "loom-context"), sanitised(ask.input_html, "loom-given"),
    h("div", { class: `loom-fields ${ask.kind === "form" && areTwo(ask.fields ?? []) ? "loom-two" : ""}` },
      ...controls.map((control) => control.node)),
    alert, reason, foot);
  const form = quiet(h("form", { class: `loom-ask loom-ask-${ask.kind} ${ask.widget ? `loom-ask-${ask.widget}` : ""}`, novalidate: true, autocomplete: "off",
    "aria-label": ask.label ?? "", "data-ask": ask.id, tabindex: -1 }, box));
  const draft = draftOf(ctx.runId(), ask.id);
  let inFlight = null; // the pressed button while a submit is on its way
  let lastN = null;
  let isSent = false;
  let isTouched = false;
  let timer = 0;
  let state = ask;
  let focus = null;

  // A single short answer reads best as one line: the field and its button.
  const only = ask.kind === "form" && buttons.length === 1 && controls.length === 1 && controls[0].row;
  if (only) only.append(foot.firstChild), foot.remove();
  else if (form.querySelector("textarea")) foot.append(h("span", { class: "loom-hint" }, `${commandKey()}+Enter ${ask.kind === "approval" ? "goes to the buttons" : "sends"}`));

  const piece = {
    node: form, def, accepted, refused, enable, stop,
    isSent: () => isSent,
    remove: () => (clearTimeout(timer), clock?.stop(), piece.node.remove()),
    focus: () => (controls[0] ?? { focus: () => buttons[0].focus() }).focus(),
    /** Where a person is led who did not ask for it: never onto the button that says yes. */
    greet: () => (controls[0] ?? (ask.kind === "approval" ? form : buttons[0])).focus(),
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
    if (ask.widget === "prompt-input" && controls[0].read() === "") return controls[0].focus(); // nothing said, nothing sent
    const isNo = pressed.dataset.no !== undefined; // who declines need not fill anything in
    const missing = isNo ? [] : controls.filter((control) => control.isMissing?.());
    if (missing.length) {
      missing.forEach((control) => control.fail("Please answer this question."));
      showText(alert, "An answer is missing.");
      return missing[0].focus();
    }
    const wrong = isNo ? [] : controls.flatMap((control) => control.check?.() ?? []);
    if (wrong.length) {
      wrong.forEach(([control, text]) => show(control, text));
      showText(alert, wrong.length === 1 ? "One field needs a look." : `${wrong.length} fields need a look.`);
      return wrong[0][0].focus();
    }
    inFlight = pressed;
    drawButtons();
    timer = setTimeout(() => settle("The kernel did not answer. Your text is kept: try again."), REPLY_MS);
    const to = ask.doc === undefined ? { ask: ask.id } : { ask: ask.open[pressed.dataset.transition], doc: ask.doc };
    lastN = ctx.send({ type: "answer", ...to, values: values() });
  }
  /** An error where it can be seen: folds above it open. */
  function show(control, text) {
    for (let up = control.node; up && up !== form; up = up.parentElement) if (up.matches("details")) up.open = true;
    control.fail(text);
  }
  function drawButtons() {
    for (const button of buttons) {
      setDisabled(button, inFlight !== null || isDead(button));
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
    const known = [];
    const rest = [];
    for (const [key, text] of Object.entries(fields)) {
      const top = controls.find((control) => key === control.key || key.startsWith(`${control.key}.`));
      const control = top && (top.at?.(key) ?? top);
      if (!control || control.node.hidden) rest.push(key ? `${key}: ${text}` : text);
      else known.push([control, key === control.key ? text : `${key.slice(control.key.length + 1)}: ${text}`]);
    }
    settle([message, advice, ...rest.filter((text) => text !== message)].filter(Boolean).join(" "));
    known.forEach(([control, text]) => show(control, text));
    known[0]?.[0].focus();
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
    clock?.stop();
    if (isTouched && !isSent) draft.save(form, true);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault(); // never leaves the page
    const pressed = ask.doc === undefined ? buttons[0] : buttons.find((button) => button === event.submitter && !isDead(button));
    if (pressed && ask.kind !== "confirm") submit(pressed, () => valuesOf(ask, controls, pressed));
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    const isLong = event.target.matches("textarea");
    if (ask.kind === "approval" && (!isLong || event.ctrlKey || event.metaKey) && event.target.matches("input, textarea")) {
      event.preventDefault(); // as below: it leads to the choice
      buttons[0].focus();
    } else if (isLong && (event.ctrlKey || event.metaKey || (ask.widget === "prompt-input" && !event.shiftKey))) {
      event.preventDefault();
      form.requestSubmit(buttons.find((button) => !button.disabled));
    } else if (ask.kind === "confirm" && event.target.matches("input")) {
      // A reason is as likely a "no" as a "yes": Enter leads to the choice, it does not make it.
      event.preventDefault();
      buttons[0].focus();
    } else if (event.target.matches("input")) {
      // What a browser does by itself; inside a notebook JupyterLab keeps it from doing so.
      event.preventDefault();
      form.requestSubmit(buttons.find((button) => !button.disabled));
    }
  });
  if (ask.kind === "confirm") {
    buttons.forEach((button, at) => button.addEventListener("click", () => submit(button, () => {
      const feedback = controls[0].read();
      return { isConfirmed: at === 0, ...(feedback ? { feedback } : {}) };
    })));
  }
  buttons.filter((button) => button.dataset.no !== undefined).forEach((button) => button.addEventListener("click", () =>
    submit(button, () => (ask.kind === "elicitation" ? { skipped: true } : decision(controls, false)))));
  for (const kind of ["input", "change", "focusin", "focusout", "keyup", "pointerup"]) {
    form.addEventListener(kind, (event) => {
      if (kind === "input" && event.target.matches("textarea")) grow(event.target);
      isTouched = true;
      if (!isSent) draft.save(form, kind === "focusout");
    });
  }
  focus = draft.restore(form);
  controls.forEach((control) => control.sync?.());
  drawButtons();
  return piece;
}

function controlsOf(ask, id, say) {
  const { fields = [], questions = [] } = ask;
  if (ask.kind === "form") return fields.map((field, at) => fieldControl(field, { id: `${id}-${at}`, isOnly: fields.length === 1, say }));
  if (ask.kind === "questions") return questions.map((question, at) => questionControl(question, `${id}-${at}`));
  if (ask.kind === "elicitation") return fields.map((field, at) => fieldControl(field, { id: `${id}-${at}`, isOnly: false, say }));
  if (ask.kind === "approval") return approvalControls(ask, id, say);
  if (ask.kind !== "confirm") return [];
  const field = { name: "feedback", label: "Feedback (optional)", kind: "text" };
  return [boxField(field, { id: `${id}-f`, path: field.name })];
}

/** The arguments as they would be used, whether to ask again, and what to say with a no. */
function approvalControls(ask, id, say) {
  const given = ask.fields.map((field, at) => fieldControl(field, { id: `${id}-${at}`, path: ask.raw ? "input" : `input.${field.name}`, say }));
  const remember = { name: "remember", label: `Do not ask again for this tool (${ask.tool}) in this conversation, whatever its arguments`, kind: "boolean", required: true, default: false };
  const reason = { name: "reason", label: "Reason, if you reject it (the agent is told)", kind: "text" };
  return [...given, ...(ask.remember ? [fieldControl(remember, { id: `${id}-k`, say })] : []),
    ...(ask.has_reason ? [boxField(reason, { id: `${id}-r`, path: "reason" })] : [])];
}

function decision(controls, approved) {
  const out = { approved };
  for (const control of controls) {
    if (control.key.startsWith("input.")) (out.input ??= {})[control.key.slice(6)] = control.read();
    else out[control.key] = control.read();
  }
  return out;
}

/** How long an answer is still taken. The kernel is the one who ends it. */
function expiryPiece(until) {
  if (!until) return null;
  const node = h("span", { class: "loom-hint loom-expiry", role: "timer" });
  const draw = () => {
    const left = Math.ceil(until - Date.now() / 1000);
    node.classList.toggle("loom-soon", left < 30);
    setText(node, left > 0 ? `expires in ${duration(left)}` : "expired");
  };
  const timer = setInterval(draw, 1000);
  draw();
  return { node, stop: () => clearInterval(timer) };
}

function valuesOf(ask, controls, pressed) {
  if (ask.kind === "approval") return decision(controls, true);
  if (pressed.dataset.value) return { answer: pressed.dataset.value };
  if (ask.kind === "questions") return ask.doc === undefined ? controls.map((control) => control.read()) : { answer: controls[0].read().answer };
  return Object.fromEntries(controls.map((control) => [control.key, control.read()]));
}

function buttonsOf(ask) {
  const button = (text, cls, type, more = {}) => quiet(h("button", { type, class: cls, "data-text": text, "data-key": `b:${text}`, ...more }, text));
  if (ask.actions) {
    return ask.actions.map((one, at) => button(one.label, lookOf(one, at), "submit", {
      "data-transition": one.transition, "data-value": one.value, "data-dead": !(one.transition in (ask.open ?? {})) || one.disabled }));
  }
  if (ask.kind === "approval" || ask.kind === "elicitation") {
    const look = ask.tone === "destructive" ? "loom-plain loom-danger" : "loom-main";
    return [button(ask.submit, look, "submit"), button(ask.reject, "loom-plain", "button", { "data-no": true })];
  }
  if (ask.kind === "confirm") return [button("Confirm", "loom-main", "button"), button("Decline", "loom-plain", "button")];
  const look = { label: ask.submit, variant: ask.variant, type: ask.wide ? "button-full-w" : ask.widget };
  return [button(ask.kind === "button" ? ask.label || "Go on" : ask.submit || "Submit", lookOf(look, 0), "submit")];
}

const isDead = (button) => button.dataset.dead !== undefined;

/** The first button is the one that stands out, unless the author says otherwise. */
function lookOf({ variant, type }, at) {
  const looks = { default: "loom-main", primary: "loom-main", destructive: "loom-plain loom-danger", ghost: "loom-plain loom-ghost",
    link: "loom-plain loom-link", secondary: "loom-plain", outline: "loom-plain" };
  return `${looks[variant] ?? (at === 0 ? "loom-main" : "loom-plain")} ${type === "button-full-w" ? "loom-wide" : ""}`.trim();
}

// ---- documents that take an answer -----------------------------------------------------------

/** The forms that stand in documents. `body` is what a document shows; `stand` makes it a form while the run may take it. */
export function answering(ctx) {
  const entries = new Map();

  function body(doc) {
    drop(doc.index);
    if (!doc.ask) return sanitised(doc.html);
    const view = sanitised(doc.html) ?? h("div", {});
    const holder = h("div", { class: "loom-holder" }, view);
    entries.set(doc.index, { doc, holder, view, piece: null, def: "" });
    return holder;
  }
  function drop(index) {
    const entry = entries.get(index);
    entry?.piece?.stop();
    entries.delete(index);
  }
  /** What the run says of its documents: the first form that is new. */
  function stand(active = [], reason = "") {
    const open = new Map(active.map((one) => [one.index, one.open]));
    let fresh = null;
    for (const [index, entry] of entries) {
      const now = open.get(index);
      const def = now ? JSON.stringify([entry.doc.stamp, now]) : "";
      if (def !== entry.def) {
        entry.piece?.stop();
        entry.piece = null;
        entry.def = def;
        if (now) {
          const ask = { ...entry.doc.ask, id: `doc-${index}-${entry.doc.stamp}`, doc: index, open: now };
          entry.piece = askPiece(ask, def, ctx);
          fresh ??= entry.piece;
        }
        entry.holder.replaceChildren(entry.piece ? entry.piece.node : entry.view);
      }
      entry.piece?.enable({ enabled: !reason, disabled_reason: reason });
    }
    return fresh;
  }
  const pieces = () => [...entries.values()].map((entry) => entry.piece).filter(Boolean);
  return { body, drop, stand, pieces };
}

// ---- questions -------------------------------------------------------------------------------

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
  const control = shell({}, id, question.id, {
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
  const area = quiet(h("textarea", { id: `${id}-t`, name: id, rows: 1, "data-key": key, "aria-labelledby": `${id}-l` }));
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
  if (question.custom !== false) {
    const otherRow = option(last, "Other", "loom-other");
    otherRow.append(other);
    inner.append(otherRow);
  }
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
    question.custom !== false && h("option", { value: "x" }, "Other")));
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
  inner.append(h("div", { class: "loom-row" }, list, question.custom !== false && other), about);
  return { inputs: [list], answer: () => (list.value === "x" ? other.value : chosen()?.label ?? ""), redraw };
}

const otherBox = (question, id) =>
  quiet(h("input", { id: `${id}-o`, name: `${id}-o`, type: "text", "data-key": `q:${question.id}:other`,
    "aria-label": "Other answer", placeholder: "Other answer" }));
