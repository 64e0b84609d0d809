import { assert, describe, it } from "@effect/vitest"
import type { BuildSettings } from "@stint/contract/Build"
import { EndpointId } from "@stint/contract/Ids"
import { BuildFailed } from "../src/BuildError.ts"
import * as BuildPlan from "../src/BuildPlan.ts"
import { parse } from "../src/Dockerfile.ts"
import { generate } from "../src/GeneratedDockerfile.ts"

const repository = (
  contents: Readonly<Record<string, string>>,
  settings: Partial<BuildSettings> = {}
): BuildPlan.Repository => ({
  endpoint: EndpointId.make("words"),
  settings: { repository: "https://git.example.com/words.git", ...settings },
  files: Object.keys(contents),
  read: (file) => contents[file]
})

const planOf = (one: BuildPlan.Repository): BuildPlan.BuildPlan => {
  const plan = BuildPlan.make(one)
  if (plan instanceof BuildFailed) throw plan
  return plan
}

const failureOf = (one: BuildPlan.Repository): string => {
  const plan = BuildPlan.make(one)
  return plan instanceof BuildFailed ? plan.message : assert.fail("the plan was made")
}

const START = "import stint\nstint.serverless.start({\"handler\": handler})\n"

describe("the plan of a build", () => {
  it("builds the Dockerfile in the repository's root, with the root as context, by default", () => {
    assert.deepStrictEqual(planOf(repository({ Dockerfile: "FROM scratch", "lab1/Dockerfile": "" })), {
      context: "",
      dockerfile: "Dockerfile",
      handler: undefined
    })
  })

  it("reads the path of the Dockerfile from the root, even when the context is a folder", () => {
    const contents = { "lab1/Dockerfile": "FROM scratch", "lab1/handler.py": START }
    assert.deepStrictEqual(planOf(repository(contents, { dockerfile: "./lab1/Dockerfile", context: "lab1/" })), {
      context: "lab1",
      dockerfile: "lab1/Dockerfile",
      handler: undefined
    })
    assert.include(
      failureOf(repository(contents, { dockerfile: "Dockerfile", context: "lab1" })),
      "The repository has no file Dockerfile, which `dockerfile` names. The path is relative to the repository's root, not to the context. The " +
        "repository has lab1/Dockerfile. Set it: stint builds settings words --dockerfile lab1/Dockerfile"
    )
  })

  it("names the Dockerfiles of other folders when the root has none", () => {
    assert.include(
      failureOf(repository({ "lab1/Dockerfile": "", "lab2/Containerfile": "", "handler.py": START })),
      "The repository has lab1/Dockerfile, lab2/Containerfile. Set it: stint builds settings words --dockerfile lab1/Dockerfile"
    )
  })

  it("names a folder with the same name when the context does not exist", () => {
    assert.include(
      failureOf(repository({ Dockerfile: "", "apps/lab1/handler.py": START }, { context: "lab1" })),
      "The repository has no folder lab1, which `context` names. Did you mean apps/lab1? Set it: stint builds settings words --context apps/lab1"
    )
  })

  it("generates a Dockerfile for the only handler that calls start()", () => {
    const contents = { "handler.py": START, "main.py": "print(1)", "requirements.txt": "stint" }
    const plan = planOf(repository(contents))
    assert.deepStrictEqual(plan, { context: "", dockerfile: undefined, handler: "handler.py" })
    assert.strictEqual(
      generate("handler.py", Object.keys(contents), undefined),
      [
        "FROM python:3.12-slim",
        "WORKDIR /app",
        "COPY requirements.txt ./",
        "RUN pip install --no-cache-dir -r requirements.txt",
        "COPY . .",
        "ENTRYPOINT [\"python\",\"-u\",\"/app/handler.py\"]",
        "CMD []",
        ""
      ].join("\n")
    )
    assert.include(generate("src/handler.ts", ["package.json", "package-lock.json"], "base@sha256:1"), "FROM base@sha256:1\n")
    assert.include(generate("src/handler.ts", ["package.json", "package-lock.json"], undefined), "RUN npm ci --omit=dev")
  })

  it("asks which file is the handler when several call start(), and what to do when none does", () => {
    assert.include(
      failureOf(repository({ "handler.py": START, "main.py": START })),
      "several files that may be its handler: handler.py, main.py. Name the handler: stint builds settings words --handler handler.py"
    )
    assert.include(
      failureOf(repository({ "README.md": "start()" })),
      "The repository has no Dockerfile, and the repository's root has no handler"
    )
    assert.include(
      failureOf(repository({ "lab1/app.py": START }, { handler: "app.py" })),
      "Did you mean lab1/app.py? Set it: stint builds settings words --handler lab1/app.py"
    )
    assert.include(
      failureOf(repository({ "lab1/app.py": START, "lab2/x": "" }, { handler: "lab1/app.py", context: "lab2" })),
      "Set the context to a folder that contains it: stint builds settings words --context lab1"
    )
  })

  it("only gives advice about a missing start(), and gives none when a file calls it", () => {
    const without = repository({ Dockerfile: "", "app.py": "print(1)" })
    assert.include(BuildPlan.startAdvice(without, planOf(without)) ?? "", "No Python, TypeScript or JavaScript file")
    const elsewhere = repository({ "lab1/Dockerfile": "", "lab1/app.py": "", "lab2/app.py": START }, {
      dockerfile: "lab1/Dockerfile",
      context: "lab1"
    })
    assert.include(BuildPlan.startAdvice(elsewhere, planOf(elsewhere)) ?? "", "in the folder lab1 calls start()")
    const found = repository({ Dockerfile: "", "src/deep/app.ts": "serverless.start ({ handler })" })
    assert.isUndefined(BuildPlan.startAdvice(found, planOf(found)))
    const unread = { ...without, read: () => undefined }
    assert.isUndefined(BuildPlan.startAdvice(unread, planOf(unread)))
  })

  it("searches only some of the text for start(), because the platform waits for the search", () => {
    const contents = Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`a${at}.py`, ""]))
    let reads = 0
    const large = {
      ...repository({ Dockerfile: "", ...contents }),
      read: () => {
        reads += 1
        return "x".repeat(1_000_000)
      }
    }
    assert.isUndefined(BuildPlan.startAdvice(large, planOf(large)))
    assert.isBelow(reads, 12)
  })
})

