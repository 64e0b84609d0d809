/**
 * Runs workers as pods of Kubernetes.
 */
export * as KubernetesPool from "./KubernetesPool.ts"
export * as KubernetesSettings from "./KubernetesSettings.ts"
