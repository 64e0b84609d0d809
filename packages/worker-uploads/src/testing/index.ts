/**
 * What tests of handlers that upload need. Nothing of it belongs into a program.
 */
export * as UploadsTest from "./UploadsTest.ts"
