// The same in JavaScript: node export_driver.mjs MODEL TEXTS VALUES MODULE
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [model, path, values, module] = process.argv.slice(2);
const { Model } = await import(pathToFileURL(module));
const data = readFileSync(model), packed = readFileSync(path);
let clock = performance.now();
const m = new Model(data);
const load = performance.now() - clock, texts = [], results = [];
for (let at = 0; at < packed.length; ) {
  const length = packed.readUInt32LE(at);
  texts.push(packed.toString("utf8", at + 4, at + 4 + length));
  at += 4 + length;
}
for (const text of texts) results.push(m.decide(text));
let best = Infinity;
for (let run = 0; run < 3; run++) {
  clock = performance.now();
  for (const text of texts) m.decide(text);
  best = Math.min(best, performance.now() - clock);
}
const flat = new Float64Array(results.length * results[0].length);
results.forEach((result, i) => flat.set(result, i * result.length));
writeFileSync(values, flat);
console.log(load, best / 1000, process.memoryUsage().rss);
