/** A text or model that cannot be used. */
export class TextsvmError extends Error {
  readonly name: "TextsvmError";
}

export interface Feature {
  text: string;
  weight: number;
  merged: string[];
}

export interface TopFeatures {
  label: string | number | boolean;
  kind: string;
  features: Feature[];
}

export interface Explanation {
  decision: Float64Array;
  texts: string[]; // that the model reads: the text, or texts of columns, joined or alone
  /** Contribution of each UTF-16 unit of the texts, one after the other, to the decision value. */
  contributions: Float64Array;
  bias: number;
  /** Number of substrings of 4 characters, and of those that no training text has; 0 if the kernel counts none. */
  substrings: { all: number; unknown: number };
}

/** A text (a string, or UTF-8); for a model of columns of a table an object with the text of each column. */
export type Text = string | Uint8Array | Readonly<Record<string, string | Uint8Array>>;

/** A trained model, read from a file that `textsvm export --to js` wrote. */
export class Model {
  /** Compiles WebAssembly: a content security policy needs `script-src 'wasm-unsafe-eval'`. */
  constructor(data: ArrayBuffer | Uint8Array);
  readonly task: "classes" | "labels" | "number" | "novelty";
  /** Names of the classes; labels that are not text as JSON. */
  readonly classes: string[];
  /** Columns of the table that the model was trained on; none of a model of texts. */
  readonly columns: string[];
  /** Kernel, labels, heaviest features and training information. */
  readonly about: Record<string, unknown>;
  /** The heaviest features of each class. */
  readonly topFeatures: TopFeatures[];
  /** Of the task "labels": the values above which a label is given. */
  readonly thresholds: Float64Array | null;
  /** Decision values: one for two classes, for "number" and "novelty"; else one for each class, also of two labels. */
  decide(text: Text): Float64Array;
  /** A class, "unsure" if it is rejected, a list of labels, a number, or whether a text is inside. */
  predict(text: Text): string | string[] | number | boolean;
  /** The prediction from decision values. */
  label(decision: Float64Array): string | string[] | number | boolean;
  /** Number of the predicted class from decision values, -1 if it is rejected; for the task "classes". */
  classNumber(decision: Float64Array): number;
  /** Calibrated probability of each class; null without calibration. */
  probabilities(decision: Float64Array): Float64Array | null;
  /** Classes that include the true class with probability `coverage`, of each class with `perClass`; null without
   *  calibration. */
  predictionSet(text: Text, coverage?: number, perClass?: boolean): string[] | null;
  /** Contributions to the decision value with this number; they and the bias sum to it (to the sum of the values of
   *  its machines for one-vs-one). The values of a text without features that equals a training text are no
   *  contributions. `decision` has the decision values of the text if they are known. */
  explain(text: string | Readonly<Record<string, string>>, number?: number, decision?: Float64Array): Explanation;
}
