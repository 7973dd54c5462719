// SPDX-License-Identifier: Apache-2.0
// Runs JavaScript in a node that lives on; code/channel.h is the other end. Requests come on fd 3,
// frames go to fd 4: node can't move descriptors, so whoever starts it does. What the code prints
// is caught here; what its programs print goes to fds 1 and 2, which are the process's stderr.
'use strict';
const fs = require('fs');
const inspector = require('inspector');
const net = require('net');
const path = require('path');
const util = require('util');
const vm = require('vm');
const { createRequire } = require('module');
const { pathToFileURL } = require('url');
const { readdirSync, lstatSync } = fs;
const workingDirectory = process.cwd.bind(process);

const WINDOW = 192 << 10;  // bytes of frames that may be on their way
const PIECE = 32 << 10;    // of output in one frame
const LATE = 64 << 10;     // bytes that were printed between calls, and wait for the next
const MIMES = {
  'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'text/latex': 'latex',
  'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg', 'application/pdf': 'pdf',
  'application/json': 'json', 'application/javascript': 'javascript',
};
const DISPLAY = Symbol.for('Jupyter.display');

const state = {
  call: 0, active: false, count: 0, results: 0, cut: 0, sent: 0, acked: 0, context: '',
  late: [], lateBytes: 0, lateDropped: 0, interrupt: null, name: '', errors: [],
  abandoned: false,
};
const streams = [makeStream('1'), makeStream('2')];
let received = Buffer.alloc(0);

function makeStream(kind) {
  return { kind, head: 0, limit: 0, tail: [], tailBytes: 0, dropped: 0 };
}

function reset(stream, limit) {
  stream.head = limit >> 1;
  stream.limit = limit - stream.head;
  stream.tail = [];
  stream.tailBytes = stream.dropped = 0;
}

function frame(kind, data) {
  const head = Buffer.alloc(11);
  head.write('TB' + kind, 0, 'latin1');
  head.writeUInt32LE(state.call, 3);
  head.writeUInt32LE(data.length, 7);
  return Buffer.concat([head, data]);
}

// What is more than the server can have in front of it waits for its word. Nothing else may happen
// meanwhile, so this looks again and again; it is rare.
function awaitRoom(size) {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const buffer = Buffer.alloc(4096);
  while (state.sent + size - state.acked > WINDOW && !state.abandoned) {
    try {
      const got = fs.readSync(3, buffer, 0, buffer.length, null);
      if (got === 0) process.reallyExit(0);
      received = Buffer.concat([received, buffer.subarray(0, got)]);
      takeNotes();
    } catch (error) {
      if (error.code !== 'EAGAIN') process.reallyExit(0);
      Atomics.wait(pause, 0, 0, 2);
    }
  }
}

// What another server has asked for is over with the one that did.
function send(data) {
  for (let at = 0; at < data.length; at += PIECE) {
    const piece = data.subarray(at, at + PIECE);
    awaitRoom(piece.length);
    if (state.abandoned) return;
    put(piece);
  }
}

function put(piece) {
  state.sent += piece.length;
  for (let done = 0; done < piece.length;) done += fs.writeSync(4, piece, done);
}

function sendMessage(kind, text) {
  const data = Buffer.from(text);
  const frames = [];
  for (let at = 0; at === 0 || at < data.length; at += PIECE) {
    const last = at + PIECE >= data.length;
    frames.push(frame(last ? kind : 'p', data.subarray(at, at + PIECE)));
  }
  send(Buffer.concat(frames));
}

// ---- what is printed ----

function print(stream, chunk, encoding) {
  let data = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk);
  if (!state.active) {
    if (state.lateBytes < LATE) {
      state.late.push([stream, data]);
      state.lateBytes += data.length;
    } else {
      state.lateDropped += data.length;
    }
    return;
  }
  if (stream.head > 0 && data.length > 0) {
    const now = data.subarray(0, stream.head);
    for (let at = 0; at < now.length; at += PIECE) {
      send(frame(stream.kind, now.subarray(at, at + PIECE)));
    }
    stream.head -= now.length;
    data = data.subarray(now.length);
  }
  if (data.length === 0) return;
  stream.tail.push(data);
  stream.tailBytes += data.length;
  while (stream.tailBytes - stream.tail[0].length >= stream.limit) {
    const gone = stream.tail.shift();
    stream.tailBytes -= gone.length;
    stream.dropped += gone.length;
  }
}

