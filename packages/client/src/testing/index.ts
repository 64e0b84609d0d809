/**
 * What tests of callers need: a platform of functions, without a server. Nothing of it belongs into a program.
 */
export {
  MockFailure,
  type MockHandler,
  type MockJob,
  type MockPlatform,
  mockPlatform,
  type SubmittedJob
} from "./MockPlatform.ts"
