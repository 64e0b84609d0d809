import { expect, layer } from "@effect/vitest"
import { ServerTest } from "@stint/server-testing"
import { Handler, RunningJob } from "@stint/worker"
import * as Effect from "effect/Effect"
import { Progress } from "../src/index.ts"
import { overHttp } from "./ProgressWorker.ts"

layer(ServerTest.layer(), { excludeTestServices: true })("on our platform", (it) => {
  // docs/spec/progress.md#reporting-progress
  it.effect("/status returns the progress as output until the job has a result", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest.ServerTest).endpoint()
      let go = () => {}
      yield* overHttp(
        yield* endpoint.env,
        Handler.fromFunction(async (job) => {
          const progress = RunningJob.service(Progress.Progress)
          for (let step = 1; step <= 3; step++) {
            progress?.update(job, { step })
            await new Promise<void>((resolve) => {
              go = resolve
            })
          }
          return "done"
        })
      )
      const { id } = yield* endpoint.run({})
      for (let step = 1; step <= 3; step++) {
        const job = yield* endpoint.until(
          id,
          ({ output }) => output !== undefined && JSON.stringify(output) === `{"step":${step}}`
        )
        expect(job.status).toBe("IN_PROGRESS")
        go()
      }
      const job = yield* endpoint.until(id, ({ status }) => status !== "IN_PROGRESS")
      expect(job).toMatchObject({ status: "COMPLETED", output: "done" })
    }))
})
