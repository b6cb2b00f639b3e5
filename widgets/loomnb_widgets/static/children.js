// A sub-workflow inside its parent's panel: a card, and behind it the child's own panel over the same model.

import { h, keep, quiet, recall, setAttr, setText } from "./base.js";

const OVER = new Set(["completed", "failed", "canceled"]);

/** The model as a view of one child sees it: it hears only that run, and all it says carries that run's id. */
export function childModel(model, runId) {
  const wrapped = new Map();
  return {
    get: () => ({}),
    get widget_manager() {
      return model.widget_manager;
    },
    send: (message) => model.send({ ...message, run: runId }),
    on(event, hear) {
      if (event !== "msg:custom") return;
      const mine = (message) => message?.run === runId && hear(message);
      wrapped.set(hear, mine);
      model.on(event, mine);
    },
    off(event, hear) {
      if (wrapped.has(hear)) model.off(event, wrapped.get(hear));
      wrapped.delete(hear);
    },
  };
}

/**
 * A card that leads to a child. Its panel is drawn when the card is opened, and not before: a fan-out has a thousand of them.
 * `open(runId, el)` draws a panel and returns what takes it away again.
 */
export function linkPiece(link, open) {
  const label = h("span", { class: "loom-card-label" });
  const chip = h("span", { class: "loom-chip" });
  const body = h("div", { class: "loom-nested" });
  const summary = quiet(h("summary", { class: "loom-card-head" }, label, chip));
  const node = link.embed ? h("details", { class: "loom-card" }, summary, body) : h("div", { class: "loom-card" }, label, chip);
  let close = null;
  let isTheirs = false; // once the reader opened or closed it, it stays as they left it
  let wasOver = false;

  function drawn() {
    if (node.open && !close) close = open(link.run_id, body);
    if (!node.open && close) close = void close();
  }
  summary.addEventListener("click", () => void (isTheirs = true));
  node.addEventListener("toggle", drawn);

  const self = {
    node,
    update(next) {
      const isOver = OVER.has(next.status);
      setText(label, next.label);
      setText(chip, next.status_text || next.status);
      setAttr(chip, "data-status", next.status);
      if (link.embed && !isTheirs && isOver !== wasOver) node.open = !isOver && next.expanded;
      else if (link.embed && !isTheirs && !close && !isOver) node.open = next.expanded;
      wasOver = isOver;
      if (link.embed && node.isConnected) drawn();
    },
    stop: () => void (close && (close = void close())),
  };
  self.update(link);
  return self;
}

/** The workflow's graph, asked for when it is opened and again when the run has moved. */
export function graphPiece(send) {
  const picture = h("div", { class: "loom-graph-picture" });
  const node = h("details", { class: "loom-graph", hidden: true }, quiet(h("summary", {}, "Graph")), picture);
  let place = "";
  let key = null;
  node.addEventListener("toggle", () => {
    if (key) keep(key, node.open ? "open" : null); // a notebook draws the view anew when a run comes to rest
    if (node.open) send({ type: "graph" });
  });
  return {
    node,
    update(head) {
      if (!key && head.run_id) {
        key = `loomnb:graph:${head.run_id}`;
        node.open = recall(key) !== null;
      }
      node.hidden = !(head.path?.length > 0); // a question of a cell goes nowhere
      const now = `${head.place}/${head.status}/${head.path_more}/${head.path?.length}`;
      if (node.open && now !== place) send({ type: "graph" });
      place = now;
    },
    draw: (svg) => void (picture.innerHTML = svg), // drawn in the kernel, which escapes every name in it
  };
}
