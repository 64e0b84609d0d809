/**
 * The flags of a submission: every option of `/run` (docs/spec/jobs-api.md#request-body).
 */
import { RunRequest, S3Config, WebhookEvent } from "@stint/contract/Job"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import { duration, time, toMillis } from "./SharedFlags.ts"

/** The flags of the policy, which jobs and batches share. */
export const policyFlags = {
  timeout: duration("timeout").pipe(Flag.withDescription("How long one attempt may run, e.g. 10m"), Flag.optional),
  ttl: duration("ttl").pipe(
    Flag.withDescription("How long the job may exist, including waits, counted from its start time, e.g. 1h"),
    Flag.optional
  ),
  maxAttempts: Flag.Int("max-attempts").pipe(Flag.withDescription("Number of attempts, 1 to 100"), Flag.optional),
  retryErrors: Flag.Boolean("retry-errors").pipe(
    Flag.withDescription("Also retry after an error of the handler; --no-retry-errors overrides the endpoint's setting"),
    Flag.optional
  ),
  backoff: duration("backoff").pipe(Flag.withDescription("Wait before the second attempt, e.g. 10s"), Flag.optional),
  backoffFactor: Flag.Finite("backoff-factor").pipe(
    Flag.withDescription("Factor by which each further wait grows, 1 to 10; default 2"),
    Flag.optional
  ),
  backoffMax: duration("backoff-max").pipe(Flag.withDescription("Longest wait; default 1h"), Flag.optional),
  lowPriority: Flag.Boolean("low-priority").pipe(
    Flag.withDescription("Start no worker for this job"),
    Flag.optional
  )
}

/** The flags of a submission. */
export const submitFlags = {
  ...policyFlags,
  priority: Flag.Int("priority").pipe(Flag.withDescription("-100 to 100; higher runs first"), Flag.optional),
  tag: Flag.String("tag").pipe(Flag.withDescription("A label for finding the job; repeatable"), Flag.atLeast(0)),
  webhook: Flag.String("webhook").pipe(Flag.withDescription("URL that receives the job when it has ended"), Flag.optional),
  webhookEvent: Flag.Literals("webhook-event", WebhookEvent.literals).pipe(
    Flag.withDescription("An event that the webhook receives: start, output, progress or completed (default); repeatable"),
    Flag.atLeast(0)
  ),
  at: time("at").pipe(
    Flag.withDescription("When the job may start: 2026-11-22T14:00:00Z, or \"2026-11-22 14:00\" in local time"),
    Flag.optional
  ),
  in: duration("in").pipe(Flag.withDescription("Like --at, but as a duration from now, e.g. 10m"), Flag.optional),
  idempotencyKey: Flag.String("idempotency-key").pipe(
    Flag.withDescription("A repeated command with the same key and options returns the same job"),
    Flag.optional
  ),
  s3Config: Flag.String("s3-config").pipe(
    Flag.withDescription("A JSON file with the bucket for the worker's uploads"),
    Flag.optional
  )
}

type Flags<Config> = { readonly [Name in keyof Config]: Config[Name] extends Flag.Flag<infer A> ? A : never }

/** Keeps the members that are set. */
export const given = <A>(name: string, value: Option.Option<A>): Readonly<Record<string, A>> =>
  Option.isSome(value) ? { [name]: value.value } : {}

const isEmpty = (value: object): boolean => Object.keys(value).length === 0

/** The policy that these flags set, undecoded; undefined when none is set. */
const policyOf = (flags: Flags<typeof policyFlags>) => {
  const backoff = {
    ...given("initialMs", Option.map(flags.backoff, toMillis)),
    ...given("factor", flags.backoffFactor),
    ...given("maxMs", Option.map(flags.backoffMax, toMillis))
  }
  const retry = {
    ...given("maxAttempts", flags.maxAttempts),
    ...given("onError", flags.retryErrors),
    ...(isEmpty(backoff) ? {} : { backoff })
  }
  const policy = {
    ...given("executionTimeout", Option.map(flags.timeout, toMillis)),
    ...given("ttl", Option.map(flags.ttl, toMillis)),
    ...given("lowPriority", flags.lowPriority),
    ...(isEmpty(retry) ? {} : { retry })
  }
  return isEmpty(policy) ? {} : { policy }
}

const { input: _, ...optionFields } = RunRequest.fields

const OptionsSchema = Schema.Struct(optionFields)

const decodeOptions = Schema.decodeUnknownEffect(OptionsSchema, { errors: "all" })

const decodePolicy = Schema.decodeUnknownEffect(Schema.Struct({ policy: RunRequest.fields.policy }), { errors: "all" })

const decodeS3Config = Schema.decodeUnknownEffect(Schema.fromJsonString(S3Config), { errors: "all" })

/** Names the invalid values in the flags. */
export const invalid = (what: string, help = "stint run --help, or docs/spec/jobs-api.md") => (error: Schema.SchemaError) =>
  new CliFailure({
    message: `${what} cannot be used: ${fieldIssues(error).map(formatFieldIssue).join("; ")}`,
    hint: `See the bounds: ${help}.`
  })

const s3ConfigOf = Effect.fnUntraced(function*(file: Option.Option<string>) {
  if (Option.isNone(file)) return {}
  const fs = yield* FileSystem.FileSystem
  const text = yield* fs.readFileString(file.value).pipe(
    Effect.mapError((cause) => new CliFailure({ message: `The bucket cannot be read: ${cause.message}`, hint: "" }))
  )
  return { s3Config: yield* Effect.mapError(decodeS3Config(text), invalid(`The bucket in ${file.value}`)) }
})

/** The policy that these flags set, decoded. */
export const batchPolicy = (flags: Flags<typeof policyFlags>) =>
  Effect.mapError(decodePolicy(policyOf(flags)), invalid("The policy"))

/** The options that these flags set, decoded. */
export const submitOptions = Effect.fnUntraced(function*(flags: Flags<typeof submitFlags>) {
  if (Option.isSome(flags.at) && Option.isSome(flags.in)) {
    return yield* new CliFailure({ message: "Give --at or --in, not both.", hint: "" })
  }
  if (Option.isNone(flags.webhook) && flags.webhookEvent.length > 0) {
    return yield* new CliFailure({
      message: "--webhook-event needs --webhook.",
      hint: "For example: --webhook https://example.com/done"
    })
  }
  const webhook = Option.map(
    flags.webhook,
    (url) => flags.webhookEvent.length === 0 ? url : { url, events: [...new Set(flags.webhookEvent)] }
  )
  const options = {
    ...policyOf(flags),
    ...given("priority", flags.priority),
    ...(flags.tag.length === 0 ? {} : { tags: flags.tag }),
    ...given("webhook", webhook),
    ...given("startAt", flags.at),
    ...given("startAfterMs", Option.map(flags.in, toMillis)),
    ...given("idempotencyKey", flags.idempotencyKey)
  }
  return { ...(yield* Effect.mapError(decodeOptions(options), invalid("The options"))), ...(yield* s3ConfigOf(flags.s3Config)) }
})
