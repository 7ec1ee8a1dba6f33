// Decide texts by an exported model: node exported.mjs model.bin textsvm.mjs < texts.json > results.json
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [model, module] = process.argv.slice(2);
const { Model } = await import(pathToFileURL(module));
const m = new Model(readFileSync(model));
const results = JSON.parse(readFileSync(0, "utf8")).map((content) => {
  const text = typeof content === "string" ? content : Uint8Array.from(content);
  try {
    const decision = m.decide(text), p = m.probabilities(decision);
    const explained = typeof text === "string" && m.explains ? decision.map((_, k) => {
      const { contributions, bias } = m.explain(text, k);
      return contributions.reduce((sum, value) => sum + value, bias);
    }) : decision;
    return { decision: [...decision], predicted: m.predict(text), probabilities: p && [...p],
             set: m.predictionSet(text, 0.8), explained: [...explained] };
  } catch (error) {
    return { error: error.message, name: error.constructor.name };
  }
});
console.log(JSON.stringify(results));
