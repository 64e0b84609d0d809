/**
 * For tests of handlers that upload; not for production code.
 */
export * as UploadsTest from "./UploadsTest.ts"