function finishStream(stream) {
  if (stream.tail.length === 0) return;
  let data = Buffer.concat(stream.tail);
  if (data.length > stream.limit) {
    stream.dropped += data.length - stream.limit;
    data = data.subarray(data.length - stream.limit);
  }
  if (stream.dropped > 0) {
    send(frame(stream.kind, Buffer.from(`\n[... ${stream.dropped} bytes left out ...]\n`)));
  }
  for (let at = 0; at < data.length; at += PIECE) {
    send(frame(stream.kind, data.subarray(at, at + PIECE)));
  }
}

function catchOutput(file, stream) {
  file.write = (chunk, encoding, done) => {
    if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
    print(stream, chunk, encoding);
    if (typeof done === 'function') process.nextTick(done);
    return true;
  };
}

// ---- results ----

function cut(text) {
  if (text.length <= state.results) {
    state.results -= text.length;
    return text;
  }
  const room = state.results;
  state.results = 0;
  ++state.cut;
  return `${text.slice(0, room)}\n[... ${text.length - room} characters left out ...]`;
}

function render(bundle, main) {
  const told = { is_main_result: main };
  for (const [name, data] of Object.entries(bundle)) {
    if (data === undefined || data === null) continue;
    if (['json', 'png', 'jpeg', 'pdf', 'extra'].includes(name)) {
      const bytes = data instanceof Uint8Array;
      const value = bytes ? Buffer.from(data).toString('base64') : data;
      const size = JSON.stringify(value).length;
      if (size > state.results) {  // half of it would be none
        ++state.cut;
        continue;
      }
      state.results -= size;
      told[name] = value;
    } else {
      told[name] = cut(String(data)).toWellFormed?.() ?? String(data);
    }
  }
  return JSON.stringify(told);
}

function bundleOf(value) {
  let own = null;
  if (value !== null && typeof value === 'object') own = value[DISPLAY];
  if (typeof own === 'function') return fromMimes(own.call(value));
  if (typeof value === 'string') return { text: value };
  return { text: util.inspect(value) };
}

function fromMimes(told) {
  const bundle = {};
  const extra = {};
  for (const [mime, data] of Object.entries(told ?? {})) {
    if (MIMES[mime]) bundle[MIMES[mime]] = data;
    else extra[mime] = data;
  }
  if (Object.keys(extra).length > 0) bundle.extra = extra;
  return bundle;
}

function display(value, options) {
  const bundle = options?.raw ? fromMimes(value) : bundleOf(value);
  if (state.active) sendMessage('r', render(bundle, false));
}

// ---- code ----

