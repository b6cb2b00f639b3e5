// Drafts, focus, and making elements: what every piece stands on.

export const REPLY_MS = 6000;
export const REFOCUS_MS = 3000; // a view drawn again within this time takes over the focus of the one it replaces

// ---- drafts ----------------------------------------------------------------------------------

// Running a cell again, or scrolling far away, replaces the view. What was typed must outlive it (not the tab).
export function draftOf(runId, askId) {
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
      for (const input of form.querySelectorAll("[data-key]:not(button)"))
        values[input.dataset.key] = isTick(input) ? input.checked : input.value;
      storage((store) => store.setItem(key, JSON.stringify({ values, focus })));
    },
    restore(form) {
      const draft = storage((store) => JSON.parse(store.getItem(key)));
      if (!draft?.values) return null;
      for (const input of form.querySelectorAll("[data-key]:not(button)")) {
        const value = draft.values[input.dataset.key];
        if (isTick(input) && typeof value === "boolean") input.checked = value;
        else if (typeof value === "string" && !isTick(input)) input.value = value;
      }
      return draft.focus && Date.now() - draft.focus.at < REFOCUS_MS ? draft.focus : null;
    },
    clear: () => storage((store) => store.removeItem(key)),
  };
}

/** What outlives a view, in this tab: a courtesy, so a blocked or full store is no error. */
export function keep(key, text) {
  try {
    if (text === null) window.sessionStorage.removeItem(key);
    else window.sessionStorage.setItem(key, text);
  } catch {
    // see above
  }
}

export function recall(key) {
  try {
    return window.sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

// ---- focus -----------------------------------------------------------------------------------

/** True when nothing in particular has the focus: taking it would not pull a person away from anything. */
export const isFree = (active, node) => !active || active.contains(node);

const isTick = (input) => input.type === "checkbox" || input.type === "radio";

function caretOf(input) {
  return typeof input.selectionStart === "number" && !isTick(input) ? [input.selectionStart, input.selectionEnd] : null;
}

export function focusWithin(root) {
  const node = document.activeElement;
  return node && node !== root && root.contains(node) ? { node, caret: caretOf(node) } : null;
}

export function returnFocus({ node, caret }, root) {
  if (!node?.isConnected || !isFree(document.activeElement, root)) return;
  node.focus({ preventScroll: true });
  if (caret && document.activeElement === node) node.setSelectionRange(...caret);
}

// ---- small things ----------------------------------------------------------------------------

/** An element. Strings become text nodes, so nothing given here can be markup. */
export function h(tag, attrs, ...kids) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...kids.filter((kid) => kid !== null && kid !== undefined && kid !== false && kid !== ""));
  return node;
}

/** The only place where a string is parsed as HTML: fields the kernel has already sanitised. */
export function sanitised(html, cls = "") {
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
 *  moves to the next cell). Text inputs are exempt from most, but not from Shift+Enter, which would run the cell and take what was
 *  typed with it. The attribute must be on the focused element itself. */
export function quiet(node) {
  node.setAttribute("data-lm-suppress-shortcuts", "true");
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function showText(node, text) {
  setText(node, text ?? "");
  node.hidden = !text;
}

/** Nothing to say removes the attribute; a mutation that changes nothing is not made (screen readers hear them). */
export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === "") node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function setDisabled(button, isOff) {
  button.disabled = isOff;
  setAttr(button, "aria-disabled", isOff ? "true" : null);
}

export function grow(area) {
  if (CSS.supports("field-sizing", "content")) return; // the CSS does it
  area.style.height = "auto";
  if (area.scrollHeight) area.style.height = `${area.scrollHeight + 2}px`;
}

export const isAtEnd = (node) => node.scrollHeight - node.scrollTop - node.clientHeight < 12;

export const commandKey = () => (/Mac|iPhone|iPad/.test(navigator.platform ?? "") ? "⌘" : "Ctrl");

export function duration(seconds) {
  const whole = Math.floor(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
}

/** Ids may hold any character, an id attribute referred to by aria may not hold spaces. */
export function hash(text) {
  return [...String(text)].reduce((sum, char) => (Math.imul(sum, 31) + char.codePointAt(0)) >>> 0, 7).toString(36);
}

/** A terminal's "\r": what was written after it covers the line. A last "\r" covers nothing yet. */
export function foldPast(line) {
  let stop = line.length;
  while (stop > 0 && line[stop - 1] === "\r") stop -= 1;
  return stop > 0 ? line.slice(line.lastIndexOf("\r", stop - 1) + 1) : line;
}

// Colours of a terminal would show as noise here.
export const foldLine = (line) => foldPast(line).replace(/\r+$/, "").replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "");

export const isLowSurrogate = (code) => code >= 0xdc00 && code <= 0xdfff;

export function points(text) {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) if (isLowSurrogate(text.charCodeAt(at))) count -= 1;
  return count;
}

export function pointIndex(text, count) {
  let at = 0;
  for (let left = count; left > 0 && at < text.length; left -= 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}
