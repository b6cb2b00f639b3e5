// The controls of a form, one per field of a schema, however deep. A control is
// { key, node, read(), fail(text), focus(), check(), at(path) }: its key is the dotted path of its value, `read` gives what was
// typed (the kernel makes numbers and JSON of it), `check` says early what the kernel would say late: [[control, text], …].

import { grow, h, quiet, sanitised, setAttr, showText } from "./base.js";

const MOST_CHOICE_RADIOS = 4; // fields of a form tend to be many
const FORMATS = {
  email: [/^[^\s@]+@[^\s@]+\.[^\s@]+$/, "an e-mail address such as name@example.org"],
  uri: [/^[a-z][a-z0-9+.-]*:\S+$/i, "an address such as https://example.org"],
  url: [/^https?:\/\/\S+$/i, "an address such as https://example.org"],
  phone: [/^\+?[\d\s().\/-]{4,}$/, "a phone number"],
  date: [/^\d{4}-\d{2}-\d{2}$/, "a date such as 2026-01-31"],
  time: [/^\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/, "a time such as 14:30"],
  "date-time": [/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/, "a date and time such as 2026-01-31T14:30"],
  uuid: [/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, "a UUID"],
};

/** `value` is what it begins with; `isTyped` when that is text somebody typed and not JSON of the kernel. */
export function fieldControl(field, { id, path = field.name, value = field.default, isTyped = false, isOnly = false, say }) {
  const place = { id, path, value, isTyped, say };
  if (field.hidden) return hiddenField(field, place);
  if (field.kind === "object") return objectField(field, place);
  if (field.kind === "array") return field.item?.kind === "choice" && isSet(value) ? ticksField(field, place) : arrayField(field, place);
  if (field.widget === "code-view" || field.widget === "markdown-view") return viewField(field, place);
  if (field.kind === "boolean" && isTickable(field, value)) return tickField(field, place);
  if (field.widget === "slider" && (field.kind === "integer" || field.kind === "number")) return sliderField(field, place);
  if (isRadio(field, value)) return radioField(field, place);
  return boxField(field, place, isOnly);
}

const hasValue = (value) => value !== undefined && value !== null;

export const isNeeded = (field) => Boolean(field.required && !field.nullable);

const nameOf = (field) => field.label || field.name;

const isSet = (value) => !hasValue(value) || new Set(value).size === value.length;

const isStill = (field) => Boolean(field.readonly || field.disabled);

/** What an empty field is sent as. The kernel is the one judge of what a needed field may hold. */
const blankOf = (field) => (isNeeded(field) || field.keep_blank ? "" : null);

function isTickable(field, value) {
  if (field.widget === "select" || field.widget === "radio") return false;
  if (field.widget !== "" && hasValue(field.widget)) return true;
  return !field.nullable && (field.must_tick || hasValue(value));
}

function isRadio(field, value) {
  if (field.kind !== "choice" && field.kind !== "boolean") return false;
  if (field.widget) return field.widget === "radio";
  // A yes or no that must be given, and that nothing presets: an empty box would say "no" for who only presses Submit.
  if (field.kind === "boolean") return isNeeded(field) && !hasValue(value);
  return field.kind === "choice" && field.required && (field.choices ?? []).length <= MOST_CHOICE_RADIOS;
}

const entriesOf = (field) =>
  field.kind === "choice" ? field.choices ?? [] : [{ value: true, label: "Yes" }, { value: false, label: "No" }];

function attrsOf(field, { id, path }, key = "") {
  return {
    name: id, "data-key": `f:${path}${key}`, "aria-required": isNeeded(field) || field.must_tick ? "true" : null,
    disabled: isStill(field) && (field.disabled || !isText(field)), readonly: field.readonly && isText(field),
  };
}

const isText = (field) => ["text", "integer", "number", "json"].includes(field.kind) && field.widget !== "slider";

// ---- leaves ----------------------------------------------------------------------------------

/** Not shown, and sent as it came. */
function hiddenField(field, { path, value }) {
  const node = h("div", { hidden: true });
  return { key: path, node, read: () => value ?? null, fail() {}, focus() {}, check: () => [], at: () => null };
}

