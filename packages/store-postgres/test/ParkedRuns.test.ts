import { parkedRunsRule } from "./ParkedRunsRule.ts"

parkedRunsRule(3_000)
