// A blueprint's run: its stages and steps as a strip, and beside each other its State and its artifacts, folded.

import { h, keep, quiet, recall, sanitised, setAttr, setText } from "./base.js";

/** The stages in order, each with its steps; where the run is, is lit. */
export function stagesPiece() {
  const node = h("ol", { class: "loom-stages", "aria-label": "Stages", hidden: true });
  let drawn = "[]";
  return {
    node,
    update(stages) {
      const now = JSON.stringify(stages);
      if (now === drawn) return;
      drawn = now;
      node.hidden = stages.length === 0;
      node.replaceChildren(...stages.map((stage) =>
        h("li", { class: "loom-stage", "data-state": standing(stage) },
          h("span", { class: "loom-stage-name" }, stage.name, said(stage)),
          h("ol", { class: "loom-steps", "aria-label": `Steps of ${stage.name}` },
            ...(stage.steps ?? []).map((step) =>
              h("li", { class: "loom-step", "data-state": standing(step), "aria-current": step.current && "step" },
                step.name, step.current ? null : said(step)))))));
    },
  };
}

const standing = (one) => (one.current ? "current" : one.visited ? "visited" : "");
const said = (one) => (one.current || one.visited ? h("span", { class: "loom-hidden" }, one.current ? " (here)" : " (done)") : null);

/** What a run holds: its State and its artifacts. Opened or folded as the reader left it, when the view is drawn anew, too. */
export function holdingsPiece() {
  const state = foldPiece("State", "state");
  const artifacts = foldPiece("Artifacts", "artifacts");
  const node = h("div", { class: "loom-holdings", hidden: true }, state.node, artifacts.node);
  return {
    node,
    update(head) {
      const list = head.artifacts ?? [];
      state.update(head, head.state_html ?? "", "", () => [sanitised(head.state_html)]);
      artifacts.update(head, JSON.stringify(list), list.length, () => list.map(artifactNode));
      node.hidden = state.node.hidden && artifacts.node.hidden;
    },
  };
}

function artifactNode({ flow, stage, revision, html }) {
  const by = h("div", { class: "loom-doc-by" }, `${flow} / ${stage}`, h("span", {}, ` · revision ${revision}`));
  return h("article", { class: "loom-artifact-doc", "data-fold": `${flow}/${stage}` }, by, sanitised(html));
}

function foldPiece(text, name) {
  const count = h("span", { class: "loom-fold-count" });
  const body = h("div", { class: "loom-fold-body" });
  const node = h("details", { class: `loom-fold loom-fold-${name}`, hidden: true }, quiet(h("summary", {}, text, count)), body);
  let drawn = "";
  let key = null;
  node.addEventListener("toggle", () => void (key && keep(key, node.open ? "open" : null)));
  return {
    node,
    update(head, now, number, make) {
      if (!key && head.run_id) {
        key = `loomnb:${name}:${head.run_id}`;
        node.open = recall(key) !== null;
      }
      const isEmpty = now === "" || now === "[]";
      node.hidden = isEmpty;
      if (now === drawn) return;
      drawn = now;
      setText(count, number ? ` · ${number}` : "");
      const folds = foldsOf(body);
      body.replaceChildren(...(isEmpty ? [] : make()));
      for (const [where, fold] of foldsIn(body)) if (folds.has(where)) fold.open = folds.get(where);
      setAttr(body, "aria-label", text);
    },
  };
}

/** Which branches are open, by the names that lead there: a value that changed is drawn anew, and stays as it was unfolded. */
const foldsOf = (root) => new Map([...foldsIn(root)].map(([where, fold]) => [where, fold.open]));

function* foldsIn(root) {
  for (const fold of root.querySelectorAll("details")) {
    const names = [];
    for (let at = fold; at && at !== root; at = at.parentNode) {
      if (at.dataset?.fold) names.push(at.dataset.fold);
      else if (at.tagName === "DETAILS") names.push(at.querySelector("summary .loom-key")?.textContent ?? "");
    }
    yield [JSON.stringify(names), fold];
  }
}