/** Something to read: the value is shown and sent back as it came. */
function viewField(field, { id, path, value, say }) {
  const text = typeof value === "string" ? value : JSON.stringify(value ?? "", null, 2);
  const body = field.widget === "markdown-view" && field.view_html
    ? sanitised(field.view_html, "loom-view")
    : quiet(h("pre", { class: "loom-view loom-code", tabindex: 0, "aria-labelledby": `${id}-l` }, text));
  const node = h("div", { class: "loom-field", role: "group", "aria-labelledby": `${id}-l` },
    h("div", { class: "loom-label", id: `${id}-l` }, nameOf(field)), body);
  return { ...shell({ ...field, max_length: null, min_length: null }, id, path, { node, inputs: [], read: () => value ?? null }), check: () => [] };
}

function tickField(field, place) {
  const { id, value } = place;
  const isSwitch = field.widget === "switch";
  const box = quiet(h("input", { ...attrsOf(field, place), id, type: "checkbox", role: isSwitch && "switch",
    "aria-required": field.must_tick ? "true" : null }));
  box.checked = value === true;
  const node = h("div", { class: `loom-field ${isSwitch ? "loom-switch" : ""}` }, option(box, nameOf(field), "", field.must_tick));
  const control = shell(field, id, place.path, { node, inputs: [box], read: () => box.checked });
  return { ...control, check: () => (field.must_tick && !box.checked ? [[control, "This has to be ticked."]] : []) };
}

function radioField(field, place) {
  const { id, value } = place;
  const choices = entriesOf(field);
  const radios = choices.map((choice, at) => {
    const radio = quiet(h("input", { ...attrsOf(field, place, `:${choice.value}`), id: `${id}-${at}`, type: "radio" }));
    radio.checked = hasValue(value) && choice.value === value;
    return radio;
  });
  const node = h("fieldset", { class: `loom-field ${field.inline ? "loom-inline" : ""}` },
    h("legend", {}, nameOf(field), mark(isNeeded(field))),
    ...radios.map((radio, at) => option(radio, choices[at].label)));
  const read = () => choices[radios.findIndex((radio) => radio.checked)]?.value ?? blankOf(field);
  return checked(field, shell(field, id, place.path, { node, inputs: radios, read }));
}

/** A list of some of several, each at most once. */
function ticksField(field, place) {
  const { id, value } = place;
  const choices = field.item.choices ?? [];
  const boxes = choices.map((choice, at) => {
    const box = quiet(h("input", { ...attrsOf(field, place, `:${choice.value}`), id: `${id}-${at}`, type: "checkbox", "aria-required": null }));
    box.checked = (value ?? []).includes(choice.value);
    return box;
  });
  const node = h("fieldset", { class: `loom-field ${field.inline ? "loom-inline" : ""}` },
    h("legend", {}, nameOf(field), mark(isNeeded(field) && field.min_items > 0)),
    ...boxes.map((box, at) => option(box, choices[at].label)));
  let isTouched = hasValue(value) || isNeeded(field);
  node.addEventListener("change", () => void (isTouched = true));
  const read = () => (isTouched || boxes.some((box) => box.checked) ? choices.filter((_, at) => boxes[at].checked).map((one) => one.value) : null);
  const control = shell({ ...field, max_length: null }, id, place.path, { node, inputs: boxes, read });
  return { ...control, check: () => counted(field, control, read()) };
}

export function boxField(field, place, isOnly) {
  const { id, path } = place;
  const isList = field.kind === "choice" || field.kind === "boolean";
  const { input, read } = isList ? listBox(field, place) : textBox(field, place);
  const row = h("div", { class: "loom-row" }, input);
  const label = nameOf(field) && field.label !== "" && h("label", { for: id }, nameOf(field), mark(isNeeded(field)));
  if (!label) setAttr(input, "aria-label", place.name ?? field.name);
  const control = checked(field, shell(field, id, path, { node: h("div", { class: "loom-field" }, label, row), inputs: [input], read }));
  return isOnly && field.kind === "text" && !isLong(field) ? { ...control, row } : control;
}

const isLong = (field) => Boolean(field.multiline || field.kind === "json" || field.widget === "textarea" || field.rows > 1);

function listBox(field, place) {
  const { id, value } = place;
  const entries = entriesOf(field);
  const hasBlank = !isNeeded(field) || !hasValue(value);
  const input = quiet(h("select", { ...attrsOf(field, place), id },
    hasBlank && h("option", { value: "" }, "–"),
    ...entries.map((entry, at) => h("option", { value: at, selected: hasValue(value) && entry.value === value }, entry.label))));
  return { input, read: () => (input.value === "" ? blankOf(field) : entries[Number(input.value)].value) };
}

