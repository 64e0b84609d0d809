import { afterAll, beforeAll, describe } from "@effect/vitest"
import { suite } from "@stint/pool/testing"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import * as KubernetesPool from "../src/KubernetesPool.ts"
import { missing, startCluster } from "./Webernetes.ts"

const WORKER = join(import.meta.dirname, "../../pool-process/test/fixtures/scripted-worker.ts")

describe.skipIf(missing !== undefined)(
  `with a ported scheduler and kubelet${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    let cluster: Awaited<ReturnType<typeof startCluster>> | undefined
    beforeAll(async () => {
      cluster = await startCluster()
    }, 60_000)
    afterAll(() => cluster?.close())

    suite("kubernetes", {
      layer: Layer.suspend(() => {
        if (cluster === undefined) throw new Error("the cluster does not run")
        const { folder, kubeconfig, namespace } = cluster
        return KubernetesPool.layer({
          dataDir: join(folder, "data"),
          settings: { namespace, name: "tested", platformUrl: "http://127.0.0.1:1", kubeconfig }
        })
      }),
      source: { type: "container", image: "scripted:1", command: [WORKER] },
      broken: { type: "container", image: "no-such-image:1" },
      limitMillis: 60_000
    })
  }
)
