/**
 * The input validator, for handler functions (docs/spec/validator.md#validating-an-input): `rp_validator.validate(job.input, rules)`.
 */
export { validate } from "@stint/worker-validator/RuleValidator"
export type { Invalid, Result, Valid } from "@stint/worker-validator/RuleValidator"
