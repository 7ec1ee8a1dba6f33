// textsvm: decisions of a trained text classifier, from a model file. No dependencies, no network.
//
//     import { Model } from "./textsvm.mjs";
//     const model = new Model(await (await fetch("model.bin")).arrayBuffer());
//     model.predict("a text");                       // "spam"
//     model.decide("a text");                        // Float64Array of decision values
//
// The work is done by textsvm.c, compiled to WebAssembly. docs/export_format.md describes the file, textsvm.d.ts the
// names of this module.

// A byte order mark is a letter of a text or of a name.
const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true });
/** The module in base64; `textsvm export` inserts it. */
const WASM = "";
const TASKS = ["classes", "labels", "number", "novelty"];
const COLUMNS = 38; // word of the header
const TOO_LONG = 3, UNSUPPORTED = 4, BAD_ARGUMENT = 5; // error codes of textsvm.c
const CAPACITY = 1024; // units of UTF-16 that the working memory is for at first
const PAGE = 65536; // bytes

/** A text or model that cannot be used. */
export class TextsvmError extends Error {
  constructor(message) {
    super(message);
    this.name = "TextsvmError";
  }
}

let compiled = null;

function instantiate() {
  compiled ??= new WebAssembly.Module(Uint8Array.from(atob(WASM), (c) => c.charCodeAt(0)));
  return new WebAssembly.Instance(compiled).exports;
}

/** A trained model, read from a file that `textsvm export --to js` wrote. */
export class Model {
  #wasm = instantiate();
  #start = Math.ceil(this.#wasm.__heap_base.value / 16) * 16; // of the file in the memory
  #length;
  #capacity = 0;
  #columns; // number of texts
  #at = {}; // addresses behind the file

