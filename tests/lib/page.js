// SPDX-License-Identifier: Apache-2.0
// Runs the script of a page of web/ without a browser, on as much DOM as it uses:
//   node page.js docs|redoc URL [description.json]
// Prints one JSON object with what the page shows and what its requests were answered. Setting
// HTML from text is an error here. With a file, that is the description instead of the server's.
"use strict";
const fs = require("fs");
const vm = require("vm");

class Text {
  constructor(text) { this.text = String(text); this.childNodes = []; }
  get textContent() { return this.text; }
}

class Element {
  constructor(name) {
    Object.assign(this, {name, attributes: {}, childNodes: [], listeners: {}, value: "",
      files: [], open: false, hidden: false, disabled: false, selectedIndex: 0, parent: null});
  }
  setAttribute(key, value) {
    if (/^on/i.test(key) || /^javascript:/i.test(value)) throw new Error("script in " + key);
    this.attributes[key] = String(value);
    if (key === "open" || key === "hidden") this[key] = true;
  }
  addEventListener(type, listener) { this.listeners[type] = listener; }
  append(...children) {
    for (const child of children) {
      const node = child instanceof Element || child instanceof Text ? child : new Text(child);
      if (node.parent) node.parent.childNodes = node.parent.childNodes.filter((c) => c !== node);
      node.parent = this;
      this.childNodes.push(node);
    }
  }
  replaceChildren(...children) { this.childNodes = []; this.append(...children); }
  get textContent() { return this.childNodes.map((child) => child.textContent).join(""); }
  set textContent(text) { this.childNodes = [new Text(text)]; }
  set innerHTML(html) { throw new Error("HTML from text: " + html); }
  set outerHTML(html) { throw new Error("HTML from text: " + html); }
  insertAdjacentHTML(where, html) { throw new Error("HTML from text: " + html); }
  scrollIntoView() {}
  all(test) {
    return [...(test(this) ? [this] : []), ...this.childNodes.flatMap(
      (child) => (child instanceof Element ? child.all(test) : []))];
  }
  named(name) { return this.all((e) => e.name === name); }
  // Dispatches without bubbling; the script listens where the event happens or one form above.
  async fire(type) { if (this.listeners[type]) await this.listeners[type]({target: this}); }
}

const [page, url, file] = process.argv.slice(2);
const body = new Element("body");
for (const id of ["menu", "main"]) {
  const part = new Element("main");
  part.attributes.id = id;
  body.append(part);
}
const document = {
  title: ": x",
  createElement: (name) => new Element(name),
  getElementById: (id) => body.all((e) => e.attributes.id === id)[0] || null,
};
const fetched = [];
const ENDS = ["deleteSession", "cleanup"];  // of a session

async function fetchHere(address, options) {
  if (file && address.endsWith("openapi.json")) return new Response(fs.readFileSync(file));
  const answer = await fetch(address, options);
  fetched.push({url: address, method: options?.method || "GET", status: answer.status});
  return answer;
}
const shown = (element) => element.childNodes.filter((child) => !child.hidden)
  .map((child) => child.textContent).join("\n");

async function settle(done) {
  for (let i = 0; i < 20000 && !done(); i++) await new Promise((next) => setImmediate(next));
  if (!done()) throw new Error("the page does not come to rest");
}

async function tryAll(result) {
  for (const view of body.all((e) => e.attributes.class === "operation")) {
    view.open = true;
    await view.fire("toggle");
    for (const input of view.named("input")) {
      if (input.attributes.type === "file") input.files = [new File(["a,b\n"], "it's.csv")];
    }
    if (ENDS.includes(view.attributes.id)) continue;  // or nothing else could be tried
    if (view.named("button").length) result.tried[view.attributes.id] = await send(view);
  }
  for (const id of ENDS) result.tried[id] = await send(document.getElementById(id));
}

async function send(view) {
  const button = view.named("button").find((b) => b.textContent === "Send");
  await button.fire("click");
  const pres = view.named("pre").map((pre) => pre.textContent);
  const status = view.all((e) => e.attributes.role === "status")[0];
  return {curl: pres.find((text) => text.startsWith("curl")), answer: status.textContent};
}

async function main() {
  const html = await (await fetch(url + "/" + page)).text();
  const script = html.slice(html.indexOf("<script>") + 8, html.indexOf("</script>"));
  const made = [];
  const context = vm.createContext({document, fetch: fetchHere, performance, FormData, Blob,
    URLSearchParams, navigator: {}, location: new URL(url + "/" + page),
    URL: Object.assign(class extends URL {}, {createObjectURL: (b) => made.push(b) && "blob:x"})});
  const place = document.getElementById("main");
  place.textContent = "Loading…";
  vm.runInContext(script, context, {filename: page});
  await settle(() => place.textContent !== "Loading…");
  const result = {tried: {}};
  if (page === "docs" && !file) await tryAll(result);
  if (page === "docs" && file) {
    for (const view of body.all((e) => e.attributes.class === "operation")) {
      view.open = true;
      await view.fire("toggle");
    }
  }
  if (page === "redoc") {
    const search = document.getElementById("menu").named("input")[0];
    search.value = "forbidden_pattern";
    await search.fire("input");
    result.found = body.named("section").filter((s) => !s.hidden).map((s) => s.attributes.id);
    search.value = "no such words";
    await search.fire("input");
    result.foundNothing = shown(document.getElementById("menu")).includes("Nothing found.");
    search.value = "";
    await search.fire("input");
  }
  const elements = [...new Set(body.all(() => true).map((e) => e.name))].sort();
  console.log(JSON.stringify({...result, fetched, elements, title: document.title,
    text: body.textContent, ids: body.all((e) => e.attributes.id).map((e) => e.attributes.id)}));
}

main().catch((error) => { console.error(error); process.exit(1); });
