/**
 * The version of the SDK. A constant, because a bundled worker has no package.json next to it; a test compares it with the version in package.json.
 */

/**
 * The value of `runpod_version` in heartbeats and in the report of an exception (docs/spec/handler.md#exceptions,
 * docs/spec/worker-protocol.md#heartbeat).
 */
export const VERSION = "0.0.0"
