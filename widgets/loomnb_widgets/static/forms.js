// Asks: a form per open question, and the controls in it.

import {
  REPLY_MS, commandKey, draftOf, grow, h, hash, isFree, quiet, returnFocus, sanitised, setAttr, setDisabled,
  setText, showText,
} from "./base.js";

const MOST_RADIOS = 6; // questions; above this a list reads better
const MOST_CHOICE_RADIOS = 4; // fields of a form, which tend to be many

// ---- asks ------------------------------------------------------------------------------------

export function askPiece(ask, def, ctx) {
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
