// Decide texts by an exported model: node exported.mjs model.bin textsvm.mjs [textsvm.wasm] < texts.json > results.json
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [model, module, wasm] = process.argv.slice(2);
const { Model, WasmModel } = await import(pathToFileURL(module));
const data = readFileSync(model);
const m = wasm ? await WasmModel.load(data, readFileSync(wasm), 3000) : new Model(data);
const results = JSON.parse(readFileSync(0, "utf8")).map((each) => {
  const text = typeof each === "string" ? each : Uint8Array.from(each);
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
