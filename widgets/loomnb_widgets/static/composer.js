// Where a person writes: text, files, the model, and the button that sends or stops.

import { REPLY_MS, grow, h, quiet, recall, setAttr, setDisabled, setText, showText } from "./base.js";
import { keepDraft } from "./messages.js";

/** `act(type, more)` sends a message to the kernel and gives its number. */
export function composerPiece(ctx) {
  const { act, uid, told } = ctx;
  const area = quiet(h("textarea", { id: `${uid}-say`, rows: 1, "aria-label": "Message", "data-key": "say" }));
  const pick = h("input", { type: "file", multiple: true, class: "loom-hidden", tabindex: -1, "aria-hidden": "true" });
  const attach = quiet(h("button", { type: "button", class: "loom-quiet", title: "Attach files: or drop them, or paste them, here" }, "Attach"));
  const model = quiet(h("select", { "aria-label": "Model", hidden: true }));
  const hint = h("span", { class: "loom-hint" });
  const send = quiet(h("button", { type: "submit", class: "loom-main" }, "Send"));
  const stop = quiet(h("button", { type: "button", class: "loom-plain loom-stop", hidden: true }, "Stop"));
  const chips = h("ul", { class: "loom-files", "aria-label": "Files to send", hidden: true });
  const alert = h("div", { class: "loom-alert", role: "alert", hidden: true });
  const form = h("form", { class: "loom-composer", novalidate: true, autocomplete: "off", "aria-label": "Write a message" },
    chips, area, h("div", { class: "loom-composer-row" }, attach, pick, model, hint, h("span", { class: "loom-composer-do" }, stop, send)));
  const queued = h("div", { class: "loom-queued", hidden: true });
  const node = h("div", { class: "loom-write" }, queued, alert, form);
  let files = told.files; // what was attached outlives the view
  let head = {};
  let inFlight = null; // what was sent and is not confirmed: it comes back if it is refused
  let timer = 0;
  let stopping = 0;
  let unqueuing = null;
  let draftOf = "";

  const isBlank = () => area.value.trim() === "" && files.length === 0;

  function draw() {
    const isOn = ctx.isLive() && head.can_say;
    area.disabled = !isOn;
    const isBusy = Boolean(head.can_stop);
    const isFull = Boolean(head.queued);
    setAttr(area, "placeholder", !head.can_say ? "" : isBusy ? "Write what to say next" : `Message ${head.agent ?? ""}`);
    setText(send, isBusy ? "Send next" : "Send");
    setDisabled(send, !isOn || isBlank() || inFlight !== null || isFull);
    setDisabled(attach, !isOn);
    setDisabled(model, !isOn);
    stop.hidden = !isBusy;
    setDisabled(stop, !ctx.isLive() || stopping !== 0);
    setText(stop, stopping ? "Stopping…" : "Stop");
    setText(hint, !isOn ? "" : isFull ? "One message waits already" : isBusy ? "Esc stops · Enter sends it when the answer is there" : area.value ? "Shift+Enter: new line" : "");
    chips.hidden = files.length === 0;
  }
  function drawFiles() {
    told.files = files;
    chips.replaceChildren(...files.map((file, at) => {
      const drop = quiet(h("button", { type: "button", class: "loom-quiet", "aria-label": `Remove ${file.name}` }, "×"));
      drop.addEventListener("click", () => {
        files.splice(at, 1);
        drawFiles();
        area.focus();
      });
      return h("li", { class: "loom-file" }, `${file.name} `, h("span", { class: "loom-hint" }, sizeOf(file.size)), drop);
    }));
    draw();
  }
  async function take(list) {
    for (const file of list) {
      const all = files.reduce((sum, one) => sum + one.size, 0) + file.size;
      const limits = head.limits ?? {};
      if (file.size > limits.file) return showText(alert, `${file.name} is too large: ${sizeOf(limits.file)} at the most for one file.`);
      if (all > limits.files) return showText(alert, `Together these are too large: ${sizeOf(limits.files)} at the most for one message.`);
      const data = await base64(file);
      files.push({ name: file.name, mediaType: file.type || "application/octet-stream", size: file.size, data });
    }
    showText(alert, "");
    drawFiles();
  }
  function submit(text = area.value) {
    if (!ctx.isLive() || !head.can_say || inFlight || head.queued || (text.trim() === "" && files.length === 0)) return;
    const sent = files.map(({ name, mediaType, data }) => ({ name, mediaType, data }));
    inFlight = { n: act("send", { text, files: sent, model: model.value }), text, files, isOwn: text === area.value };
    showText(alert, "");
    timer = setTimeout(() => back("The kernel did not answer. Your text is kept: try again."), REPLY_MS);
    if (inFlight.isOwn) {
      area.value = "";
      files = [];
      grow(area);
    }
    drawFiles();
    ctx.sent();
  }
  function back(trouble) {
    clearTimeout(timer);
    const was = inFlight;
    inFlight = null;
    if (was?.isOwn && isBlank()) area.value = was.text, (files = was.files);
    showText(alert, trouble);
    grow(area);
    drawFiles();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!event.shiftKey) return submit();
    // JupyterLab keeps the browser from making the new line.
    area.setRangeText("\n", area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  area.addEventListener("input", () => {
    grow(area);
    keepDraft(draftOf, area.value);
    draw();
  });
  area.addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) event.preventDefault(), void take(event.clipboardData.files);
  });
  attach.addEventListener("click", () => pick.click());
  pick.addEventListener("change", () => {
    void take([...pick.files]);
    pick.value = "";
  });
  model.addEventListener("change", () => act("model", { model: model.value }));
  stop.addEventListener("click", halt);
  for (const kind of ["dragover", "dragenter"]) {
    form.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      form.classList.add("loom-drop");
    });
  }
  form.addEventListener("dragleave", (event) => void (form.contains(event.relatedTarget) || form.classList.remove("loom-drop")));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation(); // JupyterLab would take them for itself
    form.classList.remove("loom-drop");
    if (event.dataTransfer) void take(event.dataTransfer.files);
  });

  function halt() {
    if (!head.can_stop || stopping || !ctx.isLive()) return false;
    act("stop");
    stopping = setTimeout(() => ((stopping = 0), draw()), REPLY_MS);
    draw();
    return true;
  }

  function drawQueued() {
    const waiting = head.queued;
    queued.hidden = !waiting;
    if (!waiting) return queued.replaceChildren();
    const now = quiet(h("button", { type: "button", class: "loom-quiet" }, "Send now"));
    const take_back = quiet(h("button", { type: "button", class: "loom-quiet" }, "Take it back"));
    now.addEventListener("click", () => act("send_queued"));
    take_back.addEventListener("click", () => void (unqueuing = act("unqueue")));
    queued.replaceChildren(...[
      h("span", { class: "loom-doc-by" }, waiting.error || (waiting.is_due ? "Not sent, as the answer before it did not come to its end:" : "Sent when the answer is there:")),
      h("div", { class: "loom-words" }, [waiting.text, ...waiting.files].join(" ")),
      h("div", { class: "loom-foot" }, (waiting.is_due || waiting.error) && now, take_back)].filter(Boolean));
  }

  return {
    node,
    halt,
    focus: () => area.focus({ preventScroll: true }),
    isBlank,
    isIdle: () => document.activeElement === area && isBlank(),
    say: (text) => submit(text),
    enable: draw,
    stop() {
      clearTimeout(timer);
      clearTimeout(stopping);
    },
    heard(message) {
      if (inFlight && message.n === inFlight.n) {
        if (message.type === "refused") back([message.message, message.advice].filter(Boolean).join(" "));
        else {
          clearTimeout(timer);
          inFlight = null;
          keepDraft(draftOf, area.value);
        }
        draw();
      } else if (unqueuing !== null && message.n === unqueuing) {
        unqueuing = null;
        if (area.value.trim() === "") area.value = message.text ?? "";
        grow(area);
        area.focus();
        draw();
      }
    },
    update(next) {
      const isOther = next.thread_id !== head.thread_id;
      if (head.can_stop && !next.can_stop) clearTimeout(stopping), (stopping = 0);
      const before = JSON.stringify([head.queued, head.models, head.model]);
      head = next;
      if (isOther) {
        drawFiles();
        draftOf = next.thread_id;
        if (area.value === "") area.value = recall(`loomnb:chat:${draftOf}`) ?? "";
        grow(area);
      }
      if (JSON.stringify([next.queued, next.models, next.model]) !== before || isOther) {
        drawQueued();
        model.hidden = !(next.models?.length > 0);
        model.replaceChildren(h("option", { value: "" }, "Default model"), ...(next.models ?? []).map((one) => h("option", { value: one }, one)));
        model.value = next.model || "";
      }
      form.hidden = !next.can_say;
      draw();
    },
  };
}

const sizeOf = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
