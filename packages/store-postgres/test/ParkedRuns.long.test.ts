import { parkedRunsRule } from "./ParkedRunsRule.ts"

parkedRunsRule(100_000)
