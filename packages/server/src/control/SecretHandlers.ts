/**
 * The control API for secrets. No response contains a value, and no error repeats a part of a body.
 */
import { Api } from "@stint/contract/Api"
import { secretNamesOf } from "@stint/contract/Endpoint"
import { Conflict, InvalidRequest, problemMembers, SecretNotFound, Unavailable } from "@stint/contract/Problem"
import { MAX_SECRET_BYTES, SecretName, SecretValue } from "@stint/contract/Secret"
import { Secrets, type SecretsError } from "@stint/secrets/Secrets"
import type { SecretsKeyError } from "@stint/secrets/SecretsKey"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import { readText } from "../http/RequestBody.ts"

const isName = Schema.is(SecretName)
const decodeBody = Schema.decodeOption(Schema.fromJsonString(SecretValue))

const invalid = (message: string, hint: string) => Effect.fail(new InvalidRequest(problemMembers(message, hint)))

const secretMissing = (name: string) =>
  new SecretNotFound(problemMembers(`There is no secret "${excerpt(name)}".`, "List secrets with: stint secrets list"))

/** The value in a body. Its errors do not describe the body, which contains the value. */
const valueOf = (text: string) => {
  const body = decodeBody(text)
  if (Option.isNone(body)) return invalid("The body is not a secret.", "Send a JSON object like {\"value\": \"...\"}.")
  const value = Redacted.value(body.value.value)
  const bytes = Buffer.byteLength(value)
  if (bytes === 0) return invalid("The value is empty.", "Send the value, or delete the secret.")
  if (bytes > MAX_SECRET_BYTES) {
    return invalid(
      `The value has ${bytes} bytes; at most ${MAX_SECRET_BYTES} are allowed.`,
      "Store large values in a file that the workers can read."
    )
  }
  return value.includes("\0")
    ? invalid("The value contains a NUL character, which a variable cannot contain.", "Encode the value, for example in base64.")
    : Effect.succeed(body.value.value)
}

const toUnavailable = ({ hint, message }: SecretsError | SecretsKeyError) =>
  Effect.fail(new Unavailable(problemMembers(message, hint)))

export const layer = HttpApiBuilder.group(
  Api,
  "secrets",
  Effect.fnUntraced(function*(handlers) {
    const secrets = yield* Secrets
    const endpoints = yield* EndpointStore
    const limits = yield* Limits

    /** The endpoints that use a secret. */
    const findUsers = Effect.map(
      mapStoreErrors(endpoints.list),
      (all) => (name: string) => all.filter((one) => secretNamesOf(one).some((secret) => secret === name)).map(({ id }) => id)
    )

    return handlers
      .handle("listSecrets", () =>
        Effect.map(findUsers, (usersOf) => ({
          secrets: secrets.list().map((secret) => ({ ...secret, endpoints: usersOf(secret.name) }))
        })))
      .handleRaw(
        "setSecret",
        Effect.fnUntraced(function*({ params, request }) {
          const name = params.secret
          if (!isName(name)) {
            return yield* invalid(
              `"${excerpt(name)}" is not a valid name for a secret.`,
              "Use 1 to 63 letters, digits, - _ or ., starting with a letter or a digit."
            )
          }
          const text = yield* readText(request, limits.controlBytes, `A secret has at most ${MAX_SECRET_BYTES} bytes.`)
          const value = yield* valueOf(text)
          const usersOf = yield* findUsers
          const secret = yield* secrets.set(name, value).pipe(
            Effect.catchTag(["SecretsError", "SecretsKeyError"], toUnavailable),
            Effect.catchTag("StoreError", (error) => mapStoreErrors(Effect.fail(error)))
          )
          return { ...secret, endpoints: usersOf(name) }
        })
      )
      .handle(
        "deleteSecret",
        Effect.fnUntraced(function*({ params, query }) {
          const name = params.secret
          const users = (yield* findUsers)(name)
          if (!isName(name) || secrets.versionOf(name) === undefined) return yield* secretMissing(name)
          if (users.length > 0 && query.force !== "true") {
            return yield* new Conflict(problemMembers(
              `The secret "${name}" is used by ${users.join(", ")}. Without it, their workers could not start.`,
              "Remove the reference first (stint endpoints update ENDPOINT --unset-env NAME), or delete the secret anyway: ?force=true, or " +
                "stint secrets delete --force."
            ))
          }
          if (!(yield* mapStoreErrors(secrets.remove(name)))) return yield* secretMissing(name)
        })
      )
      .handle("rotateSecretsKey", () =>
        secrets.rotateKey.pipe(
          Effect.catchTag("SecretsError", ({ hint, message }) => Effect.fail(new Conflict(problemMembers(message, hint)))),
          Effect.catchTag("SecretsKeyError", toUnavailable),
          Effect.catchTag("StoreError", (error) => mapStoreErrors(Effect.fail(error)))
        ))
  })
)
