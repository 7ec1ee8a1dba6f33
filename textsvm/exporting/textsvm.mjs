// textsvm: decisions of a trained text classifier, from a model file. No dependencies.
//
//     import { Model } from "./textsvm.mjs";
//     const model = new Model(await (await fetch("model.bin")).arrayBuffer());
//     model.predict("a text");                       // "spam"
//     model.decide("a text");                        // Float64Array of decision values
//
// docs/export_format.md describes the file and the algorithm; textsvm.c is the same program in C.

const VERSION = 3, CHECKSUM = 36;
const VIEW = 8, TERM = 16, TABLE = 32, SCANNED = 4;
const TASKS = ["classes", "labels", "number", "novelty"];
const FORM_NONE = 0, FORM_UNICODE = 1, FORM_PAPER = 2;
const WORDS = 1, WHITESPACE = 2, PROTEIN = 3;
const PRESENCE = 1, LOG = 2, INTERSECTION = 3, PLAIN = 0, EDIT = 4, GAP = 5;
const F32 = 1, F64 = 2, I16 = 3, IN_ROW = 5;
const SPACE = 1, PUNCT = 2, WORD = 4, JOINS = 8, CHANGES = 16, CHANGES_FOLDED = 32;
const SEED1 = 0x9e3779b9 | 0, SEED2 = 0x7f4a7c15, STEP1 = 0x85ebca6b | 0, STEP2 = 0xc2b2ae35 | 0;
const HANGUL = 0xac00, HANGULS = 11172;
const SHIFT = 1 / 65536;
const BYTES = " or a Uint8Array";
const AMBIGUOUS = "nrykmswbdhv", GROUP_OF = "adcddfghilkllhkpdkaacifxfd";

function mix(x) {
  x ^= x >>> 16;
  x = Math.imul(x, 0x85ebca6b);
  x ^= x >>> 13;
  x = Math.imul(x, 0xc2b2ae35);
  return x ^ (x >>> 16);
}

/** Add the words from `first` to `end` of a file to its checksum. */
function addWords(words, first, end, sums) {
  let a = 0, b = 0;
  for (let i = first; i < end; i++) {
    let x = words[i] ^ Math.imul(i, SEED1); // mix without a call, which would double the time of the first model
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    x ^= x >>> 16;
    a = (a + x) | 0;
    b = (b + Math.imul(x, x | 1)) | 0;
  }
  (sums[0] += a), (sums[1] += b);
}

/** Whether the words of a file have the checksum in its header, which counts as 0 in it. */
function hasChecksum(words) {
  const header = words.slice(0, 64), sums = new Int32Array(2);
  header.fill(0, CHECKSUM, CHECKSUM + 2);
  addWords(header, 0, 64, sums);
  for (let i = 64; i < words.length; i += 4096) addWords(words, i, Math.min(i + 4096, words.length), sums);
  return sums[0] === words[CHECKSUM] && sums[1] === words[CHECKSUM + 1];
}

/** A text or model that cannot be used. */
export class TextsvmError extends Error {
  constructor(message) {
    super(message);
    this.name = "TextsvmError";
  }
}

function checkText(text, kinds) {
  if (typeof text !== "string" && !(kinds === BYTES && text instanceof Uint8Array))
    throw new TextsvmError(`a text must be a string${kinds}`);
}

/** Arrays that grow with the longest text so far. */
class Work {
  constructor() {
    this.size = 0;
    this.slots = 0;
  }

  /** Room for texts of n symbols, on both strands. */
  symbols(n) {
    if (n <= this.size) return;
    const size = 1024 + 2 * n;
    const grown = (old) => {
      const array = new Int32Array(size);
      if (old) array.set(old);
      return array;
    };
    this.out = grown(this.out);
    this.from = grown(this.from);
    this.to = grown(this.to);
    for (const name of ["s1", "s2", "h1", "h2", "begin", "end", "unambiguous"]) this[name] = new Int32Array(2 * size);
    this.size = size;
  }

  /** Cleared slots for this many occurrences of strings; returns the number of bits of a slot. */
  clear(occurrences) {
    let bits = 6;
    while (2 ** bits < 2 * occurrences) bits++;
    if (bits > 30) throw new TextsvmError("the text is too long");
    const slots = 2 ** bits;
    if (slots > this.slots) {
      this.slots = slots;
      this.high = new Int32Array(slots);
      this.low = new Int32Array(slots);
      this.counts = new Int32Array(slots);
      for (const name of ["list", "rows", "ends"]) this[name] = new Int32Array(slots / 2 + 1);
      this.amounts = new Float64Array(slots);
      this.each = new Float64Array(slots);
    } else this.counts.fill(0, 0, slots);
    return bits;
  }
}

class Table {
  constructor(model, w, at) {
    [this.p, this.span, this.nPatterns, this.times, this.contiguous] = w.subarray(at, at + 5);
    [this.nBuckets, this.nStrings, this.tagBits, this.factorType, this.weightType] = w.subarray(at + 5, at + 10);
    this.nRepeats = w[at + 18];
    this.machines = model.nMachines;
    const strings = this.nStrings + 1, rows = strings + this.nRepeats;
    this.stride = this.machines + (this.factorType === IN_ROW ? 1 : 0);
    this.first = this.stride - this.machines;
    this.offsets = model.words(w[at + 10], this.p * this.nPatterns);
    this.values = model.doubles(w[at + 11], this.nPatterns);
    this.starts = model.words(w[at + 12], this.nBuckets + 1);
    const tags = strings + SCANNED;
    this.tags = this.tagBits === 16 ? model.view(Uint16Array, w[at + 13], tags)
      : model.view(Int32Array, w[at + 13], tags * (this.tagBits / 32));
    const kind = [null, Float32Array, Float64Array, Int16Array, Int8Array][this.weightType];
    if (!kind || ![16, 32, 64].includes(this.tagBits)) throw new TextsvmError("the model file is damaged");
    this.weights = model.view(kind, w[at + 15], rows * this.stride);
    this.factors = this.factorType === F64 ? model.doubles(w[at + 14], strings)
      : this.factorType === F32 ? model.view(Float32Array, w[at + 14], strings) : this.weights;
    this.factorStride = this.factorType === IN_ROW ? this.stride : 1;
    this.scales = w[at + 16] ? model.doubles(w[at + 16], this.machines) : null;
    this.repeatStarts = w[at + 17] ? model.words(w[at + 17], strings) : null;
  }

