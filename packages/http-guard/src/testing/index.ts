/**
 * What tests of code that makes guarded requests are written with.
 */
export * as GuardedHttpTest from "./GuardedHttpTest.ts"
