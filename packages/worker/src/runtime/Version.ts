/**
 * Which version of the SDK this is. A constant, because a bundled worker has no package.json beside it; a test holds it equal to
 * the package's.
 */

/** What the platform is told as `runpod_version`, in heartbeats and in the report of an exception (specification 2.4, 2.6). */
export const VERSION = "0.0.0"