describe("a COPY that fails", () => {
  const explain = (contents: Readonly<Record<string, string>>, settings: Partial<BuildSettings>) => {
    const one = repository(contents, settings)
    return BuildPlan.explainCopy(one, planOf(one))?.message
  }

  it("names the context that contains the files, when the context was left at the root", () => {
    const contents = {
      "lab1/Dockerfile": "FROM python\nCOPY handler.py requirements.txt /app/\nCOPY --from=0 /x /y\n",
      "lab1/handler.py": START,
      "lab1/requirements.txt": "",
      "lab2/handler.py": START
    }
    assert.strictEqual(
      explain(contents, { dockerfile: "lab1/Dockerfile" }),
      "COPY handler.py fails, because the build context is the repository's root, which has no handler.py. The repository has lab1/handler.py. " +
        "Set the context to lab1: stint builds settings words --context lab1"
    )
    assert.isUndefined(explain(contents, { dockerfile: "lab1/Dockerfile", context: "lab1" }))
  })

  it("names the root when the Dockerfile copies from there", () => {
    assert.include(
      explain({ "docker/Dockerfile": "FROM a\nCOPY src/app.py /app/", "src/app.py": START }, {
        dockerfile: "docker/Dockerfile",
        context: "docker"
      }) ?? "",
      "Set the context to the repository's root: stint builds settings words --context ."
    )
  })

  it("reports that no folder has all files, or that a file was not committed", () => {
    assert.include(
      explain({ Dockerfile: "FROM a\nCOPY a.py b.py /", "x/a.py": "", "y/b.py": "" }, {}) ?? "",
      "but no folder has all files that the Dockerfile copies. Write the paths of COPY relative to the repository's root."
    )
    assert.include(
      explain({ Dockerfile: "FROM a\nCOPY model.bin /" }, {}) ?? "",
      "No folder of the repository has it at this commit. Commit the file, or correct the Dockerfile."
    )
  })
})

describe("a Dockerfile", () => {
  it("is read with continued lines, comments, stages, the JSON form, flags and here-documents", () => {
    const text = [
      "# syntax=docker/dockerfile:1",
      "ARG TAG=1",
      "FROM node:22 AS build",
      "COPY [\"a file.ts\", \"b.ts\", \"/app/\"]",
      "copy --chown=1:1 --link c.ts \\",
      "  # a comment between",
      "  d/ /app/",
      "RUN <<EOF",
      "COPY never.ts /",
      "EOF",
      "FROM build AS tests",
      "FROM --platform=linux/amd64 gcr.io/x/base@sha256:abc",
      "FROM scratch",
      "FROM base:$TAG",
      "COPY --from=build /app /app",
      "ADD https://example.com/x.tgz *.json ./e.json /",
      ""
    ].join("\n")
    assert.deepStrictEqual(parse(text), {
      bases: ["node:22", "gcr.io/x/base@sha256:abc"],
      copied: ["a file.ts", "b.ts", "c.ts", "d", "e.json"]
    })
  })
})
