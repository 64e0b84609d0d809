/**
 * Named volumes: the setting `STINT_VOLUMES`, and the volumes of endpoints in a configuration file.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as VolumesConfig from "../src/config/VolumesConfig.ts"
import * as Project from "../src/plugins/Project.ts"

const volumesIn = (text: string) =>
  Effect.runPromise(
    Effect.match(VolumesConfig.load, { onSuccess: (volumes) => volumes, onFailure: ({ message }) => message }).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({ STINT_VOLUMES: text }))
    )
  )

describe("STINT_VOLUMES", () => {
  it("maps names to folders", async () => {
    expect(await volumesIn("")).toEqual({})
    expect(await volumesIn("shared=/srv/a=b, team.2=/mnt/nfs/stint")).toEqual({
      shared: "/srv/a=b",
      "team.2": "/mnt/nfs/stint"
    })
  })

  it.each(["shared", "shared=srv", "/srv/shared", "__proto__=/srv", "shared=/a, shared=/b"])(
    "is refused with an example when it is %j",
    async (text) => {
      expect(await volumesIn(text)).toMatch(/STINT_VOLUMES/)
    }
  )
})

describe("volumes of an endpoint in a file", () => {
  let folder: string
  let count = 0

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stint-volumes-"))
    await writeFile(join(folder, "h.ts"), "")
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** The source of the endpoint, or the error. */
  const load = async (definition: string) => {
    const file = join(folder, `${++count}.config.mjs`)
    await writeFile(file, `export default { endpoints: { e: ${definition} } }`)
    return Effect.runPromise(
      Effect.match(Project.load(file), {
        onSuccess: ({ endpoints }): unknown => endpoints[0]?.source,
        onFailure: ({ hint, message }) => `${message} ${hint}`
      }).pipe(Effect.provide(NodeServices.layer))
    )
  }

  it("belong to the source of handlers, commands and containers", async () => {
    const volumes = [{ source: "shared" }]
    for (const program of ["handler: \"./h.ts\"", "command: [\"true\"]", "image: \"worker:1\""]) {
      expect(await load(`{ ${program}, volumes: [{ source: "shared" }] }`)).toMatchObject({ volumes })
    }
  })

  it.each([
    ["handler: \"./h.ts\", volumes: [{ source: \"shared\", readOnly: true }]", /readOnly is only for containers/],
    ["command: [\"true\"], volumes: [{ source: \"shared\", target: \"/data\" }]", /target is only for containers/],
    ["command: [\"true\"], volumes: [{ source: \"/srv\" }]", /Expected the name of a volume in STINT_VOLUMES/],
    ["command: [\"true\"], volumes: [{ source: \"a\" }, { source: \"b\" }]", /volumes/],
    ["external: true, volumes: [{ source: \"shared\" }]", /the platform does not start its workers/]
  ])("are refused when a process cannot have them: %s", async (definition, reason) => {
    expect(await load(`{ ${definition} }`)).toMatch(reason)
  })
})