function textBox(field, place) {
  const { id, value, isTyped } = place;
  // Numbers are text too: type=number hides what was typed when it is not a number, and the kernel must see it.
  const input = quiet(h(isLong(field) ? "textarea" : "input", {
    ...attrsOf(field, place), id, ...(isLong(field) ? { rows: field.rows || 2 } : { type: "text" }),
    spellcheck: field.kind === "text" && !field.format ? null : "false", placeholder: field.placeholder || null,
    inputmode: { integer: "numeric", number: "decimal" }[field.kind] ?? { email: "email", uri: "url", url: "url", phone: "tel" }[field.format],
    class: field.kind === "json" ? "loom-code" : null,
  }));
  if (field.rows > 1) input.style.setProperty("--loom-rows", field.rows); // it grows with its text from there
  if (hasValue(value)) input.value = typeof value === "string" && (isTyped || field.kind !== "json") ? value : JSON.stringify(value, null, 2);
  return { input, read: () => (input.value === "" ? blankOf(field) : input.value) };
}

function sliderField(field, place) {
  const { id, path, value } = place;
  const low = field.minimum ?? 0;
  const high = field.maximum ?? 100;
  const step = field.multiple_of ?? (field.kind === "integer" ? 1 : (high - low) / 100);
  const input = quiet(h("input", { ...attrsOf(field, place), id, type: "range", min: low, max: high, step }));
  input.value = value ?? low;
  const out = h("output", { for: id, class: "loom-out" }, String(value ?? low));
  input.addEventListener("input", () => void (out.textContent = input.value));
  const node = h("div", { class: "loom-field" }, h("label", { for: id }, nameOf(field)), h("div", { class: "loom-row loom-slide" }, input, out));
  const control = shell({ ...field, minimum: null, maximum: null }, id, path, { node, inputs: [input], read: () => input.value });
  return { ...control, check: () => [], sync: () => void (out.textContent = input.value) };
}

// ---- objects and lists -----------------------------------------------------------------------

/** Fields within a field. One that may be left out begins as a button, and is no value until that is pressed. */
function objectField(field, place) {
  const { id, path, value, say } = place;
  const isOptional = !isNeeded(field) && !isStill(field);
  const body = h("div", { class: bodyClass(field.fields) });
  const toggle = isOptional && quiet(h("button", { type: "button", class: "loom-small" }));
  let kids = null;

  function fill(now, isTyped) {
    kids = hasValue(now) || !isOptional
      ? field.fields.map((one, at) => fieldControl(inherited(one, field), { id: `${id}-${at}`, path: `${path}.${one.name}`, say, isTyped,
          value: hasValue(now) && one.name in now ? now[one.name] : isTyped && hasValue(now) ? null : one.default }))
      : null;
    body.replaceChildren(...(kids ?? []).map((kid) => kid.node));
    body.hidden = !kids;
    if (toggle) toggle.textContent = `${kids ? "Remove" : "Add"} ${nameOf(field)}`;
  }
  const { node, ...group } = groupOf(field, place, [body, toggle]);
  const control = {
    ...group, node, key: path,
    read: () => kids && Object.fromEntries(kids.map((kid, at) => [field.fields[at].name, kid.read()])),
    set: (now) => fill(now, true),
    check: () => (isStill(field) ? [] : (kids ?? []).flatMap((kid) => kid.check?.() ?? [])),
    kids: () => kids ?? [],
    focus: () => (kids?.find((kid) => !kid.node.hidden) ?? { focus: () => toggle?.focus() }).focus(),
  };
  toggle?.addEventListener?.("click", () => {
    const isAdding = !kids;
    fill(isAdding ? {} : null, false);
    if (isAdding) control.focus();
    say?.(`${nameOf(field)} ${isAdding ? "added" : "removed"}`);
    changed(node);
  });
  fill(value, place.isTyped);
  return nested(control, group.fail);
}

