/**
 * The validator, for plain handlers (specification 4.3): `rp_validator.validate(job.input, rules)`.
 */
export { validate } from "@stint/worker-validator/RuleValidator"
export type { Invalid, Result, Valid } from "@stint/worker-validator/RuleValidator"
