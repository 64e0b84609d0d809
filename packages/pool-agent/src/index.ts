/**
 * Runs workers on other machines, where an agent starts them.
 */
export * as Agent from "./Agent.ts"
export * as AgentOutput from "./AgentOutput.ts"
export * as AgentPool from "./AgentPool.ts"
export * as PlatformLink from "./PlatformLink.ts"
