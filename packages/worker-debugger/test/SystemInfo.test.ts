import { afterAll, describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { PlatformStub, WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import * as os from "node:os"
import { join } from "node:path"
import { Debugger } from "../src/index.ts"
import * as SystemInfo from "../src/SystemInfo.ts"
import { machine, reportIn, start } from "./DebuggedWorker.ts"

const folder = mkdtempSync(join(os.tmpdir(), "nvidia-smi-"))
afterAll(() => rmSync(folder, { recursive: true }))

/** A program that replaces nvidia-smi. */
const program = (name: string, script: string) => {
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
  return path
}

describe("system_info", () => {
  it.live("describes the machine", () =>
    Effect.gen(function*() {
      const info = yield* SystemInfo.read({ nvidiaSmi: join(folder, "missing") })
      expect(info).toEqual({
        os: `${os.type()} ${os.release()}`,
        platform: process.platform,
        kernel: os.release(),
        arch: process.arch,
        processor: expect.any(String),
        cpu_count: os.availableParallelism(),
        memory_total_bytes: os.totalmem(),
        node_version: process.versions.node,
        runpod: expect.stringMatching(/^\d+\.\d+\.\d+/),
        gpus: []
      })
      expect(JSON.parse(JSON.stringify(info))).toEqual(info)
    }))

  it.live("lists the GPUs of nvidia-smi", () =>
    Effect.gen(function*() {
      const nvidiaSmi = program(
        "two",
        "[ \"$1 $2\" = \"--query-gpu=name --format=csv,noheader\" ] && printf 'NVIDIA H200\\nNVIDIA L4\\n'"
      )
      expect((yield* SystemInfo.read({ nvidiaSmi })).gpus).toEqual(["NVIDIA H200", "NVIDIA L4"])
    }))

  it.live("lists no GPUs when nvidia-smi fails", () =>
    Effect.gen(function*() {
      const nvidiaSmi = program("fails", "echo 'NVIDIA-SMI has failed'; exit 9")
      expect((yield* SystemInfo.read({ nvidiaSmi })).gpus).toEqual([])
    }))

  it.live("stops waiting for a hanging nvidia-smi", () =>
    Effect.gen(function*() {
      const nvidiaSmi = program("hangs", "echo 'NVIDIA H200'; exec sleep 600")
      expect((yield* SystemInfo.read({ nvidiaSmi, gpuLimit: 100 })).gpus).toEqual([])
    }))

  it.live("is read once, during the first job", () => {
    let reads = 0
    const systemInfo = Effect.sync(() => {
      reads++
      return machine
    })
    return Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      yield* start(stub, Handler.fromFunction(() => ({})), { argv: ["--rp_debugger"], systemInfo })
      expect(reads).toBe(0)
      for (let job = 0; job < 3; job++) {
        const id = stub.submit(null)
        yield* Effect.promise(() => stub.resultOf(id))
        expect(reportIn(JSON.parse(stub.of("job-done", id)[0]?.text ?? "").output).system_info).toEqual(machine)
      }
      expect(reads).toBe(1)
    })
  })

  it.effect("comes from this machine by default", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(Handler.fromFunction(() => ({})), null, {}, {
        middleware: [Debugger.middlewareAlways]
      })
      expect(reportIn(result.output).system_info).toMatchObject({
        platform: process.platform,
        node_version: process.versions.node
      })
    }))
})
