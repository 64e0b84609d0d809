/**
 * What a plugin package contributes: the field `stint.contributes` of its package.json (docs/extending/contribute.md).
 *
 * ```json
 * "stint": {
 *   "contributes": {
 *     "endpoints": { "words-count": { "handler": "./count.js", "workers": { "max": 2 } } },
 *     "stepKinds": { "words.split": { "module": "./kinds.js", "export": "Split" } },
 *     "pipelines": ["./words.pipeline.json"],
 *     "schedules": [{ "endpoint": "words", "name": "nightly", "cron": "0 3 * * *" }]
 *   }
 * }
 * ```
 */
import { EndpointId } from "@stint/contract/Ids"
import { ScheduleName } from "@stint/contract/Schedule"
import { type FieldIssue, fieldIssues } from "@stint/contract/SchemaIssues"
import * as StepKind from "@stint/pipelines/StepKind"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Definition, describeIssue } from "../config/EndpointDefinition.ts"

/** A file in the package. */
const PackageFile = Schema.String.check(
  Schema.makeFilter((file) =>
    (file.startsWith("./") && !file.split(/[\\/]/).includes("..")) ||
    "a file of the package starts with ./ and contains no .., for example \"./count.js\""
  )
)

const JsonSchema = Schema.Record(Schema.String, Schema.Json)

const {
  command: _command,
  cpus: _cpus,
  cwd: _cwd,
  env: _env,
  external: _external,
  gpus: _gpus,
  handler: _handler,
  image: _image,
  memory: _memory,
  modelToken: _modelToken,
  network: _network,
  pids: _pids,
  pipeline: _pipeline,
  user: _user,
  volumes: _volumes,
  ...settings
} = Definition.fields

const ONLY_TEXTS = "a package may only set texts. The configuration grants secrets: { env: { KEY: { secret: \"NAME\" } } }"

/**
 * An endpoint: one of the package's handlers, with the settings that a configuration may have. It must not name secrets, which only the operator
 * grants.
 */
const ContributedEndpoint = Schema.Struct({
  handler: PackageFile,
  description: Schema.optionalKey(Schema.String),
  /** The JSON Schemas of its input and output, with which pipeline files are checked. Default: any JSON. */
  input: Schema.optionalKey(JsonSchema),
  output: Schema.optionalKey(JsonSchema),
  ...settings,
  env: Schema.optionalKey(Schema.Record(Schema.String, Schema.String.annotate({ message: ONLY_TEXTS })))
})

/** A kind of step: an export of one of the package's modules. `stint plugins write` writes the JSON Schemas. */
const ContributedKind = Schema.Struct({
  module: PackageFile,
  export: Schema.String.check(
    Schema.isPattern(/^[A-Za-z_$][A-Za-z0-9_$]*$/, { message: "expected the name of an export, for example \"Split\"" })
  ),
  description: Schema.optionalKey(Schema.String),
  streams: Schema.optionalKey(Schema.Boolean),
  input: Schema.optionalKey(JsonSchema),
  output: Schema.optionalKey(JsonSchema),
  options: Schema.optionalKey(JsonSchema)
})

/**
 * Members by name. If the rule for names were a Schema of the keys, invalid names would be reported as unexpected keys, without a reason.
 */
const byName = <S extends Schema.Codec<unknown, unknown>>(member: S, isName: (name: string) => boolean, rule: string) =>
  Schema.Record(Schema.String, member).check(
    Schema.makeFilter((members: object) => {
      const wrong = Object.keys(members).find((name) => !isName(name))
      return wrong === undefined || { path: [wrong], issue: rule }
    })
  )

const isEndpointId = Schema.is(EndpointId)

/** A schedule: its endpoint and name, and the settings of `PUT .../schedules/{schedule}`. */
const ContributedSchedule = Schema.StructWithRest(
  Schema.Struct({ endpoint: EndpointId, name: ScheduleName }),
  [Schema.Record(Schema.String, Schema.Json)]
)

const Contributes = Schema.Struct({
  endpoints: Schema.optionalKey(byName(
    ContributedEndpoint,
    isEndpointId,
    "an endpoint id is 1 to 63 letters, digits, - or _, and starts with a letter or a digit"
  )),
  stepKinds: Schema.optionalKey(byName(ContributedKind, StepKind.isName, `a kind's name is ${StepKind.NAME_RULE}`)),
  pipelines: Schema.optionalKey(Schema.Array(PackageFile)),
  schedules: Schema.optionalKey(Schema.Array(ContributedSchedule))
})
/** What a package contributes. */
export type Contributes = typeof Contributes.Type

/** The field `stint` of a package.json. `plugins`: the packages whose contributions a project uses. Default: its `dependencies`. */
const StintField = Schema.Struct({
  contributes: Schema.optionalKey(Contributes),
  plugins: Schema.optionalKey(Schema.Array(Schema.NonEmptyString))
})
/** The field `stint`. */
export type StintField = typeof StintField.Type

/** What Stint reads from a package.json. */
const PackageJson = Schema.fromJsonString(Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  version: Schema.optionalKey(Schema.String),
  dependencies: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  stint: Schema.optionalKey(Schema.Json)
}))
/** What Stint reads from a package.json. */
export type PackageJson = typeof PackageJson.Type

/** Decodes the text of a package.json. */
export const decodePackage = Schema.decodeUnknownEffect(PackageJson)

const decodeField = Schema.decodeUnknownEffect(StintField, { errors: "all", onExcessProperty: "error" })

const KEYS = Object.keys(Contributes.fields)
const KIND_KEYS = Object.keys(ContributedKind.fields)
const ENDPOINT_KEYS = Object.keys(ContributedEndpoint.fields)

/** A mistake, with its path in the package.json: `stint.contributes.endpoints.count.handler: ...`. */
const describe = ({ message, path }: FieldIssue): string => {
  const [field, point] = path
  if (path.length < 2 && !message.includes("excess")) return `${["stint", ...path].join(".")}: ${message}`
  if (field !== "contributes") return `stint.${describeIssue({ message, path }, ["contributes", "plugins"])}`
  const known = point === "stepKinds" ? KIND_KEYS : ENDPOINT_KEYS
  return `stint.contributes.${describeIssue({ message, path: path.slice(1) }, KEYS, known)}`
}

/** Decodes the field `stint`. Fails with a line for each mistake. */
export const decode = (field: unknown): Effect.Effect<StintField, ReadonlyArray<string>> =>
  Effect.mapError(decodeField(field), (error) => fieldIssues(error).map(describe))
