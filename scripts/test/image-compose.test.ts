/**
 * Tests that the compose files for the platform's image match its Dockerfile and the platform's settings (docs/operations/container-image.md).
 */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { parse } from "yaml"
import { SETTING_NAMES } from "../../apps/cli/src/config/SettingNames.ts"
import { IMAGE } from "../image-context.ts"

interface Service {
  readonly image: string
  readonly command?: ReadonlyArray<string>
  readonly init?: boolean
  readonly restart?: string
  readonly stop_grace_period?: string
  readonly ports?: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string>>
  readonly volumes?: ReadonlyArray<string>
  readonly cap_drop?: ReadonlyArray<string>
  readonly security_opt?: ReadonlyArray<string>
  readonly healthcheck: {
    readonly test: ReadonlyArray<string>
    readonly interval: string
    readonly timeout: string
    readonly start_period: string
    readonly retries: number
  }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, null>>
}

const compose = (file: string): Compose => parse(readFileSync(join(IMAGE, file), "utf8"))

const dockerfile = readFileSync(join(IMAGE, "Dockerfile"), "utf8").replaceAll("\\\n", " ")

/** The arguments of each occurrence of an instruction. */
const instruction = (name: string): ReadonlyArray<string> =>
  Array.from(dockerfile.matchAll(new RegExp(`^${name} +(.+)$`, "gm")), ([, rest = ""]) => rest)

const variables = Object.fromEntries(instruction("ENV").map((line) => line.split(/=(.*)/s).slice(0, 2)))

const [check = ""] = instruction("HEALTHCHECK")

/** Compose, as a Docker plugin or as Debian's program. Both check files without an engine. */
const composeProgram = [["docker", "compose"], ["docker-compose"]].find(([command = "", ...args]) =>
  spawnSync(command, [...args, "version"], { stdio: "ignore" }).status === 0
)

const named = (volumes: ReadonlyArray<string>) => volumes.map((one) => one.split(":")).filter(([from = ""]) => /^\w+$/.test(from))

describe("the compose file of the image", () => {
  const { services, volumes } = compose("compose.yaml")
  const stint = services["stint"]
  if (stint === undefined) throw new Error("compose.yaml has no service stint")

  it("publishes the port that the image listens on to this machine only", () => {
    expect(stint.ports).toEqual([`127.0.0.1:\${PORT:-${variables["PORT"]}}:${variables["PORT"]}`])
    expect(instruction("EXPOSE")).toEqual([variables["PORT"]])
    expect(variables["STINT_HOST"]).toBe("0.0.0.0")
  })

  it("keeps the image's volume in a named volume, with the data and the generated key in it", () => {
    const [volume = ""] = instruction("VOLUME")
    expect(named(stint.volumes ?? [])).toEqual([["data", volume]])
    expect(volumes).toHaveProperty("data")
    for (const name of ["STINT_DATA_DIR", "HOME"]) expect(`${variables[name]}/`).toMatch(new RegExp(`^${volume}/`))
    // The same user owns the folder and runs the platform, and is not root.
    const [user = ""] = instruction("USER")
    expect(user).toMatch(/^[1-9]\d*:[1-9]\d*$/)
    expect(instruction("COPY")).toContain(`--chown=${user} data ${volume}`)
  })

  it("mounts the project at the image's working directory", () => {
    const [folder = ""] = instruction("WORKDIR")
    expect(stint.volumes).toContain(`\${STINT_PROJECT:-.}:${folder}:ro`)
    expect(stint.command).toEqual(["serve", "--config", `${folder}/stint.config.ts`])
  })

  it("checks the readiness in the same way as the image", () => {
    const { interval, retries, start_period, test, timeout } = stint.healthcheck
    const [, command = ""] = check.split(/ CMD /)
    expect(test).toEqual(["CMD", ...JSON.parse(command) as ReadonlyArray<string>])
    expect(command).toContain("/readyz")
    for (
      const [option, value] of Object.entries({ interval, timeout, "start-period": start_period, retries: String(retries) })
    ) {
      expect(check).toContain(`--${option}=${value} `)
    }
  })

  it("gives the platform 15 s more than its own grace period, reaps its children, and drops its capabilities", () => {
    const page = readFileSync(join(IMAGE, "../../../docs/reference/README.md"), "utf8")
    const [, grace = ""] = /`STINT_SHUTDOWN_GRACE` +\| (\d+) seconds/.exec(page) ?? []
    expect(stint.stop_grace_period).toBe(`${Number(grace) + 15}s`)
    expect(instruction("STOPSIGNAL")).toEqual(["SIGTERM"])
    // The entry point is Node itself, so that the signal reaches it.
    expect(JSON.parse(instruction("ENTRYPOINT")[0] ?? "")[0]).toBe("node")
    expect(stint).toMatchObject({ init: true, restart: "unless-stopped" })
    expect(stint).toMatchObject({ cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] })
  })

  it("sets only variables that the platform reads, and no secret", () => {
    const known: ReadonlyArray<string> = SETTING_NAMES
    for (const file of ["compose.yaml", "compose.postgres.yaml"]) {
      const { environment } = compose(file).services["stint"] ?? { environment: {} }
      for (const [name, value] of Object.entries(environment)) {
        if (name.startsWith("STINT_")) expect(known).toContain(name)
        if (/KEY|PASSWORD|SECRET/.test(name)) expect(value).toMatch(/^\$\{\w+:\?/)
      }
    }
    for (const name of Object.keys(variables)) if (name.startsWith("STINT_")) expect(known).toContain(name)
  })

  it("adds a database that only the platform can reach, and starts the platform after it", () => {
    const { services, volumes } = compose("compose.postgres.yaml")
    const { postgres, stint } = services
    expect(postgres?.ports).toBeUndefined()
    expect(named(postgres?.volumes ?? [])).toEqual([["database", "/var/lib/postgresql/data"]])
    expect(volumes).toHaveProperty("database")
    expect(stint?.depends_on).toEqual({ postgres: { condition: "service_healthy" } })
    expect(postgres?.healthcheck.test.at(-1)).toContain("pg_isready")
    const { hostname, pathname, username } = new URL(stint?.environment["STINT_DATABASE"] ?? "")
    expect({ hostname, database: pathname.slice(1), username }).toEqual({
      hostname: "postgres",
      database: postgres?.environment["POSTGRES_DB"],
      username: postgres?.environment["POSTGRES_USER"]
    })
    expect(stint?.environment["PGPASSWORD"]).toBe(postgres?.environment["POSTGRES_PASSWORD"])
  })

  it.skipIf(composeProgram === undefined)("is accepted by docker compose, alone and with the database", () => {
    const [command = "", ...args] = composeProgram ?? []
    const config = (...files: ReadonlyArray<string>) =>
      spawnSync(command, [...args, ...files.flatMap((file) => ["--file", join(IMAGE, file)]), "config", "--quiet"], {
        env: { ...process.env, POSTGRES_PASSWORD: "x" },
        encoding: "utf8"
      })
    expect(config("compose.yaml")).toMatchObject({ status: 0, stderr: "" })
    expect(config("compose.yaml", "compose.postgres.yaml")).toMatchObject({ status: 0, stderr: "" })
  })
})
