/**
 * Alerts: problems that an operator must know about, sent to the operator's receivers.
 *
 * ```
 *   events of the platform --> AlertCounts --.
 *   queues, workers, the store --------------+--> AlertRules: what is wrong --> AlertMachine: what to say --> AlertSender --> receivers
 * ```
 */
export * as AlertRules from "./AlertRules.ts"
export * as AlertWatch from "./AlertWatch.ts"
