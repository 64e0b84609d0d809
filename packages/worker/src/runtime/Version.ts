/**
 * Which version of the SDK this is. A constant, because a bundled worker has no package.json beside it; a test holds it equal to
 * the package's.
 */

/**
 * What the platform is told as `runpod_version`, in heartbeats and in the report of an exception (docs/spec/handler.md#exceptions,
 * docs/spec/worker-protocol.md#heartbeat).
 */
export const VERSION = "0.0.0"