  constructor(data) {
    const bytes = data instanceof Uint8Array ? data : new Uint8Array(data);
    const damaged = new TextsvmError("this is not a model file of textsvm, or it is damaged");
    this.#length = bytes.length;
    if (!this.#grow(this.#start + bytes.length)) throw new TextsvmError("the model takes more than 4 GB");
    this.#view(Uint8Array, this.#start, bytes.length).set(bytes);
    if (!this.#open(CAPACITY)) throw damaged;
    const w = this.#words(0, 64), starts = w[8] ? this.#words(w[29], w[8] + 1) : [];
    if (8 * w[34] + w[35] > bytes.length) throw damaged;
    try {
      this.about = JSON.parse(this.#text(w[34], 0, w[35]));
    } catch {
      throw damaged;
    }
    this.columns = this.about.columns ?? [];
    if (Math.max(1, (this.about.joined ?? []).length) !== this.#columns) throw damaged;
    this.task = TASKS[w[4]];
    this.classes = Array.from({ length: w[8] }, (_, k) => this.#text(w[30], starts[k], starts[k + 1] - 1));
    this.thresholds = w[15] ? this.#doubles(this.#start + 8 * w[15], w[7]) : null;
  }

  #view(kind, address, length) {
    return new kind(this.#wasm.memory.buffer, address, length);
  }

  /** Words of the file, which textsvm.c has checked. */
  #words(offset, length) {
    return this.#view(Uint32Array, this.#start + 8 * offset, length);
  }

  #text(offset, begin, end) {
    return UTF8.decode(this.#view(Uint8Array, this.#start + 8 * offset + begin, end - begin));
  }

  /** Whether the memory has, or can have, this many bytes. */
  #grow(bytes) {
    const { memory } = this.#wasm, missing = bytes - memory.buffer.byteLength;
    try {
      if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
      return true;
    } catch {
      return false;
    }
  }

  /** Open the file for texts of up to `capacity` units; false if it is damaged or the memory does not suffice. */
  #open(capacity) {
    const wasm = this.#wasm, start = this.#start, size = wasm.textsvm_memory(start, this.#length, capacity) >>> 0;
    let end = start + this.#length;
    const place = (bytes) => {
      const address = Math.ceil(end / 16) * 16;
      end = address + bytes;
      return address;
    };
    if (!size) return false;
    const [machines, decisions, classes] = this.#words(0, 64).subarray(6, 9);
    const columns = (this.#columns = this.#words(0, 64)[COLUMNS] || 1);
    const at = {
      units: place(2 * capacity * columns), texts: place(4 * columns), sizes: place(4 * columns),
      decision: place(8 * decisions), p: place(8 * classes), has: place(classes),
      contributions: place(8 * capacity * columns), totals: place(24),
      memory: place(wasm.textsvm_explain_memory(machines, capacity)), handle: place(size),
    };
    if (!this.#grow(end) || !wasm.textsvm_open_in(start, this.#length, capacity, at.handle, 0)) return false;
    at.written = this.#view(Uint16Array, at.units, capacity * columns); // of the memory until it grows
    at.lengths = this.#view(Uint32Array, at.sizes, columns);
    at.values = this.#view(Float64Array, at.decision, decisions);
    this.#view(Uint32Array, at.texts, columns).forEach((_, k, all) => (all[k] = at.units + 2 * capacity * k));
    (this.#at = at), (this.#capacity = capacity);
    return true;
  }

  /** The texts that the model reads: of joined columns a single text. */
  #texts(text) {
    const names = this.columns, of = (value) => (value instanceof Uint8Array ? UTF8.decode(value) : value);
    const several = names.length && text !== null && typeof text === "object" && !(text instanceof Uint8Array);
    const texts = (several ? names.map((name) => text[name]) : [text]).map(of);
    if (texts.length === Math.max(1, names.length) && texts.every((value) => typeof value === "string"))
      return several ? this.about.joined.map((own) => own.map((name) => texts[names.indexOf(name)]).join("\n")) : texts;
    throw new TextsvmError(names.length ? `give an object with the texts ${names.join(", ")}` : "a text must be a string or a Uint8Array");
  }

  /** Call `work` for texts in the memory; the memory grows with the texts and their normal forms. */
  #run(texts, work) {
    const n = texts.length > 1 ? Math.max(...texts.map((text) => text.length)) : texts[0].length;
    for (let capacity = n > this.#capacity ? Math.max(n, 2 * this.#capacity) : 0; ; capacity = 2 * this.#capacity) {
      if (capacity && !this.#open(capacity)) throw new TextsvmError("the text is too long");
      const { written, lengths } = this.#at;
      for (let k = 0; k < texts.length; k++) {
        const text = texts[k], first = this.#capacity * k;
        for (let i = 0; i < text.length; i++) written[first + i] = text.charCodeAt(i);
        lengths[k] = text.length;
      }
      const error = work(this.#at);
      if (!error) return;
      if (error !== TOO_LONG) throw new TextsvmError(`textsvm.wasm fails with code ${error}`);
    }
  }

  /** A copy of numbers in the memory. */
  #doubles(address, length) {
    return this.#view(Float64Array, address, length).slice();
  }

  /** Place decision values in the memory; returns the arguments of the functions of textsvm.c that read them. */
  #argumentsOf(decision) {
    this.#at.values.set(decision);
    return [this.#at.handle, this.#at.decision];
  }

  decide(text) {
    this.#run(this.#texts(text), (at) => this.#wasm.textsvm_decide_units(at.handle, at.texts, at.sizes, at.decision));
    return this.#at.values.slice();
  }

  probabilities(decision) {
    const { p } = this.#at;
    if (this.#wasm.textsvm_probabilities(...this.#argumentsOf(decision), p) === UNSUPPORTED) return null;
    return this.#doubles(p, this.classes.length);
  }

  predict(text) {
    return this.label(this.decide(text));
  }

  label(decision) {
    if (this.task === "number") return decision[0];
    if (this.task === "novelty") return decision[0] >= 0;
    if (this.task === "labels") {
      this.#wasm.textsvm_labels(...this.#argumentsOf(decision), this.#at.has);
      return this.#chosen();
    }
    const number = this.classNumber(decision);
    return number < 0 ? "unsure" : this.classes[number];
  }

  /** Classes that textsvm.c has chosen. */
  #chosen() {
    const has = this.#view(Uint8Array, this.#at.has, this.classes.length);
    return this.classes.filter((_, k) => has[k]);
  }

  classNumber(decision) {
    return this.#wasm.textsvm_predict(...this.#argumentsOf(decision));
  }

  predictionSet(text, coverage = 0.95, perClass = false) {
    if (!this.probabilities(this.decide(text))) return null;
    const { handle, p, has } = this.#at, error = this.#wasm.textsvm_set(handle, p, coverage, Number(perClass), has);
    if (error === BAD_ARGUMENT) throw new TextsvmError(`coverage must be between 0 and 1, got ${coverage}`);
    return error ? null : this.#chosen();
  }

  explain(text, number = 0, decision = undefined) {
    if (text instanceof Uint8Array) throw new TextsvmError("a text must be a string");
    decision ??= this.decide(text);
    const texts = this.#texts(text);
    this.#run(texts, (at) =>
      this.#wasm.textsvm_explain(at.handle, at.texts, at.sizes, number, at.memory, at.contributions, at.totals));
    const [bias, all, unknown] = this.#doubles(this.#at.totals, 3);
    const contributions = this.#doubles(this.#at.contributions, texts.join("").length);
    return { decision, texts, contributions, bias, substrings: { all, unknown } };
  }

  get topFeatures() {
    return this.about.top_features;
  }
}
