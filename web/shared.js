"use strict";
// What /docs and /redoc share. Nothing of the description becomes HTML: only elements made here
// and text.

// el("p", {class: "soft", onclick: f}, "text", element, [more])
function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
  return element;
}

// Paragraphs, with `code` in them.
function prose(text) {
  return (text || "").split("\n\n").filter(Boolean).map((part) => el("p", {},
    part.split("`").map((piece, i) => (i % 2 ? el("code", {}, piece) : piece))));
}

let spec;

function resolve(node) {
  while (node && node.$ref) {
    node = node.$ref.slice(2).split("/").reduce((at, key) => at[key], spec);
  }
  return node;
}

// Addresses are relative to the page, so that a proxy may add a prefix; /docs/ is /docs too.
function address(path) {
  const up = location.pathname.endsWith("/") ? "../" : "./";
  return new URL(up + path.replace(/^\//, ""), location.href).href;
}

async function load() {
  const answer = await fetch(address("openapi.json"));
  if (!answer.ok) throw new Error("openapi.json: " + answer.status);
  spec = await answer.json();
}

// [{tag, operations: [{method, path, parameters, ...}]}] in the order of the tags.
function groups() {
  const all = [];
  for (const [path, methods] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      all.push({parameters: [], ...operation, method, path});
    }
  }
  return spec.tags.map((tag) => ({tag, operations: all.filter((o) => o.tags.includes(tag.name))}));
}

function typeOf(schema) {
  const s = resolve(schema);
  if (s.type === "array") return "array of " + typeOf(s.items);
  if (s.format === "binary" || s.contentMediaType) return "file";
  return [].concat(s.type || "any").join(" or ") + (s.format ? ", " + s.format : "");
}

function limits(s) {
  const text = [];
  const add = (key, say) => { if (s[key] !== undefined) text.push(say(s[key])); };
  const json = JSON.stringify;
  add("const", (v) => "always " + json(v));
  add("enum", (v) => "one of " + v.map((x) => json(x)).join(", "));
  add("default", (v) => "default " + json(v));
  add("exclusiveMinimum", (v) => "more than " + v);
  add("minimum", (v) => "at least " + v);
  add("maximum", (v) => "at most " + v);
  add("minLength", (v) => "at least " + v + " characters");
  add("maxLength", (v) => "at most " + v + " characters");
  add("pattern", (v) => "matches " + v);
  return text;
}

function field(name, schema, required, note) {
  const s = resolve(schema);
  const facts = [typeOf(s), required && "required", ...limits(s)].filter(Boolean).join(" · ");
  const inner = s.type === "array" ? resolve(s.items) : s;
  const more = resolve(inner.additionalProperties);
  return el("li", {}, el("code", {}, name), " ", el("span", {class: "soft"}, facts),
    prose(note || s.description), inner.properties ? fields(inner) : null,
    more && more.type ? el("ul", {class: "fields"}, field("any name", more)) : null);
}

// The properties of an object, expanded to the last.
function fields(schema) {
  const s = resolve(schema);
  if (!s.properties) {
    return el("p", {class: "soft"}, [typeOf(s), ...limits(s)].join(" · "));
  }
  const needed = s.required || [];
  return el("ul", {class: "fields"}, Object.entries(s.properties)
    .map(([name, property]) => field(name, property, needed.includes(name))));
}

function parameterList(parameters) {
  return el("ul", {class: "fields"}, parameters.map((p) =>
    field(p.name + " (" + p.in + ")", p.schema, p.required, p.description)));
}

// [type, media] of a body, or nothing.
function mediaOf(body) {
  return body && body.content ? Object.entries(body.content)[0] : [];
}

// [[name, value]] as the description has them.
function examplesOf(media) {
  if (!media) return [];
  if (media.examples) {
    return Object.entries(media.examples).map(([name, e]) => [e.summary || name, e.value]);
  }
  return (resolve(media.schema).examples || []).map((value) => ["example", value]);
}

const pretty = (value) => JSON.stringify(value, null, 2);
const quote = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

// What a request is, before it is sent: {url, method, headers, json, raw, form}.
function curl(request) {
  const parts = ["curl -s " + quote(request.url)];
  const bare = request.json === undefined && !request.form && !request.raw;
  if (request.method !== (bare ? "GET" : "POST")) parts.push("-X " + request.method);
  for (const [name, value] of Object.entries(request.headers || {})) {
    parts.push("-H " + quote(name + ": " + value));
  }
  if (request.json !== undefined) parts.push("--data-raw " + quote(request.json));
  if (request.raw) parts.push("--data-binary " + quote("@" + request.raw));
  for (const [name, value, isFile] of request.form || []) {
    const file = /[;,"\\]/.test(value) ? JSON.stringify(value) : value;
    parts.push(isFile ? "-F " + quote(name + "=@" + file)
      : "--form-string " + quote(name + "=" + value));
  }
  if (request.save) parts.push("-o " + quote(request.save));
  return parts.join(" \\\n  ");
}

function statusClass(status) {
  return Number(status) < 400 ? "good" : "bad";
}

// The answers, each with its headers and fields.
function answers(operation, withExamples) {
  return Object.entries(operation.responses).map(([status, node]) => {
    const answer = resolve(node);
    const [type, media] = mediaOf(answer);
    const examples = withExamples ? examplesOf(media) : [];
    return el("details", {class: "answer"},
      el("summary", {}, el("b", {class: statusClass(status)}, status), " ",
        prose(answer.description).flatMap((p) => [...p.childNodes])),
      type ? el("p", {class: "soft"}, type) : null,
      media ? fields(media.schema) : null,
      Object.keys(answer.headers || {}).length ? el("h4", {}, "Headers") : null,
      el("ul", {class: "fields"}, Object.entries(answer.headers || {}).map(([name, header]) =>
        field(name, resolve(header).schema, false, resolve(header).description))),
      examples.map(([name, value]) => [el("h4", {}, "Example: " + name),
        el("pre", {tabindex: "0"}, pretty(value))]));
  });
}

async function start(show) {
  const place = document.getElementById("main");
  try {
    await load();
    document.title = spec.info.title + " " + spec.info.version + document.title;
    show(place);
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) { target.open = true; target.scrollIntoView(); }
  } catch (error) {
    place.replaceChildren(el("p", {class: "bad", role: "alert"},
      "The description can't be shown: " + error.message));
  }
}
