/**
 * Runs workers as Kubernetes pods.
 */
export * as KubernetesPool from "./KubernetesPool.ts"
export * as KubernetesSettings from "./KubernetesSettings.ts"