  /** Row of the string with these hashes; the spare row `nStrings` for an unknown string. */
  row(h1, h2) {
    const n = this.nBuckets, bucket = ((h1 >>> 16) * n + (((h1 & 0xffff) * n * SHIFT) | 0)) * SHIFT | 0;
    const end = Math.min(this.starts[bucket + 1], this.nStrings), tags = this.tags;
    let i = this.starts[bucket];
    if (this.tagBits === 64) {
      for (; i < end; i++) if (tags[2 * i] === h2 && tags[2 * i + 1] === h1) return i;
    } else {
      const tag = this.tagBits === 16 ? h2 & 0xffff : h2;
      for (; i < end; i++) if (tags[i] === tag) return i;
    }
    return this.nStrings;
  }

  factor(row) {
    return this.factorType ? this.factors[row * this.factorStride] : 1;
  }

  /** Row of the cumulated weights of several occurrences. */
  repeated(row, amount) {
    if (amount < 2 || !this.repeatStarts || row >= this.nStrings) return row;
    const begin = this.repeatStarts[row], end = Math.min(this.repeatStarts[row + 1], this.nRepeats);
    return end > begin ? this.nStrings + 1 + Math.min(begin + amount - 2, end - 1) : row;
  }

  addRow(row, x, sums) {
    const at = row * this.stride + this.first, weights = this.weights;
    if (this.scales) for (let k = 0; k < this.machines; k++) sums[k] += x * this.scales[k] * weights[at + k];
    else for (let k = 0; k < this.machines; k++) sums[k] += x * weights[at + k];
  }

  /** Sum of the weights of a row, times those of the machines. */
  weighted(row, machineWeights) {
    const at = row * this.stride + this.first;
    let sum = 0;
    for (let k = 0; k < this.machines; k++)
      sum += machineWeights[k] * this.weights[at + k] * (this.scales ? this.scales[k] : 1);
    return sum;
  }
}

/** Support vectors of a kernel that compares texts with each of them. */
class Pairs {
  constructor(model, offset, edit) {
    const w = model.words(offset, 16);
    [this.n, this.nSymbols] = w;
    const keys = model.view(Int32Array, w[2], 2 * this.nSymbols);
    this.codeOf = new Map(Array.from({ length: this.nSymbols }, (_, k) => [symbolKey(keys[2 * k + 1], keys[2 * k]), k]));
    this.starts = model.words(w[3], this.n + 1);
    this.codes = model.words(w[4], this.starts[this.n]);
    this.coef = model.doubles(w[5], this.n * model.nMachines);
    if (edit) return;
    [this.p, this.shortest] = [w[6], w[9]];
    this.levels = model.doubles(w[7], this.p);
    this.roots = model.doubles(w[8], this.n);
  }

  /** Codes of n symbols; symbols that no support vector has get larger codes. */
  codesOf(s1, s2, n) {
    const codes = new Int32Array(n), others = new Map();
    for (let i = 0; i < n; i++) {
      const key = symbolKey(s1[i], s2[i]), code = this.codeOf.get(key);
      if (code === undefined && !others.has(key)) others.set(key, this.nSymbols + others.size);
      codes[i] = code === undefined ? others.get(key) : code;
    }
    return codes;
  }

  support(k) {
    return this.codes.subarray(this.starts[k], this.starts[k + 1]);
  }

  /** Edit distance, bit-parallel (Myers 1999), 32 symbols of `other` at a time. */
  distance(codes, other, masks, steps) {
    let distance = codes.length;
    steps.fill(1);
    for (let start = 0; start < other.length; start += 32) {
      const end = Math.min(start + 32, other.length), used = end - start < 32 ? 2 ** (end - start) - 1 : -1;
      for (let k = start; k < end; k++) masks[other[k]] |= 1 << (k - start);
      let vp = -1, vn = 0;
      for (let k = 0; k < codes.length; k++) {
        const mask = masks[codes[k]], inP = steps[k] > 0 ? 1 : 0, inN = steps[k] < 0 ? 1 : 0, x = mask | inN;
        const d = (((x & vp) + vp) ^ vp) | x | vn, hp = vn | ~(d | vp), hn = vp & d;
        steps[k] = (hp >>> 31) - (hn >>> 31);
        const p = (hp << 1) | inP;
        vp = (hn << 1) | inN | ~(mask | vn | p);
        vn = p & (mask | vn);
      }
      distance += ones(vp & used) - ones(vn & used);
      for (let k = start; k < end; k++) masks[other[k]] = 0;
    }
    return distance;
  }

  /** Sum of the gap-weighted recurrence: S_q of column j is at state[q * width + j + 1]. */
  sweep(decay, codes, other) {
    const p = this.p, width = other.length + 1, levels = this.levels, low = decay < 1 ? 2 ** -900 : 0;
    const state = new Float64Array(p * width);
    let sum = 0;
    for (const symbol of codes) {
      for (let j = 0, at = (p - 1) * width; j + 1 < width; j++) if (other[j] === symbol) sum += state[at + j] + levels[p - 1];
      for (let q = p - 1; q > 0; q--)
        for (let j = 0, r = 0, at = q * width + 1, before = (q - 1) * width; j + 1 < width; j++) {
          r = r * decay + (other[j] === symbol ? state[before + j] + levels[q - 1] : low);
          state[at + j] = state[at + j] * decay + r;
        }
    }
    return sum;
  }
}

