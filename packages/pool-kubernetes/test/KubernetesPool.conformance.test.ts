import { afterAll, beforeAll } from "@effect/vitest"
import { suite } from "@stint/pool/testing"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import * as KubernetesPool from "../src/KubernetesPool.ts"
import { StubCluster } from "./StubCluster.ts"

const WORKER = join(import.meta.dirname, "../../pool-process/test/fixtures/scripted-worker.ts")

const cluster = new StubCluster()
cluster.runs = true
beforeAll(() => cluster.appear())
afterAll(() => cluster[Symbol.asyncDispose]())

suite("kubernetes, with a stub of the API and real processes", {
  layer: Layer.suspend(() =>
    KubernetesPool.layer({
      dataDir: join(cluster.folder, "data"),
      // The workers of these tests look for the platform at its own address.
      settings: { namespace: "jobs", name: "tested", platformUrl: "http://127.0.0.1:1", kubeconfig: cluster.kubeconfig }
    })
  ),
  source: { type: "container", image: "scripted", command: [WORKER] },
  broken: { type: "container", image: "no-such-image" }
})
