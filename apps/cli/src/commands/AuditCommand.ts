/**
 * `stint audit` lists who changed what.
 */
import type { AuditEntry } from "@stint/contract/Audit"
import { AUDIT_PAGE_LIMIT } from "@stint/contract/AuditApi"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { json, queryOf, since } from "./SharedFlags.ts"

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const whoText = ({ key, name, via }: AuditEntry): string =>
  `${key === name ? name : `${name} (${key})`}${via === "console" ? " in the console" : ""}`

const resultText = ({ result, status }: AuditEntry): string => result === "done" ? "done" : `${result} (${status})`

const format = (entries: ReadonlyArray<AuditEntry>): string =>
  entries.length === 0
    ? "No recorded operation matches."
    : Output.table([
      ["WHEN (UTC)", "WHO", "FROM", "ACTION", "TARGET", "RESULT"],
      ...entries.map((entry) => [
        timeText(entry.at),
        whoText(entry),
        entry.address,
        entry.action,
        entry.target,
        resultText(entry)
      ])
    ])

const DEFAULT_LIMIT = 50

const filter = (name: string, description: string) => Flag.String(name).pipe(Flag.withDescription(description), Flag.optional)

/** `stint audit`. */
export const command = Command.make(
  "audit",
  {
    since: since("since").pipe(Flag.withDescription("Only operations since this time: 2h, 7d, or 2026-11-22"), Flag.optional),
    action: filter("action", "Only this operation, or operations of this group: keys.createKey, keys"),
    key: filter("key", "Only operations with this key: its id or its name; \"platform\" for the platform's own key"),
    target: filter("target", "Only operations on this target and its parts: endpoint/hello, secret/hf-token"),
    result: Flag.Literals("result", ["done", "refused", "failed"]).pipe(
      Flag.withDescription("Only operations with this result"),
      Flag.optional
    ),
    limit: Flag.Int("limit").pipe(
      Flag.withDescription(`Number of operations, 1 to ${AUDIT_PAGE_LIMIT}; default ${DEFAULT_LIMIT}`),
      Flag.withDefault(DEFAULT_LIMIT)
    ),
    cursor: Flag.Int("cursor").pipe(Flag.withDescription("The cursor of the previous page"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ json, limit, ...flags }) {
    const page = yield* call((api) => api.audit.listAudit({ query: { ...queryOf(flags), limit } }))
    yield* Output.print(json, page, ({ entries }) => format(entries))
    if (!json && page.cursor !== null) yield* Output.message(`Older operations: add --cursor ${page.cursor}`)
  })
).pipe(
  Command.withDescription("List who changed what: when, with which key, from where, and with which result"),
  Command.withExamples([
    { command: "stint audit --since 24h", description: "Everything that was changed since yesterday" },
    { command: "stint audit --target endpoint/hello --action releases", description: "The deployments of an endpoint" },
    { command: "stint audit --result refused", description: "Operations that keys attempted without permission" }
  ])
)
