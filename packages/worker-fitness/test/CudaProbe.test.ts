import { beforeEach, describe, expect, it } from "@effect/vitest"
import { LogMemory } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as CudaInitCheck from "../src/CudaInitCheck.ts"
import * as CudaProbe from "../src/CudaProbe.ts"
import * as GpuBenchmarkCheck from "../src/GpuBenchmarkCheck.ts"
import * as Programs from "../src/Programs.ts"
import { program, reason, temporaryFolder } from "./CheckHarness.ts"

const folder = temporaryFolder()
const path = process.env["PATH"] ?? ""
/** The real python3, not a slow wrapper in the PATH. */
const python = spawnSync("python3", ["-c", "import ctypes, sys; print(sys.executable)"], { encoding: "utf8" }).stdout?.trim()
const compiler = Programs.find("cc", path)

/** The results of both CUDA checks with this python3, and the log. */
const probe = Effect.fnUntraced(function*(options: CudaProbe.Options, limit?: number) {
  const log = LogMemory.make()
  const [init, benchmark] = yield* Effect.all([
    reason(CudaInitCheck.check),
    reason(GpuBenchmarkCheck.check(limit === undefined ? {} : { limit, setting: "PLATFORM_GPU_BENCHMARK_TIMEOUT" }))
  ]).pipe(Effect.provide([CudaProbe.layer(options), log.layer]))
  return { init, benchmark, log: log.lines.map(({ message }) => message) }
})

/** A fake python3, written as a shell program. */
const fake = (name: string, script: string) => ({ python: program(folder, name, script) })

// docs/spec/fitness-checks.md#automatic-checks
describe("the CUDA probe", () => {
  it.live("passes both checks for two working GPUs and runs python3 once", () =>
    Effect.gen(function*() {
      const runs = join(folder, "runs")
      const found = yield* probe(fake(
        "working",
        `echo run >> ${runs}
         echo '{"at": "cuInit", "part": "init"}'
         echo '{"devices": [{"name": "One", "ms": 1.5}, {"name": "Two", "ms": 2}]}'`
      ))
      expect(found).toEqual({ init: undefined, benchmark: undefined, log: [] })
      expect(readFileSync(runs, "utf8")).toBe("run\n")
    }))

  it.live("fails the benchmark of a GPU that is slower than the limit", () =>
    Effect.gen(function*() {
      const slow = fake("slow", `echo '{"devices": [{"name": "One", "ms": 99}, {"name": "Two", "ms": 100.6}]}'`)
      expect(yield* probe(slow, 0.1)).toMatchObject({
        init: undefined,
        benchmark: "GPU 1 (Two) took 101 ms for the benchmark; the limit is 100 ms (PLATFORM_GPU_BENCHMARK_TIMEOUT)"
      })
      expect(yield* probe(slow)).toMatchObject({ benchmark: undefined })
    }))

  it.live("fails with the driver's error when CUDA does not start", () =>
    Effect.gen(function*() {
      const why = "cuInit failed with CUDA_ERROR_NO_DEVICE (100)"
      const found = yield* probe(fake("no-device", `echo '{"failed": "${why}", "part": "init"}'`))
      expect(found).toEqual({ init: why, benchmark: why, log: [] })
    }))

  it.live("fails only the benchmark when a GPU computes wrong data", () =>
    Effect.gen(function*() {
      const why = "GPU 0 (One): memory has wrong contents after a fill and a copy"
      expect(yield* probe(fake("wrong", `echo '{"failed": "${why}", "part": "compute"}'`)))
        .toMatchObject({ init: undefined, benchmark: why })
    }))

  it.live("kills a hanging driver after the limit and reports the step", () =>
    Effect.gen(function*() {
      const pid = join(folder, "pid")
      const { python } = fake("hangs", `echo $$ > ${pid}; echo '{"at": "cuInit", "part": "init"}'; exec sleep 600`)
      expect(yield* probe({ python, limit: 1 })).toMatchObject({ init: `${python} did not end within 1 s, at cuInit` })
      const gone = () => spawnSync("kill", ["-0", readFileSync(pid, "utf8").trim()]).status !== 0
      yield* Effect.promise(() => expect.poll(gone, { timeout: 10_000 }).toBe(true))
    }))

  it.live("reports the step and the signal when a driver crashes", () =>
    Effect.gen(function*() {
      const { python } = fake(
        "crashes",
        `echo '{"at": "GPU 0 (One): cuMemAlloc_v2", "part": "compute"}'; echo oh >&2; kill -SEGV $$`
      )
      expect(yield* probe({ python })).toMatchObject({
        init: undefined,
        benchmark: `${python} ended with SIGSEGV (oh), at GPU 0 (One): cuMemAlloc_v2`
      })
    }))

  it.live.each(
    [
      ["that does not exist", { python: "/no/such/python3" }, /\/no\/such\/python3 cannot be started \(ENOENT\)/],
      [
        "that cannot run",
        fake("broken", "echo 'Fatal Python error' >&2; exit 1"),
        /broken ended with exit code 1 \(Fatal Python error\)/
      ],
      [
        "without ctypes",
        fake("bare", `echo '{"unavailable": "No module named ctypes"}'`),
        /python3 cannot be used: No module named ctypes/
      ]
    ] as const
  )("passes both checks and logs once for a python3 %s", ([, options, why]) =>
    Effect.gen(function*() {
      const { benchmark, init, log } = yield* probe(options)
      expect([init, benchmark]).toEqual([undefined, undefined])
      expect(log).toEqual([expect.stringMatching(why)])
      expect(log[0]).toMatch(/^CUDA is not checked: .*Set PLATFORM_GPU_TEST_COMMAND to test the GPU with another program\.$/)
    }))
})