function symbolKey(h1, h2) {
  return (h1 >>> 0) * 2 ** 21 + (h2 >>> 11);
}

function ones(x) {
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/** A trained model, read from a file that `textsvm export --to js` wrote. */
export class Model {
  /** @param {ArrayBuffer | Uint8Array} data */
  constructor(data) {
    let bytes = data instanceof Uint8Array ? data : new Uint8Array(data);
    if (bytes.byteOffset % 8) bytes = new Uint8Array(bytes); // a copy; slice() of a Buffer is none
    this.buffer = bytes.buffer;
    this.base = bytes.byteOffset;
    this.length = bytes.byteLength;
    const damaged = new TextsvmError("this is not a model file of textsvm, or it is damaged");
    if (this.length < 256 || String.fromCharCode(...bytes.subarray(0, 8)) !== "TEXTSVM\0") throw damaged;
    const w = (this.w = new Uint32Array(this.buffer, this.base, 64));
    if (w[2] !== VERSION || w[3] < 32 || 8 * w[3] > this.length) throw damaged;
    if (!hasChecksum(new Int32Array(this.buffer, this.base, 2 * w[3]))) throw damaged;
    [this.form, this.punctuation] = [w[27], w[28]];
    [this.nMachines, this.nDecisions] = [w[6], w[7]];
    this.biases = this.doubles(w[14], w[6]);
    this.thresholds = w[15] ? this.doubles(w[15], w[7]) : null;
    this.maxLength = w[9];
    const views = this.words(w[11], VIEW * w[10]), terms = this.words(w[13], TERM * w[12]);
    this.terms = Array.from({ length: w[12] }, (_, i) => this.readTerm(terms.subarray(TERM * i, TERM * (i + 1)), views));
    this.readUnicode(w[31]);
    this.logs = this.doubles(w[33], w[32]);
    /** @type {Record<string, any>} */
    this.about = JSON.parse(this.text(w[34], 0, w[35]));
    /** @type {string} */
    this.task = TASKS[w[4]];
    const starts = w[8] ? this.words(w[29], w[8] + 1) : [];
    /** @type {string[]} */
    this.classes = Array.from({ length: w[8] }, (_, k) => this.text(w[30], starts[k], starts[k + 1] - 1));
    this.work = new Work();
    this.sums = new Float64Array(w[6]);
    this.termSums = new Float64Array(w[6]);
  }

  view(kind, offset, length) {
    if (offset < 32 || 8 * offset + length * kind.BYTES_PER_ELEMENT > this.length)
      throw new TextsvmError("the model file is damaged");
    return new kind(this.buffer, this.base + 8 * offset, length);
  }

  words(offset, length) {
    return this.view(Uint32Array, offset, length);
  }

  doubles(offset, length) {
    return this.view(Float64Array, offset, length);
  }

  text(offset, begin, end) {
    return new TextDecoder().decode(this.view(Uint8Array, offset, end).subarray(begin));
  }

  readTerm(w, views) {
    const [keepCase, tokens] = views.subarray(VIEW * w[0], VIEW * w[0] + 2);
    const numbers = this.doubles(w[5], 2), tables = this.words(w[6], TABLE * w[4]);
    if (w[1] > GAP) throw new TextsvmError("the model file is damaged");
    return {
      keepCase, tokens, count: w[1], normalised: w[2], bothStrands: w[3], scale: numbers[1],
      rate: numbers[0], pairs: w[1] >= EDIT ? new Pairs(this, w[6], w[1] === EDIT) : null,
      tables: Array.from({ length: w[4] }, (_, k) => new Table(this, tables, TABLE * k)), nFeatureless: w[7],
      featureless: w[7] ? this.view(Int32Array, w[8], 2 * w[7]) : null,
      featurelessValues: w[7] ? this.doubles(w[9], w[7] * this.nMachines) : null,
    };
  }

  readUnicode(offset) {
    this.stage1 = new Uint16Array(0);
    if (!offset) return;
    const w = this.words(offset, 16);
    const mapping = (at) => {
      if (!w[at]) return { n: 0 };
      const starts = this.words(w[at + 2], w[at] + 1);
      return { n: w[at], keys: this.words(w[at + 1], w[at]), starts, data: this.view(Uint16Array, w[at + 3], starts[w[at]]) };
    };
    this.stage1 = this.view(Uint16Array, w[1], w[0]);
    this.stage2 = this.view(Uint8Array, w[3], 128 * w[2]);
    this.orders = this.view(Uint8Array, w[4], 128 * w[2]);
    this.decompositions = mapping(5);
    this.folds = mapping(9);
    this.pairs = this.words(w[14], 3 * w[13]);
  }

  flagsOf(point) {
    const block = point >> 7;
    return block < this.stage1.length ? this.stage2[this.stage1[block] * 128 + (point & 127)] : 0;
  }

  orderOf(point) {
    const block = point >> 7;
    return block < this.stage1.length ? this.orders[this.stage1[block] * 128 + (point & 127)] : 0;
  }

  // ---- Text

  /** Normal form of a text into work.out, with the span in the text of the source of each symbol. */
  normalise(text, keepCase) {
    const { form, punctuation } = this;
    const work = this.work, n = text.length, changes = keepCase ? CHANGES : CHANGES_FOLDED;
    const collapse = form !== FORM_NONE, dropped = form === FORM_PAPER || punctuation ? 0 : PUNCT;
    let length = 0, spaced = form === FORM_UNICODE;
    const put = (point, kind, from, to) => {
      if (kind & dropped) (point = 32), (kind = SPACE);
      if (collapse && kind & SPACE) {
        if (spaced) return;
        point = 32;
        spaced = true;
      } else spaced = false;
      if (length >= work.size) work.symbols(length + 1);
      work.out[length] = point;
      work.from[length] = from;
      work.to[length++] = to;
    };
    work.symbols(n);
    for (let i = 0; i < n;) {
      const begin = i;
      let point = text.charCodeAt(i++);
      if ((point & 0xfc00) === 0xd800 && i < n) {
        const low = text.charCodeAt(i);
        if ((low & 0xfc00) === 0xdc00) (point = 0x10000 + ((point & 0x3ff) << 10) + (low & 0x3ff)), i++;
      }
      if (form === FORM_PAPER) {
        const upper = point >= 65 && point <= 90;
        if (!keepCase) {
          if (upper) point += 32;
          else if (point === 0x212a) point = 107;
          else if (point === 0x130) {
            put(105, 0, begin, i);
            put(32, SPACE, begin, i);
            continue;
          }
        }
        const kept = (point >= 97 && point <= 122) || (point >= 48 && point <= 57) || (keepCase && upper);
        put(point, kept ? 0 : SPACE, begin, i);
        continue;
      }
      const kind = this.flagsOf(point);
      if (form === FORM_NONE) {
        put(point, kind, begin, i);
        continue;
      }
      const single = i >= n || text.charCodeAt(i) < 0x300 || !(this.flagsOf(text.codePointAt(i)) & JOINS);
      if (single && !(kind & (JOINS | changes))) put(point, kind, begin, i);
      else if (single && point >= 65 && point <= 90) put(point + 32, WORD, begin, i);
      else {
        const piece = [point];
        while (i < n && this.flagsOf((point = text.codePointAt(i))) & JOINS) {
          piece.push(point);
          i += point > 0xffff ? 2 : 1;
        }
        for (const each of this.normalisePiece(piece, keepCase)) put(each, this.flagsOf(each), begin, i);
      }
    }
    if (form === FORM_UNICODE && length && spaced) length--;
    return Math.min(length, this.maxLength);
  }

  /** NFKC of a few code points, then NFKC of their folded case unless `keepCase`. */
  normalisePiece(piece, keepCase) {
    let points = this.reorder(this.decompose(piece));
    if (!keepCase) {
      if (piece.length > 1) points = this.decompose(this.compose(points));
      const folded = [];
      for (const point of points) mapPoint(this.folds, point, folded);
      points = this.reorder(folded);
    }
    return this.compose(points);
  }

  decompose(points) {
    const out = [];
    for (const point of points) {
      const s = point - HANGUL;
      if (s >= 0 && s < HANGULS) {
        out.push(0x1100 + Math.floor(s / 588), 0x1161 + Math.floor((s % 588) / 28));
        if (s % 28) out.push(0x11a7 + (s % 28));
      } else mapPoint(this.decompositions, point, out);
    }
    return out;
  }

  /** Canonical order: runs of non-starters sorted by combining class, stably. */
  reorder(points) {
    for (let i = 0; i < points.length;) {
      const begin = i;
      while (i < points.length && this.orderOf(points[i])) i++;
      if (i - begin > 1) {
        const run = points.slice(begin, i).sort((a, b) => this.orderOf(a) - this.orderOf(b));
        for (let k = 0; k < run.length; k++) points[begin + k] = run[k];
      }
      i++;
    }
    return points;
  }

  compose(points) {
    let starter = -1, last = 0, k = 0;
    for (const point of points) {
      const order = this.orderOf(point);
      if (starter >= 0 && (starter + 1 === k || (last && last < order))) {
        const whole = this.composed(points[starter], point);
        if (whole) {
          points[starter] = whole;
          continue;
        }
      }
      if (!order) starter = k;
      last = order;
      points[k++] = point;
    }
    points.length = k;
    return points;
  }

  composed(a, b) {
    if (a >= 0x1100 && a < 0x1113 && b >= 0x1161 && b < 0x1176)
      return HANGUL + ((a - 0x1100) * 21 + (b - 0x1161)) * 28;
    if (a >= HANGUL && a < HANGUL + HANGULS && (a - HANGUL) % 28 === 0 && b >= 0x11a8 && b < 0x11c3)
      return a + (b - 0x11a7);
    const pairs = this.pairs;
    let low = 0, high = pairs.length / 3;
    while (low < high) {
      const middle = (low + high) >> 1, first = pairs[3 * middle];
      if (first < a || (first === a && pairs[3 * middle + 1] < b)) low = middle + 1;
      else high = middle;
    }
    return pairs[3 * low] === a && pairs[3 * low + 1] === b ? pairs[3 * low + 2] : 0;
  }

  // ---- Symbols: hashes into work.s1 and work.s2, spans of normalised characters into begin and end

  hashWords(n, words) {
    const { out, s1, s2, begin, end } = this.work;
    let k = 0, a = SEED1, b = SEED2, length = 0;
    const finish = (i) => {
      s1[k] = mix(a ^ length);
      s2[k] = mix((b + length) | 0);
      begin[k] = i - length;
      end[k++] = i;
      (a = SEED1), (b = SEED2), (length = 0);
    };
    for (let i = 0; i <= n; i++) {
      const kind = i < n ? this.flagsOf(out[i]) : SPACE;
      const within = !(kind & SPACE) && (!words || kind & WORD), singleChar = !(kind & SPACE) && !within;
      if (length && !within) finish(i);
      if (within || singleChar) {
        a = (Math.imul(a, STEP1) + mix(out[i] ^ SEED1)) | 0;
        b = (Math.imul(b, STEP2) + mix(out[i] ^ SEED2)) | 0;
        length++;
      }
      if (singleChar) finish(i + 1);
    }
    return k;
  }

  hashPoints(n) {
    const { out, s1, s2, begin, end } = this.work;
    for (let i = 0; i < n; i++) {
      s1[i] = mix(out[i] ^ SEED1);
      s2[i] = mix(out[i] ^ SEED2);
      begin[i] = i;
      end[i] = i + 1;
    }
    return n;
  }

  groupProteins(n) {
    const out = this.work.out;
    for (let i = 0; i < n; i++) {
      const letter = out[i] | 32;
      if (out[i] === 42) continue;
      if (out[i] > 127 || letter < 97 || letter > 122)
        throw new TextsvmError("a model of proteins reads only the letters A to Z and *");
      out[i] = GROUP_OF.charCodeAt(letter - 97);
    }
  }

  /** Letters of DNA on both strands; returns the number of symbols from each one on without ambiguous bases, within
   *  its strand. */
  pairStrands(n) {
    const { out, s1, s2, begin, end, unambiguous } = this.work;
    for (let i = 0; i < n; i++) {
      const letter = out[i] === 117 ? "t" : String.fromCharCode(out[i]), code = "acgt".indexOf(letter);
      if (code < 0 && !AMBIGUOUS.includes(letter))
        throw new TextsvmError("this model reads only letters of DNA and RNA");
      const back = 2 * n - 1 - i, own = "acgt".charCodeAt(code & 3), pair = "acgt".charCodeAt(3 - (code & 3));
      (s1[i] = mix(own ^ SEED1)), (s2[i] = mix(own ^ SEED2));
      (s1[back] = mix(pair ^ SEED1)), (s2[back] = mix(pair ^ SEED2));
      (begin[i] = begin[back] = i), (end[i] = end[back] = i + 1);
      unambiguous[i] = unambiguous[back] = code < 0 ? 0 : 1;
    }
    for (let i = 2 * n - 1; i >= 0; i--)
      if (unambiguous[i] && i + 1 !== 2 * n && i + 1 !== n) unambiguous[i] += unambiguous[i + 1];
    return unambiguous;
  }

  // ---- Features

  /** Count the windows of the hashes h1 and h2; `slots` receives the slot of each. */
  countWindows(n, slots) {
    const work = this.work, bits = work.clear(n), { h1, h2, counts, high, low, list } = work;
    const shift = 32 - bits, mask = 2 ** bits - 1;
    let distinct = 0;
    for (let i = 0; i < n; i++) {
      const a = h1[i], b = h2[i];
      let slot = a >>> shift;
      while (counts[slot] !== 0 && (low[slot] !== b || high[slot] !== a)) slot = (slot + 1) & mask;
      if (counts[slot]++ === 0) {
        high[slot] = a;
        low[slot] = b;
        list[distinct++] = slot;
      }
      if (slots) slots[i] = slot;
    }
    return distinct;
  }

  /** Count the strings of all patterns; `seen(slot, position, pattern)` is called for each occurrence. */
  countPatterns(table, n, clear, seen) {
    const work = this.work, bits = work.clear(n * table.nPatterns), { s1, s2, counts, high, low, list, amounts } = work;
    const shift = 32 - bits, mask = 2 ** bits - 1, { p, offsets, nPatterns } = table;
    let distinct = 0;
    for (let pattern = 0; pattern < nPatterns; pattern++) {
      const at = pattern * p, reach = nPatterns > 1 ? offsets[at + p - 1] + 1 : table.span;
      for (let i = 0; i + reach <= n; i++) {
        if (clear && clear[i] < reach) continue;
        let a = SEED1, b = SEED2;
        for (let k = 0; k < p; k++) {
          a = (Math.imul(a, STEP1) + s1[i + offsets[at + k]]) | 0;
          b = (Math.imul(b, STEP2) + s2[i + offsets[at + k]]) | 0;
        }
        let slot = a >>> shift;
        while (counts[slot] !== 0 && (low[slot] !== b || high[slot] !== a)) slot = (slot + 1) & mask;
        if (counts[slot]++ === 0) {
          high[slot] = a;
          low[slot] = b;
          list[distinct++] = slot;
          amounts[slot] = 0;
        }
        amounts[slot] += table.values[pattern];
        if (seen) seen(slot, i, pattern);
      }
    }
    return distinct;
  }

  /** Add the features of the counted strings; returns their squares. With `machineWeights` their contributions are
   *  stored in work.each, for each unit of the amount. */
  lookUp(term, table, distinct, machineWeights) {
    const { list, counts, high, low, amounts, each } = this.work, termSums = this.termSums, real = table.nPatterns > 1;
    const logs = this.logs, single = table.machines === 1 && !table.scales, { weights, stride, first } = table;
    let squares = 0;
    if (!machineWeights && single && !real && table.tagBits === 64 && term.count !== INTERSECTION)
      return this.lookUpSingle(term, table, distinct);
    for (let j = 0; j < distinct; j++) {
      const slot = list[j], amount = real ? amounts[slot] : counts[slot];
      let row = table.row(high[slot], low[slot]), x = table.factor(row);
      if (machineWeights && table.contiguous && table.p === 4 && term.tokens === 0) {
        this.substrings.all += amount;
        if (row === table.nStrings) this.substrings.unknown += amount;
      }
      if (term.count === LOG) x *= amount < logs.length ? logs[amount] : 1 + Math.log(amount);
      else if (term.count === PLAIN) x *= amount;
      x = Math.fround(x);
      if (term.count === INTERSECTION) {
        squares += amount * x * x;
        row = table.repeated(row, amount);
      } else squares += x * x;
      if (machineWeights) each[slot] = (x * table.weighted(row, machineWeights)) / amount;
      else if (single) termSums[0] += x * weights[row * stride + first];
      else table.addRow(row, x, termSums);
    }
    return squares * table.times;
  }

  /** `lookUp` for a single machine, full keys and plain counts. */
  lookUpSingle(term, table, distinct) {
    const { list, counts, high, low } = this.work, { nBuckets, nStrings, starts, tags, weights, stride, first } = table;
    const { factors, factorStride, factorType } = table, logs = this.logs, nLogs = logs.length, kind = term.count;
    const { rows, ends } = this.work;
    let squares = 0, sum = 0, touched = 0;
    // In stages, so that the processor waits for many reads at once.
    for (let j = 0; j < distinct; j++) {
      const h1 = high[list[j]];
      const bucket = ((h1 >>> 16) * nBuckets + (((h1 & 0xffff) * nBuckets * SHIFT) | 0)) * SHIFT | 0;
      rows[j] = starts[bucket];
      ends[j] = starts[bucket + 1];
    }
    for (let j = 0; j < distinct; j++) touched ^= tags[2 * rows[j]];
    for (let j = 0; j < distinct; j++) {
      const slot = list[j], h1 = high[slot], h2 = low[slot], end = ends[j];
      let row = rows[j];
      while (row < end && (tags[2 * row] !== h2 || tags[2 * row + 1] !== h1)) row++;
      rows[j] = row >= end || row > nStrings ? nStrings : row;
    }
    for (let j = 0; j < distinct; j++) {
      const row = rows[j], amount = counts[list[j]];
      let x = factorType === 0 ? 1 : factors[row * factorStride];
      if (kind === LOG) x *= amount < nLogs ? logs[amount] : 1 + Math.log(amount);
      else if (kind === PLAIN) x *= amount;
      x = Math.fround(x);
      squares += x * x;
      sum += x * weights[row * stride + first];
    }
    this.termSums[0] += sum;
    this.touched = touched;
    return squares * table.times;
  }

  /** Values of a text equal to a training text, if neither has any feature. */
  addFeatureless(term, n) {
    const { s1, s2 } = this.work;
    let a = SEED1, b = SEED2;
    for (let i = 0; i < n; i++) {
      a = (Math.imul(a, STEP1) + s1[i]) | 0;
      b = (Math.imul(b, STEP2) + s2[i]) | 0;
    }
    a = mix(a ^ n);
    for (let i = 0; i < term.nFeatureless; i++)
      if (term.featureless[2 * i] === a && term.featureless[2 * i + 1] === b)
        for (let k = 0; k < this.nMachines; k++) this.termSums[k] += term.featurelessValues[i * this.nMachines + k];
  }

  /** Values of a term for n symbols into `termSums`, and their factor; with `shares` the contributions of symbols
   *  to the weighted sum of the machines instead. */
  addTerm(term, text, machineWeights, shares) {
    const { s1, s2, h1, h2, each } = this.work;
    const clear = term.bothStrands ? this.pairStrands(text) : null, n = clear ? 2 * text : text;
    let squares = 0, length = 0;
    this.termSums.fill(0);
    for (const table of term.tables) {
      const windows = n - table.span + 1;
      if (windows < 1 && table.nPatterns === 1) continue;
      if (!table.contiguous) {
        const seen = [];
        const distinct = this.countPatterns(table, n, clear, shares && ((...where) => seen.push(where)));
        squares += this.lookUp(term, table, distinct, machineWeights);
        for (const [slot, i, pattern] of seen)
          for (let k = 0; k < table.p; k++)
            shares[i + table.offsets[pattern * table.p + k]] +=
              (this.work.each[slot] * table.values[pattern]) / table.p;
        continue;
      }
      if (table.p < length) length = 0;
      if (!length) h1.fill(SEED1, 0, n), h2.fill(SEED2, 0, n);
      for (; length < table.p; length++)
        for (let i = 0; i + length < n; i++) {
          h1[i] = (Math.imul(h1[i], STEP1) + s1[i + length]) | 0;
          h2[i] = (Math.imul(h2[i], STEP2) + s2[i + length]) | 0;
        }
      const slots = shares && new Int32Array(windows);
      squares += this.lookUp(term, table, this.countWindows(windows, slots), machineWeights);
      if (shares)
        for (let i = 0; i < windows; i++)
          for (let k = 0; k < table.p; k++) shares[i + k] += this.work.each[slots[i]] / table.p;
    }
    if (!term.normalised) return term.scale;
    if (squares > 0) return 1 / Math.sqrt(squares);
    if (term.bothStrands) this.hashPoints(text);
    this.termSums.fill(0);
    this.addFeatureless(term, text);
    return 1;
  }

  /** Values of a term of support vectors for n symbols into `termSums`, and their factor. */
  addPairs(term, n) {
    const pairs = term.pairs, codes = pairs.codesOf(this.work.s1, this.work.s2, n);
    this.termSums.fill(0);
    if (term.count === EDIT) this.addEdit(term, pairs, codes.map((code) => Math.min(code, pairs.nSymbols)));
    else this.addGap(term, pairs, codes);
    return 1;
  }

  addPair(pairs, number, value) {
    const x = Math.fround(value), at = number * this.nMachines;
    for (let k = 0; k < this.nMachines; k++) this.termSums[k] += x * pairs.coef[at + k];
  }

  addEdit(term, pairs, codes) {
    const masks = new Int32Array(pairs.nSymbols + 1), steps = new Int8Array(codes.length);
    for (let i = 0; i < pairs.n; i++) {
      const other = pairs.support(i), distance = pairs.distance(codes, other, masks, steps);
      const longer = term.normalised ? Math.max(codes.length, other.length, 1) : 1;
      this.addPair(pairs, i, Math.exp(-term.rate * (distance / longer)));
    }
  }

  addGap(term, pairs, codes) {
    const own = codes.length >= pairs.shortest ? pairs.sweep(term.rate, codes, codes) : 0;
    if (!(own < Infinity)) throw new TextsvmError("the text is too long for a gap-weighted kernel");
    if (!(own > 0)) {
      if (term.normalised) this.addFeatureless(term, codes.length);
      return;
    }
    for (let i = 0; i < pairs.n; i++) {
      const root = pairs.roots[i], value = (pairs.sweep(term.rate, codes, pairs.support(i)) / Math.sqrt(own)) * root;
      const unit = term.normalised ? 1 : Math.sqrt(own * term.scale) * (Math.sqrt(term.scale) / root);
      if (value >= 2 ** -60) this.addPair(pairs, i, value * unit);
    }
  }

  /** Symbols of a text as a term reads it; `of` is the term before, whose normal form may serve again. */
  read(text, term, of, length) {
    const same = of && of.keepCase === term.keepCase && of.tokens !== PROTEIN && term.tokens !== PROTEIN;
    if (!same) length = this.normalise(text, term.keepCase);
    if (term.tokens === WORDS || term.tokens === WHITESPACE)
      return [length, this.hashWords(length, term.tokens === WORDS)];
    if (term.tokens === PROTEIN) this.groupProteins(length);
    return [length, this.hashPoints(length)];
  }

  // ---- Decisions

  /** Decision values of a text (string, or UTF-8 in a Uint8Array).
   *  @returns {Float64Array} */
  decide(text) {
    checkText(text, BYTES);
    if (typeof text !== "string") text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(text);
    const sums = this.sums;
    sums.fill(0);
    let of = null, length = 0, n = 0;
    for (const term of this.terms) {
      [length, n] = this.read(text, term, of, length);
      of = term;
      const scale = term.pairs ? this.addPairs(term, n) : this.addTerm(term, n);
      for (let k = 0; k < sums.length; k++) sums[k] += scale * this.termSums[k];
    }
    for (let k = 0; k < sums.length; k++) sums[k] += this.biases[k];
    if (this.w[5] === 2) return this.votes(sums);
    return this.w[5] === 1 ? Float64Array.of(sums[1] - sums[0]) : sums.slice();
  }

  votes(values) {
    const n = this.w[8], votes = new Float64Array(n), sums = new Float64Array(n);
    for (let a = 0, k = 0; a < n; a++)
      for (let b = a + 1; b < n; b++, k++) {
        votes[values[k] > 0 ? b : a] += 1;
        sums[b] += values[k];
        sums[a] -= values[k];
      }
    return votes.map((vote, a) => vote + sums[a] / (3 * (Math.abs(sums[a]) + 1)));
  }

  /** Calibrated probability of each class, from decision values; null without calibration.
   *  @returns {Float64Array | null} */
  probabilities(decision) {
    const w = this.w;
    if (!w[16]) return null;
    const starts = this.words(w[20], w[17] + 1), points = starts[w[17]];
    const a = this.doubles(w[18], points), b = this.doubles(w[19], points);
    const p = decision.map((value, k) => w[16] === 1 ? 1 / (1 + Math.exp(a[k] * value + b[k]))
      : interpolate(value, a.subarray(starts[k], starts[k + 1]), b.subarray(starts[k], starts[k + 1])));
    if (p.length === 1) return Float64Array.of(1 - p[0], p[0]);
    const total = p.reduce((sum, each) => sum + each, 0);
    return p.map((each) => (total > 0 ? each / total : 1 / p.length));
  }

  /** The prediction: a class, "unsure" if it is rejected, a list of labels, a number, or whether a text is inside.
   *  @returns {string | string[] | number | boolean} */
  predict(text) {
    return this.label(this.decide(text));
  }

  /** The prediction from decision values. */
  label(decision) {
    if (this.task === "number") return decision[0];
    if (this.task === "novelty") return decision[0] >= 0;
    if (this.task === "labels")
      return this.classes.filter((_, k) => decision[k] > (this.thresholds ? this.thresholds[k] : 0));
    const number = this.classNumber(decision);
    return number < 0 ? "unsure" : this.classes[number];
  }

  /** Number of the predicted class from decision values, -1 if it is rejected; for the task "classes". */
  classNumber(decision) {
    const w = this.w, p = this.probabilities(decision);
    if (!p) return decision.length === 1 ? Number(decision[0] > 0) : largest(decision);
    const bounds = w[21] ? this.doubles(w[22], 2) : [];
    if (w[21] === 1 && p[largest(p)] < bounds[0]) return -1;
    if (w[21] === 2 && p[1] < bounds[1] && p[1] > bounds[0]) return -1;
    return w[21] === 2 ? Number(p[1] >= bounds[1]) : largest(p);
  }

  /** Classes that include the true class with probability `coverage`; null if the model has no prediction sets.
   *  @returns {string[] | null} */
  predictionSet(text, coverage = 0.95, perClass = false) {
    const w = this.w, p = this.probabilities(this.decide(text));
    if (!p || !w[23]) return null;
    const all = this.doubles(w[24], w[23]), own = this.doubles(w[25], w[23]), starts = this.words(w[26], w[8] + 1);
    return this.classes.filter((_, k) => {
      const values = perClass ? own.subarray(starts[k], starts[k + 1]) : all;
      return k === largest(p) || (1 + atMost(values, p[k])) / (values.length + 1) > 1 - coverage;
    });
  }

  /** Whether `explain` is available: all kernels have features. */
  get explains() {
    return this.terms.every((term) => !term.pairs);
  }

  /** Contributions of each UTF-16 unit of a text to the decision value with this number; they and the bias
   *  sum to it (to the sum of the values of its machines for one-vs-one). The values of a text without features
   *  that equals a training text are no contributions. `decision` has the decision values of the text if they are
   *  known. TextsvmError without `explains`.
   *  @returns {{ decision: Float64Array, contributions: Float64Array, bias: number,
   *    substrings: { all: number, unknown: number } }} */
  explain(text, number = 0, decision = undefined) {
    if (!this.explains) throw new TextsvmError("the model has no features that explain its decisions");
    checkText(text, "");
    decision ??= this.decide(text);
    const contributions = new Float64Array(text.length), work = this.work;
    const machineWeights = this.weightsOf(number), substrings = { all: 0, unknown: 0 };
    this.substrings = substrings;
    let of = null, length = 0, n = 0;
    for (const term of this.terms) {
      [length, n] = this.read(text, term, of, length);
      of = term;
      const shares = new Float64Array(term.bothStrands ? 2 * n : n), scale = this.addTerm(term, n, machineWeights, shares);
      for (let i = 0; i < shares.length; i++) {
        const width = work.end[i] - work.begin[i];
        for (let c = work.begin[i]; c < work.end[i]; c++) {
          const units = work.to[c] - work.from[c];
          for (let u = work.from[c]; u < work.to[c]; u++) contributions[u] += (scale * shares[i]) / width / units;
        }
      }
    }
    return { decision, contributions, substrings, bias: machineWeights.reduce((sum, each, k) => sum + each * this.biases[k], 0) };
  }

  /** Weights of the machines in a decision value. */
  weightsOf(number) {
    const machineWeights = new Float64Array(this.nMachines), n = this.w[8];
    if (this.w[5] === 1) return Float64Array.of(-1, 1);
    if (this.w[5] === 0) machineWeights[number] = 1;
    else
      for (let a = 0, k = 0; a < n; a++)
        for (let b = a + 1; b < n; b++, k++) machineWeights[k] = Number(b === number) - Number(a === number);
    return machineWeights;
  }

  /** The heaviest features of each class: [{label, kind, features: [{text, weight, merged}]}]. */
  get topFeatures() {
    return this.about.top_features;
  }
}

/** A model whose decision values are computed by textsvm.wasm, two to three times as fast. */
export class WasmModel extends Model {
  /** Read a model and the module textsvm.wasm, both as ArrayBuffer or Uint8Array. Texts that have, or whose
   *  normal form has, more than `maxSymbols` code points are left to JavaScript.
   *  @param {ArrayBuffer | Uint8Array} data
   *  @param {BufferSource} wasm */
  static async load(data, wasm, maxSymbols = 100000) {
    const { instance } = await WebAssembly.instantiate(wasm, {});
    return new WasmModel(data instanceof Uint8Array ? data : new Uint8Array(data), instance.exports, maxSymbols);
  }

  constructor(bytes, exports, maxSymbols) {
    const pad = (n) => Math.ceil(n / 16) * 16, grow = (size) => {
      const missing = size - exports.memory.buffer.byteLength;
      if (missing > 0) exports.memory.grow(Math.ceil(missing / 65536));
    };
    const data = pad(exports.__heap_base.value), text = data + pad(bytes.length), room = 4 * maxSymbols;
    grow(text);
    new Uint8Array(exports.memory.buffer, data, bytes.length).set(bytes);
    const size = exports.textsvm_memory(data, bytes.length, maxSymbols), values = text + pad(room);
    if (!size) throw new TextsvmError("this is not a model file of textsvm, it is damaged, or maxSymbols is too large");
    const decisions = new DataView(exports.memory.buffer).getUint32(data + 28, true);
    const handle = values + pad(8 * decisions);
    grow(handle + size);
    super(new Uint8Array(exports.memory.buffer, data, bytes.length));
    if (!exports.textsvm_open_in(data, bytes.length, maxSymbols, handle, 0))
      throw new TextsvmError("this is not a model file of textsvm, or it is damaged");
    this.exports = exports;
    this.handle = handle;
    this.input = new Uint8Array(exports.memory.buffer, text, room);
    this.output = new Float64Array(exports.memory.buffer, values, decisions);
    this.encoder = new TextEncoder();
  }

  decide(text) {
    checkText(text, BYTES);
    let length = text.length;
    if (typeof text !== "string") {
      if (length > this.input.length) return super.decide(text);
      this.input.set(text);
    } else {
      // UTF-8 has no lone surrogates, which are symbols of their own.
      if (3 * length > this.input.length || (text.isWellFormed && !text.isWellFormed())) return super.decide(text);
      length = this.encoder.encodeInto(text, this.input).written;
    }
    const error = this.exports.textsvm_decide_with(this.handle, this.input.byteOffset, length, this.output.byteOffset);
    return error ? super.decide(text) : this.output.slice();
  }
}

function mapPoint(map, point, out) {
  let low = 0, high = map.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (map.keys[middle] < point) low = middle + 1;
    else high = middle;
  }
  if (low === map.n || map.keys[low] !== point) {
    out.push(point);
    return;
  }
  for (let i = map.starts[low]; i < map.starts[low + 1]; i++) {
    const unit = map.data[i];
    if ((unit & 0xfc00) === 0xd800) out.push(0x10000 + ((unit & 0x3ff) << 10) + (map.data[++i] & 0x3ff));
    else out.push(unit);
  }
}

function largest(values) {
  let best = 0;
  for (let k = 1; k < values.length; k++) if (values[k] > values[best]) best = k;
  return best;
}

/** Number of ascending values that are at most `value`. */
function atMost(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function interpolate(value, x, y) {
  const i = atMost(x, value);
  if (i === 0) return y[0];
  if (i === x.length || x[i - 1] === value) return y[i - 1];
  return ((y[i] - y[i - 1]) / (x[i] - x[i - 1])) * (value - x[i - 1]) + y[i - 1];
}
