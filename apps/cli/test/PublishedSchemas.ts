/**
 * Checks objects against the API that Kubernetes publishes, from two packages that are generated from it: `kubernetes-models` has validators
 * for missing members, types and fixed values, but ignores unknown members; `@kubernetes/client-node` names all members and their types.
 */
import * as Client from "@kubernetes/client-node"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as apps from "kubernetes-models/apps/v1"
import * as batch from "kubernetes-models/batch/v1"
import * as networking from "kubernetes-models/networking.k8s.io/v1"
import * as policy from "kubernetes-models/policy/v1"
import * as rbac from "kubernetes-models/rbac.authorization.k8s.io/v1"
import * as core from "kubernetes-models/v1"

const decodeMembers = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({ baseName: Schema.String, type: Schema.String })))

const models: Readonly<Record<string, unknown>> = { ...Client }

/** The types of a model's members, by name. */
const membersOf = (type: string): ReadonlyMap<string, string> => {
  const model = models[type]
  if (!Predicate.hasProperty(model, "attributeTypeMap")) throw new Error(`the client has no model ${type}`)
  return new Map(decodeMembers(model.attributeTypeMap).map(({ baseName, type }) => [baseName, type]))
}

const PRIMITIVES: Readonly<Record<string, (value: unknown) => boolean>> = {
  any: () => true,
  boolean: Predicate.isBoolean,
  Date: Predicate.isString,
  IntOrString: (value) => Predicate.isString(value) || Number.isInteger(value),
  number: Predicate.isNumber,
  string: Predicate.isString
}

/** The members that are unknown or have another type, each with its place. */
const problemsOf = (value: unknown, type: string, place: string): ReadonlyArray<string> => {
  const isPrimitive = PRIMITIVES[type]
  if (isPrimitive !== undefined) return isPrimitive(value) ? [] : [`${place} is not a ${type}`]
  const element = /^Array<(.+)>$/.exec(type)?.[1]
  if (element !== undefined) {
    return Array.isArray(value)
      ? value.flatMap((one, index) => problemsOf(one, element, `${place}[${index}]`))
      : [`${place} is not an array`]
  }
  if (!Predicate.isObject(value) || Array.isArray(value)) return [`${place} is not an object`]
  const member = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1]
  if (member !== undefined) return Object.entries(value).flatMap(([name, one]) => problemsOf(one, member, `${place}.${name}`))
  const types = membersOf(type)
  return Object.entries(value).flatMap(([name, one]) => {
    const known = types.get(name)
    return known === undefined ? [`${place}.${name} is unknown`] : problemsOf(one, known, `${place}.${name}`)
  })
}

const decodeKind = Schema.decodeUnknownSync(Schema.Struct({ apiVersion: Schema.String, kind: Schema.String }))

type Validators = Readonly<Record<string, new(data: never) => { readonly validate: () => void }>>

/** By `apiVersion`. */
const VALIDATORS: Readonly<Record<string, Validators>> = {
  v1: { ConfigMap: core.ConfigMap, Namespace: core.Namespace, Service: core.Service, ServiceAccount: core.ServiceAccount },
  "apps/v1": { StatefulSet: apps.StatefulSet },
  "batch/v1": { Job: batch.Job },
  "networking.k8s.io/v1": { Ingress: networking.Ingress, NetworkPolicy: networking.NetworkPolicy },
  "policy/v1": { PodDisruptionBudget: policy.PodDisruptionBudget },
  "rbac.authorization.k8s.io/v1": { Role: rbac.Role, RoleBinding: rbac.RoleBinding }
}

/** What Kubernetes would not accept, or would ignore. */
export const refusalsOf = (object: unknown): ReadonlyArray<string> => {
  const { apiVersion, kind } = decodeKind(object)
  const problems = problemsOf(object, `V1${kind}`, kind)
  const Model = VALIDATORS[apiVersion]?.[kind]
  if (Model === undefined) return [...problems, `${apiVersion} ${kind} is unknown`]
  try {
    Reflect.construct(Model, [object]).validate()
    return problems
  } catch (cause) {
    return [...problems, String(cause)]
  }
}
