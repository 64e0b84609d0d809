/**
 * Typed, durable pipelines: definitions as values, an interpreter over a journal, and a test kit.
 */
export * as Graph from "./Graph.ts"
export * as Journal from "./Journal.ts"
export * as Mermaid from "./Mermaid.ts"
export * as Pipeline from "./Pipeline.ts"
export * as StepKind from "./StepKind.ts"
export * as WorkerJournal from "./WorkerJournal.ts"
