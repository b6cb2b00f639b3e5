// The list of conversations: search, go over to one, rename it, delete it.

import { h, quiet, setDisabled, setText } from "./base.js";

const SEARCH_MS = 250;
const SURE_MS = 4000; // how long "Delete?" waits for its second click

export function threadsPiece(act, isLive) {
  const search = quiet(h("input", { type: "text", placeholder: "Search conversations", "aria-label": "Search conversations" }));
  const list = h("ul", { class: "loom-thread-list" });
  const none = h("p", { class: "loom-hint", hidden: true }, "No conversation fits.");
  const node = h("div", { class: "loom-threads", role: "region", "aria-label": "Conversations", hidden: true }, search, list, none);
  let asked = null;
  let timer = 0;

  function ask() {
    asked = act("threads", { search: search.value });
  }
  function row({ threadId, title, messages, waiting }, here) {
    const go = quiet(h("button", { type: "button", class: "loom-thread", "aria-current": threadId === here && "true" },
      h("span", { class: "loom-thread-title" }, title), waiting && h("span", { class: "loom-chip", "data-status": "waiting" }, "waiting for you"), h("span", { class: "loom-hint" }, messages === 1 ? "1 message" : `${messages.toLocaleString("en")} messages`)));
    const rename = quiet(h("button", { type: "button", class: "loom-quiet", "aria-label": `Rename ${title}` }, "Rename"));
    const remove = quiet(h("button", { type: "button", class: "loom-quiet", "aria-label": `Delete ${title}` }, "Delete"));
    const item = h("li", {}, go, rename, remove);
    let sure = 0;
    go.addEventListener("click", () => {
      act("switch", { thread: threadId });
      self.toggle(false);
    });
    rename.addEventListener("click", () => {
      const input = quiet(h("input", { type: "text", "aria-label": `New name of ${title}` }));
      input.value = title;
      const form = h("form", { class: "loom-row", novalidate: true }, input, quiet(h("button", { type: "submit", class: "loom-small" }, "Save")));
      const close = () => (form.replaceWith(go), rename.focus());
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!input.value.trim()) return;
        act("rename", { thread: threadId, title: input.value });
        setText(go.firstChild, input.value.trim());
        close();
      });
      input.addEventListener("keydown", (event) => {
        if (event.key === "Escape") event.preventDefault(), event.stopPropagation(), close();
        if (event.key === "Enter" && !event.isComposing) event.preventDefault(), form.requestSubmit();
      });
      go.replaceWith(form);
      input.focus();
      input.select();
    });
    remove.addEventListener("click", () => {
      if (sure) {
        clearTimeout(sure);
        act("delete", { thread: threadId });
        item.remove();
        return search.focus();
      }
      setText(remove, "Delete?");
      remove.classList.add("loom-danger");
      sure = setTimeout(() => {
        sure = 0;
        remove.classList.remove("loom-danger");
        setText(remove, "Delete");
      }, SURE_MS);
    });
    return item;
  }
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, SEARCH_MS);
  });

  const self = {
    node,
    isOpen: () => !node.hidden,
    toggle(isOpen = node.hidden) {
      node.hidden = !isOpen;
      if (isOpen) {
        ask();
        search.focus();
      }
    },
    heard(message) {
      if (asked === null || message.n !== asked || !message.threads) return;
      asked = null;
      list.replaceChildren(...message.threads.map((one) => row(one, message.here)));
      none.hidden = message.threads.length > 0;
    },
    enable: () => node.querySelectorAll("button, input").forEach((one) => setDisabled(one, !isLive())),
    stop: () => clearTimeout(timer),
  };
  return self;
}

const NAMED = 3;

/** In a conversation that has not begun: that others wait for somebody, and the way to them. */
export function elsewherePiece(act) {
  const node = h("p", { class: "loom-notice loom-elsewhere", role: "status", hidden: true });
  let drawn = "[]";

  return {
    node,
    update(those) {
      if (JSON.stringify(those) === drawn) return;
      drawn = JSON.stringify(those);
      const links = those.slice(0, NAMED).map(({ threadId, title }) => {
        const button = quiet(h("button", { type: "button", class: "loom-quiet", "aria-label": `Go to ${title}` }, title));
        button.addEventListener("click", () => act("switch", { thread: threadId }));
        return button;
      });
      const more = those.length > NAMED ? [h("span", {}, `and ${those.length - NAMED} more under Conversations`)] : [];
      const said = those.length === 1 ? "Another conversation waits for you:" : "Other conversations wait for you:";
      node.replaceChildren(h("span", {}, said), ...links, ...more);
      node.hidden = !those.length;
    },
  };
}