// A script of the inspector can't import: what it names is handed to a function that can. Strings
// and comments are stepped over.
const IMPORTS = new RegExp(
    [/\/\/[^\n]*/, /\/\*[^]*?\*\//, /'(?:\\.|[^'\\\n])*'/, /"(?:\\.|[^"\\\n])*"/,
     /`(?:\\[^]|[^`\\])*`/,
     /(?<![\w$.])import\s*\(/,
     /(?<![\w$.])import\s+(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)\s*)?/.source +
         /(?:\{([^}]*)\}\s*)?from\s*('[^'\n]*'|"[^"\n]*")/.source,
     /(?<![\w$.])import\s*('[^'\n]*'|"[^"\n]*")/]
        .map((part) => part.source ?? part).join('|'), 'g');

function rewriteImports(code) {
  if (!code.includes('import')) return code;
  return code.replace(IMPORTS, (all, one, space, names, from, alone) => {
    if (!all.startsWith('import')) return all;
    if (all.endsWith('(')) return '__import(';
    if (alone) return `await __import(${alone})`;
    const parts = one ? [`default: ${one}`] : [];
    if (names) parts.push(names.replace(/\s+as\s+/g, ': ').trim());
    const module = `await __import(${from})`;
    if (!space) return `const { ${parts.join(', ')} } = ${module}`;
    return `const ${space} = ${module}` + (one ? `, { ${parts[0]} } = ${space}` : '');
  });
}

function importModule(name, options) {
  const here = pathToFileURL(path.join(process.cwd(), 'cell.js'));
  const local = /^\.{0,2}\//.test(name);
  if (local) return import(new URL(name, here).href, options);
  if (/^[a-z]+:/.test(name)) return import(name, options);
  try {
    const found = createRequire(here).resolve(name);
    return import(path.isAbsolute(found) ? pathToFileURL(found).href : found, options);
  } catch {
    return import(name, options);
  }
}

const session = new inspector.Session();
session.connect();
let taken;
const TAKE = 'threadbox.take';
Object.defineProperty(globalThis, Symbol.for(TAKE), { value: (value) => { taken = value; } });

function post(method, params, done) {
  session.post(method, params, done);
}

// The value itself behind what the inspector says of it.
function valueOf(remote) {
  if (remote.objectId === undefined) {
    if (remote.unserializableValue === undefined) return remote.value;
    const text = remote.unserializableValue;
    return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
  }
  taken = undefined;
  const take = `function(value) { globalThis[Symbol.for('${TAKE}')](value); }`;
  post('Runtime.callFunctionOn', {
    functionDeclaration: take, objectId: remote.objectId,
    arguments: [{ objectId: remote.objectId }],
  }, () => {});
  return taken;
}

// A place that the watchdog of vm guards: SIGINT ends what runs there, be it for ever.
const enter =
    new vm.Script(`globalThis[Symbol.for('threadbox.work')]()`, { filename: 'threadbox' });

function underWatch(work) {
  Object.defineProperty(globalThis, Symbol.for('threadbox.work'),
      { value: work, configurable: true, enumerable: false });
  enter.runInThisContext({ breakOnSigint: true });
}

class Interrupted extends Error {
  constructor() {
    super('the code was interrupted');
    this.name = 'KeyboardInterrupt';
    this.stack = 'KeyboardInterrupt: the code was interrupted';
  }
}

function translate(error) {
  return error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted() : error;
}

// What it came to: {value} or {error}.
async function evaluate(code) {
  let settle;
  const ended = new Promise((resolve) => { settle = resolve; });
  state.interrupt = () => settle({ error: new Interrupted() });
  try {
    underWatch(() => {
      post('Runtime.evaluate', {
        expression: rewriteImports(code) + `\n//# sourceURL=${state.name}`,
        replMode: true, objectGroup: 'threadbox',
      }, (failed, answer) => {
        if (failed) return settle({ error: failed });
        const { exceptionDetails: thrown, result } = answer;
        settle(thrown ? { error: valueOf(thrown.exception ?? { value: thrown.text }) }
                      : { value: valueOf(result) });
      });
    });
  } catch (error) {
    settle({ error: translate(error) });
  }
  const outcome = await ended;
  state.interrupt = null;
  post('Runtime.releaseObjectGroup', { objectGroup: 'threadbox' }, () => {});
  return outcome;
}

