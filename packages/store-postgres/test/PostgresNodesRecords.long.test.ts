/**
 * The suites of PostgresNodes.long.test.ts for the other stores: what belongs to jobs, and the control data.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import {
  auditStoreSuite,
  batchStoreSuite,
  endpointRemovalSuite,
  endpointStoreSuite,
  jobLogStoreSuite,
  keyStoreSuite,
  outboxSuite,
  releaseStoreSuite,
  runWebhookSuite,
  secretStoreSuite,
  textSearchSuite,
  usageStoreSuite
} from "@stint/store-testing"
import { AuditStore } from "@stint/store/AuditStore"
import { BatchStore } from "@stint/store/BatchStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobLogStore } from "@stint/store/JobLogStore"
import { KeyStore } from "@stint/store/KeyStore"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import { SecretStore } from "@stint/store/SecretStore"
import { TextIndex } from "@stint/store/TextIndex"
import { UsageStore } from "@stint/store/UsageStore"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import { webhookDeliverySuite } from "@stint/webhooks-testing"
import { missing, testCluster } from "./TestCluster.ts"
import { deadlocks, twoNodes } from "./TwoNodes.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "the records of two nodes", () => {
  const name = "postgres, each call at a random one of two nodes"
  const cluster = testCluster()
  const { calledAtBoth, keys, stores } = twoNodes(cluster)
  batchStoreSuite(name, stores, { sequences: 4 })
  outboxSuite(name, stores)
  runWebhookSuite(name, stores)
  webhookDeliverySuite(name, stores, { jobs: 100, seeds: [31] })
  jobLogStoreSuite(name, stores)
  textSearchSuite(name, stores, { isIndexed: true, sequences: 3 })
  endpointStoreSuite(name, stores)
  endpointRemovalSuite(name, stores)
  releaseStoreSuite(name, stores)
  keyStoreSuite(name, keys)
  secretStoreSuite(name, stores)
  auditStoreSuite(name, stores)
  usageStoreSuite(name, stores)
  calledAtBoth([
    BatchStore,
    WebhookStore,
    WebhookSecretStore,
    WebhookAttemptStore,
    JobLogStore,
    EndpointStore,
    ReleaseStore,
    KeyStore,
    SecretStore,
    TextIndex,
    AuditStore,
    UsageStore
  ])
  it("did not deadlock", async () => {
    assert.strictEqual(await deadlocks(cluster), 0)
  })
})
