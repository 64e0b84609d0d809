import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { suite } from "../src/HttpSuite.ts"
import { layerMemory } from "../src/ServerTest.ts"
import { agentResponses } from "./AgentResponses.ts"
import { budgetResponses } from "./BudgetResponses.ts"
import { builtResponses } from "./BuildResponses.ts"
import { sweep } from "./ErrorResponses.ts"
import { DescribedAnswers } from "./OpenApiResponses.ts"

const answers = new DescribedAnswers()
let stop = () => {}

beforeAll(() => {
  stop = answers.watch()
})

afterAll(() => stop())

suite("memory", layerMemory)
builtResponses()
budgetResponses()
agentResponses()
sweep()

describe("the OpenAPI document", () => {
  it("describes the status, the body and the headers of every response that the tests above received", async () => {
    await answers.settled()
    expect([...answers.wrong].toSorted()).toEqual([])
  })

  it("describes only responses that occur", () => {
    expect(answers.unseen).toEqual([])
  })
})
