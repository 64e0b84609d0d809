/**
 * Generates a Dockerfile for a repository that has a handler but no Dockerfile. Pure.
 */

/** The official images that are used if the settings name none. */
const BASES = { node: "node:26-slim", python: "python:3.12-slim" } as const

/** `handler` and `files` are relative to the build context. */
export const generate = (handler: string, files: ReadonlyArray<string>, baseImage: string | undefined): string => {
  const language = handler.endsWith(".py") ? "python" : "node"
  const has = (name: string) => files.includes(name)
  const install = language === "python"
    ? has("requirements.txt") ? ["COPY requirements.txt ./", "RUN pip install --no-cache-dir -r requirements.txt"] : []
    : has("package-lock.json")
    ? ["COPY package.json package-lock.json ./", "RUN npm ci --omit=dev"]
    : has("package.json")
    ? ["COPY package.json ./", "RUN npm install --omit=dev"]
    : []
  const start = language === "python" ? ["python", "-u", `/app/${handler}`] : ["node", `/app/${handler}`]
  return [
    `FROM ${baseImage ?? BASES[language]}`,
    "WORKDIR /app",
    ...install,
    "COPY . .",
    `ENTRYPOINT ${JSON.stringify(start)}`,
    "CMD []",
    ""
  ].join("\n")
}