describe("the CUDA program", () => {
  beforeEach(({ skip }) => skip(python === undefined || python === "", "there is no python3 on this machine"))

  const libraries = temporaryFolder()

  /** The real python3 with the fake driver instead of the machine's driver, if any. */
  const withDriver = (name: string, fault: string) =>
    fake(name, `LD_LIBRARY_PATH=${libraries} FAKE_CUDA='${fault}' exec ${python} "$@"`)

  it.live("fails when no driver can be loaded", () =>
    Effect.gen(function*() {
      const broken = temporaryFolder()
      writeFileSync(join(broken, "libcuda.so.1"), "not a library")
      const { init } = yield* probe(fake("no-driver", `LD_LIBRARY_PATH=${broken} exec ${python} "$@"`))
      expect(init).toMatch(/^libcuda\.so\.1 cannot be loaded: .*libcuda\.so\.1/)
    }))

  describe("with a fake driver in C", () => {
    beforeEach(({ skip }) => skip(compiler === undefined, "there is no C compiler (cc) on this machine"))

    const compiled = spawnSync(compiler ?? "cc", [
      "-shared",
      "-fPIC",
      "-O2",
      "-o",
      join(libraries, "libcuda.so.1"),
      join(import.meta.dirname, "fixtures/libcuda.c")
    ], { encoding: "utf8" })

    it.live("passes two working GPUs", () =>
      Effect.gen(function*() {
        expect(compiled.stderr).toBe("")
        const result = yield* Effect.flatMap(CudaProbe.CudaProbe, ({ result }) => result).pipe(
          Effect.provide(CudaProbe.layer(withDriver("c-good", "")))
        )
        expect(result).toEqual({
          _tag: "Done",
          devices: [{ name: "Fake One", ms: expect.any(Number) }, { name: "Fake Two", ms: expect.any(Number) }]
        })
      }))

    it.live.each(
      [
        ["no device", "cuInit failed with CUDA_ERROR_NO_DEVICE (100)", "the same"],
        ["count is zero", "CUDA finds no GPU", "the same"],
        ["no context", "GPU 1 (Fake Two): cuDevicePrimaryCtxRetain failed with CUDA_ERROR_OUT_OF_MEMORY (2)", "the same"],
        ["no memory", undefined, "GPU 1 (Fake Two): cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY (2)"],
        ["wrong memory", undefined, "GPU 0 (Fake One): memory has wrong contents after a fill and a copy"]
      ] as const
    )("%s: %s", ([fault, init, benchmark]) =>
      Effect.gen(function*() {
        expect(yield* probe(withDriver("c-fault", fault), 60))
          .toEqual({ init, benchmark: benchmark === "the same" ? init : benchmark, log: [] })
      }))

    it.live.each(
      [
        ["init hangs", /did not end within 3 s, at cuInit$/, /at cuInit$/],
        ["compute hangs", undefined, /did not end within 3 s, at GPU 0 \(Fake One\): cuCtxSynchronize$/],
        ["init crashes", /ended with SIGABRT.*, at cuInit$/, /SIGABRT/]
      ] as const
    )("reports the step: %s", ([fault, init, benchmark]) =>
      Effect.gen(function*() {
        const found = yield* probe({ ...withDriver("c-stuck", fault), limit: 3 })
        if (init === undefined) expect(found.init).toBeUndefined()
        else expect(found.init).toMatch(init)
        expect(found.benchmark).toMatch(benchmark)
      }))
  })
})
