/**
 * Starts and stops workers depending on the waiting jobs.
 */
export * as Autoscaler from "./Autoscaler.ts"
export * as ExitClassification from "./ExitClassification.ts"
export * as RestartBackoff from "./RestartBackoff.ts"
export * as ScalingPolicy from "./ScalingPolicy.ts"
export * as WorkerConnection from "./WorkerConnection.ts"
export * as WorkerHealth from "./WorkerHealth.ts"