function describe(error) {
  try {
    if (error === null || typeof error !== 'object') {
      const text = util.inspect(error);
      return { name: 'Error', value: text, traceback: `Uncaught ${text}` };
    }
    const lines = String(error.stack ?? error).split('\n');
    const own = lines.findIndex((line) => / \(?node:inspector:|\[eval|at threadbox/.test(line));
    const trace = (own < 0 ? lines : lines.slice(0, own)).join('\n').slice(0, 1 << 18);
    return {
      name: String(error.name ?? 'Error'), value: String(error.message ?? '').slice(0, 1 << 16),
      traceback: trace,
    };
  } catch {
    return { name: 'Error', value: "its text can't be had", traceback: '' };
  }
}

function setVariables(pairs) {
  const before = [];
  for (let at = 0; at < pairs.length; at += 2) {
    before.push([pairs[at], process.env[pairs[at]]]);
    process.env[pairs[at]] = pairs[at + 1];
  }
  return before;
}

// Files that were written since the call began: those in the working directory, and those in
// directories there, if names came or went in them.
function writtenFiles() {
  const found = [], told = new Map();
  let left = 512;
  try {
    const places = [[workingDirectory(), 0]];
    if (!`${places[0][0]}/`.startsWith('/workspace/')) return found;
    for (const [place, depth] of places) {
      for (const name of readdirSync(place)) {
        if (--left < 0 || found.length >= 20) return found;
        const file = `${place}/${name}`;
        const facts = lstatSync(file);
        if (facts.ctimeMs < state.began || name.startsWith('.')) continue;
        if (facts.isDirectory() && depth < 2 && name !== 'node_modules') {
          places.push([file, depth + 1]);
        } else if (facts.isFile()) {
          told.set(file, facts.ctimeMs);
          if (state.written?.get(file) !== facts.ctimeMs) found.push(file);
        }
      }
    }
    state.written = told;
  } catch { /* what can't be looked at is not told */ }
  return found;
}

function begin(call, limit, results) {
  Object.assign(state, { call, results, cut: 0, active: true, errors: [] });
  state.began = Date.now() - 10;  // file systems have a coarse clock
  state.name = `cell-${++state.count}`;
  for (const stream of streams) reset(stream, limit);
  for (const [stream, data] of state.late) print(stream, data);
  if (state.lateDropped > 0) print(streams[0], `\n[... ${state.lateDropped} bytes left out ...]\n`);
  Object.assign(state, { late: [], lateBytes: 0, lateDropped: 0 });
}

async function execute(fields) {
  begin(Number(fields[1]), Number(fields[2]), Number(fields[3]));
  const before = setVariables(fields.slice(5));
  let { value, error } = await evaluate(fields[4]);
  let failed = error !== undefined;
  if (!failed && value !== undefined) {
    try {
      underWatch(() => sendMessage('r', render(bundleOf(value), true)));
    } catch (problem) {
      [failed, error] = [true, translate(problem)];
    }
  }
  if (!failed && state.errors.length > 0) [failed, error] = [true, state.errors[0]];
  for (const [name, was] of before) {
    if (was === undefined) delete process.env[name];
    else process.env[name] = was;
  }
  const told = failed ? describe(error) : null;
  for (const stream of streams) finishStream(stream);
  const end = JSON.stringify(
    { count: state.count, cut: state.cut, error: told, files: writtenFiles() });
  state.active = false;
  sendMessage('e', end);
}

function setUp(fields) {
  state.context = fields[1];
  let failed = '';
  try {
    process.chdir(fields[2]);
  } catch (error) {
    failed = String(error.message);
  }
  setVariables(fields.slice(3));
  globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'));
  send(frame('s', Buffer.from(failed)));
}

// ---- requests ----

// The next whole request, if it is there.
function nextRequest() {
  if (received.length < 4) return null;
  const size = received.readUInt32LE(0);
  if (received.length < 4 + size) return null;
  const data = received.subarray(4, 4 + size);
  received = received.subarray(4 + size);
  const fields = [];
  for (let at = 0; at < data.length;) {
    const length = data.readUInt32LE(at);
    fields.push(data.toString('utf8', at + 4, at + 4 + length));
    at += 4 + length;
  }
  return fields;
}

const waiting = [];
function takeNotes() {
  for (let fields; (fields = nextRequest()) !== null;) {
    if (fields[0] === 'ack') state.acked = Number(fields[1]);
    else {
      if (fields[0] === 'sync') [state.acked, state.abandoned] = [state.sent, state.active];
      waiting.push(fields);
    }
  }
}

let serving = false;
async function serve() {
  if (serving) return;
  serving = true;
  while (waiting.length > 0) {
    const fields = waiting.shift();
    if (fields[0] === 'exec') await execute(fields);
    else if (fields[0] === 'setup') setUp(fields);
    else if (fields[0] === 'sync') {
      state.abandoned = false;
      put(frame('y', Buffer.from(fields[1] + state.context)));
    }
  }
  serving = false;
}

catchOutput(process.stdout, streams[0]);
catchOutput(process.stderr, streams[1]);
process.on('SIGINT', () => state.interrupt?.());
const onStray = (error) => {
  if (state.active) state.errors.push(error);
  else print(streams[1], `Uncaught ${util.inspect(error)}\n`);
};
process.on('uncaughtException', onStray);
process.on('unhandledRejection', onStray);
class Exit extends Error {}
process.reallyExit ??= process.exit;
process.exit = (code) => {
  const error = new Exit(String(code ?? process.exitCode ?? 0));
  error.name = 'SystemExit';
  error.stack = `SystemExit: ${error.message}`;
  throw error;
};
Object.assign(globalThis, { display, module: { exports: {} }, exports: {} });
Object.defineProperty(globalThis, '__import', { value: importModule });
globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'));

const socket = new net.Socket({ fd: 3, readable: true, writable: false });
socket.on('data', (data) => {
  received = received.length > 0 ? Buffer.concat([received, data]) : data;
  takeNotes();
  serve();
});
socket.on('end', () => process.reallyExit(0));
