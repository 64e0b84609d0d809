/**
 * Tests callers against a mock platform, without a server. For tests only.
 */
export {
  MockFailure,
  type MockHandler,
  type MockJob,
  type MockPlatform,
  mockPlatform,
  type SubmittedJob
} from "./MockPlatform.ts"
