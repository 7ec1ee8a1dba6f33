// Decide texts by an exported model: node exported.mjs model.bin textsvm.mjs < texts.json > results.json
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [model, module] = process.argv.slice(2);
const { Model } = await import(pathToFileURL(module));
const m = new Model(readFileSync(model));
const results = JSON.parse(readFileSync(0, "utf8")).map((content) => {
  const text = Array.isArray(content) ? Uint8Array.from(content) : content, lengths = [];
  const decision = m.decide(text), p = m.probabilities(decision);
  const explained = text !== content ? decision : decision.map((_, k) => {
    const { contributions, bias } = m.explain(text, k);
    lengths.push(contributions.length);
    return contributions.reduce((sum, value) => sum + value, bias);
  });
  return { decision: [...decision], predicted: m.predict(text), probabilities: p && [...p],
           set: m.predictionSet(text, 0.8), explained: [...explained], lengths };
});
console.log(JSON.stringify(results));
