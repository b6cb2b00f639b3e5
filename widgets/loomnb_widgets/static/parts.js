// What a message is made of: text, thoughts, calls of tools, components. The chat and the documents of a run draw them alike.

import { duration, h, quiet, sanitised, setAttr, setText } from "./base.js";
import { linkPiece } from "./children.js";

export function partPiece(part, ctx) {
  if (part.kind === "reasoning") return thoughtPiece();
  if (part.kind === "tool") return toolPiece(ctx);
  if (part.kind === "ui") return componentPiece();
  if (part.kind === "note") return notePiece();
  return textPiece();
}

/** Markdown the kernel has made safe, block by block: only what changed is drawn anew. */
function textPiece(cls = "loom-words") {
  const node = h("div", { class: cls });
  return {
    node,
    update({ n, blocks }) {
      for (const [at, html] of Object.entries(blocks ?? {})) {
        const made = sanitised(html) ?? h("div", {});
        const old = node.children[at];
        if (old) old.replaceWith(made);
        else {
          while (node.children.length < Number(at)) node.append(h("div", {}));
          node.append(made);
        }
      }
      while (node.children.length > n) node.lastChild.remove();
    },
  };
}

function thoughtPiece() {
  const summary = quiet(h("summary", {}));
  const body = textPiece("loom-thought-text");
  const node = h("details", { class: "loom-thought" }, summary, body.node);
  const since = Date.now();
  let timer = 0;
  let told = null;
  function draw() {
    const seconds = typeof told?.ms === "number" ? told.ms / 1000 : (Date.now() - since) / 1000;
    if (told?.live) setText(summary, seconds >= 2 ? `Thinking… ${duration(seconds)}` : "Thinking…");
    else setText(summary, typeof told?.ms === "number" ? `Thought for ${told.ms < 1000 ? "a moment" : duration(seconds)}` : "Thoughts");
    setAttr(node, "data-live", told?.live ? "yes" : null);
  }
  return {
    node,
    update(part) {
      told = part;
      body.update(part);
      clearInterval(timer);
      if (part.live) timer = setInterval(draw, 1000);
      draw();
    },
    stop: () => clearInterval(timer),
  };
}

/** A tool's call: one line of what happens, and folded below it what went in and what came out. */
function toolPiece(ctx) {
  const text = h("span", { class: "loom-tool-text" });
  const more = h("span", { class: "loom-tool-more" });
  const summary = quiet(h("summary", {}, h("span", { class: "loom-tool-mark", "aria-hidden": "true" }), text, more));
  const body = h("div", { class: "loom-tool-body" });
  const within = h("div", { class: "loom-tool-within" });
  const run = h("div", { class: "loom-tool-run" });
  const node = h("div", { class: "loom-tool" }, h("details", {}, summary, body), within, run);
  const kids = [];
  let card = null;
  let drawn = "";
  return {
    node,
    stop: () => card?.stop(),
    update(part) {
      setAttr(node, "data-status", part.status);
      setAttr(node, "data-tone", part.tone);
      setText(text, part.text);
      const words = { denied: part.reason, waiting: "waiting for you", failed: part.error }[part.status];
      setText(more, [words, part.edited && "with changed arguments", part.remembered && "allowed before"].filter(Boolean).join(" · "));
      const now = JSON.stringify([part.input_html, part.output_html, part.error]);
      if (now !== drawn) {
        drawn = now;
        const row = (label, html) => html && h("div", { class: "loom-tool-row" }, h("div", { class: "loom-doc-by" }, label), sanitised(html));
        body.replaceChildren(...[row("Input", part.input_html), row("Output", part.output_html),
          part.error && h("div", { class: "loom-tool-error" }, part.error)].filter(Boolean));
        if (!body.childElementCount) body.append(h("div", { class: "loom-doc-by" }, "Nothing went in, and nothing came out yet."));
      }
      (part.within ?? []).forEach((one, at) => {
        if (!kids[at]) kids.push(toolPiece(ctx)), within.append(kids[at].node);
        kids[at].update(one);
      });
      if (part.link && !card) run.append((card = linkPiece(part.link, ctx.openRun)).node);
      else if (part.link) card.update(part.link);
    },
  };
}

/** A line that stands where nothing was said. */
function notePiece() {
  const node = h("p", { class: "loom-note" });
  return { node, update: ({ text }) => setText(node, text) };
}

function componentPiece() {
  const node = h("div", { class: "loom-shown" });
  let drawn = "";
  return {
    node,
    update({ html }) {
      if (html === drawn) return;
      drawn = html;
      node.replaceChildren(sanitised(html) ?? "");
    },
  };
}

/** The messages among a run's documents: what a tool gave stands in the card of its call, wherever that is. */
export function messagesPiece() {
  const calls = new Map(); // call -> draws its card anew
  const results = new Map();

  function drawn(part) {
    const piece = partPiece(part, {});
    const update = () => piece.update({ ...part, ...results.get(part.call) });
    if (part.kind === "tool" && part.call) calls.set(part.call, update);
    update();
    return piece.node;
  }
  return (doc) => {
    const said = h("div", { class: "loom-said" });
    for (const part of doc.parts) {
      const { kind, call, ...result } = part;
      if (kind !== "result") said.append(drawn(part));
      else if (calls.has(call)) results.set(call, result), calls.get(call)();
      else said.append(drawn({ ...result, kind: "tool", text: "Result of a tool" }));
    }
    const by = [["user", "assistant", "tool"].includes(doc.role) ? "" : doc.role, doc.title].filter(Boolean).join(" · ");
    if (by && said.childElementCount) said.prepend(h("div", { class: "loom-doc-by" }, by));
    const node = h("article", { class: "loom-doc loom-doc-message loom-turn", "data-role": doc.role, "data-index": doc.index,
      "aria-label": { user: "You", assistant: "Answer" }[doc.role] ?? doc.role }, said);
    if (!said.childElementCount) node.classList.add("loom-silent");
    return node;
  };
}
