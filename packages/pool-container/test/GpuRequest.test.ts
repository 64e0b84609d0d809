import { assert, describe, it } from "@effect/vitest"
import { gpuHintOf, gpuRequestOf } from "../src/GpuRequest.ts"

const docker = { version: "28.2.2", isPodman: false }
const podman = (version: string) => ({ version, isPodman: true })

describe("GpuRequest", () => {
  it("asks Docker for devices by number, and for a number of devices only when none are assigned", () => {
    const common = { Driver: "nvidia" as const, Capabilities: [["gpu"]] }
    assert.deepStrictEqual(gpuRequestOf(docker, 2, ["1", "GPU-5ba4"]), { ...common, DeviceIDs: ["1", "GPU-5ba4"] })
    assert.deepStrictEqual(gpuRequestOf(docker, 2, undefined), { ...common, Count: 2 })
    assert.deepStrictEqual(gpuRequestOf(docker, "all", undefined), { ...common, Count: -1 })
  })

  it("asks Podman for devices by their CDI names", () => {
    const common = { Driver: "cdi" as const, Capabilities: [["gpu"]] }
    assert.deepStrictEqual(gpuRequestOf(podman("5.4.0"), 1, ["1"]), { ...common, DeviceIDs: ["nvidia.com/gpu=1"] })
    assert.deepStrictEqual(gpuRequestOf(podman("6.0.0-rc1"), 2, undefined), {
      ...common,
      DeviceIDs: ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    })
    assert.deepStrictEqual(gpuRequestOf(podman("5.10.1"), "all", undefined), { ...common, DeviceIDs: ["nvidia.com/gpu=all"] })
    assert.property(gpuRequestOf(podman("next"), 1, ["0"]), "DeviceIDs")
  })

  it("refuses a Podman that ignores device requests", () => {
    for (const version of ["4.3.1", "4.9.3", "5.3.2"]) {
      const refused = gpuRequestOf(podman(version), 1, ["0"])
      if (!("problem" in refused)) return assert.fail(`Podman ${version} is not refused`)
      assert.include(refused.problem, version)
      assert.include(refused.hint, "5.4")
    }
  })

  it("has a hint for messages about GPUs only", () => {
    assert.match(gpuHintOf("unresolvable CDI devices nvidia.com/gpu=7") ?? "", /nvidia-ctk cdi generate/)
    assert.match(gpuHintOf("could not select device driver \"nvidia\" with capabilities: [[gpu]]") ?? "", /Container Toolkit/)
    assert.isUndefined(gpuHintOf("no such network"))
  })
})