function arrayField(field, place) {
  const { id, path, value, say } = place;
  const name = nameOf(field);
  const list = h("ol", { class: "loom-items" });
  const isOpen = !field.fixed && !isStill(field);
  const add = isOpen && quiet(h("button", { type: "button", class: "loom-small loom-add" }, `Add ${singular(field)}`));
  let items = [];
  let isThere = hasValue(value) || isNeeded(field);

  function fill(values, isTyped) {
    items = values.map((one, at) => fieldControl(inherited(itemOf(at), field), {
      id: `${id}-${at}`, path: `${path}.${at}`, value: one, isTyped, say }));
    list.replaceChildren(...items.map((item, at) => h("li", { class: item.kids ? "loom-item loom-item-group" : "loom-item" }, item.node,
      isOpen && remover(at))));
    if (add) add.disabled = field.max_items != null && items.length >= field.max_items;
  }
  function itemOf(at) {
    const isGroup = field.item.kind === "object" || field.item.kind === "array";
    return { ...field.item, name: `${name} ${at + 1}`, ...(isGroup ? { label: capital(`${singular(field)} ${at + 1}`) } : {}) };
  }
  function remover(at) {
    const button = quiet(h("button", { type: "button", class: "loom-small loom-remove", "aria-label": `Remove ${singular(field)} ${at + 1}` }, "Remove"));
    button.addEventListener("click", () => {
      const values = items.map((item) => item.read());
      values.splice(at, 1);
      fill(values, true);
      (list.children[Math.min(at, items.length - 1)]?.querySelector(":scope > .loom-remove") ?? add).focus();
      say?.(`${singular(field)} ${at + 1} removed, ${items.length} left`);
      changed(node);
    });
    return button;
  }
  const { node, ...group } = groupOf(field, place, [list, add]);
  const control = {
    ...group, node, key: path,
    read: () => (isThere || items.length ? items.map((item) => item.read()) : null),
    set: (now) => ((isThere = hasValue(now)), fill(now ?? [], true)),
    check: () => (isStill(field) ? [] : [...counted(field, control, items), ...items.flatMap((item) => item.check?.() ?? [])]),
    kids: () => items,
    focus: () => (items[0] ?? { focus: () => add && add.focus() }).focus(),
  };
  add?.addEventListener?.("click", () => {
    isThere = true;
    fill([...items.map((item) => item.read()), undefined], true);
    const fresh = items.at(-1);
    fresh.focus();
    say?.(`${singular(field)} ${items.length} added`);
    changed(node);
  });
  fill(value ?? [], place.isTyped);
  return nested(control, group.fail);
}

/** A group's frame: its name, its help, a line for its errors; folded where the form says so. */
function groupOf(field, { id, path }, inner) {
  const isFolded = field.collapsed;
  const label = [nameOf(field), mark(isNeeded(field) && field.kind === "array" && field.min_items > 0)];
  const help = sanitised(field.help_html);
  const about = help && h("div", { class: "loom-about", id: `${id}-help` }, help);
  const error = h("div", { class: "loom-field-error", id: `${id}-err`, hidden: true });
  const parts = [about, error, ...inner].filter(Boolean);
  const draft = h("input", { type: "hidden", "data-key": `f:${path}` });
  const node = isFolded
    ? h("details", { class: "loom-field loom-group" }, quiet(h("summary", {}, ...label)), ...parts, draft)
    : h("fieldset", { class: "loom-field loom-group" }, h("legend", {}, ...label), ...parts, draft);
  if (isFolded) setAttr(node, "role", "group"), setAttr(node, "aria-label", nameOf(field));
  setAttr(node, "aria-describedby", about?.id);
  const fail = (text) => {
    showText(error, text);
    setAttr(node, "aria-describedby", [about?.id, text && error.id].filter(Boolean).join(" "));
    setAttr(node, "data-invalid", text ? "true" : null);
  };
  return { node, fail, draft };
}

/** The way to what is inside: a draft of the whole value, errors at their place, folds that open for them. */
function nested(control, failHere) {
  const { node, draft } = control;
  for (const kind of ["input", "change"]) {
    node.addEventListener(kind, (event) => void (event.target !== draft && (draft.value = JSON.stringify(control.read()))));
  }
  const self = {
    ...control,
    at(path) {
      const kid = control.kids().find((one) => path === one.key || path.startsWith(`${one.key}.`));
      return kid ? kid.at?.(path) ?? kid : self;
    },
    fail(text) {
      failHere(text);
      if (!text) control.kids().forEach((kid) => kid.fail(""));
    },
    sync() {
      if (!draft.value) return control.kids().forEach((kid) => kid.sync?.());
      control.set(JSON.parse(draft.value)); // after a draft was restored
    },
  };
  return self;
}

