// A query's rows, a page at a time. The kernel formats the cells; this file shows them and asks for pages.
// The first page travels in the traits, so it can be read, and returned to, without a kernel.

const REPLY_MS = 2500;
const NUMERIC = /^(u?(tiny|small|big|huge)?int|u?integer|decimal|numeric|float|double|real|int\d|float\d)/i;

// JupyterLab's one-key commands (the arrows…) would act on the cell while a button or the table has focus.
const QUIET = { "data-lm-suppress-shortcuts": "true" };

export default { render };

function render({ model, el, signal }) {
  // Two views of one model hear each other's replies, so each counts in a range of its own.
  let n = Math.floor(Math.random() * 1e9) * 1000;
  let waiting = null; // { n, offset } of the page asked for last; only its reply counts
  let page = { offset: 0, rows: [] };
  let timer = 0;

  const caption = h("caption", { class: "loom-hidden" });
  const headRow = h("tr");
  const body = h("tbody");
  const table = h("table", {}, caption, h("thead", {}, headRow), body);
  const region = { tabindex: "0", role: "region", "aria-label": "Query result", ...QUIET };
  const frame = h("div", { class: "loom-frame", ...region }, table);
  const range = h("span", { class: "loom-range", role: "status" });
  const trouble = h("p", { class: "loom-trouble", role: "status" });
  const buttons = {
    First: () => 0,
    Prev: () => Math.max(0, page.offset - size()),
    Next: () => page.offset + size(),
    Last: () => Math.max(0, Math.floor((total() - 1) / size()) * size()),
  };
  const pager = h("div", { class: "loom-pager", role: "group", "aria-label": "Pages" });
  for (const [text, target] of Object.entries(buttons)) {
    const button = h("button", { type: "button", ...QUIET }, text);
    button.addEventListener("click", () => {
      // aria-disabled, not disabled: at the last page a focused "Next" would otherwise drop the focus.
      if (button.getAttribute("aria-disabled") !== "true") go(target());
    });
    buttons[text] = { button, target };
    pager.append(button);
  }
  pager.append(range);
  const root = h("section", { class: "loom-table", "aria-label": "Table" }, frame, pager, trouble);

  const total = () => Number(model.get("total") ?? 0);
  const size = () => Math.max(1, Number(model.get("page_size") ?? 50));
  const first = () => model.get("first") ?? { offset: 0, rows: [] };

  function go(offset) {
    clearTimeout(timer);
    say("");
    if (offset === (first().offset ?? 0)) {
      waiting = null;
      return show(first());
    }
    n += 1;
    waiting = { n, offset };
    root.setAttribute("aria-busy", "true");
    timer = setTimeout(() => {
      root.removeAttribute("aria-busy");
      say("The kernel does not answer: run the cell again.");
    }, REPLY_MS);
    try {
      model.send({ type: "page", n, offset });
    } catch {
      // A closed comm throws in some front ends; the timer says what that means.
    }
  }
  function heard(message) {
    if (message?.type !== "rows" || message.n !== waiting?.n) return;
    clearTimeout(timer);
    waiting = null;
    say("");
    show(message);
  }
  function show({ offset = 0, rows = [] }) {
    root.removeAttribute("aria-busy");
    page = { offset, rows };
    const numeric = columns().map((column) => NUMERIC.test(column.type ?? ""));
    body.replaceChildren(...rows.map((row) => h("tr", {}, ...row.map((cell, at) => cellNode(cell, numeric[at])))));
    frame.scrollTop = 0;
    const last = offset + rows.length;
    const shown = rows.length ? `${count(offset + 1)}-${count(last)}` : "0";
    const text = `rows ${shown} of ${count(total())}`;
    range.textContent = text;
    caption.textContent = `Query result, ${text}`;
    mark("First", offset <= 0);
    mark("Prev", offset <= 0);
    mark("Next", last >= total());
    mark("Last", last >= total());
    pager.classList.toggle("loom-single", offset <= 0 && last >= total());
  }
  const columns = () => model.get("columns") ?? [];
  const mark = (name, isOff) => buttons[name].button.setAttribute("aria-disabled", String(isOff));
  function say(text) {
    trouble.textContent = text;
    trouble.hidden = text === "";
  }
  function redraw() {
    clearTimeout(timer);
    waiting = null;
    say("");
    headRow.replaceChildren(...columns().map((column) =>
      h("th", { scope: "col", title: column.type ?? "", class: NUMERIC.test(column.type ?? "") ? "loom-number" : "" },
        column.name, h("span", { class: "loom-type" }, column.type ?? ""))));
    show(first());
  }
  function cleanup() {
    clearTimeout(timer);
    model.off("msg:custom", heard);
    for (const name of ["columns", "total", "first", "page_size"]) model.off(`change:${name}`, redraw);
    signal?.removeEventListener?.("abort", cleanup);
    root.remove();
  }

  el.append(root);
  model.on("msg:custom", heard);
  for (const name of ["columns", "total", "first", "page_size"]) model.on(`change:${name}`, redraw);
  signal?.addEventListener?.("abort", cleanup);
  redraw();
  return cleanup;
}

function cellNode(cell, isNumber) {
  const align = isNumber ? "loom-number" : "";
  if (cell === null || cell === undefined) return h("td", { class: `loom-null ${align}` }, "NULL");
  // Long values are cut by the CSS; the title has the whole text.
  return h("td", { class: align, title: cell.length > 60 ? cell : "" }, cell);
}

const count = (value) => value.toLocaleString("en");

/** An element. Strings become text nodes, so nothing given here can be markup. */
function h(tag, attrs = {}, ...kids) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) if (value !== "") node.setAttribute(name, value);
  node.append(...kids);
  return node;
}
