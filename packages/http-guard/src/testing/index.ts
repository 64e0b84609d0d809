/**
 * For tests of code that makes guarded requests.
 */
export * as GuardedHttpTest from "./GuardedHttpTest.ts"