const bodyClass = (fields) => `loom-fields ${fields.filter((one) => !one.hidden).length === 2 ? "loom-two" : ""}`;

export const areTwo = (fields) => fields.length === 2 && fields.every((one) => !one.hidden && one.kind !== "object" && one.kind !== "array");

const inherited = (field, from) => (isStill(from) ? { ...field, readonly: field.readonly || from.readonly, disabled: field.disabled || from.disabled } : field);

const singular = (field) => field.item?.label || (nameOf(field) || "item").toLowerCase().replace(/ies$/, "y").replace(/([^s])s$/, "$1");

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const changed = (node) => void node.dispatchEvent(new Event("change", { bubbles: true }));

// ---- around every control --------------------------------------------------------------------

export const option = (input, label, cls = "", isRequired = false) =>
  h("div", { class: `loom-option ${cls}` }, input, h("label", { for: input.id }, label, mark(isRequired)));

export const mark = (isRequired) => (isRequired ? h("span", { class: "loom-req" }, " required") : null);

/** What every control has around it: help, an error line tied to its inputs, and the way to the first of them. */
export function shell(field, id, key, { node, inputs, read }) {
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
  return { key, node, read, fail, focus, at: () => null };
}

function limits({ minimum: low, maximum: high, exclusive_minimum: above, exclusive_maximum: below, max_length: most, min_items, max_items }) {
  const has = hasValue;
  if (has(low) && has(high) && !above && !below) return `${low} to ${high}`;
  const from = has(low) && `${above ? "more than" : "at least"} ${low}`;
  const to = has(high) && `${below ? "less than" : "at most"} ${high}`;
  if (from || to) return [from, to].filter(Boolean).join(", ");
  if (has(most)) return `at most ${most} characters`;
  if (has(min_items) && has(max_items)) return `${min_items} to ${max_items}`;
  return has(max_items) ? `at most ${max_items}` : "";
}

// ---- checks ----------------------------------------------------------------------------------

function checked(field, control) {
  const check = () => {
    const text = isStill(field) ? "" : problemOf(field, control.read());
    return text ? [[control, text]] : [];
  };
  return Object.assign(control, { check });
}

/** What is surely wrong with what was typed; empty where only the kernel can tell. */
function problemOf(field, value) {
  if (value === null || value === "") {
    const mayBeEmpty = value === null || (field.kind === "text" && !(field.min_length > 0));
    return mayBeEmpty || !isNeeded(field) ? "" : "Please fill this in.";
  }
  if (field.kind === "text") return textProblem(field, value);
  if (field.kind === "integer" || field.kind === "number") return numberProblem(field, String(value).trim());
  return "";
}

function textProblem({ min_length: least, max_length: most, pattern, format }, text) {
  const count = [...text].length;
  if (hasValue(least) && count < least) return `At least ${least} characters, please.`;
  if (hasValue(most) && count > most) return `At most ${most} characters: this has ${count}.`;
  if (pattern && compiled(pattern)?.test(text) === false) return `This does not match ${pattern}`;
  const [shape, what] = FORMATS[format] ?? [];
  return shape && !shape.test(text.trim()) ? `Please give ${what}.` : "";
}

/** Python's patterns are nearly JavaScript's; one that is not is left to the kernel. */
function compiled(pattern) {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return null;
  }
}

function numberProblem(field, text) {
  if (!/^[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return field.kind === "integer" ? "This is not a whole number." : "This is not a number.";
  const number = Number(text.replaceAll("_", ""));
  if (field.kind === "integer" && !Number.isInteger(number)) return "This is not a whole number.";
  const { minimum: low, maximum: high, exclusive_minimum: above, exclusive_maximum: below, multiple_of: of } = field;
  if (hasValue(low) && (above ? number <= low : number < low)) return `This has to be ${above ? "more than" : "at least"} ${low}.`;
  if (hasValue(high) && (below ? number >= high : number > high)) return `This has to be ${below ? "less than" : "at most"} ${high}.`;
  return of && Math.abs(number / of - Math.round(number / of)) > 1e-9 ? `This has to be a multiple of ${of}.` : "";
}

function counted({ min_items: least, max_items: most }, control, items) {
  if (items === null) return [];
  if (hasValue(least) && items.length < least) return [[control, `At least ${least}, please.`]];
  return hasValue(most) && items.length > most ? [[control, `At most ${most}, please.`]] : [];
}
