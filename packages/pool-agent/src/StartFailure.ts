/**
 * Converts errors of starts on other machines to messages, and back.
 */
import type { AgentStartFailure } from "@stint/contract/Agent"
import { NoCapacity, PoolError, PoolUnavailable, SpawnFailed, Unsupported, VolumeMissing } from "@stint/pool/PoolError"

const cut = (text: string, length: number): string => text.slice(0, length)

const failure = (reason: AgentStartFailure["reason"], subject: string, problem: string, hint: string): AgentStartFailure => ({
  reason,
  subject: cut(subject, 4_096),
  problem: cut(problem, 8_192),
  hint: cut(hint, 4_096)
})

/** The message for an error of the agent's pool. */
export const toMessage = (error: PoolError): AgentStartFailure => {
  const { reason } = error
  switch (reason._tag) {
    case "SpawnFailed":
      return failure("SpawnFailed", reason.path, reason.problem, reason.hint)
    case "NoCapacity":
      return failure("NoCapacity", "", reason.problem, "")
    case "VolumeMissing":
      return failure("VolumeMissing", reason.volume, reason.problem, reason.hint)
    case "Unsupported":
      return failure("Unsupported", reason.source, "", "")
    case "PoolUnavailable":
      return failure("PoolUnavailable", "", reason.problem, reason.hint)
    case "ModelMissing":
    case "SecretMissing":
      return failure("PoolUnavailable", "", error.message.replace(/\.$/, ""), "")
  }
}

/** The error for a message. It names the agent. */
export const toError = (agent: string, { hint, problem, reason, subject }: AgentStartFailure): PoolError => {
  switch (reason) {
    case "SpawnFailed":
      return new PoolError({ reason: new SpawnFailed({ path: `${subject} on agent ${agent}`, problem, hint }) })
    case "NoCapacity":
      return new PoolError({ reason: new NoCapacity({ problem: `agent ${agent}: ${problem}` }) })
    case "VolumeMissing":
      return new PoolError({ reason: new VolumeMissing({ volume: subject, problem: `${problem} (agent ${agent})`, hint }) })
    case "Unsupported":
      return new PoolError({ reason: new Unsupported({ source: subject }) })
    case "PoolUnavailable":
      return new PoolError({ reason: new PoolUnavailable({ problem: `${problem} (agent ${agent})`, hint }) })
  }
}
