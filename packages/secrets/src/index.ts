/**
 * Stint's secrets: encryption at rest, the variables of workers, and masking of values in their output.
 */
export * as SecretCipher from "./SecretCipher.ts"
export * as SecretMask from "./SecretMask.ts"
export * as Secrets from "./Secrets.ts"
export * as SecretsKey from "./SecretsKey.ts"
